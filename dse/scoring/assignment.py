"""One assignment of a study (a model under a workload on the chip) as a batch evaluator over
indices."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.scoring.batch import BatchEvaluator
from dse.scoring.fields import base_values, field_names
from dse.scoring.tile import TileEvaluator
from dse.spec import AssignmentSpec, StudySpec
from dse.spec.mapping import mapping_grid
from dse.spec.study import TILE
from hwmodel import presets, theta
from models.deployment import Deployment
from models.variants import NEUTRAL, expand
from search_spaces.fields import FieldTable
from search_spaces.knob import Choice, Knob
from search_spaces.space import Space

AS_IT_IS = "as it is"
"""Label of the extra last choice of every chip and model knob: the base chip, the released
model."""


@dataclass(frozen=True)
class Assignment:
    """What scoring needs of one assignment.

    evaluator: scores int32 rows over `space`, the study's sampled knobs followed by the solved
    ones; its chip and model knobs have one choice more than the study's, `AS_IT_IS`. final: the
    evaluator of the study's fidelity, whose numbers are told; `evaluator` ranks mappings. grid:
    index rows of the mappings to solve over, [G, solved knobs]; one empty row without `solve`.
    """

    spec: AssignmentSpec
    space: Space
    evaluator: BatchEvaluator
    final: BatchEvaluator | TileEvaluator
    grid: NDArray[np.int32]

    @property
    def prefix(self) -> str:
        """Prefix of this assignment's own names in a portfolio, else empty."""
        return f"{self.spec.name}." if self.spec.name else ""


def build(study: StudySpec, spec: AssignmentSpec) -> Assignment:
    """Prepare one assignment: fields, architecture and mapping grid. Imports JAX."""
    base = base_fields(study, spec)
    knobs = [
        _with_base(knob, base) if knob.section in ("chip", "model") else knob
        for knob in study.space().knobs
    ]
    space = Space((*knobs, *spec.solved_knobs))
    table = FieldTable.build(space, field_names(base), base, assignment=spec.name or None)
    windowed = any("window_share" in knob.fields for knob in spec.model_knobs)
    evaluator = BatchEvaluator(
        table,
        expand(spec.architecture, window=windowed),
        base,
        theta.central(),
        math.nan if spec.training_tokens is None else spec.training_tokens,
    )
    grid = mapping_grid(spec) if spec.solve else np.zeros((1, 0), np.int32)
    final = TileEvaluator(evaluator) if study.fidelity == TILE else evaluator
    return Assignment(spec, space, evaluator, final, np.asarray(grid, np.int32))


def base_fields(study: StudySpec, spec: AssignmentSpec) -> dict[str, float]:
    """The value of every field that no knob sets."""
    chip = presets.load(study.chip_base)
    return base_values(chip, NEUTRAL, Deployment(), spec.workload) | spec.fixed_fields


def _with_base(knob: Knob, base: dict[str, float]) -> Knob:
    neutral = Choice(AS_IT_IS, {field: base[field] for field in knob.fields})
    return dataclasses.replace(knob, choices=(*knob.choices, neutral))


def reference_row(study: StudySpec) -> NDArray[np.int32]:
    """The base chip and the released model: the extra choice of each chip and model knob."""
    return np.array(
        [
            len(knob.choices) if knob.section in ("chip", "model") else 0
            for knob in study.space().knobs
        ],
        np.int32,
    )
