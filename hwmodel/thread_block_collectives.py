"""Collectives that thread blocks drive over a switched scale-up network (NVLink with NCCL).

Every rank's cores copy data step by step: rings of N - 1 steps, twice that to reduce and gather. A
library offers protocols that trade start-up for bandwidth (flags beside the data, flags a line,
bulk copies with fences), and the switch can add 16-bit sums itself. The model takes the fastest;
times are counted in hops of the network, so that a chip is described by its hop latency and
bandwidth (NVIDIA NCCL 2.29 documentation and `tuning.cc`; Hu et al., arXiv 2507.04786).
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax.numpy as jnp

from hwmodel.theta import Theta

Number = Any
Way = Literal["gather", "sum", "exchange", "send"]

PROTOCOLS = ("low_latency", "staged", "bulk")
"""Ways to signal that data have arrived, in the order of their start-up time."""


def collective(
    theta: Theta,
    way: Way,
    ranks: Number,
    payload_bytes: Number,
    bandwidth_bytes_per_s: Number,
    hop_s: Number,
    summed_in_switch: Number = 1.0,
) -> dict[str, Number]:
    """Seconds of one collective of `ranks` >= 2 chips in one switched domain.

    `payload_bytes` as in `hwmodel.ops.Collective`, `bandwidth_bytes_per_s` one way and all links of
    a chip, `summed_in_switch` 1 where the switch can add the format (16-bit floats). Returns
    `transfer_s` and `latency_s`: the start and the steps of the ring, equal for all protocols. The
    fences of a protocol are part of its transfer, since it is chosen for the two together: a nearer
    hop then shortens both, whatever of the transfer hides behind computation.
    """
    share = 1.0 if way == "send" else (ranks - 1) / ranks
    passes = 2.0 if way == "sum" else 1.0
    moved = payload_bytes * share * passes
    steps = {"gather": ranks - 1, "sum": 2 * (ranks - 1), "exchange": 0.0, "send": 1.0}[way]
    hops = theta["block_collective_start_hops"] + theta["block_collective_step_hops"] * steps
    start_s = hops * hop_s
    transfers = []
    for protocol in PROTOCOLS:
        fraction = theta[f"block_collective_bandwidth_{protocol}"]
        if way == "exchange" and protocol == "low_latency":
            fraction = fraction * theta["block_collective_exchange_low_latency"]
        late = 0.0
        if protocol != "low_latency":
            late = theta[f"block_collective_hops_{protocol}"]
        transfers.append(moved / (bandwidth_bytes_per_s * fraction) + late * hop_s)
    if way == "sum":
        # Each rank sends its part once and receives sums once; the switch adds.
        fraction = theta["block_collective_bandwidth_in_switch"]
        once = payload_bytes * (1 + 1 / ranks) / (bandwidth_bytes_per_s * fraction)
        once = once + theta["block_collective_hops_staged"] * hop_s
        transfers.append(jnp.where(summed_in_switch > 0, once, transfers[-1]))
    return {"transfer_s": functools.reduce(jnp.minimum, transfers), "latency_s": start_s}
