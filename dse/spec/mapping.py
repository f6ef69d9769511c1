"""The grid of mappings that a solved deployment chooses from."""

from __future__ import annotations

import dataclasses

import numpy as np

from dse.spec.study import AssignmentSpec
from search_spaces.fields import FieldTable
from search_spaces.space import Indices, Space

_DEGREES = ("data", "fsdp", "tensor", "expert", "pipeline", "context")
_SIDES = ("torus_x", "torus_y", "torus_z")


def mapping_grid(assignment: AssignmentSpec) -> Indices:
    """Index rows [n, solved knobs] of all mappings whose chips fill whole slices.

    A deployment that leaves chips of a slice idle is the same as one on a smaller slice, and one
    that needs a part of another slice cannot be had. Where a degree or the torus is sampled rather
    than solved the rows cannot be judged alone, and all are returned.
    """
    space = Space(assignment.solved_knobs)
    rows = space.grid()
    sampled = {f for knob in assignment.deployment_knobs_sampled for f in knob.fields}
    if sampled & {*_DEGREES, *_SIDES}:
        return rows
    from models.deployment import Deployment

    base = {f.name: float(f.default) for f in dataclasses.fields(Deployment)}  # type: ignore[arg-type]
    base |= {f: 0.0 for knob in space.knobs for f in knob.fields if f not in base}  # of training
    base |= assignment.fixed_fields
    table = FieldTable.build(space, tuple(base), base)
    values = dict(zip(table.names, table.decode(rows).T, strict=True))
    chips = np.prod([values[name] for name in _DEGREES], axis=0)
    slice_chips = np.prod([values[name] for name in _SIDES], axis=0)
    return rows[chips % slice_chips == 0]
