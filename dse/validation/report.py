"""What `dse validate` shows, as plain data: rows, figures per set of rows, the bar, what was
skipped."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dse.validation import statistics
from dse.validation.bars import Line
from dse.validation.record import KINDS, Record
from dse.validation.statistics import Summary


@dataclass(frozen=True)
class Set:
    """Records that are reported together, and their figures. Names are empty where they are
    pooled."""

    source: str
    tpu: str
    kind: str
    skipped: int
    summary: Summary


@dataclass(frozen=True)
class Report:
    """One validation: its records with intervals, their sets, and the bar table.

    own: whether the rows are a user's, which no bar is meant for. hosted: ids of rows whose
    prediction has the host time of their stack.
    """

    records: tuple[Record, ...]
    sets: tuple[Set, ...]
    lines: tuple[Line, ...]
    own: bool = False
    hosted: tuple[str, ...] = ()

    @property
    def skipped(self) -> list[Record]:
        """Rows without a prediction."""
        return [r for r in self.records if r.predicted is None]


def report(
    records: Sequence[Record],
    lines: Sequence[Line],
    *,
    unfitted: bool = False,
    own: bool = False,
    hosted: Sequence[str] = (),
) -> Report:
    """Figures per source, chip and kind, then per chip and kind, then per kind."""
    keys: tuple[Callable[[Record], tuple[str, str, str]], ...] = (
        lambda r: (r.source, r.tpu, r.kind),
        lambda r: ("", r.tpu, r.kind),
        lambda r: ("", "", r.kind),
    )
    sets = []
    for key in keys:
        grouped: dict[tuple[str, str, str], list[Record]] = {}
        for record in records:
            grouped.setdefault(key(record), []).append(record)
        for (source, tpu, kind), rows in sorted(grouped.items(), key=lambda item: _order(item[0])):
            skipped = sum(r.predicted is None for r in rows)
            summary = statistics.summarise(rows, unfitted=unfitted)
            if not tpu:  # efficiency is ranked within one chip
                none = statistics.NONE
                summary = dataclasses.replace(
                    summary, rank=none, rank_peak=none, rank_roofline=none
                )
            sets.append(Set(source, tpu, kind, skipped, summary))
    return Report(tuple(records), tuple(sets), tuple(lines), own, tuple(hosted))


def _order(key: tuple[str, str, str]) -> tuple[int, str, str]:
    source, tpu, kind = key
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), tpu, source)


def to_json(found: Report) -> dict[str, Any]:
    """The documented object of `dse validate --json`."""
    return {
        "rows": [row_json(record) for record in found.records],
        "bars": [line_json(line) for line in found.lines],
        "summary": [set_json(one) for one in found.sets],
    }


def row_json(record: Record) -> dict[str, Any]:
    """One measured row."""
    return {
        "id": record.id,
        "kind": record.kind,
        "tpu": record.tpu,
        "class": record.confidence,
        "predicted": record.predicted,
        "measured": record.measured,
        "low": record.low,
        "high": record.high,
        "unit": record.unit,
        "error": statistics.error_of(record),
        "inside": statistics.inside(record),
        "reason_if_skipped": record.reason_if_skipped or None,
        "source": record.source,
        "stack": record.stack,
        "model": record.model,
        "group": record.group,
        "held_out": record.held_out,
        "roofline": record.roofline,
        "peak": record.peak,
        "higher_is_better": record.higher_is_better,
        "bound_by": record.bound_by,
        "bars": list(record.bars),
        "notes": record.notes,
    }


def line_json(line: Line) -> dict[str, Any]:
    """One target of the bar."""
    facts = dataclasses.asdict(line)
    return {**facts, **facts.pop("figure")}


def set_json(one: Set) -> dict[str, Any]:
    """The figures of one set of rows; pooled names are null."""
    facts: Mapping[str, Any] = dataclasses.asdict(one)
    names = {key: facts[key] or None for key in ("source", "tpu", "kind")}
    return {**names, "skipped": one.skipped, **facts["summary"]}
