"""N:M weight sparsity: N non-zeros in every group of M weights along the contraction.

The law is for sparse *pre-training*. Pruning after training loses far more and has no law: a study
that means it supplies a band.
"""

from __future__ import annotations

from typing import Any

from models.architecture import Architecture
from models.variants import laws
from models.variants.numbers import Number, either
from models.variants.transform import Band, Condition, Explanation, Transform, unchanged
from models.variants.variant import Variant


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether any weight is zeroed."""
    return variant.nm_n < variant.nm_m


def law_nats(before: Architecture, after: Architecture, variant: Variant, tokens: Number) -> Band:
    """Loss of the equivalent smaller dense model; NaN beyond the sparsities of the fit."""
    return laws.sparsity_loss_nats(laws.size(before), 1 - variant.nm_n / variant.nm_m)


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """1 <= N <= M."""
    bad = either(variant.nm_n < 1, variant.nm_n > variant.nm_m)

    def explain() -> Explanation:
        n, m = int(variant.nm_n), int(variant.nm_m)
        return Explanation(
            f"{n}:{m} sparsity: N must be at least 1 and at most M",
            f"nm_n {max(1, min(n, m))}",
        )

    return [Condition("nm_n_out_of_range", bad, explain)]


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this group size needs an assumed band (1:M is the sparsest pattern it can make)."""
    limit = laws.largest_sparsity()
    if knob != "nm_m" or value <= 1 or 1 - 1 / value <= limit:
        return None
    return f"the sparse pre-training law ends at {limit:.1%} sparsity, 1 in {value:g} goes beyond"


TRANSFORM = Transform(
    name="nm",
    fields=("nm_n", "nm_m"),
    changes="zeros in the weights",
    exact_when="N equals M",
    law="sparsity",
    apply=unchanged,
    inexact=inexact,
    law_nats=law_nats,
    conditions=conditions,
    missing_law=missing_law,
)
