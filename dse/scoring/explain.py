"""Operator tables of one candidate, from the same equations as its score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dse.scoring.batch import BatchEvaluator
from hwmodel.step import StepTime
from models.performance import Point

_ENGINES = {"mxu": "mxu_s", "vpu": "vpu_s", "hbm": "hbm_s", "network": "network_s"}
_NUMBERS = (
    *_ENGINES.values(),
    "fixed_s",
    "time_s",
    "count",
    "flops",
    "hbm_bytes",
    "ici_bytes",
    "dcn_bytes",
)


def operator_rows(
    assignment: str, evaluator: BatchEvaluator, row: NDArray[np.int32]
) -> list[dict[str, Any]]:
    """One dict per operator and phase, in execution order.

    time_s is what the operator adds to one step of one pipeline stage (for collectives the exposed
    part), bytes its HBM traffic or, for collectives, its network traffic; bound_by the engine that
    takes longest, or "latency" where fixed costs take longer than any engine.
    """
    tables = evaluator.read(row, _tables)
    phases = ("prefill", "decode")
    return [op for phase in phases for op in rows_of_table(assignment, phase, tables[phase])]


def _tables(point: Point) -> dict[str, Any]:
    return {"prefill": step_table(point.prefill), "decode": step_table(point.decode)}


def rows_of_table(
    assignment: str, phase: str, table: tuple[Any, list[Any]]
) -> list[dict[str, Any]]:
    """The rows of one `step_table` after it was computed; `phase` names its step."""
    rows = []
    seconds, operators = table
    for ((name, kinds),) in (operator.items() for operator in operators):
        ((kind, numbers),) = kinds.items()
        op = dict(zip(_NUMBERS, np.asarray(numbers).tolist(), strict=True))
        if op["count"] > 0 and op["time_s"] > 0:
            rows.append(_row(assignment, phase, name, kind, op, float(seconds)))
    return rows


def step_table(step: StepTime) -> tuple[Any, list[Any]]:
    """Seconds and operators of a step as arrays; names and kinds, no numbers, as keys."""
    operators = [
        {op.name: {op.kind: jnp.stack([jnp.asarray(getattr(op, n), float) for n in _NUMBERS])}}
        for op in step.operators
    ]
    return step.seconds, operators


def _row(
    assignment: str, phase: str, name: str, kind: str, op: Mapping[str, float], total_s: float
) -> dict[str, Any]:
    engines = {engine: op[field] for engine, field in _ENGINES.items()}
    fixed = op["fixed_s"]
    if kind == "collective":
        engines["network"] -= fixed
    bound, busy = max(engines.items(), key=lambda item: item[1])
    network = op["ici_bytes"] + op["dcn_bytes"]
    row: dict[str, Any] = {
        "phase": phase,
        "name": name,
        "time_s": op["time_s"],
        "bytes": network if kind == "collective" else op["hbm_bytes"],
        "flops": op["flops"],
        "bound_by": "latency" if fixed > busy else bound,
        "share": op["time_s"] / total_s,
        "count": op["count"],
        **{field: engines[engine] for engine, field in _ENGINES.items()},
        "fixed_s": fixed,
    }
    if assignment:
        row = {"assignment": assignment, **row}
    return row
