"""KV-cache precision: bits per cached element."""

from __future__ import annotations

from typing import Any

from models.architecture import Architecture, Recurrent
from models.variants import laws
from models.variants.numbers import Number
from models.variants.transform import Band, Condition, Explanation, Transform, unchanged
from models.variants.variant import Variant

_UNQUANTISED_BITS = 16


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether the cache is narrower than 16 bits."""
    return variant.kv_bits < _UNQUANTISED_BITS


def law_nats(before: Architecture, after: Architecture, variant: Variant, tokens: Number) -> Band:
    """Measured perplexity of 8-bit caches; NaN below 8 bits."""
    return laws.kv_bits_loss_nats(variant.kv_bits)


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """A model without a KV cache has nothing to quantise."""
    if any(not isinstance(m, Recurrent) for m in arch.mixers):
        return []
    asked = variant.kv_bits != _UNQUANTISED_BITS
    return [Condition("kv_bits_without_kv_cache", asked, _no_cache)]


def _no_cache() -> Explanation:
    return Explanation(
        "kv_bits is set, but the model has only recurrent layers and no KV cache", "kv_bits 16"
    )


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this width needs an assumed band."""
    if value >= laws.KV_BITS:
        return None
    return f"no published law gives the loss of a KV cache below {laws.KV_BITS} bits"


TRANSFORM = Transform(
    name="kv_bits",
    fields=("kv_bits",),
    changes="bits of the KV cache",
    exact_when="the cache stays at 16 bits",
    law="kv_bits",
    apply=unchanged,
    inexact=inexact,
    law_nats=law_nats,
    conditions=conditions,
    missing_law=missing_law,
)
