"""A whole model to the operator table of one chip, and what it keeps resident in HBM."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_zero
from hwmodel.ops import DENSE_BF16, Collective, Matmul, Numerics, Operator, Vector
from hwmodel.rates import stored_bytes_per_weight
from hwmodel.rows import hold, hold_fields
from hwmodel.theta import Theta
from hwmodel.whole import ceil_div
from models.architecture import (
    Architecture,
    Attention,
    LatentAttention,
    Mixer,
    Recurrent,
    index_layer_count,
    kv_layer_count,
)
from models.deployment import Deployment
from models.lowering.feed_forward import lower_feed_forward
from models.lowering.mixers import (
    Shared,
    cached_tokens,
    cached_width,
    kv_heads_per_chip,
    lower_mixer,
)
from models.lowering.phase import Phase
from models.variants import Variant
from models.workload import Workload

Number = Any


HEAD = "output head"
ELEMENTWISE = "elementwise fusions"
EMBEDDING = "embedding lookup"


@dataclass(frozen=True)
class Lowered:
    """The operators of one step of one pipeline stage, as one chip executes them."""

    phase: Phase
    operators: tuple[Operator, ...]
    stage_weight_bytes: Number  # all matmul weights of the stage on one chip, before FSDP sharding


def numerics_of(variant: Variant) -> Numerics:
    """The matmul formats that a variant's precision and sparsity fields describe."""
    return Numerics(
        weight_bits=variant.weight_bits,
        activation_bits=variant.activation_bits,
        compute_format=variant.compute_format,
        nm_n=variant.nm_n,
        nm_m=variant.nm_m,
    )


def stage_layer_share(arch: Architecture, d: Deployment) -> Number:
    """Layers of the busiest pipeline stage over all layers (uneven stages allowed)."""
    return ceil_div(arch.layers, d.pipeline) / arch.layers


def lower(
    arch: Architecture,
    variant: Variant,
    d: Deployment,
    w: Workload,
    phase: Phase,
    theta: Theta,
    side: Number = 1.0,
    stage_weight_bytes: Number | None = None,
    twins: frozenset[int] = frozenset(),
) -> Lowered:
    """Lower one phase. `arch` already carries the variant's architecture transforms.

    `side` is the hidden-dimension side of the 2-D layout, 1 for the 1-D layout. Prefill holds every
    weight once, so decode, which absorbs MLA's up-projections, takes its `stage_weight_bytes`.
    `twins` are the positions of mixers that share the projections of the one before.
    """
    s = Shared(
        hidden=arch.hidden,
        deployment=d,
        phase=phase,
        numerics=numerics_of(variant),
        kv_bits=variant.kv_bits,
        theta=theta,
        layer_share=stage_layer_share(arch, d),
        parallel_block=arch.parallel_block,
        residual_streams=arch.residual_streams,
    )
    ops: list[Operator] = [_embedding(s), *_small_weights(s, arch), _elementwise(s, arch)]
    for i, (mixer, twin) in enumerate(_with_twins(arch, twins)):
        ops += lower_mixer(s, mixer, _suffix(i, len(arch.mixers) - len(twins)), twin)
    for i, block in enumerate(arch.feed_forwards):
        ops += lower_feed_forward(s, block, w, side, _suffix(i, len(arch.feed_forwards)))
    ops.append(_head(s, arch))
    ops += _pipeline(s)
    if stage_weight_bytes is None:
        stage_weight_bytes, _ = hold((resident_weight_bytes(ops), s.layer_share))
    ops += _weight_gather(s, stage_weight_bytes)
    return Lowered(phase=phase, operators=tuple(ops), stage_weight_bytes=stage_weight_bytes)


def _with_twins(arch: Architecture, twins: frozenset[int]) -> list[tuple[Mixer, Attention | None]]:
    pairs: list[tuple[Mixer, Attention | None]] = []
    for i, mixer in enumerate(arch.mixers):
        if i not in twins:
            follower = arch.mixers[i + 1] if i + 1 in twins else None
            pairs.append((mixer, follower if isinstance(follower, Attention) else None))
    return pairs


def _suffix(index: int, count: int) -> str:
    return "" if count == 1 else f" [{index}]"


def _embedding(s: Shared) -> Vector:
    elements = s.phase.projection_tokens * s.hidden
    return Vector(name=EMBEDDING, count=1.0, vpu_ops=elements, hbm_bytes=elements * 2)


def _elementwise(s: Shared, arch: Architecture) -> Vector:
    """Norms, rotary embeddings, residual sums, layout changes: what the compiler does not fuse with
    a matmul is a pass over the tokens of its own, bound by HBM."""
    blocks = sum(b.layers for b in (*arch.mixers, *arch.feed_forwards)) * s.layer_share
    passes = s.theta["elementwise_passes"]
    return Vector(
        name=ELEMENTWISE,
        count=1.0,
        vpu_ops=0.0,
        hbm_bytes=blocks * passes * s.phase.projection_tokens * s.hidden * 2,
        in_layers=True,
    )


def small_parameters(arch: Architecture) -> Number:
    """Norms, biases and other weights that no matmul operator carries."""
    blocks = (*arch.mixers, *arch.feed_forwards)
    return arch.norm_parameters + sum(block.layers * block.extra_parameters for block in blocks)


def _small_weights(s: Shared, arch: Architecture) -> list[Operator]:
    ops: list[Operator] = []
    small = small_parameters(arch)
    if not is_zero(small):
        small_bytes = small * 2 * s.layer_share
        ops.append(
            Vector(name="norms and small weights", count=1.0, vpu_ops=0.0, hbm_bytes=small_bytes)
        )
    if not is_zero(arch.other_parameters):
        ops.append(
            Matmul(
                name="other projections",
                count=s.layer_share * jnp.where(arch.other_parameters > 0, 1.0, 0.0),
                m=s.phase.projection_tokens,
                k=s.hidden,
                n=jnp.maximum(ceil_div(arch.other_parameters, s.hidden), 1.0),
                numerics=s.numerics,
            )
        )
    return ops


def _head(s: Shared, arch: Architecture) -> Matmul:
    """Output head of the last stage, kept in 16 bits; counted in the stage that bounds the step."""
    columns = ceil_div(arch.vocab, s.deployment.model_parallel)
    return Matmul(
        name=HEAD,
        count=jnp.minimum(s.phase.logit_tokens, 1.0),
        m=jnp.maximum(s.phase.logit_tokens, 1.0),
        k=arch.hidden,
        n=columns,
        numerics=DENSE_BF16,
        vpu_ops=s.phase.logit_tokens * columns * s.theta["sampling_ops_per_logit"],
    )


def _pipeline(s: Shared) -> list[Operator]:
    if is_zero(s.deployment.pipeline - 1):
        return []
    return [
        Collective(
            name="pipeline send",
            count=1.0,
            kind="permute",
            axis="pipeline",
            payload_bytes=s.phase.projection_tokens * s.hidden * 2,
            hides="nothing",
        )
    ]


def _weight_gather(s: Shared, gathered: Number) -> list[Operator]:
    """FSDP: gather every weight of the stage once per step, prefetched layer by layer."""
    if is_zero(s.deployment.fsdp - 1):
        return []
    active = jnp.where(s.deployment.fsdp > 1, 1.0, 0.0)
    return [
        Collective(
            name="weight all-gather (FSDP)",
            count=1.0,
            kind="all_gather",
            axis="fsdp",
            payload_bytes=gathered,
            hides="prefetch",
        ),
        Vector(
            name="gathered weights write (FSDP)",
            count=active,
            vpu_ops=0.0,
            hbm_bytes=gathered,
        ),
    ]


def resident_weight_bytes(ops: Sequence[Operator]) -> Number:
    """Bytes of all matmul weights of the stage, before FSDP sharding."""
    total: Number = 0.0
    elements: dict[int, Number] = {}
    numerics: dict[int, Numerics] = {}
    for op in ops:
        if isinstance(op, Matmul) and op.weight_reads > 0:
            groups = op.groups if is_negative(op.resident_groups) else op.resident_groups
            count = 1.0 if op.name == HEAD else op.count
            key = id(op.numerics)
            numerics[key] = op.numerics
            elements[key] = elements.get(key, 0.0) + count * op.k * op.n * groups
    for key, value in elements.items():
        total = total + value * stored_bytes_per_weight(numerics[key])
    return total


def hold_architecture(arch: Architecture) -> Architecture:
    """The architecture with its traced numbers computed once: every operator uses them."""
    return dataclasses.replace(
        arch,
        mixers=tuple(hold_fields(m) for m in arch.mixers),
        feed_forwards=tuple(hold_fields(f) for f in arch.feed_forwards),
    )


def is_negative(value: Number) -> bool:
    """True for the static marker -1."""
    return isinstance(value, int | float) and value < 0


def weight_bytes_per_chip(arch: Architecture, d: Deployment, prefill: Lowered) -> Number:
    """Weight bytes in one chip's HBM: its shards of all matmuls, embeddings, norms (16 bit)."""
    embedding = arch.vocab * arch.hidden * (1 - arch.tied_embeddings)
    looked_up = (embedding + arch.embedding_extra_parameters) * 2 / d.model_parallel
    small = small_parameters(arch) * 2 * stage_layer_share(arch, d)
    # Blocks that are used several times but stored once (Zamba2) are in the stage once per use.
    repeated = arch.reused_parameters * 2 / d.model_parallel * stage_layer_share(arch, d)
    return (prefill.stage_weight_bytes + looked_up + small - repeated) / d.fsdp


def kv_bytes_per_sequence_per_chip(
    arch: Architecture, variant: Variant, d: Deployment, w: Workload
) -> Number:
    """KV cache and recurrent state that one full-length sequence holds on one chip of its group."""
    tokens = w.prompt_tokens + w.output_tokens
    total: Number = 0.0
    for m in arch.mixers:
        if isinstance(m, Attention):
            width = kv_heads_per_chip(m, d) * cached_width(m)
            if not is_zero(m.index_heads):
                width = width + m.index_head_dim
            entries = kv_layer_count(m) * cached_tokens(m, tokens)
            total = total + entries * width * variant.kv_bits / 8 / d.context / d.kv_batch_shards
        elif isinstance(m, LatentAttention):
            elements = m.layers * (m.kv_lora_rank + m.qk_rope_head_dim)
            if not is_zero(m.index_heads):
                elements = elements + index_layer_count(m) * m.index_head_dim
            total = total + tokens * elements * variant.kv_bits / 8 / d.context
        elif isinstance(m, Recurrent):
            heads = ceil_div(m.heads, d.attention_tensor)
            state = heads * m.key_dim * m.value_dim * m.state_bits
            tail = jnp.maximum(m.conv_kernel - 1, 0) * m.conv_channels * m.conv_state_bits
            total = total + m.layers * (state + tail / d.attention_tensor) / 8
    return total * stage_layer_share(arch, d)


def activation_bytes_per_chip(arch: Architecture, phase: Phase, theta: Theta) -> Number:
    """Working buffers of one step: a few copies of the residual stream."""
    return phase.ffn_tokens * arch.hidden * 2 * theta["activation_buffers"]
