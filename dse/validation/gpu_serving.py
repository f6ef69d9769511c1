"""Measured GPU deployments against the model's serving evaluation, as records.

A row of the table becomes a deployment of a catalog model on a preset: expert and tensor degrees as
stated, `batch_size` sequences for each attention replica. Aggregated deployments are predicted in
steady state, disaggregated ones as a prefill and a decode pool. The measured time to first token
includes queueing, which the model leaves out. What the table does not state is assumed: prompts of
at most 8192 tokens a prefill step, a 16-bit cache, balanced experts.

One pair of host times per backend and version, fitted on half of its rows
(`hwmodel/calibration/gpu/hosts.yaml`, `python -m dse.validation.fit_gpu_hosts`), is added to the
time per output token where `with_host`. It is off unless asked for: most pairs are zero, and on
held-out models the others do not help.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from dse.scoring.shapes import Shape, join, paths, split
from dse.validation.compiled import COMPILER_OPTIONS, is_neutral
from dse.validation.counting import counting
from dse.validation.features import step_features
from dse.validation.gpu_data import PACKAGE, read
from dse.validation.record import Record
from hwmodel.chip import CHIP_FIELDS, Chip
from hwmodel.ops import BF16, FP8, INT4
from hwmodel.presets import load
from hwmodel.theta import Theta

CHUNK_TOKENS = 8192.0
"""Prompt tokens of one prefill step: the default budget of the three serving stacks."""
FORMATS = {"fp8": (8.0, 8.0, FP8), "fp4": (4.5, 4.0, INT4), "int4": (4.0, 16.0, BF16)}
"""Stored bits per weight, bits per input and matrix format of each stated precision."""
NAMES = {"zhipuai/GLM-5": "GLM-5", "nvidia/Llama-3.1-8B-Instruct-FP8": "Llama-3.1-8B"}
"""Catalog names where the part after the slash is not one."""
SOURCE = f"{PACKAGE} serving"


@dataclass(frozen=True)
class Point:
    """One pool of one measured deployment: a worker of `chips` chips."""

    row: int
    what: tuple[str, ...]
    model: str
    chip: str
    numbers: Mapping[str, float]


def records(theta: Theta, limit: int | None = None, with_host: bool = False) -> list[Record]:
    """Two records a deployment, time to first token and time per output token, in seconds."""
    rows: list[dict[str, Any]] = read("serving")[:limit].to_dict("records")  # type: ignore[assignment]
    points, reasons = _points(rows)
    values = _evaluate(points, theta)
    pairs = hosts() if with_host else {}
    found = []
    for i, row in enumerate(rows):
        stack = f"{row['backend']} {row['backend_version']}"
        host = pairs.get(stack, {"step_s": 0.0, "sequence_s": 0.0})
        for what in ("ttft", "tpot"):
            measured = row[f"silicon_{what}_ms"]
            predicted, roofline, numbers = values.get((i, what), (None, None, {}))
            if predicted is not None and what == "tpot":
                predicted += host["step_s"] + host["sequence_s"] * numbers["sequences"]
            found.append(
                Record(
                    id=f"{row['id']}:{what}",
                    source=SOURCE,
                    stack=stack,
                    tpu=row["system"].removesuffix("_sxm"),
                    kind=f"gpu_{what}",
                    model=row["model_path"],
                    confidence="B",
                    predicted=predicted,
                    measured=measured * 1e-3,
                    unit="s",
                    roofline=roofline,
                    reason_if_skipped=reasons.get(i, ""),
                    features=numbers.get("features", {}),
                )
            )
    return found


@functools.cache
def hosts() -> dict[str, dict[str, float]]:
    """Host seconds per step and per sequence and step, by backend and version."""
    import yaml

    file = resources.files("hwmodel").joinpath("calibration", "gpu", "hosts.yaml")
    loaded: dict[str, dict[str, float]] = yaml.safe_load(file.read_text()) or {}
    return loaded


def _points(rows: list[dict[str, Any]]) -> tuple[list[Point], dict[int, str]]:
    """What can be evaluated, and why the other rows cannot."""
    points: list[Point] = []
    reasons: dict[int, str] = {}
    for i, row in enumerate(rows):
        pools: dict[str, tuple[str, ...]] = {"": ("ttft", "tpot")}
        if row["mode"] == "disagg":
            pools = {"prefill_": ("ttft",), "decode_": ("tpot",)}
        made = []
        for prefix, what in pools.items():
            numbers = _numbers(row, prefix)
            if isinstance(numbers, str):
                reasons[i] = numbers
                break
            made.append(Point(i, what, _catalog_name(row["model_path"]), row["system"], numbers))
        else:
            points += made
    return points, reasons


def _numbers(row: Mapping[str, Any], prefix: str) -> dict[str, float] | str:
    """Degrees, sizes and formats of one pool, or the reason why they are not known."""
    if not isinstance(row["precision"], str):
        return "precision is not stated"
    if not _catalog_name(row["model_path"]):
        return f"model_path: {row['model_path']} is not in the catalog"
    names = ("batch_size", "tp_size", "moe_tp_size", "moe_ep_size")
    stated = {name: float(row[prefix + name]) for name in names}
    for name, value in stated.items():
        if not value > 0:
            return f"{prefix}{name} is not stated"
    replicas = float(row[prefix + "attention_dp_size"])
    replicas = replicas if replicas > 0 else 1.0
    tensor, expert = stated["moe_tp_size"], stated["moe_ep_size"]
    if _dense(_catalog_name(row["model_path"])):
        tensor, expert = stated["tp_size"] * replicas, 1.0
    elif tensor * expert != stated["tp_size"] * replicas:
        return f"{prefix}moe_tp_size x moe_ep_size differs from tp_size x attention_dp_size"
    weight_bits, activation_bits, code = FORMATS[row["precision"]]
    return {
        "tensor": tensor,
        "expert": expert,
        "attention_data": replicas,
        "batch": stated["batch_size"] * replicas,
        "prompt_tokens": float(row["isl"]),
        "output_tokens": float(row["osl"]),
        "weight_bits": weight_bits,
        "activation_bits": activation_bits,
        "compute_format": code,
        "steady": float(prefix == ""),
    }


@functools.cache
def _catalog_name(path: str) -> str:
    """The catalog's name of a model, or nothing."""
    from models.huggingface import UnknownModelError
    from models.huggingface.catalog import resolve

    try:
        return resolve(NAMES.get(path, path.rsplit("/", 1)[1]))
    except UnknownModelError:
        return ""


@functools.cache
def _architecture(name: str) -> Any:
    from models.huggingface import load as load_model

    return load_model(name)


def _dense(name: str) -> bool:
    from models.architecture import MoE

    return not any(isinstance(f, MoE) for f in _architecture(name).feed_forwards)


def _evaluate(
    points: list[Point], theta: Theta
) -> dict[tuple[int, str], tuple[float, float, dict[str, Any]]]:
    """Seconds, roofline and numbers by row and quantity; one compilation per kind of model."""
    from dse.scoring.cache import enable_compilation_cache

    enable_compilation_cache()
    groups: dict[Shape, list[tuple[Point, NDArray[np.float64]]]] = {}
    for p in points:
        shape, widths = _split(p.model)
        groups.setdefault(shape, []).append((p, widths))
    found = {}
    with counting("measured GPU deployments", len(points)) as count:
        for shape, mine in groups.items():
            chips = [load(p.chip.removesuffix("_sxm")) for p, _ in mine]
            names = sorted(mine[0][0].numbers)
            columns = {name: np.array([p.numbers[name] for p, _ in mine]) for name in names}
            fields = {f: np.array([getattr(c, f) for c in chips]) for f in _CHIP_NUMBERS}
            out = _seconds(shape, np.stack([n for _, n in mine]), columns, fields, theta)
            for i, (p, _) in enumerate(mine):
                numbers = _place(p, chips[i])
                for what in p.what:
                    seconds = float(out[what][i]), float(out[f"roofline_{what}"][i])
                    found[p.row, what] = (*seconds, numbers)
            count(len(mine))
    return found


def _place(p: Point, chip: Chip) -> dict[str, Any]:
    """Sequences of a replica, and the features of a deployment."""
    tokens = p.numbers["batch"]
    sequences = tokens / p.numbers["attention_data"]
    features = step_features(
        float(chip.peak_bf16_flops),
        float(chip.hbm_bandwidth_bytes_per_s),
        p.numbers["tensor"] * p.numbers["expert"],
        tokens,
    )
    return {
        "sequences": sequences,
        "features": features | {"log_sequences": math.log(sequences)},
    }


_CHIP_NUMBERS = tuple(f for f in CHIP_FIELDS if f != "cmem_bytes")  # no GPU has such a memory
PADDED = 64
"""Rows of one call: one compilation serves any number of rows."""


@functools.cache
def _split(model: str) -> tuple[Shape, NDArray[np.float64]]:
    """The shape of a model, and its numbers: weights at work and cache bytes of a token first."""
    from models.architecture import kv_bytes_per_token, parameters_active

    arch = _architecture(model)
    values = [float(parameters_active(arch)), float(kv_bytes_per_token(arch, 16.0))]
    shape, widths = split(arch, is_neutral)
    return shape, np.array([*values, *widths.values()])


def _seconds(
    shape: Shape,
    models: NDArray[np.float64],
    columns: dict[str, np.ndarray],
    fields: dict[str, np.ndarray],
    theta: Theta,
) -> dict[str, np.ndarray]:
    count = len(models)
    pieces = []
    with jax.enable_x64(True):
        for start in range(0, count, PADDED):
            take = np.minimum(np.arange(start, start + PADDED), count - 1)
            done = _compiled(shape)(
                models[take],
                {k: v[take] for k, v in columns.items()},
                {k: v[take] for k, v in fields.items()},
                dict(theta),
            )
            pieces.append({k: np.asarray(v)[: count - start] for k, v in done.items()})
    return {k: np.concatenate([p[k] for p in pieces]) for k in pieces[0]}


@functools.cache
def _compiled(shape: Shape) -> Any:
    from models.architecture import MoE
    from models.deployment import Deployment
    from models.performance import evaluate
    from models.variants import Variant
    from models.workload import Workload

    def one(
        model: Any, n: Mapping[str, Any], fields: Mapping[str, Any], theta: Theta
    ) -> dict[str, Any]:
        active, cached, *numbers = (model[i] for i in range(model.shape[0]))
        arch = join(shape, dict(zip(paths(shape), numbers, strict=True)))
        routed = any(isinstance(f, MoE) for f in arch.feed_forwards)
        chip = Chip(**fields, cmem_bytes=0.0)
        chips = n["tensor"] * n["expert"]
        deployment = Deployment(
            tensor=n["tensor"],
            expert=n["expert"] if routed else 1.0,
            attention_data=n["attention_data"],
            torus_x=chips,
            batch=n["batch"],
            prefill_chunk_tokens=jax.numpy.minimum(n["prompt_tokens"], CHUNK_TOKENS),
        )
        variant = Variant(
            weight_bits=n["weight_bits"],
            activation_bits=n["activation_bits"],
            compute_format=n["compute_format"],
        )
        workload = Workload(prompt_tokens=n["prompt_tokens"], output_tokens=n["output_tokens"])
        metrics = evaluate(chip, arch, variant, deployment, workload, theta, np.nan).metrics
        rate = jax.numpy.where(n["compute_format"] == FP8, chip.fp8_rate, 1.0)
        rate = jax.numpy.where(n["compute_format"] == INT4, chip.int4_rate, rate)
        token_s = 2 * active / (chip.peak_bf16_flops * jax.numpy.maximum(rate, 1.0))
        entries = n["batch"] * (n["prompt_tokens"] + n["output_tokens"] / 2)
        moved = active * n["weight_bits"] / 8 + entries * cached
        decode = jax.numpy.maximum(n["batch"] * token_s, moved / chip.hbm_bandwidth_bytes_per_s)
        steady = n["steady"] > 0
        pool_s = metrics["decode_step_s"]
        return {
            "ttft": metrics["ttft_s"],
            "tpot": jax.numpy.where(steady, metrics["tpot_s"], pool_s),
            "roofline_ttft": n["prompt_tokens"] * token_s / chips,
            "roofline_tpot": decode / chips,
        }

    return jax.jit(jax.vmap(one, in_axes=(0, 0, 0, None)), compiler_options=COMPILER_OPTIONS)
