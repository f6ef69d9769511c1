"""What the intervals of a study's points depend on, in `uncertainty.json` beside the log.

Like the probabilities it is derived from the front as it was at the end of a run, so the file is
replaced whole and the log never touched; a missing file costs the intervals and nothing else. The
intervals themselves are taken from the residuals of the installed version when they are shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.errors import StoreError
from dse.storage import Store, replace_file

if TYPE_CHECKING:
    from dse.results import Point, Results
    from dse.score import Scorer
    from dse.validation.evidence import Case, Interval

FILE = "uncertainty.json"


@dataclass(frozen=True)
class Uncertainty:
    """The case of each point that has one.

    points: by (trial number, kept mapping or None); known: by the name of the known chip.
    """

    points: Mapping[tuple[int, int | None], Case] = field(default_factory=dict)
    known: Mapping[str, Case] = field(default_factory=dict)

    def of(self, point: Point) -> Case | None:
        """That of a point, or None where it was not computed."""
        if point.number is None:
            return self.known.get(point.known)
        return self.points.get((point.number, point.mapping))

    def cover(self, results: Results) -> bool:
        """Whether every point of the front and every known chip has its case."""
        points = results.front_points(known=True, least_violating=True)
        return all(self.of(point) is not None for point in points if point.metrics)

    def intervals(self, point: Point) -> dict[str, Interval] | None:
        """80 % intervals of a point's metrics by name; None where nothing is known of the point,
        and without the metrics that have none."""
        from dse.validation.evidence import interval
        from dse.validation.intervals import calibration

        case = self.of(point)
        if case is None:
            return None
        found = {
            name: interval(name, value, case, calibration())
            for name, value in point.metrics.items()
        }
        return {name: one for name, one in found.items() if one is not None}


def compute(results: Results, scorer: Scorer, canonical: Any) -> Uncertainty:
    """That of the front (the least violating designs where it is empty) and of the known chips.

    canonical: `Space.canonical` of the study's space.
    """
    points = [p for p in results.front_points(least_violating=True) if p.metrics]
    known = scorer.reference_uncertainty()
    if not points:
        return Uncertainty({}, known)
    numbers = [p.number for p in points if p.number is not None]
    rows = np.array([results.trial(number).indices for number in numbers], dtype=np.int32)
    cases = scorer.uncertainty(canonical(rows), [p.deployment for p in points])
    keys = [(number, p.mapping) for number, p in zip(numbers, points, strict=True)]
    return Uncertainty(dict(zip(keys, cases, strict=True)), known)


def save(store: Store, uncertainty: Uncertainty, model_version: str) -> None:
    """Replace the file."""
    rows = [
        {"number": number, "mapping": mapping, "case": case.to_json()}
        for (number, mapping), case in uncertainty.points.items()
    ]
    known = {name: case.to_json() for name, case in uncertainty.known.items()}
    content = {"model_version": model_version, "points": rows, "known": known}
    replace_file(store.directory / FILE, json.dumps(content) + "\n")


def load(store: Store, model_version: str) -> Uncertainty:
    """The file's content; nothing where it is missing or of another model version.

    Raises StoreError when it is damaged, saying how to have it written anew.
    """
    from dse.validation.evidence import Case

    path = store.directory / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["model_version"] != model_version:
            return Uncertainty()
        points = {(r["number"], r["mapping"]): Case.from_json(r["case"]) for r in content["points"]}
        return Uncertainty(points, {n: Case.from_json(c) for n, c in content["known"].items()})
    except FileNotFoundError:
        return Uncertainty()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged ({type(error).__name__}: {error}); the trials are safe in the log. "
            "Remove it; the next `dse run` of the study writes it anew"
        ) from None
