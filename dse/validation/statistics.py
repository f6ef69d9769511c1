"""Figures of a set of records: errors, bias, rank correlation, coverage, each with an interval.

A figure is a function of weighted rows, so that its value (every row once) and its bootstrap (rows
as often as their group was drawn) come from the same code. Rows of one group (source, chip, model)
share the error of one measurement set-up: whole groups are resampled.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.validation.record import Record

DRAWS = 2000
SEED = 3
LEVEL = 0.9
"""Probability of the bootstrap intervals."""

MIN_RANKED = 8
"""Fewest rows of one kind and chip over which a rank correlation is stated."""

Array = NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""From row weights [draws, n] to one number per draw."""


@dataclass(frozen=True)
class Figure:
    """A number with its group-bootstrap interval; low and high are None with fewer than two groups,
    value too where there is nothing to compute it from."""

    value: float | None
    low: float | None = None
    high: float | None = None


NONE = Figure(None)


@dataclass(frozen=True)
class Summary:
    """The figures of one set of records.

    n, groups: predicted rows and their groups. median, p90: of |predicted / measured - 1|. bias:
    median of predicted / measured - 1. rank: see `efficiency_rank`; rank_peak, rank_roofline: see
    `peak_rank`, of the model and of the plain roofline. coverage: share of the n_covered
    never-fitted rows with an interval whose measurement lies inside. width: median half-width of
    those intervals over the prediction; width_ratio: over their median error.
    """

    n: int
    groups: int
    median: Figure = NONE
    p90: Figure = NONE
    bias: Figure = NONE
    rank: Figure = NONE
    rank_peak: Figure = NONE
    rank_roofline: Figure = NONE
    coverage: Figure = NONE
    n_covered: int = 0
    width: Figure = NONE
    width_ratio: Figure = NONE


def summarise(records: Sequence[Record], *, unfitted: bool = False) -> Summary:
    """Figures of the predicted ones among `records`.

    unfitted: whether no row was fitted (another fold, the user's own measurements); else only
    held-out rows count for the coverage.
    """
    rows = predicted(records)
    groups = len({r.group for r in rows})
    if not rows:
        return Summary(0, 0)
    ratio = ratios(rows)
    fresh = [r for r in rows if r.low is not None and (unfitted or r.held_out)]
    return Summary(
        n=len(rows),
        groups=groups,
        median=figure(rows, quantile(abs(ratio - 1), 0.5)),
        p90=figure(rows, quantile(abs(ratio - 1), 0.9)),
        bias=figure(rows, quantile(ratio - 1, 0.5)),
        rank=efficiency_rank(rows, bootstrap=False),
        rank_peak=peak_rank(rows),
        rank_roofline=peak_rank(rows, roofline=True),
        n_covered=len(fresh),
        **_interval_figures(fresh),
    )


def predicted(records: Sequence[Record]) -> list[Record]:
    """Those with a prediction."""
    return [r for r in records if r.predicted is not None]


def ratios(rows: Sequence[Record]) -> Array:
    """predicted / measured of predicted rows."""
    return np.array([(r.predicted or np.nan) / r.measured for r in rows])


def roofline_ratios(rows: Sequence[Record]) -> Array:
    """Plain roofline / measured."""
    return np.array([(r.roofline or np.nan) / r.measured for r in rows])


def _interval_figures(rows: Sequence[Record]) -> dict[str, Figure]:
    if not rows:
        return {}
    error = abs(ratios(rows) - 1)
    half = np.array([half_width(r) for r in rows])
    inside = np.array([covered(r) for r in rows], dtype=float)
    widths, errors = quantile(half, 0.5), quantile(error, 0.5)

    def ratio(weights: Array) -> Array:
        below = errors(weights)
        return np.divide(widths(weights), below, out=np.full(len(below), np.nan), where=below > 0)

    return {
        "coverage": figure(rows, mean(inside)),
        "width": figure(rows, widths),
        "width_ratio": figure(rows, ratio),
    }


def half_width(record: Record) -> float:
    """Half the width of a record's interval, over the prediction."""
    assert record.low is not None and record.high is not None and record.predicted
    return (record.high - record.low) / (2 * record.predicted)


def covered(record: Record) -> bool:
    """Whether the measurement lies inside the interval."""
    assert record.low is not None and record.high is not None
    return record.low <= record.measured <= record.high


def inside(record: Record) -> bool | None:
    """`covered`, or None for a row without an interval."""
    return None if record.low is None or record.high is None else covered(record)


def error_of(record: Record) -> float | None:
    """predicted / measured - 1, or None for a skipped row."""
    return None if record.predicted is None else record.predicted / record.measured - 1


def efficiency_rank(rows: Sequence[Record], *, bootstrap: bool = True) -> Figure:
    """Spearman correlation of predicted and measured efficiency, achieved over plain roofline, over
    rows of one kind and chip: how well the model orders what a roofline cannot see.

    NONE with fewer than MIN_RANKED rows that state a roofline, and where either side is constant.
    """
    return _rank([r for r in rows if r.roofline], "roofline", "predicted", bootstrap)


def peak_rank(rows: Sequence[Record], *, roofline: bool = False) -> Figure:
    """The same of the share of the chip's peak, achieved over `Record.peak`, for the model or for
    the plain roofline.

    A roofline predicts efficiency 1 for every row, which has no order, so it cannot be judged by
    efficiency. Of the share of the peak it has an opinion: FLOPs and bytes order the rows. Both are
    judged by it, so that the roofline's figure has one of the model's to be compared with. Without
    bootstrap intervals.
    """
    told = [r for r in rows if r.roofline and r.peak]
    return _rank(told, "peak", "roofline" if roofline else "predicted", bootstrap=False)


def _rank(rows: Sequence[Record], base: str, guess: str, bootstrap: bool) -> Figure:
    if len(rows) < MIN_RANKED:
        return NONE
    bases = np.array([getattr(r, base) for r in rows])
    guesses = np.array([getattr(r, guess) for r in rows])
    rates = np.array([r.higher_is_better for r in rows])
    measured = np.array([r.measured for r in rows])
    ranks = spearman(_share(bases, guesses, rates), _share(bases, measured, rates))
    return figure(rows, ranks, bootstrap=bootstrap)


def _share(base: Array, value: Array, rates: NDArray[np.bool_]) -> Array:
    """How much of `base` a value achieves; rounded, for equal shares are equal ranks."""
    share: Array = np.where(rates, value / base, base / value)
    return share.round(12)


def figure(rows: Sequence[Record], statistic: Statistic, *, bootstrap: bool = True) -> Figure:
    """A statistic of all rows and its group-bootstrap interval, without which it is much faster."""
    value = float(statistic(np.ones((1, len(rows))))[0])
    if not np.isfinite(value):
        return NONE
    weights = group_weights(tuple(r.group for r in rows)) if bootstrap else None
    if weights is None:
        return Figure(value)
    draws = statistic(weights)
    draws = draws[np.isfinite(draws)]
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(value, float(low), float(high))


@functools.lru_cache(maxsize=2)
def group_weights(groups: tuple[str, ...], draws: int = DRAWS, seed: int = SEED) -> Array | None:
    """How often each row counts in each resample of the groups, [draws, n]; None for one group."""
    names, of_row = np.unique(np.array(groups), return_inverse=True)
    count = len(names)
    if count < 2:
        return None
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(count, np.full(count, 1 / count), size=draws)
    weights: Array = counts[:, of_row].astype(float)
    return weights


def mean(values: Array) -> Statistic:
    """Weighted mean."""
    return lambda weights: (weights @ values) / weights.sum(axis=1)


def quantile(values: Array, share: float) -> Statistic:
    """`numpy.quantile` of the values, each repeated as often as its weight says."""
    order = np.argsort(values)
    sorted_values = values[order]

    def statistic(weights: Array) -> Array:
        above = np.cumsum(weights[:, order], axis=1)
        position = share * (above[:, -1] - 1)
        floor = np.floor(position)
        low = sorted_values[_first_beyond(above, floor)]
        high = sorted_values[_first_beyond(above, np.ceil(position))]
        picked: Array = low + (high - low) * (position - floor)
        return picked

    return statistic


def _first_beyond(above: Array, index: Array) -> NDArray[np.intp]:
    """Position of the sorted row that holds repeated row `index` [draws]."""
    found: NDArray[np.intp] = (above <= index[:, None]).sum(axis=1)
    return found


def spearman(a: Array, b: Array) -> Statistic:
    """Weighted rank correlation, ties at their mean rank; NaN where a side is constant."""

    def statistic(weights: Array) -> Array:
        x, y = _ranks(a, weights), _ranks(b, weights)
        total = weights.sum(axis=1, keepdims=True)
        x = x - (weights * x).sum(axis=1, keepdims=True) / total
        y = y - (weights * y).sum(axis=1, keepdims=True) / total
        spread = (weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1)
        shared = (weights * x * y).sum(axis=1)
        out = np.full(len(weights), np.nan)
        np.divide(shared, np.sqrt(spread), out=out, where=spread > 0)
        return out

    return statistic


def _ranks(values: Array, weights: Array) -> Array:
    """Mean rank of each row [draws, n] when rows repeat as often as their weight says."""
    _, first, of_row = np.unique(np.sort(values), return_index=True, return_inverse=True)
    order = np.argsort(values)
    per_value = np.add.reduceat(weights[:, order], first, axis=1)
    below = np.cumsum(per_value, axis=1) - per_value
    ranks = np.empty_like(weights)
    ranks[:, order] = (below + (per_value + 1) / 2)[:, of_row]
    return ranks
