"""The closed-form play against a step-by-step one, and what always holds of a pipeline."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwmodel.tilesim.pipeline import Operand, Pipeline, Played, play

SIZES = st.integers(1, 7)
FLAGS = st.sampled_from([(1, 0, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1), (0, 0, 0)])
RATES = {"hbm": 0.5, "cold": 3.0, "warm": 0.25, "step": 0.125, "overlap": 0.75}


def _compute(outer, middle, inner, fresh):
    """MXU and VPU seconds of one step: quantised, so that edge blocks are not in proportion."""
    mxu = np.ceil(outer / 2) * np.ceil(middle / 3) * inner * 0.7 + 0.1
    return mxu, 0.2 * outer * middle + 1.5 * fresh * inner


def _pipeline(total, block, groups, streamed, stationary) -> Pipeline:
    def one(value: float) -> np.ndarray:
        return np.array([float(value)])

    def operand(size: float, flags) -> Operand:
        return Operand(one(size), *(one(flag) for flag in flags))

    return Pipeline(
        total=tuple(one(t) for t in total),
        block=tuple(one(min(b, t)) for b, t in zip(block, total, strict=True)),
        groups=one(groups),
        streamed=operand(1.5, streamed),
        stationary=operand(0.75, stationary),
        output=operand(0.5, (1, 1, 0)),
        compute=_compute,
        engine_overlap=one(RATES["overlap"]),
        hbm_s_per_byte=one(RATES["hbm"]),
        dma_latency_s=one(RATES["cold"]),
        step_latency_s=one(RATES["warm"]),
        step_fixed_s=one(RATES["step"]),
    )


def _explicit(p: Pipeline) -> tuple[float, float]:
    """Seconds and HBM bytes by visiting every step of the grid in order."""
    sides = []
    for total, block in zip(p.total, p.block, strict=True):
        count = math.ceil(total[0] / block[0])
        sides.append([min(block[0], total[0] - i * block[0]) for i in range(count)])
    visits = list(itertools.product(range(int(p.groups[0])), *(range(len(s)) for s in sides)))
    operands = (p.streamed, p.stationary)

    def key(operand: Operand, visit):
        used = (operand.outer[0], operand.middle[0], operand.inner[0])
        return visit[0], *(i if u else 0 for i, u in zip(visit[1:], used, strict=True))

    def size(operand: Operand, visit) -> float:
        used = (operand.outer[0], operand.middle[0], operand.inner[0])
        extents = (side[i] if u else 1.0 for side, i, u in zip(sides, visit[1:], used, strict=True))
        return operand.bytes_per_element[0] * math.prod(extents)

    def cold(moved: float) -> float:
        return moved * RATES["hbm"] + (RATES["cold"] if moved else 0.0)

    first = sum(size(o, visits[0]) for o in operands)
    seconds, moved = cold(first), first
    for n, visit in enumerate(visits):
        fetched = 0.0
        if n + 1 < len(visits):
            ahead = visits[n + 1]
            fetched = sum(size(o, ahead) for o in operands if key(o, ahead) != key(o, visit))
        written = 0.0
        if n and key(p.output, visit) != key(p.output, visits[n - 1]):
            written = size(p.output, visits[n - 1])
        fresh = n == 0 or key(p.stationary, visit) != key(p.stationary, visits[n - 1])
        extents = [np.array(side[i]) for side, i in zip(sides, visit[1:], strict=True)]
        mxu, vpu = _compute(*extents, float(fresh))
        e = RATES["overlap"]
        compute = e * max(mxu, vpu) + (1 - e) * (mxu + vpu)
        step = fetched + written
        transfer = step * RATES["hbm"] + (RATES["warm"] if step else 0.0)
        seconds += max(transfer, compute) + RATES["step"]
        moved += step
    last = size(p.output, visits[-1])
    return float(seconds + cold(last)), moved + last


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    total=st.tuples(SIZES, SIZES, SIZES),
    block=st.tuples(SIZES, SIZES, SIZES),
    groups=st.integers(1, 4),
    streamed=FLAGS,
    stationary=FLAGS,
)
def test_the_closed_form_visits_every_step(total, block, groups, streamed, stationary) -> None:
    p = _pipeline(total, block, groups, streamed, stationary)
    played = play(p)
    seconds, moved = _explicit(p)
    assert played.seconds[0] == pytest.approx(seconds, rel=1e-12)
    assert played.hbm_bytes[0] == pytest.approx(moved, rel=1e-12)
    assert played.volume[0] == pytest.approx(math.prod(total) * groups, rel=1e-12)
    counts = [math.ceil(t / min(b, t)) for t, b in zip(total, block, strict=True)]
    assert played.steps[0] == groups * math.prod(counts)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(total=st.tuples(SIZES, SIZES, SIZES), share=st.floats(0, 1), groups=st.integers(1, 3))
def test_an_expected_number_of_groups_lies_between_whole_ones(total, share, groups) -> None:
    """Bytes and work in proportion, time in between: an expected count of hit experts."""

    def at(count: float) -> Played:
        return play(_pipeline(total, (2, 2, 2), count, (1, 0, 1), (0, 1, 1)))

    low, high, middle = at(groups), at(groups + 1), at(groups + share)
    for name in ("hbm_bytes", "mxu_s", "volume"):
        ends = getattr(low, name)[0], getattr(high, name)[0]
        expected = (1 - share) * ends[0] + share * ends[1]
        assert getattr(middle, name)[0] == pytest.approx(expected, rel=1e-9), name
    slack = 1e-12 * high.seconds[0]
    assert low.seconds[0] - slack <= middle.seconds[0] <= high.seconds[0] + slack
