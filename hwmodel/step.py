"""Operators to one step: seconds, energy, and what each operator adds to them.

`hwmodel.operator_time` times the operators that compute, `hwmodel.overlap` what stays exposed of
collectives and host transfers. At fixed mapping nothing here grows with a resource.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.collectives import Axis, pattern, traffic, traffic_cost
from hwmodel.operator_time import (
    OperatorTime,
    attention,
    attention_backward,
    matmul,
    time_operators,
    vector,
)
from hwmodel.ops import (
    DENSE_BF16,
    Attention,
    AttentionBackward,
    Collective,
    HostTransfer,
    Matmul,
    Numerics,
    Operator,
    Vector,
)
from hwmodel.overlap import exposed, host_sums, network_sums, step_seconds
from hwmodel.power import Activity, dynamic_energy_j
from hwmodel.rates import MxuFormat, mxu_format, rates
from hwmodel.rows import Row, one_by_one, over_rows
from hwmodel.theta import Theta

Number = Any

__all__ = ["OperatorTime", "StepTime", "time_steps"]


@dataclass(frozen=True)
class StepTime:
    """One step of one pipeline stage on one chip: seconds, switching energy, FLOPs and HBM bytes of
    the chip, and the operators, whose `time_s` add up to `seconds`."""

    seconds: Number
    energy_j: Number
    flops: Number
    hbm_bytes: Number
    operators: tuple[OperatorTime, ...]


def time_steps(
    chip: Chip,
    theta: Theta,
    axes: Mapping[str, Axis],
    steps: Sequence[Sequence[Operator]],
) -> list[StepTime]:
    """Time several steps (prefill, decode) of one chip."""
    r = rates(chip, theta)
    formats = _formats(chip, theta, steps)
    flat = list({id(op): op for step in steps for op in step}.values())
    timed: dict[int, OperatorTime] = {}
    for key, (_, fmt) in formats.items():
        matmuls = [op for op in flat if isinstance(op, Matmul) and id(op.numerics) == key]
        timed |= time_operators(r, theta, fmt, matmuls, matmul, over_rows)
    dense = formats[id(DENSE_BF16)][1]
    forward = [op for op in flat if type(op) is Attention]
    timed |= time_operators(r, theta, dense, forward, attention, over_rows)
    gradients = [op for op in flat if isinstance(op, AttentionBackward)]
    timed |= time_operators(r, theta, dense, gradients, attention_backward, over_rows)
    vectors = [op for op in flat if isinstance(op, Vector)]
    timed |= time_operators(r, theta, dense, vectors, vector, one_by_one)
    costs = {
        id(op): traffic_cost(axes[op.axis], pattern(op), *traffic(op))
        for op in flat
        if isinstance(op, Collective)
    }
    sums, operators = [], []
    host = host_sums(chip, steps)
    for step, network, link in zip(steps, network_sums(axes, steps), host, strict=True):
        done = [timed[id(op)] for op in step if id(op) in timed]
        sums.append(_compute_sums(done, formats) | network | link)
        operators.append((done, [op for op in step if isinstance(op, Collective | HostTransfer)]))
    totals = over_rows(lambda row: _totals(chip, theta, formats, row), sums)
    return [
        StepTime(
            seconds=total["seconds"],
            energy_j=total["energy_j"],
            flops=total["flops"],
            hbm_bytes=total["hbm_bytes"],
            operators=tuple(done + exposed(chip, theta, network, costs, row)),
        )
        for total, row, (done, network) in zip(totals, sums, operators, strict=True)
    ]


Formats = dict[int, tuple[Numerics, MxuFormat]]


def _formats(chip: Chip, theta: Theta, steps: Sequence[Sequence[Operator]]) -> Formats:
    """Each distinct `Numerics` object of the steps, resolved once."""
    found: Formats = {id(DENSE_BF16): (DENSE_BF16, mxu_format(chip, theta, DENSE_BF16))}
    for step in steps:
        for op in step:
            if isinstance(op, Matmul) and id(op.numerics) not in found:
                found[id(op.numerics)] = (op.numerics, mxu_format(chip, theta, op.numerics))
    return found


def _compute_sums(done: Sequence[OperatorTime], formats: Formats) -> dict[str, Number]:
    """What the compute operators of one step add up to."""
    sums: dict[str, Number] = {
        "compute_s": sum(t.time_s for t in done),
        "matmul_s": sum((t.time_s for t in done if t.kind == "matmul"), 0.0),
    }
    for field in ("hbm_bytes", "vmem_bytes", "vpu_ops"):
        sums[field] = sum(getattr(t, field) for t in done)
    for i, (numerics, _) in enumerate(formats.values()):
        sums[f"flops.{i}"] = sum((t.flops for t in done if t.numerics is numerics), 0.0)
    return sums


def _totals(chip: Chip, theta: Theta, formats: Formats, row: Row) -> dict[str, Number]:
    """Seconds, joules, FLOPs and HBM bytes of one step from its sums."""
    macs: dict[int, Number] = {16: 0.0, 8: 0.0, 4: 0.0}
    for i, (_, fmt) in enumerate(formats.values()):
        executed = row[f"flops.{i}"] / 2 * fmt.nm_speedup_inverse
        bits = fmt.operand_bits
        macs[16] = macs[16] + jnp.where(bits > 8, executed, 0.0)
        macs[8] = macs[8] + jnp.where((bits <= 8) & (bits > 4), executed, 0.0)
        macs[4] = macs[4] + jnp.where(bits <= 4, executed, 0.0)
    network = row["ici_bytes"] + row["dcn_bytes"]
    activity = Activity(
        macs_16bit=macs[16],
        macs_8bit=macs[8],
        macs_4bit=macs[4],
        vpu_ops=row["vpu_ops"],
        vmem_bytes=row["vmem_bytes"] + network,
        hbm_bytes=row["hbm_bytes"],
        ici_bytes=row["ici_bytes"],
        dcn_bytes=row["dcn_bytes"],
    )
    return {
        "seconds": step_seconds(theta, row),
        "energy_j": dynamic_energy_j(chip, theta, activity),
        "flops": sum(row[f"flops.{i}"] for i in range(len(formats))),
        "hbm_bytes": row["hbm_bytes"],
    }
