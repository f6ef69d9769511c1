"""Every reason for which a candidate cannot exist occurs, and vanishes with the nearest change."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import pytest

from hwmodel import presets, theta
from hwmodel.chip import CHIP_FIELDS, Chip
from models.deployment import Deployment
from models.huggingface import load
from models.legality import DEPLOYMENT_REASONS, REASONS
from models.performance import evaluate
from models.variants import NEUTRAL
from models.variants.reasons import REASONS as VARIANT_REASONS
from models.workload import Workload

THETA = theta.central()
COMPILER_OPTIONS = {  # compile quickly: the function is called a few dozen times
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}
V6E = presets.load("v6e")
CHAT = Workload(prompt_tokens=4000.0, output_tokens=1000.0)
LLAMA, QWEN = "Meta-Llama-3.1-70B", "Qwen3-235B-A22B"

# reason: model, what breaks it, what mends it
CASES: list[tuple[str, str, Mapping[str, float], Mapping[str, float]]] = [
    ("hbm_overflow", LLAMA, {"batch": 512.0}, {"batch": 16.0}),
    ("hbm_overflow", LLAMA, {"tensor": 2.0, "torus_x": 2.0, "torus_y": 1.0}, {"tensor": 8.0}),
    ("vmem_too_small", LLAMA, {"vmem_bytes": 0.5 * 2**20}, {"vmem_bytes": 4.0 * 2**20}),
    ("attention_split", LLAMA, {"attention_data": 16.0}, {"attention_data": 8.0}),
    ("attention_split", LLAMA, {"attention_data": 3.0}, {"attention_data": 2.0}),
    ("query_heads_split", LLAMA, {"tensor": 24.0}, {"tensor": 32.0}),
    ("kv_heads_split", LLAMA, {"tensor": 20.0}, {"tensor": 16.0}),
    (
        "kv_batch_shards",
        LLAMA,
        {"tensor": 16.0, "kv_batch_shards": 4.0},
        {"tensor": 16.0, "kv_batch_shards": 2.0},
    ),
    ("expert_degree", LLAMA, {"expert": 2.0}, {"expert": 1.0}),
    ("expert_degree", QWEN, {"expert": 256.0}, {"expert": 128.0}),
    ("pipeline_degree", LLAMA, {"pipeline": 81.0}, {"pipeline": 80.0}),
    ("batch_too_small", LLAMA, {"data": 32.0}, {"data": 16.0}),
    ("torus_dimensions", LLAMA, {"torus_z": 2.0}, {"torus_z": 1.0}),
    ("torus_dimensions", LLAMA, {"torus_z": 2.0}, {"torus_z": 2.0, "ici_torus_ndims": 3.0}),
    ("pod_size", LLAMA, {"torus_x": 32.0, "torus_y": 16.0}, {"torus_x": 16.0, "torus_y": 16.0}),
    ("mesh_tiling", LLAMA, {"torus_x": 3.0}, {"torus_x": 2.0}),
    (
        "mesh_order",
        QWEN,
        {"expert": 2.0, "fsdp": 2.0, "expert_rank": 2.0, "fsdp_rank": 1.0, "context_rank": 3.0},
        {"expert": 2.0, "fsdp": 1.0, "expert_rank": 2.0, "fsdp_rank": 1.0, "context_rank": 3.0},
    ),
    ("layout_2d", LLAMA, {"layout_2d": 1.0, "torus_x": 8.0, "torus_y": 4.0}, {"layout_2d": 1.0}),
    ("cached_prefix", LLAMA, {"cached_prefix_tokens": 4000.0}, {"cached_prefix_tokens": 3999.0}),
    ("quality_unknown", LLAMA, {"kv_heads": 4.0}, {"kv_heads": 16.0}),  # merging has no law
    ("kv_heads_do_not_divide_q_heads", LLAMA, {"kv_heads": 3.0}, {"kv_heads": 4.0}),
    ("experts_without_moe", LLAMA, {"top_k": 4.0}, {"top_k": 0.0}),
    ("top_k_above_experts", QWEN, {"top_k": 129.0}, {"top_k": 128.0}),
]


RESOLUTION = 2.0**-24  # below it scoring counts an amount as 0: a quotient of equals may exceed 1
TRACED_VARIANT_FIELDS = ("kv_heads", "top_k")


@functools.cache
def _compiled(model: str) -> Callable[..., tuple[dict[str, Any], Any]]:
    """Violations and HBM bytes used, compiled once per model over all fields but of the variant."""
    arch = load(model)

    def scored(fields: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        def part(cls: type, names: Iterable[str]) -> Any:
            return cls(**{name: fields[name] for name in names})

        variant = dataclasses.replace(NEUTRAL, **{n: fields[n] for n in TRACED_VARIANT_FIELDS})
        point = evaluate(
            part(Chip, CHIP_FIELDS),
            arch,
            variant,
            part(Deployment, _names(Deployment)),
            part(Workload, _names(Workload)),
            THETA,
            15e12,
        )
        return point.violations, point.metrics["hbm_used_bytes"]

    return jax.jit(scored, compiler_options=COMPILER_OPTIONS)


def _names(cls: type) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)]


def _scored(model: str, changes: Mapping[str, float]) -> tuple[dict[str, float], float]:
    """A 70B on 2 x 4 chips of v6e, legal as it is, with fields of any part changed."""
    deployment = Deployment(tensor=8.0, torus_x=2.0, torus_y=4.0, batch=16.0)
    fields: dict[str, float] = dict.fromkeys(TRACED_VARIANT_FIELDS, 0.0)
    for part in (V6E, deployment, CHAT):
        fields |= {name: float(getattr(part, name)) for name in _names(type(part))}
    assert set(changes) <= set(fields)
    with jax.enable_x64(True):
        violations, used = _compiled(model)(fields | dict(changes))
        return {code: float(amount) for code, amount in violations.items()}, float(used)


def _amounts(model: str, changes: Mapping[str, float]) -> dict[str, float]:
    return _scored(model, changes)[0]


def test_the_base_case_is_legal() -> None:
    amounts = _amounts(LLAMA, {})
    assert max(amounts.values()) <= 0
    assert set(amounts) <= set(REASONS)


@pytest.mark.parametrize(("reason", "model", "breaks", "mends"), CASES)
def test_a_reason_occurs_and_vanishes(
    reason: str, model: str, breaks: Mapping[str, float], mends: Mapping[str, float]
) -> None:
    assert _amounts(model, breaks)[reason] > 0
    assert _amounts(model, mends).get(reason, 0.0) < RESOLUTION


def test_every_reason_of_a_deployment_is_tested_and_every_code_is_unique() -> None:
    assert {case[0] for case in CASES} >= set(DEPLOYMENT_REASONS)
    assert not set(DEPLOYMENT_REASONS) & set(VARIANT_REASONS)
    assert all(text and not text.endswith(".") for text in REASONS.values())


def test_the_amount_says_how_far_a_limit_is_exceeded() -> None:
    full = _amounts(LLAMA, {"data": 32.0})
    assert full["batch_too_small"] == pytest.approx(32 / 16 - 1)
    pod = _amounts(LLAMA, {"torus_x": 32.0, "torus_y": 16.0})
    assert pod["pod_size"] == pytest.approx(512 / 256 - 1)
    amounts, used = _scored(LLAMA, {"batch": 512.0})
    usable = V6E.hbm_bytes * THETA["hbm_usable_fraction"]
    assert amounts["hbm_overflow"] == pytest.approx(used / usable - 1)


def test_replicated_kv_heads_are_legal() -> None:
    for tensor in (8.0, 16.0, 32.0, 64.0):
        assert _amounts(LLAMA, {"tensor": tensor})["kv_heads_split"] <= 0
