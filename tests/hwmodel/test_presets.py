"""Presets: every field sourced, published totals and peaks reproduced, names never guessed."""

from __future__ import annotations

import math
import re

import pytest
import yaml

from hwmodel import presets, theta
from hwmodel.chip import CHIP_FIELDS

TPUS = ("v2", "v3", "v4i", "v4", "v5e", "v5p", "v6e", "v7x", "8i", "8t")
GPUS = ("h100", "h200", "b200")
ALL = TPUS + GPUS


def test_the_issue_lists_exactly_these_chips() -> None:
    assert set(presets.names()) == set(ALL)


@pytest.mark.parametrize("name", ALL)
def test_every_field_is_a_number_with_a_resolvable_source(name: str) -> None:
    info = presets.describe(name)
    assert set(info["fields"]) == set(CHIP_FIELDS)
    for field, entry in {**info["fields"], **info["facts"]}.items():
        assert entry["unit"] is not None and entry["kind"] in presets.KINDS, (name, field)
        for key in entry["source"].split("; "):
            assert key in presets.sources(), (name, field, key)


@pytest.mark.parametrize("name", ALL)
def test_every_estimate_has_a_range_and_a_reason(name: str) -> None:
    for field, entry in presets.describe(name)["fields"].items():
        if entry["kind"] == "estimate":
            assert entry["low"] <= entry["value"] <= entry["high"], (name, field)
            assert entry["note"], (name, field)


@pytest.mark.parametrize("name", ALL)
def test_load_gives_python_floats_and_only_a_price_may_be_missing(name: str) -> None:
    chip = presets.load(name)
    for field in CHIP_FIELDS:
        value = getattr(chip, field)
        assert type(value) is float
        assert field == "list_price_usd_per_hour" or math.isfinite(value), field


@pytest.mark.parametrize("name", ALL)
def test_published_peaks_come_out_at_their_quoted_clock(name: str) -> None:
    chip = presets.load(name)
    rates = {
        "bf16": 1.0,
        "int8": chip.int8_rate,
        "fp8": chip.fp8_rate,
        "int4": chip.int4_rate,
    }
    facts = presets.describe(name)["facts"]
    checked = 0
    for fact, entry in facts.items():
        match = re.fullmatch(r"peak_(bf16|int8|fp8|int4)(_p\d)?_tflops", fact)
        if match is None:
            continue
        flops = 2 * chip.macs_per_cycle * rates[match[1]] * entry["peak_clock_hz"]
        # 8i prints its fp4 peak in steps of 0.1 PFLOP/s; half a step is more than 0.3 %
        slack = max(0.003 * entry["value"], entry.get("printed_step", 0) / 2)
        assert abs(flops / 1e12 - entry["value"]) <= slack, (fact, flops / 1e12)
        checked += 1
    assert checked >= 1


def test_v7x_default_clock_is_below_the_clock_of_its_published_peak() -> None:
    chip = presets.load("v7x")
    assert chip.clock_hz == 1.9e9
    assert chip.peak_bf16_flops == pytest.approx(1992e12, rel=1e-3)


@pytest.mark.parametrize("name", ALL)
def test_stacks_reproduce_published_hbm_totals(name: str) -> None:
    chip, facts = presets.load(name), presets.describe(name)["facts"]
    assert chip.hbm_bytes == pytest.approx(facts["hbm_total_bytes"]["value"], rel=1e-9)
    assert chip.hbm_bandwidth_bytes_per_s == pytest.approx(
        facts["hbm_total_bandwidth_bytes_per_s"]["value"], rel=1e-9
    )


@pytest.mark.parametrize("name", ALL)
def test_hbm_fields_agree_with_the_generation_table(name: str) -> None:
    chip, facts = presets.load(name), presets.describe(name)["facts"]
    row = presets.hbm_generations()[facts["hbm_generation"]["value"]]
    assert chip.hbm_energy_j_per_byte == row["energy_j_per_byte"]["value"]
    assert chip.hbm_usd_per_byte == row["usd_per_byte"]["value"]
    assert chip.hbm_phy_mm2_per_stack == row["phy_mm2_per_stack"]["value"]
    # no chip drives a stack faster than its generation allows
    assert (
        chip.hbm_stack_bandwidth_bytes_per_s <= row["stack_bandwidth_bytes_per_s"]["value"] * 1.001
    )


def test_hbm_generations_and_process_nodes_are_sourced_and_ordered() -> None:
    rows = presets.hbm_generations()
    assert list(rows) == ["HBM2", "HBM2E", "HBM3", "HBM3E", "HBM4"]
    for row in rows.values():
        for entry in row.values():
            assert set(entry["source"].split("; ")) <= set(presets.sources())
            if entry["kind"] == "estimate":
                assert entry["low"] <= entry["value"] <= entry["high"]
    prices = [row["usd_per_byte"]["value"] for row in rows.values()]
    assert prices == sorted(prices)


def test_every_physical_constant_lies_in_its_range() -> None:
    for constant in theta.constants().values():
        assert constant.low <= constant.value <= constant.high, constant.name
        assert constant.kind in ("published", "fitted", "estimate"), constant.name


def test_every_physical_constant_names_a_known_source() -> None:
    from importlib import resources

    text = resources.files("hwmodel").joinpath("data/theta_physical.yaml").read_text()
    for name, entry in yaml.safe_load(text).items():
        named = set(re.findall(r"[A-Z][A-Z0-9-]+", entry["source"])) & set(presets.sources())
        assert named, (name, entry["source"])


@pytest.mark.parametrize("name", GPUS)
def test_gpus_say_how_far_their_kernels_are_off_and_what_is_unchecked(name: str) -> None:
    text = presets.describe(name)["unvalidated"]
    assert "median error" in text and "are not" in text
    assert presets.load(name).nm_speedup_16bit == 2.0


@pytest.mark.parametrize("name", TPUS)
def test_only_8t_has_structured_sparsity_among_tpus(name: str) -> None:
    chip = presets.load(name)
    assert presets.describe(name)["unvalidated"] is None
    assert (chip.nm_speedup_16bit > 1) == (name == "8t")
    assert (chip.nm_speedup_8bit > 1) == (name == "8t")


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("tpu_v6e", "v6e"),
        ("TPU v6e", "v6e"),
        ("trillium", "v6e"),
        ("ironwood", "v7x"),
        ("7x", "v7x"),
        ("tpu7x", "v7x"),
        ("tpu8i", "8i"),
        ("TPU-8t", "8t"),
        ("H100", "h100"),
    ],
)
def test_aliases(alias: str, name: str) -> None:
    assert presets.canonical(alias) == name
    assert presets.load(alias) == presets.load(name)


@pytest.mark.parametrize(("wrong", "near"), [("v6", None), ("v6p", "v6e"), ("h20", "h200")])
def test_an_unknown_chip_is_an_error_that_names_the_nearest(wrong: str, near: str | None) -> None:
    if near is None:
        assert presets.canonical(wrong) == "v6e"  # a documented alias, not a guess
        return
    with pytest.raises(presets.ChipError, match=rf"unknown chip '{wrong}'.*nearest: .*{near}"):
        presets.load(wrong)


def test_a_name_like_nothing_lists_all_chips() -> None:
    with pytest.raises(presets.ChipError, match="known chips: v2, v3, .*h100"):
        presets.load("cerebras")


def test_describe_cannot_corrupt_the_cache() -> None:
    presets.describe("v6e")["fields"]["clock_hz"]["value"] = 1.0
    assert presets.load("v6e").clock_hz == 1.75e9
