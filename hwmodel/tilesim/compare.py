"""Where and by how much the two rungs differ, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwmodel.tilesim.step import TileOperator, TileStep

ENGINES = ("mxu_s", "vpu_s", "hbm_s", "network_s")

CAUSES = {
    "mxu_s": "latches and fill of every block, uneven blocks",
    "vpu_s": "vector work of every block",
    "hbm_s": "traffic of the blocks",
    "network_s": "network",
    "ends": "first and last transfer of the kernel, fixed cost",
    "neighbours": "prefetch under, and overlap with, the neighbours",
    "steps": "steps wait for transfers or for compute",
}
"""What a difference can come from, by the part of an operator's time that differs most."""


@dataclass(frozen=True)
class Difference:
    """One operator at both rungs, all executions of a step; ratio is tile over analytical."""

    operator: str
    analytical_s: float
    tile_s: float
    ratio: float
    cause: str


def compare(
    analytical: Sequence[Mapping[str, Any]] | Sequence[Any], tile: TileStep
) -> list[Difference]:
    """Both rungs' tables of one step, row by row in the order of the tile rung's.

    analytical: `hwmodel.step.OperatorTime`s or mappings with their fields, numbers concrete.
    Operators that take no time at either rung are left out.
    """
    rows = [row if isinstance(row, Mapping) else vars(row) for row in analytical]
    waiting: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        waiting.setdefault(str(row["name"]), []).append(row)
    found = []
    for operator in tile.operators:
        same = waiting.get(operator.name)
        if not same:
            continue
        row = same.pop(0)
        before = float(row["time_s"])
        if before > 0 or operator.time_s > 0:
            ratio = operator.time_s / before if before > 0 else float("inf")
            cause = CAUSES[_largest(row, operator)]
            found.append(Difference(operator.name, before, operator.time_s, ratio, cause))
    return found


def _largest(row: Mapping[str, Any], operator: TileOperator) -> str:
    """The part of an operator's time in which the rungs differ most."""
    if operator.kind == "collective":
        return "neighbours"
    there = {engine: float(row.get(engine, 0.0)) for engine in ENGINES}
    here = {engine: float(getattr(operator, engine)) for engine in ENGINES}
    slower = here if max(here.values()) >= max(there.values()) else there
    bound = max(slower, key=slower.__getitem__)
    parts = {
        bound: max(here.values()) - max(there.values()),
        "ends": operator.fixed_s - float(row.get("fixed_s", 0.0)),
        "neighbours": operator.time_s - operator.alone_s,
    }
    parts["steps"] = operator.time_s - float(row["time_s"]) - sum(parts.values())
    return max(parts, key=lambda name: abs(parts[name]))
