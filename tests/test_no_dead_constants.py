"""No dead constants: each constant of theta, moved over its range, changes some result."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from dse.validation import equations, gpu_data, gpu_kernels
from hwmodel import area, cost, presets, theta
from hwmodel.ops import Matmul
from hwmodel.step import time_steps
from hwmodel.tilesim import single
from model_cases import CHAT, STEP, Case, wide
from models.deployment import Deployment
from models.huggingface import load
from models.lowering import decode_phase, lower
from models.variants import NEUTRAL

CONSTANTS = theta.constants()
RULES = {"reticle_limit_mm2"}
"""Not part of a metric: `dse front` warns beyond it (tests/dse/test_edges.py)."""
MODELS = ("Meta-Llama-3.1-70B", "Qwen3-235B-A22B")  # compiled for the tests of knobs anyway
Theta = dict[str, float]
Result = Callable[[Theta], Any]


def _ends(name: str) -> Iterable[Theta]:
    c = CONSTANTS[name]
    ends = {c.low, c.high} - {c.value} or {c.value / 2}  # the ends that differ from the value
    return ({**theta.central(), name: end} for end in ends)


@functools.cache
def _rows(case: Case) -> NDArray[np.int32]:
    return case.legal_rows(4096, 17)


@functools.cache
def _batch(case: Case) -> Result:
    def metrics(constants: Theta) -> Any:
        moved = case.evaluator.under(constants, {}, case.evaluator.table)
        scores = moved(_rows(case))
        return np.vstack([scores.metrics, scores.worst])

    return metrics


def _kernels(kind: str) -> Result:
    @functools.cache
    def numbers() -> Any:
        return gpu_kernels.columns(kind, gpu_data.table(kind))

    return lambda constants: gpu_kernels.seconds(kind, numbers(), constants)


def _gpu_step(constants: Theta) -> Any:
    with jax.enable_x64(True):
        matmul = Matmul(name="matmul", count=1.0, m=64.0, k=4096.0, n=4096.0)
        (step,) = time_steps(presets.load("h100"), constants, {}, [[matmul]])
        return float(step.seconds)


def _tile_matmul(constants: Theta) -> Any:
    return single.matmul_s(presets.load("v6e"), constants, 4096.0, 4096.0, 4096.0)


def _timed_from_the_host(constants: Theta) -> Any:
    with jax.enable_x64(True):
        numbers = {"m": 256.0, "k": 256.0, "n": 256.0, "host": 1.0}
        seconds, _ = equations.matmul({"chip": presets.load("v6e")}, numbers, {}, constants)
        return float(seconds)


def _dies(constants: Theta) -> Any:
    """Area and cost of chips of several dies and of switched networks."""
    chips = [presets.load(name) for name in ("v7x", "h100")]
    areas = [float(area.die_area_mm2(chip, constants)) for chip in chips]
    usd = [
        float(cost.usd_per_hour(chip, constants, 500.0, mm2))
        for chip, mm2 in zip(chips, areas, strict=True)
    ]
    return np.array(areas + usd)


def _recurrent(constants: Theta) -> Any:
    d, hybrid = Deployment(), load("granite-4.0-h-small")
    with jax.enable_x64(True):
        lowered = lower(hybrid, NEUTRAL, d, CHAT, decode_phase(d, CHAT), constants)
        return sum(float(getattr(op, "vpu_ops", 0.0)) for op in lowered.operators)


WHERE: dict[str, tuple[Result, ...]] = {
    "block_gemm": (_kernels("gpu_gemm"),),
    "block_requantise": (_kernels("gpu_gemm"),),
    "block_moe": (_kernels("gpu_moe"),),
    "block_decode": (_kernels("gpu_decode_attention"),),
    "block_collective": (_kernels("gpu_collective"),),
    "block_fixed": (_gpu_step,),
    "block_": (_kernels("gpu_prefill_attention"),),
    "tile_": (_tile_matmul,),
    "host_dispatch": (_timed_from_the_host,),
    "state_ops": (_recurrent,),
    "die_to_die": (_dies,),
    "ici_switch": (_dies,),
}
"""Results of constants that the models and chips of `_anywhere` do not use, by prefix."""


def _anywhere() -> Iterable[Result]:
    return (_batch(wide(model, workload=w)) for w in (CHAT, STEP) for model in MODELS)


@functools.cache
def _central(result: Result) -> Any:
    return result(theta.central())


@pytest.mark.parametrize("name", sorted(set(CONSTANTS) - RULES))
def test_every_constant_moves_a_result(name: str) -> None:
    results = next((r for prefix, r in WHERE.items() if name.startswith(prefix)), _anywhere())
    assert any(
        not np.array_equal(result(moved), _central(result), equal_nan=True)
        for result in results
        for moved in _ends(name)
    )
