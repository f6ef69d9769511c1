"""The flat numeric fields of one assignment, and how they split into compile-time and run-time
parts.

Fields that no knob sets are passed as scalars, so that other values need no new compilation; fields
at their neutral value (a degree of 1, no window, no sparsity) are literals, so that the operators
they would switch on are never compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwmodel.chip import CHIP_FIELDS, Chip
from models.deployment import Deployment
from models.variants import Variant
from models.workload import Workload

VARIANT_FIELDS = tuple(f.name for f in dataclasses.fields(Variant))
DEPLOYMENT_FIELDS = tuple(f.name for f in dataclasses.fields(Deployment))
WORKLOAD_FIELDS = tuple(f.name for f in dataclasses.fields(Workload))
FIELDS: tuple[str, ...] = CHIP_FIELDS + VARIANT_FIELDS + DEPLOYMENT_FIELDS + WORKLOAD_FIELDS

SWITCHES = {"mxu_row_tile": 0.0, "cmem_bytes": 0.0, "ici_switched": 0.0, "compute_dies": 1.0}
"""Chip fields whose neutral value leaves a branch of the equations out."""


def neutral_values() -> dict[str, float]:
    """Field values that switch nothing on, by name."""
    values = dict(SWITCHES)
    for cls in (Variant, Deployment, Workload):
        for f in dataclasses.fields(cls):
            if f.default is not dataclasses.MISSING:
                values[f.name] = float(f.default)
    # These defaults are sizes, not switches: making them literals would only cost compilations.
    for name in ("batch", "prefill_chunk_tokens", "weight_bits", "activation_bits", "kv_bits"):
        values.pop(name, None)
    return values


def base_values(
    chip: Chip, variant: Variant, deployment: Deployment, workload: Workload
) -> dict[str, float]:
    """All fields of one assignment as floats."""
    return {
        f.name: float(getattr(part, f.name))
        for part in (chip, variant, deployment, workload)
        for f in dataclasses.fields(part)
    }


@dataclass(frozen=True)
class Parts:
    """The four parts of an assignment, rebuilt from fields (floats or traced scalars)."""

    chip: Chip
    variant: Variant
    deployment: Deployment
    workload: Workload


def assemble(values: Mapping[str, Any]) -> Parts:
    """Rebuild the parts of an assignment from a value for every name in `FIELDS`."""
    return Parts(
        chip=Chip(**{n: values[n] for n in CHIP_FIELDS}),
        variant=Variant(**{n: values[n] for n in VARIANT_FIELDS}),
        deployment=Deployment(**{n: values[n] for n in DEPLOYMENT_FIELDS}),
        workload=Workload(**{n: values[n] for n in WORKLOAD_FIELDS}),
    )
