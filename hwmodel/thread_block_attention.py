"""Fused attention on chips whose cores run thread blocks (GPU): prefill and split-KV decode.

Prefill: a block takes a tile of query tokens of one head and visits the key tiles that any of
them sees. Per key tile the matrix unit multiplies twice and the vector lanes take the exponentials
of all scores; with narrow formats and heads the exponentials bind (FlashAttention-3, arXiv
2407.08608). Tiles that the diagonal or the window's edge crosses are masked element by element.

Decode: a block takes the query heads that share a KV head and streams the cache; with few sequences
the cache is split over several blocks and combined (Flash-Decoding). Kernels pack at most
`block_decode_packed_heads` query heads; beyond that each head reads the cache by itself, on vector
lanes.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from hwmodel.rows import Row
from hwmodel.theta import Theta
from hwmodel.thread_blocks import BlockRates, overlapped
from hwmodel.whole import ceil_div, up

Number = Any

TILE = 128.0
"""Query tokens and keys of one prefill tile."""
STREAMED = 64.0
"""Keys of one decode tile."""
_SPLIT = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])


def attention(b: BlockRates, theta: Theta, op: Row) -> dict[str, Number]:
    """Seconds of one fused attention, the fields of `hwmodel.ops.Attention` as scalars.

    Returns `tensor_s`, `simt_s`, `hbm_s`, `fixed_s`, `time_s` and `hbm_bytes`. `query_tokens` 0
    means one decoded token; `rows` are then the query heads of a KV head.
    """
    tokens = op["query_tokens"]
    if isinstance(tokens, int | float):
        return decode(b, theta, op) if tokens == 0 else prefill(b, theta, op)
    decoding = tokens == 0
    one = decode(b, theta, op)
    many = prefill(b, theta, {**op, "query_tokens": jnp.maximum(tokens, 1.0)})
    return {key: jnp.where(decoding, one[key], many[key]) for key in one}


def prefill(b: BlockRates, theta: Theta, op: Row) -> dict[str, Number]:
    """`op` with `query_tokens` new tokens a sequence; a narrow cache is multiplied narrow (fp8)."""
    tokens, heads = op["query_tokens"], op["groups"] * op["rows"] / op["query_tokens"]
    narrow = op["kv_elements_converted"] > 0
    tiles = ceil_div(up(tokens), TILE)
    # The keys that a tile of queries sees: its own half beyond the mean one's, twice in a window.
    height = jnp.minimum(up(tokens), TILE)
    windowed = (op["window"] > 0) & (op["window"] < tokens)
    sides = jnp.where(windowed, 2.0, 1.0)
    visited = jnp.maximum((op["length"] + sides * height / 2) / TILE, 1.0)
    masked = jnp.minimum(sides, visited)
    speed = jnp.where(narrow, 2.0, 1.0)
    sustained = jnp.where(
        narrow, theta["block_prefill_sustained_8bit"], theta["block_prefill_sustained_16bit"]
    )
    macs = TILE * TILE * (op["qk_width"] + op["softmax"] * op["v_width"])
    multiply_s = macs / (b.macs_per_s * speed * sustained)
    scores = TILE * TILE * op["softmax"]
    exponential_s = scores * theta["block_ops_per_exponential"] / b.alus_per_s
    exponent = theta["block_prefill_overlap_exponent"]
    mask_s = masked * scores * theta["block_ops_per_masked_score"] / b.alus_per_s
    tile_s = overlapped(multiply_s, jnp.maximum(exponential_s, 1e-15), exponent)
    ramp_s = theta["block_prefill_ramp_s"]
    block_s = visited * tile_s + mask_s + ramp_s
    # Blocks differ in length, so waves blur; the last one is exposed, and causal ones are longest.
    blocks = heads * tiles
    furthest = jnp.where(windowed, visited, (op["length"] + tokens / 2) / TILE)
    longest_s = jnp.maximum(furthest, 1.0) * tile_s + mask_s + ramp_s
    work_s = blocks * block_s / b.cores + longest_s * (1 - 1 / b.cores)
    element = jnp.where(narrow, 1.0, 2.0)
    new = op["groups"] * tokens * (op["qk_width"] + op["v_width"]) * (2 + element)
    queries = heads * tokens * (2 * op["qk_width"] + 2 * op["qk_width"] + 2 * op["v_width"])
    hbm_bytes = new + queries + op["groups"] * op["kv_bytes"]
    hbm_s = hbm_bytes / (b.hbm_bytes_per_s * theta["block_prefill_hbm_sustained"])
    fixed_s = theta["block_prefill_fixed_s"]
    return {
        "tensor_s": blocks * visited * multiply_s / b.cores,
        "simt_s": blocks * (visited * exponential_s + mask_s) / b.cores,
        "hbm_s": hbm_s,
        "fixed_s": jnp.asarray(fixed_s),
        "time_s": work_s + hbm_s + fixed_s,
        "hbm_bytes": hbm_bytes,
    }


def decode(b: BlockRates, theta: Theta, op: Row) -> dict[str, Number]:
    """`op` of one decoded token a sequence; the split of the cache is the cheapest of a list."""
    heads, length = op["rows"], op["length"]
    narrow = op["kv_elements_converted"] > 0
    width = op["qk_width"] + op["softmax"] * op["v_width"]
    latent = op["qk_width"] != op["v_width"]  # one cache entry serves as key and value
    packed = (heads <= theta["block_decode_packed_heads"]) | latent
    shared = heads > 1
    # Launch: the single-kernel path of narrow caches and wide heads, else several; each die more.
    fused = narrow & shared & packed & (op["qk_width"] >= TILE)
    fixed_s = jnp.where(fused, theta["block_decode_fixed_s_fused"], theta["block_decode_fixed_s"])
    fixed_s = jnp.maximum(fixed_s, theta["block_decode_fixed_s_per_die"] * b.dies)
    fixed_s = fixed_s + jnp.where(packed, heads * theta["block_decode_s_per_head"], 0.0)

    entry_bytes = op["kv_bytes"] / jnp.maximum(length, 1.0)
    tiles = ceil_div(ceil_div(up(length), _SPLIT), STREAMED)
    stream_s = STREAMED * entry_bytes / theta["block_decode_stream_bytes_per_s"]
    lanes = b.alus_per_s * theta["block_decode_lane_share"] * jnp.where(narrow, 0.5, 1.0)
    tile_s = jnp.where(packed, stream_s, STREAMED * width / lanes)
    wide = packed & shared & ~narrow
    per_mac = theta["block_decode_packed_ramp_macs"] / b.macs_per_s
    ramp_s = jnp.where(wide, per_mac, theta["block_decode_ramp_s"])
    blocks = op["groups"] * jnp.where(packed, 1.0, heads) * _SPLIT
    waves = jnp.maximum(blocks / b.cores, 1.0)
    stream_s = waves * tiles * tile_s + (waves - 1) * ramp_s
    outputs = op["groups"] * heads * op["v_width"]
    hbm_bytes = op["groups"] * (op["kv_bytes"] + heads * (op["qk_width"] + op["v_width"]) * 2)
    hbm_s = hbm_bytes / (b.hbm_bytes_per_s * theta["block_decode_hbm_sustained"])
    combine_s = theta["block_decode_split_s"] + 8 * outputs * _SPLIT / b.hbm_bytes_per_s
    both_s = overlapped(stream_s, hbm_s, theta["block_decode_overlap_exponent"])
    both_s = both_s + jnp.where(_SPLIT > 1, combine_s, 0.0)
    best = jnp.argmin(both_s)
    return {
        "tensor_s": stream_s[best],
        "simt_s": jnp.where(packed, 0.0, stream_s[best]),
        "hbm_s": hbm_s,
        "fixed_s": fixed_s,
        "time_s": both_s[best] + fixed_s,
        "hbm_bytes": hbm_bytes,
    }
