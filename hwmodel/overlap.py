"""What of collectives and host transfers stays exposed beside the computation of a step.

Collectives beside matmuls hide behind a fraction of the matmul time, weight prefetch behind a
larger one of the whole computation; latencies of blocking collectives never hide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.collectives import Axis, Pattern, pattern, traffic, traffic_cost
from hwmodel.operator_time import OperatorTime
from hwmodel.ops import Collective, HostTransfer, Operator
from hwmodel.rows import Row, hold
from hwmodel.theta import Theta

Number = Any


def network_sums(
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


def host_sums(chip: Chip, steps: Sequence[Sequence[Operator]]) -> list[dict[str, Number]]:
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


def step_seconds(theta: Theta, row: Row) -> Number:
    """Seconds of a step: its computation and what of each way of hiding stays exposed.

    row: `compute_s` and `matmul_s` beside `network_sums` and `host_sums`.
    """
    seconds = row["compute_s"]
    for hides, (fraction, room_s, latency_share) in _hiding(theta, row).items():
        transfer = row[f"{hides}.transfer_s"]
        hidden = jnp.minimum(fraction * transfer, room_s)
        seconds = seconds + (transfer - hidden) + row[f"{hides}.latency_s"] * latency_share
    return seconds


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


def exposed(
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
        share = 1 - hidden / jnp.where(total > 0, total, 1.0)
        for op in network:
            if isinstance(op, HostTransfer):
                if hides == "host":
                    timed.append(_host_time(chip, op, share))
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
                    time_s=cost["transfer_s"] * share + blocking,
                    ici_bytes=cost["ici_bytes"],
                    dcn_bytes=cost["dcn_bytes"],
                    vmem_bytes=cost["ici_bytes"] + cost["dcn_bytes"],
                )
            )
    return timed


def _host_time(chip: Chip, op: HostTransfer, share: Number) -> OperatorTime:
    seconds = _host_s(chip, op)
    return OperatorTime(
        name=op.name,
        kind="host",
        count=op.count,
        network_s=seconds,
        time_s=seconds * share,
    )
