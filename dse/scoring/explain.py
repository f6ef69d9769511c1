"""Operator tables of one candidate, from the same equations as its score."""

from __future__ import annotations

from typing import Any

from hwmodel.step import OperatorTime
from models.performance import Point

_ENGINES = {"mxu": "mxu_s", "vpu": "vpu_s", "hbm": "hbm_s", "network": "network_s"}


def operator_rows(assignment: str, point: Point) -> list[dict[str, Any]]:
    """One dict per operator and phase, in execution order.

    time_s is what the operator adds to one step of one pipeline stage (for collectives the exposed
    part), bytes its HBM traffic or, for collectives, its network traffic; bound_by the engine that
    takes longest, or "latency" where fixed costs take longer than any engine.
    """
    rows = []
    for phase, step in (("prefill", point.prefill), ("decode", point.decode)):
        total = float(step.seconds)
        for op in step.operators:
            if float(op.count) <= 0 or float(op.time_s) <= 0:
                continue
            rows.append(_row(assignment, phase, op, total))
    return rows


def _row(assignment: str, phase: str, op: OperatorTime, total_s: float) -> dict[str, Any]:
    engines = {name: float(getattr(op, field)) for name, field in _ENGINES.items()}
    fixed = float(op.fixed_s)
    if op.kind == "collective":
        engines["network"] -= fixed
    bound, busy = max(engines.items(), key=lambda item: item[1])
    network = float(op.ici_bytes) + float(op.dcn_bytes)
    row: dict[str, Any] = {
        "phase": phase,
        "name": op.name,
        "time_s": float(op.time_s),
        "bytes": network if op.kind == "collective" else float(op.hbm_bytes),
        "flops": float(op.flops),
        "bound_by": "latency" if fixed > busy else bound,
        "share": float(op.time_s) / total_s,
        "count": float(op.count),
        **{field: engines[name] for name, field in _ENGINES.items()},
        "fixed_s": fixed,
    }
    if assignment:
        row = {"assignment": assignment, **row}
    return row

