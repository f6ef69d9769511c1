"""Probabilities of being feasible, in `feasibility.json` beside the log (`dse.beside_log`).

A missing file costs nothing but the column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dse.beside_log import FrontFacts, of_front, read, write
from dse.storage import Store
from dse.trials import JOINT, LEGALITY

if TYPE_CHECKING:
    from dse.results import Results
    from dse.score import Scorer

FILE = "feasibility.json"
UNCERTAIN = 0.9
"""Below this probability a constraint is named beside the joint probability."""

Shares = Mapping[str, float]


class Probabilities(FrontFacts[Shares]):
    """Probability by constraint (its text, `legality`, `joint`) of each point that has one."""


def compute(results: Results, scorer: Scorer, canonical: Any) -> Probabilities:
    """Those of the front (the least violating designs where it is empty) and of the known chips.

    canonical: `Space.canonical` of the study's space.
    """
    points = of_front(results, canonical, scorer.feasibility)
    return Probabilities(points, scorer.reference_feasibility())


def save(store: Store, probabilities: Probabilities, model_version: str) -> None:
    """Replace the file."""
    path = store.directory / FILE
    write(path, probabilities, model_version, "p_feasible", dict, indent=1)


def load(store: Store, model_version: str) -> Probabilities:
    """The file's content; nothing where it is missing or of another model version.

    Raises StoreError when it is damaged, saying how to have it written anew.
    """
    return Probabilities(*read(store.directory / FILE, model_version, "p_feasible", _shares))


def uncertain(shares: Shares) -> dict[str, float]:
    """Constraints that hold with less than `UNCERTAIN`, least probable first."""
    named = {text: share for text, share in shares.items() if text != JOINT and share < UNCERTAIN}
    return dict(sorted(named.items(), key=lambda item: item[1]))


def _shares(raw: Mapping[str, Any]) -> dict[str, float]:
    shares = {str(text): float(share) for text, share in raw.items()}
    if not {JOINT, LEGALITY} <= set(shares) or not all(0 <= s <= 1 for s in shares.values()):
        raise ValueError("a probability is missing or outside 0 to 1")
    return shares
