"""Portfolio metrics: weighted means, worst cases and regret over the assignments of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dse.metrics import metrics
from dse.spec import Constraint, Objective


def combine(
    names: Sequence[str],
    weights: Sequence[float],
    scores: Sequence[Mapping[str, float]],
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
    own_best: Mapping[str, Sequence[float]],
) -> dict[str, float]:
    """Metrics of a candidate from those of its assignments.

    Chip metrics keep their name, the others become `<assignment>.<metric>`. Aggregates are named as
    in the study (`mean(m)`, `worst(m)`, `worst_regret(m)`); a constraint on a plain metric holds
    for every assignment, so the worst value stands under the plain name. own_best: per metric, the
    best value found for each assignment alone.
    """
    out: dict[str, float] = {}
    for name, score in zip(names, scores, strict=True):
        for metric, value in score.items():
            known = metrics().get(metric)
            if known is not None and known.scope == "chip":
                out[metric] = value
            else:
                out[f"{name}.{metric}"] = value
    for objective in objectives:
        values = np.array([score[objective.metric] for score in scores])
        if objective.aggregate == "mean":
            out[objective.text] = float(np.average(values, weights=weights))
        elif objective.aggregate == "worst":
            worst = values.min() if objective.direction == "maximize" else values.max()
            out[objective.text] = float(worst)
        elif objective.aggregate == "worst_regret":
            out[objective.text] = _regret(objective.metric, values, own_best[objective.metric])
        else:
            out[objective.text] = float(values[0])
    for constraint in constraints:
        if constraint.metric not in out:
            values = np.array([constraint.value(score) for score in scores])
            out[constraint.metric] = float(values.max() if constraint.op == "<=" else values.min())
    return out


def _regret(metric: str, values: np.ndarray, best: Sequence[float]) -> float:
    """Largest share by which an assignment falls short of its own best; 0 where it beats it."""
    shortfall = 1 - values / np.array(best)
    if metrics()[metric].better == "lower":
        shortfall = values / np.array(best) - 1
    return float(max(shortfall.max(), 0.0))
