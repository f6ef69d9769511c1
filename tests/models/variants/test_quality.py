"""The quality loss: exactness, bands, monotonicity, assumptions, and plain against traced."""

from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import pytest

from models.variants import (
    NEUTRAL,
    Band,
    Variant,
    apply,
    breakdown,
    catalogue,
    check_band,
    conditions,
    delta_nats,
    expand,
    illegal,
    needs_training_tokens,
    out_of_domain,
    quality_loss_nats,
    requires_assumption,
    transform_of,
    unpriced_choice,
)
from tests.models.variants.examples import (
    ALL,
    deepseek_v3,
    gemma_2_9b,
    llama_70b,
    mamba,
    qwen3_235b,
)

TOKENS = 15e12


def loss(make, **fields: float) -> Band:
    return delta_nats(make(), Variant(**fields), TOKENS)


@pytest.mark.parametrize("make", ALL)
def test_neutral_costs_exactly_nothing_even_without_training_tokens(make) -> None:
    assert delta_nats(make(), NEUTRAL) == (0, 0, 0)


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (llama_70b, {"kv_heads": 8}),
        (llama_70b, {"kv_heads": 16}),
        (llama_70b, {"kv_heads": 64}),
        (llama_70b, {"head_dim": 128}),
        (llama_70b, {"head_dim": 128, "kv_heads": 16, "kv_heads_nats_high": 0.1}),
        (llama_70b, {"window_share": 0.75, "window_tokens": 131072}),
        (llama_70b, {"window_share": 0.001, "window_tokens": 16}),
        (llama_70b, {"window_tokens": 16}),
        (llama_70b, {"nm_n": 4, "nm_m": 4}),
        (llama_70b, {"ffn_width_scale": 1.25}),
        (llama_70b, {"layer_share": 0.9999}),
        (qwen3_235b, {"experts_scale": 1, "top_k": 8}),
        (qwen3_235b, {"experts_scale": 2, "top_k": 16}),
        (deepseek_v3, {"weight_bits": 8}),
    ],
)
def test_exact_transforms_cost_exactly_nothing(make, fields) -> None:
    assert loss(make, **fields) == (0, 0, 0)


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (llama_70b, {"ffn_width_scale": 0.75}),
        (llama_70b, {"nm_n": 2, "nm_m": 4}),
        (llama_70b, {"weight_bits": 4}),
        (llama_70b, {"weight_bits": 8, "activation_bits": 8, "compute_format": 2}),
        (llama_70b, {"kv_bits": 8}),
        (llama_70b, {"window_share": 0.5, "window_tokens": 1024}),
        (qwen3_235b, {"top_k": 4}),
        (qwen3_235b, {"experts_scale": 0.5}),
        (deepseek_v3, {"ffn_width_scale": 0.75}),
        (deepseek_v3, {"nm_n": 1, "nm_m": 2}),
        (deepseek_v3, {"weight_bits": 4}),
    ],
)
def test_bands_are_ordered_positive_and_small(make, fields) -> None:
    band = loss(make, **fields)
    assert 0 <= band.low <= band.central <= band.high
    assert 0 < band.high < 0.2


def test_size_laws_on_llama_70b() -> None:
    """Worked by hand, 70.55B to 56.46B parameters: Besiroglu central, Sardana the high end."""
    band = loss(llama_70b, ffn_width_scale=0.75)
    before, after = 70.5537e9, 70.5537e9 - 80 * 3 * 8192 * 7168
    assert band.central == pytest.approx(482.01 * (after**-0.3478 - before**-0.3478), rel=1e-4)
    assert band.high == pytest.approx(33.66 * (after**-0.18 - before**-0.18), rel=1e-4)


def test_sparsity_equals_the_dense_model_of_the_equivalent_size() -> None:
    """2:4 keeps 1.59 / 2 of the size; the pessimistic end counts all parameters as pruned."""
    band = loss(llama_70b, nm_n=2, nm_m=4)
    n = 70.5537e9
    assert band.high == pytest.approx(33.66 * ((0.795 * n) ** -0.18 - n**-0.18), rel=1e-2)


def test_size_losses_compound() -> None:
    """Sparsity of a narrower model starts from the narrower model, so the sum telescopes."""
    narrow = Variant(ffn_width_scale=0.5)
    both = Variant(ffn_width_scale=0.5, nm_n=2, nm_m=4)
    parts = breakdown(llama_70b(), both)
    alone = breakdown(apply(llama_70b(), narrow), Variant(nm_n=2, nm_m=4))
    assert parts["nm"] == pytest.approx(alone["nm"])
    assert parts["nm"].high > breakdown(llama_70b(), Variant(nm_n=2, nm_m=4))["nm"].high


def never_improves(make, choices: list[dict[str, float]]) -> None:
    bands = [loss(make, **c) for c in choices]
    for better, worse in itertools.pairwise(bands):
        assert all(a <= b for a, b in zip(better, worse, strict=True))
    assert bands[0].high < bands[-1].high


@pytest.mark.parametrize("make", [llama_70b, qwen3_235b, deepseek_v3, gemma_2_9b])
def test_narrower_sparser_and_shorter_never_improve(make) -> None:
    never_improves(make, [{"ffn_width_scale": s} for s in (1, 0.95, 0.75, 0.5, 0.25)])
    never_improves(make, [{"nm_n": n, "nm_m": 8} for n in (8, 7, 4, 2, 1)])
    never_improves(make, [{"kv_bits": b} for b in (16, 8)])


@pytest.mark.parametrize("make", [llama_70b, qwen3_235b, deepseek_v3])
@pytest.mark.parametrize("code", [0, 1, 2])
def test_fewer_bits_never_improve(make, code) -> None:
    for activation_bits in (16, 8, 4):
        row = [
            {"weight_bits": w, "activation_bits": activation_bits, "compute_format": code}
            for w in (16, 8, 4)
        ]
        never_improves(make, row)
    for weight_bits in (16, 8, 4):
        column = [
            {"weight_bits": weight_bits, "activation_bits": a, "compute_format": code}
            for a in (16, 8, 4)
        ]
        never_improves(make, column)


@pytest.mark.parametrize("make", [qwen3_235b, deepseek_v3])
def test_fewer_experts_never_improve(make) -> None:
    never_improves(make, [{"experts_scale": s} for s in (1, 0.75, 0.5, 0.25)])
    highs = [loss(make, top_k=k).high for k in (8, 6, 4, 2)]
    assert highs == sorted(highs)
    assert highs[1] > 0


def test_shorter_windows_never_improve() -> None:
    never_improves(llama_70b, [{"window_share": 0.5, "window_tokens": t} for t in (4096, 1024)])


@pytest.mark.parametrize(
    ("make", "fields", "knob"),
    [
        (llama_70b, {"head_dim": 256}, "head_dim"),
        (llama_70b, {"kv_heads": 4}, "kv_heads"),
        (llama_70b, {"layer_share": 0.9}, "layer_share"),
        (llama_70b, {"kv_bits": 4}, "kv_bits"),
        (llama_70b, {"weight_bits": 6}, "precision"),
        (llama_70b, {"nm_n": 1, "nm_m": 16}, "nm"),
        (llama_70b, {"window_share": 0.75, "window_tokens": 4096}, "window"),
        (llama_70b, {"window_share": 0.5, "window_tokens": 512}, "window"),
        (gemma_2_9b, {"window_share": 0.5, "window_tokens": 4096}, "window"),
    ],
)
def test_without_a_law_only_an_assumed_band_gives_a_number(make, fields, knob) -> None:
    assert all(math.isnan(end) for end in loss(make, **fields))
    changing = [f for f in fields if f != "window_tokens" or fields[f] < 1024]
    needed = [requires_assumption(make(), f, [fields[f]]) for f in changing]
    assert any(needed)
    assumed = {**fields, f"{knob}_nats_low": 0.01, f"{knob}_nats_high": 0.03}
    assert loss(make, **assumed) == pytest.approx((0.01, 0.02, 0.03))


def test_an_assumed_band_replaces_the_law() -> None:
    band = loss(llama_70b, nm_n=2, nm_m=4, nm_nats_low=0.1, nm_nats_high=0.4)
    assert band == pytest.approx((0.1, 0.25, 0.4))


@pytest.mark.parametrize(
    ("make", "knob", "values"),
    [
        (llama_70b, "head_dim", [0, 128]),
        (llama_70b, "kv_heads", [0, 8, 16, 32]),
        (llama_70b, "ffn_width_scale", [0.5, 2]),
        (llama_70b, "weight_bits", [4, 8, 16]),
        (llama_70b, "kv_bits", [8, 16]),
        (llama_70b, "nm_m", [1, 4, 8]),
        (llama_70b, "window_share", [0, 0.25, 0.5]),
        (llama_70b, "window_tokens", [0, 1024, 4096]),
        (llama_70b, "layer_share", [1]),
        (deepseek_v3, "top_k", [4, 16]),
    ],
)
def test_knobs_with_a_law_need_no_assumption(make, knob, values) -> None:
    assert requires_assumption(make(), knob, values) is None


def test_the_reason_names_the_choice_and_the_model() -> None:
    reason = requires_assumption(llama_70b(), "head_dim", [0, 128, 256])
    assert reason is not None
    assert "head_dim = 256 changes Llama-3.1-70B" in reason
    with pytest.raises(KeyError, match="kv_heads"):
        transform_of("kv_head")


def test_sparsity_choices_are_judged_as_pairs() -> None:
    assert unpriced_choice(llama_70b(), {"nm_n": 4, "nm_m": 16}) is None
    reason = unpriced_choice(llama_70b(), {"nm_n": 2, "nm_m": 32})
    assert reason is not None
    assert reason.startswith("2:32 sparsity changes")
    formats = {"weight_bits": 6, "activation_bits": 16, "compute_format": 0}
    assert "not 6" in (unpriced_choice(llama_70b(), formats) or "")


@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (-0.1, 0.1), (0.2, 0.1), (0, math.inf), (math.nan, 1)]
)
def test_bands_that_are_no_loss_are_refused(low: float, high: float) -> None:
    with pytest.raises(ValueError, match="0 <= low <= high"):
        check_band(low, high)
    check_band(0, 0.02)


def test_training_tokens_matter_at_4_bits_only() -> None:
    assert needs_training_tokens(llama_70b(), "weight_bits", [4, 16])
    assert not needs_training_tokens(llama_70b(), "weight_bits", [8, 16])
    assert needs_training_tokens(llama_70b(), "activation_bits", [4])
    assert not needs_training_tokens(llama_70b(), "ffn_width_scale", [0.5])
    four_bit_model = dataclasses.replace(llama_70b(), released_weight_bits=4)
    assert not needs_training_tokens(four_bit_model, "weight_bits", [4])
    assert math.isnan(delta_nats(llama_70b(), Variant(weight_bits=4)).high)
    for fields in ({"kv_bits": 8}, {"weight_bits": 8}, {"nm_n": 2, "nm_m": 4}):
        assert math.isfinite(delta_nats(llama_70b(), Variant(**fields)).high)
    assert (
        loss(llama_70b, weight_bits=4).high
        > delta_nats(llama_70b(), Variant(weight_bits=4), 1e12).high
    )


def test_domain_warnings_name_the_limit() -> None:
    assert out_of_domain(llama_70b(), NEUTRAL, TOKENS) == []
    assert any("16B" in w for w in out_of_domain(llama_70b(), Variant(ffn_width_scale=0.5)))
    assert any("85M" in w for w in out_of_domain(llama_70b(), Variant(nm_n=2, nm_m=4)))
    found = out_of_domain(llama_70b(), Variant(weight_bits=4), TOKENS)
    assert any("595M" in w for w in found)
    assert any("100B tokens" in w for w in found)
    assert any("95%" in w for w in out_of_domain(deepseek_v3(), Variant(top_k=4)))
    assumed = Variant(ffn_width_scale=0.5, ffn_width_nats_high=0.1)
    assert out_of_domain(llama_70b(), assumed) == []


def test_catalogue_lists_every_transform_with_its_source() -> None:
    entries = {e.name: e for e in catalogue()}
    assert set(entries) == {
        "head_dim",
        "kv_heads",
        "ffn_width",
        "experts",
        "layer_share",
        "window",
        "precision",
        "kv_bits",
        "nm",
    }
    assert "Besiroglu" in entries["ffn_width"].source
    assert "Frantar" in entries["nm"].source
    assert "Chen" in entries["precision"].source
    assert "Gemma 2" in entries["window"].source
    assert all(e.source and e.exact_when and e.changes for e in entries.values())


KNOBS: dict[str, list[float]] = {
    "head_dim": [0, 128, 256],
    "head_dim_nats_high": [0.02],
    "kv_heads": [0, 4, 16],
    "kv_heads_nats_low": [0.01],
    "kv_heads_nats_high": [0.03],
    "ffn_width_scale": [0.7, 1, 1.3],
    "weight_bits": [16, 8, 4],
    "activation_bits": [16, 8, 4],
    "compute_format": [0, 1, 2],
    "kv_bits": [16, 8],
    "nm_n": [1, 2],
    "nm_m": [2, 4],
    "window_share": [0, 0.3, 0.5],
    "window_tokens": [1024, 3000, 131072],
    "experts_scale": [0.4, 1],
    "top_k": [0, 4],
    "layer_share": [0.8, 1],
    "layer_share_nats_high": [0.05],
}


@pytest.mark.parametrize(
    ("make", "knobs"),
    [
        (llama_70b, tuple(KNOBS)),
        (qwen3_235b, ("ffn_width_scale", "window_share", "window_tokens", "nm_n", "nm_m")),
        (deepseek_v3, ("ffn_width_scale", "experts_scale", "top_k", "weight_bits")),
    ],
)
def test_traced_equals_plain(make, knobs) -> None:
    """Vmapped and jitted over variants, against one plain call each; the twins change nothing."""
    released = make()
    arch = expand(released, window=True)
    rows = [
        {k: KNOBS[k][(7 * i + 3 * j) % len(KNOBS[k])] for j, k in enumerate(knobs)}
        for i in range(60)
    ]

    def traced(fields):
        variant = Variant(**fields)
        changed = apply(arch, variant)
        wrong = [c.violated for c in conditions(released, variant)]
        layers = [m.layers for m in changed.mixers]
        widths = [getattr(f, "expert_width", getattr(f, "width", 0)) for f in changed.feed_forwards]
        violated = jnp.stack([jnp.asarray(w, jnp.float64) for w in wrong]).max()
        return delta_nats(arch, variant, TOKENS), layers, widths, violated

    with jax.enable_x64(True):
        columns = {k: jnp.asarray([r[k] for r in rows], jnp.float64) for k in knobs}
        bands, layers, widths, violated = jax.jit(jax.vmap(traced))(columns)
        bands, layers, widths, violated = jax.device_get((bands, layers, widths, violated))

    for i, row in enumerate(rows):
        variant = Variant(**row)
        plain = delta_nats(released, variant, TOKENS)
        assert all(math.isfinite(end) for end in plain)
        assert [end[i] for end in bands] == pytest.approx(list(plain), rel=1e-9, abs=1e-15)
        assert bool(violated[i]) == bool(illegal(released, variant))
        changed = apply(arch, variant)
        assert [x[i] for x in layers] == [m.layers for m in changed.mixers]
        assert [x[i] for x in widths] == [
            getattr(f, "expert_width", getattr(f, "width", 0)) for f in changed.feed_forwards
        ]


def test_traced_neutral_and_exact_variants_cost_exactly_nothing() -> None:
    def high(kv_heads, share):
        variant = Variant(kv_heads=kv_heads, ffn_width_scale=share, nm_n=share, nm_m=share)
        return quality_loss_nats(llama_70b(), variant, TOKENS)

    with jax.enable_x64(True):
        values = jax.jit(jax.vmap(high))(jnp.asarray([0.0, 8.0, 16.0]), jnp.ones(3))
        assert values.tolist() == [0, 0, 0]


def test_gradients_are_finite() -> None:
    def high(scale):
        variant = Variant(nm_n=2 * scale, nm_m=4.0, weight_bits=4.0, kv_bits=8.0)
        return quality_loss_nats(llama_70b(), variant, TOKENS)

    with jax.enable_x64(True):
        slope = float(jax.jit(jax.grad(high))(1.0))
    assert math.isfinite(slope)
    assert slope < 0


def test_recurrent_models_have_a_quality_loss_too() -> None:
    assert loss(mamba, nm_n=2, nm_m=4).high > 0
    assert loss(mamba, weight_bits=4).high > loss(mamba, weight_bits=8).high
