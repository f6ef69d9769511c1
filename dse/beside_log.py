"""What is known of the points of a front, in a file beside the log.

Derived from the front as it was at the end of a run (or when it was interrupted), so the file is
replaced whole and the log never touched; a missing file costs what it says and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dse.errors import StoreError
from dse.storage import replace_file

if TYPE_CHECKING:
    from dse.results import Point, Results

Fact = TypeVar("Fact")
Key = tuple[int, int | None]
"""A trial's number, and its kept mapping or None."""


@dataclass(frozen=True)
class FrontFacts(Generic[Fact]):
    """One fact of each point that has one.

    points: by trial number and kept mapping; known: by the name of the known chip.
    """

    points: Mapping[Key, Fact] = field(default_factory=dict)
    known: Mapping[str, Fact] = field(default_factory=dict)

    def of(self, point: Point) -> Fact | None:
        """That of a point, or None where it was not computed."""
        if point.number is None:
            return self.known.get(point.known)
        return self.points.get((point.number, point.mapping))

    def cover(self, results: Results) -> bool:
        """Whether every point of the front and every known chip has its fact."""
        points = results.front_points(known=True, least_violating=True)
        return all(self.of(point) is not None for point in points if point.metrics)


Ask = Callable[[NDArray[np.int32], Sequence[Mapping[str, str]]], Sequence[Fact]]
"""The facts of candidates: rows int32[n, knobs], and the labels of the solved knobs of each."""


def of_front(results: Results, canonical: Any, ask: Ask[Fact]) -> dict[Key, Fact]:
    """The facts of the front, or of the least violating designs where it is empty.

    canonical: `Space.canonical` of the study's space.
    """
    points = [p for p in results.front_points(least_violating=True) if p.metrics]
    if not points:
        return {}
    keys = [(_number(p), p.mapping) for p in points]
    rows = np.array([results.trial(number).indices for number, _ in keys], dtype=np.int32)
    facts = ask(canonical(rows), [p.deployment for p in points])
    return dict(zip(keys, facts, strict=True))


def _number(point: Point) -> int:
    assert point.number is not None, "a point of the front is a trial"
    return point.number


def write(
    path: Path,
    facts: FrontFacts[Fact],
    model_version: str,
    name: str,
    to_json: Callable[[Fact], Any],
    indent: int | None = None,
) -> None:
    """Replace a file; `name` is the key of the fact in each point's row."""
    rows = [
        {"number": number, "mapping": mapping, name: to_json(fact)}
        for (number, mapping), fact in facts.points.items()
    ]
    known = {chip: to_json(fact) for chip, fact in facts.known.items()}
    content = {"model_version": model_version, "points": rows, "known": known}
    replace_file(path, json.dumps(content, indent=indent) + "\n")


def read(
    path: Path, model_version: str, name: str, from_json: Callable[[Any], Fact]
) -> tuple[dict[Key, Fact], dict[str, Fact]]:
    """The facts of points and known chips; none where the file is missing or of another model
    version.

    Raises StoreError when it is damaged, saying how to have it written anew.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["model_version"] != model_version:
            return {}, {}
        points = {(_whole(r["number"]), _mapping(r)): from_json(r[name]) for r in content["points"]}
        return points, {chip: from_json(raw) for chip, raw in content["known"].items()}
    except FileNotFoundError:
        return {}, {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged ({type(error).__name__}: {error}); the trials are safe in the log. "
            "Remove it; the next `dse run` of the study writes it anew"
        ) from None


def _mapping(row: Mapping[str, Any]) -> int | None:
    return None if row["mapping"] is None else _whole(row["mapping"])


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value
