"""Collectives on 1-, 2- and 3-dimensional tori, with and without wrap-around, and over DCN.

Mesh axes take torus axes in a stated order: the chips of a slice are numbered x fastest, and an
axis that starts at stride c and has size n occupies in torus dimension d the factor min(c n,
S_{d+1}) / max(c, S_d), with S the cumulative torus sizes. Whatever exceeds the slice crosses DCN.

Costs follow the Scaling Book: with bidirectional axis bandwidth W, all-gather and reduce-scatter of
V bytes take V / W, all-reduce 2 V / W, all-to-all V / 4 W on a ring; without wrap-around twice as
long; an axis over several torus dimensions uses the links of all of them. A collective starts
once, passes its hops, and cannot overlap its first chunk: small ones take twice their transfer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.literal import is_one, is_zero
from hwmodel.ops import Collective
from hwmodel.rows import over_rows
from hwmodel.theta import Theta
from hwmodel.thread_block_collectives import collective
from hwmodel.whole import divides

Number = Any
Pattern = Literal["gather", "exchange", "send", "sum"]


@dataclass(frozen=True, kw_only=True)
class Fabric:
    """What the links of one candidate's chip and the sides of its slice offer."""

    starts: tuple[Number, ...]  # cumulative torus sizes S_d before side d; last: slice chips
    starts_inverse: tuple[Number, ...]
    closes: tuple[Number, ...]  # True where a whole side has wrap-around
    link_s_per_byte: Number
    injection_s_per_byte: Number  # all links, one way, achieved
    dcn_s_per_byte: Number
    hop_latency_s: Number
    dcn_latency_s: Number
    fixed_s: Number
    fill_s: Number
    switched: Number
    domain_chips: Number
    row_tile: Number = 0.0
    protocols: Theta | None = None
    """theta, where thread blocks may drive the collectives of a switched network; else None."""


def fabric(chip: Chip, theta: Theta, torus: Sequence[Number]) -> Fabric:
    """The network of one slice of `torus` sides: rings close where the side is a whole multiple of
    the chip's wrap multiple (16 on v5e and v6e, 4 on v4, v5p and v7x)."""
    achieved = theta["collective_bandwidth_fraction"]
    starts: list[Number] = [1.0]
    for side in torus:
        starts.append(starts[-1] * side)
    link = chip.ici_bandwidth_bytes_per_s * achieved / (2 * chip.ici_torus_ndims)
    tiled = not (is_zero(chip.mxu_row_tile) or is_zero(chip.ici_switched))
    return Fabric(
        starts=tuple(starts),
        starts_inverse=tuple(1 / s for s in starts),
        closes=tuple(divides(chip.ici_wrap_multiple, side) & (side > 2) for side in torus),
        link_s_per_byte=1 / link,
        injection_s_per_byte=1 / (chip.ici_bandwidth_bytes_per_s * achieved),
        dcn_s_per_byte=1 / (chip.dcn_bandwidth_bytes_per_s * theta["dcn_bandwidth_fraction"]),
        hop_latency_s=chip.ici_hop_latency_s,
        dcn_latency_s=chip.dcn_latency_s,
        fixed_s=theta["collective_fixed_s"],
        fill_s=theta["collective_fill_s"],
        switched=chip.ici_switched,
        domain_chips=chip.ici_max_chips,
        row_tile=chip.mxu_row_tile,
        protocols=theta if tiled else None,
    )


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One logical mesh axis on the fabric. The defaults describe an axis of one chip: no cost."""

    fabric: Fabric
    start: Number  # stride at which the axis begins: the chips of all axes inside it
    size: Number
    per_ici: Number = 1.0  # 1 / chips of the axis inside one slice
    per_dcn: Number = 1.0  # 1 / slices the axis spans
    gather_s_per_byte: Number = 0.0  # all-gather or reduce-scatter, per byte of the gathered array
    occupancy_s_per_byte: Number = 0.0  # ICI link time of one byte sent to a random peer
    latency_s: Number = 0.0  # of one pass around the axis
    factor_x: Number = 1.0
    factor_y: Number = 1.0
    untiled: Number = 0.0  # 1 where a factor is not whole: the axis cannot be laid out

    @property
    def ici_size(self) -> Number:
        """Chips of the axis inside one slice."""
        return 1 / self.per_ici

    @property
    def gather_ici_share(self) -> Number:
        """Bytes that a chip receives over ICI per gathered byte."""
        return 1 - self.per_ici

    @property
    def gather_dcn_share(self) -> Number:
        """Bytes that a chip receives over DCN per gathered byte."""
        return (1 - self.per_dcn) * self.per_ici

    @property
    def exchange_ici_share(self) -> Number:
        """Bytes that a chip sends over ICI per byte of an all-to-all."""
        return (1 - self.per_ici) * self.per_dcn

    @property
    def exchange_dcn_share(self) -> Number:
        """Bytes that a chip sends over DCN per byte of an all-to-all."""
        return 1 - self.per_dcn

    @property
    def exchange_s_per_byte(self) -> Number:
        """Seconds per byte that a chip sends in an all-to-all."""
        dcn = self.exchange_dcn_share * self.fabric.dcn_s_per_byte
        return self.per_dcn * self.occupancy_s_per_byte + dcn

    @property
    def send_dcn_share(self) -> Number:
        """1 where a chip's neighbour on the axis is in another slice."""
        return jnp.where(self.per_dcn < 1, 1.0, 0.0)

    @property
    def send_ici_share(self) -> Number:
        """1 where a chip's neighbour on the axis is in the same slice."""
        return jnp.where((self.per_dcn >= 1) & (self.per_ici < 1), 1.0, 0.0)

    @property
    def send_s_per_byte(self) -> Number:
        """Seconds per byte sent to a neighbour on the axis: one link, or DCN."""
        f = self.fabric
        link = jnp.where(f.switched > 0, f.injection_s_per_byte, f.link_s_per_byte)
        return self.send_dcn_share * f.dcn_s_per_byte + self.send_ici_share * link

    @property
    def send_latency_s(self) -> Number:
        """Latency of a message to a neighbour on the axis."""
        f = self.fabric
        ici = self.send_ici_share * (f.hop_latency_s + f.fixed_s)
        return ici + self.send_dcn_share * f.dcn_latency_s


def lay_out(f: Fabric, places: Mapping[str, tuple[Number, Number]]) -> dict[str, Axis]:
    """Lay mesh axes out on the fabric: name to (start stride, size) becomes name to `Axis`."""
    names = [n for n, (_, size) in places.items() if not is_one(size)]
    rows = [{"start": places[n][0], "size": places[n][1]} for n in names]
    laid = over_rows(lambda row: _axis(f, row["start"], row["size"]), rows)
    out = {n: Axis(fabric=f, start=start, size=size) for n, (start, size) in places.items()}
    for name, costs in zip(names, laid, strict=True):
        out[name] = dataclasses.replace(out[name], **costs)
    return out


def _axis(f: Fabric, start: Number, size: Number) -> dict[str, Number]:
    """Costs of one axis of `size` chips that starts at stride `start`.

    Between slices each chip exchanges its shard of the remote part over its own DCN bandwidth, then
    the slice gathers it on ICI.
    """
    end = start * size
    start_inverse, size_inverse = 1 / start, 1 / size
    bandwidth: Number = 0.0
    hops: Number = 0.0
    occupancy: Number = 0.0
    broken: Number = False
    factors = []
    for d in range(len(f.closes)):
        inner, outer = f.starts[d], f.starts[d + 1]
        lower = jnp.maximum(start, inner)
        lower_inverse = jnp.minimum(start_inverse, f.starts_inverse[d])
        upper = jnp.minimum(end, outer)
        spans = upper > lower
        factor = jnp.where(spans, upper * lower_inverse, 1.0)
        ring = f.closes[d] & (start <= inner) & (end >= outer)
        # Axes that start inside a torus dimension share its links with `interleaved` groups.
        interleaved = lower * f.starts_inverse[d]
        links = jnp.where(ring, 2.0, 1.0) * inner * lower_inverse
        bandwidth = bandwidth + jnp.where(spans, links, 0.0)
        passes = interleaved * jnp.where(ring, 0.5, 1.0)
        hops = hops + (factor - 1) * passes
        # A byte to a random peer crosses a quarter of a ring's links, twice that of a line's
        # middle.
        occupancy = jnp.maximum(occupancy, jnp.where(spans, factor * passes, 0.0))
        broken = broken | _not_whole(factor)
        factors.append(factor)
    slice_chips = f.starts[-1]
    on_ici = (slice_chips > start) & (size > 1)
    on_dcn = end > jnp.maximum(start, slice_chips)
    slice_inverse = jnp.minimum(start_inverse, f.starts_inverse[-1])
    dcn_size = jnp.where(on_dcn, end * slice_inverse, 1.0)
    broken = broken | _not_whole(dcn_size)
    per_ici = dcn_size * size_inverse
    per_dcn = jnp.maximum(start, slice_chips) * (start_inverse * size_inverse)
    per_dcn = jnp.where(on_dcn, per_dcn, 1.0)
    gather_s = f.link_s_per_byte / jnp.where(bandwidth > 0, bandwidth, 1.0)
    occupancy = occupancy * (0.25 * f.link_s_per_byte)
    if not is_zero(f.switched):
        any_to_any = f.switched > 0
        domain = jnp.minimum(size, jnp.maximum(f.domain_chips * start_inverse, 1.0))
        on_ici = jnp.where(any_to_any, domain > 1, on_ici)
        on_dcn = jnp.where(any_to_any, size > domain, on_dcn)
        per_ici = jnp.where(any_to_any, 1 / domain, per_ici)
        per_dcn = jnp.where(any_to_any, domain * size_inverse, per_dcn)
        gather_s = jnp.where(any_to_any, f.injection_s_per_byte, gather_s)
        occupancy = jnp.where(any_to_any, f.injection_s_per_byte, occupancy)
        hops = jnp.where(any_to_any, 1.0, hops)
        broken = broken & (f.switched <= 0)
    gathered_dcn = (1 - per_dcn) * per_ici * f.dcn_s_per_byte
    dcn_latency = jnp.where(on_dcn, f.dcn_latency_s, 0.0)
    return {
        "per_ici": per_ici,
        "per_dcn": per_dcn,
        "gather_s_per_byte": (1 - per_ici) * gather_s + gathered_dcn,
        "occupancy_s_per_byte": jnp.where(on_ici, occupancy, 0.0),
        "latency_s": jnp.where(on_ici, hops * f.hop_latency_s + f.fixed_s, 0.0) + dcn_latency,
        "factor_x": factors[0],
        "factor_y": factors[1],
        "untiled": jnp.where(broken, 1.0, 0.0),
    }


def _not_whole(factor: Number) -> Number:
    """Whether a factor, computed with a reciprocal, is off a whole number by more than rounding."""
    return jnp.abs(factor - jnp.floor(factor + 0.5)) > 1e-6


def traffic(op: Collective) -> tuple[Number, Number]:
    """Bytes and passes of all executions of one collective.

    An all-reduce is a reduce-scatter and an all-gather: twice of each.
    """
    passes = op.count * (2.0 if op.kind == "all_reduce" else 1.0)
    return op.payload_bytes * passes, passes


def pattern(op: Collective) -> Pattern:
    """The way a collective uses its axis, which decides its cost per byte."""
    if op.kind == "all_reduce":
        return "sum"
    if op.kind == "all_to_all":
        return "exchange"
    return "send" if op.kind == "permute" else "gather"


def traffic_cost(
    a: Axis, pattern: Pattern, volume_bytes: Number, passes: Number
) -> dict[str, Number]:
    """Seconds and bytes on one chip of traffic of one pattern over one axis: `transfer_s`,
    `latency_s`, `ici_bytes`, `dcn_bytes`."""
    per_byte = {
        "exchange": (a.exchange_s_per_byte, a.exchange_ici_share, a.exchange_dcn_share),
        "send": (a.send_s_per_byte, a.send_ici_share, a.send_dcn_share),
        "gather": (a.gather_s_per_byte, a.gather_ici_share, a.gather_dcn_share),
    }["gather" if pattern == "sum" else pattern]
    transfer_s = volume_bytes * per_byte[0]
    latency_s = passes * (a.send_latency_s if pattern == "send" else a.latency_s)
    if pattern == "sum":  # both passes of an all-reduce are one kernel: it starts once
        latency_s = latency_s - passes / 2 * jnp.where(a.per_ici < 1, a.fabric.fixed_s, 0.0)
    # The first chunk crosses before anything overlaps; chunks have a largest size.
    latency_s = latency_s + jnp.minimum(transfer_s, passes * a.fabric.fill_s)
    if a.fabric.protocols is not None:
        driven = _driven(a, pattern, volume_bytes, passes, per_byte[2])
        blocks = (a.fabric.row_tile > 0) & (a.fabric.switched > 0)
        transfer_s = jnp.where(blocks, driven[0], transfer_s)
        latency_s = jnp.where(blocks, driven[1], latency_s)
    return {
        "transfer_s": transfer_s,
        "latency_s": latency_s,
        "ici_bytes": volume_bytes * per_byte[1],
        "dcn_bytes": volume_bytes * per_byte[2],
    }


def _driven(
    a: Axis, pattern: Pattern, volume_bytes: Number, passes: Number, dcn_share: Number
) -> tuple[Number, Number]:
    """Transfer and latency seconds where thread blocks drive a switched network: every execution
    moves the mean payload; what leaves the domain crosses DCN as on other chips."""
    f = a.fabric
    assert f.protocols is not None
    ranks = a.ici_size
    payload = volume_bytes / jnp.where(passes > 0, passes, 1.0)
    executions = passes * jnp.where(ranks > 1, 0.5 if pattern == "sum" else 1.0, 0.0)
    if pattern == "send":
        executions = passes * a.send_ici_share
    injection = 1 / (f.injection_s_per_byte * f.protocols["collective_bandwidth_fraction"])
    done = collective(f.protocols, pattern, ranks, payload, injection, f.hop_latency_s)
    dcn_s = volume_bytes * dcn_share * f.dcn_s_per_byte
    dcn_latency_s = passes * jnp.where(a.per_dcn < 1, f.dcn_latency_s, 0.0)
    return (
        executions * done["transfer_s"] + dcn_s,
        executions * done["latency_s"] + dcn_latency_s,
    )
