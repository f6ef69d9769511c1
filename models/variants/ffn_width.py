"""FFN width: dense feed-forward blocks, shared and routed experts, scaled to whole columns."""

from __future__ import annotations

import dataclasses
from typing import Any

from models.architecture import Architecture, DenseFFN, FeedForward
from models.variants import laws
from models.variants.numbers import Number, either, maximum, nearest_whole
from models.variants.transform import Band, Condition, Explanation, Transform
from models.variants.variant import Variant


def _scaled(width: Number, scale: Number) -> Number:
    return maximum(nearest_whole(width, scale), 1)


def _resized(block: FeedForward, scale: Number) -> FeedForward:
    if isinstance(block, DenseFFN):
        return dataclasses.replace(block, width=_scaled(block.width, scale))
    return dataclasses.replace(
        block,
        expert_width=_scaled(block.expert_width, scale),
        shared_width=nearest_whole(block.shared_width, scale),
    )


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """Every feed-forward width times `ffn_width_scale`, nearest whole column, at least one."""
    blocks = tuple(_resized(f, variant.ffn_width_scale) for f in arch.feed_forwards)
    return dataclasses.replace(arch, feed_forwards=blocks)


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether any width changes."""
    changed: Number = False
    for old, new in zip(arch.feed_forwards, apply(arch, variant).feed_forwards, strict=True):
        for before, after in zip(_widths(old), _widths(new), strict=True):
            changed = either(changed, before != after)
    return changed


def _widths(block: FeedForward) -> tuple[Number, ...]:
    if isinstance(block, DenseFFN):
        return (block.width,)
    return (block.expert_width, block.shared_width)


def law_nats(before: Architecture, after: Architecture, variant: Variant, tokens: Number) -> Band:
    """Loss of the smaller parameter count when trained on the same tokens."""
    return laws.size_loss_nats(laws.size(before), laws.size(after))


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """The scale must be positive, and there must be a feed-forward block to scale."""
    found = [Condition("ffn_width_scale_not_positive", variant.ffn_width_scale <= 0, _not_positive)]
    if not arch.feed_forwards:
        found.append(
            Condition("ffn_width_without_ffn", variant.ffn_width_scale != 1, _no_feed_forward)
        )
    return found


def _not_positive() -> Explanation:
    return Explanation("ffn_width_scale must be greater than 0", "ffn_width_scale 1")


def _no_feed_forward() -> Explanation:
    return Explanation(
        "ffn_width_scale is set, but the model has no feed-forward block", "ffn_width_scale 1"
    )


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Every width has a law."""
    return None


TRANSFORM = Transform(
    name="ffn_width",
    fields=("ffn_width_scale",),
    changes="feed-forward and expert width",
    exact_when="the scale is 1; a wider model is counted as 0, never as a gain",
    law="size",
    apply=apply,
    inexact=inexact,
    law_nats=law_nats,
    conditions=conditions,
    missing_law=missing_law,
    resizes=True,
)
