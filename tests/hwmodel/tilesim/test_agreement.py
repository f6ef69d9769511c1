"""The tile rung against the analytical one: the same where the closed form is exact, explained
where not."""

from __future__ import annotations

import dataclasses

import jax
import pytest

from hwmodel import presets, theta
from hwmodel import step as analytical
from hwmodel.chip import Chip
from hwmodel.ops import Attention, Collective, Matmul, Operator, Vector
from hwmodel.tilesim import Difference, TileStep, compare, time_steps
from hwmodel.tilesim.compare import CAUSES
from hwmodel.tilesim.table import UnsupportedOperator

V6E = presets.load("v6e")
THETA = theta.central()
IDEAL = {
    **THETA,
    "engine_overlap_fraction": 1.0,
    "tile_step_fixed_s": 0.0,
    "tile_operator_fixed_s": 0.0,
    "operator_fixed_s": 0.0,
    "dma_latency_exposed_fraction": 0.0,
    "prologue_exposed_fraction": 0.0,
    "activation_resident_fraction": 0.0,
    "kv_read_fraction": 1.0,
}
"""Nothing but the engines: no fixed costs, perfect overlap, everything through HBM."""


def _both(
    op: Operator, values: dict[str, float], chip: Chip = V6E
) -> tuple[analytical.StepTime, TileStep]:
    (tile,) = time_steps(chip, values, {}, [[op]], 1.0)
    with jax.enable_x64(True):
        (closed,) = analytical.time_steps(chip, values, {}, [[op]])
    return closed, tile


@pytest.mark.parametrize(("edge", "more"), [(4096.0, 0.15), (8192.0, 0.025), (16384.0, 0.015)])
def test_a_large_matmul_of_exact_tiles(edge: float, more: float) -> None:
    """Compute-bound: both count the same issues. The play adds a latch and a fill per block, the
    first and the last transfer (16 MB, 12 us of the 190 us of 4096^3) and steps that wait for
    output; the larger the matmul the less."""
    closed, tile = _both(Matmul(name="m", count=1.0, m=edge, k=edge, n=edge), IDEAL)
    assert 1.0 <= tile.seconds / float(closed.seconds) < 1.0 + more
    (played,) = tile.operators
    assert float(closed.operators[0].mxu_s) <= played.mxu_s < 1.03 * float(closed.seconds)


@pytest.mark.parametrize(
    "op",
    [
        Vector(name="stream", count=1.0, vpu_ops=0.0, hbm_bytes=1e9),
        Matmul(name="thin", count=1.0, m=8.0, k=16384.0, n=16384.0),
        Attention(
            name="decode",
            count=1.0,
            groups=256.0,
            rows=8.0,
            length=8192.0,
            qk_width=128.0,
            v_width=128.0,
            kv_bytes=8192.0 * 512,
        ),
    ],
    ids=lambda op: op.name,
)
def test_pure_streaming(op: Operator) -> None:
    """HBM-bound: the bytes over the sustained bandwidth, plus the first and last transfer and the
    share of a latency that each step pays, below 3 % of a stream of half a gigabyte or more."""
    closed, tile = _both(op, IDEAL)
    assert tile.hbm_bytes == pytest.approx(float(closed.hbm_bytes), rel=1e-3)
    assert 1.0 <= tile.seconds / float(closed.hbm_bytes) / _s_per_byte() < 1.03


PREFILL = Attention(
    name="prefill",
    count=1.0,
    groups=64.0,
    rows=8192.0,
    length=4096.0,
    qk_width=128.0,
    v_width=128.0,
    kv_bytes=4096.0 * 512,
)
DECODE = dataclasses.replace(PREFILL, name="decode", groups=2048.0, rows=8.0)


@pytest.mark.parametrize(
    ("op", "change", "values"),
    [
        (PREFILL, {"masked_length": 2048.0}, {}),
        (PREFILL, {"paged": 1.0}, {"paged_attention_fraction": 0.25}),
        (DECODE, {"paged": 1.0}, {"kv_read_fraction": 0.25}),
    ],
    ids=["masked", "paged compute", "paged reads"],
)
def test_attention_slows_as_in_the_closed_form(
    op: Attention, change: dict[str, float], values: dict[str, float]
) -> None:
    """What the mask hides costs time and no bytes; pages slow what the rung is bound by."""
    ideal = {**IDEAL, "paged_attention_fraction": 1.0, **values}
    plain, played = _both(op, ideal)
    closed, tile = _both(dataclasses.replace(op, **change), ideal)
    growth = float(closed.seconds) / float(plain.seconds)
    assert growth > 1.3
    assert tile.seconds / played.seconds == pytest.approx(growth, rel=0.05)
    assert tile.hbm_bytes == pytest.approx(played.hbm_bytes, rel=0.02)


def test_attention_is_not_slowed_by_the_fusions_of_a_step() -> None:
    half = {**IDEAL, "step_mxu_fraction": THETA["step_mxu_fraction"] / 2}
    assert _both(PREFILL, half)[1].seconds == pytest.approx(_both(PREFILL, IDEAL)[1].seconds)


def test_passes_over_the_tokens_are_played_in_every_layer() -> None:
    passes = Vector(name="passes", count=1.0, vpu_ops=0.0, hbm_bytes=8e9, in_layers=True)
    matmul = Matmul(name="m", count=8.0, m=64.0, k=4096.0, n=4096.0)
    (step,) = time_steps(V6E, THETA, {}, [[passes, matmul]], 8.0)
    row = step.operators[0]
    assert row.count == 8
    assert row.hbm_bytes == pytest.approx(8e9)
    assert row.time_s == pytest.approx(8e9 * _s_per_byte(), rel=0.02)
    tiny = dataclasses.replace(passes, hbm_bytes=8.0)
    (short,) = time_steps(V6E, THETA, {}, [[tiny, matmul]], 8.0)
    assert short.operators[0].alone_s > 8 * V6E.hbm_latency_s  # ends of their own


def _s_per_byte() -> float:
    return 1 / (V6E.hbm_bandwidth_bytes_per_s * THETA["hbm_sustained_fraction"])


def _difference(op: Operator, chip: Chip = V6E) -> Difference:
    closed, tile = _both(op, THETA, chip)
    (row,) = compare(closed.operators, tile)
    assert row.ratio == pytest.approx(row.tile_s / row.analytical_s)
    return row


def test_the_differences_say_where_they_come_from() -> None:
    tiny = _difference(Matmul(name="tiny", count=1.0, m=8.0, k=128.0, n=128.0))
    assert tiny.cause == CAUSES["ends"]
    uneven = Matmul(name="uneven", count=1.0, m=64.0, k=4096.0, n=4096.0 * 16)
    starved = dataclasses.replace(V6E, vmem_bytes=V6E.vmem_bytes / 256)
    assert _difference(uneven, starved).ratio > _difference(uneven).ratio
    assert _difference(uneven, starved).cause != CAUSES["ends"]


def test_operators_of_training_are_refused_with_the_way_out() -> None:
    gradient = Collective(
        name="gradient sum",
        count=1.0,
        kind="all_reduce",
        axis="data",
        payload_bytes=1.0,
        hides="gradient",
    )
    with pytest.raises(UnsupportedOperator, match=r"'gradient sum'.*fidelity: analytical"):
        time_steps(V6E, THETA, {}, [[gradient]], 1.0)


def test_times_of_operators_add_up_to_the_step() -> None:
    ops: list[Operator] = [
        Vector(name="embedding", count=1.0, vpu_ops=1e6, hbm_bytes=1e6),
        Matmul(name="up", count=12.0, m=512.0, k=4096.0, n=8192.0),
        Matmul(name="experts", count=8.0, m=20.5, k=4096.0, n=1024.0, groups=30.25, ragged=1.0),
        Matmul(name="head", count=0.25, m=1.0, k=4096.0, n=32000.0),
    ]
    (step,) = time_steps(V6E, THETA, {}, [ops], 12.0)
    assert step.seconds == pytest.approx(sum(op.time_s for op in step.operators))
    assert step.hbm_bytes == pytest.approx(sum(op.hbm_bytes for op in step.operators))
    assert all(op.time_s > 0 for op in step.operators)
    slowest = max(step.operators, key=lambda op: op.time_s)
    assert slowest.name in ("up", "experts")
