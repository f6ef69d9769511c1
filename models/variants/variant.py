"""Variant: how a model is changed before it is served, as numbers with neutral defaults."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

Number = Any  # int, float, NumPy array or traced JAX scalar


def _field(default: float, unit: str, meaning: str) -> Any:
    return dataclasses.field(default=default, metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A model variant. Every field may be a traced JAX scalar; the defaults leave the model as is.

    The `*_nats_low` and `*_nats_high` pairs hold the quality band that a study *assumes* for one
    transform (Δ nats per token). A pair with high > 0 replaces the published law of that transform;
    0, 0 means that nothing is assumed. Each choice of a knob sets the pair of its transform.
    """

    head_dim: Number = _field(0, "elements", "head width at constant q width; 0 = as released")
    kv_heads: Number = _field(0, "heads", "KV heads, set after head_dim; 0 = as released")
    ffn_width_scale: Number = _field(1, "x", "width of dense FFNs, shared and routed experts")
    weight_bits: Number = _field(16, "bits", "storage width of the weights")
    activation_bits: Number = _field(16, "bits", "width of matmul input activations")
    compute_format: Number = _field(0, "code", "matmul format: 0 bf16, 1 int8, 2 fp8, 3 int4/fp4")
    kv_bits: Number = _field(16, "bits", "storage width of the KV cache")
    nm_n: Number = _field(1, "weights", "N of N:M weight sparsity: non-zeros kept in each group")
    nm_m: Number = _field(1, "weights", "M of N:M weight sparsity: group size; 1:1 = dense")
    window_share: Number = _field(0, "share", "full-attention layers turned into windowed ones")
    window_tokens: Number = _field(0, "tokens", "sliding window of those layers")
    experts_scale: Number = _field(1, "x", "number of routed experts over the released number")
    top_k: Number = _field(0, "experts", "routed experts per token; 0 = as released")
    layer_share: Number = _field(1, "share", "share of the layers kept")

    head_dim_nats_low: Number = _field(0, "nats", "assumed quality loss of head_dim, low end")
    head_dim_nats_high: Number = _field(0, "nats", "assumed quality loss of head_dim, high end")
    kv_heads_nats_low: Number = _field(0, "nats", "assumed quality loss of kv_heads, low end")
    kv_heads_nats_high: Number = _field(0, "nats", "assumed quality loss of kv_heads, high end")
    ffn_width_nats_low: Number = _field(0, "nats", "assumed quality loss of ffn_width, low end")
    ffn_width_nats_high: Number = _field(0, "nats", "assumed quality loss of ffn_width, high end")
    experts_nats_low: Number = _field(0, "nats", "assumed quality loss of experts, low end")
    experts_nats_high: Number = _field(0, "nats", "assumed quality loss of experts, high end")
    layer_share_nats_low: Number = _field(0, "nats", "assumed quality loss of layer_share, low end")
    layer_share_nats_high: Number = _field(0, "nats", "assumed quality loss of layer_share, high")
    window_nats_low: Number = _field(0, "nats", "assumed quality loss of window, low end")
    window_nats_high: Number = _field(0, "nats", "assumed quality loss of window, high end")
    precision_nats_low: Number = _field(0, "nats", "assumed quality loss of precision, low end")
    precision_nats_high: Number = _field(0, "nats", "assumed quality loss of precision, high end")
    kv_bits_nats_low: Number = _field(0, "nats", "assumed quality loss of kv_bits, low end")
    kv_bits_nats_high: Number = _field(0, "nats", "assumed quality loss of kv_bits, high end")
    nm_nats_low: Number = _field(0, "nats", "assumed quality loss of nm, low end")
    nm_nats_high: Number = _field(0, "nats", "assumed quality loss of nm, high end")


NEUTRAL = Variant()
"""The model as released, served in 16 bits."""
