"""Time of fused softmax attention on one chip, for long query blocks (prefill) and single queries.

Per group, scores are [rows, qk_width] @ [qk_width, length] and outputs [rows, length] @ [length,
v_width]. Either the cache is latched and query rows stream (prefill), or, when few rows share a KV
head, the queries are latched and the cache streams. The compiler may pick the cheaper form, so the
model takes the minimum. The softmax runs on the VPU; with a 256-wide MXU it often binds.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_zero
from hwmodel.matmul import deal, issue_cycles, pass_cycles
from hwmodel.rates import MxuFormat, Rates
from hwmodel.rows import Row
from hwmodel.theta import Theta
from hwmodel.whole import ceil_times

Number = Any


def attention_cycles(r: Rates, fmt: MxuFormat, op: Row) -> Number:
    """Cycles of the busiest matrix unit for all groups of `op` (scores and values)."""
    qk_tiles = ceil_times(op["qk_width"], r.mxu_rows_inverse)
    v_tiles = ceil_times(op["v_width"], r.mxu_cols_inverse)

    # Cache latched, queries stream: passes are dealt to all units of the chip.
    cycles = pass_cycles(r, fmt, op["rows"])
    length_tiles = ceil_times(op["length"], r.mxu_cols_inverse)
    scores = deal(r, qk_tiles, length_tiles * op["groups"], cycles, op["rows"])
    depth = op["softmax"] * ceil_times(op["length"], r.mxu_rows_inverse)
    outputs = deal(r, depth, v_tiles * op["groups"], cycles, op["rows"])
    cache_latched = scores + op["softmax"] * outputs

    # Queries latched, cache streams: one stream splits along its length over all units.
    tiles = qk_tiles + op["softmax"] * ceil_times(op["v_width"], r.mxu_rows_inverse)
    stream = tiles * (issue_cycles(fmt, op["length"]) + fmt.latch_cycles)
    stream = (
        stream * ceil_times(op["rows"], r.mxu_cols_inverse) * op["groups"] * r.mxu_units_inverse
    )
    streaming = jnp.minimum(cache_latched, stream)
    if is_zero(r.row_tile):
        return streaming
    return jnp.where(r.row_tile > 0, cache_latched, streaming)


def softmax_vpu_ops(theta: Theta, op: Row) -> Number:
    """Vector work: scale, running max, exponential, sum and cast per score (one pass of adds for an
    indexer); widening of a narrow cache."""
    scores = op["groups"] * op["rows"] * op["length"]
    per_score = theta["softmax_ops_per_score"] * op["softmax"] + (1 - op["softmax"])
    return (
        scores * per_score
        + op["groups"] * op["kv_elements_converted"] * theta["dequant_ops_per_weight"]
    )
