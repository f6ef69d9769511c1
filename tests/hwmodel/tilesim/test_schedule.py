"""The schedule of a step: order, overlap, prefetch, repeated layers."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodel.tilesim.layers import arrange
from hwmodel.tilesim.schedule import Kernel, Segment, Transfer, run

MATMUL = Kernel(
    seconds=10.0,
    hbm_s=4.0,
    static_s=1.5,
    latency_s=0.5,
    part_s=2.0,
    buffer_bytes=1.0,
    budget_bytes=10.0,
    matmul=True,
)
SOFTMAX = dataclasses.replace(MATMUL, matmul=False, static_s=0.0)
SUM = Transfer(transfer_s=6.0, latency_s=1.0, links=("x",), chunked=0.5)


def _seconds(*items: Kernel | Transfer, layers: float = 1.0) -> float:
    seconds, added = run([Segment(layers, list(enumerate(items)))], len(items))
    assert seconds == pytest.approx(sum(added))
    return seconds


def test_a_chunked_collective_hides_beside_its_producer() -> None:
    assert _seconds(SOFTMAX, SUM, SOFTMAX) == pytest.approx(10 + 7 + 10)
    assert _seconds(MATMUL, SUM, SOFTMAX) == pytest.approx(10 + 7 - 3 + 10)
    assert _seconds(MATMUL, dataclasses.replace(SUM, chunked=0.0), SOFTMAX) == pytest.approx(27)


def test_what_is_left_hides_beside_the_consumer() -> None:
    """Behind a kernel that is no matmul nothing hides before it; the half that may waits for the
    matmul, which also fetched its weights ahead."""
    alone = dataclasses.replace(MATMUL, static_s=0.0)
    assert _seconds(SOFTMAX, SUM, alone) == pytest.approx(10 + 7 + 10 - 3)
    assert _seconds(SOFTMAX, SUM, MATMUL) == pytest.approx(10 + 7 + 10 - 3 - 1.5)


def test_a_pass_over_the_tokens_lets_the_parts_of_a_collective_through() -> None:
    alone = dataclasses.replace(MATMUL, static_s=0.0)
    passes = dataclasses.replace(SOFTMAX, by_token=True)
    assert _seconds(SOFTMAX, SUM, SOFTMAX, alone) == pytest.approx(10 + 7 + 10 + 10)
    assert _seconds(SOFTMAX, SUM, passes, alone) == pytest.approx(10 + 7 + 10 + 10 - 3)


def test_a_consumer_ends_after_the_last_part_arrives() -> None:
    short = dataclasses.replace(MATMUL, seconds=2.0, part_s=1.0, static_s=0.0)
    assert _seconds(SOFTMAX, SUM, short) == pytest.approx(10 + 7 + 1)


def test_the_first_blocks_are_prefetched_where_buffers_fit_and_hbm_idles() -> None:
    assert _seconds(MATMUL, MATMUL) == pytest.approx(10 + 10 - 1.5)
    large = dataclasses.replace(MATMUL, buffer_bytes=6.0)
    assert _seconds(large, large) == pytest.approx(20)
    busy = dataclasses.replace(MATMUL, hbm_s=10.0)
    assert _seconds(busy, MATMUL) == pytest.approx(20)


def test_a_gather_runs_beside_the_layers_it_does_not_outlast() -> None:
    items = [(0, MATMUL), (1, SOFTMAX)]

    def with_gather(seconds: float) -> float:
        segment = Segment(8.0, items, {"y": seconds}, 2)
        return run([segment], 3)[0]

    period = _seconds(MATMUL, SOFTMAX, layers=8.0) / 8
    assert with_gather(5.0) == pytest.approx(8 * period)
    assert with_gather(50.0) == pytest.approx(8 * 50.0)


KERNELS = st.builds(
    Kernel,
    seconds=st.floats(4, 20),
    hbm_s=st.floats(0, 4),
    static_s=st.floats(0, 3),
    latency_s=st.floats(0, 0.5),
    part_s=st.floats(0.1, 4),
    buffer_bytes=st.floats(1, 9),
    budget_bytes=st.just(10.0),
    matmul=st.booleans(),
)
TRANSFERS = st.builds(
    Transfer,
    transfer_s=st.floats(0, 30),
    latency_s=st.floats(0, 3),
    links=st.sampled_from([("x",), ("y", "z"), ("dcn",)]),
    chunked=st.floats(0, 1),
)
LAYERS = st.lists(KERNELS | TRANSFERS, min_size=1, max_size=8)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(items=LAYERS, layers=st.integers(2, 12))
def test_equal_layers_repeat_with_an_exact_period(items, layers: int) -> None:
    """A few scheduled layers and an extrapolation are the whole schedule."""
    long = [Segment(1.0, list(enumerate(items))) for _ in range(layers)]
    assert _seconds(*items, layers=float(layers)) == pytest.approx(run(long, len(items))[0])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(items=LAYERS)
def test_a_step_is_no_shorter_than_a_resource_and_no_longer_than_the_sum(items) -> None:
    seconds = _seconds(*items)
    kernels = [i for i in items if isinstance(i, Kernel)]
    transfers = [i for i in items if isinstance(i, Transfer)]
    assert seconds >= sum(k.hbm_s for k in kernels) - 1e-9
    assert seconds >= sum(k.seconds - k.static_s for k in kernels) - 1e-9
    for link in ("x", "y", "z", "dcn"):
        assert seconds >= sum(t.transfer_s for t in transfers if link in t.links) - 1e-9
    assert seconds <= sum(k.seconds for k in kernels) + 1e-9 + sum(
        t.transfer_s + t.latency_s for t in transfers
    )


COUNT = st.sampled_from([0.0, 0.25, 1.0, 3.0, 58.0, 61.0, 116.0, 122.0, 20.5])
COUNTS = st.lists(COUNT, max_size=9)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(counts=COUNTS)
def test_every_execution_is_in_some_layer(counts: list[float]) -> None:
    segments = arrange(counts, 61.0)
    for row, count in enumerate(counts):
        executed = sum(layers * rows.count(row) for layers, rows in segments)
        assert executed == pytest.approx(count), row


def test_dense_layers_come_before_layers_with_experts() -> None:
    """DeepSeek-V3: 61 layers of attention, 3 dense blocks, 58 with experts and two exchanges."""
    segments = arrange([1.0, 61.0, 3.0, 3.0, 58.0, 116.0, 1.0], 61.0)
    assert segments == [
        (1.0, [0]),
        (3.0, [1, 2, 3]),
        (58.0, [1, 4, 5, 5]),
        (1.0, [6]),
    ]
