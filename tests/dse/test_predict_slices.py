"""Slices of `dse predict`: the default, what cannot be, what nobody offers, and their names."""

from __future__ import annotations

import math
from importlib import resources
from typing import Any

import pytest
import yaml

from dse.errors import UserError
from dse.predict.configuration import Configuration, Request, build
from dse.predict.slices import default, shape, unpublished
from hwmodel import presets

PUBLISHED: dict[str, dict[str, Any]] = yaml.safe_load(
    resources.files("dse").joinpath("predict", "slices.yaml").read_text("utf-8")
)


def built(chip: str, chips: int, torus: str | None = None) -> Configuration:
    more: dict[str, Any] = {"model": "Meta-Llama-3.1-8B", "phase": "decode"}
    return build(Request(chip=chip, chips=chips, torus=torus, **more))


@pytest.mark.parametrize(
    ("chip", "chips", "sides"),
    [
        ("v5p", 4, "2x2x1"),
        ("v5p", 8, "2x2x2"),
        ("v5p", 16, "2x2x4"),  # 1x4x4 has the same longest side
        ("v5p", 32, "2x4x4"),
        ("v5p", 128, "4x4x8"),
        ("v4", 192, "4x4x12"),  # whole cubes, though 4x6x8 is nearer to one
        ("v5e", 8, "2x4"),
        ("v6e", 256, "16x16"),
        ("v6e", 7, "1x7"),
        ("v6e", 1, "1x1"),
        ("v4i", 4, "4"),
    ],
)
def test_default_is_the_most_cubic_slice(chip: str, chips: int, sides: str) -> None:
    known = presets.load(chip)
    found, count = default(chips, known)
    assert shape(found, known) == sides and count == 1


def test_default_of_a_published_size_is_a_published_slice() -> None:
    for name, known in PUBLISHED.items():
        chip = presets.load(name)
        for text in [*known["shapes"], *(["8x8x8", "4x4x8"] if "multiple" in known else [])]:
            chips = math.prod(int(side) for side in text.split("x"))
            found, _ = default(chips, chip)
            assert sorted(shape(found, chip).split("x")) == sorted(text.split("x"))
            assert unpublished(found, name, chip) == ""


def test_chips_beyond_a_slice_make_as_few_slices_as_hold_them() -> None:
    chip = presets.load("v6e")
    assert default(768, chip) == ((16.0, 16.0, 1.0), 3)
    assert default(999_983, chip)[1] == 999_983  # a prime


@pytest.mark.parametrize(
    ("chip", "chips", "torus", "words"),
    [
        ("v5e", 8, "axb", "write one to three sides of at least 1, as 4x4"),
        ("v5p", 8, "0x8", "write one to three sides of at least 1, as 4x4"),
        ("v5p", 8, "2x-4", "write one to three sides"),
        ("v5p", 8, "1x1x2x4", "write one to three sides"),
        ("v5p", 8, "\u0663x2", "write one to three sides"),  # a digit, but no ASCII one
        (
            "v5p",
            8,
            "3x3",
            "9 chips, and --chips 8 is no whole number of such slices; set --chips 9",
        ),
        ("v5p", 24, "3x3", "set --chips 18 or 27"),
        ("v5e", 8, "2x2x2", "v5e has links for 2 dimensions"),
        ("v6e", 32, "1x32", "a pod of v6e is 16x16"),
        ("v6e", 512, "16x32", "512 chips, and a slice of v6e at most 256"),
        ("h100", 8, "2x4", "GPUs of h100 meet in a switch, not a torus; state how many"),
        ("h100", 16, "16", "a slice of h100 at most 8"),
    ],
)
def test_a_torus_that_cannot_be_is_refused(chip: str, chips: int, torus: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        built(chip, chips, torus)
    text = str(caught.value)
    assert text.startswith(f"--torus {torus}") and words in text and "\n" not in text


@pytest.mark.parametrize(
    ("chip", "chips", "torus", "near"),
    [
        ("v6e", 7, None, "2x2 (4 chips) or 2x4 (8 chips)"),
        ("v6e", 8, "1x8", "2x4 (8 chips) or 4x4 (16 chips)"),
        ("v5p", 16, "1x4x4", "2x2x4 (16 chips) or 2x4x4 (32 chips)"),
        ("v5p", 96, None, "4x4x4 (64 chips) or 4x4x8 (128 chips)"),
        ("v5e", 3, None, "2x2 (4 chips)"),
    ],
)
def test_a_slice_that_nobody_offers_has_a_note(
    chip: str, chips: int, torus: str | None, near: str
) -> None:
    (note,) = built(chip, chips, torus).notes
    assert f"of {chip} is published" in note and note.endswith(f"published near it: {near}")


@pytest.mark.parametrize(
    ("chip", "chips"), [("v6e", 1), ("v6e", 8), ("v5p", 1), ("v5p", 448), ("v3", 8), ("h100", 5)]
)
def test_slices_that_may_be_had_have_no_note(chip: str, chips: int) -> None:
    assert built(chip, chips).notes == ()


def test_an_odd_slice_of_a_chip_without_a_list_has_a_note() -> None:
    (note,) = built("v3", 7).notes
    assert "no list of the slices of v3" in note and "1x7" in note


@pytest.mark.parametrize(
    ("chip", "chips", "torus", "words"),
    [
        ("h100", 8, None, "8 GPUs in one NVLink domain"),
        ("h100", 16, None, "2 NVLink domains of 8 GPUs"),
        ("h100", 16, "4", "4 NVLink domains of 4 GPUs"),
        ("h100", 1, None, "1 GPU"),
        ("8i", 32, None, "32 chips in one switched domain"),
        ("v5e", 8, None, "torus 2x4"),
        ("v5e", 8, "2x2", "torus 2x2, 2 slices"),
    ],
)
def test_what_was_chosen_has_its_name(chip: str, chips: int, torus: str | None, words: str) -> None:
    assert words in built(chip, chips, torus).rules
