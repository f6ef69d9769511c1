"""Which mappings of a candidate are worth the tile rung: the best few at the analytical rung."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dse.spec import SolveSpec

MAPPINGS = 8
"""Mappings of each candidate that the tile rung plays."""

SPARE_SHARE = 0.1
"""Distance from every limit that some of them keep: the tile rung may find them slower."""

_WITH_SPARE = 3


def shortlist(
    spec: SolveSpec | None,
    metrics: Mapping[str, NDArray[np.float64]],
    worst: NDArray[np.float64],
) -> NDArray[np.intp]:
    """Up to `MAPPINGS` of G mappings, `metrics` and `worst` of shape [G], best first.

    Legal ones by the solve objective, those that miss a limit behind those that do not; the last
    `_WITH_SPARE` places go to the best that keep `SPARE_SHARE` off every limit. Without a legal one
    the closest to legal.
    """
    if spec is None or not (worst <= 0).any():
        return np.argsort(worst, kind="stable")[:MAPPINGS]
    value = metrics[spec.objective.metric]
    value = -value if spec.objective.direction == "maximize" else value

    def order(spare: float) -> list[int]:
        missed = sum(
            (np.maximum(c.violation(c.value(metrics)) + spare, 0.0) for c in spec.limits),
            np.zeros(len(worst)),
        )
        missed = np.where(worst <= 0, missed, np.inf)
        return [int(i) for i in np.lexsort((value, missed))[:MAPPINGS] if worst[i] <= 0]

    first = order(0.0)
    chosen = first[: MAPPINGS - _WITH_SPARE]
    chosen += [i for i in [*order(SPARE_SHARE), *first] if i not in chosen]
    return np.array(list(dict.fromkeys(chosen))[:MAPPINGS])
