"""The slice of a configuration: which one is taken where none is stated, which cannot be, which
nobody offers, and its name."""

from __future__ import annotations

import math
from functools import cache
from importlib import resources
from typing import Any

from dse.divisors import divisors, multiples_around
from dse.errors import UserError
from hwmodel.chip import Chip

Sides = tuple[float, float, float]


def default(chips: int, chip: Chip) -> tuple[Sides, int]:
    """Sides of the slices that `chips` make, and their number: as few as hold them."""
    largest = round(chip.ici_max_chips)
    count = next(n for n in divisors(chips) if chips // n <= largest)
    own = chips // count
    if chip.ici_switched:
        return (float(own), 1.0, 1.0), count
    return most_cubic(own, round(chip.ici_torus_ndims), round(chip.ici_wrap_multiple)), count


def most_cubic(chips: int, dimensions: int, cube: int) -> Sides:
    """Sides of the torus of `chips` that is nearest to a cube: its longest side is shortest, and of
    those its shortest side is longest. Sides of 1 are written last, as makers write them.

    In three dimensions slices of whole cubes are preferred, which is how larger ones are cut.
    Validation has its own rule (`dse.validation.cases`), which fitted constants rest on.
    """
    found = [
        (x, y, chips // x // y)
        for x in (divisors(chips) if dimensions >= 3 else [1])
        for y in (divisors(chips // x) if dimensions >= 2 else [1])
        if x <= y <= chips // x // y
    ]

    def key(sides: tuple[int, int, int]) -> tuple[bool, int, int]:
        cubes = dimensions >= 3 and all(side % cube == 0 for side in sides)
        return not cubes, sides[2], -sides[0]

    best = min(found, key=key)
    x, y, z = [float(s) for s in sorted(best, key=lambda side: (side == 1, side))]
    if dimensions == 2 and y == 1:  # a row of chips, written with both its sides: 1x7
        x, y = y, x
    return x, y, z


def stated(text: str, chips: int, name: str, chip: Chip) -> Sides:
    """Sides as a user wrote them.

    Raises:
        UserError: they are no sides, or no slice of the chip, or not of so many chips.
    """
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 3 or not all(_is_side(p) for p in parts):
        raise UserError(f"--torus {text}: write one to three sides of at least 1, as 4x4 or 4x4x8")
    sides = [int(p) for p in parts]
    if chip.ici_switched and len([s for s in sides if s > 1]) > 1:
        raise UserError(
            f"--torus {text}: the {noun(chip, 2)} of {name} meet in a switch, not a torus; state "
            f"how many share one, --torus {math.prod(sides)}, or leave it out"
        )
    dimensions = round(chip.ici_torus_ndims)
    if len([s for s in sides if s > 1]) > dimensions:
        raise UserError(
            f"--torus {text}: {name} has links for {dimensions} dimensions; write it with "
            f"{dimensions} sides, or leave it out"
        )
    _check_size(text, sides, chips, name, chip)
    x, y, z = [float(s) for s in (*sides, 1, 1)[:3]]
    return x, y, z


def _is_side(part: str) -> bool:
    # isascii: int() takes digits of any script, and a long number is no side
    return part.isascii() and part.isdecimal() and len(part) < 8 and int(part) > 0


def _check_size(text: str, sides: list[int], chips: int, name: str, chip: Chip) -> None:
    own, largest = math.prod(sides), round(chip.ici_max_chips)
    if own > largest:
        raise UserError(
            f"--torus {text} has {own} chips, and a slice of {name} at most {largest}; smaller "
            "slices meet over the data-centre network"
        )
    side = pod_side(chip)
    if side and max(sides) > side:
        raise UserError(
            f"--torus {text}: a pod of {name} is {side}x{side}, no side is longer; leave --torus "
            "out for the squarest slice"
        )
    if chips % own:
        near = " or ".join(map(str, multiples_around(chips, own)))
        raise UserError(
            f"--torus {text} has {own} chips, and --chips {chips} is no whole number of such "
            f"slices; set --chips {near}, or leave --torus out"
        )


def pod_side(chip: Chip) -> int:
    """Side of the square pod of a chip whose rings close at the edges of its pod only; else 0."""
    side = round(chip.ici_wrap_multiple)
    whole = chip.ici_torus_ndims == 2 and side**2 == round(chip.ici_max_chips)
    return side if whole and not chip.ici_switched else 0


def named(sides: Sides, count: int, chip: Chip) -> str:
    """`torus 2x4, 4 slices`, or what the chips share where they have no torus."""
    if chip.ici_switched:
        own = round(sides[0])
        place = "NVLink domain" if chip.mxu_row_tile else "switched domain"
        many = f"{count} {place}s of " if count > 1 else ""
        return f"{many}{own} {noun(chip, own)}" + (f" in one {place}" if count == 1 < own else "")
    return f"torus {shape(sides, chip)}" + (f", {count} slices" if count > 1 else "")


def noun(chip: Chip, number: int) -> str:
    """What one calls the chips."""
    return ("GPU" if chip.mxu_row_tile else "chip") + ("s" if number != 1 else "")


def shape(sides: Sides, chip: Chip) -> str:
    """Sides with an x between them, as many as the chip has dimensions."""
    return "x".join(f"{side:g}" for side in sides[: round(chip.ici_torus_ndims)])


def unpublished(sides: Sides, name: str, chip: Chip) -> str:
    """A sentence where the maker publishes no such slice; empty where it does, for a single chip,
    which is part of any slice, and where chips meet in a switch. Where no list is known, sides that
    are powers of two pass."""
    own = math.prod(round(s) for s in sides)
    if chip.ici_switched or own == 1:
        return ""
    known = _published().get(name)
    if known is None:
        usual = all(round(s).bit_count() == 1 for s in sides)
        text = f"no list of the slices of {name} is known here; check that one of"
        return "" if usual else f"{text} {shape(sides, chip)} chips can be had"
    if _is_published(sides, known):
        return ""
    near = _nearest(own, round(chip.ici_max_chips), known)
    return (
        f"no slice {shape(sides, chip)} of {name} is published, the numbers are of one that may "
        f"not be had; published near it: {' or '.join(near)}"
    )


def _is_published(sides: Sides, known: dict[str, Any]) -> bool:
    ordered = _ordered([round(s) for s in sides])
    if ordered in {_ordered([int(s) for s in text.split("x")]) for text in known["shapes"]}:
        return True
    multiple: int | None = known.get("multiple")
    return multiple is not None and all(s % multiple == 0 for s in ordered)


def _ordered(sides: list[int]) -> tuple[int, ...]:
    return tuple(sorted((*sides, 1, 1)[:3]))


def _nearest(chips: int, largest: int, known: dict[str, Any]) -> list[str]:
    """The published slices of the most chips up to `chips` and of the fewest from there on."""
    sizes = {math.prod(int(s) for s in text.split("x")): text for text in known["shapes"]}
    if multiple := known.get("multiple"):
        cube = multiple**3
        for count in (chips // cube, chips // cube + 1):
            if 0 < count * cube <= largest:
                sides = most_cubic(count * cube, 3, multiple)
                sizes[count * cube] = "x".join(f"{s:g}" for s in sides)
    below, above = [s for s in sizes if s <= chips], [s for s in sizes if s > chips]
    near = [*([max(below)] if below else []), *([min(above)] if above else [])]
    return [f"{sizes[s]} ({s} chips)" for s in near]


@cache
def _published() -> dict[str, dict[str, Any]]:
    import yaml

    text = resources.files("dse").joinpath("predict", "slices.yaml").read_text("utf-8")
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return loaded
