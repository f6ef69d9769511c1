"""Precision: storage width of weights, width of matmul inputs, and the matmul format."""

from __future__ import annotations

from typing import Any

from models.architecture import Architecture
from models.variants import laws
from models.variants.numbers import Number, both, either, where
from models.variants.transform import Band, Condition, Explanation, Transform, unchanged
from models.variants.variant import Variant

_UNQUANTISED_BITS = 16
_BITS_OF_FORMAT = {1: 8, 2: 8, 3: 4}


def _weight_bits(arch: Architecture, variant: Variant) -> Number:
    """Weight width that costs quality: none where the checkpoint is no wider itself."""
    kept = variant.weight_bits >= arch.released_weight_bits
    return where(kept, _UNQUANTISED_BITS, variant.weight_bits)


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether weights are narrower than released, or activations narrower than 16 bits."""
    return either(
        _weight_bits(arch, variant) < _UNQUANTISED_BITS,
        variant.activation_bits < _UNQUANTISED_BITS,
    )


def law_nats(before: Architecture, after: Architecture, variant: Variant, tokens: Number) -> Band:
    """Quantisation-aware-training law at 4 bits, measured perplexity at 8; NaN at other widths."""
    return laws.precision_loss_nats(
        laws.size(before),
        tokens,
        _weight_bits(before, variant),
        variant.activation_bits,
        variant.compute_format,
    )


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """A narrow matmul format needs operands that are as narrow (bf16 widens anything)."""
    code = variant.compute_format
    limit = where(code == 3, 4, where(code == 0, 64, 8))
    wide = either(variant.weight_bits > limit, variant.activation_bits > limit)

    def explain() -> Explanation:
        bits = _BITS_OF_FORMAT[int(code)]
        return Explanation(
            f"the {bits}-bit compute format needs weights and activations of at most {bits} bits, "
            f"not {variant.weight_bits:g} and {variant.activation_bits:g}",
            f"weight_bits {bits} and activation_bits {bits}, or compute_format 0 (bf16)",
        )

    return [Condition("compute_format_needs_narrow_operands", both(code > 0, wide), explain)]


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this width needs an assumed band."""
    if knob == "compute_format" or value in (*laws.PRECISION_BITS, _UNQUANTISED_BITS):
        return None
    if value > _UNQUANTISED_BITS or (knob == "weight_bits" and value >= arch.released_weight_bits):
        return None
    return f"published quantisation laws cover 4 and 8 bits, not {value:g}"


TRANSFORM = Transform(
    name="precision",
    fields=("weight_bits", "activation_bits", "compute_format"),
    changes="bits of weights and activations, and the matmul format",
    exact_when="weights are stored no narrower than released and activations stay at 16 bits",
    law="precision",
    apply=unchanged,
    inexact=inexact,
    law_nats=law_nats,
    conditions=conditions,
    missing_law=missing_law,
)
