"""Logic silicon area of a package, block by block, in mm².

Coefficients are in `data/theta_physical.yaml`, scaling with the node in `data/process_nodes.yaml`.
They are calibrated on the shares that Google states for TPU v4i (28 % CMEM, 11 % MXUs) and checked
against the published upper bounds of v2, v3, v4i and v4. All inputs may be arrays or traced.
"""

from __future__ import annotations

from typing import Any

from hwmodel.chip import Chip
from hwmodel.process import Process, process_at
from hwmodel.theta import Theta

Number = Any

BYTES_PER_MIB = 1048576.0


def die_area(chip: Chip, theta: Theta) -> dict[str, Number]:
    """Area of each block over all compute dies of the package, mm², elementwise.

    The matrix unit pays per bf16 MAC per cycle (rows · cols · rows per cycle), per array cell for
    its weight registers and per edge lane; narrow formats and N:M support pay a share of the MACs.
    I/O circuits do not shrink with the node; the uncore is a part per die plus a share of the rest.
    """
    process = process_at(chip.node_nm)
    logic = process.logic_area_scale
    macs = chip.macs_per_cycle * theta["mxu_mm2_per_mac_7nm"] * logic
    parts = {
        "mxu": macs + _mxu_array(chip, theta) * logic,
        "low_precision": macs * _low_precision_share(chip, theta),
        "vpu": _vector_core(chip, theta) * logic,
        "vmem": _sram(chip.vmem_bytes, process) * theta["vmem_area_factor"],
        "cmem": _sram(chip.cmem_bytes, process),
        "sparsecore": chip.sparsecores * theta["sparsecore_mm2_7nm"] * logic,
        "hbm_phy": chip.hbm_stacks * chip.hbm_phy_mm2_per_stack,
        "ici_phy": chip.ici_links * theta["ici_mm2_per_link"]
        + chip.ici_bandwidth_bytes_per_s * theta["ici_mm2_per_byte_per_s"],
    }
    blocks = sum(parts.values())
    parts["uncore"] = (
        blocks * theta["uncore_share"]
        + chip.compute_dies * theta["uncore_mm2_per_die_7nm"] * process.io_area_scale
        + (chip.compute_dies - 1) * theta["die_to_die_mm2_per_die"]
    )
    return parts


def die_area_mm2(chip: Chip, theta: Theta) -> Number:
    """Logic silicon of the whole package, mm²: the sum over its compute dies."""
    return sum(die_area(chip, theta).values())


def largest_die_mm2(chip: Chip, theta: Theta) -> Number:
    """Area of one compute die, mm². The exposure field limits it to theta's reticle_limit_mm2."""
    return die_area_mm2(chip, theta) / chip.compute_dies


def _mxu_array(chip: Chip, theta: Theta) -> Number:
    """Weight registers and array edges of all matrix units, mm² at 7 nm."""
    cells = chip.mxu_rows * chip.mxu_cols * theta["mxu_mm2_per_pe_7nm"]
    edges = (chip.mxu_rows + chip.mxu_cols) * chip.bf16_rows_per_cycle
    return chip.mxu_count * (cells + edges * theta["mxu_edge_mm2_per_row_7nm"])


def _low_precision_share(chip: Chip, theta: Theta) -> Number:
    """Extra area of int8, fp8, int4 and N:M support as a share of the bf16 MACs."""
    return (
        chip.int8_rate * theta["low_precision_area_int8"]
        + chip.fp8_rate * theta["low_precision_area_fp8"]
        + chip.int4_rate * theta["low_precision_area_int4"]
        + (chip.nm_speedup_16bit + chip.nm_speedup_8bit - 2) / 2 * theta["nm_sparsity_area"]
    )


def _vector_core(chip: Chip, theta: Theta) -> Number:
    """Vector units and core control, mm² at 7 nm."""
    slots = chip.vpu_lanes * chip.vpu_sublanes
    per_slot = theta["vpu_mm2_per_slot_7nm"] + chip.vpu_alus_per_slot * theta["vpu_mm2_per_alu_7nm"]
    return chip.cores * (theta["core_mm2_7nm"] + slots * per_slot)


def _sram(size_bytes: Number, process: Process) -> Number:
    """Dense SRAM of `size_bytes`, mm²."""
    return size_bytes / BYTES_PER_MIB * process.sram_mm2_per_mib
