"""Matrix-unit cycles against counts worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import pytest

from hwmodel import presets, theta
from hwmodel.chip import Chip
from hwmodel.matmul import mxu_cycles
from hwmodel.ops import BF16, INT8, Numerics
from hwmodel.rates import mxu_format, rates

THETA = theta.central()
V6E, V5E, H100 = (presets.load(n) for n in ("v6e", "v5e", "h100"))


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _cycles(
    chip: Chip, m: float, k: float, n: float, groups: float = 1.0, numerics: Numerics | None = None
) -> float:
    fmt = mxu_format(chip, THETA, numerics or Numerics())
    return float(mxu_cycles(rates(chip, THETA), fmt, m, k, n, groups))


def test_a_large_matmul_runs_at_peak() -> None:
    """8192^3 in bf16 on v6e: 32 x 32 passes of 8192 rows at 2 rows a cycle, over 2 units."""
    cycles = _cycles(V6E, 8192, 8192, 8192)
    assert cycles == 32 * 32 * (8192 / 2) / 2
    assert 2 * 8192**3 / (cycles / V6E.clock_hz) == pytest.approx(V6E.peak_bf16_flops)
    assert V6E.peak_bf16_flops == pytest.approx(918e12, rel=0.01)


@pytest.mark.parametrize("name", presets.names())
def test_every_chip_reaches_its_peak_on_whole_tiles(name: str) -> None:
    chip = presets.load(name)
    tiles = 8 * chip.mxu_count
    m, k, n = 8192.0, 8 * chip.mxu_rows, tiles * chip.mxu_cols
    seconds = _cycles(chip, m, k, n) / chip.clock_hz
    assert 2 * m * k * n / seconds == pytest.approx(chip.peak_bf16_flops)


def test_few_rows_are_bound_by_the_weight_latch() -> None:
    """One 16-row issue takes 8 cycles, latching the next 256 x 256 tile takes 64."""
    one_pass = _cycles(V6E, 16, 256, 256 * 2) * 2 / 2
    assert one_pass == 64
    assert _cycles(V6E, 1, 256, 512) == _cycles(V6E, 128, 256, 512) == 64
    assert _cycles(V6E, 129, 256, 512) == 9 * 8  # nine issues take longer than the latch


def test_rows_are_issued_in_whole_vmatmuls() -> None:
    assert _cycles(V6E, 1025, 256, 512) - _cycles(V6E, 1024, 256, 512) == 8
    assert _cycles(V6E, 1040, 256, 512) == _cycles(V6E, 1025, 256, 512)


@pytest.mark.parametrize(("k", "waste"), [(64, 4), (128, 2), (256, 1), (257, 512 / 257)])
def test_a_contraction_narrower_than_the_array_wastes_it(k: float, waste: float) -> None:
    """Head dimensions of 64 and 128 on a 256-wide unit, and 257 that needs a second tile."""
    ideal = 4096 * k * 512 / (256 * 256 * 2) / 2
    assert _cycles(V6E, 4096, k, 512) == pytest.approx(ideal * waste)
    assert _cycles(V6E, 4096, 512, k) == pytest.approx(ideal * waste)


def test_a_128_wide_array_takes_head_dim_64_at_half_the_waste() -> None:
    ideal = 4096 * 64 * 1024 / (128 * 128) / 4 / (16 / V5E.mxu_cadence_bf16_cycles)
    assert _cycles(V5E, 4096, 64, 1024) == pytest.approx(2 * ideal)


def test_one_pass_cannot_use_two_units() -> None:
    assert _cycles(V6E, 4096, 256, 256) == _cycles(V6E, 4096, 256, 512)


def test_groups_are_passes_of_their_own() -> None:
    assert _cycles(V6E, 512, 256, 256, groups=8) == _cycles(V6E, 512, 256, 2048)
    assert _cycles(V6E, 512, 256, 256, groups=2.5) == pytest.approx(1.25 * 256)  # expected value


def test_int8_halves_a_compute_bound_matmul_only_where_it_is_native() -> None:
    int8 = Numerics(weight_bits=8, activation_bits=8, compute_format=INT8)
    bf16 = _cycles(V6E, 4096, 4096, 4096)
    assert _cycles(V6E, 4096, 4096, 4096, numerics=int8) == bf16 / 2
    wide = dataclasses.replace(V6E, int8_rate=0.0)
    assert _cycles(wide, 4096, 4096, 4096, numerics=int8) == bf16


def test_sparsity_halves_the_cycles_only_where_it_is_supported() -> None:
    sparse = Numerics(compute_format=BF16, nm_n=2, nm_m=4)
    dense = _cycles(V6E, 4096, 4096, 4096)
    assert _cycles(V6E, 4096, 4096, 4096, numerics=sparse) == dense
    skipping = dataclasses.replace(V6E, nm_speedup_16bit=2.0)
    assert _cycles(skipping, 4096, 4096, 4096, numerics=sparse) == dense / 2


def test_a_gpu_is_quantised_in_row_tiles_and_whole_waves() -> None:
    """H100: 132 units take 128-row tiles of [16, 128] weights at 2 x 8 / 8 rows a cycle."""
    per_tile = 128 / H100.bf16_rows_per_cycle
    assert _cycles(H100, 1, 16, 128) == per_tile  # one row costs a whole tile
    assert _cycles(H100, 128, 16, 128 * 132) == per_tile
    assert _cycles(H100, 128, 16, 128 * 133) == 2 * per_tile  # a second wave for one more tile
    assert _cycles(H100, 129, 16, 128 * 66) == per_tile
    assert _cycles(H100, 129, 16, 128 * 67) == 2 * per_tile
