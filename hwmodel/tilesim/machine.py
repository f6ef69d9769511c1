"""What the tile rung reads of a chip and of a format, as flat numbers that stack into arrays.

Everything comes from `hwmodel.rates`, so both rungs share clocks, cadences, sustained fractions and
constants; beside them stand the DMA latency and the constants of the play (`theta_tile.yaml`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

from hwmodel.chip import Chip
from hwmodel.ops import Numerics
from hwmodel.rates import MxuFormat, mxu_format, rates
from hwmodel.theta import Theta

Number = Any

MACHINE_FIELDS: tuple[str, ...] = (
    "mxu_s_per_cycle",
    "vpu_s_per_op",
    "hbm_s_per_byte",
    "on_chip_bytes",
    "resident_bytes",
    "kernel_speedup",
    "paged_read_slowdown",
    "paged_compute_slowdown",
    "ragged_slowdown",
    "mxu_units",
    "mxu_rows",
    "mxu_cols",
    "dma_latency_s",
    "step_latency_s",
    "step_fixed_s",
    "operator_fixed_s",
    "engine_overlap",
    "softmax_ops_per_score",
    "dequant_ops_per_weight",
    "collective_overlap",
)
"""Numbers of one chip under one theta, in the order of `machine`."""

FORMAT_FIELDS: tuple[str, ...] = tuple(f.name for f in dataclasses.fields(MxuFormat))
"""Numbers of one matrix-unit format, in the order of `format_numbers`."""


def machine(chip: Chip, theta: Theta) -> tuple[Number, ...]:
    """The numbers named by `MACHINE_FIELDS`; floats or traced scalars like the chip's fields."""
    r = rates(chip, theta)
    return (
        r.mxu_s_per_cycle,
        r.vpu_s_per_op,
        r.hbm_s_per_byte,
        r.on_chip_bytes,
        r.resident_bytes,
        r.kernel_speedup,
        r.paged_read_slowdown,
        r.paged_compute_slowdown,
        r.ragged_slowdown,
        r.mxu_units,
        chip.mxu_rows,
        chip.mxu_cols,
        chip.hbm_latency_s,
        chip.hbm_latency_s * theta["tile_step_latency_fraction"],
        theta["tile_step_fixed_s"],
        theta["tile_operator_fixed_s"],
        theta["engine_overlap_fraction"],
        theta["softmax_ops_per_score"],
        theta["dequant_ops_per_weight"],
        theta["collective_overlap_fraction"],
    )


def format_numbers(chip: Chip, theta: Theta, numerics: Numerics) -> tuple[Number, ...]:
    """The numbers named by `FORMAT_FIELDS` of one format on one chip."""
    return dataclasses.astuple(mxu_format(chip, theta, numerics))
