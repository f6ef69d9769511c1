"""Presets: named sets of knobs with choices, one YAML file each, that a study includes by name.

A file states the `section` it is for, its `purpose` in a line, and `knobs`, whose choices are
written as in a study. A study may override or switch off any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from search_spaces.errors import SpaceError
from search_spaces.knob import Section
from search_spaces.nearest import suggestion


@dataclass(frozen=True)
class Preset:
    """A named set of knobs; `knobs` maps a knob to the choices as a user would write them."""

    name: str
    section: Section
    purpose: str
    knobs: Mapping[str, tuple[Any, ...]]


@cache
def presets() -> Mapping[str, Preset]:
    """All presets by name."""
    found = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".yaml"):
            name = file.name.removesuffix(".yaml")
            raw = yaml.safe_load(file.read_text("utf-8"))
            knobs = {knob: tuple(choices) for knob, choices in raw["knobs"].items()}
            found[name] = Preset(name, raw["section"], raw["purpose"], knobs)
    return found


def load(name: str, section: Section) -> Preset:
    """The preset called `name`; raises SpaceError with the nearest name, or its right section."""
    known = presets()
    if name in known and known[name].section == section:
        return known[name]
    if name in known:
        right = known[name].section
        raise SpaceError(f"preset {name!r} holds {right} knobs; it belongs under {right}")
    fitting = [preset.name for preset in known.values() if preset.section == section]
    raise SpaceError(f"no {section} preset is called {name!r}; {suggestion(name, fitting)}")
