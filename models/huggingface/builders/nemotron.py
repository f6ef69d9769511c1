"""Nemotron-H and Nemotron-3: one block per layer."""

from __future__ import annotations

from models.architecture import FeedForward, Mixer
from models.huggingface import attention, recurrent
from models.huggingface.feed_forward import dense, moe
from models.huggingface.frame import Frame, Parts
from models.huggingface.layers import merge
from models.huggingface.reader import Reader

_NEMOTRON_CODES = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
_NEMOTRON_NAMES = {"linear_attention": "mamba", "full_attention": "attention"}


def nemotron_h(f: Frame) -> Parts:
    """Nemotron-H and Nemotron-3: every layer is one block, a mixer or a feed-forward."""
    r = f.r
    kinds = nemotron_kinds(r)
    if kinds is None or set(kinds) - set(_NEMOTRON_CODES.values()):
        raise r.error(
            "hybrid_override_pattern",
            "is missing (also looked for: layers_block_type) or has an unknown layer",
            "use M, *, E and -, one for each layer",
        )
    r.expect("sliding_window", None)
    r.expect("attention_bias", False)
    r.expect("n_shared_experts", 1)
    mixers: list[Mixer] = []
    blocks: list[FeedForward] = []
    if "mamba" in kinds:
        mamba = recurrent.mamba2(
            f,
            heads=r.integer("mamba_num_heads"),
            head_dim=r.integer("mamba_head_dim"),
            groups=r.integer("n_groups", "mamba_n_groups"),
            state=r.integer("ssm_state_size"),
            kernel=r.integer("conv_kernel", "mamba_d_conv"),
            conv_bias=r.flag("use_conv_bias", "mamba_conv_bias", default=True),
            linear_bias=r.flag("use_bias", default=False),
        )
        r.expect("mamba_proj_bias", r.flag("use_bias", default=False))
        mixers += [mamba] * kinds.count("mamba")
    if "attention" in kinds:
        mixers += [attention.gqa_layer(f)] * kinds.count("attention")
    if "moe" in kinds:
        blocks += [moe(f)] * kinds.count("moe")
    if "mlp" in kinds:
        blocks += [dense(f)] * kinds.count("mlp")
    r.skip("intermediate_size", "moe_intermediate_size", "mlp_bias")
    return Parts(
        mixers=merge(mixers), feed_forwards=merge(blocks), norm_parameters=f.norm_weights()
    )


def nemotron_kinds(r: Reader) -> list[str] | None:
    """The kind of every layer of a Nemotron-H file, from either of its two spellings."""
    pattern = r.raw("hybrid_override_pattern")
    names = r.listing("layers_block_type", str)
    if isinstance(pattern, str):
        return [_NEMOTRON_CODES.get(c, c) for c in pattern]
    return None if names is None else [_NEMOTRON_NAMES.get(n, n) for n in names]
