"""Experts: how many there are and how many each token visits, in every MoE layer."""

from __future__ import annotations

import dataclasses
from typing import Any

from models.architecture import Architecture, MoE
from models.variants import laws
from models.variants.numbers import Number, either, maximum, nearest_whole, where
from models.variants.transform import Band, Condition, Explanation, Transform
from models.variants.variant import Variant


def _resized(block: MoE, variant: Variant) -> MoE:
    return dataclasses.replace(
        block,
        experts=maximum(nearest_whole(block.experts, variant.experts_scale), 1),
        top_k=where(variant.top_k > 0, variant.top_k, block.top_k),
    )


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """Every MoE block with `experts_scale` times the experts (whole) and `top_k` per token."""
    blocks = tuple(_resized(f, variant) if isinstance(f, MoE) else f for f in arch.feed_forwards)
    return dataclasses.replace(arch, feed_forwards=blocks)


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether any block changes its number of experts or its top-k."""
    changed: Number = False
    for block in _moe(arch):
        new = _resized(block, variant)
        changed = either(changed, new.experts != block.experts)
        changed = either(changed, new.top_k != block.top_k)
    return changed


def law_nats(before: Architecture, after: Architecture, variant: Variant, tokens: Number) -> Band:
    """Loss of other total and active parameter counts when trained on the same tokens."""
    return laws.size_loss_nats(laws.size(before), laws.size(after))


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """A token cannot visit more experts than there are; a dense model has none to change."""
    blocks = _moe(arch)
    if not blocks:
        asked = either(variant.experts_scale != 1, variant.top_k > 0)
        return [Condition("experts_without_moe", asked, _no_moe)]
    too_few: Number = False
    for block in blocks:
        new = _resized(block, variant)
        too_few = either(too_few, new.top_k > new.experts)

    def explain() -> Explanation:
        new = _resized(blocks[0], variant)
        return Explanation(
            f"top_k {int(new.top_k)} is more than the {int(new.experts)} experts of a layer",
            f"top_k {int(new.experts)}",
        )

    return [
        Condition("experts_scale_not_positive", variant.experts_scale <= 0, _not_positive),
        Condition("top_k_above_experts", too_few, explain),
    ]


def _moe(arch: Architecture) -> list[MoE]:
    return [f for f in arch.feed_forwards if isinstance(f, MoE)]


def _no_moe() -> Explanation:
    return Explanation(
        "experts_scale or top_k is set, but the model has no mixture-of-experts layer",
        "experts_scale 1 and top_k 0 (as released)",
    )


def _not_positive() -> Explanation:
    return Explanation("experts_scale must be greater than 0", "experts_scale 1")


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Every number of experts has a law (beyond its range it is reported as out of domain)."""
    return None


TRANSFORM = Transform(
    name="experts",
    fields=("experts_scale", "top_k"),
    changes="routed experts per layer and per token",
    exact_when="both are as released; a larger model is counted as 0, never as a gain",
    law="size",
    apply=apply,
    inexact=inexact,
    law_nats=law_nats,
    conditions=conditions,
    missing_law=missing_law,
    resizes=True,
)
