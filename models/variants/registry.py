"""The transforms in the order they are applied, and the functions that walk over all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from models.variants import (
    depth,
    experts,
    ffn_width,
    head_dim,
    kv_bits,
    kv_heads,
    laws,
    precision,
    sparsity,
    window,
)
from models.variants.transform import Condition, Transform
from models.variants.variant import Variant

if TYPE_CHECKING:
    from models.architecture import Architecture

TRANSFORMS: tuple[Transform, ...] = (
    head_dim.TRANSFORM,
    kv_heads.TRANSFORM,
    ffn_width.TRANSFORM,
    experts.TRANSFORM,
    depth.TRANSFORM,
    window.TRANSFORM,
    precision.TRANSFORM,
    kv_bits.TRANSFORM,
    sparsity.TRANSFORM,
)


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """`arch` changed by every transform, in order.

    A study with a window knob passes an architecture from `expand(arch, window=True)`. Legality is
    not checked here (`conditions`, `illegal`): an illegal variant gives a meaningless architecture.
    """
    for transform in TRANSFORMS:
        arch = transform.apply(arch, variant)
    return arch


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """All that would make `variant` illegal for `arch`: a fixed list per skeleton."""
    found: list[Condition] = []
    for transform in TRANSFORMS:
        found.extend(transform.conditions(arch, variant))
        if transform.name != window.TRANSFORM.name:  # no later condition depends on the window
            arch = transform.apply(arch, variant)
    return found


def illegal(arch: Architecture, variant: Variant) -> list[str]:
    """Why a plain `variant` is illegal for a plain `arch`, each with the nearest legal change."""
    reasons = []
    for transform in TRANSFORMS:
        violated = [c for c in transform.conditions(arch, variant) if c.violated]
        for condition in violated:
            reason, nearest = condition.explain()
            reasons.append(f"{reason}; nearest legal: {nearest}")
        if violated:  # what follows would be computed from a meaningless architecture
            break
        if transform.name != window.TRANSFORM.name:
            arch = transform.apply(arch, variant)
    return reasons


def transform_of(knob: str) -> Transform:
    """The transform that reads the `Variant` field `knob`.

    Raises:
        KeyError: no transform reads it.
    """
    for transform in TRANSFORMS:
        if knob in transform.fields:
            return transform
    known = ", ".join(f for t in TRANSFORMS for f in t.fields)
    raise KeyError(f"no model transform has a knob '{knob}'; the knobs are {known}")


@dataclass(frozen=True)
class CatalogueEntry:
    """One line of the catalogue of transforms, for the CLI and the documentation."""

    name: str
    knobs: tuple[str, ...]
    changes: str
    exact_when: str
    law: str
    status: str
    source: str


def catalogue() -> list[CatalogueEntry]:
    """Every transform: what it changes, when it is exact, and where its quality cost is from."""
    return [_entry(t) for t in TRANSFORMS]


_LAW_IN_WORDS = {
    "size": "dense and mixture-of-experts scaling laws at the new parameter counts",
    "window": "measured perplexity by window length",
    "precision": "quantisation-aware-training law at 4 bits, measured perplexity at 8",
    "kv_bits": "measured perplexity of 8-bit caches; no law below",
    "sparsity": "sparse pre-training law at the equivalent dense size",
}


def _entry(transform: Transform) -> CatalogueEntry:
    data = laws.coefficients()
    if transform.law is None:
        law, status, source = (
            "none: the study assumes a band",
            "none",
            data["no_law"][transform.name],
        )
    else:
        law = _LAW_IN_WORDS[transform.law]
        evidence = {
            "size": (data["dense"], data["moe_evidence"]),
            "sparsity": (data["sparsity_evidence"], data["dense"]),
            "precision": (data["precision"], data["precision"]["fp8"], data["precision"]["int8"]),
        }.get(transform.law, (data[transform.law],) if transform.law in data else ())
        status = ", ".join(dict.fromkeys(e["status"] for e in evidence))
        source = " | ".join(e["source"] for e in evidence)
    return CatalogueEntry(
        name=transform.name,
        knobs=transform.fields,
        changes=transform.changes,
        exact_when=transform.exact_when,
        law=law,
        status=status,
        source=source,
    )
