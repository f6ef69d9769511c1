"""Collectives on 1-, 2- and 3-dimensional tori, with and without wrap-around, and over DCN.

Mesh axes take torus axes in a stated order: the chips of a slice are numbered x fastest, and an axis
that starts at stride c and has size n occupies in torus dimension d the factor
min(c n, S_{d+1}) / max(c, S_d), with S the cumulative torus sizes. Whatever exceeds the slice crosses
DCN.

Costs follow the Scaling Book: with bidirectional axis bandwidth W, all-gather and reduce-scatter of V
bytes take V / W, all-reduce 2 V / W, all-to-all V / 4 W on a ring; without wrap-around twice as long;
an axis over several torus dimensions uses the links of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.ops import Collective
from hwmodel.rows import over_rows
from hwmodel.theta import Theta
from hwmodel.whole import divides

Number = Any


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """What the links of one candidate's chip and the sides of its slice offer."""

    starts: tuple[Number, ...]  # cumulative sizes S_d of the torus sides before d; last: slice chips
    starts_inverse: tuple[Number, ...]
    closes: tuple[Number, ...]  # True where a whole side has wrap-around
    link_bytes_per_s: Number  # one direction of one torus dimension, achieved
    link_s_per_byte: Number
    injection_s_per_byte: Number  # all links, one way, achieved
    dcn_s_per_byte: Number
    hop_latency_s: Number
    dcn_latency_s: Number
    fixed_s: Number
    switched: Number
    domain_chips: Number


def fabric(chip: Chip, theta: Theta, torus: Sequence[Number]) -> Fabric:
    """The network of one slice of `torus` sides: rings close where the side is a whole multiple of
    the chip's wrap multiple (16 on v5e and v6e, 4 on v4, v5p and v7x)."""
    achieved = theta["collective_bandwidth_fraction"]
    starts: list[Number] = [1.0]
    for side in torus:
        starts.append(starts[-1] * side)
    link = chip.ici_bandwidth_bytes_per_s * achieved / (2 * chip.ici_torus_ndims)
    return Fabric(
        starts=tuple(starts),
        starts_inverse=tuple(1 / s for s in starts),
        closes=tuple(divides(chip.ici_wrap_multiple, side) & (side > 2) for side in torus),
        link_bytes_per_s=link,
        link_s_per_byte=1 / link,
        injection_s_per_byte=1 / (chip.ici_bandwidth_bytes_per_s * achieved),
        dcn_s_per_byte=1 / chip.dcn_bandwidth_bytes_per_s,
        hop_latency_s=chip.ici_hop_latency_s,
        dcn_latency_s=chip.dcn_latency_s,
        fixed_s=theta["collective_fixed_s"],
        switched=chip.ici_switched,
        domain_chips=chip.ici_max_chips,
    )


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One logical mesh axis on the fabric, as seconds and link bytes per payload byte.

    Costs are zero for an axis of one chip.
    """

    start: Number  # stride at which the axis begins: the chips of all axes inside it
    size: Number
    ici_size: Number = 1.0  # chips of the axis inside one slice
    dcn_size: Number = 1.0  # slices the axis spans
    factor_x: Number = 1.0
    factor_y: Number = 1.0
    factor_z: Number = 1.0
    untiled: Number = 0.0  # 1 where a factor is not whole: the axis cannot be laid out
    gather_ici_share: Number = 0.0
    gather_dcn_share: Number = 0.0
    gather_s_per_byte: Number = 0.0
    exchange_ici_share: Number = 0.0
    exchange_dcn_share: Number = 0.0
    exchange_s_per_byte: Number = 0.0
    send_ici_share: Number = 0.0
    send_dcn_share: Number = 0.0
    send_s_per_byte: Number = 0.0
    latency_s: Number = 0.0
    send_latency_s: Number = 0.0


def lay_out(f: Fabric, places: Mapping[str, tuple[Number, Number]]) -> dict[str, Axis]:
    """Lay mesh axes out on the fabric: name to (start stride, size) becomes name to `Axis`."""
    names = [n for n, (_, size) in places.items() if not _is_one(size)]
    rows = [{"start": places[n][0], "size": places[n][1]} for n in names]
    laid = over_rows(lambda row: _axis(f, row["start"], row["size"]), rows)
    out = {n: Axis(start=start, size=size) for n, (start, size) in places.items()}
    for name, costs in zip(names, laid, strict=True):
        out[name] = Axis(start=places[name][0], size=places[name][1], **costs)
    return out


def _is_one(size: Number) -> bool:
    return isinstance(size, int | float) and size == 1


def _axis(f: Fabric, start: Number, size: Number) -> dict[str, Number]:
    """Costs of one axis of `size` chips that starts at stride `start`.

    Between slices each chip exchanges its shard of the remote part over its own DCN bandwidth, then
    the slice gathers it on ICI.
    """
    end = start * size
    bandwidth: Number = 0.0
    hops: Number = 0.0
    occupancy: Number = 0.0
    broken: Number = False
    factors = []
    for d in range(len(f.closes)):
        inner, outer = f.starts[d], f.starts[d + 1]
        lower = jnp.maximum(start, inner)
        upper = jnp.minimum(end, outer)
        spans = upper > lower
        factor = jnp.where(spans, upper / lower, 1.0)
        interleaved = lower * f.starts_inverse[d]  # groups that share the same links
        ring = f.closes[d] & (lower == inner) & (upper == outer)
        directions = jnp.where(ring, 2.0, 1.0)
        share = f.link_bytes_per_s * directions / interleaved
        bandwidth = bandwidth + jnp.where(spans, share, 0.0)
        hops = hops + jnp.where(ring, 0.5, 1.0) * (factor - 1) * interleaved
        # A byte to a random peer crosses a quarter of a ring's links, twice that of a line's middle.
        crossing = 0.25 * factor * interleaved * f.link_s_per_byte / directions
        occupancy = jnp.maximum(occupancy, jnp.where(spans, crossing, 0.0))
        broken = broken | (factor != jnp.floor(factor))
        factors.append(factor)
    dcn_size = jnp.maximum(end / jnp.maximum(start, f.starts[-1]), 1.0)
    broken = broken | (dcn_size != jnp.floor(dcn_size))
    ici_size = size / dcn_size
    gather_s = 1 / jnp.where(bandwidth > 0, bandwidth, 1.0)
    if not (isinstance(f.switched, int | float) and f.switched == 0):
        any_to_any = f.switched > 0
        domain = jnp.minimum(size, jnp.maximum(f.domain_chips / start, 1.0))
        ici_size = jnp.where(any_to_any, domain, ici_size)
        dcn_size = jnp.where(any_to_any, size / domain, dcn_size)
        gather_s = jnp.where(any_to_any, f.injection_s_per_byte, gather_s)
        occupancy = jnp.where(any_to_any, f.injection_s_per_byte, occupancy)
        hops = jnp.where(any_to_any, 1.0, hops)
        broken = broken & (f.switched <= 0)
    on_ici = ici_size > 1
    on_dcn = dcn_size > 1
    per_ici = 1 / ici_size
    per_dcn = 1 / dcn_size
    gather_ici_share = 1 - per_ici
    gather_dcn_share = (1 - per_dcn) * per_ici
    exchange_ici_share = (1 - per_ici) * per_dcn
    exchange_dcn_share = 1 - per_dcn
    send_dcn = jnp.where(on_dcn, 1.0, 0.0)
    send_ici = jnp.where(on_dcn, 0.0, jnp.where(on_ici, 1.0, 0.0))
    dcn_latency = send_dcn * f.dcn_latency_s
    return {
        "ici_size": ici_size,
        "dcn_size": dcn_size,
        "factor_x": factors[0],
        "factor_y": factors[1],
        "factor_z": factors[2],
        "untiled": jnp.where(broken, 1.0, 0.0),
        "gather_ici_share": gather_ici_share,
        "gather_dcn_share": gather_dcn_share,
        "gather_s_per_byte": gather_ici_share * gather_s + gather_dcn_share * f.dcn_s_per_byte,
        "exchange_ici_share": exchange_ici_share,
        "exchange_dcn_share": exchange_dcn_share,
        "exchange_s_per_byte": jnp.where(on_ici, per_dcn * occupancy, 0.0)
        + exchange_dcn_share * f.dcn_s_per_byte,
        "send_ici_share": send_ici,
        "send_dcn_share": send_dcn,
        "send_s_per_byte": send_dcn * f.dcn_s_per_byte + send_ici * gather_s,
        "latency_s": jnp.where(on_ici, hops * f.hop_latency_s + f.fixed_s, 0.0) + dcn_latency,
        "send_latency_s": jnp.where(on_ici, f.hop_latency_s + f.fixed_s, 0.0) + dcn_latency,
    }


def collective_cost(a: Axis, op: Collective) -> dict[str, Number]:
    """Seconds and bytes of all executions of one collective on one chip: `transfer_s`, `latency_s`,
    `ici_bytes`, `dcn_bytes`. An all-reduce is a reduce-scatter and an all-gather: twice of each.
    """
    if op.kind == "all_to_all":
        per_byte = (a.exchange_s_per_byte, a.exchange_ici_share, a.exchange_dcn_share)
    elif op.kind == "permute":
        per_byte = (a.send_s_per_byte, a.send_ici_share, a.send_dcn_share)
    else:
        per_byte = (a.gather_s_per_byte, a.gather_ici_share, a.gather_dcn_share)
    repeats = op.count * (2.0 if op.kind == "all_reduce" else 1.0)
    volume = op.payload_bytes * repeats
    return {
        "transfer_s": volume * per_byte[0],
        "latency_s": repeats * (a.send_latency_s if op.kind == "permute" else a.latency_s),
        "ici_bytes": volume * per_byte[1],
        "dcn_bytes": volume * per_byte[2],
    }
