"""The plain roofline on the same rows: what the model has to beat.

max(FLOPs / peak, bytes / bandwidth) with published peaks, perfect scaling over chips, and nothing
else: no tiles, launches, collectives, recomputation or overlap. For a training step the FLOPs are
the model FLOPs (6 per weight and token, and attention over what each token sees), for serving a
request's prefill and decode steps are bound one by one.
"""

from __future__ import annotations

from typing import Any

from dse.validation.cases import Case
from dse.validation.model_cases import needed_flops_per_token
from models.architecture import (
    kv_bytes_per_token,
    parameters_active,
    parameters_total,
)


def bounds(case: Case) -> tuple[float, float]:
    """(roofline, peak alone) of a case, in the unit of its metric."""
    if case.equation == "training":
        compute, memory, unit = _training(case)
    elif case.equation == "serving":
        return _serving(case)
    else:
        compute, memory, unit = _operator(case)
    peak = compute if compute > 0 else memory
    return unit(max(compute, memory)), unit(peak)


def _operator(case: Case) -> tuple[float, float, Any]:
    n, chip = case.numbers, case.parts["chip"]
    if case.equation in ("matmul", "blocked_matmul"):
        flops = 2 * n["m"] * n["k"] * n["n"]
        moved = 2 * (n["m"] * n["k"] + n["k"] * n["n"] + n["m"] * n["n"])
        seconds = flops / chip.peak_bf16_flops
        per_second = case.measurement.metric_std == "tflops_per_device"
        unit = (lambda s: flops / s / 1e12) if per_second else float
        return seconds, moved / chip.hbm_bandwidth_bytes_per_s, unit
    if case.equation == "hbm_copy":
        moved = n["bytes_moved"]
        return 0.0, moved / chip.hbm_bandwidth_bytes_per_s, lambda s: moved / s
    received = n["payload_bytes"] * (n["group"] - 1) / n["group"]
    rate = case.measurement.metric_std == "bandwidth_bytes_per_s"
    return (
        0.0,
        received / chip.ici_bandwidth_bytes_per_s,
        (lambda s: received / s) if rate else float,
    )


def _training(case: Case) -> tuple[float, float, Any]:
    chip, arch = case.parts["chip"], case.parts["architecture"]
    t, d = case.parts["training"], case.parts["deployment"]
    metric = dict(case.static)["metric"]
    tokens = t.sequence_tokens * t.global_batch
    step = tokens * needed_flops_per_token(arch, t.sequence_tokens, t.causal)
    forward = step / 3
    flops = forward if metric == "forward" else step
    if metric == "mlperf_block_s":
        flops = case.numbers["steps"] * step + case.numbers["evaluations"] * forward
    width = 8 if case.parts["variant"].compute_format > 0 else 16
    rate = {16: 1.0, 8: max(chip.fp8_rate, chip.int8_rate, 1.0)}[width]
    compute = flops / (chip.peak_bf16_flops * rate) / d.chips
    # Weights once forward and once backward, master weights and moments read and written.
    moved = parameters_total(arch) * (4 + 2 * (t.master_weight_bits + t.moment_bits) / 8)
    memory = moved / d.chips / chip.hbm_bandwidth_bytes_per_s

    def unit(seconds: float) -> float:
        if metric == "mfu":
            return case.numbers["flops"] / seconds / d.chips / float(chip.peak_bf16_flops)
        if metric == "tflops_per_chip":
            return case.numbers["flops"] / seconds / d.chips / 1e12
        return seconds

    return compute, memory, unit


def _serving(case: Case) -> tuple[float, float]:
    return _serving_value(case, memory=True), _serving_value(case, memory=False)


def _serving_value(case: Case, memory: bool) -> float:
    chip, arch, v = case.parts["chip"], case.parts["architecture"], case.parts["variant"]
    d, w = case.parts["deployment"], case.parts["workload"]
    rate = max(chip.fp8_rate, chip.int8_rate, 1.0) if v.compute_format > 0 else 1.0
    flops = 2 * parameters_active(arch)
    weights = parameters_active(arch) * v.weight_bits / 8
    cache = kv_bytes_per_token(arch, v.kv_bits) * (w.prompt_tokens + w.output_tokens / 2)

    def step(tokens: float, moved: float) -> float:
        compute = tokens * flops / (chip.peak_bf16_flops * rate)
        bound = moved / chip.hbm_bandwidth_bytes_per_s if memory else 0.0
        return float(max(compute, bound) / d.chips)

    decode = step(d.batch, weights + d.batch * cache)
    prompt = step(w.prompt_tokens, weights)
    cycle = d.batch * prompt + w.output_tokens * decode
    static = dict(case.static)
    return float(
        {
            "ttft_s": case.numbers["clients"] * prompt,
            "itl_s": decode,
            "tpot_s": decode if static["kind"] == "decode" else cycle / w.output_tokens,
            "latency_s": d.batch * prompt
            if static["kind"] == "prefill"
            else w.output_tokens * decode,
            "out_tok_s_total": d.batch * w.output_tokens / cycle,
            "tok_s_total": d.batch * (w.prompt_tokens + w.output_tokens) / cycle,
        }[static["metric"]]
    )
