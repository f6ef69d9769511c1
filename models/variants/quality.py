"""Quality loss of a variant: Δ nats per token against the model's own baseline, as a band.

The losses of the transforms are added. Nobody has validated that they add; the size laws at least
compound correctly, because each starts from the parameter count that the previous one left. The
pessimistic end (`high`) is the default metric, `quality_loss_nats`.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from models.variants import laws
from models.variants.numbers import Number, is_plain, where
from models.variants.registry import TRANSFORMS
from models.variants.transform import Band, Transform
from models.variants.variant import Variant

if TYPE_CHECKING:
    from models.architecture import Architecture

_NONE = Band(0.0, 0.0, 0.0)
_UNKNOWN = Band(math.nan, math.nan, math.nan)


def breakdown(arch: Architecture, variant: Variant, tokens: Number = math.nan) -> dict[str, Band]:
    """The loss of each transform by name, in nats per token. Arguments as in `delta_nats`."""
    losses = {}
    size_base = arch = _without_empty_entries(arch)
    for transform in TRANSFORMS:
        after = transform.apply(size_base, variant) if transform.resizes else size_base
        losses[transform.name] = _loss(transform, arch, size_base, after, variant, tokens)
        size_base = after
        if transform.name in ("head_dim", "kv_heads"):
            arch = transform.apply(arch, variant)  # whether KV heads merge depends on head_dim
    return losses


def _without_empty_entries(arch: Architecture) -> Architecture:
    """`arch` without the windowed twins that `window.expand` adds: they have no layers yet."""
    mixers = tuple(m for m in arch.mixers if not (is_plain(m.layers) and m.layers == 0))
    return dataclasses.replace(arch, mixers=mixers)


def delta_nats(arch: Architecture, variant: Variant, tokens: Number = math.nan) -> Band:
    """Quality loss of `variant` of the released model `arch`, in nats per token.

    `arch` is the architecture as released, expanded for windows or not; `tokens` the number of
    tokens it was trained on, needed for 4-bit weights and activations only
    (`needs_training_tokens`).

    Exactly 0 for a neutral or exact variant, never negative. A band that the variant assumes for a
    transform replaces its law. NaN where an inexact transform has neither a law nor an assumption:
    `requires_assumption` refuses such a study before it runs.
    """
    total = _NONE
    for band in breakdown(arch, variant, tokens).values():
        total = total.plus(band)
    return total


def quality_loss_nats(arch: Architecture, variant: Variant, tokens: Number = math.nan) -> Number:
    """The pessimistic end of `delta_nats`."""
    return delta_nats(arch, variant, tokens).high


def _loss(
    transform: Transform,
    arch: Architecture,
    before: Architecture,
    after: Architecture,
    variant: Variant,
    tokens: Number,
) -> Band:
    law = _UNKNOWN
    if transform.law_nats is not None:
        law = transform.law_nats(before, after, variant, tokens)
    low: Number = getattr(variant, f"{transform.name}_nats_low")
    high: Number = getattr(variant, f"{transform.name}_nats_high")
    assumed = Band(low, (low + high) / 2, high)
    inexact = transform.inexact(arch, variant)
    return Band(
        *(
            where(inexact, where(high > 0, mine, published), 0.0)
            for mine, published in zip(assumed, law, strict=True)
        )
    )


def out_of_domain(arch: Architecture, variant: Variant, tokens: float = math.nan) -> list[str]:
    """Where a plain variant leaves the range that its laws were fitted on, in words.

    Most served models are far larger and longer-trained than any published fit; the band is then an
    extrapolation and is to be reported as such.
    """
    data = laws.coefficients()
    arch = _without_empty_entries(arch)
    base = laws.size(arch)
    used = {t.name for t in TRANSFORMS if t.inexact(arch, variant) and not _assumed(t, variant)}
    found = []
    if used & {"ffn_width", "experts", "nm"}:
        most = data["dense"]["domain"]["parameters_max"]
        if base.active > most:
            found.append(
                f"size laws were fitted up to {most / 1e9:g}B parameters, the model has "
                f"{base.active / 1e9:.3g}B"
            )
        least = data["dense"]["domain"]["parameters_min"]
        if base.total < least:
            found.append(f"size laws were fitted from {least / 1e6:g}M parameters upwards")
    if used & {"ffn_width", "experts"} and base.inactive_share is not None:
        most = data["moe_evidence"]["domain"]["inactive_share_max"]
        share = _inactive_share(arch, variant)
        if share > most:
            found.append(
                f"the mixture-of-experts law holds up to {most:.0%} inactive experts, the variant "
                f"has {share:.1%}"
            )
    if "nm" in used:
        most = data["sparsity_evidence"]["domain"]["nonzero_parameters_max"]
        if base.total * variant.nm_n / variant.nm_m > most:
            found.append(f"the sparsity law was fitted up to {most / 1e6:g}M non-zero parameters")
    if "precision" in used and 4 in (variant.weight_bits, variant.activation_bits):
        domain = data["precision"]["domain"]
        if base.active > domain["parameters_max"]:
            found.append(
                f"the 4-bit law was fitted up to {domain['parameters_max'] / 1e6:g}M parameters"
            )
        if tokens > domain["tokens_max"]:
            found.append(f"the 4-bit law was fitted up to {domain['tokens_max'] / 1e9:g}B tokens")
    return found


def _assumed(transform: Transform, variant: Variant) -> bool:
    return bool(getattr(variant, f"{transform.name}_nats_high") > 0)


def _inactive_share(arch: Architecture, variant: Variant) -> float:
    for transform in TRANSFORMS:
        if transform.name in ("ffn_width", "experts"):
            arch = transform.apply(arch, variant)
    share = laws.size(arch).inactive_share
    return 0.0 if share is None else float(share)
