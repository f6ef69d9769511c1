"""Counts of `models.architecture`: hand-made models, properties, and traced numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import (
    Architecture,
    Attention,
    DenseFFN,
    LatentAttention,
    MoE,
    Recurrent,
    kv_bytes_per_token,
    mixer_parameters,
    parameters_active,
    parameters_total,
    skeleton,
    state_bytes_per_sequence,
)

ATTENTION = Attention(layers=4, q_heads=8, kv_heads=2, qk_head_dim=16, v_head_dim=16)
LATENT = LatentAttention(
    layers=4,
    heads=8,
    q_lora_rank=24,
    kv_lora_rank=32,
    qk_nope_head_dim=16,
    qk_rope_head_dim=8,
    v_head_dim=16,
)
MAMBA = Recurrent(
    layers=3,
    in_width=100,
    conv_channels=40,
    conv_kernel=4,
    heads=4,
    key_dim=16,
    value_dim=8,
    out_width=32,
)


def model(mixer: Any = ATTENTION, block: Any = None, **changes: Any) -> Architecture:
    """A small model of one mixer group and one feed-forward group."""
    fields: dict[str, Any] = {
        "name": "small",
        "model_type": "test",
        "layers": 4,
        "hidden": 64,
        "vocab": 1000,
        "mixers": (mixer,),
        "feed_forwards": (block or DenseFFN(layers=4, width=128),),
    }
    return Architecture(**{**fields, **changes})


def test_dense_model_counts_every_matrix_once() -> None:
    attention = 64 * 8 * 16 + 2 * 64 * 2 * 16 + 8 * 16 * 64
    expected = 2 * 1000 * 64 + 4 * (attention + 3 * 64 * 128)
    assert parameters_total(model()) == expected
    assert parameters_active(model()) == expected
    assert parameters_total(model(tied_embeddings=1)) == expected - 1000 * 64
    assert kv_bytes_per_token(model()) == 4 * 2 * 2 * 16 * 2
    assert kv_bytes_per_token(model(), kv_bits=8) == 4 * 2 * 2 * 16


def test_layers_that_reuse_a_cache_have_neither_projection_nor_cache() -> None:
    shared = dataclasses.replace(ATTENTION, kv_layers=1)
    saved = 3 * 2 * 64 * 2 * 16
    assert parameters_total(model(shared)) == parameters_total(model()) - saved
    assert kv_bytes_per_token(model(shared)) == kv_bytes_per_token(model()) / 4


def test_one_projection_may_fill_two_caches() -> None:
    projected_once = dataclasses.replace(ATTENTION, kv_projections=1)
    assert mixer_parameters(ATTENTION, 64) - mixer_parameters(projected_once, 64) == 64 * 2 * 16
    assert kv_bytes_per_token(model(projected_once)) == kv_bytes_per_token(model())
    cached_once = dataclasses.replace(projected_once, kv_cached=1)
    assert kv_bytes_per_token(model(cached_once)) == kv_bytes_per_token(model()) / 2


def test_compressed_cache_and_indexer_keys() -> None:
    sparse = dataclasses.replace(
        ATTENTION, compress_ratio=4, index_heads=2, index_head_dim=8, select_tokens=32
    )
    assert kv_bytes_per_token(model(sparse)) == 4 * (2 * 2 * 16 + 8) / 4 * 2


def test_latent_attention_caches_one_vector_and_shares_indexers() -> None:
    assert kv_bytes_per_token(model(LATENT)) == 4 * (32 + 8) * 2
    indexed = dataclasses.replace(LATENT, index_heads=2, index_head_dim=8, index_layers=1)
    assert kv_bytes_per_token(model(indexed)) == (4 * (32 + 8) + 8) * 2
    indexer = 24 * 2 * 8 + 64 * 8 + 64 * 2
    assert parameters_total(model(indexed)) - parameters_total(model(LATENT)) == indexer


def test_constant_state_is_not_a_cache() -> None:
    arch = model(MAMBA)
    assert kv_bytes_per_token(arch) == 0
    assert state_bytes_per_sequence(arch) == 3 * (4 * 16 * 8 * 4 + 40 * 3 * 2)
    assert state_bytes_per_sequence(model()) == 0
    bare = dataclasses.replace(MAMBA, conv_kernel=0, conv_channels=0)
    assert state_bytes_per_sequence(model(bare)) == 3 * 4 * 16 * 8 * 4


def test_only_chosen_experts_are_active() -> None:
    block = MoE(
        layers=4,
        experts=8,
        top_k=2,
        expert_width=32,
        shared_width=16,
        latent_dim=0,
        expert_extra_parameters=5,
        extra_parameters=3,
    )
    expert = 3 * 64 * 32 + 5
    per_layer = 8 * expert + 3 * 64 * 16 + 64 * 8 + 3
    dense = parameters_total(model()) - 4 * 3 * 64 * 128
    assert parameters_total(model(block=block)) == dense + 4 * per_layer
    assert parameters_active(model(block=block)) == dense + 4 * (per_layer - 6 * expert)
    narrow = dataclasses.replace(block, latent_dim=16)
    per_layer += 8 * (3 * 16 * 32 - 3 * 64 * 32) + 2 * 64 * 16
    assert parameters_total(model(block=narrow)) == dense + 4 * per_layer


def test_a_block_run_twice_is_stored_once() -> None:
    once = mixer_parameters(ATTENTION, 64)
    assert parameters_total(model(reused_parameters=once)) == parameters_total(model()) - once


def test_a_group_emptied_by_a_variant_counts_nothing() -> None:
    twin = dataclasses.replace(ATTENTION, layers=0, kv_layers=0)
    full = model()
    with_twin = dataclasses.replace(full, mixers=(*full.mixers, twin))
    assert parameters_total(with_twin) == parameters_total(full)
    assert kv_bytes_per_token(with_twin) == kv_bytes_per_token(full)
    assert skeleton(with_twin) == (("Attention", "Attention"), ("DenseFFN",))


GROWING = [
    ("mixer", "layers"),
    ("mixer", "q_heads"),
    ("mixer", "kv_heads"),
    ("mixer", "qk_head_dim"),
    ("mixer", "v_head_dim"),
    ("block", "layers"),
    ("block", "experts"),
    ("block", "expert_width"),
    ("block", "shared_width"),
    ("model", "hidden"),
    ("model", "vocab"),
]


@given(
    sizes=st.tuples(*[st.integers(1, 64) for _ in GROWING]),
    which=st.integers(0, len(GROWING) - 1),
    more=st.integers(1, 16),
)
def test_more_of_anything_is_never_fewer_parameters(
    sizes: tuple[int, ...], which: int, more: int
) -> None:
    def build(values: tuple[int, ...]) -> Architecture:
        chosen = dict(zip(GROWING, values, strict=True))
        part = {k: {n: v for (p, n), v in chosen.items() if p == k} for k in ("mixer", "block")}
        return model(
            Attention(**part["mixer"]),
            MoE(top_k=1, **part["block"]),
            hidden=chosen["model", "hidden"],
            vocab=chosen["model", "vocab"],
        )

    grown = tuple(v + more if i == which else v for i, v in enumerate(sizes))
    small, large = build(sizes), build(grown)
    assert parameters_total(large) > parameters_total(small)
    assert parameters_active(large) >= parameters_active(small)
    assert parameters_active(small) <= parameters_total(small)
    assert kv_bytes_per_token(large) >= kv_bytes_per_token(small)


@pytest.mark.parametrize("mixer", [ATTENTION, LATENT, MAMBA], ids=["gqa", "mla", "mamba"])
def test_traced_numbers_give_the_same_counts(mixer: Any) -> None:
    jax = pytest.importorskip("jax")
    names = [f.name for f in dataclasses.fields(mixer)]

    def count(values: list[Any]) -> list[Any]:
        arch = model(type(mixer)(**dict(zip(names, values, strict=True))))
        return [parameters_total(arch), kv_bytes_per_token(arch), state_bytes_per_sequence(arch)]

    plain = [getattr(mixer, n) for n in names]
    with jax.enable_x64(True):
        traced = jax.jit(count)([jax.numpy.asarray(v) for v in plain])
    assert [float(x) for x in traced] == [float(x) for x in count(plain)]
