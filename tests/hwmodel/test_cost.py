"""Yield, wafers and dollars: known values and directions."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hwmodel import cost, presets, theta

THETA = theta.central()


def test_yield_is_the_negative_binomial() -> None:
    assert float(cost.die_yield(600.0, 0.1, THETA)) == pytest.approx(1.2**-3, rel=1e-5)
    assert float(cost.die_yield(0.0, 0.1, THETA)) == pytest.approx(1.0)


def test_dies_per_wafer_is_near_the_usual_formula_and_never_negative() -> None:
    radius = THETA["wafer_diameter_mm"] / 2 - THETA["wafer_edge_mm"]
    for die_mm2 in (100.0, 400.0, 800.0):
        usual = math.pi * radius**2 / die_mm2 - math.pi * 2 * radius / math.sqrt(2 * die_mm2)
        assert float(cost.dies_per_wafer(die_mm2, THETA)) == pytest.approx(usual, rel=0.15)
    assert float(cost.dies_per_wafer(50000.0, THETA)) > 0


def test_two_small_dies_cost_less_silicon_than_one_large() -> None:
    chip = presets.load("v7x")
    one = dataclasses.replace(chip, compute_dies=1.0)
    # the same total area, so that only yield differs
    assert cost.die_cost_usd(chip, THETA, 800.0) < cost.die_cost_usd(one, THETA, 800.0)


def test_passing_the_area_changes_nothing() -> None:
    from hwmodel.area import die_area_mm2

    chip = presets.load("v6e")
    area = die_area_mm2(chip, THETA)
    assert float(cost.usd_per_hour(chip, THETA, 300.0, area)) == pytest.approx(
        float(cost.usd_per_hour(chip, THETA, 300.0)), rel=1e-6
    )


def test_hourly_cost_is_its_three_parts() -> None:
    chip = presets.load("v6e")
    idle = float(cost.usd_per_hour(chip, THETA, 0.0))
    busy = float(cost.usd_per_hour(chip, THETA, 1000.0))
    per_kwh = THETA["electricity_usd_per_kwh"] * THETA["power_usage_effectiveness"]
    assert busy - idle == pytest.approx(per_kwh, rel=1e-3)
    capex = float(cost.system_capex_usd(chip, THETA))
    assert idle > capex / (THETA["amortisation_years"] * 8760)


@pytest.mark.parametrize("name", ["v2", "v3", "v4", "v5e", "v5p", "v6e", "v7x"])
def test_owning_costs_less_than_the_three_year_list_price(name: str) -> None:
    """A bound, not a fit: a cloud sells above cost. The list price does not enter the model."""
    chip = presets.load(name)
    price = presets.describe(name)["facts"]["price_3y_usd_per_hour"]["value"]
    modelled = float(cost.usd_per_hour(chip, THETA, 300.0))
    print(f"{name}: {modelled:.2f} USD/h modelled, 3-year list price {price:.2f}")
    assert 0.02 * price < modelled < price
    dearer = dataclasses.replace(chip, list_price_usd_per_hour=99.0)
    assert float(cost.usd_per_hour(dearer, THETA, 300.0)) == modelled
