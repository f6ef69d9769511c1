"""Head width: fewer, wider (or more, narrower) heads at constant query and KV width.

A 256-deep matrix unit is half empty under 128-wide heads. Changing the width means training anew:
no published ablation isolates it, so a study must bring its own quality band.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hwmodel.whole import floor_div
from models.architecture import Architecture, Attention
from models.variants.numbers import Number, both, divides, either, maximum, negate, where
from models.variants.transform import Condition, Explanation, Transform
from models.variants.variant import Variant


def _resized(a: Attention, head_dim: Number) -> Attention:
    width = maximum(head_dim, 1)
    asked = head_dim > 0
    q_heads = floor_div(a.q_heads * a.qk_head_dim, width)
    kv_heads = maximum(floor_div(a.kv_heads * a.qk_head_dim, width), 1)
    v_head_dim = floor_div(a.v_head_dim * width, a.qk_head_dim)
    return dataclasses.replace(
        a,
        q_heads=where(asked, q_heads, a.q_heads),
        kv_heads=where(asked, kv_heads, a.kv_heads),
        qk_head_dim=where(asked, head_dim, a.qk_head_dim),
        v_head_dim=where(asked, v_head_dim, a.v_head_dim),
    )


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """Every softmax-attention entry with heads of `variant.head_dim` columns (>= 1 KV head)."""
    mixers = tuple(
        _resized(m, variant.head_dim) if isinstance(m, Attention) else m for m in arch.mixers
    )
    return dataclasses.replace(arch, mixers=mixers)


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether any head changes its width."""
    changed: Number = False
    for a in _attention(arch):
        differs = both(variant.head_dim > 0, variant.head_dim != a.qk_head_dim)
        changed = either(changed, differs)
    return changed


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """The width must divide the query width, and the KV width unless one KV head remains."""
    asked = variant.head_dim > 0
    entries = _attention(arch)
    if not entries:
        return [Condition("head_dim_without_softmax_attention", asked, _no_attention)]
    ragged: Number = False
    for a in entries:
        kv_width = a.kv_heads * a.qk_head_dim
        kv_fits = either(divides(variant.head_dim, kv_width), kv_width < variant.head_dim)
        fits = both(divides(variant.head_dim, a.q_heads * a.qk_head_dim), kv_fits)
        fits = both(fits, divides(a.qk_head_dim, a.v_head_dim * variant.head_dim))
        ragged = either(ragged, negate(fits))

    def explain() -> Explanation:
        a = entries[0]
        width = int(a.q_heads * a.qk_head_dim)
        legal = [d for d in range(16, width + 1) if not _ragged(entries, d)]
        best = min(legal, key=lambda d: abs(d - variant.head_dim), default=int(a.qk_head_dim))
        return Explanation(
            f"head_dim {int(variant.head_dim)} does not split the {width}-column query and "
            f"{int(a.kv_heads * a.qk_head_dim)}-column KV projections into whole heads",
            f"head_dim {best}",
        )

    return [Condition("head_dim_not_whole", both(asked, ragged), explain)]


def _ragged(entries: list[Attention], head_dim: int) -> bool:
    for a in entries:
        kv_width = a.kv_heads * a.qk_head_dim
        if a.q_heads * a.qk_head_dim % head_dim or a.v_head_dim * head_dim % a.qk_head_dim:
            return True
        if kv_width >= head_dim and kv_width % head_dim:
            return True
    return False


def _attention(arch: Architecture) -> list[Attention]:
    return [m for m in arch.mixers if isinstance(m, Attention)]


def _no_attention() -> Explanation:
    return Explanation(
        "head_dim is set, but the model has no softmax-attention layer with separate heads "
        "(latent attention and recurrent layers keep their shapes)",
        "head_dim 0 (as released)",
    )


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this width needs an assumed band: no clean ablation at fixed width is published."""
    if not inexact(arch, Variant(head_dim=value)):
        return None
    return "no published law gives the loss of another head width at constant query width"


TRANSFORM = Transform(
    name="head_dim",
    fields=("head_dim",),
    changes="width and number of attention heads, q and KV width constant",
    exact_when="the released width is asked for",
    law=None,
    apply=apply,
    inexact=inexact,
    law_nats=None,
    conditions=conditions,
    missing_law=missing_law,
)
