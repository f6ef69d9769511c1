"""Knob and Choice: one thing a study may vary, as a list of labelled settings of numeric fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from search_spaces.errors import SpaceError
from search_spaces.nearest import suggestion

Section = Literal["chip", "model", "deployment"]
SECTIONS: tuple[Section, ...] = ("chip", "model", "deployment")


@dataclass(frozen=True)
class Choice:
    """One setting: what a reader sees, and the numeric fields (SI units) that it sets."""

    label: str
    fields: Mapping[str, float]


@dataclass(frozen=True)
class Knob:
    """A knob of a study.

    name: as in the catalog, prefixed `<assignment>.` for the model and deployment knobs of a
    portfolio; `assignment` is that prefix, "" where the knob is shared. unit: of the labels.
    ordered: neighbouring choices are neighbouring settings. when: parent knob -> its labels under
    which this knob matters; None = always.
    """

    name: str
    section: Section
    unit: str
    meaning: str
    choices: tuple[Choice, ...]
    ordered: bool
    when: Mapping[str, tuple[str, ...]] | None = None
    assignment: str = ""

    def __post_init__(self) -> None:
        if not self.choices:
            raise SpaceError(f"{self.name} has no choices; give at least one, or say off")
        seen: set[str] = set()
        fields = set(self.choices[0].fields)
        for choice in self.choices:
            if choice.label in seen:
                raise SpaceError(f"{self.name} lists {choice.label} twice")
            if set(choice.fields) != fields:
                raise SpaceError(f"{self.name}: the choices set different fields")
            seen.add(choice.label)

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of the choices, in index order."""
        return tuple(choice.label for choice in self.choices)

    @property
    def fields(self) -> tuple[str, ...]:
        """The numeric fields that this knob sets."""
        return tuple(self.choices[0].fields)

    def index(self, label: str) -> int:
        """Index of the choice called `label`; raises SpaceError with the nearest label."""
        try:
            return self.labels.index(label)
        except ValueError:
            hint = suggestion(label, self.labels)
            raise SpaceError(f"{self.name} has no choice {label!r}; {hint}") from None

    def prefixed(self, assignment: str) -> Knob:
        """The same knob as one of `assignment`'s own, its conditions included."""
        when = self.when and {f"{assignment}.{k}": labels for k, labels in self.when.items()}
        return replace(
            self, name=f"{assignment}.{self.name}", assignment=assignment, when=when or None
        )
