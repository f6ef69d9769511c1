"""Energy and power of one chip: switching energy from counted activity, static power from area.

Switching energy scales with the node and with voltage squared; voltage follows the clock.
Coefficients are in `data/theta_physical.yaml`. All inputs may be Python floats, arrays or traced.
`area_mm2` is `die_area_mm2(chip, theta)` where the caller has it already; it keeps traces short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.area import die_area_mm2
from hwmodel.chip import Chip
from hwmodel.process import process_at
from hwmodel.theta import Theta

Number = Any

VMEM_REFERENCE_BYTES = 16 * 1048576.0  # capacity per core that theta's VMEM energy is stated for
BYTES_PER_FP32 = 4.0


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What one chip did in some interval: counts of operations and bytes, any common shape.

    MACs are those executed (an N:M matmul counts the kept products only).
    """

    macs_16bit: Number = 0.0
    macs_8bit: Number = 0.0
    macs_4bit: Number = 0.0
    vpu_ops: Number = 0.0
    vmem_bytes: Number = 0.0
    hbm_bytes: Number = 0.0
    ici_bytes: Number = 0.0
    dcn_bytes: Number = 0.0


def voltage_scale(chip: Chip, theta: Theta) -> Number:
    """Supply voltage over nominal: linear in the clock, steeper above nominal, with a floor."""
    above = chip.clock_hz / chip.clock_nominal_hz - 1
    over = jnp.maximum(above, 0.0)
    volts = 1 + theta["voltage_slope"] * above + theta["voltage_slope_overdrive"] * over * over
    return jnp.maximum(volts, theta["voltage_floor"])


def dynamic_energy_j(chip: Chip, theta: Theta, activity: Activity) -> Number:
    """Joules switched by `activity`, in the chip, its HBM and its share of the networks."""
    volts = voltage_scale(chip, theta)
    logic = process_at(chip.node_nm).energy_scale * volts * volts
    macs = (
        activity.macs_16bit
        + activity.macs_8bit * theta["mac_energy_8bit_ratio"]
        + activity.macs_4bit * theta["mac_energy_4bit_ratio"]
    )
    on_die = (
        macs * theta["mac_energy_bf16_j_7nm"]
        + activity.vpu_ops * theta["vpu_energy_j_per_op_7nm"]
        + activity.vmem_bytes * _vmem_energy_j_per_byte_7nm(chip, theta)
        + activity.hbm_bytes * theta["hbm_path_energy_j_per_byte_7nm"]
    )
    return (
        logic * on_die
        + activity.hbm_bytes * chip.hbm_energy_j_per_byte
        + activity.ici_bytes * theta["ici_energy_j_per_byte"]
        + activity.dcn_bytes * theta["dcn_energy_j_per_byte"]
    )


def static_power_w(chip: Chip, theta: Theta, area_mm2: Number | None = None) -> Number:
    """Watts of a powered, idle chip: leakage, clock tree, HBM standby and always-on links."""
    area = die_area_mm2(chip, theta) if area_mm2 is None else area_mm2
    volts = voltage_scale(chip, theta)
    per_mm2 = theta["leakage_w_per_mm2"] + theta["idle_clock_w_per_mm2_per_hz"] * chip.clock_hz
    return (
        area * per_mm2 * volts * volts
        + chip.hbm_stacks * theta["hbm_idle_w_per_stack"]
        + chip.ici_bandwidth_bytes_per_s * theta["ici_idle_w_per_byte_per_s"]
    )


def design_activity(chip: Chip, theta: Theta) -> Activity:
    """Activity per second that the power supply is sized for: all engines at theta's utilisations.

    The matrix units run the format with the highest power, expressed as 16-bit MACs.
    """
    per_mac = jnp.maximum(
        jnp.maximum(1.0, chip.int4_rate * theta["mac_energy_4bit_ratio"]),
        jnp.maximum(chip.int8_rate, chip.fp8_rate) * theta["mac_energy_8bit_ratio"],
    )
    vector_bytes = chip.cores * chip.vpu_lanes * chip.vpu_sublanes * BYTES_PER_FP32
    return Activity(
        macs_16bit=chip.macs_per_cycle * chip.clock_hz * per_mac * theta["tdp_mxu_utilisation"],
        vpu_ops=chip.vpu_ops_per_s * theta["tdp_vpu_utilisation"],
        vmem_bytes=vector_bytes * chip.clock_hz * theta["tdp_vmem_accesses_per_cycle"],
        hbm_bytes=chip.hbm_bandwidth_bytes_per_s * theta["tdp_hbm_utilisation"],
        ici_bytes=chip.ici_bandwidth_bytes_per_s * theta["tdp_ici_utilisation"],
    )


def tdp_w(chip: Chip, theta: Theta, area_mm2: Number | None = None) -> Number:
    """Design power of the package, W: static plus design activity, times the design margin."""
    dynamic = dynamic_energy_j(chip, theta, design_activity(chip, theta))
    return theta["tdp_margin"] * (static_power_w(chip, theta, area_mm2) + dynamic)


def _vmem_energy_j_per_byte_7nm(chip: Chip, theta: Theta) -> Number:
    """Access energy grows with the capacity that one core reaches."""
    capacity = chip.vmem_bytes / chip.cores / VMEM_REFERENCE_BYTES
    growth = jnp.exp(theta["vmem_energy_exponent"] * jnp.log(capacity))
    return theta["vmem_energy_j_per_byte_7nm"] * growth
