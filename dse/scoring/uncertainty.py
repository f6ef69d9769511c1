"""What the intervals of candidates depend on: where they lie, and how far draws move them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.scoring.assignment import Assignment, base_fields
from dse.scoring.fields import assemble, field_names
from dse.spec import StudySpec
from dse.spec.study import TILE
from dse.validation.evidence import CLASSES, Case, Ratios
from dse.validation.features import features_by_class
from models.architecture import MoE
from search_spaces.fields import FieldTable

Draws = Mapping[str, NDArray[np.float64]]
LOW, HIGH = 0.1, 0.9
"""Quantiles of the draws that bound 80 % of them."""


def cases(
    study: StudySpec,
    assignments: Sequence[Assignment],
    rows: Sequence[NDArray[np.int32]],
    draws: Sequence[Draws],
) -> list[Case]:
    """One per candidate. rows: of each assignment, [n, all knobs]. draws: its metrics by name under
    paired draws, [draws, n] (`dse.scoring.feasibility.outcomes`)."""
    centres = [
        dict(zip(a.evaluator.metrics, a.final(own).metrics, strict=True))
        for a, own in zip(assignments, rows, strict=True)
    ]
    parts = [_features(study, a, own) for a, own in zip(assignments, rows, strict=True)]
    blocks = [f for a in assignments for f in a.spec.architecture.feed_forwards]
    moe = any(isinstance(f, MoE) for f in blocks)
    return [
        Case(
            features={
                name: [part[i][name] for part in parts] for name in CLASSES if name in parts[0][i]
            },
            moe=moe,
            gpu=any(part[i]["gpu"] for part in parts),
            estimates=_estimates(
                [{k: float(v[i]) for k, v in own.items()} for own in centres],
                [{k: v[:, i] for k, v in own.items()} for own in draws],
            ),
            tile=study.fidelity == TILE,
        )
        for i in range(len(rows[0]))
    ]


def _features(study: StudySpec, a: Assignment, rows: NDArray[np.int32]) -> list[dict[str, Any]]:
    """Of each row: the features by class of prediction, and whether its chip is a GPU."""
    base = base_fields(study, a.spec)
    table = FieldTable.build(a.space, field_names(base), base, a.spec.name or None)
    found = []
    for values in table.decode(rows):
        parts = assemble(dict(zip(table.names, map(float, values), strict=True)))
        features = features_by_class(parts.chip, parts.deployment, parts.workload)
        found.append({**features, "gpu": bool(parts.chip.mxu_row_tile)})
    return found


def _estimates(centres: Sequence[Mapping[str, float]], parts: Sequence[Draws]) -> dict[str, Ratios]:
    """Ends of the draws of each metric over its value, the widest of the assignments."""
    found: dict[str, Ratios] = {}
    for centre, draws in zip(centres, parts, strict=True):
        for name, values in draws.items():
            if not centre[name] > 0:
                continue
            low, high = (float(q) / centre[name] for q in np.quantile(values, [LOW, HIGH]))
            known = found.get(name, (1.0, 1.0))
            found[name] = (min(low, known[0]), max(high, known[1]))
    return found
