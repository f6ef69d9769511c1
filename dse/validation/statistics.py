"""Figures of a set of records: errors, bias, rank correlation, coverage, each with an interval.

A figure is a function of weighted rows, so that its value (every row once) and its bootstrap (rows
as often as their group was drawn) come from the same code. Rows of one group (source, chip, model)
share the error of one measurement set-up: whole groups are resampled.
"""

from __future__ import annotations

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
    median of predicted / measured - 1. rank, rank_roofline: see `efficiency_rank`. coverage: share
    of the n_covered never-fitted rows with an interval whose measurement lies inside. width: median
    half-width of those intervals over the prediction; width_ratio: over their median error.
    """

    n: int
    groups: int
    median: Figure = NONE
    p90: Figure = NONE
    bias: Figure = NONE
    rank: Figure = NONE
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
        rank=efficiency_rank(rows),
        rank_roofline=efficiency_rank(rows, roofline=True),
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


def efficiency_rank(rows: Sequence[Record], *, roofline: bool = False) -> Figure:
    """Spearman correlation of what is predicted and measured, over rows of one kind and chip.

    The model is judged by efficiency, achieved over roofline: how well it orders what a roofline
    cannot see. A roofline predicts efficiency 1 for every row, which has no order, so it is judged
    by the easier question of the share of the chip's peak (achieved over `Record.peak`), where its
    bytes and its FLOPs do order rows. Both are NONE with fewer than MIN_RANKED rows that state what
    is needed, and where either side is constant.
    """
    base = "peak" if roofline else "roofline"
    told = [r for r in rows if r.roofline and (not roofline or r.peak)]
    if len(told) < MIN_RANKED:
        return NONE
    bases = np.array([getattr(r, base) for r in told])
    guesses = np.array([r.roofline if roofline else r.predicted for r in told])
    rates = np.array([r.higher_is_better for r in told])
    measured = np.array([r.measured for r in told])
    return figure(told, spearman(_share(bases, guesses, rates), _share(bases, measured, rates)))


def _share(base: Array, value: Array, rates: NDArray[np.bool_]) -> Array:
    """How much of `base` a value achieves; rounded, for equal shares are equal ranks."""
    share: Array = np.where(rates, value / base, base / value)
    return share.round(12)


def figure(rows: Sequence[Record], statistic: Statistic) -> Figure:
    """A statistic of all rows and its group-bootstrap interval."""
    value = float(statistic(np.ones((1, len(rows))))[0])
    if not np.isfinite(value):
        return NONE
    weights = group_weights([r.group for r in rows])
    if weights is None:
        return Figure(value)
    draws = statistic(weights)
    draws = draws[np.isfinite(draws)]
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(value, float(low), float(high))


def group_weights(groups: Sequence[str], draws: int = DRAWS, seed: int = SEED) -> Array | None:
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
    _, of_row = np.unique(values, return_inverse=True)
    width = int(of_row.max()) + 1
    per_value = np.zeros((len(weights), width))
    for row, column in enumerate(of_row):
        per_value[:, column] += weights[:, row]
    below = np.cumsum(per_value, axis=1) - per_value
    ranks: Array = (below + (per_value + 1) / 2)[:, of_row]
    return ranks
