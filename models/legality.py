"""Which candidates can exist, as amounts: value / limit - 1, positive where a limit is exceeded,
or a boolean, true where something that has no amount is wrong.

Reasons are data (`REASONS`), so that the study log counts them and the CLI explains them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.collectives import Axis
from hwmodel.literal import is_one
from hwmodel.rates import on_chip_bytes, usable_hbm_bytes
from hwmodel.theta import Theta
from hwmodel.whole import divides
from models.architecture import Architecture, Attention, LatentAttention, MoE
from models.deployment import ORDERED_AXES, Deployment, Grid
from models.variants import Variant, conditions
from models.variants.reasons import REASONS as VARIANT_REASONS
from models.workload import Workload

Number = Any

DEPLOYMENT_REASONS: dict[str, str] = {
    "hbm_overflow": "weights, KV cache and working buffers (training: optimizer state, kept "
    "activations) exceed the usable HBM of a chip",
    "vmem_too_small": "VMEM cannot double-buffer one matrix-unit tile per core",
    "attention_split": "attention_data must divide tensor x expert",
    "query_heads_split": "the query heads do not divide over the attention tensor degree",
    "kv_heads_split": "the KV heads neither divide nor replicate over the attention tensor degree",
    "kv_batch_shards": "the KV cache is split over more chips than would hold copies of a KV head",
    "expert_degree": "the expert degree exceeds the number of experts (1 for a dense model)",
    "pipeline_degree": "more pipeline stages than layers",
    "batch_too_small": "fewer sequences than request groups: some chips would hold no request",
    "torus_dimensions": "the torus has more dimensions than the chip's links are wired for",
    "pod_size": "one slice has more chips than the largest ICI domain",
    "mesh_tiling": "a mesh axis does not fit the torus sides in this order",
    "mesh_order": "tensor and expert must be neighbours in the mesh order",
    "layout_2d": "the 2-D layout needs tensor x expert to span two torus dimensions",
    "cached_prefix": "the cached prefix is as long as the prompt",
    "quality_unknown": "no quality law covers this variant; the study must assume a band for it",
}

TRAINING_REASONS: dict[str, str] = {
    "batch_split": "the global batch does not divide over data x fsdp x attention_data groups and "
    "their microbatches",
    "sequence_split": "the context degree does not divide the sequence",
}

REASONS: dict[str, str] = DEPLOYMENT_REASONS | TRAINING_REASONS | VARIANT_REASONS
"""Code of a violation -> what is wrong. Codes are stable: they are counted in study logs."""


def violations(
    chip: Chip,
    released: Architecture,
    arch: Architecture,
    variant: Variant,
    d: Deployment,
    w: Workload,
    theta: Theta,
    axes: Mapping[str, Axis],
    grid: Grid,
    hbm_used_bytes: Number,
    quality_loss_nats: Number,
) -> dict[str, Number]:
    """Amount by which each limit is exceeded; keys are among those of `REASONS`, each a scalar.

    `released` is the model before the variant's transforms, `arch` after them.
    """
    own: dict[str, Number] = {
        "batch_too_small": excess(d.data * d.pipeline * d.request_groups, d.batch),
        "cached_prefix": (w.cached_prefix_tokens + 1 - w.prompt_tokens) / w.prompt_tokens,
    }
    shared = shared_violations(
        chip, released, arch, variant, d, theta, axes, grid, hbm_used_bytes, quality_loss_nats
    )
    return {reason: jnp.asarray(amount) for reason, amount in own.items()} | shared


def shared_violations(
    chip: Chip,
    released: Architecture,
    arch: Architecture,
    variant: Variant,
    d: Deployment,
    theta: Theta,
    axes: Mapping[str, Axis],
    grid: Grid,
    hbm_used_bytes: Number,
    quality_loss_nats: Number,
) -> dict[str, Number]:
    """The limits that serving and training have in common, as `violations`."""
    ta = d.attention_tensor
    out: dict[str, Number] = {
        "hbm_overflow": hbm_used_bytes / usable_hbm_bytes(chip, theta) - 1,
        "vmem_too_small": _tile_bytes(chip) * chip.cores / on_chip_bytes(chip, theta) - 1,
        "attention_split": unless(divides(d.attention_data, d.model_parallel)),
        "pipeline_degree": excess(d.pipeline, arch.layers),
        "torus_dimensions": unless((d.torus_z <= 1) | (chip.ici_torus_ndims >= 3)),
        "pod_size": excess(d.slice_chips, chip.ici_max_chips),
        "mesh_tiling": sum(axes[name].untiled for name in ORDERED_AXES),
        "mesh_order": unless(_neighbours(d)),
        "layout_2d": unless((d.layout_2d == 0) | grid.exists),
        "quality_unknown": jnp.isnan(quality_loss_nats),
    }
    query = kv = jnp.asarray(True)
    for m in arch.mixers:
        if isinstance(m, Attention):
            query &= divides(ta, m.q_heads)
            kv &= divides(ta, m.kv_heads) | divides(m.kv_heads, ta)
        elif isinstance(m, LatentAttention):
            query &= divides(ta, m.heads)
    out["query_heads_split"] = unless(query)
    out["kv_heads_split"] = unless(kv)
    if not is_one(d.kv_batch_shards):
        out["kv_batch_shards"] = _batch_shards(arch, d)
    experts = [f.experts for f in arch.feed_forwards if isinstance(f, MoE)]
    fewest = functools.reduce(jnp.minimum, experts) if experts else 1.0
    out["expert_degree"] = excess(d.expert, fewest)
    for condition in conditions(released, variant):
        violated = condition.violated
        if isinstance(violated, bool) and not violated:
            continue  # decided for the whole study: nothing to trace
        out[condition.code] = out.get(condition.code, False) | jnp.asarray(violated, bool)
    return {reason: jnp.asarray(amount) for reason, amount in out.items()}


def _batch_shards(arch: Architecture, d: Deployment) -> Number:
    """Excess of the shards over the copies of a KV head that a layer would hold without them."""
    worst: Number = -jnp.inf
    for m in arch.mixers:
        if isinstance(m, Attention):
            copies = jnp.maximum(d.attention_tensor / m.kv_heads, 1.0)
            worst = jnp.maximum(worst, excess(d.kv_batch_shards, copies))
    return jnp.where(jnp.isfinite(worst), worst, excess(d.kv_batch_shards, 1.0))


def excess(value: Number, limit: Number) -> Number:
    """value / limit - 1, exactly 0 where both are equal (a compiled quotient need not be 1)."""
    return (value - limit) / limit


def unless(legal: Number) -> Number:
    """The violation of something that has no amount."""
    return jnp.logical_not(legal)


def _tile_bytes(chip: Chip) -> Number:
    """Two weight tiles and two input and output row blocks of 16-bit and 32-bit words, per core."""
    weights = 2 * chip.mxu_rows * chip.mxu_cols * 2
    rows = 2 * chip.rows_per_vmatmul_bf16 * (chip.mxu_rows * 2 + chip.mxu_cols * 4)
    return (weights + rows) * chip.mxus_per_core


def _neighbours(d: Deployment) -> Number:
    """Whether no other used axis lies between tensor and expert on the torus."""
    low = jnp.minimum(d.tensor_rank, d.expert_rank)
    high = jnp.maximum(d.tensor_rank, d.expert_rank)
    between_context = (d.context_rank > low) & (d.context_rank < high) & (d.context > 1)
    between_fsdp = (d.fsdp_rank > low) & (d.fsdp_rank < high) & (d.fsdp > 1)
    both = (d.tensor > 1) & (d.expert > 1)
    return jnp.logical_not(both & (between_context | between_fsdp))
