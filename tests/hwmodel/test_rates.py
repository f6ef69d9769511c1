"""Rates of a chip and the format a matmul runs in, against numbers worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import pytest

from hwmodel import presets, theta
from hwmodel.chip import Chip
from hwmodel.ops import BF16, FP8, INT4, INT8, Numerics
from hwmodel.rates import MxuFormat, mxu_format, rates, stored_bytes_per_weight

THETA = theta.central()
V6E = presets.load("v6e")


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _format(chip: Chip, code: float, bits: float, **other: float) -> MxuFormat:
    numerics = Numerics(weight_bits=bits, activation_bits=bits, compute_format=code, **other)
    return mxu_format(chip, THETA, numerics)


def test_v6e_rates() -> None:
    r = rates(V6E, THETA)
    assert r.mxu_s_per_cycle == pytest.approx(
        1 / (1.75e9 * THETA["mxu_sustained_fraction"] * THETA["step_mxu_fraction"])
    )
    assert r.vpu_s_per_op == pytest.approx(
        1 / (128 * 8 * 4 * 1.75e9 * THETA["vpu_sustained_fraction"])
    )
    assert r.hbm_s_per_byte == pytest.approx(1 / (1638e9 * THETA["hbm_sustained_fraction"]))
    assert r.operator_fixed_s == pytest.approx(
        THETA["operator_fixed_s"] + THETA["dma_latency_exposed_fraction"] * V6E.hbm_latency_s
    )
    assert r.on_chip_bytes == pytest.approx(0.75 * 128 * 2**20)
    # a square f32 block in half of that: sqrt(0.375 * 128 MiB / 4 B) = 3547 elements
    assert 1 / float(r.block_edge_inverse) == pytest.approx(3547, abs=1)
    assert (r.mxu_units, (1 / r.mxu_rows_inverse), (1 / r.mxu_cols_inverse), r.row_tile) == (
        2,
        256,
        256,
        0,
    )


def test_bf16_on_v6e_issues_two_rows_a_cycle() -> None:
    """16 rows per vmatmul every 8 cycles; latching 256 rows takes 16 issues of 4 cycles."""
    fmt = _format(V6E, BF16, 16)
    assert ((1 / fmt.rows_per_issue_inverse), fmt.cycles_per_issue, fmt.latch_cycles) == (16, 8, 64)
    assert fmt.operand_bits == 16 and fmt.activation_bytes == 2
    assert fmt.ramp_s == pytest.approx((64 + 192) / 1.75e9)
    assert float(fmt.vpu_ops_per_weight) == 0 and float(fmt.nm_speedup_inverse) == 1


def test_int8_is_native_on_v6e_at_twice_the_rate_and_half_the_latch() -> None:
    fmt = _format(V6E, INT8, 8)
    assert float(fmt.operand_bits) == 8 and fmt.activation_bytes == 1
    assert float(1 / fmt.rows_per_issue_inverse) == 32
    assert float((1 / fmt.rows_per_issue_inverse) / fmt.cycles_per_issue) == pytest.approx(4)
    assert float(fmt.latch_cycles) == 32
    assert float(fmt.vpu_ops_per_weight) == 0


def test_int8_is_widened_to_bf16_where_it_is_not_native() -> None:
    chip = dataclasses.replace(V6E, int8_rate=0.0)
    fmt, bf16 = _format(chip, INT8, 8), _format(chip, BF16, 16)
    assert float(fmt.operand_bits) == 16
    assert float((1 / fmt.rows_per_issue_inverse) / fmt.cycles_per_issue) == 2
    assert float(fmt.latch_cycles) == float(bf16.latch_cycles)
    assert float(fmt.vpu_ops_per_weight) == THETA["dequant_ops_per_weight"]
    assert float(fmt.stored_bytes_per_weight) == 1  # still stored narrow


def test_each_format_has_its_own_rate() -> None:
    chip = dataclasses.replace(V6E, int8_rate=2.0, fp8_rate=3.0, int4_rate=5.0)
    for code, bits, rate in ((INT8, 8, 2), (FP8, 8, 3), (INT4, 4, 5)):
        fmt = _format(chip, code, bits)
        assert float((1 / fmt.rows_per_issue_inverse) / fmt.cycles_per_issue) == pytest.approx(
            2 * rate
        )


def test_narrow_weights_with_wide_activations_are_widened_on_the_vpu() -> None:
    numerics = Numerics(weight_bits=4, activation_bits=16, compute_format=BF16)
    fmt = mxu_format(V6E, THETA, numerics)
    assert fmt.operand_bits == 16
    assert float(fmt.vpu_ops_per_weight) == THETA["dequant_ops_per_weight"]
    assert float(fmt.stored_bytes_per_weight) == 0.5


@pytest.mark.parametrize(
    ("n", "m", "limit", "speedup", "expands"),
    [(2, 4, 2, 2, False), (2, 4, 4, 2, False), (1, 4, 2, 2, False), (2, 4, 1, 1, True)],
)
def test_sparsity_speeds_up_to_the_chips_limit_and_is_expanded_without_support(
    n: float, m: float, limit: float, speedup: float, expands: bool
) -> None:
    chip = dataclasses.replace(V6E, nm_speedup_16bit=float(limit))
    fmt = _format(chip, BF16, 16, nm_n=n, nm_m=m)
    assert 1 / float(fmt.nm_speedup_inverse) == pytest.approx(speedup)
    assert float(fmt.vpu_ops_per_weight) == (THETA["nm_expand_ops_per_weight"] if expands else 0)


def test_the_8bit_sparsity_limit_holds_for_8bit_operands_only() -> None:
    chip = dataclasses.replace(V6E, nm_speedup_8bit=2.0)
    assert float(_format(chip, INT8, 8, nm_n=2, nm_m=4).nm_speedup_inverse) == 0.5
    assert float(_format(chip, BF16, 16, nm_n=2, nm_m=4).nm_speedup_inverse) == 1


@pytest.mark.parametrize(
    ("bits", "n", "m", "stored"),
    [(16, 1, 1, 2), (8, 1, 1, 1), (16, 2, 4, 18 / 16), (8, 2, 4, 10 / 16), (8, 1, 4, 10 / 32),
     (8, 4, 8, 11 / 16), (4, 1, 2, 5 / 16)],
)  # fmt: skip
def test_stored_bytes_count_the_index_of_every_kept_weight(
    bits: float, n: float, m: float, stored: float
) -> None:
    numerics = Numerics(weight_bits=bits, nm_n=n, nm_m=m)
    assert float(stored_bytes_per_weight(numerics)) == pytest.approx(stored)
