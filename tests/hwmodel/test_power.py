"""Power against published TDP and measured power; energy arithmetic; voltage.

Run with `-s` to see the table. The asserts are loose on purpose: only five TPUs have any published
power, each defined differently.
"""

from __future__ import annotations

import dataclasses

import pytest

from hwmodel import power, presets, theta
from hwmodel.power import Activity

THETA = theta.central()


def _watts(name: str, what: str) -> float:
    chip = presets.load(name)
    if what == "tdp_w":
        return float(power.tdp_w(chip, THETA))
    if what == "static":
        return float(power.static_power_w(chip, THETA))
    return float(power.tdp_w(chip, THETA)) / THETA["tdp_margin"]


@pytest.mark.parametrize(
    ("name", "modelled", "fact", "factor"),
    [
        ("v2", "tdp_w", "tdp_w", 1.5),
        ("v3", "tdp_w", "tdp_w", 1.5),
        ("v4i", "tdp_w", "tdp_w", 1.2),
        ("v3", "static", "power_idle_w", 1.3),
        ("v4", "static", "power_idle_w", 1.2),
        # the design activity, without margin, against the highest power over applications
        ("v3", "design", "power_max_w", 1.2),
        ("v4", "design", "power_max_w", 1.4),
        # all-in includes host and cooling, so the chip must lie below it
        ("v7x", "tdp_w", "power_all_in_w", 1.5),
        ("h100", "tdp_w", "tdp_w", 2.0),
        ("h200", "tdp_w", "tdp_w", 2.0),
        ("b200", "tdp_w", "tdp_w", 2.0),
    ],
)
def test_power_agrees_with_what_is_published(
    name: str, modelled: str, fact: str, factor: float
) -> None:
    published = presets.describe(name)["facts"][fact]["value"]
    watts = _watts(name, modelled)
    print(
        f"{name} {modelled}: {watts:.0f} W, {fact} {published:.0f} W, {watts / published - 1:+.0%}"
    )
    assert published / factor < watts < published * factor


def test_v7x_chip_draws_less_than_its_share_of_the_pod() -> None:
    facts = presets.describe("v7x")["facts"]
    assert _watts("v7x", "tdp_w") < facts["power_all_in_w"]["value"]


def test_no_activity_costs_no_switching_energy() -> None:
    assert float(power.dynamic_energy_j(presets.load("v6e"), THETA, Activity())) == 0.0


def test_energy_is_linear_in_activity_and_follows_stated_ratios() -> None:
    chip = presets.load("v4")  # 7 nm at nominal voltage: every scale is 1

    def joules(**counts: float) -> float:
        return float(power.dynamic_energy_j(chip, THETA, Activity(**counts)))

    assert joules(macs_16bit=1e12) == pytest.approx(1e12 * THETA["mac_energy_bf16_j_7nm"], rel=1e-5)
    assert joules(macs_8bit=1e12) / joules(macs_16bit=1e12) == pytest.approx(
        THETA["mac_energy_8bit_ratio"], rel=1e-5
    )
    assert joules(macs_4bit=1e12) < joules(macs_8bit=1e12)
    assert joules(hbm_bytes=1e9) == pytest.approx(
        1e9 * (chip.hbm_energy_j_per_byte + THETA["hbm_path_energy_j_per_byte_7nm"]), rel=1e-5
    )
    assert joules(vpu_ops=3e9, dcn_bytes=2e6) == pytest.approx(
        3 * joules(vpu_ops=1e9) + 2 * joules(dcn_bytes=1e6), rel=1e-5
    )


def test_a_finer_node_switches_less_energy() -> None:
    chip = presets.load("v4")
    finer = dataclasses.replace(chip, node_nm=3.0)
    activity = Activity(macs_16bit=1e12)
    assert power.dynamic_energy_j(finer, THETA, activity) < power.dynamic_energy_j(
        chip, THETA, activity
    )


def test_voltage_is_nominal_at_the_nominal_clock_with_a_floor() -> None:
    chip = presets.load("v7x")

    def volts(clock_hz: float) -> float:
        return float(power.voltage_scale(dataclasses.replace(chip, clock_hz=clock_hz), THETA))

    assert volts(1.9e9) == pytest.approx(1.0)
    assert volts(1.6e9) < 1.0 < volts(2.0e9) < volts(2.2e9)
    assert volts(0.2e9) == pytest.approx(THETA["voltage_floor"])
    # steeper above nominal than below
    assert volts(2.1e9) - 1.0 > 1.0 - volts(1.7e9)
