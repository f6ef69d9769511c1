"""Presets."""

from __future__ import annotations

import pytest

from search_spaces.catalog import find
from search_spaces.errors import SpaceError
from search_spaces.knob import SECTIONS
from search_spaces.presets import Preset, load, presets
from search_spaces.values import knob


@pytest.mark.parametrize("preset", presets().values(), ids=lambda p: p.name)
def test_preset_is_legal_and_says_what_it_is_for(preset: Preset) -> None:
    assert preset.section in SECTIONS
    assert preset.purpose
    for name, values in preset.knobs.items():
        assert len(knob(find(name, preset.section), values).choices) > 1


def test_the_neighbourhood_has_the_main_chip_knobs() -> None:
    assert len(load("tpu_neighbourhood", "chip").knobs) >= 8


def test_every_section_has_presets() -> None:
    assert {p.section for p in presets().values()} == set(SECTIONS)


def test_unknown_and_misplaced() -> None:
    with pytest.raises(
        SpaceError, match="no chip preset is called 'tpu_neighborhood'; did you mean"
    ):
        load("tpu_neighborhood", "chip")
    with pytest.raises(SpaceError, match="holds deployment knobs; it belongs under deployment"):
        load("serving_pod", "chip")
