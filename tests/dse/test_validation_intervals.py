"""Conformal intervals: coverage on synthetic residuals, pooling, honesty, and widening with
distance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dse.validation import intervals, residuals, statistics
from dse.validation.classes import PARENTS, belongs, lineage
from dse.validation.intervals import Calibration, attach, conformal_quantile
from dse.validation.record import KINDS, Record
from dse.validation.residuals import Residual

CHIPS = ("v4", "v5e", "v5p", "v6e", "v7x")


def synthetic(
    count: int, sigma: float = 0.1, kind: str = "decode", fold: str = "released", seed: int = 0
) -> list[Residual]:
    """Held-out residuals of three rows a group, normal in log space, at normal features."""
    rng = np.random.default_rng(seed)
    return [
        Residual(
            id=f"{kind}{i}",
            kind=kind,
            tpu=CHIPS[i // 3 % len(CHIPS)],
            group=f"{kind} group {i // 3}",
            held_out=True,
            fold=fold,
            log_residual=float(rng.normal(0, sigma)),
            features={"log_peak_flops": float(rng.normal(0, 2)), "log_chips": float(rng.normal())},
        )
        for i in range(count)
    ]


def test_quantile_of_a_finite_sample() -> None:
    scores = np.arange(1.0, 10.0)  # nine: the eighth is the smallest that promises 80 %
    assert conformal_quantile(scores) == 8.0
    assert conformal_quantile(scores[:4]) == 4.0
    assert conformal_quantile(scores[:3]) is None
    assert conformal_quantile(np.array([])) is None


def test_coverage_of_a_known_distribution() -> None:
    source = Calibration(synthetic(600))
    spread = source.spread("decode", {"log_peak_flops": 0.0, "log_chips": 0.0})
    assert spread is not None and spread.factor == 1.0 and spread.name == "decode"
    assert spread.log_half_width == pytest.approx(1.2816 * 0.1, rel=0.15)  # 80 % of a normal
    rng = np.random.default_rng(9)
    truths = np.exp(rng.normal(0, 0.1, 4000))
    low, high = spread.around(1.0)
    assert np.mean((low <= truths) & (truths <= high)) == pytest.approx(0.8, abs=0.03)


def test_small_samples_still_cover_on_average() -> None:
    """The finite-sample correction: over many sets of 12 rows at least 80 % is covered."""
    rng = np.random.default_rng(5)
    hits = []
    for seed in range(300):
        source = Calibration([replace(r, features={}) for r in synthetic(12, seed=seed)])
        spread = source.spread("decode", {})
        assert spread is not None
        hits.append(abs(rng.normal(0, 0.1, 50)) <= spread.log_half_width)
    assert 0.79 <= np.mean(hits) <= 0.88


def test_few_rows_are_pooled_with_the_class_above() -> None:
    rows = synthetic(30, 0.1, "decode") + synthetic(6, 0.5, "prefill") + synthetic(30, 0.3, "hbm")
    source = Calibration(rows)
    assert source.spread("decode", {}).name == "decode"  # type: ignore[union-attr]
    prefill = source.spread("prefill", {})
    assert prefill is not None and prefill.name == "serving" and prefill.n == 36
    moe = source.spread("train_moe", {})
    assert moe is not None and moe.name == "tpu" and moe.n == 66
    assert source.spread("gpu_gemm", {}) is None  # a GPU is never judged by TPU rows
    assert Calibration([]).spread("decode", {}) is None


def test_one_group_is_no_sample() -> None:
    rows = [replace(r, group="same") for r in synthetic(40)]
    assert Calibration(rows).spread("decode", {}) is None


def test_only_rows_never_fitted_count() -> None:
    fitted = [replace(r, held_out=False, log_residual=0.0) for r in synthetic(300, seed=1)]
    both = Calibration(synthetic(60) + fitted).spread("decode", {})
    alone = Calibration(synthetic(60)).spread("decode", {})
    assert both == alone


def test_a_row_never_judges_itself() -> None:
    """One group far off: its own interval comes from the others, and misses it."""
    rows = synthetic(60)
    odd = [replace(r, log_residual=3.0, group="odd", id=f"odd{i}") for i, r in enumerate(rows[:30])]
    source = Calibration(rows + odd)
    own = source.spread("decode", {}, without_group="odd")
    assert own is not None and own.log_half_width < 0.3
    assert source.spread("decode", {}).log_half_width > 1.0  # type: ignore[union-attr]


def test_distance_widens() -> None:
    source = Calibration(synthetic(120))
    widths = []
    for far in (0.0, 10.0, 20.0, 40.0):
        spread = source.spread("decode", {"log_peak_flops": far, "log_chips": 0.0})
        assert spread is not None
        widths.append(spread.log_half_width)
    assert widths == sorted(widths) and widths[-1] > 2 * widths[0]
    assert widths[-1] / widths[-2] == pytest.approx(2.0, rel=0.3)  # in proportion, far away
    unknown = source.spread("decode", {"log_tokens_per_chip": 3.0})
    assert unknown is not None and math.isnan(unknown.distance) and unknown.factor == 1.0


def test_left_out_generations_set_the_slope() -> None:
    near = [
        replace(r, features={"log_peak_flops": float(i % 3)}) for i, r in enumerate(synthetic(90))
    ]
    near = [replace(r, tpu="v5e" if r.tpu == "v6e" else r.tpu) for r in near]
    far = [
        replace(r, tpu="v6e", fold="left_out", features={"log_peak_flops": 10.0})
        for r in synthetic(60, 0.1, seed=3)
    ]
    wrong = [replace(r, log_residual=8 * r.log_residual) for r in far]
    case = {"log_peak_flops": 6.0}
    calm, wide = (Calibration(near + rows).spread("decode", case) for rows in (far, wrong))
    assert calm is not None and wide is not None
    assert wide.factor > calm.factor >= 1.0
    at_edge = Calibration(near + wrong).spread("decode", {"log_peak_flops": 10.0})
    assert at_edge is not None
    inside = np.mean([abs(r.log_residual) <= at_edge.log_half_width for r in wrong])
    assert 0.78 <= inside <= 0.9


def test_attach_covers_held_out_records() -> None:
    rng = np.random.default_rng(11)
    records = [
        Record(
            id=f"r{i}",
            source=f"s{i // 3}",
            stack="",
            tpu=CHIPS[i % 5],
            kind="decode",
            model="m",
            confidence="A",
            predicted=float(np.exp(rng.normal(0, 0.2))),
            measured=1.0,
            unit="s",
        )
        for i in range(900)
    ]
    source = Calibration(residuals.of_records(records))
    found = statistics.summarise(attach(records, source)).coverage
    assert found.value == pytest.approx(0.8, abs=0.06)
    assert found.low is not None and found.high is not None and found.low < 0.8 < found.high
    unseen = attach(records, source, as_unseen_chip=True)
    assert all(r.low is not None for r in unseen)
    skipped = replace(records[0], predicted=None, reason_if_skipped="x")
    assert attach([skipped], source)[0].low is None


def test_residuals_survive_the_file() -> None:
    rows = synthetic(7) + synthetic(3, fold="left_out")
    again = residuals.parse(residuals.to_csv(rows))
    for a, b in zip(rows, again, strict=True):
        assert (a.id, a.kind, a.tpu, a.group, a.held_out, a.fold) == (
            b.id,
            b.kind,
            b.tpu,
            b.group,
            b.held_out,
            b.fold,
        )
        assert b.log_residual == pytest.approx(a.log_residual, abs=1e-5)
        assert dict(b.features) == pytest.approx(dict(a.features), abs=1e-4)


def test_class_c_and_skipped_rows_leave_no_residual() -> None:
    row = Record("a", "s", "", "v4", "decode", "m", "A", 2.0, 1.0, "s")
    (kept,) = residuals.of_records(
        [row, replace(row, confidence="C"), replace(row, predicted=None)]
    )
    assert kept.log_residual == pytest.approx(math.log(2))


def test_every_kind_has_a_class() -> None:
    for kind in set(KINDS) - {"diffusion"}:
        assert lineage(kind)[-1] == ("gpu" if kind.startswith("gpu") else "tpu")
    assert belongs("hbm", "microbenchmark") and not belongs("hbm", "train")
    assert set(PARENTS.values()) <= {*PARENTS, "tpu", "gpu"}
    assert intervals.COVERAGE == 0.8
