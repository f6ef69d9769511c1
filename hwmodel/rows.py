"""Rows: the same equations over many operators, compiled once and evaluated one row at a time.

Operators of one kind are stacked into arrays [rows] per field and the equations run under
`lax.scan`. That keeps a compilation small whatever the number of operators, and stores each result
once: left to itself XLA:CPU fuses cheap producers into every consumer and computes them again
there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Number = Any
Row = Mapping[str, Number]


def over_rows(
    equations: Callable[[Row], dict[str, Number]], rows: Sequence[Row]
) -> list[dict[str, Number]]:
    """`equations` applied to each row; rows share their keys, values are scalars."""
    if not rows:
        return []
    stacked = {
        key: jnp.stack([jnp.asarray(row[key], jnp.float64) for row in rows]) for key in rows[0]
    }
    _, results = jax.lax.scan(lambda carry, row: (carry, equations(row)), None, stacked)
    return [{key: value[i] for key, value in results.items()} for i in range(len(rows))]


def one_by_one(
    equations: Callable[[Row], dict[str, Number]], rows: Sequence[Row]
) -> list[dict[str, Number]]:
    """The same without stacking, for equations too short to be worth it."""
    return [equations(row) for row in rows]


def hold(values: Sequence[Number]) -> list[Number]:
    """The same values, computed once and stored, for results that many later equations use."""
    traced = [i for i, value in enumerate(values) if isinstance(value, jax.Array)]
    if len(traced) < 2:  # a loop of one row would be inlined
        return list(values)
    held = over_rows(
        lambda row: {"value": row["value"] * 1.0}, [{"value": values[i]} for i in traced]
    )
    out = list(values)
    for i, row in zip(traced, held, strict=True):
        out[i] = row["value"]
    return out


def hold_fields(part: Any) -> Any:
    """A dataclass with its traced fields held."""
    names = [f.name for f in dataclasses.fields(part)]
    return dataclasses.replace(
        part, **dict(zip(names, hold([getattr(part, n) for n in names]), strict=True))
    )
