"""Compute operators to seconds: the work of one on each engine, and how the engines overlap.

Inside an operator the engines (MXU, VPU, HBM) overlap with efficiency e: the time is
max + (1 - e) · (sum - max), never less than the busiest engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.attention import attention_cycles, softmax_vpu_ops
from hwmodel.literal import is_zero
from hwmodel.matmul import mxu_cycles
from hwmodel.ops import DENSE_BF16, Numerics, Operator
from hwmodel.rates import MxuFormat, Rates
from hwmodel.rows import Row
from hwmodel.theta import Theta
from hwmodel.thread_block_step import blocked

Number = Any


@dataclass(frozen=True, kw_only=True)
class OperatorTime:
    """One operator, all `count` executions of a step, on one chip. `time_s` is what it adds to the
    step: for collectives the exposed part."""

    name: str
    kind: str
    count: Number
    numerics: Numerics | None = None
    mxu_s: Number = 0.0
    vpu_s: Number = 0.0
    hbm_s: Number = 0.0
    network_s: Number = 0.0
    fixed_s: Number = 0.0
    time_s: Number = 0.0
    flops: Number = 0.0
    hbm_bytes: Number = 0.0
    vmem_bytes: Number = 0.0
    vpu_ops: Number = 0.0
    ici_bytes: Number = 0.0
    dcn_bytes: Number = 0.0


def time_operators(
    r: Rates,
    theta: Theta,
    fmt: MxuFormat,
    ops: Sequence[Operator],
    equations: Callable[[Rates, Theta, MxuFormat, Row], dict[str, Number]],
    apply: Callable[[Callable[[Row], dict[str, Number]], Sequence[Row]], list[dict[str, Number]]],
) -> dict[int, OperatorTime]:
    """Time all compute operators of one kind and format with the same equations, row by row."""
    # Matmuls of serving have no traffic beside the operands: left out, it costs nothing.
    extra = any(not is_zero(getattr(op, "extra_hbm_bytes", 0.0)) for op in ops)
    unused: tuple[str, ...] = () if extra else ("extra_hbm_bytes",)
    if r.blocks is None:
        unused = (*unused, "resident_groups", "query_tokens", "window")
    rows = [
        {
            f.name: getattr(op, f.name)
            for f in dataclasses.fields(op)
            if f.name not in ("name", "numerics", "makes", "in_layers", *unused)
        }
        for op in ops
    ]

    def timed(row: Row) -> dict[str, Number]:
        work = equations(r, theta, fmt, row)
        if "extra_hbm_bytes" in row:
            work["hbm_bytes"] = work["hbm_bytes"] + row["extra_hbm_bytes"]
        done = _engines(r, theta, row["count"], work)
        return blocked(r, theta, fmt, row, work, done) if equations in _BLOCKED else done

    results = apply(timed, rows)
    return {
        id(op): OperatorTime(
            name=op.name,
            kind=type(op).__name__.lower(),
            count=op.count,
            numerics=getattr(op, "numerics", DENSE_BF16),
            **result,
        )
        for op, result in zip(ops, results, strict=True)
    }


def _engines(r: Rates, theta: Theta, count: Number, work: dict[str, Number]) -> dict[str, Number]:
    """Seconds of all executions of one operator from its work on each engine."""
    mxu_s = work["mxu_cycles"] * r.mxu_s_per_cycle
    vpu_s = work["vpu_ops"] * r.vpu_s_per_op
    hbm_s = work["hbm_bytes"] * (r.hbm_s_per_byte * work.get("hbm_slowdown", 1.0))
    e = theta["engine_overlap_fraction"]
    busiest = jnp.maximum(jnp.maximum(mxu_s, vpu_s), hbm_s)
    overlapped = e * busiest + (1 - e) * (mxu_s + vpu_s + hbm_s)
    # First and last blocks: no longer than the transfers, nor than the work that waits for them.
    prologue_s = jnp.minimum(jnp.minimum(hbm_s, jnp.maximum(mxu_s, vpu_s)), r.prologue_s)
    fixed_s = r.operator_fixed_s + work["ramp_s"] + r.prologue_exposed_fraction * prologue_s
    return {
        "mxu_s": count * mxu_s,
        "vpu_s": count * vpu_s,
        "hbm_s": count * hbm_s,
        "fixed_s": count * fixed_s,
        "time_s": count * (overlapped + fixed_s),
        "flops": count * (2 * work["macs"]),
        "hbm_bytes": count * work["hbm_bytes"],
        "vmem_bytes": count * work["vmem_bytes"],
        "vpu_ops": count * work["vpu_ops"],
    }


def matmul(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
    """Work of one execution of a `Matmul` on each engine: cycles, operations, bytes, MACs."""
    rows = op["m"] * op["groups"]
    inputs = rows * op["k"] * fmt.activation_bytes
    outputs = rows * op["n"] * 2.0
    elements = op["k"] * op["n"] * op["groups"]
    read = elements * op["weight_reads"]
    weights = read * fmt.stored_bytes_per_weight
    # What exceeds the room kept for activations between operators goes through HBM.
    activations = inputs + outputs
    spilled = jnp.clip(activations - r.resident_bytes, 0.0, activations)
    # Output blocks of at most `edge` rows and of edge² elements: weights are read once per block
    # row, inputs once per block column.
    block_rows = jnp.minimum(op["m"] * r.block_edge_inverse, 1.0)
    reread = weights * jnp.maximum(op["m"] * r.block_edge_inverse - 1, 0)
    reread = reread + inputs * jnp.maximum(op["n"] * r.block_edge_inverse * block_rows - 1, 0)
    macs = op["m"] * elements
    return {
        "mxu_cycles": mxu_cycles(r, fmt, op["m"], op["k"], op["n"], op["groups"])
        * (1 + op["ragged"] * r.ragged_slowdown),
        "vpu_ops": op["vpu_ops"] + read * fmt.vpu_ops_per_weight,
        "hbm_bytes": weights + spilled + reread,
        "macs": macs,
        "vmem_bytes": macs * r.mxu_cols_inverse * fmt.activation_bytes + weights + outputs,
        "ramp_s": fmt.ramp_s,
    }


def attention(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
    """Work of one execution of an `Attention`. Scores that the mask hides cost time and are no
    MACs; pages of a cache slow reading and computing."""
    cache = op["groups"] * op["kv_bytes"]
    macs = op["groups"] * op["rows"] * op["length"]
    macs = macs * (op["qk_width"] + op["softmax"] * op["v_width"])
    slowdown = 1 + op["paged"] * r.paged_compute_slowdown
    computed = {**op, "length": op["length"] + op["masked_length"]}
    return {
        "mxu_cycles": attention_cycles(r, fmt, computed) * (slowdown * r.kernel_speedup),
        "vpu_ops": softmax_vpu_ops(theta, computed) * slowdown,
        "hbm_bytes": cache * jnp.maximum(op["rows"] * r.block_edge_inverse, 1.0),
        "hbm_slowdown": 1 + op["paged"] * r.paged_read_slowdown,
        "macs": macs,
        "vmem_bytes": macs * r.mxu_cols_inverse * 2 + cache,
        "ramp_s": fmt.ramp_s,
    }


_BLOCKED = (matmul, attention)
"""What chips with thread blocks time by equations of their own."""


def attention_backward(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
    """Work of one execution of an `AttentionBackward`.

    Its five products in terms of forward passes: one of the same widths (scores, V gradient), one
    with the widths exchanged (probability gradient, K gradient), half of one of query width (Q
    gradient).
    """
    exchanged = {**op, "qk_width": op["v_width"], "v_width": op["qk_width"]}
    queries = {**op, "v_width": op["qk_width"]}
    forward = attention(r, theta, fmt, op)
    other, last = attention(r, theta, fmt, exchanged), attention(r, theta, fmt, queries)
    work = {
        name: forward[name] + other[name] + 0.5 * last[name]
        for name in ("mxu_cycles", "macs", "vmem_bytes")
    }
    scores = op["groups"] * op["rows"] * (op["length"] + op["masked_length"])
    ops = scores * theta["attention_backward_ops_per_score"]
    return forward | work | {"vpu_ops": ops}


def vector(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
    """Work of one execution of a `Vector`."""
    return {
        "mxu_cycles": 0.0,
        "vpu_ops": op["vpu_ops"],
        "hbm_bytes": op["hbm_bytes"],
        "macs": 0.0,
        "vmem_bytes": op["hbm_bytes"],
        "ramp_s": 0.0,
    }
