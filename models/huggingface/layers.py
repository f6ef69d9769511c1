"""What stands in which layer: attention windows, and merging equal layers into groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from models.architecture import Attention, LatentAttention
from models.huggingface.family import Family
from models.huggingface.reader import Reader

_FULL = ("full_attention", "attention")


def windows(r: Reader, family: Family, layers: int, max_context: int) -> list[int]:
    """The attention window of every layer in tokens, 0 = full.

    A window that is switched off, or no shorter than the context, is 0.
    """
    width = _window_width(r, family)
    if 0 < max_context <= width:
        width = 0
    kinds = r.per_layer("layer_types", layers)
    if family.window_rule == "none":
        _refuse_windows(r, width, kinds or [])
    if kinds is None:
        sliding = _pattern(r, family, layers, width)
    else:
        r.skip("sliding_window_pattern", "max_window_layers", "full_attention_interval")
        sliding = [_is_sliding(r, kind) for kind in kinds]
        if any(sliding) and not (r.raw("sliding_window") or family.window_default):
            raise r.error(
                "sliding_window",
                "is missing though layer_types has sliding_attention",
                "add it from the model's published config.json",
            )
    return [width if s else 0 for s in sliding]


def _refuse_windows(r: Reader, width: int, kinds: list[Any]) -> None:
    """The modelling code of this family has no windows: a file that asks for them is not for it."""
    key = "layer_types" if "sliding_attention" in kinds else "sliding_window"
    if key == "layer_types" or width:
        raise r.error(
            key,
            f"is set, but model_type '{r.model_type}' has no windowed layers",
            "remove it, or give the model_type whose code has them",
        )


def _window_width(r: Reader, family: Family) -> int:
    if not r.flag("use_sliding_window", default=family.window_enabled_default):
        r.skip("sliding_window")
        return 0
    default = 0 if r.has("sliding_window") else family.window_default
    return r.integer("sliding_window", default=default, minimum=0)


def _is_sliding(r: Reader, kind: str) -> bool:
    if kind == "sliding_attention":
        return True
    if kind in _FULL:
        return False
    raise r.error(
        "layer_types",
        f"{kind!r} is not known for model_type '{r.model_type}'",
        "use full_attention or sliding_attention, or extend models/huggingface",
    )


def _pattern(r: Reader, family: Family, layers: int, width: int) -> list[bool]:
    """The family's own rule, for files without `layer_types`."""
    rule = family.window_rule
    if rule == "listed" and width:
        raise r.error(
            "layer_types",
            "is missing, and sliding_window does not say which layers have it",
            "add it from the model's published config.json",
        )
    if rule == "every":
        pattern = r.raw("sliding_window_pattern")
        if isinstance(pattern, str):  # "LLLG": L local, G global
            return [pattern[i % len(pattern)] == "L" for i in range(layers)]
        every = r.integer("sliding_window_pattern", default=family.full_every)
        return [(i + 1) % every != 0 for i in range(layers)]
    if rule == "upper":  # layers from max_window_layers on
        first = r.integer("max_window_layers", default=layers, minimum=0) if width else layers
        r.skip("max_window_layers")
        return [i >= first for i in range(layers)]
    r.skip("max_window_layers")
    return [rule == "all"] * layers


def merge(blocks: Iterable[Any]) -> tuple[Any, ...]:
    """Join blocks of one layer each that differ only in small extras or KV ownership.

    Extras become the mean per layer, so that the sum over layers is unchanged.
    """
    groups: dict[Any, list[Any]] = {}
    for block in blocks:
        neutral = {"layers": 1, "extra_parameters": 0}
        if isinstance(block, Attention):
            neutral["kv_layers"] = -1
        if isinstance(block, LatentAttention):
            neutral["index_layers"] = -1
        groups.setdefault(dataclasses.replace(block, **neutral), []).append(block)
    return tuple(_join(key, members) for key, members in groups.items())


def _join(key: Any, members: list[Any]) -> Any:
    layers = sum(m.layers for m in members)
    extra = sum(m.layers * m.extra_parameters for m in members)
    changes: dict[str, Any] = {
        "layers": layers,
        "extra_parameters": extra // layers if extra % layers == 0 else extra / layers,
    }
    for owned in ("kv_layers", "index_layers"):
        if hasattr(key, owned):
            count = sum(m.layers if getattr(m, owned) < 0 else getattr(m, owned) for m in members)
            changes[owned] = -1 if count == layers else count
    return dataclasses.replace(key, **changes)
