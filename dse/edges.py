"""Knobs whose whole front sits at the first or last of their choices: the best may lie beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dse.results import Point
    from search_spaces.knob import Knob

_FEWEST_CHOICES = 3  # of two choices each is an edge
_FEWEST_POINTS = 2  # one design says nothing of a direction


@dataclass(frozen=True)
class Edge:
    """An end of a knob's choices that a study could move outwards.

    end: `lowest` or `highest`. when: parent knob -> its labels under which this knob matters.
    """

    knob: str
    choice: str
    end: str
    when: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """`hbm_stacks 8 (highest)`."""
        return f"{self.knob} {self.choice} ({self.end})"


def to_meta(knobs: Sequence[Knob]) -> dict[str, Any]:
    """What `meta.json` keeps: the ends of all ordered knobs that the catalog lets a study widen."""
    found = []
    for knob in knobs:
        if knob.ordered and len(knob.choices) >= _FEWEST_CHOICES:
            ends = {"lowest": knob.labels[0], "highest": knob.labels[-1]}
            found += [
                asdict(Edge(knob.name, label, end, dict(knob.when or {})))
                for end, label in ends.items()
                if not _is_limit(knob, label)
            ]
    return {"edges": found}


def reached(meta: Mapping[str, Any], points: Sequence[Point]) -> list[Edge]:
    """The edges of a study's `meta.json` at which all of `points` are that have the knob."""
    edges = (Edge(**row) for row in meta.get("edges", []))
    return [edge for edge in edges if _all_at(edge, points)]


def lines(meta: Mapping[str, Any], points: Sequence[Point]) -> list[str]:
    """A line below the front that names them; `points` are the whole front."""
    found = reached(meta, points)
    if not found:
        return []
    return [
        f"All points are at an edge of {', '.join(edge.text for edge in found)}: "
        "wider choices may hold better designs."
    ]


def _all_at(edge: Edge, points: Sequence[Point]) -> bool:
    settings = [{**point.params, **point.deployment} for point in points]
    active = [
        labels
        for labels in settings
        if all(labels.get(parent) in allowed for parent, allowed in edge.when.items())
    ]
    return len(active) >= _FEWEST_POINTS and all(
        labels.get(edge.knob) == edge.choice for labels in active
    )


def _is_limit(knob: Knob, label: str) -> bool:
    """Whether the catalog has nothing beyond this choice."""
    from search_spaces.catalog import find
    from search_spaces.errors import SpaceError
    from search_spaces.hbm import generations

    try:
        entry = find(knob.name.removeprefix(f"{knob.assignment}."), knob.section)
    except SpaceError:
        return False
    if entry.range is not None:
        return label in {*entry.named, *(f"{limit:g}" for limit in entry.range)}
    order = list(generations() if entry.kind == "hbm" else entry.table)
    return bool(order) and label in (order[0], order[-1])
