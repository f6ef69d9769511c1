"""Architecture: what a language model computes, as counts and widths.

A model is a bag of *mixers* (how tokens exchange information) and *feed-forward* blocks, each with
the number of layers it appears in. Order inside the stack does not change the time of a step, so
hybrids (Nemotron-H, Qwen3-Next, Gemma) need no special case: their mixers and feed-forward blocks
simply have different layer counts. Every numeric field may be a traced JAX scalar; only the kinds
(the Python classes) are static, and they form the `skeleton` that keys a compilation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Number = Any  # int, float, NumPy array or traced JAX scalar


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Softmax attention with a per-token KV cache: MHA, GQA, MQA, full or sliding window.

    `kv_layers` is the number of these layers that own K/V projections and a cache; the others reuse
    an earlier layer's (Gemma-3n/4 shared KV). `kv_projections` is 2, or 1 where one matrix makes
    both K and V; `kv_cached` is 2, or 1 where one cached vector serves as both (Gemma-4's global
    layers project once but cache K and V apart, because only K is rotated and the two norms
    differ; DeepSeek-V4 caches one vector). `window` 0 means full attention; Llama-4's chunks count
    as a window of the chunk's length, their upper bound. `compress_ratio` > 1: only 1/ratio as
    many KV entries are kept (DeepSeek-V4), and `window` is then a small ring of uncompressed
    entries beside them. `select_tokens` > 0: an indexer of `index_heads` × `index_head_dim` scores
    all cached entries and attention reads only the best `select_tokens`.
    """

    layers: Number
    q_heads: Number
    kv_heads: Number
    qk_head_dim: Number
    v_head_dim: Number
    window: Number = 0
    kv_layers: Number = -1  # -1: all `layers`
    kv_projections: Number = 2
    kv_cached: Number = 2
    output_gate: Number = 0  # 1: the q projection also makes a gate of the attention output's width
    q_lora_rank: Number = 0  # 0: q is projected directly from the hidden state
    o_lora_rank: Number = 0  # 0: direct output projection; else low-rank per output group
    o_groups: Number = 1
    compress_ratio: Number = 1
    select_tokens: Number = 0
    index_heads: Number = 0
    index_head_dim: Number = 0
    extra_parameters: Number = 0  # per layer: biases, sinks, q/k norms, compressor weights, ...


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed KV of `kv_lora_rank` + `qk_rope_head_dim`
    per token per layer, shared by all heads. Fields as in DeepSeek-V2/V3; the indexer as above."""

    layers: Number
    heads: Number
    q_lora_rank: Number  # 0: q is projected directly
    kv_lora_rank: Number
    qk_nope_head_dim: Number
    qk_rope_head_dim: Number
    v_head_dim: Number
    select_tokens: Number = 0
    index_heads: Number = 0
    index_head_dim: Number = 0
    index_layers: Number = -1  # layers with an indexer of their own; -1: all
    extra_parameters: Number = 0


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """A mixer with constant state: Mamba-2, gated delta rule, lightning attention, RG-LRU, mLSTM.

    One input projection of `in_width` columns, a causal convolution over `conv_channels`, a state
    of `heads` × `key_dim` × `value_dim` elements per sequence, an output projection from
    `out_width`. Beside the state, the convolution keeps its last `conv_kernel` - 1 inputs in
    activation precision. `conv_kernel` 0: no convolution. `chunk` is the block length of the
    chunked form used in prefill.
    """

    layers: Number
    in_width: Number
    conv_channels: Number
    conv_kernel: Number
    heads: Number
    key_dim: Number
    value_dim: Number
    out_width: Number
    state_bits: Number = 32
    conv_state_bits: Number = 16
    chunk: Number = 128
    extra_parameters: Number = 0


@dataclass(frozen=True, kw_only=True)
class DenseFFN:
    """Feed-forward block: `gated` 1 has up, gate and down matrices, 0 has up and down."""

    layers: Number
    width: Number
    gated: Number = 1
    extra_parameters: Number = 0


@dataclass(frozen=True, kw_only=True)
class MoE:
    """Routed experts plus an always-on shared part of total width `shared_width` (0 = none).

    `latent_dim` > 0: tokens are projected from hidden to `latent_dim` before the experts and back
    after them (Nemotron-3 Super/Ultra). `expert_extra_parameters` are the biases of one routed
    expert; `extra_parameters` belong to the layer (router bias, shared-expert gate).
    """

    layers: Number
    experts: Number
    top_k: Number
    expert_width: Number
    shared_width: Number = 0
    gated: Number = 1
    latent_dim: Number = 0
    expert_extra_parameters: Number = 0
    extra_parameters: Number = 0


Mixer = Attention | LatentAttention | Recurrent
FeedForward = DenseFFN | MoE


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A decoder-only language model as released.

    `mixers` and `feed_forwards` are static tuples of the classes above with numeric leaves. Weights
    that are looked up rather than multiplied (embedding tables) count as parameters but not as
    active matmul work. `released_weight_bits` is the storage width of the published checkpoint:
    that of the weights that are most of it, without block scales. `source` is the file it was read
    from and `provenance` how far that file can be trusted.
    """

    name: str
    model_type: str
    layers: Number
    hidden: Number
    vocab: Number
    mixers: tuple[Mixer, ...]
    feed_forwards: tuple[FeedForward, ...]
    tied_embeddings: Number = 0
    parallel_block: Number = (
        0  # 1: mixer and feed-forward read the same norm and share one all-reduce
    )
    residual_streams: Number = 1  # hyper-connections: parallel residual streams (DeepSeek-V4: 4)
    norm_parameters: Number = 0  # all norm weights of the model
    embedding_extra_parameters: Number = 0  # looked up only: position or per-layer embeddings
    other_parameters: Number = 0  # multiplied once per token, in no block above
    reused_parameters: Number = 0  # in the blocks above once per use but stored once (Zamba2)
    max_context_tokens: Number = 0  # 0: no limit stated
    released_weight_bits: Number = 16
    source: str = ""
    provenance: str = ""


def mixer_parameters(mixer: Mixer, hidden: Number) -> Number:
    """Parameters of one layer of `mixer` that a token is multiplied with (mean over its layers)."""
    if isinstance(mixer, Attention):
        return _attention_parameters(mixer, hidden)
    if isinstance(mixer, LatentAttention):
        return _latent_parameters(mixer, hidden)
    return (
        hidden * mixer.in_width
        + mixer.conv_channels * mixer.conv_kernel
        + mixer.out_width * hidden
        + mixer.extra_parameters
    )


def _attention_parameters(a: Attention, hidden: Number) -> Number:
    """Mean per layer: only `kv_layers` of `layers` own K and V projections."""
    q_width = a.q_heads * a.qk_head_dim + a.output_gate * a.q_heads * a.v_head_dim
    q_input = _either(a.q_lora_rank, a.q_lora_rank, hidden)
    query = hidden * a.q_lora_rank + q_input * q_width
    keys_values = hidden * _kv_width(a) * kv_layer_count(a) / _at_least_one(a.layers)
    out_width = a.q_heads * a.v_head_dim
    # Grouped low-rank output (DeepSeek-V4): each of o_groups maps its slice to o_lora_rank, then
    # one matrix maps the concatenation to hidden.
    output = _either(
        a.o_lora_rank,
        out_width * a.o_lora_rank + a.o_groups * a.o_lora_rank * hidden,
        out_width * hidden,
    )
    return query + keys_values + output + _index_parameters(a, q_input, hidden) + a.extra_parameters


def _latent_parameters(m: LatentAttention, hidden: Number) -> Number:
    qk = m.qk_nope_head_dim + m.qk_rope_head_dim
    q_input = _either(m.q_lora_rank, m.q_lora_rank, hidden)
    query = hidden * m.q_lora_rank + q_input * m.heads * qk
    down = hidden * (m.kv_lora_rank + m.qk_rope_head_dim)
    up = m.kv_lora_rank * m.heads * (m.qk_nope_head_dim + m.v_head_dim)
    output = m.heads * m.v_head_dim * hidden
    index = _index_parameters(m, q_input, hidden) * index_layer_count(m) / _at_least_one(m.layers)
    return query + down + up + output + index + m.extra_parameters


def _index_parameters(m: Attention | LatentAttention, q_input: Number, hidden: Number) -> Number:
    """Indexer: queries from the q latent (or hidden), one shared key, one weight per index head."""
    return (
        q_input * m.index_heads * m.index_head_dim
        + hidden * m.index_head_dim * _either(m.index_heads, 1, 0)
        + hidden * m.index_heads
    )


def _kv_width(a: Attention) -> Number:
    """Columns of the K and V projections (K only where K and V are equal)."""
    return a.kv_heads * (a.qk_head_dim + (a.kv_projections - 1) * a.v_head_dim)


def kv_layer_count(a: Attention) -> Number:
    """Layers that own K and V projections and a cache."""
    return _either(a.kv_layers + 1, a.kv_layers, a.layers)


def index_layer_count(m: LatentAttention) -> Number:
    """Layers with an indexer of their own."""
    return _either(m.index_layers + 1, m.index_layers, m.layers)


def feed_forward_parameters(block: FeedForward, hidden: Number) -> Number:
    """Parameters of one layer of `block`, all experts and the router included."""
    matrices = 2 + block.gated
    if isinstance(block, DenseFFN):
        return matrices * hidden * block.width + block.extra_parameters
    return (
        block.experts * expert_parameters(block, hidden)
        + moe_shared_parameters(block, hidden)
        + block.extra_parameters
    )


def expert_parameters(block: MoE, hidden: Number) -> Number:
    """Parameters of one routed expert."""
    width_in = _either(block.latent_dim, block.latent_dim, hidden)
    return (2 + block.gated) * width_in * block.expert_width + block.expert_extra_parameters


def moe_shared_parameters(block: MoE, hidden: Number) -> Number:
    """Per layer: shared experts, router and latent projections, which every token passes."""
    return (
        (2 + block.gated) * hidden * block.shared_width
        + hidden * block.experts
        + 2 * hidden * block.latent_dim
    )


def parameters_total(arch: Architecture) -> Number:
    """All parameters of the checkpoint's language model (draft / MTP layers excluded)."""
    embeddings = arch.vocab * arch.hidden * (2 - arch.tied_embeddings)
    return (
        embeddings
        + arch.embedding_extra_parameters
        + arch.norm_parameters
        + arch.other_parameters
        - arch.reused_parameters
        + sum(m.layers * mixer_parameters(m, arch.hidden) for m in arch.mixers)
        + sum(f.layers * feed_forward_parameters(f, arch.hidden) for f in arch.feed_forwards)
    )


def parameters_active(arch: Architecture) -> Number:
    """Parameters that one token is multiplied with or looks up: top-k experts of each MoE layer,
    the output head, and one embedding table (the convention behind names like "A22B")."""
    inactive = sum(
        f.layers * (f.experts - f.top_k) * expert_parameters(f, arch.hidden)
        for f in arch.feed_forwards
        if isinstance(f, MoE)
    )
    return parameters_total(arch) - inactive


def kv_elements_per_token(mixer: Mixer) -> Number:
    """Cached elements per token over all layers of `mixer` (indexer keys included)."""
    if isinstance(mixer, Attention):
        width = mixer.kv_heads * (mixer.qk_head_dim + (mixer.kv_cached - 1) * mixer.v_head_dim)
        per_layer = width + mixer.index_head_dim * _either(mixer.index_heads, 1, 0)
        return kv_layer_count(mixer) * per_layer / mixer.compress_ratio
    if isinstance(mixer, LatentAttention):
        index = mixer.index_head_dim * _either(mixer.index_heads, 1, 0) * index_layer_count(mixer)
        return mixer.layers * (mixer.kv_lora_rank + mixer.qk_rope_head_dim) + index
    return 0


def kv_bytes_per_token(arch: Architecture, kv_bits: Number = 16) -> Number:
    """KV-cache bytes that one more token adds below every window (full-context growth rate of the
    windowed layers included). Of a compressed layer only the compressed entries count, not its
    ring. Constant recurrent state is `state_bytes_per_sequence`."""
    return sum(kv_elements_per_token(m) for m in arch.mixers) * kv_bits / 8


def state_bytes_per_sequence(arch: Architecture) -> Number:
    """Constant recurrent state per sequence, in bytes, over all layers: the recurrence and the
    convolution's last `conv_kernel` - 1 inputs."""
    return sum(m.layers * _state_bits(m) / 8 for m in arch.mixers if isinstance(m, Recurrent))


def _state_bits(m: Recurrent) -> Number:
    convolution = _either(m.conv_kernel, m.conv_channels * (m.conv_kernel - 1), 0)
    return m.heads * m.key_dim * m.value_dim * m.state_bits + convolution * m.conv_state_bits


def skeleton(arch: Architecture) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The static part: kinds of mixers and feed-forward blocks, in order."""
    return (
        tuple(type(m).__name__ for m in arch.mixers),
        tuple(type(f).__name__ for f in arch.feed_forwards),
    )


def _at_least_one(layers: Number) -> Number:
    """Divisor of a mean per layer: a group emptied by a variant has 0 layers."""
    return _either(layers, layers, 1)


def _either(condition: Number, if_positive: Number, otherwise: Number) -> Number:
    """`if_positive` where `condition` > 0 else `otherwise`, for plain numbers and traced ones."""
    if isinstance(condition, int | float):
        return if_positive if condition > 0 else otherwise
    import jax.numpy as jnp

    return jnp.where(condition > 0, if_positive, otherwise)
