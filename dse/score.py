"""Score: everything that one evaluation says about one candidate, and who produces it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from dse.validation.evidence import Case

SIGNIFICANT_DIGITS = 9


def rounded(value: float) -> float:
    """`value` to 9 significant digits: the rule by which scores are told and stored.

    Compiled code may differ in its last bits between machines and batch positions; an optimizer
    that saw those bits would search differently. Non-finite values pass through.
    """
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")


@dataclass(frozen=True)
class Score:
    """What the model says about one candidate.

    metrics: name -> value in SI units, objective expressions included; empty where nothing could be
    computed. legal: the candidate can exist; otherwise `reason` is a machine key, `explanation` a
    sentence, `repair` the nearest change that would make it legal and `violation` > 0 its distance
    in units of value/limit - 1. solved: deployment labels that the solver chose. mappings: other
    non-dominated mappings, each {'deployment': {...}, 'metrics': {...}}. failed: the evaluation
    itself broke (crash, timeout, exception, non-finite result), which says nothing of the design.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    legal: bool = True
    reason: str = ""
    explanation: str = ""
    repair: str = ""
    violation: float = 0.0
    solved: Mapping[str, str] = field(default_factory=dict)
    mappings: tuple[Mapping[str, Any], ...] = ()
    failed: bool = False

    @classmethod
    def failure(cls, reason: str, explanation: str) -> Score:
        """The score of a candidate whose evaluation broke: no metrics, and why."""
        return cls(legal=False, reason=reason, explanation=explanation, failed=True)

    def rounded(self) -> Score:
        """The same score with every number rounded as it is told and stored."""
        return replace(
            self,
            metrics=_rounded(self.metrics),
            violation=rounded(self.violation),
            mappings=tuple({**m, "metrics": _rounded(m["metrics"])} for m in self.mappings),
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON object without non-finite numbers (null); empty fields are left out."""
        out: dict[str, Any] = {"legal": self.legal}
        if self.metrics:
            out["metrics"] = {name: _to_number(value) for name, value in self.metrics.items()}
        for key in ("reason", "explanation", "repair", "failed"):
            if getattr(self, key):
                out[key] = getattr(self, key)
        if self.violation:
            out["violation"] = _to_number(self.violation)
        if self.solved:
            out["solved"] = dict(self.solved)
        if self.mappings:
            out["mappings"] = _pack(self.mappings)
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Score:
        """The inverse of `to_json`; null becomes NaN."""
        metrics = {name: _from_number(value) for name, value in data.get("metrics", {}).items()}
        return cls(
            metrics=metrics,
            legal=data["legal"],
            reason=data.get("reason", ""),
            explanation=data.get("explanation", ""),
            repair=data.get("repair", ""),
            violation=_from_number(data.get("violation", 0.0)),
            solved=data.get("solved", {}),
            mappings=tuple(_unpack(data["mappings"])) if "mappings" in data else (),
            failed=data.get("failed", False),
        )


class Scorer(Protocol):
    """Scores candidates. Workers build their own with a picklable factory."""

    version: str  # of the model: equations, constants and data; scores of two versions never mix
    chunk: int  # rows of one call: the padded batch that the model is compiled for, or a part of it

    def score(self, indices: np.ndarray) -> list[Score]:
        """Scores of the rows of `indices`, int32[n, knobs], in order; n <= chunk."""
        ...

    def reference_scores(self) -> list[tuple[str, Score]]:
        """Known chips in this study's own terms, by name ('v6e as it is')."""
        ...

    def first_rows(self) -> np.ndarray:
        """Rows to try first, int32[n, knobs]: the base chip as it is; none where it has no row.

        They become parents of the next generation like any other trial.
        """
        ...

    def feasibility(
        self, indices: np.ndarray, deployments: Sequence[Mapping[str, str]]
    ) -> list[dict[str, float]]:
        """Probability that each constraint holds, given how uncertain the model's constants are.

        indices: int32[n, knobs]. deployments: for each row the labels of the solved knobs. Each
        dict has one entry per constraint (its text), `legality`, and `joint` for all together.
        """
        ...

    def reference_feasibility(self) -> dict[str, dict[str, float]]:
        """The same for each of `reference_scores`, by name."""
        ...

    def uncertainty(
        self, indices: np.ndarray, deployments: Sequence[Mapping[str, str]]
    ) -> list[Case]:
        """What the intervals of candidates depend on; arguments as in `feasibility`."""
        ...

    def reference_uncertainty(self) -> dict[str, Case]:
        """The same for each of `reference_scores`, by name."""
        ...

    def explain(self, indices: np.ndarray, deployment: Mapping[str, str]) -> list[dict[str, Any]]:
        """Operators of one candidate, int32[knobs], at the labels of its solved knobs."""
        ...

    def explain_reference(self, name: str) -> list[dict[str, Any]]:
        """Operators of one of `reference_scores`."""
        ...


class ScorerFactory(Protocol):
    """Builds a Scorer; must pickle, because each worker process calls it once."""

    def __call__(self) -> Scorer:
        """A new scorer."""
        ...


def _rounded(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: rounded(value) for name, value in metrics.items()}


def _to_number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _from_number(value: float | None) -> float:
    return math.nan if value is None else value


def _pack(mappings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mappings column-wise: their keys once, because 16 copies of 30 names dwarf the numbers."""
    deployment, metrics = list(mappings[0]["deployment"]), list(mappings[0]["metrics"])
    return {
        "deployment": deployment,
        "deployments": [[m["deployment"][key] for key in deployment] for m in mappings],
        "metrics": metrics,
        "values": [[_to_number(m["metrics"][key]) for key in metrics] for m in mappings],
    }


def _unpack(packed: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "deployment": dict(zip(packed["deployment"], deployment, strict=True)),
            "metrics": dict(zip(packed["metrics"], map(_from_number, values), strict=True)),
        }
        for deployment, values in zip(packed["deployments"], packed["values"], strict=True)
    ]
