"""The catalog of knobs against the dataclasses whose fields it sets."""

from __future__ import annotations

import dataclasses

import pytest

from hwmodel.chip import CHIP_FIELDS
from models.deployment import Deployment
from models.variants import Variant
from models.workload import Training
from search_spaces.catalog import Entry, entries, find
from search_spaces.errors import SpaceError
from search_spaces.hbm import generations
from search_spaces.knob import SECTIONS
from search_spaces.values import knob, neutral_choice

FIELDS = {
    "chip": set(CHIP_FIELDS),
    "model": {f.name for f in dataclasses.fields(Variant)},
    "deployment": {f.name for f in dataclasses.fields(Deployment)},
}
STEP = Training(sequence_tokens=8192.0, global_batch=512.0)
STATED = {  # by a study's workload, not by a knob
    *("sequence_tokens", "global_batch", "master_weight_bits", "moment_bits"),
    *("causal", "expert_imbalance", "expert_capacity"),
}
TRAINING = {f.name for f in dataclasses.fields(Training)} - STATED
ALL = [entry for section in SECTIONS for entry in entries(section).values()]


@pytest.mark.parametrize("entry", ALL, ids=lambda e: e.name)
def test_defaults_set_known_fields(entry: Entry) -> None:
    built = knob(entry, entry.default)
    assert len(built.choices) > 1
    assert set(built.fields) <= _fields(entry)
    assert entry.meaning
    assert entry.kind != "linear" or entry.range is not None


def _fields(entry: Entry) -> set[str]:
    return TRAINING if entry.workload == "train" else FIELDS[entry.section]


@pytest.mark.parametrize("entry", [e for e in ALL if e.section != "chip"], ids=lambda e: e.name)
def test_neutral_is_the_default_of_the_field(entry: Entry) -> None:
    default: object = Deployment() if entry.section == "deployment" else Variant()
    if entry.workload == "train":
        default = STEP
    for field, value in neutral_choice(entry).fields.items():
        assert value == getattr(default, field), field


@pytest.mark.parametrize("entry", entries("model").values(), ids=lambda e: e.name)
def test_bands_are_variant_fields(entry: Entry) -> None:
    assert {f"{entry.band}_nats_low", f"{entry.band}_nats_high"} <= FIELDS["model"]


@pytest.mark.parametrize("section", SECTIONS)
def test_no_field_is_set_by_two_knobs(section: str) -> None:
    seen: dict[str, str] = {}
    for entry in ALL:
        if entry.section == section:
            for field in knob(entry, entry.default).fields:
                assert field not in seen, (field, entry.name, seen.get(field))
                seen[field] = entry.name


def test_every_variant_and_deployment_field_has_a_knob() -> None:
    for section in ("model", "deployment"):
        covered = {f for e in entries(section).values() for f in knob(e, e.default).fields}
        wanted = {f for f in FIELDS[section] if "_nats_" not in f}
        assert wanted | (TRAINING if section == "deployment" else set()) == covered


def test_chip_knobs_of_the_brief() -> None:
    wanted = {"mxu_rows", "mxus_per_core", "cores", "clock_hz", "vmem_bytes", "hbm_stacks"}
    wanted |= {"hbm_stack_bytes", "vpu_alus_per_slot", "ici_links", "int8_rate", "fp8_rate"}
    wanted |= {"ici_link_bandwidth_bytes_per_s", "nm_speedup_16bit", "nm_speedup_8bit"}
    assert wanted <= {f for e in entries("chip").values() for f in knob(e, e.default).fields}


def test_resources_and_conditions_are_spelt_right() -> None:
    for entry in ALL:
        assert entry.resource in (None, "up", "down")
        for parent in entry.when_not:
            assert parent in entries(entry.section)
        assert entry.companion is None or entry.companion in entries(entry.section)


def test_hbm_generations_become_faster() -> None:
    names = list(generations())
    assert names == ["hbm2", "hbm2e", "hbm3", "hbm3e", "hbm4"]
    speeds = [generations()[name]["stack_bandwidth_bytes_per_s"] for name in names]
    assert speeds == sorted(speeds)


def test_misspelt_and_misplaced() -> None:
    with pytest.raises(
        SpaceError, match="no chip knob is called 'clok_ghz'; did you mean 'clock_ghz'"
    ):
        find("clok_ghz", "chip")
    with pytest.raises(
        SpaceError, match="'batch' is a deployment knob; it belongs under deployment"
    ):
        find("batch", "chip")


def test_chip_knobs_have_no_neutral_setting() -> None:
    with pytest.raises(SpaceError, match="the base chip decides"):
        neutral_choice(find("cores", "chip"))
