"""Linear attention and full attention in turn."""

from __future__ import annotations

from models.architecture import Recurrent
from models.huggingface import attention, recurrent
from models.huggingface.builders.common import by_kind, stack
from models.huggingface.frame import Frame, Parts


def linear_hybrid(f: Frame) -> Parts:
    """Qwen3-Next and Qwen3.5: gated delta rule, with full attention in every n-th layer."""
    r = f.r
    kinds = r.per_layer("layer_types", f.layers)
    every = r.integer("full_attention_interval", default=4)
    if kinds is None:
        kinds = [
            "full_attention" if (i + 1) % every == 0 else "linear_attention"
            for i in range(f.layers)
        ]
    r.expect("use_sliding_window", False)
    r.skip("sliding_window", "max_window_layers")
    mixers = by_kind(
        f, kinds, full_attention=attention.gqa_layer, linear_attention=recurrent.gated_delta
    )
    return stack(f, mixers)


def kimi_linear(f: Frame) -> Parts:
    """Kimi-Linear: delta attention with latent attention in some layers."""
    r = f.r
    nested = r.inside("linear_attn_config")
    kinds = r.per_layer("layer_types", f.layers)
    if kinds is None:
        full = nested.listing("full_attn_layers", int)
        if full is None:
            raise r.error(
                "layer_types",
                "is missing and linear_attn_config has no full_attn_layers",
                "add either from the published config.json",
            )
        kinds = [  # the file counts layers from 1
            "full_attention" if i + 1 in full else "linear_attention" for i in range(f.layers)
        ]
    # The published file nests these three; transformers saves them flat.
    flat = r.has("linear_num_heads")
    heads = r.integer("linear_num_heads") if flat else nested.integer("num_heads")
    head_dim = r.integer("linear_head_dim") if flat else nested.integer("head_dim")
    kernel = (
        r.integer("linear_conv_kernel_dim") if flat else nested.integer("short_conv_kernel_size")
    )

    def linear(frame: Frame) -> Recurrent:
        return recurrent.kimi_delta(frame, heads=heads, head_dim=head_dim, kernel=kernel)

    return stack(f, by_kind(f, kinds, full_attention=attention.mla_layer, linear_attention=linear))


def lightning(f: Frame) -> Parts:
    """MiniMax-M1: lightning attention (0 in `attn_type_list`) and full attention (1)."""
    r = f.r
    kinds = r.per_layer("attn_type_list", f.layers, int)
    if kinds is None or set(kinds) - {0, 1}:
        raise r.error("attn_type_list", "needs 0 or 1 for every layer", "complete it")
    names = ["full_attention" if k else "linear_attention" for k in kinds]
    r.expect("sliding_window", None)
    r.expect("shared_intermediate_size", 0)
    r.expect("postnorm", [True, False])
    return stack(
        f,
        by_kind(f, names, full_attention=attention.gqa_layer, linear_attention=recurrent.lightning),
    )
