"""Dense and mixture-of-experts blocks from the fields of a config.json.

Each function returns one block per layer, each with `layers=1`; `layers.merge` groups them.
"""

from __future__ import annotations

from models.architecture import DenseFFN, FeedForward, MoE
from models.huggingface.frame import Frame

_EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
_TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_topk",
    "moe_k",
)


def feed_forward_layers(f: Frame) -> list[FeedForward]:
    """The feed-forward block of every layer, by the family's kind."""
    if f.family.feed_forward == "dense":
        return [dense(f)] * f.layers
    sparse = _sparse_layers(f)
    block = moe(f) if any(sparse) else None
    narrow = dense(f) if not all(sparse) else None
    f.r.skip(f.family.ffn_key)
    chosen = [block if s else narrow for s in sparse]
    return [b for b in chosen if b is not None]


def dense(f: Frame, width: int | None = None) -> DenseFFN:
    """A dense block; its width is the family's field unless given."""
    r, family = f.r, f.family
    if width is None:
        default = (
            {"default": 4 * f.hidden} if family.ffn_key in ("n_inner", "ffn_hidden_size") else {}
        )
        width = r.integer(family.ffn_key, **default)
    extra = 0
    if r.switch(family.ffn_bias):
        extra += (1 + int(family.gated)) * width + f.hidden
    if family.sub_norms:
        extra += width
    return DenseFFN(layers=1, width=width, gated=int(family.gated), extra_parameters=extra)


def moe(f: Frame) -> MoE:
    """Routed experts with what every token passes beside them."""
    r, family = f.r, f.family
    experts, top_k = r.integer(*_EXPERTS), r.integer(*_TOP_K)
    if top_k > experts:
        raise r.error(
            _TOP_K[0], f"{top_k} is more than the {experts} experts", "correct one of them"
        )
    width = r.integer(family.expert_width_key)
    shared = _shared_width(f, width)
    extra = experts if r.switch(family.router_bias) else 0
    extra += f.hidden if family.shared_gate and shared else 0
    expert_extra = (1 + int(family.gated)) * width + f.hidden if family.expert_bias else 0
    if r.switch(family.ffn_bias):
        raise r.error(
            str(family.ffn_bias).partition("=")[0],
            "biases in experts are not supported",
            "extend models/huggingface",
        )
    return MoE(
        layers=1,
        experts=experts,
        top_k=top_k,
        expert_width=width,
        shared_width=shared,
        gated=int(family.gated),
        latent_dim=r.integer("moe_latent_size", default=0, minimum=0),
        expert_extra_parameters=expert_extra,
        extra_parameters=extra,
    )


def _shared_width(f: Frame, expert_width: int) -> int:
    """Total width of the shared experts: a width of their own, or a count of routed widths."""
    r, family = f.r, f.family
    count = 0
    if family.shared_count_key:
        # A null count means none; an absent one means the class default.
        default = 0 if r.has(family.shared_count_key) else family.shared_count_default
        count = r.integer(family.shared_count_key, default=default, minimum=0)
    if family.shared_width_key:
        return r.integer(family.shared_width_key, minimum=0)
    return count * expert_width


def _sparse_layers(f: Frame) -> list[bool]:
    """Which layers have experts, by the family's rule; an explicit list in the file wins."""
    r, rule = f.r, f.family.sparse_rule
    kinds = r.per_layer("mlp_layer_types", f.layers)
    first = r.integer("first_k_dense_replace", default=f.family.dense_first_default, minimum=0)
    frequency = r.raw("moe_layer_freq")
    step = r.integer("decoder_sparse_step", default=1)
    dense_only = r.listing("mlp_only_layers", int) or []
    if kinds is not None:
        unknown = set(kinds) - {"dense", "sparse"}
        if unknown:
            raise r.error(
                "mlp_layer_types", f"{sorted(unknown)} is not known", "use dense or sparse"
            )
        return [k == "sparse" for k in kinds]
    if isinstance(frequency, list):
        return [bool(x) for x in r.per_layer("moe_layer_freq", f.layers, int) or []]
    if rule == "all":
        return [True] * f.layers
    if rule == "first_dense":
        every = r.integer("moe_layer_freq", default=1)
        return [i >= first and i % every == 0 for i in range(f.layers)]
    if rule == "step":
        return [i not in dense_only and (i + 1) % step == 0 for i in range(f.layers)]
    if rule == "interleave":
        chosen = r.listing("moe_layers", int)
        every = r.integer("interleave_moe_layer_step")
        return [i in chosen if chosen else (i + 1) % every == 0 for i in range(f.layers)]
    if rule == "range":
        start = r.integer("moe_layer_start_index", default=1, minimum=0)
        end = r.integer("moe_layer_end_index", default=-1, minimum=-1)
        every = r.integer("moe_layer_interval", default=1)
        last = f.layers - 1 if end < 0 else end
        return [start <= i <= last and (i + 1) % every == 0 for i in range(f.layers)]
    raise ValueError(f"families.yaml: {f.family.model_type}: unknown sparse_rule {rule!r}")
