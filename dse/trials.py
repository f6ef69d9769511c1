"""Trials and evaluated designs: what a study knows, independent of how it is stored or searched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dse.score import Score, rounded

LEGALITY = "legality"  # the constraint that says a candidate can exist at all
JOINT = "joint"  # among probabilities: that legality and all constraints hold together


class Objective(Protocol):
    """An objective of a study: its name in scores, and 'maximize' or 'minimize'."""

    @property
    def text(self) -> str:
        """Its name in scores."""
        ...

    @property
    def direction(self) -> str:
        """`maximize` or `minimize`."""
        ...


class Constraint(Protocol):
    """A constraint of a study; `violation` is value/limit - 1, at most 0 where it holds."""

    @property
    def text(self) -> str:
        """As the study states it."""
        ...

    def value(self, scores: Mapping[str, float]) -> float:
        """The constrained quantity. Raises KeyError where a metric it needs is missing."""
        ...

    def violation(self, value: float) -> float:
        """Signed violation of `value`."""
        ...


@dataclass(frozen=True)
class Evaluated:
    """A design with its score, judged by the study's constraints.

    design: canonical id. params: knob -> label. constraints: text -> violation, for each constraint
    whose metric was computed. mapping_constraints: the same for each of `score.mappings`.
    """

    design: str
    params: Mapping[str, str]
    score: Score
    constraints: Mapping[str, float]
    mapping_constraints: tuple[Mapping[str, float], ...] = ()
    attempts: int = 1

    @property
    def feasible(self) -> bool:
        """Legal, evaluated, and within every constraint."""
        return self.score.legal and all(value <= 0 for value in self.constraints.values())

    @property
    def violations(self) -> dict[str, float]:
        """Violation by constraint, legality included."""
        return {LEGALITY: legality(self.score), **self.constraints}

    def to_json(self) -> dict[str, Any]:
        """A JSON object; the inverse of `from_json`."""
        out: dict[str, Any] = {
            "design": self.design,
            "params": dict(self.params),
            "score": self.score.to_json(),
            "constraints": dict(self.constraints),
        }
        if self.mapping_constraints:
            out["mapping_constraints"] = [dict(row) for row in self.mapping_constraints]
        if self.attempts != 1:
            out["attempts"] = self.attempts
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Evaluated:
        """The inverse of `to_json`."""
        return cls(
            data["design"],
            data["params"],
            Score.from_json(data["score"]),
            data["constraints"],
            tuple(data.get("mapping_constraints", ())),
            data.get("attempts", 1),
        )


@dataclass(frozen=True)
class Trial:
    """One trial as told to the sampler.

    indices: the knob indices that were asked (not canonical). values: objective values as told;
    for a candidate without any (illegal), the worst so far. complete: False where evaluation
    failed. cached: the design had been evaluated before.
    """

    number: int
    generation: int
    indices: tuple[int, ...]
    values: tuple[float, ...]
    complete: bool
    cached: bool
    evaluated: Evaluated

    @property
    def feasible(self) -> bool:
        """As the design."""
        return self.evaluated.feasible


@dataclass(frozen=True)
class Generation:
    """Trials told together, and the seconds it took to ask for them and in all."""

    index: int
    trials: tuple[Trial, ...] = field(repr=False)
    ask_s: float
    wall_s: float


def legality(score: Score) -> float:
    """Violation of legality: 0 for a legal candidate, above 0 for an illegal one.

    A scorer that cannot say how far from legal a candidate is counts as 1 (a limit overrun by its
    own size).
    """
    if score.legal:
        return 0.0
    return score.violation if math.isfinite(score.violation) and score.violation > 0 else 1.0


def judge(
    design: str,
    params: Mapping[str, str],
    score: Score,
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
    attempts: int = 1,
) -> Evaluated:
    """Round a score, apply the constraints, and reject it where a number it needs is not finite.

    Raises KeyError when a legal score lacks a metric that the study names.
    """
    score = score.rounded()
    if score.legal:
        needed = {o.text: score.metrics[o.text] for o in objectives}
        needed |= {c.text: c.value(score.metrics) for c in constraints}
        bad = {name: value for name, value in needed.items() if not math.isfinite(value)}
        if bad:
            values = ", ".join(f"{value} for {name}" for name, value in bad.items())
            score = replace(
                score,
                legal=False,
                failed=True,
                reason="non_finite",
                explanation=f"the model returned {values}",
                mappings=(),
            )
    rows = tuple(violations(mapping["metrics"], constraints) for mapping in score.mappings)
    return Evaluated(design, params, score, violations(score.metrics, constraints), rows, attempts)


def violations(metrics: Mapping[str, float], constraints: Sequence[Constraint]) -> dict[str, float]:
    """Violation of each constraint whose metrics are there and finite."""
    found = {}
    for constraint in constraints:
        try:
            value = constraint.value(metrics)
        except KeyError:
            continue
        if math.isfinite(value):
            found[constraint.text] = rounded(constraint.violation(value))
    return found


def told_constraints(evaluated: Evaluated, texts: Sequence[str]) -> dict[str, float]:
    """What the sampler is told of each constraint; `texts` names them.

    Samplers add the positive violations up, so each is squeezed from (0, inf) to (0, 1): a design
    that misses one limit by a factor of thousand is not worse than one that misses all by ten. An
    illegal candidate, about which less is known, gets one more than all constraints together on
    legality, and so ranks behind every legal one. Every constraint is told on every trial, because
    some samplers need that: 0 (just met) where its metric is missing.
    """
    illegal = legality(evaluated.score)
    told = {LEGALITY: len(texts) + _squeezed(illegal) if illegal > 0 else 0.0}
    return told | {text: _squeezed(evaluated.constraints.get(text, 0.0)) for text in texts}


def _squeezed(violation: float) -> float:
    return violation / (1 + violation) if violation > 0 else violation


def objective_values(
    metrics: Mapping[str, float], objectives: Sequence[Objective]
) -> tuple[float, ...] | None:
    """Objective values in order, or None where the metrics lack one (an illegal candidate, or a
    kept mapping of a portfolio, whose aggregate objectives belong to the whole candidate)."""
    values = tuple(metrics.get(o.text, math.nan) for o in objectives)
    return values if all(map(math.isfinite, values)) else None
