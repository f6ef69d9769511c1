"""The operator table of a step as arrays: what crosses from traced equations to the play.

`tabulate` runs the same lowering, rates and collective costs as the analytical rung, traced or not,
and stacks the numbers; the play reads them as NumPy arrays, for one candidate or for many.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.collectives import Axis, pattern, traffic, traffic_cost
from hwmodel.ops import (
    DENSE_BF16,
    Attention,
    AttentionBackward,
    Collective,
    Matmul,
    Numerics,
    Operator,
    Vector,
)
from hwmodel.theta import Theta
from hwmodel.tilesim.machine import format_numbers, machine

Number = Any

FIELDS: dict[str, tuple[str, ...]] = {
    "matmul": (
        "count",
        "m",
        "k",
        "n",
        "groups",
        "vpu_ops",
        "weight_reads",
        "extra_hbm_bytes",
        "ragged",
    ),
    "attention": (
        "count",
        "groups",
        "rows",
        "length",
        "qk_width",
        "v_width",
        "kv_bytes",
        "kv_elements_converted",
        "softmax",
        "masked_length",
        "paged",
        "extra_hbm_bytes",
    ),
    "vector": ("count", "vpu_ops", "hbm_bytes"),
    "collective": (
        "count",
        "transfer_s",
        "latency_s",
        "ici_bytes",
        "dcn_bytes",
        "on_x",
        "on_y",
        "on_z",
        "on_dcn",
    ),
}
"""Numbers of each kind of operator, in the order in which a row of `StepTable.numbers` has them. A
collective's are of one execution; on_x, on_y, on_z and on_dcn say which links it uses (0 or 1)."""

HIDES = ("matmul", "prefetch", "nothing")

_WIDTH = max(len(fields) for fields in FIELDS.values())


class UnsupportedOperator(ValueError):
    """An operator that the tile rung does not play."""


@dataclass(frozen=True)
class Entry:
    """What is static of one operator: name, kind, index of its format, and what may hide it."""

    name: str
    kind: str
    format: int = 0
    hides: str = ""
    in_layers: bool = False


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["machine", "formats", "steps", "layers"],
    meta_fields=["entries"],
)
@dataclass(frozen=True)
class Tables:
    """Steps of one candidate, or of B with a leading axis on every array.

    machine [fields], formats [formats, fields], steps: [operators, numbers] each, layers: of one
    pipeline stage. entries: static, a tuple per step.
    """

    machine: Number
    formats: Number
    steps: tuple[Number, ...]
    layers: Number
    entries: tuple[tuple[Entry, ...], ...]


def tabulate(
    chip: Chip,
    theta: Theta,
    axes: Mapping[str, Axis],
    steps: Sequence[Sequence[Operator]],
    layers: Number,
) -> Tables:
    """Stack the operators of some steps of one candidate; run under `jax.enable_x64(True)`.

    Raises:
        UnsupportedOperator: an operator belongs to a training step.
    """
    formats: dict[int, tuple[int, Numerics]] = {id(DENSE_BF16): (0, DENSE_BF16)}
    for step in steps:
        for op in step:
            if isinstance(op, Matmul) and id(op.numerics) not in formats:
                formats[id(op.numerics)] = (len(formats), op.numerics)
    entries, numbers = [], []
    for step in steps:
        entries.append(tuple(_entry(op, formats) for op in step))
        numbers.append(jnp.stack([_row(_numbers(op, axes, layers)) for op in step]))
    return Tables(
        machine=_row(machine(chip, theta), None),
        formats=jnp.stack(
            [_row(format_numbers(chip, theta, n), None) for _, n in formats.values()]
        ),
        steps=tuple(numbers),
        layers=jnp.asarray(layers, jnp.float64),
        entries=tuple(entries),
    )


def _row(values: Sequence[Number], width: int | None = _WIDTH) -> Number:
    padded = [*values, *[0.0] * ((width or len(values)) - len(values))]
    return jnp.stack([jnp.asarray(v, jnp.float64) for v in padded])


def _entry(op: Operator, formats: Mapping[int, tuple[int, Numerics]]) -> Entry:
    if isinstance(op, Matmul):
        return Entry(op.name, "matmul", formats[id(op.numerics)][0])
    if isinstance(op, Collective) and op.hides in HIDES:
        return Entry(op.name, "collective", hides=op.hides)
    if isinstance(op, Vector):
        return Entry(op.name, "vector", in_layers=op.in_layers)
    if isinstance(op, Attention) and not isinstance(op, AttentionBackward):
        return Entry(op.name, "attention")
    raise UnsupportedOperator(
        f"the tile rung plays inference steps, and {op.name!r} is of a training step: "
        "use fidelity: analytical"
    )


def _numbers(op: Operator, axes: Mapping[str, Axis], layers: Number) -> list[Number]:
    if isinstance(op, Collective):
        return _collective(op, axes[op.axis])
    if isinstance(op, Vector) and op.in_layers:
        return [op.count * layers, op.vpu_ops / layers, op.hbm_bytes / layers]
    kinds = {Matmul: "matmul", Attention: "attention", Vector: "vector"}
    return [getattr(op, field) for field in FIELDS[kinds[type(op)]]]


def _collective(op: Collective, axis: Axis) -> list[Number]:
    volume, passes = traffic(op)
    once = jnp.where(op.count > 0, op.count, 1.0)
    cost = traffic_cost(axis, pattern(op), volume, passes)
    inside_x = jnp.where(axis.factor_x > 1, 1.0, 0.0)
    inside_y = jnp.where(axis.factor_y > 1, 1.0, 0.0)
    # A switched domain has one link; a third torus side holds what the first two do not.
    rest = axis.per_ici * axis.factor_x * axis.factor_y
    beyond = jnp.where((axis.per_ici < 1) & (rest < 0.75), 1.0, 0.0)
    return [
        op.count,
        *(cost[name] / once for name in FIELDS["collective"][1:5]),
        inside_x,
        inside_y,
        beyond,
        jnp.where(axis.per_dcn < 1, 1.0, 0.0),
    ]
