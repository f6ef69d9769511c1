"""Intervals of predictions, from the residuals of rows that no constant was fitted to.

Split-conformal in log space: the half-width of a class of prediction is the quantile of
|log(predicted / measured)| over its held-out rows that the finite sample asks for, the
ceil((n + 1) · 80 %)-th smallest of n. A class with too few rows takes those of the class above it
(`dse.validation.classes`).

Distance widens it. The distance of a case is that to the nearest calibration row, the root mean
square over the features both state, each in units of its spread among those rows. Up to the
distance that calibration rows usually have from rows of other groups the half-width stays; beyond,
it grows in proportion to the relative excess x = distance / usual - 1,

    half_width = q · (1 + slope · min(x, x_tested)) · max(1, (1 + x) / (1 + x_tested)),

with the smallest slope >= 0 under which the predictions of whole generations that were left out of
the fit are covered as often as promised, and x_tested the largest excess among them. Beyond what
any left-out generation tests, nothing measured supports a slower growth than proportional to
distance. Scores of calibration rows are divided by their own factor, so that q means rows nearby.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.validation.classes import belongs, lineage
from dse.validation.features import FEATURES
from dse.validation.record import Record
from dse.validation.residuals import LEFT_OUT, RELEASED, Residual, released

COVERAGE = 0.8
MIN_ROWS = 10
MIN_GROUPS = 3
"""Fewest held-out rows, and groups of them, for a class to have an interval of its own."""

Array = NDArray[np.float64]
Growth = Callable[[float], float]


@dataclass(frozen=True)
class Spread:
    """How wide a prediction is: it lies within exp(±log_half_width) of the truth with COVERAGE.

    name: class whose n rows of some groups it comes from. distance: to the nearest of them in units
    of the usual one, NaN where the case states no features. factor: what that distance widened by.
    """

    log_half_width: float
    name: str
    n: int
    groups: int
    distance: float
    factor: float

    def around(self, value: float) -> tuple[float, float]:
        """Low and high end for a predicted value."""
        return value * math.exp(-self.log_half_width), value * math.exp(self.log_half_width)


class Calibration:
    """Residuals, and the intervals that follow from them."""

    def __init__(self, residuals: Sequence[Residual]) -> None:
        self._residuals = tuple(residuals)
        self._fresh = [r for r in residuals if r.fold == RELEASED and r.held_out]
        self._left_out = [r for r in residuals if r.fold == LEFT_OUT]
        self._known: dict[str, _Pool | None] = {}
        self._kept: dict[tuple[str, str], _Kept] = {}

    def spread(
        self, kind: str, features: Mapping[str, float], *, without_group: str = ""
    ) -> Spread | None:
        """Of a prediction of class `kind` at `features`; None where too few rows were measured.

        without_group: group whose residuals do not count, so that a row never judges itself.
        """
        for pool in self._pools(kind):
            kept = self._without(pool, without_group)
            n = len(kept.points)
            if n >= MIN_ROWS and kept.groups >= MIN_GROUPS and kept.q is not None:
                distance = pool.distance(features, kept.points)
                factor = self._growth(distance)
                return Spread(kept.q * factor, pool.name, n, kept.groups, distance, factor)
        return None

    def without_chip(self, tpu: str) -> Calibration:
        """As if the chip had never been measured."""
        return _without_chip(self, tpu)

    def _without(self, pool: _Pool, group: str) -> _Kept:
        key = (pool.name, group)
        if key not in self._kept:
            rows = pool.groups != group
            quantile = pool.quantile(rows, self._growth)
            groups = len(set(pool.groups[rows].tolist()))
            self._kept[key] = _Kept(pool.points[rows], groups, quantile)
        return self._kept[key]

    def _pools(self, kind: str) -> Iterator[_Pool]:
        """The rows of the class and of those above it, nearest first; no empty ones."""
        for name in lineage(kind):
            if (pool := self._pool(name)) is not None:
                yield pool

    def _pool(self, name: str) -> _Pool | None:
        if name not in self._known:
            rows = [r for r in self._fresh if belongs(r.kind, name)]
            self._known[name] = _Pool.of(name, rows) if rows else None
        return self._known[name]

    def _growth(self, distance: float) -> float:
        """The factor at a distance in units of the usual one."""
        slope, tested = self._growth_rule
        excess = max(0.0, distance - 1.0) if math.isfinite(distance) else 0.0
        widened: float = 1 + slope * min(excess, tested)
        return widened * max(1.0, (1 + excess) / (1 + tested))

    @functools.cached_property
    def _growth_rule(self) -> tuple[float, float]:
        """Slope, and the largest excess that a left-out generation tests; (0, 0) without any."""
        needed, excesses = [], []
        for tpu in sorted({r.tpu for r in self._left_out}):
            others = Calibration([r for r in self._fresh if r.tpu != tpu])
            for r in (r for r in self._left_out if r.tpu == tpu):
                spread = others._unwidened(r)
                if spread is not None and spread.distance > 1:
                    excesses.append(spread.distance - 1)
                    missed = abs(r.log_residual) / spread.log_half_width - 1
                    needed.append(max(0.0, missed) / excesses[-1])
        slope = conformal_quantile(np.array(needed))
        return (slope, max(excesses)) if slope is not None else (0.0, 0.0)

    def _unwidened(self, case: Residual) -> Spread | None:
        spread = self.spread(case.kind, case.features, without_group=case.group)
        return spread and replace(spread, log_half_width=spread.log_half_width / spread.factor)


@functools.cache
def calibration() -> Calibration:
    """That of the released residuals."""
    return Calibration(released())


def attach(
    records: Sequence[Record], source: Calibration, *, as_unseen_chip: bool = False
) -> list[Record]:
    """The records with their 80 % intervals, each from residuals of other groups.

    as_unseen_chip: from residuals of other chips, as for a generation that nobody has measured.
    """
    found = []
    for r in records:
        judge = source.without_chip(r.tpu) if as_unseen_chip else source
        spread = judge.spread(r.kind, r.features, without_group=r.group)
        if r.predicted is not None and spread is not None:
            low, high = spread.around(r.predicted)
            r = replace(r, low=low, high=high)
        found.append(r)
    return found


def conformal_quantile(scores: Array, coverage: float = COVERAGE) -> float | None:
    """The ceil((n + 1) · coverage)-th smallest score; None where n is too small for it."""
    rank = math.ceil((len(scores) + 1) * coverage)
    return float(np.sort(scores)[rank - 1]) if 0 < rank <= len(scores) else None


@dataclass(frozen=True)
class _Kept:
    """What is left of a pool without one group: points, number of groups, conformal quantile."""

    points: Array
    groups: int
    q: float | None


@dataclass(frozen=True)
class _Pool:
    """The calibration rows of one class: points [n, features], and the unit of their distances.

    nearest [n]: of each row to those of other groups, in units of the usual distance.
    """

    name: str
    groups: NDArray[np.str_]
    errors: Array
    points: Array
    scale: Array
    usual: float
    nearest: Array

    @classmethod
    def of(cls, name: str, rows: Sequence[Residual]) -> _Pool:
        """That of some rows."""
        groups = np.array([r.group for r in rows])
        points = np.array([[r.features.get(f, np.nan) for f in FEATURES] for r in rows])
        scale = _spreads(points)
        apart = _distances(points, points, scale)
        apart[groups[:, None] == groups[None, :]] = np.inf
        nearest = apart.min(axis=1)
        known = nearest[np.isfinite(nearest)]
        usual = max(1.0, float(np.quantile(known, COVERAGE))) if len(known) else 1.0
        errors = np.array([abs(r.log_residual) for r in rows])
        return cls(name, groups, errors, points, scale, usual, nearest / usual)

    def quantile(self, kept: NDArray[np.bool_], growth: Growth) -> float | None:
        """Conformal quantile of the kept rows, each over the factor of its own distance."""
        factors = np.array([growth(d) for d in self.nearest[kept]])
        return conformal_quantile(self.errors[kept] / factors)

    def distance(self, features: Mapping[str, float], points: Array) -> float:
        """To the nearest of some points in units of the usual distance; NaN without common
        features."""
        case = np.array([features.get(name, np.nan) for name in FEATURES])
        nearest = _distances(case[None], points, self.scale).min()
        return float(nearest / self.usual) if np.isfinite(nearest) else math.nan


def _spreads(points: Array) -> Array:
    """Standard deviation of each feature, at least a factor of two: one that hardly varies among
    the rows says nothing of how far is far."""
    out = np.full(points.shape[1], math.log(2.0))
    for column, values in enumerate(points.T):
        told = values[np.isfinite(values)]
        if len(told) > 1:
            out[column] = max(out[column], float(told.std()))
    return out


def _distances(cases: Array, points: Array, scale: Array) -> Array:
    """Root mean square over common features [cases, points]; infinite where there are none."""
    apart = (cases[:, None, :] - points[None, :, :]) / scale
    known = np.isfinite(apart)
    count = known.sum(axis=2)
    squares = np.where(known, apart, 0.0) ** 2
    mean = squares.sum(axis=2) / np.maximum(count, 1)
    return np.where(count > 0, np.sqrt(mean), np.inf)


@functools.lru_cache(maxsize=64)
def _without_chip(source: Calibration, tpu: str) -> Calibration:
    return Calibration([r for r in source._residuals if r.tpu != tpu])
