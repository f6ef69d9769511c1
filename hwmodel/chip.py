"""Chip: one accelerator and its pod, as the numbers that time, energy, area and cost depend on.

A `Chip` holds numbers only, so that the same equations accept Python floats, NumPy arrays or traced
JAX scalars in any field. Names, sources and prose live in `hwmodel/chips/*.yaml` and are read by
`hwmodel.presets.load`. Nothing in the equations depends on the name of a generation.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

Number = Any  # float, NumPy array or traced JAX scalar


def describe(unit: str, meaning: str) -> Any:
    """A dataclass field that carries its unit and meaning, for listings and error messages."""
    return dataclasses.field(metadata={"unit": unit, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Chip:
    """One accelerator chip (package) and the network it sits in. All fields are SI numbers."""

    # --- process and clock
    node_nm: Number = describe("nm", "marketing name of the logic process")
    compute_dies: Number = describe("dies", "equal logic dies in the package")
    clock_hz: Number = describe("Hz", "core clock that the chip runs at")
    clock_nominal_hz: Number = describe("Hz", "clock reached at the nominal supply voltage")

    # --- matrix units
    cores: Number = describe("cores", "TensorCores (GPU: streaming multiprocessors) per chip")
    mxus_per_core: Number = describe("MXUs", "matrix units per core")
    mxu_rows: Number = describe("PEs", "contraction depth K of one matrix unit")
    mxu_cols: Number = describe("PEs", "output width N of one matrix unit")
    mxu_cadence_bf16_cycles: Number = describe("cycles", "cycles between bf16 vmatmul issues")
    mxu_latch_cadence_cycles: Number = describe("cycles", "cycles between weight-latch issues")
    mxu_latency_cycles: Number = describe(
        "cycles", "first input row to first output row; in the fixed time of GPU kernels"
    )
    mxu_row_tile: Number = describe(
        "rows", "M tile handed to one unit; 0 = rows stream freely (TPU)"
    )
    int8_rate: Number = describe("x", "int8 rows per cycle over bf16; 0 = not native")
    fp8_rate: Number = describe("x", "fp8 rows per cycle over bf16; 0 = not native")
    int4_rate: Number = describe("x", "int4 or fp4 rows per cycle over bf16; 0 = not native")
    nm_speedup_16bit: Number = describe("x", "largest N:M contraction speed-up, 16-bit; 1 = none")
    nm_speedup_8bit: Number = describe("x", "largest N:M contraction speed-up, 8-bit; 1 = none")

    # --- vector unit
    vpu_lanes: Number = describe("lanes", "vector lanes per core")
    vpu_sublanes: Number = describe("sublanes", "vector sublanes per core")
    vpu_alus_per_slot: Number = describe("ALUs", "ALUs per (lane, sublane): the VPU width")

    # --- on-chip memory
    vmem_bytes: Number = describe("B", "VMEM (GPU: L2 + shared memory) per chip")
    cmem_bytes: Number = describe("B", "CMEM per chip; 0 = none")
    sparsecores: Number = describe("SparseCores", "SparseCores (or CAEs) per chip; area and power")

    # --- HBM
    hbm_stacks: Number = describe("stacks", "HBM stacks in the package")
    hbm_stack_bytes: Number = describe("B", "capacity of one stack")
    hbm_stack_bandwidth_bytes_per_s: Number = describe("B/s", "peak bandwidth of one stack")
    hbm_latency_s: Number = describe("s", "HBM-to-VMEM DMA latency")
    hbm_energy_j_per_byte: Number = describe("J/B", "device access energy of this HBM generation")
    hbm_usd_per_byte: Number = describe("USD/B", "price of this HBM generation")
    hbm_phy_mm2_per_stack: Number = describe("mm2", "die area of one stack's PHY and controller")

    # --- scale-up network (ICI, NVLink) and DCN
    ici_links: Number = describe("links", "ICI links per chip")
    ici_link_bandwidth_bytes_per_s: Number = describe("B/s", "one-way bandwidth of one link")
    ici_torus_ndims: Number = describe("dims", "torus dimensions the links are wired for")
    ici_wrap_multiple: Number = describe(
        "chips", "a torus side has wrap-around at multiples of this"
    )
    ici_switched: Number = describe(
        "flag", "1 = any-to-any at injection bandwidth (NVLink, Boardfly)"
    )
    ici_hop_latency_s: Number = describe("s", "latency of one hop")
    ici_max_chips: Number = describe("chips", "largest ICI domain (pod)")
    dcn_bandwidth_bytes_per_s: Number = describe(
        "B/s", "data-centre network bandwidth per chip, one way"
    )
    dcn_latency_s: Number = describe("s", "latency of one DCN message")
    host_bandwidth_bytes_per_s: Number = describe(
        "B/s", "link to host memory (PCIe) per chip, one way"
    )

    # --- money
    list_price_usd_per_hour: Number = describe(
        "USD/h", "published on-demand price; NaN = none published"
    )

    @property
    def mxu_count(self) -> Number:
        """Matrix units per chip."""
        return self.cores * self.mxus_per_core

    @property
    def rows_per_vmatmul_bf16(self) -> Number:
        """Rows one bf16 vmatmul feeds: sublanes × 32 / 16."""
        return self.vpu_sublanes * 2

    @property
    def bf16_rows_per_cycle(self) -> Number:
        """bf16 rows per cycle into one matrix unit: rows per vmatmul over issue cadence."""
        return self.rows_per_vmatmul_bf16 / self.mxu_cadence_bf16_cycles

    @property
    def macs_per_cycle(self) -> Number:
        """bf16 multiply-accumulates per cycle per chip."""
        return self.mxu_count * self.mxu_rows * self.mxu_cols * self.bf16_rows_per_cycle

    @property
    def peak_bf16_flops(self) -> Number:
        """Dense bf16 peak in FLOP/s: rows/cadence · K · N · 2 · MXUs · cores · clock."""
        return 2 * self.macs_per_cycle * self.clock_hz

    @property
    def vpu_ops_per_s(self) -> Number:
        """Peak vector operations per second per chip, one per ALU per cycle."""
        return (
            self.cores * self.vpu_lanes * self.vpu_sublanes * self.vpu_alus_per_slot * self.clock_hz
        )

    @property
    def hbm_bytes(self) -> Number:
        """HBM capacity in bytes."""
        return self.hbm_stacks * self.hbm_stack_bytes

    @property
    def hbm_bandwidth_bytes_per_s(self) -> Number:
        """Peak HBM bandwidth in bytes per second."""
        return self.hbm_stacks * self.hbm_stack_bandwidth_bytes_per_s

    @property
    def ici_bandwidth_bytes_per_s(self) -> Number:
        """One-way injection bandwidth over all links in bytes per second."""
        return self.ici_links * self.ici_link_bandwidth_bytes_per_s


CHIP_FIELDS: tuple[str, ...] = tuple(f.name for f in dataclasses.fields(Chip))

_DIVIDED = (
    "cores",
    "vmem_bytes",
    "cmem_bytes",
    "sparsecores",
    "hbm_stacks",
    "ici_links",
    "dcn_bandwidth_bytes_per_s",
    "host_bandwidth_bytes_per_s",
    "list_price_usd_per_hour",
)
"""Fields that a part of a chip has a part of; clocks, cadences and latencies are the chip's."""


def share_of(chip: Chip, share: float) -> Chip:
    """The fraction `share` of a chip as a device of its own, for times of what one device does.

    Software may run one device per core: a microbenchmark of such a device sees its share of the
    matrix and vector units, of on-chip memory, HBM and links. Dies and the pod stay those of the
    chip, so area and cost of the result mean nothing.

    Raises:
        ValueError: the share does not hold a whole number of cores.
    """
    cores = float(chip.cores) * share
    if not (0 < share <= 1 and cores >= 1 and cores.is_integer()):
        raise ValueError(f"a device of {share:g} chip would have {cores:g} of {chip.cores:g} cores")
    return dataclasses.replace(chip, **{name: getattr(chip, name) * share for name in _DIVIDED})
