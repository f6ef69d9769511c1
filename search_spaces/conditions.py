"""Conditional knobs: from the catalog's `when_not` to the `when` of a knob in one study."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from search_spaces.catalog import Entry, find
from search_spaces.knob import Knob
from search_spaces.values import neutral_choice


def dead_reason(knob: Knob, varied: Mapping[str, Knob], fixed: Mapping[str, str]) -> str | None:
    """Why `knob` would change nothing in a study, or None.

    varied: the study's knobs of the same section by name. fixed: labels of knobs that are fixed.
    """
    for parent, inactive in find(knob.name, knob.section).when_not.items():
        if parent in varied:
            if set(varied[parent].labels) <= set(inactive):
                return f"{knob.name} changes nothing while {parent} is {' or '.join(inactive)}"
        else:
            label = fixed.get(parent) or neutral_choice(find(parent, knob.section)).label
            if label in inactive:
                return (
                    f"{knob.name} changes nothing while {parent} is {label}; vary or set {parent}"
                )
    return None


def leaves_neutral(knob: Knob, entry: Entry) -> bool:
    """Whether some choice of a model or deployment knob is not the neutral setting."""
    neutral = neutral_choice(entry)
    return any(choice.fields != neutral.fields for choice in knob.choices)


def missing_companion(knob: Knob, given: Collection[str]) -> str | None:
    """Why `knob` cannot be used without another that is not among `given`, or None."""
    entry = find(knob.name, knob.section)
    if entry.companion is None or entry.companion in given or not leaves_neutral(knob, entry):
        return None
    return f"{knob.name} needs {entry.companion} beside it; give {entry.companion} too"


def conditioned(knobs: Sequence[Knob]) -> tuple[Knob, ...]:
    """`knobs` of one section with `when` filled in for those whose parent varies too."""
    varied = {knob.name: knob for knob in knobs}
    return tuple(_conditioned(knob, varied) for knob in knobs)


def _conditioned(knob: Knob, varied: Mapping[str, Knob]) -> Knob:
    when = {}
    for parent, inactive in find(knob.name, knob.section).when_not.items():
        if parent in varied:
            active = tuple(label for label in varied[parent].labels if label not in inactive)
            if len(active) < len(varied[parent].labels):
                when[parent] = active
    return replace(knob, when=when or None)
