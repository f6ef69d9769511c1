"""Rows that miss their target, the likely cause, and the measurement that would settle it.

Causes are data, one entry for each group of rows in `hwmodel/calibration/gaps.yaml`:

    - rows: {kind: [decode], tpu: [v5e], source: jetstream}    # each key narrows; source: a part
      cause: "why these rows are off, as far as is known"
      settles: "the measurement that would tell"

The first entry that fits a row speaks for it. Rows that none fits are listed with what takes the
time in their prediction, as not understood.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from dse.validation.bars import targets
from dse.validation.record import Record
from dse.validation.statistics import error_of, inside

FILE = "gaps.yaml"
UNKNOWN_CAUSE = "not understood"
UNKNOWN_TEST = "none named yet"
KEYS = ("id", "kind", "tpu", "source", "model", "stack", "bar")


class GapsError(ValueError):
    """`gaps.yaml` does not have the shape that it must have."""


@dataclass(frozen=True)
class Cause:
    """Why the rows that `rows` selects are off, and what would settle it."""

    rows: Mapping[str, Any]
    cause: str
    settles: str

    def explains(self, record: Record) -> bool:
        """Whether every key of `rows` fits: a list holds the value, a text is a part of it."""
        return all(_fits(wanted, _values(record, key)) for key, wanted in self.rows.items())


@dataclass(frozen=True)
class Gap:
    """Rows of one kind and chip that miss their target for one cause."""

    kind: str
    tpu: str
    cause: str
    settles: str
    records: tuple[Record, ...]

    @property
    def errors(self) -> list[float]:
        """predicted / measured - 1 of each row."""
        return [(r.predicted or 0.0) / r.measured - 1 for r in self.records]

    @property
    def bound_by(self) -> str:
        """What takes the time in the prediction of the worst row."""
        worst = max(zip(self.errors, self.records, strict=True), key=lambda pair: abs(pair[0]))
        return worst[1].bound_by


def limit_of(record: Record) -> float | None:
    """The largest error that a single row may have: the widest limit of the bars it counts for;
    None for a row that counts for none."""
    limits = [max(targets()[name].limits.values()) for name in record.bars if name in targets()]
    return max(limits) if limits else None


def missed(record: Record) -> bool:
    """Whether a row lies beyond its limit."""
    limit = limit_of(record)
    error = error_of(record)
    return error is not None and limit is not None and abs(error) > limit


def outside(record: Record) -> bool:
    """Whether a user's row misses: no limit of the package is meant for it, its interval is."""
    return inside(record) is False


def gaps(
    records: Sequence[Record],
    causes: Sequence[Cause] | None = None,
    misses: Callable[[Record], bool] = missed,
) -> list[Gap]:
    """The rows that miss by cause, kind and chip: TPUs before GPUs, most rows first."""
    known = released() if causes is None else causes
    found: dict[tuple[str, str, str, str], list[Record]] = {}
    for r in records:
        if not misses(r):
            continue
        cause = next((c for c in known if c.explains(r)), None)
        words = (cause.cause, cause.settles) if cause else (UNKNOWN_CAUSE, UNKNOWN_TEST)
        found.setdefault((r.kind, r.tpu, *words), []).append(r)
    rows = [Gap(*key, tuple(own)) for key, own in found.items()]
    return sorted(rows, key=lambda gap: (gap.kind.startswith("gpu"), -len(gap.records)))


@functools.cache
def released() -> tuple[Cause, ...]:
    """The causes of the package."""
    path = resources.files("hwmodel").joinpath("calibration", FILE)
    return parse(path.read_text("utf-8")) if path.is_file() else ()


def parse(text: str) -> tuple[Cause, ...]:
    """The causes of a file's text.

    Raises:
        GapsError: an entry lacks a key or has an unknown one.
    """
    import yaml

    found = []
    for position, raw in enumerate(yaml.safe_load(text) or []):
        if not isinstance(raw, dict) or set(raw) != {"rows", "cause", "settles"}:
            raise GapsError(f"{FILE}: entry {position} needs exactly rows, cause and settles")
        unknown = set(raw["rows"]) - set(KEYS)
        if unknown:
            raise GapsError(
                f"{FILE}: entry {position} selects rows by {', '.join(sorted(unknown))}; "
                f"known are {', '.join(KEYS)}"
            )
        found.append(Cause(**raw))
    return tuple(found)


def _values(record: Record, key: str) -> list[str]:
    return list(record.bars) if key == "bar" else [str(getattr(record, key))]


def _fits(wanted: Any, values: Sequence[str]) -> bool:
    if isinstance(wanted, list):
        return any(str(w) == value for w in wanted for value in values)
    return any(str(wanted) in value for value in values)
