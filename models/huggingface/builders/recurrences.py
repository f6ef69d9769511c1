"""Other recurrences: xLSTM and RecurrentGemma."""

from __future__ import annotations

import dataclasses

from models.architecture import Recurrent
from models.huggingface import attention, recurrent
from models.huggingface.builders.common import by_kind, round_up
from models.huggingface.feed_forward import dense
from models.huggingface.frame import Frame, Parts
from models.huggingface.layers import merge


def xlstm(f: Frame) -> Parts:
    """xLSTM-7B: mLSTM and a gated feed-forward in every layer."""
    r = f.r
    r.expect("num_blocks", f.layers)
    r.expect("embedding_dim", f.hidden)
    r.expect("add_out_norm", True)
    multiple = r.integer("ffn_round_up_to_multiple_of")
    width = round_up(f.hidden * r.number("ffn_proj_factor"), multiple)
    return Parts(
        mixers=merge([recurrent.mlstm(f)] * f.layers),
        feed_forwards=merge([dense(f, width)] * f.layers),
        norm_parameters=f.norm_weights(),
    )


def recurrent_gemma(f: Frame) -> Parts:
    """RecurrentGemma: a repeating pattern of RG-LRU blocks and local attention; `intermediate_size`
    counts gate and up together."""
    r = f.r
    pattern = r.listing("block_types", str)
    if not pattern or set(pattern) - {"recurrent", "attention"}:
        raise r.error("block_types", "needs a list of recurrent and attention", "complete it")
    kinds = [pattern[i % len(pattern)] for i in range(f.layers)]
    local = dataclasses.replace(attention.gqa_layer(f), window=r.integer("attention_window_size"))

    def lru(frame: Frame) -> Recurrent:
        return recurrent.rg_lru(frame, heads=r.integer("num_attention_heads"))

    mixers = by_kind(f, kinds, attention=lambda _: local, recurrent=lru)
    width = r.integer("intermediate_size") // 2
    return Parts(
        mixers=merge(mixers),
        feed_forwards=merge([dense(f, width)] * f.layers),
        norm_parameters=f.norm_weights(),
    )
