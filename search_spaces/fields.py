"""FieldTable: from knob indices to numeric fields by one gather.

value[n, f] = lut[offset[f] + stride[f] * indices[n, column[f]]]. A field that no knob sets has
stride 0 and one entry in the table. The jitted evaluation uses the same three arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from search_spaces.errors import SpaceError
from search_spaces.nearest import suggestion
from search_spaces.space import Space


@dataclass(frozen=True)
class FieldTable:
    """`names` [F], `column`, `offset`, `stride` int32 [F] and `lut` float64 [N]; see the module."""

    names: tuple[str, ...]
    column: NDArray[np.int32]
    offset: NDArray[np.int32]
    stride: NDArray[np.int32]
    lut: NDArray[np.float64]

    @classmethod
    def build(
        cls,
        space: Space,
        field_names: Sequence[str],
        base: Mapping[str, float],
        assignment: str | None = None,
    ) -> FieldTable:
        """The table of `field_names` over `space`, with `base` for the fields that no knob sets.

        assignment: of a portfolio; only the shared knobs and those of this assignment count, so
        that each assignment has a table over the same index rows. None: all knobs count.
        Raises SpaceError for a field that two knobs set, that no knob and no base sets, or that a
        knob sets though it is not in `field_names`.
        """
        setters: dict[str, int] = {}
        for column, knob in enumerate(space.knobs):
            if assignment is not None and knob.assignment not in ("", assignment):
                continue
            for field in knob.fields:
                if field not in field_names:
                    raise SpaceError(
                        f"{knob.name} sets the unknown field {field!r}; "
                        f"{suggestion(field, field_names)}"
                    )
                if field in setters:
                    other = space.knobs[setters[field]].name
                    raise SpaceError(f"{other} and {knob.name} both set {field}; keep one of them")
                setters[field] = column
        columns, offsets, strides = [], [], []
        lut: list[float] = []
        for field in field_names:
            offsets.append(len(lut))
            if field in setters:
                columns.append(setters[field])
                strides.append(1)
                lut += [float(c.fields[field]) for c in space.knobs[setters[field]].choices]
            elif field in base:
                columns.append(0)
                strides.append(0)
                lut.append(float(base[field]))
            else:
                raise SpaceError(f"field {field!r} is set by no knob and has no base value")
        return cls(
            names=tuple(field_names),
            column=np.array(columns, dtype=np.int32),
            offset=np.array(offsets, dtype=np.int32),
            stride=np.array(strides, dtype=np.int32),
            lut=np.array(lut, dtype=np.float64),
        )

    def decode(self, indices: ArrayLike) -> NDArray[np.float64]:
        """Field values of index rows: int [n, knobs] to float64 [n, F]."""
        rows = np.asarray(indices)
        if rows.shape[1] == 0:  # nothing varies: column 0 does not exist, and no stride needs it
            return np.broadcast_to(self.lut[self.offset], (len(rows), len(self.names))).copy()
        return self.lut[self.offset + self.stride * rows[:, self.column]]
