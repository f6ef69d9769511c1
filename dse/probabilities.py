"""Probabilities of being feasible, in `feasibility.json` beside the log.

They are derived from the front as it was at the end of a run (or when it was interrupted), so the
file is replaced whole and the log never touched; a missing file costs nothing but the column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.errors import StoreError
from dse.storage import Store, replace_file
from dse.trials import JOINT, LEGALITY

if TYPE_CHECKING:
    from dse.results import Point, Results
    from dse.score import Scorer

FILE = "feasibility.json"
UNCERTAIN = 0.9
"""Below this probability a constraint is named beside the joint probability."""

Shares = Mapping[str, float]


@dataclass(frozen=True)
class Probabilities:
    """Probability by constraint (its text, `legality`, `joint`) of each point that has one.

    points: by (trial number, kept mapping or None); known: by the name of the known chip.
    """

    points: Mapping[tuple[int, int | None], Shares] = field(default_factory=dict)
    known: Mapping[str, Shares] = field(default_factory=dict)

    def of(self, point: Point) -> Shares | None:
        """Those of a point, or None where they were not computed."""
        if point.number is None:
            return self.known.get(point.known)
        return self.points.get((point.number, point.mapping))

    def cover(self, results: Results) -> bool:
        """Whether every point of the front and every known chip has its probabilities."""
        points = results.front_points(known=True, least_violating=True)
        return all(self.of(point) is not None for point in points if point.metrics)


def compute(results: Results, scorer: Scorer, canonical: Any) -> Probabilities:
    """Those of the front (the least violating designs where it is empty) and of the known chips.

    canonical: `Space.canonical` of the study's space.
    """
    points = [p for p in results.front_points(least_violating=True) if p.metrics]
    if not points:
        return Probabilities({}, scorer.reference_feasibility())
    rows = np.array([results.trial(_number(p)).indices for p in points], dtype=np.int32)
    shares = scorer.feasibility(canonical(rows), [p.deployment for p in points])
    found = {(_number(p), p.mapping): s for p, s in zip(points, shares, strict=True)}
    return Probabilities(found, scorer.reference_feasibility())


def save(store: Store, probabilities: Probabilities, model_version: str) -> None:
    """Replace the file."""
    rows = [
        {"number": number, "mapping": mapping, "p_feasible": dict(shares)}
        for (number, mapping), shares in probabilities.points.items()
    ]
    known = {name: dict(shares) for name, shares in probabilities.known.items()}
    content = {"model_version": model_version, "points": rows, "known": known}
    replace_file(store.directory / FILE, json.dumps(content, indent=1) + "\n")


def load(store: Store, model_version: str) -> Probabilities:
    """The file's content; nothing where it is missing or of another model version.

    Raises StoreError when it is damaged, saying how to have it written anew.
    """
    path = store.directory / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["model_version"] != model_version:
            return Probabilities()
        points = {
            (_whole(r["number"]), _mapping(r)): _shares(r["p_feasible"]) for r in content["points"]
        }
        return Probabilities(points, {n: _shares(s) for n, s in content["known"].items()})
    except FileNotFoundError:
        return Probabilities()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged ({type(error).__name__}: {error}); the trials are safe in the log. "
            "Remove it; the next `dse run` of the study writes it anew"
        ) from None


def uncertain(shares: Shares) -> dict[str, float]:
    """Constraints that hold with less than `UNCERTAIN`, least probable first."""
    named = {text: share for text, share in shares.items() if text != JOINT and share < UNCERTAIN}
    return dict(sorted(named.items(), key=lambda item: item[1]))


def _number(point: Point) -> int:
    assert point.number is not None, "a point of the front is a trial"
    return point.number


def _mapping(row: Mapping[str, Any]) -> int | None:
    return None if row["mapping"] is None else _whole(row["mapping"])


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _shares(raw: Mapping[str, Any]) -> dict[str, float]:
    shares = {str(text): float(share) for text, share in raw.items()}
    if not {JOINT, LEGALITY} <= set(shares) or not all(0 <= s <= 1 for s in shares.values()):
        raise ValueError("a probability is missing or outside 0 to 1")
    return shares
