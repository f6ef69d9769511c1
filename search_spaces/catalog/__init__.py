"""The catalog of knobs: `chip.yaml`, `model.yaml` and `deployment.yaml`, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

import yaml

from search_spaces.errors import SpaceError
from search_spaces.knob import SECTIONS, Section
from search_spaces.nearest import suggestion

_REQUIRED = {"unit", "meaning", "kind", "default"}


@dataclass(frozen=True)
class Entry:
    """One knob as the catalog describes it.

    kind: how a user's value becomes field values (search_spaces/values.py). sets: what the kind
    needs to name the fields. table: label -> fields, for kind `table`. named: labels that stand for
    a number outside `range` ("released" is 0). range: legal values in `unit`, both ends included.
    neutral: label that applies where a study does not mention the knob; None for chip knobs, whose
    base chip decides. when_not: parent knob -> its labels under which this knob changes nothing.
    companion: a knob that must be set where this one leaves its neutral setting.
    needs: what a model must have. workload: "serve" or "train" where the knob means something under
    that kind of workload only. band: prefix of the Variant fields that hold an assumed quality
    band. resource: the direction, "up" or "down", in which more hardware is spent.
    """

    name: str
    section: Section
    unit: str
    meaning: str
    kind: str
    default: tuple[Any, ...]
    sets: Mapping[str, Any] = field(default_factory=dict)
    table: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    named: Mapping[str, float] = field(default_factory=dict)
    range: tuple[float, float] | None = None
    integer: bool = False
    ordered: bool = False
    neutral: str | None = None
    when_not: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    companion: str | None = None
    needs: str | None = None
    workload: str | None = None
    band: str | None = None
    resource: str | None = None
    source: str | None = None


@cache
def entries(section: Section) -> Mapping[str, Entry]:
    """The knobs of `section` by name, in catalog order."""
    text = resources.files(__package__).joinpath(f"{section}.yaml").read_text("utf-8")
    return {name: _entry(name, section, raw) for name, raw in yaml.safe_load(text).items()}


def find(name: str, section: Section) -> Entry:
    """The entry called `name`; raises SpaceError with the nearest name, or the right section."""
    known = entries(section)
    if name in known:
        return known[name]
    for other in SECTIONS:
        if name in entries(other):
            raise SpaceError(f"{name!r} is a {other} knob; it belongs under {other}, not {section}")
    raise SpaceError(f"no {section} knob is called {name!r}; {suggestion(name, known)}")


def _entry(name: str, section: Section, raw: Mapping[str, Any]) -> Entry:
    missing = _REQUIRED - set(raw)
    if missing:
        raise SpaceError(f"catalog/{section}.yaml: {name} lacks {', '.join(sorted(missing))}")
    values = dict(raw)
    values["default"] = tuple(values["default"])
    values["table"] = {str(label): row for label, row in values.get("table", {}).items()}
    values["when_not"] = {
        parent: tuple(str(label) for label in labels)
        for parent, labels in values.get("when_not", {}).items()
    }
    if "range" in values:
        values["range"] = tuple(values["range"])
    if "neutral" in values:
        values["neutral"] = str(values["neutral"])
    return Entry(name=name, section=section, **values)
