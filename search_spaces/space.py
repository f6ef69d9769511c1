"""Space: the product of a study's knobs, as index rows.

Everywhere but at the edges a candidate is one row of int32 knob indices, `[knobs]`, and a batch is
`[n, knobs]`. A conditional knob that is inactive sits at index 0 in the canonical form, so that
rows that mean the same design are the same row and have the same design id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from search_spaces.errors import SpaceError
from search_spaces.knob import Knob
from search_spaces.nearest import suggestion

Indices = NDArray[np.int32]

_LARGEST_GRID = 50_000_000  # index cells, 200 MB


@dataclass(frozen=True)
class Space:
    """Knobs with distinct names, in column order; conditions refer to knobs of the same space."""

    knobs: tuple[Knob, ...]

    def __post_init__(self) -> None:
        names = self.names
        for position, name in enumerate(names):
            if name in names[:position]:
                raise SpaceError(f"knob {name!r} is in the space twice")
        for knob in self.knobs:
            for parent, labels in (knob.when or {}).items():
                if parent not in names:
                    raise SpaceError(
                        f"{knob.name} depends on {parent!r}, which is not in the space; "
                        f"{suggestion(parent, names)}"
                    )
                for label in labels:
                    self.knob(parent).index(label)
        _parents_first(self.knobs)

    @property
    def names(self) -> tuple[str, ...]:
        """Knob names, in column order."""
        return tuple(knob.name for knob in self.knobs)

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """Number of choices of each knob."""
        return tuple(len(knob.choices) for knob in self.knobs)

    @property
    def size(self) -> int:
        """Number of index rows, duplicates through inactive knobs counted."""
        return prod(self.cardinalities)

    def knob(self, name: str) -> Knob:
        """The knob called `name`; raises SpaceError with the nearest name."""
        for knob in self.knobs:
            if knob.name == name:
                return knob
        raise SpaceError(
            f"no knob of this space is called {name!r}; {suggestion(name, self.names)}"
        )

    def labels(self, row: Sequence[int] | Indices) -> dict[str, str]:
        """Labels of one index row by knob name."""
        (checked,) = self._checked(np.asarray(row)[None])
        return {k.name: k.choices[i].label for k, i in zip(self.knobs, checked, strict=True)}

    def indices(self, labels: Mapping[str, str]) -> Indices:
        """The canonical index row of `labels`, which must name every knob and no other."""
        for name in labels:
            self.knob(name)
        missing = [name for name in self.names if name not in labels]
        if missing:
            raise SpaceError(f"no choice is given for {', '.join(missing)}")
        row = np.array([[k.index(labels[k.name]) for k in self.knobs]], dtype=np.int32)
        return self.canonical(row)[0]

    def canonical(self, indices: ArrayLike) -> Indices:
        """A copy of `indices` [n, knobs] with inactive conditional knobs at index 0."""
        rows = self._checked(indices).copy()
        columns = {name: column for column, name in enumerate(self.names)}
        for knob in _parents_first(self.knobs):
            if not knob.when:
                continue
            active = np.ones(len(rows), dtype=bool)
            for parent, labels in knob.when.items():
                allowed = np.zeros(len(self.knob(parent).choices), dtype=bool)
                allowed[[self.knob(parent).index(label) for label in labels]] = True
                active &= allowed[rows[:, columns[parent]]]
            rows[~active, columns[knob.name]] = 0
        return rows

    def design_id(self, row: Sequence[int] | Indices) -> int:
        """Mixed-radix number of the canonical form of `row`, 0 to size - 1 (last knob fastest)."""
        number = 0
        for index, cardinality in zip(
            self.canonical(np.asarray(row)[None])[0], self.cardinalities, strict=True
        ):
            number = number * cardinality + int(index)
        return number

    def design_ids(self, indices: ArrayLike) -> NDArray[Any]:
        """`design_id` of each row: int64, or Python integers where the space is larger."""
        rows = self.canonical(indices)
        wide = self.size > np.iinfo(np.int64).max
        numbers = np.zeros(len(rows), dtype=object if wide else np.int64)
        for column, cardinality in enumerate(self.cardinalities):
            digits = rows[:, column].astype(object if wide else np.int64)
            numbers = numbers * cardinality + digits
        return numbers

    def row(self, design_id: int) -> Indices:
        """The index row whose mixed-radix number is `design_id`."""
        if not 0 <= design_id < self.size:
            raise SpaceError(f"design {design_id} is outside 0 to {self.size - 1}")
        digits = []
        for cardinality in reversed(self.cardinalities):
            design_id, digit = divmod(design_id, cardinality)
            digits.append(digit)
        return np.array(digits[::-1], dtype=np.int32)

    def grid(self) -> Indices:
        """All distinct canonical rows, in order of design id. Refuses spaces that are too large."""
        width = len(self.knobs)
        if self.size * max(width, 1) > _LARGEST_GRID:
            raise SpaceError(f"a grid of {self.size:,} designs is too large; search fewer choices")
        if width == 0:
            return np.zeros((1, 0), dtype=np.int32)
        axes = np.indices(self.cardinalities, dtype=np.int32)
        rows = axes.reshape(width, -1).T
        # A canonical row is its own canonical form, and every row's canonical form is in the grid.
        return np.ascontiguousarray(rows[(self.canonical(rows) == rows).all(axis=1)])

    def sample(self, n: int, seed: int) -> Indices:
        """`n` canonical rows drawn uniformly over the index rows, repeats possible: [n, knobs]."""
        generator = np.random.default_rng(seed)
        cardinalities = np.array(self.cardinalities, dtype=np.int64)
        rows = generator.integers(0, cardinalities, size=(n, len(self.knobs)))
        return self.canonical(rows)

    def neighbours(self, row: Sequence[int] | Indices) -> Indices:
        """Distinct canonical rows that differ from `row` in one knob: the next choice either way of
        an ordered knob, any other choice of an unordered one. [m, knobs], `row` itself left out."""
        start = self.canonical(np.asarray(row)[None])
        moves = [start[:0]]
        for column, knob in enumerate(self.knobs):
            current = int(start[0, column])
            steps = (current - 1, current + 1) if knob.ordered else range(len(knob.choices))
            for index in steps:
                if 0 <= index < len(knob.choices) and index != current:
                    moved = start.copy()
                    moved[0, column] = index
                    moves.append(moved)
        rows = np.unique(self.canonical(np.concatenate(moves)), axis=0)
        return rows[(rows != start).any(axis=1)]

    def _checked(self, indices: ArrayLike) -> Indices:
        rows = np.asarray(indices)
        if rows.ndim != 2 or rows.shape[1] != len(self.knobs):
            raise SpaceError(f"index rows of shape {rows.shape} do not fit {len(self.knobs)} knobs")
        outside = (rows < 0) | (rows >= np.array(self.cardinalities, dtype=np.int64))
        if outside.any():
            n, column = np.argwhere(outside)[0]
            knob = self.knobs[column]
            raise SpaceError(
                f"{knob.name}: index {rows[n, column]} is outside 0 to {len(knob.choices) - 1}"
            )
        return rows.astype(np.int32)


def _parents_first(knobs: tuple[Knob, ...]) -> list[Knob]:
    """Knobs ordered so that each follows the knobs its condition names; refuses a cycle."""
    ordered: list[Knob] = []
    waiting = list(knobs)
    while waiting:
        placed = {knob.name for knob in ordered}
        ready = [knob for knob in waiting if set(knob.when or {}) <= placed]
        if not ready:
            raise SpaceError(
                f"the conditions of {', '.join(k.name for k in waiting)} go in a circle"
            )
        ordered += ready
        waiting = [knob for knob in waiting if knob not in ready]
    return ordered
