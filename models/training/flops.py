"""Model FLOPs of training, the numerator of MFU: what the architecture needs, not what is run.

Per token 3 · (2 W + attention), W the weights a token is multiplied with (embedding lookups and
norms excluded, top-k experts of each mixture), attention the scores and values over the positions
that a token sees on average: half of the sequence where causal. Recomputation does not count
(MaxText's definition since July 2025).
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from models.architecture import (
    Architecture,
    Attention,
    LatentAttention,
    MoE,
    Recurrent,
    expert_parameters,
    feed_forward_parameters,
    mixer_parameters,
)

Number = Any


def flops_per_token(arch: Architecture, sequence_tokens: Number, causal: Number) -> Number:
    """Forward and backward FLOPs per token; 2 per multiply-accumulate."""
    return 3 * (2 * multiplied_weights(arch) + attention_flops(arch, sequence_tokens, causal))


def multiplied_weights(arch: Architecture) -> Number:
    """Weights that one token is multiplied with, on average."""
    mixers = sum(
        m.layers * (mixer_parameters(m, arch.hidden) - m.extra_parameters) for m in arch.mixers
    )
    blocks: Number = 0.0
    for f in arch.feed_forwards:
        weights = feed_forward_parameters(f, arch.hidden) - f.extra_parameters
        if isinstance(f, MoE):
            idle = (f.experts - f.top_k) * expert_parameters(f, arch.hidden)
            weights = weights - idle - f.top_k * f.expert_extra_parameters
        blocks = blocks + f.layers * weights
    return mixers + blocks + arch.other_parameters + arch.vocab * arch.hidden


def attention_flops(arch: Architecture, tokens: Number, causal: Number) -> Number:
    """Forward FLOPs per token of scores and values, and of recurrent state updates."""
    total: Number = 0.0
    for m in arch.mixers:
        if isinstance(m, Recurrent):
            total = total + m.layers * 4 * m.heads * m.key_dim * m.value_dim
        elif isinstance(m, LatentAttention):
            width = m.qk_nope_head_dim + m.qk_rope_head_dim + m.v_head_dim
            seen = _at_most(_mean_seen(tokens, 0.0, causal), m.select_tokens)
            total = total + m.layers * 2 * m.heads * width * seen
        elif isinstance(m, Attention):
            seen = _mean_seen(tokens, m.window, causal)
            sparse = _mean_seen(tokens, 0.0, causal) / m.compress_ratio + seen
            seen = jnp.where(m.compress_ratio > 1, sparse, seen)
            seen = _at_most(seen, m.select_tokens)
            total = total + m.layers * 2 * m.q_heads * (m.qk_head_dim + m.v_head_dim) * seen
    return total


def _mean_seen(tokens: Number, window: Number, causal: Number) -> Number:
    """Positions that a token sees on average: min(t, window) over t, continuous; both ways where
    not causal."""
    reach = jnp.where(window > 0, jnp.minimum(window, tokens), tokens)
    before = reach - reach * reach / (2 * tokens)
    return jnp.where(
        causal > 0, before, jnp.minimum(jnp.where(window > 0, 2 * reach, tokens), tokens)
    )


def _at_most(seen: Number, selected: Number) -> Number:
    return jnp.where(selected > 0, jnp.minimum(seen, selected), seen)
