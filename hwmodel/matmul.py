"""Time of a matmul on the matrix units: issue cadence, weight latches, packing and tile
quantisation.

One *pass* streams m rows through one latched [K, N] weight tile. Latches are double-buffered, so a
pass costs max(issue, latch) cycles and only the first latch of an operator is exposed, with the
array's fill latency (openxla/xla `xla/benchmarks/pallas_microbenchmarks/cost_model.py`).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_zero
from hwmodel.rates import MxuFormat, Rates
from hwmodel.whole import ceil_div, ceil_times, up

Number = Any


def mxu_cycles(r: Rates, fmt: MxuFormat, m: Number, k: Number, n: Number, groups: Number) -> Number:
    """Cycles that the busiest matrix unit is occupied by `groups` products [m, k] @ [k, n].

    passes = ceil(k / K) · ceil(n / N) · groups are dealt to all matrix units, at least one pass
    each. A chip whose units take fixed row tiles (GPU) also tiles m and is quantised in whole
    waves. N:M sparsity shortens the contraction, hence the passes. `m` and `groups` may be expected
    values.
    """
    tiles = ceil_times(n, r.mxu_cols_inverse) * groups
    return (
        deal(r, ceil_times(k, r.mxu_rows_inverse), tiles, pass_cycles(r, fmt, m), m)
        * fmt.nm_speedup_inverse
    )


def deal(r: Rates, depth: Number, tiles: Number, cycles: Number, m: Number) -> Number:
    """Cycles of the busiest unit when `tiles` output tiles, each `depth` passes of `cycles`, are
    dealt.

    A TPU splits the contraction over its few units as well, so only the last pass is uneven. A GPU
    gives each unit whole output tiles of fixed height, wave after wave, and splits the contraction
    only when there are fewer tiles than units.
    """
    streamed = jnp.maximum(depth * tiles * r.mxu_units_inverse, 1.0)
    if is_zero(r.row_tile):
        return streamed * cycles
    outputs = up(tiles) * row_tiles(r, m)
    waves = ceil_div(outputs, r.mxu_units) * depth
    split = jnp.maximum(depth * outputs * r.mxu_units_inverse, 1.0)
    tiled = jnp.where(outputs >= r.mxu_units, waves, split)
    return jnp.where(r.row_tile > 0, tiled, streamed) * cycles


def row_tiles(r: Rates, m: Number) -> Number:
    """Row tiles of `m` rows on a chip whose units take fixed tiles."""
    return ceil_div(up(m), jnp.maximum(r.row_tile, 1.0))


def pass_cycles(r: Rates, fmt: MxuFormat, m: Number) -> Number:
    """Cycles of one pass: streaming its rows, or latching the next tile, whichever is longer."""
    rows = m
    if not is_zero(r.row_tile):
        rows = jnp.where(r.row_tile > 0, r.row_tile, m)
    return jnp.maximum(issue_cycles(fmt, rows), fmt.latch_cycles)


def issue_cycles(fmt: MxuFormat, rows: Number) -> Number:
    """Cycles to stream `rows` >= 1 in whole vmatmul issues (of an expected, fractional number of
    rows a remainder below half a row is dropped)."""
    return ceil_times(rows, fmt.rows_per_issue_inverse) * fmt.cycles_per_issue
