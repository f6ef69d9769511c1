"""Rates: what one candidate's chip does per second, derived once and used by every operator.

All the divisions by a chip's bandwidths and clocks happen here, so that the time of an operator is
a handful of multiplications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.literal import is_zero
from hwmodel.ops import FP8, INT4, INT8, Numerics
from hwmodel.theta import Theta
from hwmodel.thread_blocks import BlockRates, block_rates
from hwmodel.whole import ceil_div

Number = Any


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Seconds per unit of work of one chip, and its on-chip memory budgets."""

    mxu_s_per_cycle: Number
    kernel_speedup: Number
    ragged_slowdown: Number
    paged_read_slowdown: Number
    paged_compute_slowdown: Number
    vpu_s_per_op: Number
    hbm_s_per_byte: Number
    operator_fixed_s: Number
    prologue_s: Number
    prologue_exposed_fraction: Number
    on_chip_bytes: Number
    resident_bytes: Number
    block_edge_inverse: Number  # 1 / elements
    mxu_units: Number
    mxu_units_inverse: Number
    mxu_rows_inverse: Number
    mxu_cols_inverse: Number
    row_tile: Number  # 0 = rows stream freely
    blocks: BlockRates | None  # None: no chip of the study has thread blocks


def rates(chip: Chip, theta: Theta) -> Rates:
    """Derive the rates of a chip.

    - The matrix units issue at `mxu_sustained_fraction` in a loop of their own, at
      `step_mxu_fraction` of that among the fusions of a whole step (`kernel_speedup` undoes that
      for attention, which is one hand-written kernel), and products over ragged groups of rows
      (experts) at `grouped_mxu_fraction` of that. Attention over the pages of a cache reads at
      `kv_read_fraction` of the bandwidth and computes at `paged_attention_fraction`.
    - HBM at its sustained share of peak; the exposed part of one DMA latency starts each operator.
    - `prologue_s`: the transfers before the first block is multiplied and after the last one, which
      overlap with nothing inside an operator (openxla/xla `cost_model.py`: T = first DMA +
      sum of max(DMA, matmul) + last DMA). Earlier operators of a step hide all but
      `prologue_exposed_fraction` of them.
    - `on_chip_bytes`: VMEM (plus CMEM) that operands may use, the rest is the compiler's;
      `resident_bytes` of it keep activations between operators.
    - `block_edge`: edge in elements of the square output block whose f32 accumulator fills half of
      that. A blocked matmul reads each operand once per block row or column of the output, so its
      traffic falls with the square root of on-chip memory (Hong and Kung 1981).
    """
    on_chip = on_chip_bytes(chip, theta)
    hbm_s_per_byte = 1 / (chip.hbm_bandwidth_bytes_per_s * theta["hbm_sustained_fraction"])
    return Rates(
        mxu_s_per_cycle=1
        / (chip.clock_hz * theta["mxu_sustained_fraction"] * theta["step_mxu_fraction"]),
        kernel_speedup=theta["step_mxu_fraction"],
        ragged_slowdown=1 / theta["grouped_mxu_fraction"] - 1,
        paged_read_slowdown=1 / theta["kv_read_fraction"] - 1,
        paged_compute_slowdown=1 / theta["paged_attention_fraction"] - 1,
        vpu_s_per_op=1 / (chip.vpu_ops_per_s * theta["vpu_sustained_fraction"]),
        hbm_s_per_byte=hbm_s_per_byte,
        operator_fixed_s=theta["operator_fixed_s"]
        + chip.hbm_latency_s * theta["dma_latency_exposed_fraction"],
        prologue_s=theta["prologue_bytes"] * hbm_s_per_byte,
        prologue_exposed_fraction=theta["prologue_exposed_fraction"],
        on_chip_bytes=on_chip,
        resident_bytes=on_chip * theta["activation_resident_fraction"],
        block_edge_inverse=1 / jnp.sqrt(on_chip * 0.5 / 4.0),
        mxu_units=chip.mxu_count,
        mxu_units_inverse=1 / chip.mxu_count,
        mxu_rows_inverse=1 / chip.mxu_rows,
        mxu_cols_inverse=1 / chip.mxu_cols,
        row_tile=chip.mxu_row_tile,
        blocks=block_rates(chip),
    )


def usable_hbm_bytes(chip: Chip, theta: Theta) -> Number:
    """HBM bytes of a chip that a program can have."""
    return chip.hbm_bytes * theta["hbm_usable_fraction"]


def on_chip_bytes(chip: Chip, theta: Theta) -> Number:
    """VMEM and CMEM bytes that operands may use."""
    return (chip.vmem_bytes + chip.cmem_bytes) * theta["vmem_usable_fraction"]


@dataclass(frozen=True, kw_only=True)
class MxuFormat:
    """How a chip multiplies a given `Numerics`: the native path, or bf16 after widening."""

    operand_bits: Number
    activation_bytes: Number
    stored_bytes_per_weight: Number
    rows_per_issue_inverse: Number
    cycles_per_issue: Number
    latch_cycles: Number
    ramp_s: Number  # first latch and array fill, exposed once per operator
    nm_speedup_inverse: Number
    vpu_ops_per_weight: Number


def mxu_format(chip: Chip, theta: Theta, numerics: Numerics) -> MxuFormat:
    """Resolve a format: a rate of 0 means not native, then operands are widened to bf16.

    A vmatmul feeds rows = sublanes · 32 / bits rows, one every rows / (rows per cycle) cycles;
    latching a [K, N] tile takes K / rows issues (openxla/xla `platform_info.py`,
    `cost_model.py`). Weights narrower than the multiplied width are widened on the VPU; N:M weights
    are expanded there when the matrix units cannot skip zeros.
    """
    fmt = numerics.compute_format
    plain = is_zero(fmt)
    rate: Number = 1.0
    native: Number = False
    if not plain:
        rate = jnp.where(
            fmt == INT8,
            chip.int8_rate,
            jnp.where(fmt == FP8, chip.fp8_rate, jnp.where(fmt == INT4, chip.int4_rate, 1.0)),
        )
        native = (rate > 0) & (fmt > 0)
        rate = jnp.where(native, rate, 1.0)
    bits = 16.0 if plain else jnp.where(native, numerics.activation_bits, 16.0)
    ratio = numerics.nm_m / numerics.nm_n
    limit = chip.nm_speedup_16bit
    if not plain:
        limit = jnp.where(bits < 16, chip.nm_speedup_8bit, chip.nm_speedup_16bit)
    rows = chip.vpu_sublanes * (32 / bits)
    latch = ceil_div(chip.mxu_rows, rows) * chip.mxu_latch_cadence_cycles
    widened = jnp.where(numerics.weight_bits < bits, theta["dequant_ops_per_weight"], 0.0)
    expanded = jnp.where((ratio > 1) & (limit <= 1), theta["nm_expand_ops_per_weight"], 0.0)
    return MxuFormat(
        operand_bits=bits,
        activation_bytes=numerics.activation_bits / 8,
        stored_bytes_per_weight=stored_bytes_per_weight(numerics),
        rows_per_issue_inverse=1 / rows,
        cycles_per_issue=rows / (chip.bf16_rows_per_cycle * rate),
        latch_cycles=latch,
        ramp_s=(latch + chip.mxu_latency_cycles) / chip.clock_hz,
        nm_speedup_inverse=1 / jnp.minimum(ratio, limit),
        vpu_ops_per_weight=widened + expanded,
    )


def stored_bytes_per_weight(numerics: Numerics) -> Number:
    """Stored bytes per dense weight: N:M weights keep n of m values plus an index each.

    The index of one kept value among m takes ceil(log2 m) bits (openxla cost model, sparse
    operand); m is 1, 2, 4, 8 or 16.
    """
    m = numerics.nm_m
    index_bits = sum(jnp.where(m > power, 1.0, 0.0) for power in (1, 2, 4, 8))
    dense = numerics.nm_n == m
    bits = numerics.weight_bits + jnp.where(dense, 0.0, index_bits)
    return bits * (numerics.nm_n / m / 8)
