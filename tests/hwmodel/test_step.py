"""Operators and whole steps, against times worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import pytest

from hwmodel import presets, theta
from hwmodel.chip import Chip
from hwmodel.collectives import Axis, fabric, lay_out
from hwmodel.ops import DENSE_BF16, INT8, Attention, Collective, Matmul, Numerics, Operator, Vector
from hwmodel.step import OperatorTime, StepTime, time_steps

THETA = theta.central()
V6E = presets.load("v6e")
CYCLE_S = 1 / (1.75e9 * THETA["mxu_sustained_fraction"] * THETA["step_mxu_fraction"])
BYTE_S = 1 / (1638e9 * THETA["hbm_sustained_fraction"])
OP_S = 1 / (128 * 8 * 4 * 1.75e9 * THETA["vpu_sustained_fraction"])
LINK_S = 1 / (100e9 * THETA["collective_bandwidth_fraction"])
FIXED_S = THETA["operator_fixed_s"] + V6E.hbm_latency_s * THETA["dma_latency_exposed_fraction"]
RAMP_S = (64 + 192) / 1.75e9
OVERLAP = THETA["engine_overlap_fraction"]
PROLOGUE_S = THETA["prologue_bytes"] * BYTE_S


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with jax.enable_x64(True), jax.disable_jit():
        yield


def _step(ops: Sequence[Operator], chip: Chip = V6E, theta_: dict[str, float] = THETA) -> StepTime:
    (step,) = time_steps(chip, theta_, _axes(chip), [ops])
    return step


def _axes(chip: Chip) -> dict[str, Axis]:
    return lay_out(fabric(chip, THETA, (4.0, 4.0, 1.0)), {"model": (1.0, 4.0), "fsdp": (4.0, 4.0)})


def _only(op: Operator, chip: Chip = V6E) -> OperatorTime:
    (timed,) = _step([op], chip).operators
    return timed


def _combined(*engines: float) -> float:
    busiest = max(engines)
    return OVERLAP * busiest + (1 - OVERLAP) * sum(engines)


def _prologue(hbm_s: float, compute_s: float) -> float:
    return THETA["prologue_exposed_fraction"] * min(hbm_s, compute_s, PROLOGUE_S)


def test_a_compute_bound_matmul() -> None:
    """8192^3 in bf16: 2,097,152 MXU cycles. One operand is as large as VMEM: blocks are reread."""
    timed = _only(Matmul(name="mm", count=1.0, m=8192.0, k=8192.0, n=8192.0))
    assert float(timed.mxu_s) == pytest.approx(32 * 32 * 4096 / 2 * CYCLE_S)
    assert float(timed.flops) == 2 * 8192**3
    usable = 0.75 * 128 * 2**20
    edge = (usable / 2 / 4) ** 0.5
    size = 2 * 8192**2
    traffic = size + (2 * size - usable / 2) + 2 * size * (8192 / edge - 1)
    assert float(timed.hbm_bytes) == pytest.approx(traffic)
    assert float(timed.time_s) == pytest.approx(
        _combined(float(timed.mxu_s), traffic * BYTE_S)
        + FIXED_S
        + RAMP_S
        + THETA["prologue_exposed_fraction"] * PROLOGUE_S
    )


def test_a_weight_bound_matmul() -> None:
    """One token through 32768 x 2048: 134 MB of weights from HBM; the latch bounds the MXU."""
    timed = _only(Matmul(name="mm", count=3.0, m=1.0, k=32768.0, n=2048.0))
    weights, latch = 2 * 8192**2 * BYTE_S, 128 * 8 * 64 / 2 * CYCLE_S
    assert float(timed.hbm_s) == pytest.approx(3 * weights)
    assert float(timed.mxu_s) == pytest.approx(3 * latch)
    alone = _combined(weights, latch) + FIXED_S + RAMP_S + _prologue(weights, latch)
    assert float(timed.time_s) == pytest.approx(3 * alone)


def test_an_operand_made_on_chip_is_not_read() -> None:
    timed = _only(Matmul(name="mm", count=1.0, m=1.0, k=512.0, n=512.0, weight_reads=0.0))
    assert float(timed.hbm_bytes) == 0


def test_a_fused_vector_bound_matmul() -> None:
    timed = _only(Matmul(name="mm", count=1.0, m=64.0, k=256.0, n=256.0, vpu_ops=1e9))
    assert float(timed.vpu_s) == pytest.approx(1e9 * OP_S)
    assert float(timed.time_s) > float(timed.vpu_s) > float(timed.hbm_s)


def test_narrow_weights_halve_the_traffic_and_are_widened_where_int8_is_not_native() -> None:
    int8 = Numerics(weight_bits=8.0, activation_bits=8.0, compute_format=INT8)
    op = Matmul(name="mm", count=1.0, m=1.0, k=32768.0, n=2048.0, numerics=int8)
    native = _only(op)
    widened = _only(op, dataclasses.replace(V6E, int8_rate=0.0))
    assert float(native.hbm_bytes) == float(widened.hbm_bytes) == 8192**2
    assert float(native.vpu_s) == 0
    assert float(widened.vpu_s) == pytest.approx(8192**2 * THETA["dequant_ops_per_weight"] * OP_S)
    assert float(widened.mxu_s) == 2 * float(native.mxu_s)


def test_sparse_weights_without_support_save_traffic_but_cost_vector_work() -> None:
    sparse = Numerics(nm_n=2.0, nm_m=4.0)
    op = Matmul(name="mm", count=1.0, m=1.0, k=32768.0, n=2048.0, numerics=sparse)
    expanded = _only(op)
    skipped = _only(op, dataclasses.replace(V6E, nm_speedup_16bit=2.0))
    assert float(expanded.hbm_bytes) == float(skipped.hbm_bytes) == 8192**2 * 18 / 16
    assert float(expanded.vpu_s) == pytest.approx(
        8192**2 * THETA["nm_expand_ops_per_weight"] * OP_S
    )
    assert float(skipped.vpu_s) == 0
    assert float(skipped.mxu_s) == float(expanded.mxu_s) / 2


def test_decode_attention_reads_its_cache_once() -> None:
    op = Attention(
        name="a", count=2.0, groups=64.0, rows=8.0, length=4096.0, qk_width=128.0, v_width=128.0,
        kv_bytes=4096.0 * 256 * 2,
    )  # fmt: skip
    timed = _only(op)
    assert float(timed.hbm_bytes) == 2 * 64 * 4096 * 256 * 2
    assert float(timed.flops) == 2 * 2 * 64 * 8 * 4096 * 256
    assert float(timed.vpu_s) == pytest.approx(
        2 * 64 * 8 * 4096 * THETA["softmax_ops_per_score"] * OP_S
    )


def test_softmax_binds_prefill_attention_with_wide_matrix_units() -> None:
    op = Attention(
        name="a", count=1.0, groups=8.0, rows=8192.0, length=4096.0, qk_width=128.0, v_width=128.0,
        kv_bytes=0.0,
    )  # fmt: skip
    timed = _only(op)
    assert float(timed.vpu_s) > float(timed.mxu_s)


def test_a_vector_operator() -> None:
    timed = _only(Vector(name="v", count=4.0, vpu_ops=1e6, hbm_bytes=1e6))
    vector, moved = 1e6 * OP_S, 1e6 * BYTE_S
    each = _combined(vector, moved) + FIXED_S + _prologue(moved, vector)
    assert float(timed.time_s) == pytest.approx(4 * each)
    assert float(timed.flops) == 0


# --- exposure of collectives: a line of 4 gathers 3/4 of the array over one direction of a link

MATMUL = Matmul(name="mm", count=1.0, m=4096.0, k=4096.0, n=4096.0)
VECTOR = Vector(name="v", count=1.0, vpu_ops=1e8)
LATENCY_S = 3 * V6E.ici_hop_latency_s + THETA["collective_fixed_s"] + THETA["collective_fill_s"]


def _gather(payload: float, hides: str) -> Collective:
    return Collective(
        name="ag", count=1.0, kind="all_gather", axis="model", payload_bytes=payload, hides=hides
    )  # type: ignore[arg-type]


def test_a_blocking_collective_is_wholly_exposed() -> None:
    alone = _step([MATMUL])
    both = _step([MATMUL, _gather(4e6, "nothing")])
    added = 3e6 * LINK_S + LATENCY_S
    assert float(both.seconds - alone.seconds) == pytest.approx(added)
    assert float(both.operators[-1].time_s) == pytest.approx(added)


def test_a_collective_beside_matmuls_hides_in_part() -> None:
    alone = float(_step([MATMUL]).seconds)
    share = THETA["collective_overlap_fraction"]
    small = float(_step([MATMUL, _gather(4e6, "matmul")]).seconds)
    assert small - alone == pytest.approx((1 - share) * 3e6 * LINK_S + LATENCY_S)
    large = float(_step([MATMUL, _gather(4e9, "matmul")]).seconds)  # longer than what can hide it
    assert large - alone == pytest.approx(3e9 * LINK_S - share * alone + LATENCY_S)


def test_vector_work_hides_no_tensor_parallel_traffic() -> None:
    alone = float(_step([VECTOR]).seconds)
    both = float(_step([VECTOR, _gather(4e6, "matmul")]).seconds)
    assert both - alone == pytest.approx(3e6 * LINK_S + LATENCY_S)


def test_prefetched_weights_hide_behind_all_work_that_is_left() -> None:
    ahead = THETA["prefetch_overlap_fraction"]
    beside = THETA["collective_overlap_fraction"]
    alone = float(_step([MATMUL, VECTOR]).seconds)
    matmul = float(_step([MATMUL]).seconds)
    small = float(_step([MATMUL, VECTOR, _gather(4e6, "prefetch")]).seconds)
    latency = (1 - ahead) * LATENCY_S
    assert small - alone == pytest.approx((1 - ahead) * 3e6 * LINK_S + latency)
    large = float(_step([MATMUL, VECTOR, _gather(4e9, "prefetch")]).seconds)
    hidden = ahead * (alone - beside * matmul)
    assert large - alone == pytest.approx(3e9 * LINK_S - hidden + latency)


def _mixed_step() -> list[Operator]:
    narrow = Numerics(weight_bits=8.0, activation_bits=8.0, compute_format=INT8)
    return [
        MATMUL,
        Matmul(name="narrow", count=2.0, m=16.0, k=4096.0, n=4096.0, numerics=narrow),
        VECTOR,
        Attention(
            name="a", count=2.0, groups=8.0, rows=64.0, length=4096.0, qk_width=128.0,
            v_width=128.0, kv_bytes=2e6,
        ),
        _gather(4e6, "nothing"),
        _gather(8e8, "matmul"),
        dataclasses.replace(_gather(3e7, "prefetch"), axis="fsdp"),
        dataclasses.replace(_gather(2e6, "matmul"), kind="all_to_all", count=3.0),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["v6e", "v5e", "v7x", "h100"])
def test_operator_times_add_up_and_none_is_shorter_than_its_busiest_engine(name: str) -> None:
    step = _step(_mixed_step(), presets.load(name))
    total = sum(float(op.time_s) for op in step.operators)
    assert total == pytest.approx(float(step.seconds), rel=1e-9)
    for op in step.operators:
        busiest = max(float(op.mxu_s), float(op.vpu_s), float(op.hbm_s))
        assert float(op.time_s) >= busiest, op.name
        if op.kind == "collective":
            assert 0 < float(op.time_s) <= float(op.network_s) * (1 + 1e-12)
    assert sum(float(op.flops) for op in step.operators) == float(step.flops)
    assert sum(float(op.hbm_bytes) for op in step.operators) == float(step.hbm_bytes)
    assert float(step.energy_j) > 0


def test_energy_counts_the_width_that_is_multiplied() -> None:
    def energy(numerics: Numerics, chip: Chip = V6E) -> float:
        op = Matmul(name="mm", count=1.0, m=4096.0, k=4096.0, n=4096.0, numerics=numerics)
        return float(_step([op], chip).energy_j)

    int8 = Numerics(weight_bits=8.0, activation_bits=8.0, compute_format=INT8)
    assert energy(int8) < energy(DENSE_BF16)
    assert energy(int8) < energy(int8, dataclasses.replace(V6E, int8_rate=0.0))
    sparse = Numerics(nm_n=2.0, nm_m=4.0)
    assert energy(sparse, dataclasses.replace(V6E, nm_speedup_16bit=2.0)) < energy(sparse)


def test_steps_timed_together_and_alone_agree() -> None:
    ops = _mixed_step()
    first, second = time_steps(V6E, THETA, _axes(V6E), [ops[:4], ops])
    assert float(first.seconds) == pytest.approx(float(_step(ops[:4]).seconds), rel=1e-12)
    assert float(second.seconds) == pytest.approx(float(_step(ops).seconds), rel=1e-12)
