"""What the intervals of a study's points depend on, in `uncertainty.json` beside the log
(`dse.beside_log`).

A missing file costs the intervals and nothing else. The intervals themselves are taken from the
residuals of the installed version when they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dse.beside_log import FrontFacts, of_front, read, write
from dse.storage import Store

if TYPE_CHECKING:
    from dse.results import Point, Results
    from dse.score import Scorer
    from dse.validation.evidence import Case, Interval

    CaseFacts = FrontFacts[Case]
else:
    CaseFacts = FrontFacts  # the evidence is imported when intervals are shown

FILE = "uncertainty.json"


class Uncertainty(CaseFacts):
    """The case of each point that has one."""

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
    points = of_front(results, canonical, scorer.uncertainty)
    return Uncertainty(points, scorer.reference_uncertainty())


def save(store: Store, uncertainty: Uncertainty, model_version: str) -> None:
    """Replace the file."""
    path = store.directory / FILE
    write(path, uncertainty, model_version, "case", lambda case: case.to_json())


def load(store: Store, model_version: str) -> Uncertainty:
    """The file's content; nothing where it is missing or of another model version.

    Raises StoreError when it is damaged, saying how to have it written anew.
    """
    from dse.validation import evidence

    path = store.directory / FILE
    return Uncertainty(*read(path, model_version, "case", evidence.Case.from_json))
