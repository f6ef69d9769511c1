"""The operators of a step in time: one chain of kernels, asynchronous collectives, prefetch.

A step is its layers one after the other. Kernels run in the order of the operator table on the
chip's engines; collectives run on the links they use. List scheduling along that chain:

- a kernel starts when its input is there and the one before it is done; the first blocks of its
  weights or cache are fetched before that, in the time in which HBM is idle, if both kernels'
  buffers fit on chip;
- a tensor-parallel collective starts when its producer is done. The share
  `collective_overlap_fraction` of it is cut into parts that follow the parts of a producing matmul
  and precede those of a consuming one, and runs beside them; its latency never hides;
- a weight gather is issued one layer ahead, runs beside everything and only delays a layer that is
  shorter than the gather, or than the work on a link or on HBM.

Layers of one kind are scheduled until one takes as long as the one before, which is the second or
third as the chain remembers little more than its last operator, and the rest take the same.
Operators that fewer layers have than the stage take consecutive layers, in the order of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

LINKS = ("x", "y", "z", "dcn")

SETTLING_LAYERS = 6
"""Equal layers that are scheduled one by one at most."""


@dataclass(frozen=True)
class Kernel:
    """One execution of a compute operator, seconds. static_s: the part of the first transfer that
    needs no input, latency_s of it without occupying HBM; part_s: until the first part of the
    result; buffer_bytes of budget_bytes. by_token: a pass over the tokens, so that the parts of a
    collective before it reach a matmul after it one by one."""

    seconds: float
    hbm_s: float
    static_s: float
    latency_s: float
    part_s: float
    buffer_bytes: float
    budget_bytes: float
    matmul: bool
    by_token: bool = False


@dataclass(frozen=True)
class Transfer:
    """One execution of a collective, seconds; chunked: the share that may run beside matmuls."""

    transfer_s: float
    latency_s: float
    links: tuple[str, ...]
    chunked: float


Item = Kernel | Transfer


@dataclass
class Segment:
    """`layers` equal layers (a fraction where the table holds an expected share of one): positions
    in the table and what runs there, and work that runs beside each layer."""

    layers: float
    items: list[tuple[int, Item]]
    beside_s: dict[str, float] = field(default_factory=dict)
    beside_row: int = -1


@dataclass
class _Chain:
    """Where the chain stands: when the last result is there, in part and in whole, what of a
    collective (of which row) may still run beside the next matmul, and how long HBM has been idle
    since the last kernel began."""

    now: float = 0.0
    part: float = 0.0
    left: float = 0.0
    left_row: int = 0
    idle_s: float = 0.0
    buffers: float = 0.0
    matmul: bool = False


def run(segments: Sequence[Segment], rows: int) -> tuple[float, list[float]]:
    """Seconds of a step, and the seconds that each of the table's `rows` adds to it (their sum)."""
    added = [0.0] * rows
    chain = _Chain()
    for segment in segments:
        chain_s, left, last = 0.0, segment.layers, math.nan
        for repeat in range(SETTLING_LAYERS):
            layer = _layer(chain, segment.items)
            period = sum(seconds for _, seconds in layer)
            settled, last = math.isclose(period, last, rel_tol=1e-12), period
            times = left if settled or repeat == SETTLING_LAYERS - 1 else min(left, 1.0)
            for row, seconds in layer:
                added[row] += times * seconds
                chain_s += times * seconds
            left -= times
            if left <= 0:
                break
        if segment.beside_s:
            added[segment.beside_row] += max(_busiest(segment) * segment.layers - chain_s, 0.0)
    return sum(added), added


def _busiest(segment: Segment) -> float:
    """Seconds that the busiest of HBM and the links needs for one layer and what runs beside it."""
    busy = dict(segment.beside_s)
    for _, item in segment.items:
        if isinstance(item, Kernel):
            busy["hbm"] = busy.get("hbm", 0.0) + item.hbm_s
        else:
            for link in item.links:
                busy[link] = busy.get(link, 0.0) + item.transfer_s
    return max(busy.values())


def _layer(chain: _Chain, items: Sequence[tuple[int, Item]]) -> list[tuple[int, float]]:
    """Schedule one layer; (row, seconds) that items add to the time at which the chain's result is
    there. What of a collective runs beside a later matmul is taken off the collective."""
    added = []
    for row, item in items:
        before = chain.now
        if isinstance(item, Kernel):
            earlier = _kernel(chain, item)
            added += [(chain.left_row, -earlier), (row, chain.now - before + earlier)]
        else:
            _transfer(chain, item)
            chain.left_row = row
            added.append((row, chain.now - before))
    return added


def _kernel(chain: _Chain, k: Kernel) -> float:
    """Run a kernel; returns the seconds by which it ran beside the collective before it."""
    fits = chain.buffers + k.buffer_bytes <= k.budget_bytes
    prefetched = min(k.static_s, chain.idle_s) if fits else 0.0
    seconds = k.seconds - prefetched
    # What is left of a collective runs beside a matmul; the last part needs it whole.
    begin = chain.now - chain.left if k.matmul else chain.now
    alone = chain.now + seconds
    chain.now = max(begin + seconds, chain.now + min(k.part_s, seconds))
    chain.part = chain.now - max(seconds - k.part_s, 0.0)
    chain.left = chain.left if k.by_token else 0.0
    chain.idle_s = max(seconds - k.hbm_s + max(prefetched - k.latency_s, 0.0), 0.0)
    chain.buffers = k.buffer_bytes
    chain.matmul = k.matmul
    return alone - chain.now


def _transfer(chain: _Chain, t: Transfer) -> None:
    chunks = t.chunked * t.transfer_s
    beside = min(chunks, chain.now - chain.part) if chain.matmul else 0.0
    left = chunks - beside
    exposed = t.transfer_s - beside + t.latency_s
    chain.idle_s += exposed
    chain.now += exposed
    chain.part = chain.now
    chain.left = left
    chain.matmul = False
