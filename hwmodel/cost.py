"""Dollars: die, HBM and package to one chip, then the system around it to dollars per hour.

One model for existing and hypothetical chips; a chip's list price is a separate metric and is not
used here. Yield is the negative binomial (1 + A·D0/α)^-α; gross dies per wafer follow
Ferris-Prabhu (1989), π R²/A · exp(-√A/R), which stays positive for any area. Coefficients are in
`data/theta_physical.yaml`. `area_mm2` is `die_area_mm2(chip, theta)` where the caller has it
already; it keeps traces short.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hwmodel.area import die_area_mm2
from hwmodel.chip import Chip
from hwmodel.power import tdp_w
from hwmodel.process import process_at
from hwmodel.theta import Theta

Number = Any

MM2_PER_CM2 = 100.0
HOURS_PER_YEAR = 8760.0
WATTS_PER_KILOWATT = 1000.0


def die_yield(die_mm2: Number, defects_per_cm2: Number, theta: Theta) -> Number:
    """Share of good dies of `die_mm2`, (1 + A·D0/α)^-α."""
    defects = die_mm2 / MM2_PER_CM2 * defects_per_cm2
    alpha = theta["yield_cluster"]
    return jnp.exp(-alpha * jnp.log1p(defects / alpha))


def dies_per_wafer(die_mm2: Number, theta: Theta) -> Number:
    """Gross dies of `die_mm2` on one wafer."""
    radius = theta["wafer_diameter_mm"] / 2 - theta["wafer_edge_mm"]
    return jnp.pi * radius * radius / die_mm2 * jnp.exp(-jnp.sqrt(die_mm2) / radius)


def die_cost_usd(chip: Chip, theta: Theta, area_mm2: Number | None = None) -> Number:
    """Cost of all good compute dies of one package, USD."""
    die_mm2 = _area(chip, theta, area_mm2) / chip.compute_dies
    process = process_at(chip.node_nm)
    good = dies_per_wafer(die_mm2, theta) * die_yield(die_mm2, process.defects_per_cm2, theta)
    return chip.compute_dies * process.wafer_usd / good


def hbm_cost_usd(chip: Chip) -> Number:
    """Price of the HBM stacks, USD."""
    return chip.hbm_bytes * chip.hbm_usd_per_byte


def package_cost_usd(chip: Chip, theta: Theta, area_mm2: Number | None = None) -> Number:
    """Interposer, substrate and test, USD."""
    parts_mm2 = _area(chip, theta, area_mm2) + chip.hbm_stacks * theta["hbm_footprint_mm2"]
    interposer_mm2 = parts_mm2 * theta["interposer_margin"]
    return theta["package_usd"] + interposer_mm2 * theta["interposer_usd_per_mm2"]


def chip_cost_usd(chip: Chip, theta: Theta, area_mm2: Number | None = None) -> Number:
    """Price to the operator of one packaged chip with its HBM, USD.

    A failed bond loses everything on the package, so all parts are divided by the assembly yield.
    """
    area = _area(chip, theta, area_mm2)
    parts = (
        die_cost_usd(chip, theta, area) + hbm_cost_usd(chip) + package_cost_usd(chip, theta, area)
    )
    bonds = chip.compute_dies + chip.hbm_stacks
    # exp(n log y) rather than y ** n: the logarithm of a constant leaves the hot path
    return theta["chip_markup"] * parts * jnp.exp(-bonds * jnp.log(theta["bond_yield"]))


def system_capex_usd(chip: Chip, theta: Theta, area_mm2: Number | None = None) -> Number:
    """Chip plus its share of host, board, rack, ICI and DCN, USD."""
    area = _area(chip, theta, area_mm2)
    ici_usd = theta["ici_usd_per_byte_per_s"] + (
        chip.ici_switched * theta["ici_switch_usd_per_byte_per_s"]
    )
    return (
        chip_cost_usd(chip, theta, area)
        + theta["host_usd_per_chip"]
        + tdp_w(chip, theta, area) * theta["board_usd_per_w"]
        + chip.ici_bandwidth_bytes_per_s * ici_usd
        + chip.dcn_bandwidth_bytes_per_s * theta["dcn_usd_per_byte_per_s"]
    )


def usd_per_hour(
    chip: Chip, theta: Theta, average_power_w: Number, area_mm2: Number | None = None
) -> Number:
    """Cost of owning and running one chip for an hour, USD.

    Amortised system capex, energy at the chip's `average_power_w` plus its host's, and the
    data-centre share for the provisioned power (TDP), both times power usage effectiveness.
    """
    area = _area(chip, theta, area_mm2)
    pue = theta["power_usage_effectiveness"]
    host_w = theta["host_power_w_per_chip"]
    capex = system_capex_usd(chip, theta, area) / (theta["amortisation_years"] * HOURS_PER_YEAR)
    energy = (
        (average_power_w + host_w) * pue * theta["electricity_usd_per_kwh"] / WATTS_PER_KILOWATT
    )
    building = (tdp_w(chip, theta, area) + host_w) * pue * theta["datacentre_usd_per_w"]
    return capex + energy + building / (theta["datacentre_years"] * HOURS_PER_YEAR)


def _area(chip: Chip, theta: Theta, area_mm2: Number | None) -> Number:
    """The caller's die area, or the model's."""
    return die_area_mm2(chip, theta) if area_mm2 is None else area_mm2
