"""`knobs:` of a study: includes, overrides, `off` and `default`, to knobs with choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dse.spec.problems import Problems
from dse.spec.text import Path
from search_spaces import presets
from search_spaces.catalog import Entry, find
from search_spaces.errors import SpaceError
from search_spaces.knob import Knob, Section
from search_spaces.values import choice, knob

OFF = "off"
DEFAULT = "default"
INCLUDE = "include"


def read_knobs(
    raw: Mapping[str, Any], section: Section, path: Path, problems: Problems
) -> dict[str, Knob]:
    """The knobs that `raw` asks for, by name, in catalog order of inclusion.

    A key is `include` (a preset or a list of them) or a knob; its value a list of choices, one
    choice (the knob is set, not varied), `default` (the catalog's choices) or `off`. Problems are
    recorded at their key and the knob left out.
    """
    wanted = _included(raw.get(INCLUDE, []), section, (*path, INCLUDE), problems)
    found: dict[str, Knob] = {}
    for name, values in wanted.items():
        if name not in raw:
            found[name] = knob(find(name, section), values)
    for name, value in raw.items():
        if name == INCLUDE:
            continue
        with problems.at((*path, name)):
            entry = find(name, section)
            if value == OFF:
                continue
            built = _knob(entry, value, (*path, name), problems)
            if built is not None:
                found[name] = built
    return found


def named_in(raw: Mapping[str, Any]) -> set[str]:
    """Knobs that the study itself lists, as opposed to those that a preset brings."""
    return {name for name, value in raw.items() if name != INCLUDE and value != OFF}


def _included(
    raw: object, section: Section, path: Path, problems: Problems
) -> dict[str, tuple[Any, ...]]:
    names = raw if isinstance(raw, list) else [raw]
    knobs: dict[str, tuple[Any, ...]] = {}
    for position, name in enumerate(names):
        where = (*path, position) if isinstance(raw, list) else path
        if not isinstance(name, str):
            problems.add(where, f"{name!r} should be the name of a preset")
            continue
        with problems.at(where):
            knobs |= presets.load(name, section).knobs
    return knobs


def _knob(entry: Entry, value: object, path: Path, problems: Problems) -> Knob | None:
    if value == DEFAULT:
        return knob(entry, entry.default)
    if value is None or value == []:
        raise SpaceError(f"{entry.name} has no choices; list some, or say {DEFAULT} or {OFF}")
    if isinstance(value, dict):
        raise SpaceError(f"{entry.name} takes a list of choices, not a mapping")
    values = value if isinstance(value, list) else [value]
    bad = False
    for position, item in enumerate(values):
        where = (*path, position) if isinstance(value, list) else path
        try:
            choice(entry, item)
        except SpaceError as error:
            problems.add(where, str(error))
            bad = True
    return None if bad else knob(entry, values)
