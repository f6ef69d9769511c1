"""The play: a double-buffered pipeline of DMA and compute over a regular grid of blocks.

The grid is a loop nest group > outer > middle > inner. Two inputs and one output are indexed by
some of these dimensions; a block whose index did not change is not fetched again, and an output
block is written when its inner loop is done. While one step computes, the DMA engine fetches the
blocks of the next step and writes the output finished by the step before:

    T = first DMA + sum over steps of (max(DMA, compute) + step cost) + last DMA

(openxla/xla `xla/benchmarks/pallas_microbenchmarks/cost_model.py`, and the Pallas TPU pipeline).
Input and output transfers of a step share the HBM bandwidth and pay one latency. The first and the
last transfer overlap with nothing and pay the whole latency.

Steps of a regular grid fall into few classes (first, inner, before-last and last position of each
loop), so every step is played exactly, edge blocks included, at a cost that does not depend on the
size of the grid. All arrays are [Q] for Q independent grids, or broadcast over the step classes
[Q, group, outer, middle, inner].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Compute = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class Operand:
    """Bytes per element of a block, and which loops index it (0 or 1 each), arrays [Q]. Every
    operand is indexed by the group."""

    bytes_per_element: Array
    outer: Array
    middle: Array
    inner: Array

    def block_bytes(self, outer: Array, middle: Array, inner: Array) -> Array:
        """Bytes of a block with these extents."""
        q = (..., *(None,) * (np.ndim(outer) - 1))
        size = np.where(self.outer[q] > 0, outer, 1.0) * np.where(self.middle[q] > 0, middle, 1.0)
        return self.bytes_per_element[q] * size * np.where(self.inner[q] > 0, inner, 1.0)


@dataclass(frozen=True)
class Pipeline:
    """Q grids to play, arrays [Q].

    total and block: extents of the outer, middle and inner loop. groups >= 1 may be an expected
    (fractional) count. stationary is the input whose freshly fetched blocks may need vector work.
    compute(outer, middle, inner, fresh) gives MXU and VPU seconds of one step of these extents,
    where fresh is 1 where the block of `stationary` is new, else 0.
    """

    total: tuple[Array, Array, Array]
    block: tuple[Array, Array, Array]
    groups: Array
    streamed: Operand
    stationary: Operand
    output: Operand
    compute: Compute
    engine_overlap: Array
    hbm_s_per_byte: Array
    dma_latency_s: Array
    step_latency_s: Array
    step_fixed_s: Array


@dataclass(frozen=True)
class Played:
    """Outcome of a play, arrays [Q]. prologue: the first transfer, of which `static_s` are weights
    or cache and could be fetched before the operator's input exists. volume: products of block
    extents summed over all steps (the MACs where every loop is a matmul dimension)."""

    seconds: Array
    mxu_s: Array
    vpu_s: Array
    hbm_bytes: Array
    hbm_s: Array
    prologue_s: Array
    static_s: Array
    epilogue_s: Array
    steps: Array
    volume: Array


@dataclass(frozen=True)
class _Loop:
    """Step classes of one loop, arrays broadcast to their axis: first, inner, before last, last."""

    count: Array  # blocks, [Q]
    weight: Array
    size: Array
    following: Array  # extent of the next block; of the first one after the last
    first: Array
    last: Array
    first_size: Array  # broadcast, one class
    last_size: Array
    block: Array


def blocks(total: Array, block: Array) -> Array:
    """Blocks along one dimension. In IEEE arithmetic the quotient of an exact multiple is exact."""
    return np.ceil(total / block)


def _loop(total: Array, block: Array, axis: int) -> _Loop:
    count = blocks(total, block)
    edge = total - (count - 1) * block
    first_size = np.where(count > 1, block, edge)

    def on_axis(*classes: Array | float) -> Array:
        stacked = np.stack(np.broadcast_arrays(*classes), axis=-1)
        shape = [stacked.shape[0], 1, 1, 1, 1]
        shape[axis] = len(classes)
        return stacked.reshape(shape)

    return _Loop(
        count=count,
        weight=on_axis(1.0 * (count >= 2), np.maximum(count - 3, 0), 1.0 * (count >= 3), 1.0),
        size=on_axis(block, block, block, edge),
        following=on_axis(np.where(count == 2, edge, block), block, edge, first_size),
        first=on_axis(np.ones_like(count), 0.0, 0.0, 1.0 * (count == 1)) > 0,
        last=on_axis(np.zeros_like(count), 0.0, 0.0, 1.0) > 0,
        first_size=on_axis(first_size),
        last_size=on_axis(edge),
        block=on_axis(block),
    )


def play(p: Pipeline) -> Played:
    """Play all grids."""
    q = (..., None, None, None, None)
    outer, middle, inner = (
        _loop(total, block, axis)
        for total, block, axis in zip(p.total, p.block, (2, 3, 4), strict=True)
    )
    more = np.minimum(p.groups - 1, 1.0)  # expected groups beyond the first, up to one
    ones = np.ones_like(p.groups)
    group_weight = np.stack([more, np.maximum(p.groups - 2, 0), ones], axis=-1)
    group_weight = group_weight[:, :, None, None, None]
    preceded = np.stack([0 * ones, ones, more], axis=-1)[:, :, None, None, None]
    followed = np.array([1.0, 1.0, 0.0])[None, :, None, None, None]

    def changes(operand: Operand, step: tuple[Array, ...], over: Array) -> tuple[Array, Array]:
        """How far an operand's index changes at a loop boundary: within a group, and between
        groups (a weight, because the number of groups may be fractional)."""
        step_inner, step_middle, step_outer, step_group = step
        by_inner = (operand.inner[q] > 0) & (inner.count[q] > 1)
        by_middle = (operand.middle[q] > 0) & (middle.count[q] > 1)
        by_outer = (operand.outer[q] > 0) & (outer.count[q] > 1)
        inside = (step_inner & by_inner) | (step_middle & (by_middle | by_inner))
        inside = inside | (step_outer & (by_outer | by_middle | by_inner))
        return 1.0 * inside, step_group * over

    # The step after this one: which loop advances, and the extents of its blocks.
    ahead = (
        ~inner.last,
        inner.last & ~middle.last,
        inner.last & middle.last & ~outer.last,
        inner.last & middle.last & outer.last,
    )
    next_outer = np.where(ahead[2] | ahead[3], outer.following, outer.size)
    next_middle = np.where(ahead[0], middle.size, middle.following)
    fetched: Array = np.zeros(())
    for operand in (p.streamed, p.stationary):
        size = operand.block_bytes(next_outer, next_middle, inner.following)
        inside, between = changes(operand, ahead, followed)
        fetched = fetched + size * (inside + between)

    # The step before this one: what it finished, and whether the stationary block is new.
    behind = (
        ~inner.first,
        inner.first & ~middle.first,
        inner.first & middle.first & ~outer.first,
        inner.first & middle.first & outer.first,
    )
    prior_outer = np.where(behind[3], outer.last_size, np.where(behind[2], outer.block, outer.size))
    prior_middle = np.where(behind[1], middle.block, middle.last_size)
    written = p.output.block_bytes(prior_outer, prior_middle, inner.block)
    written = written * (1.0 * (behind[1] | behind[2]) + behind[3] * preceded)
    inside, between = changes(p.stationary, behind, np.ones(()))
    fresh = np.minimum(inside + between, 1.0)

    mxu_s, vpu_s = p.compute(outer.size, middle.size, inner.size, fresh)
    e = p.engine_overlap[q]
    compute_s = e * np.maximum(mxu_s, vpu_s) + (1 - e) * (mxu_s + vpu_s)
    moved = fetched + written
    dma_s = moved * p.hbm_s_per_byte[q] + (moved > 0) * p.step_latency_s[q]
    weight = group_weight * (outer.weight * middle.weight * inner.weight)

    def total(values: Array) -> Array:
        return np.sum(weight * values, axis=(1, 2, 3, 4))

    first = (outer.first_size, middle.first_size, inner.first_size)
    last = (outer.last_size, middle.last_size, inner.last_size)
    streamed = p.streamed.block_bytes(*first).reshape(-1)
    stationary = p.stationary.block_bytes(*first).reshape(-1)
    out = p.output.block_bytes(*last).reshape(-1)

    def cold(size: Array) -> Array:
        return size * p.hbm_s_per_byte + (size > 0) * p.dma_latency_s

    prologue_s, epilogue_s = cold(streamed + stationary), cold(out)
    steps = total(np.ones(()))
    hbm_bytes = streamed + stationary + total(moved) + out
    return Played(
        seconds=prologue_s
        + total(np.maximum(dma_s, compute_s))
        + steps * p.step_fixed_s
        + epilogue_s,
        mxu_s=total(mxu_s),
        vpu_s=total(vpu_s),
        hbm_bytes=hbm_bytes,
        hbm_s=hbm_bytes * p.hbm_s_per_byte,
        prologue_s=prologue_s,
        static_s=prologue_s - cold(streamed),
        epilogue_s=epilogue_s,
        steps=steps,
        volume=total(outer.size * middle.size * inner.size),
    )
