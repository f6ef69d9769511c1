"""Matmuls on chips whose cores run thread blocks (GPU): tiles, waves, split-K and fixed times.

A GPU core is given whole output tiles. A kernel of tile height t and width w has
ceil(m / t) · ceil(n / w) · splits blocks, dealt to the cores in whole waves; a block multiplies k /
splits deep at the core's sustained rate, or waits for L2 where its operands arrive more slowly, and
spends a fixed ramp (first loads, epilogue) on top. Small tiles feed the matrix unit worse, big ones
quantise worse: a library picks the tile, so the model takes the cheapest of a short list (CUTLASS,
"Efficient GEMM in CUDA"; NVIDIA, "Matrix Multiplication Background"). HBM delivers the operands
beside it; few blocks keep too few bytes in flight to fill its bandwidth (Little's law).

Chips without thread blocks have `mxu_row_tile` 0; where it is literally 0 nothing of this is
compiled. Constants: data/theta_thread_blocks.yaml, shared by all chips.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from hwmodel.chip import Chip
from hwmodel.literal import is_zero
from hwmodel.theta import Theta
from hwmodel.whole import ceil_div, up

Number = Any

TILES = ((16, 64), (32, 32), (32, 64), (64, 64), (64, 128), (128, 64), (128, 128), (128, 256))
"""Tile heights and widths a library of kernels offers."""
SPLITS = (1, 2, 4, 8, 16)
"""Blocks that may share one output tile, each with a part of the contraction."""

_HEIGHT, _WIDTH, _SPLIT = (
    np.array(column, float)
    for column in zip(*[(h, w, s) for h, w in TILES for s in SPLITS], strict=True)
)


@dataclass(frozen=True, kw_only=True)
class BlockRates:
    """What one candidate's chip offers to thread blocks. `row_tile` 0: the chip has none."""

    row_tile: Number
    cores: Number
    macs_per_s: Number  # of one core, bf16, peak
    rows_per_cycle: Number  # into one matrix unit, bf16
    alus_per_s: Number  # vector lanes of one core times the clock
    clock_hz: Number
    dies: Number
    hbm_bytes_per_s: Number


def block_rates(chip: Chip) -> BlockRates | None:
    """Rates of a chip with thread blocks; None where `mxu_row_tile` is literally 0."""
    if is_zero(chip.mxu_row_tile):
        return None
    return BlockRates(
        row_tile=chip.mxu_row_tile,
        cores=chip.cores,
        macs_per_s=chip.macs_per_cycle * chip.clock_hz / chip.cores,
        rows_per_cycle=chip.bf16_rows_per_cycle,
        alus_per_s=chip.vpu_ops_per_s / chip.cores,
        clock_hz=chip.clock_hz,
        dies=chip.compute_dies,
        hbm_bytes_per_s=chip.hbm_bandwidth_bytes_per_s,
    )


@dataclass(frozen=True, kw_only=True)
class Path:
    """How kernels of one operand format run: constants of that code path.

    `speed` is the matrix rate over bf16. `requantise_passes` is how often the inputs are read and
    written once more to narrow them; `fixed_s` is launch and what surrounds the product.
    """

    speed: Number
    weight_bytes: Number
    input_bytes: Number
    sustained: Number
    fixed_s: Number
    requantise_passes: Number = 0.0


FORMATS = ("16bit", "8bit_block", "8bit_tensor", "4bit")
"""Code paths of a plain matmul: 8-bit operands carry one scale a block (applied inside the kernel)
or one a tensor (found by a pass over the inputs before it)."""
MOE_FORMATS = ("16bit", "8bit", "4bit")
"""Code paths of a mixture's grouped matmuls."""


def matmul_path(
    theta: Theta, name: str, speed: Number, weight_bytes: Number, input_bytes: Number
) -> Path:
    """The path `name` (one of FORMATS) of a plain matmul."""
    return Path(
        speed=speed,
        weight_bytes=weight_bytes,
        input_bytes=input_bytes,
        sustained=theta[f"block_gemm_sustained_{name}"],
        fixed_s=theta[f"block_gemm_fixed_s_{name}"],
        requantise_passes=0.0 if name == "16bit" else theta[f"block_requantise_passes_{name}"],
    )


def moe_path(
    theta: Theta, name: str, speed: Number, weight_bytes: Number, input_bytes: Number
) -> Path:
    """The path `name` (one of MOE_FORMATS) of one of the two grouped products of a mixture.

    Routing, sorting and combining are shared by the two: each bears half of the fixed time. Rows
    are gathered, scattered and activated in `requantise_passes` passes.
    """
    return Path(
        speed=speed,
        weight_bytes=weight_bytes,
        input_bytes=input_bytes,
        sustained=theta[f"block_moe_sustained_{name}"],
        fixed_s=theta[f"block_moe_fixed_s_{name}"] / 2,
        requantise_passes=theta[f"block_moe_permute_passes_{name}"],
    )


def product(
    b: BlockRates,
    theta: Theta,
    path: Path,
    loads: Number,
    counts: Number,
    n: Number,
    k: Number,
    weight_reads: Number = 1.0,
    routed: Number = False,
) -> dict[str, Number]:
    """Seconds of grouped products [loads[i], k] @ [k, n], `counts[i]` of each, in one kernel.

    `loads` and `counts` have shape [kinds of group]; all else is scalar. `routed` is true for the
    experts of a mixture, whose kernels have constants of their own: they keep their blocks on the
    cores and hand them tiles (no whole waves), and do not split the contraction. Returns
    `tensor_s` (matrix units and what feeds them, in waves), `hbm_s`, `fixed_s`, `time_s` and
    `hbm_bytes`.
    """

    def constant(name: str) -> Number:
        if isinstance(routed, bool):
            return theta[f"block_{'moe' if routed else 'gemm'}_{name}"]
        return jnp.where(routed, theta[f"block_moe_{name}"], theta[f"block_gemm_{name}"])

    rows = jnp.sum(loads * counts)
    occupied = jnp.sum(counts * jnp.minimum(loads, 1.0))
    row_tiles = jnp.sum(
        ceil_div(up(loads)[:, None], _HEIGHT[None, :]) * counts[:, None], axis=0
    )  # [choices]
    depth = ceil_div(k, _SPLIT)
    blocks = row_tiles * ceil_div(n, _WIDTH) * _SPLIT
    waves = jnp.where(routed, blocks / b.cores, ceil_div(up(blocks), b.cores))
    waves = jnp.maximum(waves, 1.0)
    edges = 1 / _HEIGHT + 1 / _WIDTH
    feed = 1 + constant("feed_elements") * edges
    multiply_s = _HEIGHT * _WIDTH * depth * feed / (b.macs_per_s * path.speed * path.sustained)
    l2_bytes_per_s = constant("l2_bytes_per_cycle") * b.cores * b.clock_hz
    tile_bytes = (_HEIGHT * path.input_bytes + _WIDTH * path.weight_bytes) * depth
    busy = jnp.minimum(blocks, b.cores)
    block_s = jnp.maximum(multiply_s, tile_bytes * busy / l2_bytes_per_s)
    block_s = block_s + constant("ramp_s")
    partial_bytes = 4 * rows * n * _SPLIT
    combine_s = theta["block_gemm_split_s"] + partial_bytes / l2_bytes_per_s
    tensor_s = waves * block_s + jnp.where(_SPLIT > 1, combine_s, 0.0)

    weights = occupied * n * k * weight_reads * path.weight_bytes
    inputs = rows * k * path.input_bytes
    hbm_bytes = weights + inputs + 2 * rows * n
    share = jnp.minimum(busy / b.cores * constant("bytes_in_flight"), 1.0)
    hbm_s = hbm_bytes / (b.hbm_bytes_per_s * constant("hbm_sustained") * share)
    together_s = overlapped(tensor_s, hbm_s, constant("overlap_exponent"))
    barred = jnp.asarray(routed) & (_SPLIT > 1)
    best = jnp.argmin(jnp.where(barred, jnp.inf, together_s))

    passed = rows * (k * (2 + path.input_bytes) + jnp.where(routed, 2 * n, 0.0))
    passes_s = path.requantise_passes * passed / b.hbm_bytes_per_s
    return {
        "tensor_s": tensor_s[best],
        "hbm_s": hbm_s[best],
        "fixed_s": path.fixed_s + passes_s,
        "time_s": together_s[best] + path.fixed_s + passes_s,
        "hbm_bytes": hbm_bytes,
    }


def routing_s(b: BlockRates, theta: Theta, tokens: Number, experts: Number) -> Number:
    """Seconds in which the vector lanes choose the experts of `tokens` tokens."""
    ops = tokens * experts * theta["block_moe_routing_ops_per_score"]
    return ops / (b.alus_per_s * b.cores)


def overlapped(a_s: Number, b_s: Number, exponent: Number) -> Number:
    """Seconds of two streams that overlap: the sum at exponent 1, the longer one at infinity."""
    longer = jnp.maximum(a_s, b_s)
    shorter = jnp.minimum(a_s, b_s)
    return longer * (1 + (shorter / longer) ** exponent) ** (1 / exponent)
