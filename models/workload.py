"""Workloads: the shape of one class of requests, or of one training step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Number = Any


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Requests of `prompt_tokens` in and `output_tokens` out, `cached_prefix_tokens` of the prompt
    already in the KV cache. `expert_imbalance` is the load of the busiest expert shard over the
    mean (1 = perfectly balanced). `expert_capacity` > 0: every expert computes that many times its
    even share of the tokens, padded or dropped, in equal groups; 0: whatever the router sends
    it."""

    prompt_tokens: Number
    output_tokens: Number
    cached_prefix_tokens: Number = 0.0
    expert_imbalance: Number = 1.0
    expert_capacity: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class Training:
    """One optimizer step over `global_batch` sequences of `sequence_tokens` tokens.

    Each group of chips with its own sequences works through `microbatches` equal parts of them and
    adds up their gradients. The `save_*` fields (0 or 1) say which tensors of a layer are kept from
    the forward to the backward pass instead of computed again; a layer's input always is. All 0 is
    full rematerialisation, all 1 (every projection and the attention output) minimal.
    `offload_saved` 1 keeps them in host memory. `moment_bits` are all optimizer moments of one
    parameter together. `optimizer_sharded` 1 splits the optimizer's state over the data axis too
    (ZeRO-1). `causal` 0 is an encoder. `expert_imbalance` and `expert_capacity` as in `Workload`.
    """

    sequence_tokens: Number
    global_batch: Number
    microbatches: Number = 1.0
    save_qkv: Number = 0.0
    save_context: Number = 0.0
    save_out_proj: Number = 0.0
    save_mlp_up: Number = 0.0
    save_mlp_down: Number = 0.0
    offload_saved: Number = 0.0
    master_weight_bits: Number = 32.0
    gradient_bits: Number = 16.0
    moment_bits: Number = 64.0
    optimizer_sharded: Number = 0.0
    causal: Number = 1.0
    expert_imbalance: Number = 1.0
    expert_capacity: Number = 0.0
