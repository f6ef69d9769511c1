"""Operators to one step: overlap inside an operator, exposed communication, bottleneck attribution.

Inside an operator the engines (MXU, VPU, HBM) overlap with efficiency e: the time is
max + (1 - e) · (sum - max), never less than the busiest engine. Collectives beside matmuls hide
behind a fraction of the matmul time, weight prefetch behind a larger one of the whole computation;
latencies of blocking collectives never hide. At fixed mapping nothing here grows with a resource.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.attention import attention_cycles, softmax_vpu_ops
from hwmodel.chip import Chip
from hwmodel.collectives import Axis, Pattern, pattern, traffic, traffic_cost
from hwmodel.matmul import mxu_cycles
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
from hwmodel.power import Activity, dynamic_energy_j
from hwmodel.rates import MxuFormat, Rates, mxu_format, rates
from hwmodel.rows import Row, hold, one_by_one, over_rows
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
        timed |= _compute(r, theta, fmt, matmuls, _matmul, over_rows)
    dense = formats[id(DENSE_BF16)][1]
    attention = [op for op in flat if type(op) is Attention]
    timed |= _compute(r, theta, dense, attention, _attention, over_rows)
    gradients = [op for op in flat if isinstance(op, AttentionBackward)]
    timed |= _compute(r, theta, dense, gradients, _attention_backward, over_rows)
    vectors = [op for op in flat if isinstance(op, Vector)]
    timed |= _compute(r, theta, dense, vectors, _vector, one_by_one)
    costs = {
        id(op): traffic_cost(axes[op.axis], pattern(op), *traffic(op))
        for op in flat
        if isinstance(op, Collective)
    }
    sums, operators = [], []
    host = _host_sums(chip, steps)
    for step, network, link in zip(steps, _network_sums(axes, steps), host, strict=True):
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
            operators=tuple(done + _exposed(chip, theta, network, costs, row)),
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


def _compute(
    r: Rates,
    theta: Theta,
    fmt: MxuFormat,
    ops: Sequence[Operator],
    equations: Callable[[Rates, Theta, MxuFormat, Row], dict[str, Number]],
    apply: Callable[[Callable[[Row], dict[str, Number]], Sequence[Row]], list[dict[str, Number]]],
) -> dict[int, OperatorTime]:
    """Time all compute operators of one kind and format with the same equations, row by row."""
    # Matmuls of serving have no traffic beside the operands: left out, it costs nothing.
    extra = any(not _is_zero(getattr(op, "extra_hbm_bytes", 0.0)) for op in ops)
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


def _matmul(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
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


def _attention(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
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


_BLOCKED = (_matmul, _attention)
"""What chips with thread blocks time by equations of their own."""


def _attention_backward(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
    """The five products in terms of forward passes: one of the same widths (scores, V gradient),
    one with the widths exchanged (probability gradient, K gradient), half of one of query width
    (Q gradient)."""
    exchanged = {**op, "qk_width": op["v_width"], "v_width": op["qk_width"]}
    queries = {**op, "v_width": op["qk_width"]}
    forward = _attention(r, theta, fmt, op)
    other, last = _attention(r, theta, fmt, exchanged), _attention(r, theta, fmt, queries)
    work = {
        name: forward[name] + other[name] + 0.5 * last[name]
        for name in ("mxu_cycles", "macs", "vmem_bytes")
    }
    scores = op["groups"] * op["rows"] * (op["length"] + op["masked_length"])
    ops = scores * theta["attention_backward_ops_per_score"]
    return forward | work | {"vpu_ops": ops}


def _vector(r: Rates, theta: Theta, fmt: MxuFormat, op: Row) -> dict[str, Number]:
    return {
        "mxu_cycles": 0.0,
        "vpu_ops": op["vpu_ops"],
        "hbm_bytes": op["hbm_bytes"],
        "macs": 0.0,
        "vmem_bytes": op["hbm_bytes"],
        "ramp_s": 0.0,
    }


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


def _network_sums(
    axes: Mapping[str, Axis], steps: Sequence[Sequence[Operator]]
) -> list[dict[str, Number]]:
    """What the collectives of each step add up to, before anything overlaps.

    Collectives that use one axis in one way cost the same per byte, so bytes are added first.
    """
    grouped: dict[tuple[int, str, Pattern, str], list[Collective]] = {}
    for i, step in enumerate(steps):
        for op in step:
            if isinstance(op, Collective):
                way = pattern(op)
                grouped.setdefault((i, op.axis, way, op.hides), []).append(op)
    volumes = [sum(traffic(op)[0] for op in ops) for ops in grouped.values()]
    passes = [sum(traffic(op)[1] for op in ops) for ops in grouped.values()]
    held = hold((*volumes, *passes))
    ways = {hides for _, _, _, hides in grouped} - {"matmul", "prefetch", "nothing"}
    names = [*_NETWORK_SUMS, *(f"{h}.{what}" for h in ways for what in _NETWORK_TIMES)]
    sums = [dict.fromkeys(names, 0.0) for _ in steps]
    for (i, name, way, hides), volume, count in zip(
        grouped, held[: len(grouped)], held[len(grouped) :], strict=True
    ):
        cost = traffic_cost(axes[name], way, volume, count)
        row: dict[str, Number] = sums[i]
        row[f"{hides}.transfer_s"] = row[f"{hides}.transfer_s"] + cost["transfer_s"]
        row[f"{hides}.latency_s"] = row[f"{hides}.latency_s"] + cost["latency_s"]
        row["ici_bytes"] = row["ici_bytes"] + cost["ici_bytes"]
        row["dcn_bytes"] = row["dcn_bytes"] + cost["dcn_bytes"]
    return sums


_NETWORK_TIMES = ("transfer_s", "latency_s")
_NETWORK_SUMS = (
    *(f"{hides}.{what}" for hides in ("matmul", "prefetch", "nothing") for what in _NETWORK_TIMES),
    "ici_bytes",
    "dcn_bytes",
)


def _host_sums(chip: Chip, steps: Sequence[Sequence[Operator]]) -> list[dict[str, Number]]:
    """Seconds on the link to host memory of each step, where any step uses it."""
    transfers = [[op for op in step if isinstance(op, HostTransfer)] for step in steps]
    if not any(transfers):
        return [{} for _ in steps]
    return [
        {"host.transfer_s": sum((_host_s(chip, op) for op in ops), 0.0), "host.latency_s": 0.0}
        for ops in transfers
    ]


def _host_s(chip: Chip, op: HostTransfer) -> Number:
    return op.count * op.payload_bytes / chip.host_bandwidth_bytes_per_s


def _totals(chip: Chip, theta: Theta, formats: Formats, row: Row) -> dict[str, Number]:
    """Seconds, joules, FLOPs and HBM bytes of one step from its sums."""
    seconds = row["compute_s"]
    for hides, (fraction, room_s, latency_share) in _hiding(theta, row).items():
        transfer = row[f"{hides}.transfer_s"]
        hidden = jnp.minimum(fraction * transfer, room_s)
        seconds = seconds + (transfer - hidden) + row[f"{hides}.latency_s"] * latency_share
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
        "seconds": seconds,
        "energy_j": dynamic_energy_j(chip, theta, activity),
        "flops": sum(row[f"flops.{i}"] for i in range(len(formats))),
        "hbm_bytes": row["hbm_bytes"],
    }


def _hiding(theta: Theta, row: Row) -> dict[str, tuple[Number, Number, Number]]:
    """Per way of hiding: hideable fraction of a transfer, seconds to hide it in, latency that
    stays.

    Transfers beside matmuls hide behind a fraction f of the matmul time, prefetched weights behind
    a fraction p of what is left of the computation. Hidden time grows at most as fast as the work
    it hides behind (f + p (1 - f) <= 1), so a faster engine or link never makes a step slower.

    Sums of gradients and the link to host memory run beside the prefetch, on links of their own:
    each may hide behind its fraction of the same computation, and behind what an earlier one
    leaves exposed of it. So together they expose the longest excess, not the sum, and the bound
    above holds for it too.
    """
    beside = theta["collective_overlap_fraction"]
    ahead = theta["prefetch_overlap_fraction"]
    left_s = row["compute_s"] - beside * row["matmul_s"]
    ways: dict[str, tuple[Number, Number, Number]] = {
        "matmul": (beside, beside * row["matmul_s"], 1.0),
        "prefetch": (ahead, ahead * left_s, 1 - ahead),
        "nothing": (0.0, 0.0, 1.0),
    }
    excess: Number = 0.0
    earlier = "prefetch"
    for hides, constant in _OWN_LINKS.items():
        if f"{hides}.transfer_s" in row:
            hideable, room_s, _ = ways[earlier]
            excess = excess + jnp.maximum(hideable * row[f"{earlier}.transfer_s"] - room_s, 0.0)
            fraction = theta[constant]
            ways[hides] = (fraction, fraction * left_s + excess, 1 - fraction)
            earlier = hides
    return ways


_OWN_LINKS = {
    "gradient": "gradient_overlap_fraction",
    "host": "host_offload_overlap_fraction",
}
"""Ways of hiding that only training uses, and the constant of each."""


def _exposed(
    chip: Chip,
    theta: Theta,
    network: Sequence[Collective | HostTransfer],
    costs: Mapping[int, Mapping[str, Number]],
    sums: Row,
) -> list[OperatorTime]:
    """The collectives of a step, each with its share of what stays exposed."""
    timed = []
    for hides, (fraction, room_s, latency_share) in _hiding(theta, sums).items():
        total = sums[f"{hides}.transfer_s"]
        hidden = jnp.minimum(fraction * total, room_s)
        exposed = 1 - hidden / jnp.where(total > 0, total, 1.0)
        for op in network:
            if isinstance(op, HostTransfer):
                if hides == "host":
                    timed.append(_host_time(chip, op, exposed))
                continue
            if op.hides != hides:
                continue
            cost = costs[id(op)]
            blocking = cost["latency_s"] * latency_share
            timed.append(
                OperatorTime(
                    name=op.name,
                    kind="collective",
                    count=op.count,
                    network_s=cost["transfer_s"] + cost["latency_s"],
                    fixed_s=blocking,
                    time_s=cost["transfer_s"] * exposed + blocking,
                    ici_bytes=cost["ici_bytes"],
                    dcn_bytes=cost["dcn_bytes"],
                    vmem_bytes=cost["ici_bytes"] + cost["dcn_bytes"],
                )
            )
    return timed


def _host_time(chip: Chip, op: HostTransfer, exposed: Number) -> OperatorTime:
    seconds = _host_s(chip, op)
    return OperatorTime(
        name=op.name,
        kind="host",
        count=op.count,
        network_s=seconds,
        time_s=seconds * exposed,
    )


def _is_zero(value: Number) -> bool:
    return isinstance(value, int | float) and value == 0
