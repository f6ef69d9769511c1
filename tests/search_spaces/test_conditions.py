"""Conditional knobs of the catalog, and what a knob needs of a model."""

from __future__ import annotations

import pytest

from models.architecture import (
    Architecture,
    Attention,
    DenseFFN,
    LatentAttention,
    MoE,
    Recurrent,
)
from search_spaces.applies import lacking
from search_spaces.catalog import entries, find
from search_spaces.conditions import conditioned, dead_reason, missing_companion
from search_spaces.knob import Knob
from search_spaces.space import Space
from search_spaces.values import knob


def model(name: str, *values: object) -> Knob:
    return knob(find(name, "model"), values)


def deployment(name: str, *values: object) -> Knob:
    return knob(find(name, "deployment"), values)


def test_window_tokens_collapse_where_no_layer_is_windowed() -> None:
    knobs = conditioned([model("window_share", 0, 0.5, 0.25), model("window_tokens", 1024, 4096)])
    assert knobs[1].when == {"window_share": ("0.25", "0.5")}
    assert len(Space(knobs).grid()) == 1 + 2 * 2


def test_a_condition_that_always_holds_is_dropped() -> None:
    assert (
        conditioned([deployment("tensor", 2, 4), deployment("layout", "1d", "2d")])[1].when is None
    )


def test_a_condition_on_a_knob_that_does_not_vary_is_dropped() -> None:
    (layout,) = conditioned([deployment("layout", "1d", "2d")])
    assert layout.when is None


def test_dead_knobs() -> None:
    tokens = model("window_tokens", 1024, 4096)
    assert "while window_share is 0; vary or set window_share" in (
        dead_reason(tokens, {}, {}) or ""
    )
    assert dead_reason(tokens, {"window_share": model("window_share", 0, 0.5)}, {}) is None
    never = {"window_share": model("window_share", 0)}
    assert dead_reason(tokens, never, {}) == "window_tokens changes nothing while window_share is 0"
    layout = deployment("layout", "1d", "2d")
    assert dead_reason(layout, {}, {"tensor": "8"}) is None
    assert "while tensor is 1" in (dead_reason(layout, {}, {"tensor": "1"}) or "")


def test_companions() -> None:
    share = model("window_share", 0, 0.5)
    assert "give window_tokens too" in (missing_companion(share, ["window_share"]) or "")
    assert missing_companion(share, ["window_tokens"]) is None
    assert missing_companion(model("window_share", 0), []) is None


DENSE = DenseFFN(layers=1, width=8)
FULL = Attention(layers=1, q_heads=8, kv_heads=8, qk_head_dim=8, v_head_dim=8)
LOCAL = Attention(layers=1, q_heads=8, kv_heads=8, qk_head_dim=8, v_head_dim=8, window=128)
MLA = LatentAttention(
    layers=1, heads=8, q_lora_rank=0, kv_lora_rank=8, qk_nope_head_dim=8, qk_rope_head_dim=8,
    v_head_dim=8,
)  # fmt: skip
SSM = Recurrent(
    layers=1, in_width=8, conv_channels=8, conv_kernel=4, heads=1, key_dim=8, value_dim=8,
    out_width=8,
)  # fmt: skip
EXPERTS = MoE(layers=1, experts=8, top_k=2, expert_width=8)


def arch(*parts: object) -> Architecture:
    return Architecture(
        name="x", model_type="x", layers=1, hidden=8, vocab=8,
        mixers=tuple(p for p in parts if not isinstance(p, DenseFFN | MoE)),  # type: ignore[misc]
        feed_forwards=tuple(p for p in parts if isinstance(p, DenseFFN | MoE)),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "fits", "lacks"),
    [
        ("experts_scale", arch(FULL, EXPERTS), arch(FULL, DENSE)),
        ("top_k", arch(FULL, EXPERTS), arch(FULL, DENSE)),
        ("kv_heads", arch(FULL, DENSE), arch(MLA, EXPERTS)),
        ("head_dim", arch(LOCAL, DENSE), arch(MLA, EXPERTS)),
        ("window_share", arch(FULL, LOCAL, DENSE), arch(LOCAL, DENSE)),
        ("kv_format", arch(MLA, DENSE), arch(SSM, DENSE)),
        ("ffn_width_scale", arch(SSM, DENSE), arch(SSM)),
    ],
)
def test_what_a_model_must_have(name: str, fits: Architecture, lacks: Architecture) -> None:
    entry = entries("model")[name]
    assert lacking(entry, fits) is None
    assert lacking(entry, lacks)


def test_knobs_without_needs_fit_any_model() -> None:
    assert lacking(entries("model")["weight_format"], arch(SSM)) is None


def test_a_knob_that_never_matters_collapses() -> None:
    knobs = conditioned([model("window_share", 0), model("window_tokens", 1024, 4096)])
    assert len(Space(knobs).grid()) == 1
