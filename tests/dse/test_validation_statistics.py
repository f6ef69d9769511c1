"""Statistics of records: figures on hand-made numbers, ranks, and a reproducible bootstrap."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr

from dse.validation import statistics
from dse.validation.record import Record, held_out


def record(number: int, predicted: float | None, measured: float, **more: object) -> Record:
    values = {
        "id": f"r{number}",
        "source": f"source {number // 2}",
        "stack": "",
        "tpu": "v6e",
        "kind": "matmul",
        "model": "m",
        "confidence": "A",
        "predicted": predicted,
        "measured": measured,
        "unit": "s",
    }
    return Record(**(values | more))  # type: ignore[arg-type]


def test_errors_and_bias_of_hand_made_numbers() -> None:
    rows = [record(i, 1 + e, 1.0) for i, e in enumerate([-0.1, 0.0, 0.1, 0.2, 0.5])]
    rows.append(record(9, None, 1.0, reason_if_skipped="no batch"))
    found = statistics.summarise(rows)
    assert (found.n, found.groups) == (5, 3)
    assert found.median.value == pytest.approx(0.1)
    assert found.p90.value == pytest.approx(np.quantile([0.1, 0, 0.1, 0.2, 0.5], 0.9))
    assert found.bias.value == pytest.approx(0.1)
    assert found.rank.value is None and found.coverage.value is None
    assert found.median.low is not None and found.median.low <= 0.1 <= found.median.high  # type: ignore[operator]


def test_nothing_predicted() -> None:
    assert statistics.summarise([record(0, None, 1.0, reason_if_skipped="x")]).n == 0


def test_weighted_quantile_is_that_of_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    values, weights = rng.random(13), rng.integers(0, 4, (50, 13)).astype(float)
    for share in (0.1, 0.5, 0.9):
        found = statistics.quantile(values, share)(weights)
        wanted = [np.quantile(np.repeat(values, w.astype(int)), share) for w in weights]
        assert found == pytest.approx(wanted)


def test_weighted_spearman_is_that_of_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 6, 15).astype(float), rng.random(15)
    weights = rng.integers(0, 4, (40, 15)).astype(float)
    found = statistics.spearman(a, b)(weights)
    for value, row in zip(found, weights.astype(int), strict=True):
        assert value == pytest.approx(spearmanr(np.repeat(a, row), np.repeat(b, row)).statistic)
    assert np.isnan(statistics.spearman(np.ones(15), b)(weights)).all()


def test_bootstrap_is_reproducible_and_resamples_whole_groups() -> None:
    rows = [record(i, 1 + 0.01 * i, 1.0) for i in range(20)]
    assert statistics.summarise(rows) == statistics.summarise(rows)
    weights = statistics.group_weights(tuple(r.group for r in rows))
    assert weights is not None and weights.shape == (statistics.DRAWS, 20)
    assert (weights[:, 0::2] == weights[:, 1::2]).all()  # two rows a group
    assert (weights.sum(axis=1) == 20).all()
    one = [replace(r, source="s") for r in rows]
    alone = statistics.summarise(one).median
    assert alone.value is not None and alone.low is None


def test_more_groups_narrow_the_interval() -> None:
    rng = np.random.default_rng(2)
    rows = [record(2 * i, float(np.exp(rng.normal(0, 0.1))), 1.0) for i in range(400)]
    few, many = (statistics.summarise(rows[:n]).median for n in (12, 400))
    assert many.high - many.low < 0.5 * (few.high - few.low)  # type: ignore[operator]


def test_efficiency_ranks_what_a_roofline_cannot_see() -> None:
    """Equal work at falling efficiency: the model orders it, the roofline has no order to offer."""
    rows = [
        record(i, 2.0 + 0.1 * i, 1.0 + 0.1 * i, roofline=0.9, peak=0.9, higher_is_better=False)
        for i in range(10)
    ]
    found = statistics.summarise(rows)
    assert found.rank.value == pytest.approx(1.0)
    assert found.rank_roofline.value is None
    reverse = [replace(r, predicted=5 - (r.predicted or 0)) for r in rows]
    assert statistics.summarise(reverse).rank.value == pytest.approx(-1.0)
    assert statistics.summarise(rows[:7]).rank.value is None


def test_roofline_ranks_by_share_of_the_peak() -> None:
    rows = [
        record(i, 1.0, 2.0 / (1 + i), roofline=1.0 / (1 + i), peak=0.01, tpu="v5e")
        for i in range(9)
    ]
    found = statistics.summarise(rows)
    assert found.rank_roofline.value == pytest.approx(1.0)
    assert found.rank_peak.value is None  # this model predicts one share for all


def test_rates_and_times_rank_alike() -> None:
    rng = np.random.default_rng(3)
    times = [
        record(i, *rng.uniform(1, 2, 2), roofline=float(rng.uniform(0.5, 1))) for i in range(12)
    ]
    rates = [
        replace(
            r,
            predicted=1 / r.predicted,  # type: ignore[operator]
            measured=1 / r.measured,
            roofline=1 / r.roofline,  # type: ignore[operator]
            higher_is_better=True,
        )
        for r in times
    ]
    assert statistics.efficiency_rank(times) == statistics.efficiency_rank(rates)


def test_coverage_counts_rows_never_fitted() -> None:
    rows = [record(2 * i, 1.0, 1.0 + 0.05 * i, low=0.9, high=1.2) for i in range(10)]
    fresh = [r for r in rows if r.held_out]
    found = statistics.summarise(rows)
    assert 0 < len(fresh) < 10 and found.n_covered == len(fresh)
    assert found.coverage.value == pytest.approx(np.mean([r.measured <= 1.2 for r in fresh]))
    every = statistics.summarise(rows, unfitted=True)
    assert every.n_covered == 10 and every.coverage.value == pytest.approx(0.5)
    assert every.width.value == pytest.approx(0.15)


def test_held_out_is_a_third() -> None:
    share = np.mean([held_out(f"source {i}|v6e|model") for i in range(3000)])
    assert 0.30 < share < 0.37
