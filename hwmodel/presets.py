"""Known chips by name: their numbers as a `Chip`, and every number's unit, kind and source.

    >>> load("trillium").clock_hz
    1750000000.0

The data are `chips/*.yaml`. An unknown name is an error that lists the nearest names; it is never
replaced by a similar one.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from importlib import resources
from typing import Any

from hwmodel.chip import CHIP_FIELDS, Chip

KINDS = (
    "official_code",
    "official_doc",
    "google_paper",
    "google_blog",
    "vendor_spec",
    "derived",
    "estimate",
    "secondary",
    "press",
    "unpublished",
)
UNITS: dict[str, str] = {f.name: f.metadata["unit"] for f in dataclasses.fields(Chip)}


class ChipError(ValueError):
    """An unknown chip name, or a chip file that does not describe a `Chip`."""


@functools.cache
def names() -> tuple[str, ...]:
    """Names of all presets, TPUs by generation, then GPUs."""
    files = resources.files("hwmodel").joinpath("chips").iterdir()
    found = [f.name.removesuffix(".yaml") for f in files if f.name.endswith(".yaml")]
    return tuple(sorted(found, key=lambda n: (n[0] in "hb", n[0].isdigit(), n)))


def load(name: str) -> Chip:
    """The chip called `name` (or an alias), all fields Python floats.

    Raises:
        ChipError: no such chip; the message lists the nearest names.
    """
    return Chip(**{field: float(e["value"]) for field, e in describe(name)["fields"].items()})


def describe(name: str) -> dict[str, Any]:
    """What is known about a chip, and how.

    Returns a fresh dict with `name`, `title`, `unvalidated` (a sentence, or None), `fields` (one
    entry per `Chip` field: value, unit, kind, source, low, high, note) and `facts` (the same for
    published figures that are not model inputs: die area, TDP, peaks with their clock, prices).

    Raises:
        ChipError: no such chip; the message lists the nearest names.
    """
    document = _read(canonical(name))
    return {
        "name": document["name"],
        "title": document["title"],
        "unvalidated": document.get("unvalidated"),
        "fields": {f: _entry(e) for f, e in document["fields"].items()},
        "facts": {f: _entry(e) for f, e in document["facts"].items()},
    }


def canonical(name: str) -> str:
    """The preset that `name` or one of its aliases stands for.

    Raises:
        ChipError: no such chip; the message lists the nearest names.
    """
    key = name.lower().replace("tpu", "")
    for separator in (" ", "-", "_"):
        key = key.replace(separator, "")
    aliases = _aliases()
    if key in names():
        return key
    if key in aliases:
        return aliases[key]
    known = [*names(), *aliases]
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    hint = f"nearest: {', '.join(near)}; " if near else ""
    raise ChipError(f"unknown chip '{name}'; {hint}known chips: {', '.join(names())}")


@functools.cache
def sources() -> dict[str, str]:
    """What each source key in the chip and data files stands for."""
    return dict(_yaml("data", "sources.yaml"))


@functools.cache
def hbm_generations() -> dict[str, dict[str, dict[str, Any]]]:
    """HBM generations by name: capacity, bandwidth, energy, price and PHY area of one stack.

    Each quantity is a dict with value, unit, kind and source, and low and high where estimated.
    """
    return dict(_yaml("data", "hbm_generations.yaml"))


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    return {"low": None, "high": None, "note": None, **entry}


@functools.cache
def _aliases() -> dict[str, str]:
    return {str(k): str(v) for k, v in _yaml("data", "chip_aliases.yaml").items()}


@functools.cache
def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = _yaml("chips", f"{name}.yaml")
    fields = document["fields"]
    for field in CHIP_FIELDS:
        where = f"chips/{name}.yaml: fields.{field}"
        if field not in fields:
            raise ChipError(f"{where} is missing")
        entry = fields[field]
        lacking = {"value", "unit", "kind", "source"} - set(entry)
        if lacking:
            raise ChipError(f"{where} lacks {', '.join(sorted(lacking))}")
        if entry["unit"] != UNITS[field]:
            raise ChipError(f"{where}: unit is '{entry['unit']}', must be '{UNITS[field]}'")
        if not isinstance(entry["value"], int | float):
            raise ChipError(f"{where}: value '{entry['value']}' is not a number")
        if entry["kind"] not in KINDS:
            raise ChipError(f"{where}: kind '{entry['kind']}' is not one of {', '.join(KINDS)}")
    unknown = set(fields) - set(CHIP_FIELDS)
    if unknown:
        raise ChipError(f"chips/{name}.yaml: no such Chip field: {', '.join(sorted(unknown))}")
    return document


def _yaml(folder: str, file: str) -> Any:
    import yaml

    # The C loader parses a chip file ten times faster; it is absent from some builds of PyYAML.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(
        resources.files("hwmodel").joinpath(f"{folder}/{file}").read_text(), Loader=loader
    )
