"""Fronts and hypervolume, on arrays and with moocore (Optuna's own are 100 to 400 times slower)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

REFERENCE = 1.1  # reference point, in units of the range that the normalisation spans
EXACT_OBJECTIVES = 5  # exact hypervolume up to here; above it takes minutes and is approximated


def signed(values: np.ndarray, directions: Sequence[str]) -> np.ndarray:
    """`values`, float[n, m], with maximised columns negated: smaller is better everywhere."""
    return values * np.where(np.array(directions) == "maximize", -1.0, 1.0)


def nondominated(values: np.ndarray, directions: Sequence[str]) -> np.ndarray:
    """bool[n]: rows of float[n, m] that no other row dominates; of equal rows, the first."""
    import moocore

    if len(values) == 0:
        return np.zeros(0, dtype=bool)
    mask: np.ndarray = moocore.is_nondominated(signed(values, directions))
    return mask


@dataclass(frozen=True)
class Scale:
    """A fixed normalisation, so that hypervolumes of one study can be compared over time.

    Objectives that are positive for all of the designs it was taken from are compared on a log
    scale: rates and costs span decades, and on a linear scale one bad early design would flatten
    everything that follows. ideal and nadir: float[m], of the (signed, logged) reference designs.
    """

    directions: tuple[str, ...]
    logarithmic: np.ndarray
    ideal: np.ndarray
    nadir: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, directions: Sequence[str]) -> Scale:
        """The scale that spans `values`, float[n, m] with n >= 1."""
        logarithmic = np.asarray((values > 0).all(axis=0))
        points = signed(_log(values, logarithmic), directions)
        return cls(tuple(directions), logarithmic, points.min(axis=0), points.max(axis=0))

    def normalise(self, values: np.ndarray) -> np.ndarray:
        """float[n, m]: 0 at the ideal and 1 at the nadir of the reference designs."""
        width = np.where(self.nadir > self.ideal, self.nadir - self.ideal, 1.0)
        points = signed(_log(values, self.logarithmic), self.directions)
        scaled: np.ndarray = (points - self.ideal) / width
        return scaled

    def hypervolume(self, values: np.ndarray) -> float:
        """Volume between `values` and 1.1 in every normalised objective; 0 for no points.

        Exact up to five objectives, above that moocore's deterministic approximation.
        """
        import moocore

        points = self.normalise(values)
        points = points[(points < REFERENCE).all(axis=1)]
        if len(points) == 0:
            return 0.0
        reference = np.full(points.shape[1], REFERENCE)
        if points.shape[1] <= EXACT_OBJECTIVES:
            return float(moocore.hypervolume(points, ref=reference))
        return float(moocore.hv_approx(points, ref=reference, seed=0))


class Tracker:
    """The front and its hypervolume as generations arrive.

    The scale is taken from all scored designs up to the first generation with a feasible one, and
    then stays.
    """

    def __init__(self, directions: Sequence[str]) -> None:
        self._directions = tuple(directions)
        self._seen: list[np.ndarray] = []
        self._scale: Scale | None = None
        self._front = np.zeros((0, len(self._directions)))
        self.hypervolume = 0.0

    def add(self, values: np.ndarray, feasible: np.ndarray) -> None:
        """One generation of scored designs: float[n, m] objective values and bool[n]."""
        if self._scale is None and len(values):
            self._seen.append(values)
            if feasible.any():
                self._scale = Scale.of(np.concatenate(self._seen), self._directions)
                self._seen = []
        if self._scale is None or not feasible.any():
            return
        points = np.concatenate([self._front, values[feasible]])
        keep = nondominated(points, self._directions)
        if keep[len(self._front) :].any():
            self._front = points[keep]
            self.hypervolume = self._scale.hypervolume(self._front)

    @property
    def front_size(self) -> int:
        """Non-dominated feasible designs so far."""
        return len(self._front)


def least_violating(violations: Sequence[dict[str, float]], count: int = 5) -> list[int]:
    """Positions of the `count` designs with the smallest summed violation, best first."""
    total = [sum(max(v, 0.0) for v in row.values()) for row in violations]
    return [int(i) for i in np.argsort(total, kind="stable")[:count]]


def blocking(violations: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    """For each constraint: how many designs break it and the smallest violation, worst first."""
    names = sorted({name for row in violations for name in row})
    rows = []
    for name in names:
        values = [row[name] for row in violations if name in row]
        broken = sum(value > 0 for value in values)
        rows.append({"constraint": name, "violated_by": broken, "smallest": min(values)})
    return sorted(rows, key=lambda row: -row["violated_by"])


def _log(values: np.ndarray, logarithmic: np.ndarray) -> np.ndarray:
    tiny = np.finfo(float).tiny
    return np.where(logarithmic, np.log(np.maximum(values, tiny)), values)
