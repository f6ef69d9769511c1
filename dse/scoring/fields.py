"""The flat numeric fields of one assignment, and how they split into compile-time and run-time
parts.

Fields that no knob sets are passed as scalars, so that other values need no new compilation; fields
at their neutral value (a degree of 1, no window, no sparsity) are literals, so that the operators
they would switch on are never compiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hwmodel.chip import CHIP_FIELDS, Chip
from models.deployment import Deployment
from models.variants import Variant
from models.workload import Training, Workload

VARIANT_FIELDS = tuple(f.name for f in dataclasses.fields(Variant))
DEPLOYMENT_FIELDS = tuple(f.name for f in dataclasses.fields(Deployment))
WORKLOAD_FIELDS = tuple(f.name for f in dataclasses.fields(Workload))
TRAINING_FIELDS = tuple(f.name for f in dataclasses.fields(Training))
FIELDS: tuple[str, ...] = CHIP_FIELDS + VARIANT_FIELDS + DEPLOYMENT_FIELDS + WORKLOAD_FIELDS
"""Fields of an assignment that serves; one that trains has `TRAINING_FIELDS` for the last part."""

SWITCHES = {"mxu_row_tile": 0.0, "cmem_bytes": 0.0, "ici_switched": 0.0, "compute_dies": 1.0}
"""Chip fields whose neutral value leaves a branch of the equations out."""


def trains(names: Iterable[str]) -> bool:
    """Whether field names are those of an assignment that trains."""
    return "global_batch" in names


def field_names(names: Iterable[str]) -> tuple[str, ...]:
    """All fields, in order, of the kind of assignment that `names` belong to."""
    return (*FIELDS[: -len(WORKLOAD_FIELDS)], *TRAINING_FIELDS) if trains(names) else FIELDS


def neutral_values(training: bool = False) -> dict[str, float]:
    """Field values that switch nothing on, by name."""
    values = dict(SWITCHES)
    for cls in (Variant, Deployment, Training if training else Workload):
        for f in dataclasses.fields(cls):
            if f.default is not dataclasses.MISSING:
                values[f.name] = float(f.default)
    # These defaults are sizes, not switches: making them literals would only cost compilations.
    for name in _SIZES:
        values.pop(name, None)
    return values


_SIZES = (
    *("batch", "prefill_chunk_tokens", "weight_bits", "activation_bits", "kv_bits"),
    *("master_weight_bits", "gradient_bits", "moment_bits"),
)


def base_values(
    chip: Chip, variant: Variant, deployment: Deployment, workload: Workload | Training
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
    workload: Any  # Workload or Training


def assemble(values: Mapping[str, Any]) -> Parts:
    """Rebuild the parts of an assignment from a value for every name of its `field_names`."""
    cls, names = (Training, TRAINING_FIELDS) if trains(values) else (Workload, WORKLOAD_FIELDS)
    return Parts(
        chip=Chip(**{n: values[n] for n in CHIP_FIELDS}),
        variant=Variant(**{n: values[n] for n in VARIANT_FIELDS}),
        deployment=Deployment(**{n: values[n] for n in DEPLOYMENT_FIELDS}),
        workload=cls(**{n: values[n] for n in names}),
    )
