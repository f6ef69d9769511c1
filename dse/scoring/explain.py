"""Operator tables of one candidate, from the same equations as its score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dse.scoring.assignment import Assignment
from dse.scoring.batch import AnyPoint, BatchEvaluator
from dse.scoring.tile import TileEvaluator
from hwmodel.step import StepTime
from hwmodel.tilesim import TileOperator, compare
from models.training import TrainingPoint

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


def operators(a: Assignment, row: NDArray[np.int32]) -> list[dict[str, Any]]:
    """`operator_rows` of one row at the fidelity of its study.

    At the tile rung each row has `analytical_s` and `cause` too: the same operator at the
    analytical rung, and what most of the difference comes from.
    """
    rows = operator_rows(a.spec.name, a.evaluator, row)
    if not isinstance(a.final, TileEvaluator):
        return rows
    found = []
    for phase, step in a.final.operators(row).items():
        own = {r["name"]: r for r in rows if r["phase"] == phase}
        causes = {d.operator: d.cause for d in compare(list(own.values()), step)}
        found += [
            _tile_row(op, own[op.name], causes[op.name], step.seconds)
            for op in step.operators
            if op.name in own
        ]
    return found


def _tile_row(
    op: TileOperator, row: Mapping[str, Any], cause: str, total_s: float
) -> dict[str, Any]:
    """A row of the analytical rung with the tile rung's times and traffic."""
    engines = {engine: getattr(op, field) for engine, field in _ENGINES.items()}
    fixed = op.fixed_s
    if op.kind == "collective":
        engines["network"] -= fixed
    bound, busy = max(engines.items(), key=lambda item: item[1])
    return {
        **row,
        "time_s": op.time_s,
        "bytes": op.network_bytes if op.kind == "collective" else op.hbm_bytes,
        "bound_by": "latency" if fixed > busy else bound,
        "share": op.time_s / total_s,
        **{field: engines[engine] for engine, field in _ENGINES.items()},
        "fixed_s": fixed,
        "analytical_s": row["time_s"],
        "cause": cause,
    }


def operator_rows(
    assignment: str, evaluator: BatchEvaluator, row: NDArray[np.int32]
) -> list[dict[str, Any]]:
    """One dict per operator and phase, in execution order.

    time_s is what the operator adds to one step of one pipeline stage (for collectives the exposed
    part), bytes its HBM traffic or, for collectives, its network traffic; bound_by the engine that
    takes longest, or "latency" where fixed costs take longer than any engine.
    """
    tables = evaluator.read(row, _tables)
    phases = (phase for phase in ("prefill", "decode", "train") if phase in tables)
    return [op for phase in phases for op in rows_of_table(assignment, phase, tables[phase])]


def _tables(point: AnyPoint) -> dict[str, Any]:
    if isinstance(point, TrainingPoint):
        return {"train": step_table(point.step)}
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
