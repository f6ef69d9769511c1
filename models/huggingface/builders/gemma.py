"""Gemma-3n and Gemma-4: shared caches, per-layer embeddings, AltUp."""

from __future__ import annotations

import dataclasses

from models.architecture import DenseFFN, MoE
from models.huggingface import attention
from models.huggingface.feed_forward import dense, moe
from models.huggingface.frame import Frame, Parts
from models.huggingface.layers import merge


def gemma4(f: Frame) -> Parts:
    """Gemma-4: shared KV, per-layer embeddings, and experts beside the dense block in one layer."""
    r = f.r
    experts = r.flag("enable_moe_block", default=False)
    own = f.layers - r.integer("num_kv_shared_layers", default=0, minimum=0)
    double = r.flag("use_double_wide_mlp", default=False)
    width = r.integer("intermediate_size")
    blocks: list[DenseFFN | MoE] = [
        dense(f, 2 * width if double and i >= own else width) for i in range(f.layers)
    ]
    if experts:
        # Beside the router matrix: a scale per hidden element and one per expert.
        block = moe(f)
        scales = f.hidden + block.experts
        blocks += [dataclasses.replace(block, extra_parameters=scales)] * f.layers
    else:
        r.skip("num_experts", "top_k_experts", "moe_intermediate_size", "expert_intermediate_size")
    norms = f.family.norms_per_layer + (3 if experts else 0)
    width_ple = r.integer("hidden_size_per_layer_input", default=0, minimum=0)
    r.skip("vocab_size_per_layer_input", "use_bidirectional_attention")
    embedding, other, norm = _per_layer_inputs(f, width_ple)
    return Parts(
        mixers=merge(attention.gemma4_layers(f)),
        feed_forwards=merge(blocks),
        norm_parameters=f.norm_weights(norms) + norm,
        embedding_extra_parameters=embedding,
        other_parameters=other,
    )


def gemma3n(f: Frame) -> Parts:
    """Gemma-3n: AltUp over several streams, Laurel low-rank residuals, per-layer embeddings."""
    r = f.r
    width = r.raw("intermediate_size")
    widths = (
        r.per_layer("intermediate_size", f.layers, int)
        if isinstance(width, list)
        else ([r.integer("intermediate_size")] * f.layers)
    )
    r.skip("activation_sparsity_pattern", "altup_active_idx", "altup_correct_scale")
    rank, streams = r.integer("laurel_rank"), r.integer("altup_num_inputs")
    laurel = f.layers * 2 * f.hidden * rank
    per_layer_altup = f.hidden + streams * streams + streams**3 + f.hidden * streams
    altup = f.layers * per_layer_altup + 2 * (streams - 1) * f.hidden * f.hidden
    embedding, other, norm = _per_layer_inputs(f, r.integer("hidden_size_per_layer_input"))
    # Norms: four of the block, Laurel's and AltUp's router's.
    return Parts(
        mixers=merge(attention.gemma3n_layers(f)),
        feed_forwards=merge(dense(f, w) for w in widths or []),
        norm_parameters=f.norm_weights() + norm,
        embedding_extra_parameters=embedding,
        other_parameters=other + laurel + altup,
        residual_streams=streams,
    )


def _per_layer_inputs(f: Frame, width: int) -> tuple[int, int, int]:
    """Per-layer embeddings of `width`: (looked up, multiplied, norm) parameters."""
    if not width:
        return 0, 0, 0
    rows = f.r.integer("vocab_size_per_layer_input", default=f.vocab)
    lookup = rows * f.layers * width
    projection = f.hidden * f.layers * width
    gates = 2 * f.layers * f.hidden * width
    return lookup, projection + gates, width + f.layers * f.hidden
