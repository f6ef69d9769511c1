"""Mamba-2 alone, beside attention, or between attention layers."""

from __future__ import annotations

import dataclasses

from models.architecture import DenseFFN, FeedForward, Recurrent
from models.huggingface import attention, recurrent
from models.huggingface.builders.common import by_kind, stack
from models.huggingface.feed_forward import dense, moe
from models.huggingface.frame import Frame, Parts
from models.huggingface.layers import merge


def mamba2_only(f: Frame) -> Parts:
    """Mamba-2: no attention, no feed-forward."""
    r = f.r
    heads, head_dim = r.integer("num_heads"), r.integer("head_dim")
    if heads * head_dim != int(r.number("expand", default=2) * f.hidden):
        raise r.error(
            "num_heads", "num_heads × head_dim is not expand × hidden_size", "correct one of them"
        )
    r.expect("rms_norm", True)
    mamba = recurrent.mamba2(
        f,
        heads=heads,
        head_dim=head_dim,
        groups=r.integer("n_groups"),
        state=r.integer("state_size"),
        kernel=r.integer("conv_kernel"),
        conv_bias=r.flag("use_conv_bias", default=True),
        linear_bias=r.flag("use_bias", default=False),
    )
    return Parts(
        mixers=merge([mamba] * f.layers), feed_forwards=(), norm_parameters=f.norm_weights()
    )


def falcon_h1(f: Frame) -> Parts:
    """Falcon-H1: attention and Mamba-2 side by side in every layer."""
    r = f.r
    heads = r.integer("mamba_n_heads")
    inner = r.integer("mamba_d_ssm", default=int(r.number("mamba_expand", default=2) * f.hidden))
    head_dim = f.heads_divide("mamba_d_ssm", inner, heads)
    if r.raw("mamba_d_head") not in (None, "auto", head_dim):
        raise r.error("mamba_d_head", f"is not {inner} / {heads}", "correct one of them")
    mamba = recurrent.mamba2(
        f,
        heads=heads,
        head_dim=head_dim,
        groups=r.integer("mamba_n_groups", default=1),
        state=r.integer("mamba_d_state"),
        kernel=r.integer("mamba_d_conv", default=4),
        conv_bias=r.flag("mamba_conv_bias", default=True),
        linear_bias=r.flag("mamba_proj_bias", default=False),
        gated_norm=r.flag("mamba_rms_norm", default=False),
    )
    r.expect("projectors_bias", False)
    r.expect("attn_layer_indices", None)
    r.skip("mamba_norm_before_gate", "mamba_expand", "mamba_chunk_size")
    return stack(f, [attention.gqa_layer(f)] * f.layers + [mamba] * f.layers)


def granite_hybrid(f: Frame) -> Parts:
    """Granite-4 hybrid: Mamba-2 and a few attention layers, each with experts and shared FFN."""
    r = f.r
    heads = r.integer("mamba_n_heads")
    inner = int(r.number("mamba_expand", default=2) * f.hidden)
    head_dim = f.heads_divide("mamba_expand", inner, heads)
    if r.raw("mamba_d_head") not in (None, "auto", head_dim):
        raise r.error("mamba_d_head", f"is not {inner} / {heads}", "correct one of them")
    kinds = r.per_layer("layer_types", f.layers)
    if kinds is None:
        raise r.error("layer_types", "is missing", "add it from the published config.json")
    names = {"mamba": "linear_attention", "attention": "full_attention"}

    def mamba(frame: Frame) -> Recurrent:
        return recurrent.mamba2(
            frame,
            heads=heads,
            head_dim=head_dim,
            groups=r.integer("mamba_n_groups", default=1),
            state=r.integer("mamba_d_state"),
            kernel=r.integer("mamba_d_conv", default=4),
            conv_bias=r.flag("mamba_conv_bias", default=True),
            linear_bias=r.flag("mamba_proj_bias", default=False),
        )

    mixers = by_kind(
        f,
        [names.get(k, k) for k in kinds],
        full_attention=attention.gqa_layer,
        linear_attention=mamba,
    )
    if r.integer("num_local_experts", minimum=0) == 0:
        blocks: list[FeedForward] = [dense(f, r.integer("shared_intermediate_size"))] * f.layers
        r.skip("num_experts_per_tok", "intermediate_size")
    else:
        blocks = [moe(f)] * f.layers
    return Parts(
        mixers=merge(mixers), feed_forwards=merge(blocks), norm_parameters=f.norm_weights()
    )


def zamba2(f: Frame) -> Parts:
    """Zamba2: Mamba-2 in every layer; hybrid layers first run a shared attention + feed-forward
    block
    on the concatenation of the hidden state and the embedding, with adapters of their own."""
    r = f.r
    heads = r.integer("n_mamba_heads")
    inner = int(r.number("mamba_expand") * f.hidden)
    mamba = recurrent.mamba2(
        f,
        heads=heads,
        head_dim=f.heads_divide("n_mamba_heads", inner, heads),
        groups=r.integer("mamba_ngroups"),
        state=r.integer("mamba_d_state"),
        kernel=r.integer("mamba_d_conv"),
        conv_bias=True,
        linear_bias=r.flag("add_bias_linear", default=False),
    )
    kinds = r.per_layer("layers_block_type", f.layers)
    if kinds is None:
        raise r.error("layers_block_type", "is missing", "add it from the published config.json")
    uses = kinds.count("hybrid")
    copies = r.integer("num_mem_blocks")
    r.expect("use_shared_attention_adapter", False)
    r.expect("add_bias_linear", False)
    r.expect("mamba_headdim", inner // heads)
    r.expect("attention_hidden_size", 2 * f.hidden)
    r.skip(
        "use_conv_bias",
        "kv_channels",
        "num_query_groups",
        "hybrid_layer_ids",
        "use_long_context",
        "time_step_limit",
    )
    shared = attention.gqa_layer(f)
    # The input is twice as wide as `hidden`: the second half of Q, K and V is an extra.
    doubled = f.hidden * (shared.q_heads + 2 * shared.kv_heads) * shared.qk_head_dim
    attended = dataclasses.replace(shared, layers=uses, extra_parameters=doubled)
    width, rank = r.integer("intermediate_size"), r.integer("adapter_rank")
    adapter = f.hidden * rank + rank * 2 * width
    block = DenseFFN(layers=uses, width=width, gated=1, extra_parameters=adapter)
    attention_once = (
        doubled
        + f.hidden * (shared.q_heads + 2 * shared.kv_heads) * shared.qk_head_dim
        + shared.q_heads * shared.v_head_dim * f.hidden
    )
    reused = (uses - copies) * (attention_once + 3 * f.hidden * width)
    links = uses * f.hidden * f.hidden  # the matrix from the shared block back into each layer
    return Parts(
        mixers=(attended, *merge([mamba] * f.layers)),
        feed_forwards=(block,),
        norm_parameters=f.norm_weights() + copies * 3 * f.hidden,
        other_parameters=links,
        reused_parameters=reused,
    )
