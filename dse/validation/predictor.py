"""Predictions for the measured rows, as records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dse.scoring.cache import enable_compilation_cache
from dse.validation import measurements, roofline
from dse.validation.cases import Case, case
from dse.validation.compiled import Compiled, compile_case
from dse.validation.equations import HOST_SEQUENCE_S, HOST_STEP_S, blocked_matmul_s
from dse.validation.features import case_features, features_by_class
from dse.validation.hosts import NONE, HostTime, host_time, stack_key
from dse.validation.measurements import METRICS, Measurement, MissingField, more_is_better
from dse.validation.possible import beyond_peak
from dse.validation.record import Record
from hwmodel import theta as constants


@dataclass(frozen=True)
class Prepared:
    """A row ready to be predicted, or why it cannot be."""

    measurement: Measurement
    case: Case | None
    reason: str = ""


def records(
    measurements_file: Path | None = None,
    theta: Mapping[str, float] | None = None,
    with_host: bool = True,
) -> list[Record]:
    """A record for every row of the file (of the package's own, without one), in its order.

    `theta` replaces constants by name. `with_host` False leaves the serving stacks' host times out.
    Raises UserError where the file cannot be understood.
    """
    enable_compilation_cache()
    rows = measurements.read(measurements_file) if measurements_file else measurements.published()
    values = constants.central() | dict(theta or {})
    return [record(prepare(row), values, with_host) for row in rows]


def prepare(m: Measurement) -> Prepared:
    """The case of a row, or the field that is missing."""
    try:
        return Prepared(m, case(m))
    except MissingField as error:
        return Prepared(m, None, str(error))


def record(p: Prepared, theta: Mapping[str, float], with_host: bool = True) -> Record:
    """The record of a prepared row under theta, a value for every constant."""
    m, c = p.measurement, p.case
    plain = Record(
        id=m.id,
        source=m.source,
        stack=stack_key(m),
        tpu=m.tpu,
        kind=c.kind if c else _kind_of_skipped(m),
        model=m.model,
        confidence=m.confidence,
        predicted=None,
        measured=m.value_std,
        unit=METRICS[m.metric_std],
        higher_is_better=more_is_better(m.metric_std),
        reason_if_skipped=p.reason,
    )
    if c is None:
        return plain
    bound, peak = roofline.bounds(c)
    if impossible := beyond_peak(c, peak):
        return dataclasses.replace(plain, reason_if_skipped=impossible)
    under = with_host_time(theta, host_time(m) if with_host else NONE)
    if c.equation == "blocked_matmul":
        value = blocked_matmul_s(c, under)
    else:
        c, ready = fitting(c, under)
        value, _ = ready.value(np.array(list(under.values())))
        bound, peak = roofline.bounds(c)  # of the sequences that fit
    return dataclasses.replace(
        plain,
        predicted=in_unit(c, value),
        roofline=bound,
        peak=peak,
        bars=_bars(m, c),
        features=_features(c),
        notes="assumed: " + ", ".join(c.assumed) if c.assumed else "",
    )


def with_host_time(theta: Mapping[str, float], host: HostTime) -> dict[str, float]:
    """theta as the equations take it: the constants, then one stack's host time."""
    return {**theta, HOST_STEP_S: host.step_s, HOST_SEQUENCE_S: host.sequence_s}


def fitting(c: Case, theta: Mapping[str, float]) -> tuple[Case, Compiled]:
    """The case with as many running sequences as fit the KV cache, compiled."""
    ready = compile_case(c, tuple(theta))
    if c.equation != "serving":
        return c, ready
    _, most = ready.value(np.array(list(theta.values())))
    deployment = c.parts["deployment"]
    if deployment.batch <= most:
        return c, ready
    parts = {**c.parts, "deployment": dataclasses.replace(deployment, batch=most)}
    c = dataclasses.replace(c, parts=parts)
    return c, compile_case(c, tuple(theta))


def in_unit(c: Case, value: float) -> float:
    """A microbenchmark's time as the rate that was published, and that rate as the time; other
    values are in their unit."""
    n, metric = c.numbers, c.measurement.metric_std
    if metric == "tflops_per_device":
        return 2 * n["m"] * n["k"] * n["n"] / value / 1e12
    if metric == "bandwidth_bytes_per_s":
        moved = n.get("bytes_moved") or n["payload_bytes"] * (n["group"] - 1) / n["group"]
        return moved / value
    return value


def _kind_of_skipped(m: Measurement) -> str:
    if m.operation().get("family") == "diffusion":
        return "diffusion"
    if m.workload_kind == "train":
        moe = "MoE" in m.model or "moe" in m.model or "n_experts" in m.arch
        return "train_moe" if moe else "train_dense"
    return m.workload_kind


def _bars(m: Measurement, c: Case) -> tuple[str, ...]:
    """The lines of the bar table that a row counts for."""
    bars = []
    counted = m.confidence in ("A", "B")
    if c.kind in ("matmul", "matmul_host", "hbm") and counted and m.tpu in ("v5e", "v6e", "v7x"):
        bars.append("microbenchmarks")
    if m.workload_kind == "train" and counted:
        bars.append("train_all_ab")
        if c.kind == "train_dense" and m.confidence == "A" and m.num_slices == 1:
            bars.append("train_dense_a")
    if m.model.startswith("PaLM-540B"):
        bars.append("palm_prefill" if c.kind == "prefill" else "palm_decode")
    elif c.equation == "serving" and counted and m.length_dist == "fixed":
        bars.append("serve_fixed")
    return tuple(bars)


def _features(c: Case) -> dict[str, float]:
    chip, parts = c.parts["chip"], c.parts
    if c.equation == "training":
        return features_by_class(chip, parts["deployment"], parts["training"])["train"]
    if c.equation == "serving":
        found = features_by_class(chip, parts["deployment"], parts["workload"])
        return found["prefill" if c.kind == "prefill" else "decode"]
    return case_features(
        peak_bf16_flops=chip.peak_bf16_flops,
        hbm_bandwidth_bytes_per_s=chip.hbm_bandwidth_bytes_per_s,
    )
