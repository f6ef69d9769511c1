"""Predictions of measured GPU kernels by the model's own equations, a whole table at a time.

Each function maps one row of `dse.validation.gpu_data` to the operator that the model times and
calls the function that `hwmodel.step` calls for it; the rows run under `vmap`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from dse.validation.gpu_data import expert_loads
from hwmodel.chip import Chip
from hwmodel.presets import load
from hwmodel.theta import Theta
from hwmodel.thread_block_attention import decode, prefill
from hwmodel.thread_block_collectives import collective
from hwmodel.thread_blocks import (
    FORMATS,
    MOE_FORMATS,
    BlockRates,
    block_rates,
    matmul_path,
    moe_path,
    product,
    routing_s,
)

Number = Any
Columns = Mapping[str, Any]

GEMM_FORMATS = {
    "bfloat16": "16bit",
    "fp8_block": "8bit_block",
    "fp8": "8bit_tensor",
    "nvfp4": "4bit",
}
"""Formats of the measured matmuls as code paths of the model."""
_MOE = {"bfloat16": "16bit", "fp8": "8bit", "w4a8_mxfp4_mxfp8": "4bit"}
_WEIGHT_BYTES = {"bfloat16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 4.5 / 8}
_WEIGHT_BYTES["w4a8_mxfp4_mxfp8"] = 4.25 / 8  # one 8-bit scale for 32 weights; nvfp4: for 16
_WAYS = {
    "all_reduce": "sum",
    "all_gather": "gather",
    "reduce_scatter": "gather",
    "alltoall": "exchange",
}
_WAY_NAMES = sorted(set(_WAYS.values()))


def columns(kind: str, frame: pd.DataFrame) -> dict[str, np.ndarray]:
    """The numbers of each row that the equations need, arrays [rows] (`loads`: [rows, experts])."""
    out = _NUMBERS[kind](frame)
    chips = {name: load(name) for name in frame["chip"].unique()}
    for field in _CHIP_FIELDS:
        out[f"chip.{field}"] = _by_chip(frame, chips, operator.attrgetter(field))
    return {key: np.asarray(value, float) for key, value in out.items()}


def seconds(kind: str, numbers: Columns, theta: Theta) -> np.ndarray:
    """Predicted seconds of every row of `columns(kind, ...)`, shape [rows]."""
    with jax.enable_x64(True):
        return np.asarray(_compiled(kind)(numbers, dict(theta)))


def bounds(kind: str, numbers: Columns) -> tuple[np.ndarray, np.ndarray]:
    """(roofline, peak alone) of every row, seconds: max(FLOPs / peak, bytes / bandwidth) with
    published peaks, and FLOPs / peak (bytes / bandwidth where the work has no FLOPs)."""
    if kind == "gpu_collective":
        share = (numbers["ranks"] - 1) / numbers["ranks"]
        halves = np.where(numbers["way"] == _WAY_NAMES.index("sum"), 2.0, 1.0)
        wire = numbers["payload_bytes"] * share * halves / numbers["bandwidth"]
        return wire, wire
    macs, moved, speed = _WORK[kind](numbers)
    compute = macs / (numbers["chip.macs_per_cycle"] * numbers["chip.clock_hz"] * speed)
    return np.maximum(compute, moved / numbers["chip.hbm_bandwidth_bytes_per_s"]), compute


def _gemm_work(n: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    moved = (n["m"] * n["k"] + n["n"] * n["k"]) * n["bytes"] + 2 * n["m"] * n["n"]
    return n["m"] * n["n"] * n["k"], moved, n["speed"]


def _moe_work(n: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, hit = n["loads"].sum(1), np.minimum(n["loads"], 1).sum(1)
    weights = n["hidden"] * n["width"] * (2 + n["gated"])
    moved = hit * weights * n["weight_bytes"] + rows * n["hidden"] * (n["input_bytes"] + 2)
    return rows * weights, moved, n["speed"]


def _attention_work(n: Columns) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    width = n["qk_width"] + n["v_width"]
    macs = n["groups"] * n["rows"] * n["length"] * width
    moved = n["groups"] * (n["kv_bytes"] + n["rows"] * width * 2)
    return macs, moved, np.where(n["kv_elements_converted"] > 0, 2.0, 1.0)


_WORK = {
    "gpu_gemm": _gemm_work,
    "gpu_prefill_attention": _attention_work,
    "gpu_decode_attention": _attention_work,
    "gpu_moe": _moe_work,
}


@functools.cache
def _compiled(kind: str) -> Callable[[Columns, Theta], Any]:
    return jax.jit(jax.vmap(_EQUATIONS[kind], in_axes=(0, None)))


_CHIP_FIELDS = (
    "cores",
    "clock_hz",
    "compute_dies",
    "mxu_row_tile",
    "macs_per_cycle",
    "bf16_rows_per_cycle",
    "vpu_ops_per_s",
    "hbm_bandwidth_bytes_per_s",
)


class _RowChip:
    """The chip of one row: the fields and derived rates that `block_rates` reads."""

    def __init__(self, row: Columns) -> None:
        for field in _CHIP_FIELDS:
            setattr(self, field, row[f"chip.{field}"])


def _rates(row: Columns) -> BlockRates:
    found = block_rates(_RowChip(row))  # type: ignore[arg-type]  # same attributes, traced
    assert found is not None
    return found


def _by_chip(
    frame: pd.DataFrame, chips: Mapping[str, Chip], value: Callable[[Chip], float]
) -> np.ndarray:
    return np.array([value(chips[name]) for name in frame["chip"]])


def _gemm_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    chips = {name: load(name) for name in frame["chip"].unique()}
    code = frame["gemm_dtype"].map(GEMM_FORMATS).map(FORMATS.index)
    return {
        **{c: frame[c] for c in ("m", "n", "k")},
        "format": code,
        "bytes": frame["gemm_dtype"].map(_WEIGHT_BYTES),
        "speed": np.choose(
            code,
            [
                np.ones(len(frame)),
                *[_by_chip(frame, chips, lambda c: c.fp8_rate)] * 2,
                _by_chip(frame, chips, lambda c: c.int4_rate),
            ],
        ),
    }


def _gemm(row: Columns, theta: Theta) -> Number:
    paths = [matmul_path(theta, f, row["speed"], row["bytes"], row["bytes"]) for f in FORMATS]
    path = _choose(row["format"], paths)
    one = jnp.ones(1)
    done = product(_rates(row), theta, path, row["m"] * one, one, row["n"], row["k"])
    return done["time_s"]


def _choose(code: Number, paths: list[Any]) -> Any:
    """The path of number `code`, field by field."""
    kind = type(paths[0])
    fields = {
        f: jnp.stack([jnp.asarray(getattr(p, f), float) for p in paths])[code.astype(int)]
        for f in kind.__dataclass_fields__
    }
    return kind(**fields)


def _moe_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    chips = {name: load(name) for name in frame["chip"].unique()}
    names = ("num_tokens", "num_experts", "topk", "moe_ep_size", "distribution")
    loads = [expert_loads(*row) for row in zip(*(frame[c] for c in names), strict=True)]
    padded = np.zeros((len(frame), max(len(x) for x in loads)))
    for i, x in enumerate(loads):
        padded[i, : len(x)] = x
    code = frame["moe_dtype"].map(_MOE).map(MOE_FORMATS.index)
    return {
        "loads": padded,
        "tokens": frame["num_tokens"],
        "experts": frame["num_experts"],
        "hidden": frame["hidden_size"],
        "width": frame["inter_size"] / frame["moe_tp_size"],
        "gated": ~frame["kernel_source"].str.endswith("nongated"),
        "format": code,
        "weight_bytes": frame["moe_dtype"].map(_WEIGHT_BYTES),
        "input_bytes": np.where(code == 0, 2.0, 1.0),  # 4-bit weights meet 8-bit inputs
        "speed": np.where(code == 0, 1.0, _by_chip(frame, chips, lambda c: c.fp8_rate)),
    }


def _moe(row: Columns, theta: Theta) -> Number:
    paths = [
        moe_path(theta, f, row["speed"], row["weight_bytes"], row["input_bytes"])
        for f in MOE_FORMATS
    ]
    path, b = _choose(row["format"], paths), _rates(row)
    counts = jnp.ones_like(row["loads"])
    wide = row["width"] * (1 + row["gated"])
    up = product(b, theta, path, row["loads"], counts, wide, row["hidden"], routed=True)
    down = product(b, theta, path, row["loads"], counts, row["hidden"], row["width"], routed=True)
    routed_s = routing_s(b, theta, row["tokens"], row["experts"])
    return up["time_s"] + down["time_s"] + routed_s


def _attention_numbers(frame: pd.DataFrame, decoding: bool) -> dict[str, Any]:
    heads, kv_heads = frame["num_heads"], frame["num_key_value_heads"]
    tokens = np.ones(len(frame)) if decoding else frame["isl"].to_numpy(float)
    last = frame["step"] + 1 if decoding else frame["isl"]
    window = np.where(frame["window_size"] > 0, np.minimum(frame["window_size"], last), last)
    # Positions before the window is full see as many tokens as there are.
    seen = window * (window + 1) / 2 + (last - window) * window
    length = window if decoding else seen / last
    width = frame["head_dim"].to_numpy(float)
    element = np.where(frame["kv_cache_dtype"] == "fp8", 1.0, 2.0)
    return {
        "groups": frame["batch_size"] * kv_heads,
        "rows": heads / kv_heads * tokens,
        "length": length,
        "qk_width": width,
        "v_width": width,
        "kv_bytes": (length if decoding else tokens) * 2 * width * element,
        "kv_elements_converted": np.where(element < 2, length * 2 * width, 0.0),
        "softmax": np.ones(len(frame)),
        "query_tokens": np.zeros(len(frame)) if decoding else tokens,
        "window": frame["window_size"],
    }


def _attention(row: Columns, theta: Theta, decoding: bool) -> Number:
    equations = decode if decoding else prefill
    return equations(_rates(row), theta, row)["time_s"]


def _collective_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    chips = {name: load(name) for name in frame["chip"].unique()}
    halves = frame["nccl_dtype"] == "half"
    return {
        "way": frame["op_name"].map(_WAYS).map(_WAY_NAMES.index),
        "ranks": frame["num_gpus"],
        "payload_bytes": frame["message_size"] * np.where(halves, 2.0, 1.0),
        "summed_in_switch": halves,
        "bandwidth": _by_chip(frame, chips, lambda c: c.ici_bandwidth_bytes_per_s),
        "hop_s": _by_chip(frame, chips, lambda c: c.ici_hop_latency_s),
    }


def _collective(row: Columns, theta: Theta) -> Number:
    times = []
    for way in _WAY_NAMES:
        done = collective(
            theta,
            way,  # type: ignore[arg-type]  # one of its literals
            row["ranks"],
            row["payload_bytes"],
            row["bandwidth"],
            row["hop_s"],
            row["summed_in_switch"],
        )
        times.append(done["transfer_s"] + done["latency_s"])
    return jnp.stack(times)[row["way"].astype(int)]


_NUMBERS: dict[str, Callable[[pd.DataFrame], dict[str, Any]]] = {
    "gpu_gemm": _gemm_numbers,
    "gpu_prefill_attention": functools.partial(_attention_numbers, decoding=False),
    "gpu_decode_attention": functools.partial(_attention_numbers, decoding=True),
    "gpu_moe": _moe_numbers,
    "gpu_collective": _collective_numbers,
}
_EQUATIONS: dict[str, Callable[[Columns, Theta], Number]] = {
    "gpu_gemm": _gemm,
    "gpu_prefill_attention": functools.partial(_attention, decoding=False),
    "gpu_decode_attention": functools.partial(_attention, decoding=True),
    "gpu_moe": _moe,
    "gpu_collective": _collective,
}
