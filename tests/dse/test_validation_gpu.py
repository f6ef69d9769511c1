"""Measured GPU kernels: bars hold on all rows and on those never fitted, and none is dropped."""

from __future__ import annotations

import functools
import math
import re

import numpy as np
import pytest

from dse.validation import fit_gpu, gpu, gpu_data, gpu_serving
from dse.validation.gpu_kernels import columns, seconds
from dse.validation.record import Record
from hwmodel.presets import describe
from hwmodel.theta import central, constants

COUNTS = {
    "gpu_gemm": 1768,
    "gpu_prefill_attention": 886,
    "gpu_decode_attention": 907,
    "gpu_moe": 874,
    "gpu_collective": 491,
}


@functools.cache
def _kernels(kind: str) -> tuple[Record, ...]:
    return tuple(gpu.kernels(kind, central()))


def _errors(records: tuple[Record, ...]) -> np.ndarray:
    return np.array(
        [abs(math.expm1(r.log_residual)) for r in records if r.log_residual is not None]
    )


def _held(records: tuple[Record, ...]) -> tuple[Record, ...]:
    return tuple(r for r in records if r.held_out)


@pytest.mark.parametrize(
    ("kinds", "median", "p90"),
    [
        (("gpu_gemm",), 0.085, 0.30),
        (("gpu_prefill_attention",), 0.09, 0.28),
        (("gpu_decode_attention",), 0.12, 0.38),
        (("gpu_prefill_attention", "gpu_decode_attention"), 0.10, 0.32),
        (("gpu_moe",), 0.09, 0.34),
        (("gpu_collective",), 0.09, 0.21),
    ],
)
def test_errors_stay_at_the_reported_level(
    kinds: tuple[str, ...], median: float, p90: float
) -> None:
    records = sum((_kernels(kind) for kind in kinds), ())
    assert np.median(_errors(records)) < median
    assert np.quantile(_errors(records), 0.9) < p90
    assert abs(np.median([r.log_residual for r in records])) < 0.03
    assert np.median(_errors(_held(records))) < median + 0.01


@pytest.mark.parametrize("chip", ["h100", "h200", "b200"])
def test_presets_state_the_errors_that_the_records_show(chip: str) -> None:
    stated = [float(x) for x in re.findall(r"([\d.]+)\s%", describe(chip)["unvalidated"])]
    order = ("gpu_gemm", "gpu_prefill_attention", "gpu_decode_attention", "gpu_moe")
    assert len(stated) == 5
    for kind, percent in zip((*order, "gpu_collective"), stated, strict=True):
        mine = tuple(r for r in _kernels(kind) if r.tpu == chip)
        assert np.median(_errors(mine)) * 100 == pytest.approx(percent, abs=0.15), kind


@pytest.mark.parametrize("kind", gpu_data.KINDS)
def test_the_model_beats_the_plain_roofline_everywhere(kind: str) -> None:
    for chip in ("h100", "h200", "b200"):
        records = tuple(r for r in _kernels(kind) if r.tpu == chip)
        roofline = [abs(r.roofline / r.measured - 1) for r in records if r.roofline]
        assert np.median(_errors(records)) < 0.5 * np.median(roofline)


@pytest.mark.parametrize("kind", gpu_data.KINDS)
def test_every_measured_row_is_predicted_and_counts_for_its_bar(kind: str) -> None:
    records = _kernels(kind)
    assert len(records) == COUNTS[kind] == len({r.id for r in records})
    for r in records:
        assert r.predicted is not None and r.predicted > 0 and not r.reason_if_skipped
        assert r.bars == gpu.BARS[kind] and r.unit == "s" and not r.higher_is_better
    assert 0.15 < len(_held(records)) / len(records) < 0.5


@pytest.mark.parametrize("kind", gpu_data.KINDS)
def test_the_table_and_the_record_agree_on_what_is_held_out(kind: str) -> None:
    frame = gpu_data.table(kind)
    assert [r.held_out for r in _kernels(kind)] == frame["held_out"].tolist()


def test_related_shapes_are_held_out_together() -> None:
    frame = gpu_data.table("gpu_gemm")
    assert (frame.groupby(["chip", "n", "k"])["held_out"].nunique() == 1).all()


def test_the_fit_uses_only_rows_that_are_not_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = columns

    def spy(kind: str, frame: object) -> object:
        seen.append(frame)
        return original(kind, frame)  # type: ignore[arg-type]

    monkeypatch.setattr(fit_gpu, "columns", spy)
    found = fit_gpu.fit("gpu_collective")
    assert len(seen) == 1 and not seen[0]["held_out"].any()
    for name, value in found.items():
        assert value == pytest.approx(constants()[name].value, rel=0.2), name


def test_fitted_constants_lie_in_their_ranges_and_each_belongs_to_one_family() -> None:
    prefixes = [p for family in fit_gpu.FAMILIES.values() for p in family]
    mine = [n for n in constants() if n.startswith("block_")]
    mine.remove("block_fixed_exposed_fraction")  # of steps, not of single kernels
    assert len(mine) > 40
    for name in mine:
        c = constants()[name]
        assert c.low <= c.value <= c.high, name
        assert sum(name.startswith(p) for p in prefixes) == 1, name


def test_a_constant_moves_only_its_own_kind_of_kernel() -> None:
    changed = central() | {"block_moe_fixed_s_8bit": 2e-4}
    for kind in gpu_data.KINDS:
        numbers = columns(kind, gpu_data.table(kind)[:40])
        same = np.array_equal(seconds(kind, numbers, changed), seconds(kind, numbers, central()))
        assert same == (kind != "gpu_moe")


def test_expert_loads_add_up_and_the_measured_rank_is_the_busiest() -> None:
    balanced = gpu_data.expert_loads(512, 64, 8, 4, "balanced")
    assert balanced.shape == (16,) and balanced.sum() == 512 * 8 / 4
    skewed = gpu_data.expert_loads(512, 64, 8, 4, "power_law_1.2")
    assert skewed.sum() > 1.2 * balanced.sum() and skewed.max() <= 512
    alone = gpu_data.expert_loads(512, 64, 8, 1, "power_law_1.2")
    assert alone.sum() == pytest.approx(512 * 8)


def test_deployments_that_cannot_be_predicted_say_what_is_missing() -> None:
    rows = gpu_data.read("serving")
    rows = rows[rows["precision"].isna() | (rows["mode"] == "disagg")].to_dict("records")
    points, reasons = gpu_serving._points(rows)
    assert "precision is not stated" in reasons.values()
    assert any("batch_size is not stated" in r for r in reasons.values())
    assert {p.row for p in points}.isdisjoint(reasons)
    assert {p.row for p in points} | set(reasons) == set(range(len(rows)))


@pytest.mark.slow
def test_time_per_output_token_of_deployments_is_predicted_from_kernels_alone() -> None:
    records = [r for r in gpu_serving.records(central(), with_host=False) if r.kind == "gpu_tpot"]
    predicted = tuple(r for r in records if r.predicted is not None)
    assert len(records) == 2104 and len(predicted) > 1500
    assert np.median(_errors(predicted)) < 0.18
    assert np.median(_errors(_held(predicted))) < 0.16
    assert all(r.reason_if_skipped for r in records if r.predicted is None)
