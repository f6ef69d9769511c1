"""Collectives against the closed forms of the Scaling Book (jax-ml/scaling-book, sharding.md).

With W the bandwidth of one ring in both directions: all-gather and reduce-scatter of V bytes take
V / W, an all-reduce 2 V / W, an all-to-all V / 4 W; more torus dimensions add their bandwidth.
The model keeps the (n - 1) / n that the book drops.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import jax
import pytest

from hwmodel import presets, theta
from hwmodel.chip import Chip
from hwmodel.collectives import Axis, fabric, lay_out, pattern, traffic, traffic_cost
from hwmodel.ops import Collective, CollectiveKind

THETA = theta.central()
ACHIEVED = THETA["collective_bandwidth_fraction"]
V6E, V5P, H100 = (presets.load(n) for n in ("v6e", "v5p", "h100"))
FILL = THETA["collective_fill_s"]
DCN = 12.5e9 * THETA["dcn_bandwidth_fraction"]
LINK = 100e9 * ACHIEVED  # one direction of one link of v6e and v5p
BYTES = 64e6


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True), jax.disable_jit():  # eagerly, or every case would compile a scan
        yield


def _axes(
    chip: Chip, torus: tuple[float, ...], places: Mapping[str, tuple[float, float]]
) -> dict[str, Axis]:
    return lay_out(fabric(chip, THETA, torus), places)


def _axis(chip: Chip, torus: tuple[float, ...], start: float, size: float) -> Axis:
    return _axes(chip, torus, {"a": (start, size)})["a"]


def _cost(axis: Axis, kind: CollectiveKind, payload: float = BYTES) -> dict[str, float]:
    op = Collective(name="c", count=1.0, kind=kind, axis="a", payload_bytes=payload)
    return {
        name: float(value) for name, value in traffic_cost(axis, pattern(op), *traffic(op)).items()
    }


def test_an_axis_of_one_chip_costs_nothing() -> None:
    axis = _axis(V6E, (4, 4, 1), 1, 1)
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute"):
        assert set(_cost(axis, kind).values()) == {0.0}
    with jax.disable_jit(False):
        traced = jax.jit(
            lambda n: traffic_cost(_axis(V6E, (4, 4, 1), 1, n), pattern(_op()), *traffic(_op()))
        )(1.0)
    assert {float(v) for v in traced.values()} == {0.0}


def _op() -> Collective:
    return Collective(name="c", count=1.0, kind="all_reduce", axis="a", payload_bytes=BYTES)


def test_a_ring_uses_both_directions() -> None:
    """A side of 16 on v6e wraps around: 15/16 of the array over 2 x 89 GB/s."""
    cost = _cost(_axis(V6E, (16, 16, 1), 1, 16), "all_gather")
    assert cost["transfer_s"] == pytest.approx(BYTES * 15 / 16 / (2 * LINK))
    assert cost["ici_bytes"] == BYTES * 15 / 16
    assert cost["dcn_bytes"] == 0


@pytest.mark.parametrize("side", [2.0, 4.0, 8.0])
def test_a_side_shorter_than_16_is_a_line_on_v6e(side: float) -> None:
    cost = _cost(_axis(V6E, (side, 8, 1), 1, side), "all_gather")
    assert cost["transfer_s"] == pytest.approx(BYTES * (side - 1) / side / LINK)


def test_a_line_inside_a_wrapped_side_does_not_wrap() -> None:
    cost = _cost(_axis(V6E, (16, 16, 1), 1, 8), "all_gather")
    assert cost["transfer_s"] == pytest.approx(BYTES * 7 / 8 / LINK)


def test_v5p_wraps_at_multiples_of_four() -> None:
    ring = _cost(_axis(V5P, (4, 4, 4), 1, 4), "all_gather")["transfer_s"]
    assert ring == pytest.approx(BYTES * 3 / 4 / (2 * LINK))
    line = _cost(_axis(V5P, (2, 4, 4), 1, 2), "all_gather")["transfer_s"]
    assert line == pytest.approx(BYTES * 1 / 2 / LINK)


def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather() -> None:
    axis = _axis(V6E, (16, 16, 1), 1, 16)
    once, both = _cost(axis, "all_gather"), _cost(axis, "all_reduce")
    assert _cost(axis, "reduce_scatter") == once
    started_once = {"latency_s": 2 * once["latency_s"] - THETA["collective_fixed_s"]}
    assert both == pytest.approx({name: 2 * value for name, value in once.items()} | started_once)


def test_two_torus_dimensions_gather_at_twice_the_bandwidth() -> None:
    one = _cost(_axis(V6E, (16, 16, 1), 1, 16), "all_gather")["transfer_s"] / (15 / 16)
    two = _cost(_axis(V6E, (16, 16, 1), 1, 256), "all_gather")["transfer_s"] / (255 / 256)
    assert one == pytest.approx(2 * two)
    three = _cost(_axis(V5P, (4, 4, 4), 1, 64), "all_gather")["transfer_s"] / (63 / 64)
    assert three == pytest.approx(BYTES / (6 * LINK))


def test_the_second_dimension_alone_is_as_fast_as_the_first() -> None:
    first = _cost(_axis(V6E, (16, 16, 1), 1, 16), "all_gather")
    assert _cost(_axis(V6E, (16, 16, 1), 16, 16), "all_gather") == first


def test_groups_that_share_a_line_share_its_bandwidth() -> None:
    """Inside a side of 8, an axis of 4 at stride 2: two interleaved groups on the same links."""
    alone = _cost(_axis(V6E, (4, 8, 1), 1, 4), "all_gather")
    shared = _cost(_axis(V6E, (8, 8, 1), 2, 4), "all_gather")
    assert shared["transfer_s"] == pytest.approx(2 * alone["transfer_s"])


@pytest.mark.parametrize(("torus", "rings"), [((16.0, 16.0, 1.0), 2.0), ((8.0, 8.0, 1.0), 1.0)])
def test_an_all_to_all_crosses_a_quarter_of_a_ring(torus: tuple[float, ...], rings: float) -> None:
    """Each chip sends V / n: V / 4 W on a ring with W both directions, twice that on a line."""
    n = torus[0]
    cost = _cost(_axis(V6E, torus, 1, n), "all_to_all", BYTES / n)
    assert cost["transfer_s"] == pytest.approx(BYTES / 4 / (rings * LINK))
    assert cost["ici_bytes"] == pytest.approx(BYTES / n * (n - 1) / n)


def test_an_all_to_all_over_two_dimensions_is_bound_by_the_longer() -> None:
    cost = _cost(_axis(V6E, (8, 4, 1), 1, 32), "all_to_all")
    assert cost["transfer_s"] == pytest.approx(BYTES * 8 / 4 / LINK)


def test_latency_counts_hops_and_one_start() -> None:
    hop, once = V6E.ici_hop_latency_s, THETA["collective_fixed_s"]
    start = once + FILL
    ring = _axis(V6E, (16, 16, 1), 1, 16)
    assert _cost(ring, "all_gather")["latency_s"] == pytest.approx(7.5 * hop + start)
    line = _axis(V6E, (8, 8, 1), 1, 8)
    assert _cost(line, "all_gather")["latency_s"] == pytest.approx(7 * hop + start)
    plane = _axis(V6E, (8, 4, 1), 1, 32)
    assert _cost(plane, "all_gather")["latency_s"] == pytest.approx((7 + 3) * hop + start)
    assert _cost(line, "all_reduce")["latency_s"] == pytest.approx(2 * 7 * hop + once + 2 * FILL)
    assert _cost(line, "permute")["latency_s"] == pytest.approx(hop + start)


def test_the_first_chunk_of_a_collective_overlaps_with_nothing() -> None:
    axis = _axis(V6E, (16, 16, 1), 1, 16)
    fixed = 7.5 * V6E.ici_hop_latency_s + THETA["collective_fixed_s"]
    small = traffic_cost(axis, "gather", 1e4, 1.0)
    assert float(small["latency_s"]) == pytest.approx(fixed + float(small["transfer_s"]))
    many = traffic_cost(axis, "gather", 1e9, 10.0)
    assert float(many["latency_s"]) == pytest.approx(10 * (fixed + FILL))


def test_what_leaves_the_slice_crosses_dcn() -> None:
    """32 chips over two slices of 4 x 4: half the shard over DCN, then 15/16 gathered on ICI."""
    axis = _axis(V6E, (4, 4, 1), 1, 32)
    cost = _cost(axis, "all_gather")
    assert float(axis.ici_size) == 16
    on_ici, on_dcn = BYTES * 15 / 16, BYTES / 16 / 2
    assert cost["transfer_s"] == pytest.approx(on_ici / (2 * LINK) + on_dcn / DCN)
    assert (cost["ici_bytes"], cost["dcn_bytes"]) == (on_ici, on_dcn)
    assert cost["latency_s"] == pytest.approx(
        6 * V6E.ici_hop_latency_s + THETA["collective_fixed_s"] + FILL + V6E.dcn_latency_s
    )


def test_an_axis_between_slices_uses_dcn_only() -> None:
    axis = _axis(V6E, (4, 4, 1), 16, 4)
    cost = _cost(axis, "all_gather")
    assert cost["ici_bytes"] == 0
    assert cost["transfer_s"] == pytest.approx(BYTES * 3 / 4 / DCN)
    assert cost["latency_s"] == pytest.approx(V6E.dcn_latency_s + FILL)
    exchange = _cost(axis, "all_to_all")
    assert exchange["transfer_s"] == pytest.approx(BYTES * 3 / 4 / DCN)
    send = _cost(axis, "permute")
    assert send["transfer_s"] == pytest.approx(BYTES / DCN)


@pytest.mark.parametrize(
    ("torus", "start", "size", "fits"),
    [
        ((4, 4, 1), 1, 8, True),
        ((4, 4, 1), 2, 4, True),
        ((4, 4, 1), 1, 6, False),
        ((4, 4, 1), 3, 2, False),
        ((4, 4, 1), 1, 24, False),
        ((6, 4, 1), 1, 12, True),
    ],
)
def test_an_axis_that_does_not_tile_the_torus_is_marked(
    torus: tuple[float, ...], start: float, size: float, fits: bool
) -> None:
    assert float(_axis(V6E, torus, start, size).untiled) == (0.0 if fits else 1.0)


def test_a_switch_gives_the_bandwidth_of_a_protocol_whatever_the_order() -> None:
    """Driven by thread blocks: the share of the bulk protocol once the payload is large, after its
    fences."""
    fences_s = THETA["block_collective_hops_bulk"] * H100.ici_hop_latency_s
    injection = 18 * 25e9 * THETA["block_collective_bandwidth_bulk"]
    large = 64 * BYTES
    for start, size in ((1, 8), (2, 4), (1, 2)):
        cost = _cost(_axis(H100, (8, 1, 1), start, size), "all_gather", large)
        assert cost["transfer_s"] == pytest.approx(large * (size - 1) / size / injection + fences_s)
        assert cost["dcn_bytes"] == 0
    exchange = _cost(_axis(H100, (8, 1, 1), 1, 8), "all_to_all", large)
    assert exchange["transfer_s"] == pytest.approx(large * 7 / 8 / injection + fences_s)


def test_thread_blocks_start_an_all_reduce_once() -> None:
    axis = _axis(H100, (8, 1, 1), 1, 8)
    op = Collective(name="a", count=3.0, kind="all_reduce", axis="a", payload_bytes=1024.0)
    cost = traffic_cost(axis, pattern(op), *traffic(op))
    hops = THETA["block_collective_start_hops"] + 14 * THETA["block_collective_step_hops"]
    assert float(cost["latency_s"]) == pytest.approx(3 * hops * H100.ici_hop_latency_s)


def test_one_gpu_needs_no_collective() -> None:
    cost = _cost(_axis(H100, (8, 1, 1), 1, 1), "all_reduce")
    assert cost["transfer_s"] == cost["latency_s"] == 0


def test_beyond_the_switched_domain_there_is_dcn() -> None:
    axis = _axis(H100, (8, 1, 1), 1, 32)
    cost = _cost(axis, "all_gather")
    assert float(axis.ici_size) == 8
    assert (cost["ici_bytes"], cost["dcn_bytes"]) == (BYTES * 7 / 8, BYTES / 8 * 3 / 4)
    outer = _cost(_axis(H100, (8, 1, 1), 8, 4), "all_gather")
    assert (outer["ici_bytes"], outer["dcn_bytes"]) == (0, BYTES * 3 / 4)
    slower = _cost(_axis(H100, (8, 1, 1), 8, 2), "all_gather")
    assert outer["transfer_s"] == pytest.approx(slower["transfer_s"] * 3 / 2)


def test_faster_links_and_shorter_hops_never_hurt() -> None:
    faster = dataclasses.replace(V6E, ici_link_bandwidth_bytes_per_s=200e9)
    nearer = dataclasses.replace(V6E, ici_hop_latency_s=V6E.ici_hop_latency_s / 2)
    for start, size in ((1, 4), (4, 4), (1, 16), (2, 8)):
        old = _cost(_axis(V6E, (4, 4, 1), start, size), "all_reduce")
        new = _cost(_axis(faster, (4, 4, 1), start, size), "all_reduce")
        assert new["transfer_s"] == pytest.approx(old["transfer_s"] / 2)
        near = _cost(_axis(nearer, (4, 4, 1), start, size), "all_reduce")
        assert near["latency_s"] < old["latency_s"]


def test_traced_and_plain_sizes_agree() -> None:
    def cost(start: float, size: float) -> dict[str, float]:
        return _cost(_axis(V6E, (4, 8, 1), start, size), "all_reduce")

    @jax.jit
    def traced(x: float, y: float, start: float, size: float) -> dict[str, float]:
        axis = _axes(V6E, (x, y, 1.0), {"a": (start, size)})["a"]
        return traffic_cost(axis, pattern(_op()), *traffic(_op()))

    for start, size in ((1.0, 4.0), (4.0, 8.0), (1.0, 32.0), (2.0, 2.0), (1.0, 64.0)):
        with jax.disable_jit(False):
            found = {name: float(v) for name, v in traced(4.0, 8.0, start, size).items()}
        assert found == pytest.approx(cost(start, size), rel=1e-12)
