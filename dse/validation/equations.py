"""The predicted value of a case, in the unit of its measurement, as pure functions for JAX.

Each takes the case's parts and numbers (traced), what it may branch on (static) and theta, and
returns the value and, for serving, how many sequences the KV cache holds (0 elsewhere).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from hwmodel.collectives import fabric, lay_out
from hwmodel.ops import Collective, Matmul, Vector
from hwmodel.rates import usable_hbm_bytes
from hwmodel.step import StepTime, time_steps
from models.lowering import prefill_phase
from models.lowering.model import kv_bytes_per_sequence_per_chip
from models.performance import Point, evaluate
from models.training import TrainingPoint, evaluate_training

Number = Any
Values = Mapping[str, Any]
Result = tuple[Number, Number]
HOST_STEP_S, HOST_SEQUENCE_S = "host_step_s", "host_sequence_s"
"""Entries of theta that the equations take beside the constants: one stack's host time."""


def alone(theta: Values) -> dict[str, Number]:
    """theta for an operator that runs by itself: its operands start and end in HBM, and nothing
    before it can prefetch them."""
    return {
        **theta,
        "prologue_exposed_fraction": 1.0,
        "step_mxu_fraction": 1.0,
        "dma_latency_exposed_fraction": 1.0,
        "activation_resident_fraction": 0.0,
    }


def microbenchmark_step(
    equation: str, parts: Values, n: Values, static: Values, theta: Values
) -> StepTime:
    """The step of the one operator that a microbenchmark runs."""
    axes: dict[str, Any] = {}
    op: Matmul | Vector | Collective
    if equation == "hbm_copy":
        op = Vector(name="copy", count=1.0, vpu_ops=0.0, hbm_bytes=n["bytes_moved"])
    elif equation == "collective":
        links = fabric(parts["chip"], theta, (n["torus_x"], n["torus_y"], n["torus_z"]))
        axes = lay_out(links, {"group": (1.0, n["group"])})
        op = Collective(
            name="collective",
            count=1.0,
            kind=static["op"],
            axis="group",
            payload_bytes=n["payload_bytes"],
            hides="nothing",
        )
    else:
        op = Matmul(name="matmul", count=1.0, m=n["m"], k=n["k"], n=n["n"])
    (step,) = time_steps(parts["chip"], alone(theta), axes, [[op]])
    return step


def matmul(parts: Values, n: Values, static: Values, theta: Values) -> Result:
    """Seconds of one matmul; a host-timed one includes its dispatch."""
    step = microbenchmark_step("matmul", parts, n, static, theta)
    return step.seconds + n["host"] * theta["host_dispatch_s"], 0.0


def blocked_matmul_s(case: Any, theta: Mapping[str, float]) -> float:
    """Seconds of a matmul whose blocks are stated, by the tile rung, which plays such blocks."""
    from hwmodel.tilesim.single import matmul_s

    n, blocks = case.numbers, dict(case.static)["blocks"]
    device = matmul_s(case.parts["chip"], alone(theta), n["m"], n["k"], n["n"], blocks=blocks)
    return device + n["host"] * theta["host_dispatch_s"]


def hbm_copy(parts: Values, n: Values, static: Values, theta: Values) -> Result:
    """Seconds to read and write `bytes_moved` in all."""
    return microbenchmark_step("hbm_copy", parts, n, static, theta).seconds, 0.0


def collective(parts: Values, n: Values, static: Values, theta: Values) -> Result:
    """Seconds of one collective over neighbouring chips."""
    return microbenchmark_step("collective", parts, n, static, theta).seconds, 0.0


def trained(parts: Values, theta: Values) -> TrainingPoint:
    """The training step of a case."""
    return _evaluated(evaluate_training, parts, "training", theta)


def served(parts: Values, theta: Values) -> Point:
    """The prefill and decode steps of a case."""
    return _evaluated(evaluate, parts, "workload", theta)


def _evaluated(evaluation: Any, parts: Values, work: str, theta: Values) -> Any:
    names = ("chip", "architecture", "variant", "deployment", work)
    return evaluation(*(parts[name] for name in names), theta, jnp.nan)


def training(parts: Values, n: Values, static: Values, theta: Values) -> Result:
    """A training step, in the form in which its metric is published."""
    point = trained(parts, theta)
    step_s, forward_s = point.metrics["train_step_s"], point.metrics["forward_step_s"]
    return _training_value(static["metric"], step_s, forward_s, n, parts), 0.0


def _training_value(
    metric: str, step_s: Number, forward_s: Number, n: Values, parts: Values
) -> Number:
    if metric == "forward":
        return forward_s
    if metric == "mlperf_block_s":
        return n["steps"] * step_s + n["evaluations"] * forward_s
    if metric == "step_s":
        return step_s
    achieved = n["flops"] / step_s / parts["deployment"].chips
    if metric == "mfu":
        return achieved / parts["chip"].peak_bf16_flops
    return achieved / 1e12


def serving(parts: Values, n: Values, static: Values, theta: Values) -> Result:
    """Steady-state serving, with the host time of the software in every step."""
    d, w = parts["deployment"], parts["workload"]
    point = served(parts, theta)
    prompt_s, prompts_s, decode_s, cycle_s = cycle(parts, point.metrics, static["mixed"], theta)
    if static["metric"] == "tpot_s" and static["kind"] == "serve":
        value = (cycle_s - prompt_s) / w.output_tokens
    else:
        value = {
            "ttft_s": n["clients"] * prompt_s / d.request_groups,  # clients that only prefill
            "itl_s": decode_s,
            "tpot_s": decode_s,
            "latency_s": prompts_s if static["kind"] == "prefill" else w.output_tokens * decode_s,
            "out_tok_s_total": d.batch * w.output_tokens / cycle_s,
            "tok_s_total": d.batch * (w.prompt_tokens + w.output_tokens) / cycle_s,
        }[static["metric"]]
    return value, sequences_in_memory(parts, point, theta)


def cycle(
    parts: Values, metrics: Mapping[str, Number], mixed: bool, theta: Values
) -> tuple[Number, Number, Number, Number]:
    """Seconds, with the software's host time, of one prompt, of the prompts of all sequences, of a
    decode step, and of the time in which every sequence completes one request."""
    d, w = parts["deployment"], parts["workload"]
    host_s, sequence_s = theta[HOST_STEP_S], theta[HOST_SEQUENCE_S]
    sequences = d.batch / d.data
    decode_s = metrics["decode_step_s"] + host_s + sequence_s * sequences
    chunk_s = metrics["prefill_step_s"] + host_s + sequence_s
    if mixed:
        # A chunk rides on a decode step: weights are read, and the host works, once for both.
        read_s = metrics["weight_bytes_per_chip"] / (
            parts["chip"].hbm_bandwidth_bytes_per_s * theta["hbm_sustained_fraction"]
        )
        chunk_s = jnp.maximum(metrics["prefill_step_s"] - read_s, 0.0) + sequence_s
    prompt_s = prefill_phase(d, w).steps * chunk_s
    prompts_s = sequences * prompt_s / d.request_groups
    return prompt_s, prompts_s, decode_s, prompts_s + w.output_tokens * decode_s


def sequences_in_memory(parts: Values, point: Point, theta: Values) -> Number:
    """How many sequences of full length the KV cache of all chips holds, at least one."""
    d = parts["deployment"]
    per_sequence = kv_bytes_per_sequence_per_chip(
        parts["architecture"], parts["variant"], d, parts["workload"]
    )
    cached = per_sequence * d.microbatch_per_group * d.pipeline
    usable = usable_hbm_bytes(parts["chip"], theta)
    fit = jnp.floor((usable - (point.metrics["hbm_used_bytes"] - cached)) / per_sequence)
    return jnp.maximum(fit, 1.0) * d.data * d.request_groups


EQUATIONS: dict[str, Callable[[Values, Values, Values, Values], Result]] = {
    "matmul": matmul,
    "hbm_copy": hbm_copy,
    "collective": collective,
    "training": training,
    "serving": serving,
}
