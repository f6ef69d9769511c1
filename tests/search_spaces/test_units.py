"""Numbers with units."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.errors import UnitError
from search_spaces.units import parse_quantity, parse_unit


@pytest.mark.parametrize(
    ("given_value", "unit", "number"),
    [
        (1.75, "GHz", 1.75),
        ("1.75 GHz", "GHz", 1.75),
        ("1750MHz", "GHz", 1.75),
        ("128 MiB", "MiB", 128),
        ("1 GiB", "MiB", 1024),
        ("1048576 B", "MiB", 1),
        ("1 MB", "MiB", 1e6 / 2**20),
        ("900 GB/s", "GB/s", 900),
        ("800 Gb/s", "GB/s", 100),
        ("1.2 TB/s", "GB/s", 1200),
        ("50 ms", "s", 0.05),
        ("2 min", "s", 120),
        ("1e-3", "s", 0.001),
        (".5 s", "s", 0.5),
        ("8 cm2", "mm2", 800),
        ("0.7 kW", "W", 700),
        ("500 mJ/token", "J/token", 0.5),
        ("3 USD/Mtoken", "USD/Mtoken", 3),
        ("2 $/Mtoken", "USD/Mtoken", 2),
        ("40 %", "", 0.4),
        ("50 %", "share", 0.5),
        ("4 stacks", "stacks", 4),
        ("15 Ttokens", "tokens", 15e12),
        (3, "cores", 3),
    ],
)
def test_fits(given_value: object, unit: str, number: float) -> None:
    assert parse_quantity(given_value, unit, "knob") == pytest.approx(number, rel=1e-13)


@pytest.mark.parametrize(
    ("given_value", "unit", "parts"),
    [
        ("128 GHz", "MiB", ["vmem", "'128 GHz'", "a frequency", "a size in MiB", "'1 MiB'"]),
        ("5 GB", "GB/s", ["a size in GB", "a bandwidth in GB/s"]),
        ("5 ms", "GHz", ["a time in ms", "a frequency in GHz"]),
        ("3 W", "cores", ["plain number of cores"]),
        ("3 GHertz", "GHz", ["unknown unit 'GHertz'", "GHz"]),
        ("fast", "GHz", ["'fast' is not a number in GHz"]),
        (None, "GHz", ["None is not a number"]),
        (True, "GHz", ["True is not a number"]),
        ([1], "GHz", ["[1] is not a number"]),
        (float("inf"), "s", ["not a finite number"]),
        ("1e999 s", "s", ["not a finite number"]),
        ("3 %", "GHz", ["a plain number"]),
    ],
)
def test_does_not_fit(given_value: object, unit: str, parts: list[str]) -> None:
    with pytest.raises(UnitError) as error:
        parse_quantity(given_value, unit, "vmem")
    for part in ["vmem", *parts]:
        assert part in str(error.value)


def test_bits_and_bytes_differ_by_case() -> None:
    assert parse_quantity("8 Gb", "GB", "x") == 1
    assert parse_quantity("8 GB", "GB", "x") == 8


@settings(deadline=None)
@given(
    st.floats(1e-6, 1e6),
    st.sampled_from(["B", "KiB", "MB", "GiB", "TB"]),
    st.sampled_from(["B", "KiB", "MB", "GiB", "TB"]),
)
def test_there_and_back(number: float, one: str, other: str) -> None:
    there = parse_quantity(f"{number!r} {one}", other, "x")
    assert parse_quantity(f"{there!r} {other}", one, "x") == pytest.approx(number, rel=1e-12)


def test_dimensions_cancel() -> None:
    unit = parse_unit("MB/GB")
    assert unit is not None
    assert unit.dimension == ()
    assert unit.factor == pytest.approx(1e-3)
