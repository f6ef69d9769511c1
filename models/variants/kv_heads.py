"""KV heads: merging shrinks the cache, replication makes tensor-parallel shards whole.

Replicating each KV head a whole number of times gives the same outputs (exact). Merging heads needs
training: what is published are benchmark points (GQA, MQA), which are not nats, so a study must
bring its own quality band.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from models.architecture import Architecture, Attention
from models.variants.numbers import Number, both, divides, either, negate, where
from models.variants.transform import Condition, Explanation, Transform
from models.variants.variant import Variant


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """Every softmax-attention entry with `variant.kv_heads` KV heads."""

    def regrouped(a: Attention) -> Attention:
        return dataclasses.replace(
            a, kv_heads=where(variant.kv_heads > 0, variant.kv_heads, a.kv_heads)
        )

    mixers = tuple(regrouped(m) if isinstance(m, Attention) else m for m in arch.mixers)
    return dataclasses.replace(arch, mixers=mixers)


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether any entry gets other than a whole number of copies of each KV head."""
    changed: Number = False
    for a in _attention(arch):
        merged = both(variant.kv_heads > 0, negate(divides(a.kv_heads, variant.kv_heads)))
        changed = either(changed, merged)
    return changed


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """KV heads must divide the query heads."""
    asked = variant.kv_heads > 0
    entries = _attention(arch)
    if not entries:
        return [Condition("kv_heads_without_softmax_attention", asked, _no_attention)]
    uneven: Number = False
    for a in entries:
        uneven = either(uneven, negate(divides(variant.kv_heads, a.q_heads)))

    def explain() -> Explanation:
        heads = [int(a.q_heads) for a in entries]
        legal = [k for k in range(1, min(heads) + 1) if all(h % k == 0 for h in heads)]
        best = min(legal, key=lambda k: abs(k - variant.kv_heads))
        return Explanation(
            f"kv_heads {int(variant.kv_heads)} does not divide the {heads[0]} query heads",
            f"kv_heads {best}",
        )

    return [Condition("kv_heads_do_not_divide_q_heads", both(asked, uneven), explain)]


def _attention(arch: Architecture) -> list[Attention]:
    return [m for m in arch.mixers if isinstance(m, Attention)]


def _no_attention() -> Explanation:
    return Explanation(
        "kv_heads is set, but the model has no softmax-attention layer with KV heads "
        "(latent attention caches one latent for all heads)",
        "kv_heads 0 (as released)",
    )


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this number needs an assumed band, or None for exact replication."""
    if not inexact(arch, Variant(kv_heads=value)):
        return None
    return (
        "merging KV heads has published benchmark points (GQA, MQA) but no law in nats; only "
        "whole-number replication is exact"
    )


TRANSFORM = Transform(
    name="kv_heads",
    fields=("kv_heads",),
    changes="number of KV heads, so the KV projections and the cache",
    exact_when="each released KV head is replicated a whole number of times",
    law=None,
    apply=apply,
    inexact=inexact,
    law_nats=None,
    conditions=conditions,
    missing_law=missing_law,
)
