"""Every catalog model: the neutral variant is free, every other legal one is priced or refused."""

from __future__ import annotations

import math

import pytest

from models.huggingface import catalog_names, load
from models.variants import (
    NEUTRAL,
    Variant,
    apply,
    delta_nats,
    expand,
    illegal,
    requires_assumption,
)

CHANGES: list[dict[str, float]] = [
    {"head_dim": 256},
    {"kv_heads": 1},
    {"ffn_width_scale": 0.75},
    {"experts_scale": 0.5},
    {"top_k": 1},
    {"layer_share": 0.5},
    {"window_share": 0.5, "window_tokens": 1024},
    {"weight_bits": 8, "activation_bits": 8, "compute_format": 2},
    {"weight_bits": 4},
    {"kv_bits": 8},
    {"nm_n": 2, "nm_m": 4},
]


@pytest.mark.parametrize("name", catalog_names()[::4])
def test_catalog_model(name: str) -> None:
    released = load(name)
    arch = expand(released, window=True)
    assert illegal(released, NEUTRAL) == []
    assert delta_nats(arch, NEUTRAL) == (0, 0, 0)
    for fields in CHANGES:
        variant = Variant(**fields)
        if illegal(released, variant):
            continue
        apply(arch, variant)
        band = delta_nats(arch, variant, 15e12)
        if any(requires_assumption(released, k, [v]) for k, v in fields.items()):
            continue
        assert 0 <= band.low <= band.central <= band.high < 0.5
        assert math.isfinite(band.high)
