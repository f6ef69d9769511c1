"""Softmax and latent attention layers from the fields of a config.json.

Each function returns one block per layer, each with `layers=1`; `layers.merge` groups them.
"""

from __future__ import annotations

import dataclasses

from models.architecture import Attention, LatentAttention, Mixer
from models.huggingface.frame import Frame
from models.huggingface.layers import windows
from models.huggingface.reader import Reader


def attention_layers(f: Frame) -> list[Mixer]:
    """The attention of every layer, by the family's kind."""
    return [*(mla_layers(f) if f.family.attention == "mla" else gqa_layers(f))]


def gqa_layers(f: Frame) -> list[Attention]:
    """MHA, MQA or GQA in every layer, each with its own window."""
    layer = gqa_layer(f)
    return [
        dataclasses.replace(layer, window=w)
        for w in windows(f.r, f.family, f.layers, f.max_context)
    ]


def gqa_layer(f: Frame) -> Attention:
    """One full-attention layer; the family says which biases and norms it has."""
    r, family = f.r, f.family
    heads = r.integer("num_attention_heads", "n_head")
    kv_default = {"default": heads} if family.kv_heads_default else {}
    kv_heads = r.integer("num_key_value_heads", **kv_default)
    if heads % kv_heads:
        raise r.error(
            "num_key_value_heads",
            f"{kv_heads} does not divide {heads} query heads",
            "correct one of them",
        )
    head_dim = r.integer(
        "head_dim", "attention_head_dim", default=family.head_dim_default, minimum=0
    )
    head_dim = head_dim or f.heads_divide("hidden_size", f.hidden, heads)
    q_width, kv_width = heads * head_dim, kv_heads * head_dim
    extra = 0
    if r.switch(family.qkv_bias):
        extra += q_width + 2 * kv_width
    if r.switch(family.o_bias):
        extra += f.hidden
    if r.switch(family.qk_norm_when):
        extra += {"none": 0, "head": 2 * head_dim, "full": q_width + kv_width}[family.qk_norm]
    if r.switch(family.sinks):
        extra += heads
    if family.sub_norms:
        extra += f.hidden
    return Attention(
        layers=1,
        q_heads=heads,
        kv_heads=kv_heads,
        qk_head_dim=head_dim,
        v_head_dim=head_dim,
        output_gate=int(r.switch(family.output_gate)),
        extra_parameters=extra,
    )


def mla_layer(f: Frame) -> LatentAttention:
    """One multi-head latent attention layer. `head_dim` is ignored: it means different things in
    different files of this family."""
    r = f.r
    r.skip("head_dim", "qk_head_dim", "num_key_value_heads")
    q_lora = r.integer("q_lora_rank", default=0, minimum=0)
    layer = LatentAttention(
        layers=1,
        heads=r.integer("num_attention_heads"),
        q_lora_rank=q_lora,
        kv_lora_rank=r.integer("kv_lora_rank"),
        qk_nope_head_dim=r.integer("qk_nope_head_dim"),
        qk_rope_head_dim=r.integer("qk_rope_head_dim"),
        v_head_dim=r.integer("v_head_dim"),
    )
    extra = q_lora + layer.kv_lora_rank  # the norms of the two latents
    if r.switch(f.family.qkv_bias):  # one switch: q_a, kv_a and o all have it or none has
        extra += q_lora + layer.kv_lora_rank + layer.qk_rope_head_dim + f.hidden
    return dataclasses.replace(layer, extra_parameters=extra)


def mla_layers(f: Frame) -> list[LatentAttention]:
    """Latent attention in every layer."""
    return [mla_layer(f)] * f.layers


def sparse_mla_layers(f: Frame) -> list[LatentAttention]:
    """GLM-5: latent attention whose indexer picks `index_topk` tokens; 'shared' layers reuse the
    choice of the layer below and have no indexer."""
    r = f.r
    head_dim = r.integer("index_head_dim")
    full = dataclasses.replace(
        mla_layer(f),
        select_tokens=r.integer("index_topk"),
        index_heads=r.integer("index_n_heads"),
        index_head_dim=head_dim,
    )
    for kind in r.per_layer("layer_types", f.layers) or []:
        if kind not in ("deepseek_sparse_attention", "indexed_attention"):
            raise r.error("layer_types", f"{kind!r} is not known here", "extend models/huggingface")
    norm = 2 * head_dim  # the indexer's LayerNorm on its key
    return [
        dataclasses.replace(full, extra_parameters=full.extra_parameters + norm)
        if kind == "full"
        else dataclasses.replace(full, index_layers=0)
        for kind in _indexer_types(f)
    ]


def _indexer_types(f: Frame) -> list[str]:
    r = f.r
    frequency = r.integer("index_topk_freq", default=1)
    offset = r.integer("index_skip_topk_offset", default=2, minimum=0)
    pattern = r.raw("index_topk_pattern")
    kinds = r.per_layer("indexer_types", f.layers)
    if kinds is None and pattern is not None:
        kinds = [{"F": "full", "S": "shared"}.get(c, c) for c in pattern]
    if kinds is None:
        kinds = [
            "full" if max(i - offset + 1, 0) % frequency == 0 else "shared" for i in range(f.layers)
        ]
    unknown = set(kinds) - {"full", "shared"}
    if unknown or len(kinds) != f.layers:
        raise r.error(
            "indexer_types", f"needs full or shared for each of {f.layers} layers", "correct it"
        )
    return kinds


def chunked_layers(f: Frame) -> list[Attention]:
    """Llama-4: rotary layers attend within chunks, every fourth (no rotary) to everything."""
    r = f.r
    layer = gqa_layer(f)
    r.skip("use_qk_norm")  # its L2 norm has no weights
    chunk = r.integer("attention_chunk_size", default=0, minimum=0)
    if 0 < f.max_context <= chunk:
        chunk = 0
    kinds = r.per_layer("layer_types", f.layers)
    if kinds is None:
        step = r.integer("no_rope_layer_interval", default=4)
        rotary = r.per_layer("no_rope_layers", f.layers, int) or [
            int((i + 1) % step != 0) for i in range(f.layers)
        ]
        kinds = ["chunked_attention" if x else "full_attention" for x in rotary]
    unknown = set(kinds) - {"chunked_attention", "full_attention"}
    if unknown:
        raise r.error("layer_types", f"{sorted(unknown)} is not known here", "correct it")
    return [
        dataclasses.replace(layer, window=chunk if k == "chunked_attention" else 0) for k in kinds
    ]


def two_width_layers(f: Frame) -> list[Attention]:
    """MiMo-V2: full and windowed layers with different KV heads; V narrower than Q and K."""
    r = f.r
    pattern = r.per_layer("hybrid_layer_pattern", f.layers, int)  # 1: windowed
    if pattern is None or set(pattern) - {0, 1}:
        raise r.error("hybrid_layer_pattern", "needs a 0 or 1 for every layer", "complete it")
    r.skip("sliding_window_size", "attention_chunk_size")
    full = _two_width_layer(f, "", r.flag("add_full_attention_sink_bias", default=False), 0)
    local = _two_width_layer(
        f, "swa_", r.flag("add_swa_attention_sink_bias", default=True), r.integer("sliding_window")
    )
    return [local if p else full for p in pattern]


def _two_width_layer(f: Frame, prefix: str, sinks: bool, window: int) -> Attention:
    r = f.r
    heads = r.integer(f"{prefix}num_attention_heads")
    layer = Attention(
        layers=1,
        q_heads=heads,
        kv_heads=r.integer(f"{prefix}num_key_value_heads"),
        qk_head_dim=r.integer(f"{prefix}head_dim"),
        v_head_dim=r.integer(f"{prefix}v_head_dim"),
        window=window,
        extra_parameters=heads if sinks else 0,
    )
    r.expect("attention_bias", False)
    return layer


def many_heads_layers(f: Frame) -> list[Attention]:
    """Laguna: the number of query heads differs by layer; a gate per head (or per element)."""
    r = f.r
    base = gqa_layer(f)
    counts = (
        r.per_layer("num_attention_heads_per_layer", f.layers, int) or [base.q_heads] * f.layers
    )
    gating = r.raw("gating")
    per_head = gating is True or gating is None or gating == "per-head"
    if not per_head and gating != "per-element":
        raise r.error("gating", f"{gating!r} is not known", "use per-head or per-element")
    for kind in r.per_layer("gating_types", f.layers) or []:
        if kind != ("per_head" if per_head else "per_element"):
            raise r.error("gating_types", f"{kind!r} contradicts gating = {gating!r}", "correct it")
    return [
        dataclasses.replace(
            base,
            q_heads=heads,
            window=window,
            output_gate=int(not per_head),
            extra_parameters=base.extra_parameters + (f.hidden * heads if per_head else 0),
        )
        for heads, window in zip(counts, windows(r, f.family, f.layers, f.max_context), strict=True)
    ]


def gemma4_layers(f: Frame) -> list[Attention]:
    """Gemma-4: global layers have wider heads, fewer KV heads and may project K and V together; the
    last `num_kv_shared_layers` reuse the cache of an earlier layer of their kind."""
    r = f.r
    local = gqa_layer(f)
    own = f.layers - r.integer("num_kv_shared_layers", default=0, minimum=0)
    wide = r.integer("global_head_dim", default=local.qk_head_dim)
    together = r.flag("attention_k_eq_v", default=False)
    kv_heads = r.integer("num_global_key_value_heads", default=local.kv_heads)
    everywhere = dataclasses.replace(
        local,
        qk_head_dim=wide,
        v_head_dim=wide,
        kv_heads=kv_heads if together else local.kv_heads,
        kv_projections=1 if together else 2,
        extra_parameters=2 * wide,
    )
    r.expect("attention_bias", False)
    return [
        _reuse(dataclasses.replace(local if window else everywhere, window=window), i >= own)
        for i, window in enumerate(windows(r, f.family, f.layers, f.max_context))
    ]


def gemma3n_layers(f: Frame) -> list[Attention]:
    """Gemma-3n: GQA whose last `num_kv_shared_layers` reuse an earlier layer's cache."""
    own = f.layers - f.r.integer("num_kv_shared_layers", default=0, minimum=0)
    return [_reuse(layer, i >= own) for i, layer in enumerate(gqa_layers(f))]


def _reuse(layer: Attention, reuses: bool) -> Attention:
    """A layer that reuses a cache has no K and V projection and no key norm."""
    if not reuses:
        return layer
    return dataclasses.replace(layer, kv_layers=0, extra_parameters=layer.qk_head_dim)


def compressed_layers(f: Frame) -> list[Attention]:
    """DeepSeek-V4: one shared KV vector per token, kept for a short window and, in most layers, as
    one compressed entry per 4 tokens (with an indexer) or per 128 tokens (without)."""
    r = f.r
    r.expect("num_key_value_heads", 1)
    r.skip("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank")
    heads, head_dim = r.integer("num_attention_heads"), r.integer("head_dim")
    q_lora, index_dim = r.integer("q_lora_rank"), r.integer("index_head_dim")
    local = Attention(
        layers=1,
        q_heads=heads,
        kv_heads=1,
        qk_head_dim=head_dim,
        v_head_dim=head_dim,
        window=r.integer("sliding_window"),
        kv_projections=1,
        kv_cached=1,
        q_lora_rank=q_lora,
        o_lora_rank=r.integer("o_lora_rank"),
        o_groups=r.integer("o_groups"),
        extra_parameters=q_lora + head_dim + heads,  # norms of the q latent and of KV; sinks
    )
    heavy = dataclasses.replace(
        local,
        compress_ratio=128,
        extra_parameters=local.extra_parameters + _compressor(f.hidden, head_dim, head_dim, 128),
    )
    # The indexer makes its keys with a compressor of its own; `models.architecture` already counts
    # one hidden × index_head_dim key matrix.
    indexer = _compressor(f.hidden, 2 * index_dim, index_dim, 4) - f.hidden * index_dim
    sparse = dataclasses.replace(
        local,
        compress_ratio=4,
        select_tokens=r.integer("index_topk"),
        index_heads=r.integer("index_n_heads"),
        index_head_dim=index_dim,
        extra_parameters=(
            local.extra_parameters + _compressor(f.hidden, 2 * head_dim, head_dim, 4) + indexer
        ),
    )
    by_ratio = {0: local, 4: sparse, 128: heavy}
    ratios = r.per_layer("compress_ratios", f.layers, int)
    if ratios is None or set(ratios) - set(by_ratio):
        raise r.error("compress_ratios", "needs 0, 4 or 128 for every layer", "complete it")
    return [by_ratio[ratio] for ratio in ratios]


def _compressor(hidden: int, width: int, normed: int, ratio: int) -> int:
    """KV and gate projection, position bias within a group of `ratio` tokens, norm."""
    return 2 * hidden * width + ratio * width + normed


def pruned_layers(f: Frame) -> list[Attention | None]:
    """Nemotron-NAS: `block_configs` gives each layer its KV heads, or no attention (None)."""
    r = f.r
    r.skip("num_key_value_heads")
    heads = r.integer("num_attention_heads")
    head_dim = f.heads_divide("hidden_size", f.hidden, heads)
    r.expect("attention_bias", False)
    result: list[Attention | None] = []
    for block in pruned_blocks(f, "attention", ("n_heads_in_group", "no_op")):
        layer = None
        if not block.flag("no_op"):
            layer = Attention(
                layers=1,
                q_heads=heads,
                kv_heads=f.heads_divide(
                    "num_attention_heads", heads, block.integer("n_heads_in_group")
                ),
                qk_head_dim=head_dim,
                v_head_dim=head_dim,
            )
        result.append(layer)
    return result


def pruned_blocks(f: Frame, kind: str, known: tuple[str, ...]) -> list[Reader]:
    """The `kind` part of every entry of `block_configs`; raises where it switches on anything that
    is not `known`."""
    blocks = f.r.per_layer("block_configs", f.layers, dict)
    if blocks is None:
        raise f.r.error("block_configs", "is missing", "add it from the published config.json")
    readers = []
    for i, block in enumerate(blocks):
        entry = Reader(block, f.r.source, f.r.model_type, f"block_configs[{i}].").inside(kind)
        odd = [k for k, v in entry.fields.items() if v and k not in known]
        if odd:
            raise entry.error(
                odd[0], "is switched on and not supported", "extend models/huggingface"
            )
        readers.append(entry)
    return readers
