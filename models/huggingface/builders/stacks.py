"""Stacks of attention and feed-forward blocks in every layer."""

from __future__ import annotations

import dataclasses

from models.huggingface import attention
from models.huggingface.builders.common import round_up, stack
from models.huggingface.feed_forward import dense, moe
from models.huggingface.frame import Frame, Parts
from models.huggingface.layers import merge


def decoder(f: Frame) -> Parts:
    """The regular stack: one attention and one feed-forward block per layer."""
    return stack(f, attention.attention_layers(f))


def chunked(f: Frame) -> Parts:
    """Llama-4: chunked attention; dense layers between the MoE ones have a width of their own."""
    parts = stack(f, attention.chunked_layers(f))
    f.r.skip(f.family.ffn_key)
    return parts


def sparse_latent(f: Frame) -> Parts:
    """GLM-5: latent attention over the tokens an indexer picks."""
    return stack(f, attention.sparse_mla_layers(f))


def two_widths(f: Frame) -> Parts:
    """MiMo-V2."""
    return stack(f, attention.two_width_layers(f))


def many_heads(f: Frame) -> Parts:
    """Laguna."""
    return stack(f, attention.many_heads_layers(f))


def falcon(f: Frame) -> Parts:
    """Falcon: the number of KV heads and of norms follows from three switches."""
    r = f.r
    new = r.flag("new_decoder_architecture", default=False)
    multi_query = r.flag("multi_query", default=True)
    heads = r.integer("num_attention_heads")
    named = r.integer("num_kv_heads", "num_key_value_heads", default=heads)
    parallel = r.flag("parallel_attn", default=True) or new
    norms = r.integer("num_ln_in_parallel_attn", default=2 if new else 1) if parallel else 2
    fields = {**r.fields, "num_key_value_heads": named if new or not multi_query else 1}
    inner = dataclasses.replace(f, r=type(r)(fields, r.source, r.model_type))
    layer = attention.gqa_layer(inner)
    r.skip("head_dim", "bias", "num_kv_heads", "num_key_value_heads")
    r.expect("alibi", False)
    block = dense(f)
    r.expect("intermediate_size", block.width)
    return Parts(
        mixers=merge([layer] * f.layers),
        feed_forwards=merge([block] * f.layers),
        norm_parameters=f.norm_weights(norms),
    )


def compressed(f: Frame) -> Parts:
    """DeepSeek-V4: compressed attention, and hyper-connections over `hc_mult` residual streams."""
    r = f.r
    streams = r.integer("hc_mult")
    r.skip("first_k_dense_replace")
    wide = streams * f.hidden
    mixing = (2 + streams) * streams
    per_block = mixing * wide + mixing + 3  # projection, base, three scales
    head = streams * wide + streams + 1
    r.expect("attention_bias", False)
    hashed = r.integer("num_hash_layers", default=3, minimum=0)
    block = moe(f)
    # The first layers choose experts by a hash of the token: their router has no learned bias.
    unbiased = dataclasses.replace(block, extra_parameters=0)
    blocks = [unbiased if i < hashed else block for i in range(f.layers)]
    return Parts(
        mixers=merge(attention.compressed_layers(f)),
        feed_forwards=merge(blocks),
        norm_parameters=f.norm_weights(),
        other_parameters=2 * f.layers * per_block + head,
        residual_streams=streams,
    )


def pruned(f: Frame) -> Parts:
    """Nemotron-NAS: attention and feed-forward blocks of different widths, some layers without."""
    mixers = [m for m in attention.pruned_layers(f) if m is not None]
    # The modelling code rounds 2/3 × ffn_mult × hidden up to a multiple of 256.
    blocks = [
        dense(f, round_up(int(2 * block.number("ffn_mult") * f.hidden / 3), 256))
        for block in attention.pruned_blocks(f, "ffn", ("ffn_mult", "no_op"))
        if not block.flag("no_op")
    ]
    norms = (len(mixers) + len(blocks) + 1) * f.hidden
    return Parts(mixers=merge(mixers), feed_forwards=merge(blocks), norm_parameters=norms)
