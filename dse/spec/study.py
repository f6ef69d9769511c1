"""StudySpec: a checked study, as plain frozen data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.spec.expressions import Constraint, Objective
from search_spaces.knob import Choice, Knob
from search_spaces.space import Space

if TYPE_CHECKING:
    from models.architecture import Architecture
    from models.workload import Training, Workload


ANALYTICAL, TILE = "analytical", "tile"
FIDELITIES = (ANALYTICAL, TILE)
"""Rungs whose numbers a study can be scored by (docs/model.md)."""


@dataclass(frozen=True)
class SolveSpec:
    """Deployment knobs whose best setting is computed for each (chip, variant)."""

    knobs: tuple[Knob, ...]
    objective: Objective
    limits: tuple[Constraint, ...]


@dataclass(frozen=True)
class AssignmentSpec:
    """One model under one workload: the whole study, or one member of a portfolio.

    name: "" for a study without a portfolio. model_ref: as the file states it. weight: over the sum
    of all weights of the portfolio. In a portfolio, knob names carry the prefix `<name>.`.
    """

    name: str
    model_ref: str
    architecture: Architecture
    workload: Workload | Training
    weight: float
    model_knobs: tuple[Knob, ...]
    training_tokens: float | None
    deployment_knobs_sampled: tuple[Knob, ...]
    deployment_fixed: Mapping[str, Choice]
    solve: SolveSpec | None

    @property
    def fixed_fields(self) -> dict[str, float]:
        """Deployment fields that `deployment.fixed` sets."""
        return {f: v for choice in self.deployment_fixed.values() for f, v in choice.fields.items()}

    @property
    def solved_knobs(self) -> tuple[Knob, ...]:
        """The solved deployment knobs, none without `solve`."""
        return self.solve.knobs if self.solve else ()


@dataclass(frozen=True)
class SearchSpec:
    """How the sampled space is searched."""

    sampler: str
    trials: int
    seed: int
    population: int


@dataclass(frozen=True)
class StudySpec:
    """A checked study file. `text` is the file as read."""

    name: str
    question: str
    path: Path
    text: str
    chip_base: str
    chip_knobs: tuple[Knob, ...]
    assignments: tuple[AssignmentSpec, ...]
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    search: SearchSpec
    is_portfolio: bool = field(default=False)
    fidelity: str = ANALYTICAL

    def space(self) -> Space:
        """The sampled space: chip, then each assignment's model and sampled deployment knobs."""
        return self._space

    @cached_property
    def _space(self) -> Space:
        knobs = list(self.chip_knobs)
        for assignment in self.assignments:
            knobs += [*assignment.model_knobs, *assignment.deployment_knobs_sampled]
        return Space(tuple(knobs))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what a result means: knobs with the values they set,
        models, workloads, objectives, constraints and the search. Not of the name, the question,
        comments, or the number of trials, so that a study can be extended."""
        content = {
            "chip": {"base": self.chip_base, "knobs": _plain_knobs(self.chip_knobs)},
            "assignments": [_plain_assignment(a) for a in self.assignments],
            "objectives": [[o.direction, o.text] for o in self.objectives],
            "constraints": [_plain_constraint(c) for c in self.constraints],
            "search": [self.search.sampler, self.search.seed, self.search.population],
        }
        if self.fidelity != ANALYTICAL:
            content["fidelity"] = self.fidelity
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


def _plain_assignment(a: AssignmentSpec) -> dict[str, Any]:
    import dataclasses

    solve = a.solve and {
        "knobs": _plain_knobs(a.solve.knobs),
        "objective": [a.solve.objective.direction, a.solve.objective.text],
        "limits": [_plain_constraint(c) for c in a.solve.limits],
    }
    return {
        "name": a.name,
        "model": a.model_ref,
        "architecture": repr(a.architecture),
        "workload": dataclasses.asdict(a.workload),
        "weight": a.weight,
        "training_tokens": a.training_tokens,
        "knobs": _plain_knobs((*a.model_knobs, *a.deployment_knobs_sampled)),
        "fixed": a.fixed_fields,
        "solve": solve,
    }


def _plain_knobs(knobs: tuple[Knob, ...]) -> list[Any]:
    return [
        [k.name, [[c.label, dict(c.fields)] for c in k.choices], dict(k.when or {})] for k in knobs
    ]


def _plain_constraint(c: Constraint) -> list[Any]:
    return [c.metric, c.op, c.limit]
