"""The nearest change that makes an illegal candidate legal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from search_spaces.space import Space

Violation = Callable[[NDArray[np.int32]], NDArray[np.float64]]
SECOND_STEPS = 6


def nearest_legal(space: Space, row: NDArray[np.int32], violation: Violation) -> str:
    """One or two knob changes that make `row` legal, as a sentence; or how close they come.

    space: the knobs that may change, int32[knobs]. violation: [n, knobs] -> [n], <= 0 where legal.
    Single changes are tried first (neighbouring settings of ordered knobs), then a second change
    after each of the most promising first ones. Among legal ones the first in knob order wins.
    """
    first = space.neighbours(row)
    if not len(first):
        return "the study fixes every knob that could change this"
    amount = violation(first)
    if (amount <= 0).any():
        return _change(space, row, first[np.argmax(amount <= 0)])
    promising = first[np.argsort(amount, kind="stable")[:SECOND_STEPS]]
    second = np.unique(np.concatenate([space.neighbours(r) for r in promising]), axis=0)
    amounts = violation(second)
    if (amounts <= 0).any():
        return _change(space, row, second[np.argmax(amounts <= 0)])
    every, values = np.concatenate([first, second]), np.concatenate([amount, amounts])
    closest, over = every[np.argmin(values)], float(values.min())
    if over >= float(violation(row[None, :])[0]):
        return "no one or two changes of the study's knobs bring it closer"
    return (
        f"no one or two changes are enough; {_change(space, row, closest)} comes closest "
        f"(still {over:.0%} over)"
    )


def _change(space: Space, before: NDArray[np.int32], after: NDArray[np.int32]) -> str:
    old, new = space.labels(before), space.labels(after)
    changed = [f"{name} {old[name]} -> {new[name]}" for name in old if old[name] != new[name]]
    return " and ".join(changed)
