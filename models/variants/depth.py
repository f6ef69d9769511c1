"""Depth: keep a share of the layers. No law covers dropped layers, so a study assumes a band."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hwmodel.whole import floor_div
from models.architecture import (
    Architecture,
    Attention,
    LatentAttention,
    index_layer_count,
    kv_layer_count,
)
from models.variants.numbers import Number, either, nearest_whole
from models.variants.transform import Condition, Explanation, Transform
from models.variants.variant import Variant


def _kept(counts: Sequence[Number], share: Number) -> list[Number]:
    """Whole layers kept per entry; they add up to the nearest whole number of `share` of all."""
    kept: list[Number] = []
    total: Number = 0
    before: Number = 0
    for count in counts:
        total = total + count
        up_to_here = nearest_whole(total, share)
        kept.append(up_to_here - before)
        before = up_to_here
    return kept


def _part(whole: Number, kept: Number, layers: Number) -> Number:
    """`whole` (layers that own KV, or an indexer) in proportion to the layers kept."""
    return floor_div(whole * kept, layers)


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """`layer_share` of the layers, evenly from every kind of layer."""
    mixers = []
    for m, kept in zip(
        arch.mixers, _kept([m.layers for m in arch.mixers], variant.layer_share), strict=True
    ):
        changes: dict[str, Number] = {"layers": kept}
        layers = m.layers + (m.layers == 0)  # an empty entry stays empty without a division by 0
        if isinstance(m, Attention):
            changes["kv_layers"] = _part(kv_layer_count(m), kept, layers)
        if isinstance(m, LatentAttention):
            changes["index_layers"] = _part(index_layer_count(m), kept, layers)
        mixers.append(dataclasses.replace(m, **changes))
    blocks = tuple(
        dataclasses.replace(f, layers=kept)
        for f, kept in zip(
            arch.feed_forwards,
            _kept([f.layers for f in arch.feed_forwards], variant.layer_share),
            strict=True,
        )
    )
    layers = nearest_whole(arch.layers, variant.layer_share)
    return dataclasses.replace(
        arch,
        layers=layers,
        mixers=tuple(mixers),
        feed_forwards=blocks,
        norm_parameters=floor_div(arch.norm_parameters * layers, arch.layers),
    )


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether a layer is dropped."""
    return nearest_whole(arch.layers, variant.layer_share) != arch.layers


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """A share above 0 and at most 1 that keeps at least one layer."""
    none_left = nearest_whole(arch.layers, variant.layer_share) < 1
    out = either(none_left, variant.layer_share > 1)

    def explain() -> Explanation:
        nearest = 1 if variant.layer_share > 1 else 1 / float(arch.layers)
        return Explanation(
            f"layer_share {variant.layer_share:g} must keep at least 1 and at most all "
            f"{int(arch.layers)} layers",
            f"layer_share {nearest:.3g}",
        )

    return [Condition("layer_share_out_of_range", out, explain)]


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this share needs an assumed band."""
    if not inexact(arch, Variant(layer_share=value)):
        return None
    return "no published law gives the loss of dropping layers"


TRANSFORM = Transform(
    name="layer_share",
    fields=("layer_share",),
    changes="number of layers",
    exact_when="all layers are kept",
    law=None,
    apply=apply,
    inexact=inexact,
    law_nats=None,
    conditions=conditions,
    missing_law=missing_law,
    resizes=True,
)
