"""Thread blocks: waves, tiles and splits, monotone in every resource, and steps that use them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from hwmodel import presets
from hwmodel.chip import Chip
from hwmodel.ops import Attention, Matmul
from hwmodel.rates import rates
from hwmodel.step import OperatorTime, time_steps
from hwmodel.theta import central
from hwmodel.thread_block_attention import decode, prefill
from hwmodel.thread_block_collectives import collective
from hwmodel.thread_blocks import BlockRates, block_rates, matmul_path, overlapped, product

THETA = central() | {"block_fixed_exposed_fraction": 1.0}  # kernels alone, as they were measured
H100, H200, B200 = (presets.load(n) for n in ("h100", "h200", "b200"))


@pytest.fixture(autouse=True)
def _x64() -> object:
    with jax.enable_x64(True):
        yield


def _blocks(chip: Chip) -> BlockRates:
    found = block_rates(chip)
    assert found is not None
    return found


def _gemm(chip: Chip, m: float, n: float, k: float, groups: float = 1.0) -> dict[str, float]:
    path = matmul_path(THETA, "16bit", 1.0, 2.0, 2.0)
    done = product(_blocks(chip), THETA, path, jnp.array([m]), jnp.array([groups]), n, k)
    return {key: float(value) for key, value in done.items()}


def _attention(**fields: float) -> dict[str, float]:
    base = {
        "groups": 64.0,
        "rows": 4.0 * 2048,
        "length": 1024.0,
        "qk_width": 128.0,
        "v_width": 128.0,
        "kv_bytes": 2048.0 * 512,
        "kv_elements_converted": 0.0,
        "softmax": 1.0,
        "query_tokens": 2048.0,
        "window": 0.0,
    }
    return base | fields


def _prefill(chip: Chip = H100, **fields: float) -> float:
    return float(prefill(_blocks(chip), THETA, _attention(**fields))["time_s"])


def _decode(chip: Chip = H100, **fields: float) -> float:
    one = {"rows": 4.0, "kv_bytes": 1024.0 * 512, "query_tokens": 0.0}
    return float(decode(_blocks(chip), THETA, _attention(**(one | fields)))["time_s"])


def test_a_chip_without_thread_blocks_compiles_nothing_of_them() -> None:
    assert block_rates(presets.load("v6e")) is None
    assert rates(presets.load("v7x"), THETA).blocks is None
    assert rates(H100, THETA).blocks is not None


@pytest.mark.parametrize("shape", [(1, 4096, 4096), (256, 512, 8192), (8192, 8192, 8192)])
@pytest.mark.parametrize(
    "field", ["clock_hz", "hbm_stack_bandwidth_bytes_per_s", "mxu_cols", "cores"]
)
def test_more_of_a_resource_never_makes_a_matmul_slower(
    field: str, shape: tuple[float, float, float]
) -> None:
    faster = dataclasses.replace(H100, **{field: 2 * getattr(H100, field)})
    assert _gemm(faster, *shape)["time_s"] <= _gemm(H100, *shape)["time_s"] * (1 + 1e-12)


@pytest.mark.parametrize("field", ["clock_hz", "hbm_stack_bandwidth_bytes_per_s", "cores"])
@pytest.mark.parametrize("time", [_prefill, _decode])
def test_more_of_a_resource_never_makes_attention_slower(
    field: str, time: Callable[..., float]
) -> None:
    faster = dataclasses.replace(H100, **{field: 2 * getattr(H100, field)})
    assert time(faster) <= time(H100)


def test_more_rows_are_never_faster() -> None:
    times = [_gemm(H100, m, 4096.0, 4096.0)["time_s"] for m in range(1, 600, 7)]
    assert all(b >= a * (1 - 1e-12) for a, b in zip(times, times[1:], strict=False))
    lengths = [_decode(length=float(n), kv_bytes=n * 512.0) for n in (128, 1024, 8192, 65536)]
    assert lengths == sorted(lengths)
    tokens = [
        _prefill(query_tokens=float(t), rows=4.0 * t, length=t / 2) for t in (64, 256, 1024, 8192)
    ]
    assert tokens == sorted(tokens)


def test_one_tile_beyond_a_whole_wave_costs_most_of_another() -> None:
    """132 tiles of 128 x 256 fill an H100 once; one row of tiles more needs a second wave."""
    whole = _gemm(H100, 128.0 * 12, 256.0 * 11, 16384.0)["tensor_s"]
    more = _gemm(H100, 128.0 * 13, 256.0 * 11, 16384.0)["tensor_s"]
    assert more / whole > 13 / 12 * 1.1
    assert _gemm(H100, 128.0 * 12, 256.0 * 11, 16384.0)["time_s"] == pytest.approx(
        _gemm(H100, 128.0 * 12 - 5, 256.0 * 11, 16384.0)["time_s"], rel=0.02
    )


def test_a_deep_product_of_few_tiles_is_split() -> None:
    shallow = _gemm(H100, 64.0, 128.0, 4096.0)["tensor_s"]
    deep = _gemm(H100, 64.0, 128.0, 65536.0)["tensor_s"]
    assert deep < 12 * shallow


def test_groups_cost_what_they_move_and_multiply() -> None:
    one, eight = (_gemm(H100, 512.0, 4096.0, 4096.0, g) for g in (1.0, 8.0))
    assert eight["hbm_bytes"] == pytest.approx(8 * one["hbm_bytes"])
    assert one["hbm_bytes"] == 2 * (512 * 4096 * 2 + 4096 * 4096)
    peak_s = 8 * 512 * 4096 * 4096 / (H100.macs_per_cycle * H100.clock_hz)
    assert eight["tensor_s"] > peak_s


def test_nothing_runs_faster_than_the_roofline() -> None:
    for chip in (H100, H200, B200):
        for m, n, k in ((1, 128, 128), (16, 8192, 8192), (4096, 4096, 4096), (16384, 512, 512)):
            done = _gemm(chip, m, n, k)
            flops_s = m * n * k / (chip.macs_per_cycle * chip.clock_hz)
            bytes_s = done["hbm_bytes"] / chip.hbm_bandwidth_bytes_per_s
            assert done["time_s"] > max(flops_s, bytes_s)


def test_overlap_lies_between_the_longer_and_the_sum() -> None:
    assert float(overlapped(3.0, 4.0, 1.0)) == 7.0
    assert float(overlapped(3.0, 4.0, 2.0)) == 5.0
    assert float(overlapped(4.0, 3.0, 200.0)) == pytest.approx(4.0)


def test_a_window_saves_prefill_work_and_a_packed_kernel_decode_work() -> None:
    seen = 1024.0
    assert _prefill(window=128.0, length=126.0) < 0.7 * _prefill(length=seen)
    limit = THETA["block_decode_packed_heads"]
    packed, apart = _decode(rows=limit), _decode(rows=limit + 1)
    assert apart > 1.5 * packed


def test_latent_attention_packs_all_its_heads() -> None:
    wide = {"rows": 128.0, "qk_width": 576.0, "kv_bytes": 1024.0 * 1152}
    assert _decode(**wide, v_width=512.0) < _decode(**wide, v_width=576.0)


@pytest.mark.parametrize("way", ["gather", "sum", "exchange", "send"])
def test_collectives_grow_with_payload_and_shrink_with_bandwidth(way: str) -> None:
    def seconds(payload: float, bandwidth: float = 450e9, hop: float = 8e-7) -> float:
        done = collective(THETA, way, 8.0, payload, bandwidth, hop)  # type: ignore[arg-type]
        return float(done["transfer_s"] + done["latency_s"])

    times = [seconds(2.0**i) for i in range(8, 31)]
    assert times == sorted(times)
    assert seconds(1e9, 900e9) < seconds(1e9) and seconds(1e3, hop=4e-7) < seconds(1e3)
    once = 1e9 * (7 / 8 if way != "send" else 1.0) / 450e9
    assert seconds(1e9) > once


def test_the_switch_adds_for_many_ranks_only_what_it_can_add() -> None:
    def seconds(in_switch: float) -> float:
        done = collective(THETA, "sum", 8.0, 1e9, 450e9, 8e-7, in_switch)
        return float(done["transfer_s"])

    assert seconds(1.0) < seconds(0.0)


def _timed(chip: Chip) -> tuple[OperatorTime, ...]:
    ops = [
        Matmul(name="plain", count=3.0, m=512.0, k=4096.0, n=4096.0),
        Matmul(name="experts", count=1.0, m=64.0, k=4096.0, n=2048.0, groups=8.0,
               resident_groups=8.0),
        Attention(name="decode", count=1.0, groups=64.0, rows=4.0, length=1024.0, qk_width=128.0,
                  v_width=128.0, kv_bytes=1024.0 * 512),
        Attention(name="prefill", count=1.0, groups=8.0, rows=8192.0, length=1024.0,
                  qk_width=128.0, v_width=128.0, kv_bytes=2048.0 * 512, query_tokens=2048.0),
    ]  # fmt: skip
    return time_steps(chip, THETA, {}, [ops])[0].operators


def test_a_step_takes_the_seconds_of_the_same_functions() -> None:
    plain, experts, one, many = _timed(H100)
    assert float(plain.time_s) == pytest.approx(3 * _gemm(H100, 512.0, 4096.0, 4096.0)["time_s"])
    assert float(one.time_s) == pytest.approx(_decode())
    assert float(many.time_s) == pytest.approx(_prefill(groups=8.0, kv_bytes=2048.0 * 512))
    assert float(experts.fixed_s) > 0.5 * THETA["block_moe_fixed_s_16bit"]


def test_a_step_hides_part_of_the_fixed_times() -> None:
    half = THETA | {"block_fixed_exposed_fraction": 0.5}
    op = Matmul(name="a", count=2.0, m=512.0, k=4096.0, n=4096.0)
    whole, less = (time_steps(H100, t, {}, [[op]])[0].operators[0] for t in (THETA, half))
    assert float(less.fixed_s) == pytest.approx(float(whole.fixed_s) / 2)
    assert float(whole.time_s - less.time_s) == pytest.approx(float(less.fixed_s))


def test_a_traced_chip_gets_the_same_seconds() -> None:
    @jax.jit
    def total(row_tile: float) -> object:
        chip = dataclasses.replace(H100, mxu_row_tile=row_tile)
        return sum(t.time_s for t in _timed(chip))

    assert float(total(H100.mxu_row_tile)) == pytest.approx(
        float(sum(t.time_s for t in _timed(H100)))
    )
    streaming = dataclasses.replace(H100, mxu_row_tile=0.0)
    assert float(total(0.0)) == pytest.approx(float(sum(t.time_s for t in _timed(streaming))))
