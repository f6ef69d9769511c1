"""How tables show 80 % intervals, and the evidence that they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dse.results import Point
    from dse.validation.evidence import Interval


def value_cell(point: Point, name: str, with_interval: bool) -> str:
    """A metric, and how far its interval reaches below and above it: `253.2 ms -13 +15%`."""
    from dse.cli import tables

    value = point.metrics.get(name)
    interval = (point.intervals or {}).get(name) if with_interval else None
    text = tables.metric(name, value)
    return f"{text} {reach(value, interval)}" if value and interval else text


def reach(value: float, interval: Interval) -> str:
    """`-13 +15%`: the ends of an interval, relative to the value."""
    below, above = (100 * (end / value - 1) for end in (interval.low, interval.high))
    return f"{below:+.0f} {above:+.0f}%"


_STEP_METRICS = {"prefill": "prefill_step_s", "decode": "decode_step_s", "step": "train_step_s"}


def step_reach(point: Point, phase: str) -> str:
    """` (-13 +15%, measured decode steps, n=23)`: how sure the time of a step is; or nothing."""
    name = _STEP_METRICS.get(phase, "")
    interval, value = (point.intervals or {}).get(name), point.metrics.get(name)
    if not interval or not value:
        return ""
    return f" ({reach(value, interval)}, {evidence_text(interval)})"


def range_text(name: str, interval: Interval | None) -> str:
    """`219.1 ms to 291.2 ms`, or a dash."""
    from dse.cli import tables

    if interval is None:
        return "-"
    return f"{tables.metric(name, interval.low)} to {tables.metric(name, interval.high)}"


def evidence_text(interval: Interval | None) -> str:
    """What an interval rests on."""
    if interval is None:
        return "-"
    if interval.widened <= 1:
        return interval.evidence
    return f"{interval.evidence}; widened {interval.widened:.2g} times for the distance from it"


def evidence_lines(points: Sequence[Point], names: Sequence[str]) -> list[str]:
    """Below a table: what the intervals of the shown metrics rest on, one line for each kind of
    evidence; or that there are none, and how to get them."""
    if points and all(point.intervals is None for point in points):
        return ["80 % intervals are not there yet: dse run on the study file computes them."]
    found: dict[str, dict[str, Any]] = {}
    for point in points:
        for name in names:
            if interval := (point.intervals or {}).get(name):
                entry = found.setdefault(interval.evidence, {"names": {}, "widened": 1.0})
                entry["names"][name] = None
                entry["widened"] = max(entry["widened"], interval.widened)
    lines = []
    for evidence, entry in found.items():
        line = f"80 % intervals of {', '.join(entry['names'])}: {evidence}"
        if entry["widened"] > 1:
            line += f", widened up to {entry['widened']:.2g} times for the distance from what was"
            line += " measured"
        lines.append(f"{line}.")
    return lines
