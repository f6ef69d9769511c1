"""Solving the mapping: the best of a grid for each (chip, variant), and the others worth
keeping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import moocore
import numpy as np
from numpy.typing import NDArray

from dse.spec import Constraint, Objective, SolveSpec

KEPT_MAPPINGS = 16

Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Solved:
    """The outcome for one candidate: indices into its grid.

    best: the chosen mapping, or the one closest to legal. kept: other non-dominated mappings.
    status: "ok", "illegal" (no mapping can exist) or "limits" (none meets the solve limits).
    violation: how far `best` is from legal or from the limits. blocking: the limit missed most.
    """

    best: int
    kept: tuple[int, ...]
    status: str
    violation: float
    blocking: str = ""


def solve(
    spec: SolveSpec | None,
    metrics: Columns,
    worst: NDArray[np.float64],
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
) -> Solved:
    """Choose among G mappings of one candidate; `metrics` and `worst` have shape [G].

    The best legal mapping by the solve objective within its limits. Kept are up to 16 others that
    meet the limits and the study's constraints and that no mapping dominates in the study's
    objectives.
    """
    legal = worst <= 0
    if not legal.any():
        closest = int(np.argmin(worst))
        return Solved(closest, (), "illegal", float(worst[closest]))
    if spec is None:
        return Solved(0, (), "ok", 0.0)
    misses = {c.text: np.maximum(c.violation(c.value(metrics)), 0.0) for c in spec.limits}
    missed = sum(misses.values(), np.zeros(len(worst)))
    missed = np.where(legal, missed, np.inf)
    if missed.min() > 0:
        closest = int(np.argmin(missed))
        blocking = max(misses, key=lambda text: misses[text][closest])
        return Solved(closest, (), "limits", float(missed[closest]), blocking)
    usable = np.flatnonzero(missed == 0)
    value = metrics[spec.objective.metric][usable]
    maximize = spec.objective.direction == "maximize"
    best = int(usable[np.argmax(value) if maximize else np.argmin(value)])
    for constraint in constraints:
        usable = usable[constraint.violation(constraint.value(_rows(metrics, usable))) <= 0]
    return Solved(best, _kept(metrics, usable, best, objectives), "ok", 0.0)


def _rows(metrics: Columns, chosen: NDArray[np.intp]) -> Columns:
    return {name: column[chosen] for name, column in metrics.items()}


def _kept(
    metrics: Columns, usable: NDArray[np.intp], best: int, objectives: Sequence[Objective]
) -> tuple[int, ...]:
    """Non-dominated mappings, thinned evenly along the first objective that the mapping moves."""
    columns = []
    for objective in objectives:
        values = metrics[objective.metric][usable]
        if len(values) and np.ptp(values) > 0:
            columns.append(-values if objective.direction == "maximize" else values)
    if not columns:
        return ()
    points = np.stack(columns, axis=1)
    front = usable[moocore.is_nondominated(points, keep_weakly=False)]
    front = front[front != best]
    order = np.argsort(metrics[objectives[0].metric][front], kind="stable")
    front = front[order]
    if len(front) > KEPT_MAPPINGS:
        front = front[np.unique(np.linspace(0, len(front) - 1, KEPT_MAPPINGS).round().astype(int))]
    return tuple(int(i) for i in front)
