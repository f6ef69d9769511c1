"""Sliding window: a share of the full-attention layers looks back only `window_tokens` tokens.

The share is traced but the list of mixers is static, so `expand` first gives every full-attention
entry an empty twin; `apply` then moves whole layers from the entry to its twin.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from models.architecture import Architecture, Attention, Mixer, kv_layer_count
from models.variants import laws
from models.variants.numbers import (
    Number,
    both,
    either,
    is_plain,
    maximum,
    nearest_whole,
    negate,
    where,
)
from models.variants.transform import Band, Condition, Explanation, Transform
from models.variants.variant import Variant

_TWIN = -1
"""Value of `window` in an empty twin, so that `apply` finds it among traced numbers."""


def expand(arch: Architecture, window: bool) -> Architecture:
    """`arch` with an empty windowed twin after every full-attention entry.

    Static: call it on plain numbers, once per model of a study. With `window` False (the study has
    no window knob) the architecture is returned as it is, and no operator is added.
    """
    if not window:
        return arch
    mixers: list[Mixer] = []
    for m in arch.mixers:
        mixers.append(m)
        if isinstance(m, Attention) and _is_full(m):
            mixers.append(dataclasses.replace(m, layers=0, kv_layers=0, window=_TWIN))
    return dataclasses.replace(arch, mixers=tuple(mixers))


def twins(arch: Architecture) -> frozenset[int]:
    """Positions of the twins in an expanded architecture: same projections as the entry before."""
    return frozenset(
        i
        for i, m in enumerate(arch.mixers)
        if isinstance(m, Attention) and is_plain(m.window) and m.window == _TWIN
    )


def _is_full(a: Attention) -> bool:
    """Full attention over the uncompressed cache (plain numbers)."""
    return bool(a.window == 0 and a.compress_ratio == 1 and a.select_tokens == 0)


def _is_full_number(a: Attention) -> Number:
    """`_is_full` for traced numbers."""
    return both(both(a.window == 0, a.compress_ratio == 1), a.select_tokens == 0)


def _may_be_full(a: Attention) -> bool:
    """False only where plain numbers show that the entry has layers and is not full attention."""
    full = _is_full_number(a)
    return not is_plain(full) or bool(full)


def apply(arch: Architecture, variant: Variant) -> Architecture:
    """Move `window_share` of each full-attention entry's layers (nearest whole) to its twin.

    Raises:
        ValueError: there are full-attention entries, but `expand` has not given them twins.
    """
    if is_plain(variant.window_share) and variant.window_share == 0:
        return arch
    mixers: list[Mixer] = list(arch.mixers)
    found = not any(isinstance(m, Attention) and _may_be_full(m) for m in mixers)
    for i in range(1, len(mixers)):
        full, twin = mixers[i - 1], mixers[i]
        if not (isinstance(full, Attention) and isinstance(twin, Attention)):
            continue
        is_twin = twin.window == _TWIN
        if is_plain(is_twin) and not is_twin:
            continue
        found = True
        mixers[i - 1], mixers[i] = _moved(full, twin, is_twin, variant)
    if not found:
        raise ValueError(
            f"{arch.name}: window_share is set on an architecture without windowed twins; call "
            "models.variants.expand(arch, window=True) first"
        )
    return dataclasses.replace(arch, mixers=tuple(mixers))


def _moved(
    full: Attention, twin: Attention, is_twin: Number, variant: Variant
) -> tuple[Attention, Attention]:
    layers = where(is_twin, nearest_whole(full.layers, variant.window_share), 0)
    kv_layers = where(is_twin, nearest_whole(kv_layer_count(full), variant.window_share), 0)
    return (
        dataclasses.replace(
            full, layers=full.layers - layers, kv_layers=kv_layer_count(full) - kv_layers
        ),
        dataclasses.replace(
            twin,
            layers=where(is_twin, layers, twin.layers),
            kv_layers=where(is_twin, kv_layers, twin.kv_layers),
            window=where(is_twin, variant.window_tokens, twin.window),
        ),
    )


def _layer_counts(arch: Architecture, share: Number) -> tuple[Number, Number, Number]:
    """Softmax-attention layers, those windowed as released, and those that `share` would window."""
    layers: Number = 0
    windowed: Number = 0
    moved: Number = 0
    for m in arch.mixers:
        if isinstance(m, Attention):
            layers = layers + m.layers
            windowed = windowed + where(m.window > 0, m.layers, 0)
            moved = moved + where(_is_full_number(m), nearest_whole(m.layers, share), 0)
    return layers, windowed, moved


def inexact(arch: Architecture, variant: Variant) -> Number:
    """Whether any layer moves to a window shorter than the model's context."""
    moved = _layer_counts(arch, variant.window_share)[2]
    sees_all = both(arch.max_context_tokens > 0, variant.window_tokens >= arch.max_context_tokens)
    return both(moved > 0, negate(sees_all))


def law_nats(before: Architecture, after: Architecture, variant: Variant, tokens: Number) -> Band:
    """Gemma 2's measured perplexity; NaN beyond its share of layers or below its windows."""
    layers, windowed, moved = _layer_counts(before, variant.window_share)
    share = (windowed + moved) / maximum(layers, 1)
    return laws.window_loss_nats(share, variant.window_tokens)


def conditions(arch: Architecture, variant: Variant) -> list[Condition]:
    """There must be full-attention layers to window, and a window to give them."""
    asked = variant.window_share > 0
    out = either(variant.window_share < 0, variant.window_share > 1)
    found = [
        Condition("window_share_out_of_range", out, _out_of_range),
        Condition(
            "window_share_without_tokens", both(asked, variant.window_tokens < 1), _no_tokens
        ),
    ]
    full: Number = False
    for m in arch.mixers:
        if isinstance(m, Attention):
            full = either(full, both(_is_full_number(m), m.layers > 0))
    found.append(
        Condition("window_without_full_attention", both(asked, negate(full)), _no_full_attention)
    )
    return found


def _out_of_range() -> Explanation:
    return Explanation("window_share must lie between 0 and 1", "window_share 0")


def _no_tokens() -> Explanation:
    shortest = laws.window_domain().shortest_window_tokens
    return Explanation(
        "window_share is set but window_tokens is 0", f"window_tokens {int(shortest)}"
    )


def _no_full_attention() -> Explanation:
    return Explanation(
        "window_share is set, but the model has no full softmax-attention layer (latent attention "
        "and recurrent layers have no window)",
        "window_share 0",
    )


def missing_law(arch: Architecture, knob: str, value: Any) -> str | None:
    """Why this share or window needs an assumed band."""
    domain = laws.window_domain()
    if knob == "window_tokens":
        if value <= 0 or value >= domain.shortest_window_tokens:
            return None
        return (
            f"the published sliding-window measurement ends at {domain.shortest_window_tokens:g} "
            "tokens"
        )
    layers, windowed, moved = _layer_counts(arch, value)
    if moved == 0 or (windowed + moved) / max(layers, 1) <= domain.largest_share:
        return None
    return (
        "the published sliding-window measurement has at most "
        f"{domain.largest_share:.0%} of the attention layers windowed"
    )


TRANSFORM = Transform(
    name="window",
    fields=("window_share", "window_tokens"),
    changes="full-attention layers into sliding-window layers",
    exact_when="no layer is moved, or the window is at least the model's longest context",
    law="window",
    apply=apply,
    inexact=inexact,
    law_nats=law_nats,
    conditions=conditions,
    missing_law=missing_law,
)
