"""Every new token's keys and values are written to the cache, once per step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import pytest

from hwmodel import presets, theta
from hwmodel.ops import Attention as AttentionOp
from hwmodel.ops import Operator
from hwmodel.step import time_steps
from models.architecture import Architecture, Attention, kv_bytes_per_token
from models.deployment import Deployment
from models.huggingface import load
from models.lowering import decode_phase, lower, prefill_phase
from models.variants import NEUTRAL, Variant
from models.workload import Workload

THETA = theta.central()
PROMPT = 512.0  # below every window of the models here
CHAT = Workload(prompt_tokens=PROMPT, output_tokens=100.0)
BATCH = 24.0
FULL_CACHE = ["Meta-Llama-3.1-8B", "gemma-2-9b", "DeepSeek-V2-Lite", "GLM-5", "gemma-3n-E4B"]


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with jax.enable_x64(True), jax.disable_jit():
        yield


def _operators(
    arch: Architecture, decode: bool, variant: Variant = NEUTRAL, caches: float = 1.0, **d: float
) -> Sequence[Operator]:
    deployment = Deployment(**{"batch": BATCH, "prefill_chunk_tokens": PROMPT, **d})
    phase = (decode_phase if decode else prefill_phase)(deployment, CHAT)
    phase = dataclasses.replace(phase, caches=caches)
    return lower(arch, variant, deployment, CHAT, phase, THETA).operators


def _written(ops: Sequence[Operator]) -> float:
    """Bytes of one step; layers are counted by the operator's own count."""
    return sum(float(op.count * op.extra_hbm_bytes) for op in ops if isinstance(op, AttentionOp))


@pytest.mark.parametrize("name", FULL_CACHE)
@pytest.mark.parametrize(("decode", "tokens"), [(False, PROMPT), (True, BATCH)])
def test_one_chip_writes_every_new_token_once(name: str, decode: bool, tokens: float) -> None:
    arch = load(name)
    expected = tokens * float(kv_bytes_per_token(arch))
    assert _written(_operators(arch, decode)) == pytest.approx(expected)


def test_a_narrow_cache_is_written_narrow() -> None:
    arch = load("Meta-Llama-3.1-8B")
    narrow = _written(_operators(arch, True, Variant(kv_bits=8.0)))
    assert narrow == pytest.approx(_written(_operators(arch, True)) / 2)


def test_heads_are_split_and_then_replicated() -> None:
    arch = load("Meta-Llama-3.1-8B")  # 8 KV heads
    whole = _written(_operators(arch, True))
    assert _written(_operators(arch, True, tensor=8.0)) == pytest.approx(whole / 8)
    assert _written(_operators(arch, True, tensor=16.0)) == pytest.approx(whole / 8)


@pytest.mark.parametrize("decode", [False, True])
def test_context_parallel_chips_write_their_part(decode: bool) -> None:
    arch = load("Meta-Llama-3.1-8B")
    part = _written(_operators(arch, decode, context=4.0))
    assert part == pytest.approx(_written(_operators(arch, decode)) / 4)


def test_a_window_keeps_no_more_than_itself() -> None:
    arch = load("Meta-Llama-3.1-8B")
    (full,) = arch.mixers
    assert isinstance(full, Attention)
    windowed = dataclasses.replace(arch, mixers=(dataclasses.replace(full, window=128.0),))
    share = _written(_operators(windowed, False)) / _written(_operators(arch, False))
    assert share == pytest.approx(128 / PROMPT)
    assert _written(_operators(windowed, True)) == _written(_operators(arch, True))


def test_work_without_a_cache_writes_none() -> None:
    assert _written(_operators(load("DeepSeek-V2-Lite"), False, caches=0.0)) == 0


def test_the_writes_are_part_of_the_traffic_and_the_time_of_a_step() -> None:
    arch, chip = load("Meta-Llama-3.1-8B"), presets.load("v6e")
    kept, unkept = (_operators(arch, True, caches=c) for c in (1.0, 0.0))
    with_writes, without = time_steps(chip, THETA, {}, (_compute(kept), _compute(unkept)))
    more = with_writes.hbm_bytes - without.hbm_bytes
    assert more == pytest.approx(BATCH * float(kv_bytes_per_token(arch)), rel=1e-6)
    assert with_writes.seconds > without.seconds


def _compute(ops: Sequence[Operator]) -> list[Operator]:
    return [op for op in ops if isinstance(op, AttentionOp)]
