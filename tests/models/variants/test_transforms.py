"""What each transform does to shapes, and which variants it calls illegal."""

from __future__ import annotations

import dataclasses

import pytest

from models.architecture import (
    Attention,
    MoE,
    kv_bytes_per_token,
    parameters_active,
    parameters_total,
)
from models.variants import (
    NEUTRAL,
    REASONS,
    TRANSFORMS,
    Variant,
    apply,
    conditions,
    expand,
    illegal,
)
from tests.models.variants.examples import (
    ALL,
    deepseek_v3,
    gemma_2_9b,
    llama_70b,
    mamba,
    qwen3_235b,
)


@pytest.mark.parametrize("make", ALL)
def test_neutral_changes_nothing(make) -> None:
    arch = make()
    changed = apply(arch, NEUTRAL)
    assert parameters_total(changed) == parameters_total(arch)
    assert kv_bytes_per_token(changed) == kv_bytes_per_token(arch)
    assert changed.layers == arch.layers
    assert illegal(arch, NEUTRAL) == []


def test_ffn_width_removes_its_share_of_the_ffn() -> None:
    arch = llama_70b()
    changed = apply(arch, Variant(ffn_width_scale=0.75))
    removed = 80 * 3 * 8192 * 28672 / 4
    assert parameters_total(changed) == parameters_total(arch) - removed


def test_ffn_width_scales_experts_and_shared_experts_to_whole_columns() -> None:
    block = apply(deepseek_v3(), Variant(ffn_width_scale=0.3)).feed_forwards[1]
    assert isinstance(block, MoE)
    assert (block.expert_width, block.shared_width) == (614, 614)


def test_half_the_kv_heads_halve_the_cache() -> None:
    arch = llama_70b()
    changed = apply(arch, Variant(kv_heads=4))
    assert kv_bytes_per_token(arch) == 327680
    assert kv_bytes_per_token(changed) == kv_bytes_per_token(arch) / 2
    assert parameters_total(changed) == parameters_total(arch) - 80 * 8192 * 4 * 128 * 2


def test_head_dim_keeps_the_width() -> None:
    arch = llama_70b()
    changed = apply(arch, Variant(head_dim=256))
    attention = changed.mixers[0]
    assert isinstance(attention, Attention)
    assert (attention.q_heads, attention.kv_heads) == (32, 4)
    assert (attention.qk_head_dim, attention.v_head_dim) == (256, 256)
    assert parameters_total(changed) == parameters_total(arch)
    assert kv_bytes_per_token(changed) == kv_bytes_per_token(arch)


def test_head_dim_keeps_at_least_one_kv_head() -> None:
    attention = apply(llama_70b(), Variant(head_dim=2048)).mixers[0]
    assert isinstance(attention, Attention)
    assert (attention.q_heads, attention.kv_heads) == (4, 1)


def test_experts_and_top_k() -> None:
    arch = qwen3_235b()
    changed = apply(arch, Variant(experts_scale=0.5, top_k=4))
    per_expert = 94 * 3 * 4096 * 1536
    router = 94 * 4096
    assert parameters_total(arch) - parameters_total(changed) == 64 * (per_expert + router)
    active = parameters_active(arch) - parameters_active(changed)
    assert active == 4 * per_expert + 64 * router


def test_half_the_layers_windowed() -> None:
    arch = expand(llama_70b(), window=True)
    full, windowed = apply(arch, Variant(window_share=0.5, window_tokens=1024)).mixers
    assert isinstance(full, Attention)
    assert isinstance(windowed, Attention)
    assert (full.layers, full.kv_layers, full.window) == (40, 40, 0)
    assert (windowed.layers, windowed.kv_layers, windowed.window) == (40, 40, 1024)
    assert windowed.kv_heads == full.kv_heads


def test_window_share_is_rounded_to_whole_layers_and_leaves_windowed_layers_alone() -> None:
    arch = expand(gemma_2_9b(), window=True)
    released, full, twin = apply(arch, Variant(window_share=0.25, window_tokens=2048)).mixers
    assert (released.layers, full.layers, twin.layers) == (21, 16, 5)
    assert isinstance(released, Attention)
    assert released.window == 4096


def test_window_transform_follows_head_transforms() -> None:
    variant = Variant(kv_heads=16, window_share=0.5, window_tokens=1024)
    twin = apply(expand(llama_70b(), window=True), variant).mixers[1]
    assert isinstance(twin, Attention)
    assert twin.kv_heads == 16


def test_expansion_without_window_knob_adds_nothing() -> None:
    arch = llama_70b()
    assert expand(arch, window=False) is arch
    assert len(expand(deepseek_v3(), window=True).mixers) == 1


def test_window_share_without_expansion_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"expand\(arch, window=True\)"):
        apply(llama_70b(), Variant(window_share=0.5, window_tokens=1024))


def test_depth_keeps_a_whole_number_of_layers_of_every_kind() -> None:
    changed = apply(gemma_2_9b(), Variant(layer_share=0.75))
    assert changed.layers == 32
    assert sum(m.layers for m in changed.mixers) == 32
    assert sum(f.layers for f in changed.feed_forwards) == 32
    per_layer_norms = apply(llama_70b(), Variant(layer_share=0.5)).norm_parameters
    assert per_layer_norms == 161 * 8192 // 2


@pytest.mark.parametrize(
    ("make", "variant", "reason", "nearest"),
    [
        (llama_70b, Variant(kv_heads=3), "does not divide the 64 query heads", "kv_heads 2"),
        (llama_70b, Variant(head_dim=100), "whole heads", "head_dim 128"),
        (llama_70b, Variant(head_dim=2048, kv_heads=8), "the 4 query heads", "kv_heads 4"),
        (llama_70b, Variant(top_k=4), "no mixture-of-experts", "top_k 0"),
        (llama_70b, Variant(window_share=0.5), "window_tokens is 0", "window_tokens 1024"),
        (llama_70b, Variant(compute_format=1), "8-bit compute format", "weight_bits 8"),
        (llama_70b, Variant(nm_n=5, nm_m=4), "5:4 sparsity", "nm_n 4"),
        (llama_70b, Variant(layer_share=0.001), "at least 1", "layer_share 0.0125"),
        (llama_70b, Variant(ffn_width_scale=0), "greater than 0", "ffn_width_scale 1"),
        (deepseek_v3, Variant(kv_heads=4), "no softmax-attention", "kv_heads 0"),
        (deepseek_v3, Variant(head_dim=64), "no softmax-attention", "head_dim 0"),
        (deepseek_v3, Variant(window_share=0.5, window_tokens=1024), "no full", "window_share 0"),
        (qwen3_235b, Variant(experts_scale=0.05), "the 6 experts", "top_k 6"),
        (mamba, Variant(kv_bits=8), "no KV cache", "kv_bits 16"),
        (mamba, Variant(ffn_width_scale=0.5), "no feed-forward", "ffn_width_scale 1"),
    ],
)
def test_illegal_variants_say_why_and_what_is_nearest(make, variant, reason, nearest) -> None:
    found = illegal(make(), variant)
    assert len(found) == 1
    assert reason in found[0]
    assert nearest in found[0].split("nearest legal: ")[1]


@pytest.mark.parametrize(
    "variant",
    [
        Variant(kv_heads=64),
        Variant(kv_heads=1),
        Variant(head_dim=64),
        Variant(window_share=1, window_tokens=128),
        Variant(weight_bits=4),
        Variant(weight_bits=8, activation_bits=8, compute_format=2),
        Variant(nm_n=2, nm_m=4),
        Variant(layer_share=0.5),
    ],
)
def test_legal_variants_are_legal(variant: Variant) -> None:
    assert illegal(llama_70b(), variant) == []


def test_every_condition_is_described_and_every_description_used() -> None:
    emitted = {c.code for make in ALL for c in conditions(make(), NEUTRAL)}
    assert emitted == set(REASONS)


def test_every_transform_reads_its_fields_and_has_its_own_band() -> None:
    names = {f.name for f in dataclasses.fields(Variant)}
    read = [f for t in TRANSFORMS for f in t.fields]
    bands = {f"{t.name}_nats_{end}" for t in TRANSFORMS for end in ("low", "high")}
    assert len(read) == len(set(read))
    assert set(read) | bands == names
