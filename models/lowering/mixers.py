"""Mixers to operators: softmax attention, latent attention, recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_literal, is_one, is_zero
from hwmodel.ops import Attention as AttentionOp
from hwmodel.ops import Collective, Matmul, Numerics, Operator, Vector
from hwmodel.theta import Theta
from hwmodel.whole import ceil_div
from models.architecture import (
    Attention,
    LatentAttention,
    Mixer,
    Recurrent,
    index_layer_count,
    kv_layer_count,
)
from models.deployment import Deployment
from models.lowering.phase import Phase

Number = Any


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What every block of one lowering needs."""

    hidden: Number
    deployment: Deployment
    phase: Phase
    numerics: Numerics
    kv_bits: Number
    theta: Theta
    layer_share: Number  # layers of the busiest pipeline stage over all layers
    parallel_block: Number  # 1: mixer and feed-forward share one all-reduce
    residual_streams: Number


def lower_mixer(
    s: Shared, mixer: Mixer, suffix: str, twin: Attention | None = None
) -> list[Operator]:
    """Operators of all layers of `mixer` in one pipeline stage, on one chip.

    `twin` are the windowed layers split off a full-attention entry: they share its projections.
    """
    if isinstance(mixer, Attention):
        return _softmax(s, mixer, suffix, twin)
    if isinstance(mixer, LatentAttention):
        return _latent(s, mixer, suffix)
    return _recurrent(s, mixer, suffix)


def kv_heads_per_chip(a: Attention, d: Deployment) -> Number:
    """KV heads held by one chip: at least one, replicated beyond the number of heads."""
    return jnp.maximum(a.kv_heads / d.attention_tensor, 1.0)


def cached_tokens(a: Attention | LatentAttention, tokens: Number) -> Number:
    """Entries that `tokens` positions leave in the cache of one layer."""
    if isinstance(a, LatentAttention):
        return tokens
    kept = (
        tokens
        if is_zero(a.window)
        else jnp.where(a.window > 0, jnp.minimum(tokens, a.window), tokens)
    )
    if is_one(a.compress_ratio):
        return kept
    # Compressed layers keep every ratio-th entry of the whole context beside their window.
    local = jnp.where(a.window > 0, kept, 0.0)
    return jnp.where(a.compress_ratio > 1, tokens / a.compress_ratio + local, kept)


def _cache_write_bytes(s: Shared, entries: Number, width: Number) -> Number:
    """Bytes that one layer adds to the cache on this chip: new `entries` of `width` elements."""
    if s.phase.caches == 0:
        return 0.0
    return entries * (width * s.kv_bits / 8)


def _new_entries(s: Shared, a: Attention) -> Number:
    """Entries of one KV head that the new tokens of this chip leave in the cache of one layer (the
    mean over layers, where some reuse another layer's)."""
    p = s.phase
    entries = p.projection_tokens
    if not (is_zero(a.window) and is_zero(_compressed(a))):
        entries = p.sequences * cached_tokens(a, p.query_tokens)
        entries = entries / p.context if p.decode else entries
    if _owns_all_kv(a):
        return entries
    return entries * kv_layer_count(a) / jnp.maximum(a.layers, 1e-9)


def _norm_ops(s: Shared) -> Number:
    return s.phase.projection_tokens * s.hidden * s.theta["norm_ops_per_element"]


def residual_ops(s: Shared, tokens: Number, width: Number) -> Number:
    """Vector work of adding a block's output to every residual stream."""
    return tokens * width * (s.residual_streams * s.theta["residual_ops_per_element"])


def cached_width(a: Attention) -> Number:
    """Cached elements per token and KV head."""
    return a.qk_head_dim + (a.kv_cached - 1) * a.v_head_dim


def _all_reduce(s: Shared, count: Number, suffix: str) -> Collective:
    return Collective(
        name=f"attention all-reduce{suffix}",
        makes="out_proj",
        count=count * (1 - s.parallel_block),
        kind="all_reduce",
        axis="attention",
        payload_bytes=s.phase.projection_tokens * s.hidden * 2,
    )


def _context_collectives(
    s: Shared, count: Number, suffix: str, kv_bytes: Number, query_width: Number, v_width: Number
) -> list[Operator]:
    """Prefill gathers K and V over the context axis; decode gathers queries and sums outputs."""
    if (
        is_zero(s.deployment.context - 1)
        if isinstance(s.deployment.context, int | float)
        else False
    ):
        return []
    if not s.phase.decode:
        return [
            Collective(
                name=f"context KV all-gather{suffix}",
                makes="context",
                count=count,
                kind="all_gather",
                axis="context",
                payload_bytes=kv_bytes,
            )
        ]
    payload = s.phase.sequences * (query_width * 2 + v_width * 4)
    return [
        Collective(
            name=f"context query gather and output sum{suffix}",
            count=count,
            kind="all_reduce",
            axis="context",
            payload_bytes=payload / 2,
            hides="nothing",
        )
    ]


def _indexer(
    s: Shared, m: Attention | LatentAttention, count: Number, q_input: Number, suffix: str
) -> list[Operator]:
    """Sparse-attention indexer: index queries, then a score pass over the whole cache."""
    if is_zero(m.index_heads):
        return []
    p, d = s.phase, s.deployment
    length = ceil_div(p.attended_tokens(0), d.context if p.decode else 1.0)
    if isinstance(m, LatentAttention) and not is_zero(m.index_layers + 1):
        count = index_layer_count(m) * s.layer_share  # the other layers reuse its choice
    return [
        Matmul(
            name=f"index key and weights{suffix}",
            makes="qkv",
            count=count,
            m=p.projection_tokens,
            k=s.hidden,
            n=m.index_head_dim + m.index_heads,
            numerics=s.numerics,
        ),
        Matmul(
            name=f"index queries{suffix}",
            makes="qkv",
            count=count,
            m=p.projection_tokens,
            k=q_input,
            n=ceil_div(m.index_heads, s.deployment.attention_tensor) * m.index_head_dim,
            numerics=s.numerics,
        ),
        AttentionOp(
            name=f"index scores{suffix}",
            paged=s.phase.caches,
            makes="context",
            count=count,
            groups=p.sequences,
            rows=ceil_div(m.index_heads, d.attention_tensor) * p.query_tokens,
            length=length,
            qk_width=m.index_head_dim,
            v_width=1.0,
            kv_bytes=length * m.index_head_dim * s.kv_bits / 8,
            softmax=0.0,
            extra_hbm_bytes=_cache_write_bytes(s, p.projection_tokens, m.index_head_dim),
            query_tokens=_new_tokens(p),
        ),
    ]


def _softmax(s: Shared, a: Attention, suffix: str, twin: Attention | None) -> list[Operator]:
    p, d = s.phase, s.deployment
    layers, kv_layers = a.layers, kv_layer_count(a)
    if twin is not None:
        layers, kv_layers = layers + twin.layers, kv_layers + kv_layer_count(twin)
    count = layers * s.layer_share
    heads = a.q_heads / d.attention_tensor
    kv_heads = kv_heads_per_chip(a, d)
    kv_share = 1.0 if _owns_all_kv(a) else kv_layers / jnp.maximum(layers, 1e-9)
    q_width = heads * (a.qk_head_dim + a.output_gate * a.v_head_dim)
    kv_width = kv_heads * (a.qk_head_dim + (a.kv_projections - 1) * a.v_head_dim)
    rotary = p.projection_tokens * (heads + kv_heads) * a.qk_head_dim
    pre_ops = _norm_ops(s) + rotary * s.theta["rotary_ops_per_element"]
    ops: list[Operator] = []
    q_input = s.hidden
    if is_zero(a.q_lora_rank):
        ops.append(
            Matmul(
                name=f"qkv projection{suffix}",
                makes="qkv",
                count=count,
                m=p.projection_tokens,
                k=s.hidden,
                n=q_width + kv_width * kv_share,
                numerics=s.numerics,
                vpu_ops=pre_ops,
            )
        )
    else:
        q_input = a.q_lora_rank
        ops += [
            Matmul(
                name=f"q down and kv projection{suffix}",
                makes="qkv",
                count=count,
                m=p.projection_tokens,
                k=s.hidden,
                n=a.q_lora_rank + kv_width * kv_share,
                numerics=s.numerics,
                vpu_ops=pre_ops,
            ),
            Matmul(
                name=f"q up projection{suffix}",
                makes="qkv",
                count=count,
                m=p.projection_tokens,
                k=a.q_lora_rank,
                n=q_width,
                numerics=s.numerics,
            ),
        ]
    ops += _indexer(s, a, count, q_input, suffix)

    ops += _attention(s, a, suffix)
    if twin is not None:
        ops += _attention(s, twin, f"{suffix} (window)")

    out_width = heads * a.v_head_dim
    residual = residual_ops(s, p.projection_tokens, s.hidden)
    if is_zero(a.o_lora_rank):
        ops.append(
            Matmul(
                name=f"output projection{suffix}",
                makes="out_proj",
                count=count,
                m=p.projection_tokens,
                k=out_width,
                n=s.hidden,
                numerics=s.numerics,
                vpu_ops=residual,
            )
        )
    else:
        groups = jnp.maximum(a.o_groups / d.attention_tensor, 1.0)
        ops += [
            Matmul(
                name=f"output down projection{suffix}",
                makes="out_proj",
                count=count,
                m=p.projection_tokens,
                k=out_width / groups,
                n=a.o_lora_rank,
                groups=groups,
                numerics=s.numerics,
            ),
            Matmul(
                name=f"output up projection{suffix}",
                makes="out_proj",
                count=count,
                m=p.projection_tokens,
                k=groups * a.o_lora_rank,
                n=s.hidden,
                numerics=s.numerics,
                vpu_ops=residual,
            ),
        ]
    ops.append(_all_reduce(s, count, suffix))
    return ops


def _owns_all_kv(a: Attention) -> bool:
    return is_literal(a.kv_layers, -1)


def _attention(s: Shared, a: Attention, suffix: str) -> list[Operator]:
    """The attention of one entry's layers over its own span, and its context-parallel exchange."""
    p, d = s.phase, s.deployment
    count = a.layers * s.layer_share
    heads = a.q_heads / d.attention_tensor
    kv_heads = kv_heads_per_chip(a, d)
    attended = p.attended_tokens(a.window)
    if not is_zero(_compressed(a)):
        attended = cached_tokens(a, p.attended_tokens(0))
    if not is_zero(a.select_tokens):
        attended = jnp.where(a.select_tokens > 0, jnp.minimum(attended, a.select_tokens), attended)
    length = ceil_div(attended, d.context) if p.decode else attended
    width = cached_width(a)
    kv_bytes = length * width * s.kv_bits / 8
    masked = p.masked_tokens(attended, a.window, s.theta["attention_block_tokens"])
    shards = d.kv_batch_shards if p.decode else 1.0
    held = p.sequences if is_zero(shards - 1) else ceil_div(p.sequences, shards)
    op = AttentionOp(
        name=f"attention{suffix}",
        paged=s.phase.caches,
        makes="context",
        count=count,
        groups=kv_heads * held,
        rows=heads * shards / kv_heads * p.query_tokens,
        length=length,
        masked_length=masked,
        qk_width=a.qk_head_dim,
        v_width=a.v_head_dim,
        kv_bytes=kv_bytes,
        kv_elements_converted=jnp.where(s.kv_bits < 16, length * width, 0.0),
        extra_hbm_bytes=_cache_write_bytes(s, _new_entries(s, a), kv_heads * width),
        query_tokens=_new_tokens(p),
        window=a.window,
    )
    return [
        op,
        *_batch_exchange(s, count, suffix, shards, heads * (a.qk_head_dim + a.v_head_dim)),
        *_context_collectives(
            s,
            count,
            suffix,
            p.sequences * kv_heads * _gathered_tokens(p, a) * width * s.kv_bits / 8,
            heads * a.qk_head_dim,
            heads * a.v_head_dim,
        ),
    ]


def _new_tokens(p: Phase) -> Number:
    """New tokens per sequence of a prefill step, 0 in decode."""
    return 0.0 if p.decode else p.query_tokens


def _batch_exchange(
    s: Shared, count: Number, suffix: str, shards: Number, width: Number
) -> list[Operator]:
    """Queries to the chips that hold their sequences, and outputs back."""
    if is_zero(shards - 1):
        return []
    return [
        Collective(
            name=f"attention batch exchange{suffix}",
            count=count * jnp.where(shards > 1, 1.0, 0.0),
            kind="all_to_all",
            axis="attention",
            payload_bytes=s.phase.sequences * width * 2,
        )
    ]


def _gathered_tokens(p: Phase, a: Attention) -> Number:
    """Cached entries that the chips of a context axis gather in one prefill step: all that the last
    token sees, of a window only what the chunk's first token reaches back to."""
    visible = p.visible_tokens
    if not is_zero(_compressed(a)):
        return cached_tokens(a, visible)
    if is_zero(a.window):
        return visible
    reach = a.window + p.query_tokens * p.context
    return jnp.where(a.window > 0, jnp.minimum(visible, reach), visible)


def _compressed(a: Attention) -> Number:
    return a.compress_ratio - 1


def _latent(s: Shared, a: LatentAttention, suffix: str) -> list[Operator]:
    """MLA (DeepSeek-V2): prefill expands K and V per head, decode absorbs the up-projections."""
    p, d = s.phase, s.deployment
    count = a.layers * s.layer_share
    heads = a.heads / d.attention_tensor
    qk = a.qk_nope_head_dim + a.qk_rope_head_dim
    latent = a.kv_lora_rank + a.qk_rope_head_dim
    tokens = p.projection_tokens
    rotary = tokens * (heads + 1) * a.qk_rope_head_dim * s.theta["rotary_ops_per_element"]
    q_input = s.hidden if is_zero(a.q_lora_rank) else a.q_lora_rank
    down = Matmul(
        name=f"q and kv down projection{suffix}",
        makes="qkv",
        count=count,
        m=tokens,
        k=s.hidden,
        n=a.q_lora_rank + latent,
        numerics=s.numerics,
        vpu_ops=_norm_ops(s),
    )
    up = Matmul(
        name=f"q up projection{suffix}",
        makes="qkv",
        count=count,
        m=tokens,
        k=q_input,
        n=heads * qk,
        numerics=s.numerics,
        vpu_ops=rotary,
    )
    ops: list[Operator] = [down, up, *_indexer(s, a, count, q_input, suffix)]
    attended = p.attended_tokens(0)
    chosen = attended
    if not is_zero(a.select_tokens):
        chosen = jnp.minimum(attended, a.select_tokens)
    length = ceil_div(chosen, d.context) if p.decode else chosen
    latent_bytes = length * latent * s.kv_bits / 8
    converted = jnp.where(s.kv_bits < 16, length * latent, 0.0)
    written = _cache_write_bytes(s, tokens, latent)
    # Prefill expands all that its last token sees, once per step.
    expanded = p.sequences * p.visible_tokens
    if p.decode:
        ops += [
            Matmul(
                name=f"absorb query{suffix}",
                count=count,
                m=p.sequences,
                k=a.qk_nope_head_dim,
                n=a.kv_lora_rank,
                groups=heads,
                numerics=s.numerics,
            ),
            AttentionOp(
                name=f"latent attention{suffix}",
                paged=s.phase.caches,
                makes="context",
                count=count,
                groups=p.sequences,
                rows=heads,
                length=length,
                qk_width=latent,
                v_width=a.kv_lora_rank,
                kv_bytes=latent_bytes,
                kv_elements_converted=converted,
                extra_hbm_bytes=written,
            ),
            Matmul(
                name=f"expand values{suffix}",
                count=count,
                m=p.sequences,
                k=a.kv_lora_rank,
                n=a.v_head_dim,
                groups=heads,
                numerics=s.numerics,
            ),
        ]
    else:
        ops += [
            Matmul(
                name=f"kv up projection{suffix}",
                makes="qkv",
                count=count,
                m=expanded,
                k=a.kv_lora_rank,
                n=heads * (a.qk_nope_head_dim + a.v_head_dim),
                numerics=s.numerics,
                vpu_ops=jnp.where(s.kv_bits < 16, expanded * latent, 0.0)
                * s.theta["dequant_ops_per_weight"],
            ),
            AttentionOp(
                name=f"latent attention{suffix}",
                paged=s.phase.caches,
                makes="context",
                count=count,
                groups=p.sequences * heads,
                rows=p.query_tokens,
                length=length,
                masked_length=p.masked_tokens(chosen, 0, s.theta["attention_block_tokens"]),
                qk_width=qk,
                v_width=a.v_head_dim,
                kv_bytes=length * (qk + a.v_head_dim) * 2,
                extra_hbm_bytes=written,
                query_tokens=p.query_tokens,
            ),
        ]
    ops += [
        Matmul(
            name=f"output projection{suffix}",
            makes="out_proj",
            count=count,
            m=tokens,
            k=heads * a.v_head_dim,
            n=s.hidden,
            numerics=s.numerics,
            vpu_ops=residual_ops(s, tokens, s.hidden),
        ),
        _all_reduce(s, count, suffix),
    ]
    ops += _context_collectives(
        s,
        count,
        suffix,
        expanded * latent * s.kv_bits / 8,
        heads * latent,
        heads * a.kv_lora_rank,
    )
    return ops


def _recurrent(s: Shared, r: Recurrent, suffix: str) -> list[Operator]:
    """Constant-state layers: chunked parallel form in prefill, a state update a token in decode.

    Chunked form (Mamba-2, gated linear attention): within a chunk an attention-like product over at
    most `chunk` tokens, between chunks two products with the [key_dim, value_dim] state.
    """
    p, d = s.phase, s.deployment
    count = r.layers * s.layer_share
    tokens = p.projection_tokens
    heads = ceil_div(r.heads, d.attention_tensor)
    conv = tokens * ceil_div(r.conv_channels, d.attention_tensor) * r.conv_kernel * 2
    ops: list[Operator] = [
        Matmul(
            name=f"recurrent input projection{suffix}",
            makes="qkv",
            count=count,
            m=tokens,
            k=s.hidden,
            n=ceil_div(r.in_width, d.attention_tensor),
            numerics=s.numerics,
            vpu_ops=_norm_ops(s) + conv,
        )
    ]
    state = heads * r.key_dim * r.value_dim
    state_bytes = state * r.state_bits / 8
    if p.decode:
        ops.append(
            Vector(
                name=f"state update{suffix}",
                count=count,
                vpu_ops=tokens * state * s.theta["state_ops_per_element"],
                hbm_bytes=2 * tokens * state_bytes,
            )
        )
    else:
        rows = jnp.minimum(r.chunk, tokens)
        chunks = ceil_div(tokens, r.chunk)
        ops += [
            AttentionOp(
                name=f"within-chunk recurrence{suffix}",
                makes="context",
                count=count,
                groups=heads * chunks,
                rows=rows,
                length=rows,
                qk_width=r.key_dim,
                v_width=r.value_dim,
                kv_bytes=0.0,
                query_tokens=rows,
            ),
            Matmul(
                name=f"between-chunk recurrence{suffix}",
                makes="context",
                count=2 * count,
                m=rows,
                k=r.key_dim,
                n=r.value_dim,
                groups=heads * chunks,
                weight_reads=0.0,
                vpu_ops=chunks * state * s.theta["state_ops_per_element"] / 2,
            ),
            Vector(
                name=f"state write{suffix}", count=count, vpu_ops=state, hbm_bytes=2 * state_bytes
            ),
        ]
    ops += [
        Matmul(
            name=f"recurrent output projection{suffix}",
            makes="out_proj",
            count=count,
            m=tokens,
            k=ceil_div(r.out_width, d.attention_tensor),
            n=s.hidden,
            numerics=s.numerics,
            vpu_ops=residual_ops(s, tokens, s.hidden),
        ),
        _all_reduce(s, count, suffix),
    ]
    return ops
