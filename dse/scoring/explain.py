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
    rows = []
    tables = evaluator.read(row, _tables)
    for phase in ("prefill", "decode"):
        seconds, operators = tables[phase]
        for ((name, kinds),) in (operator.items() for operator in operators):
            ((kind, numbers),) = kinds.items()
            op = dict(zip(_NUMBERS, np.asarray(numbers).tolist(), strict=True))
            if op["count"] > 0 and op["time_s"] > 0:
                rows.append(_row(assignment, phase, name, kind, op, float(seconds)))
    return rows


def _tables(point: Point) -> dict[str, Any]:
    """Both operator tables as arrays; names and kinds, which are no numbers, as keys."""
    return {"prefill": _table(point.prefill), "decode": _table(point.decode)}


def _table(step: StepTime) -> tuple[Any, list[Any]]:
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
