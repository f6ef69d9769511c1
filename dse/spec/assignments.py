"""One model under one workload, from its part of the study file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from dse.spec.expressions import Objective, parse_constraint, parse_objective
from dse.spec.knobs import named_in, read_knobs
from dse.spec.problems import Problems
from dse.spec.quality import check_training_tokens, read_assumptions, with_bands
from dse.spec.schema import AssignmentPart, DeploymentPart, ModelPart, SolvePart
from dse.spec.study import AssignmentSpec, SolveSpec
from dse.spec.text import Path
from dse.spec.workloads import (
    check_experts,
    check_metric,
    check_suits,
    kind_of,
    longest_sequence,
    read_workload,
)
from search_spaces.applies import lacking
from search_spaces.catalog import find
from search_spaces.conditions import conditioned, dead_reason, leaves_neutral, missing_companion
from search_spaces.errors import SpaceError
from search_spaces.knob import Choice, Knob
from search_spaces.nearest import suggestion
from search_spaces.units import parse_quantity
from search_spaces.values import choice

if TYPE_CHECKING:
    from models.architecture import Architecture

ASSIGNMENT_NAME = re.compile(r"[A-Za-z0-9_-]+")


def read_assignment(
    part: AssignmentPart, path: Path, folder: FilePath, problems: Problems, portfolio: bool
) -> AssignmentSpec | None:
    """The assignment at `path`; config paths are relative to `folder`. None where its model cannot
    be read, which is recorded like every other problem."""
    workload = read_workload(part.workload, (*path, "workload"), problems)
    architecture = _architecture(part.model, (*path, "model", "config"), folder, problems)
    if architecture is None or workload is None:
        return None
    length = longest_sequence(workload)
    if 0 < architecture.max_context_tokens < length.tokens:
        problems.add(
            (*path, "workload", *length.path),
            f"{length.what} {length.tokens:g} tokens, and {architecture.name} takes at most "
            f"{architecture.max_context_tokens:g} (max_position_embeddings); shorten them",
        )
    check_experts(workload, architecture, (*path, "workload"), problems)
    kind = kind_of(workload)
    model_knobs = _model_knobs(part.model, architecture, kind, (*path, "model"), problems)
    sampled, fixed, solve = _deployment(
        part.deployment, architecture, kind, (*path, "deployment"), problems
    )
    prefix = part.name if portfolio else ""
    weight, tokens = 1.0, None
    with problems.at((*path, "weight")):
        weight = _positive(part.weight, "", "weight")
    if part.model.training_tokens is not None:
        with problems.at((*path, "model", "training_tokens")):
            tokens = _positive(part.model.training_tokens, "tokens", "training_tokens")
    tokens = check_training_tokens(
        model_knobs, architecture, tokens, (*path, "model", "knobs"), problems
    )
    return AssignmentSpec(
        name=prefix,
        model_ref=part.model.config,
        architecture=architecture,
        workload=workload,
        weight=weight,
        model_knobs=_named(model_knobs, prefix),
        training_tokens=tokens,
        deployment_knobs_sampled=_named(sampled, prefix),
        deployment_fixed=fixed,
        solve=solve and SolveSpec(_named(solve.knobs, prefix), solve.objective, solve.limits),
    )


def _named(knobs: tuple[Knob, ...], prefix: str) -> tuple[Knob, ...]:
    return tuple(knob.prefixed(prefix) for knob in knobs) if prefix else knobs


def _architecture(
    part: ModelPart, path: Path, folder: FilePath, problems: Problems
) -> Architecture | None:
    from models.huggingface import ModelConfigError, UnknownModelError, load

    beside = folder / part.config  # a config.json, or the folder that holds one
    reference = str(beside) if beside.exists() else part.config
    with problems.at(path, ModelConfigError, UnknownModelError):
        return load(reference)
    return None


def _model_knobs(
    part: ModelPart, architecture: Architecture, kind: str, path: Path, problems: Problems
) -> tuple[Knob, ...]:
    knobs = read_knobs(part.knobs, "model", (*path, "knobs"), problems)
    check_suits(knobs, "model", kind, part.knobs, (*path, "knobs"), problems)
    _check_useful(knobs, {}, architecture, part.knobs, (*path, "knobs"), problems)
    assumed = read_assumptions(part.assume, knobs, (*path, "assume"), problems)
    priced = with_bands(knobs, assumed, architecture, (*path, "knobs"), problems)
    return conditioned(tuple(priced.values()))


def _deployment(
    part: DeploymentPart, architecture: Architecture, kind: str, path: Path, problems: Problems
) -> tuple[tuple[Knob, ...], dict[str, Choice], SolveSpec | None]:
    """Sampled knobs, fixed settings and what is solved."""
    knobs = read_knobs(part.knobs, "deployment", (*path, "knobs"), problems)
    fixed: dict[str, Choice] = {}
    listed = named_in(part.knobs)
    for name, value in part.fixed.items():
        with problems.at((*path, "fixed", name)):
            fixed[name] = choice(find(name, "deployment"), value)
            if name in listed:
                raise SpaceError(
                    f"{name} is both varied under knobs and fixed here; keep one of them"
                )
        knobs.pop(name, None)  # a fixed knob overrides one that a preset brings
    labels = {name: c.label for name, c in fixed.items()}
    check_suits(knobs, "deployment", kind, part.knobs, (*path, "knobs"), problems)
    check_suits(fixed, "deployment", kind, part.fixed, (*path, "fixed"), problems)
    _check_useful(knobs, labels, architecture, part.knobs, (*path, "knobs"), problems)
    solved = _solved_names(part.solve, knobs, (*path, "solve"), problems)
    sampled = conditioned([knob for name, knob in knobs.items() if name not in solved])
    solve = None
    if part.solve is not None:
        solve = _solve(
            part.solve,
            conditioned([knob for name, knob in knobs.items() if name in solved]),
            kind,
            (*path, "solve"),
            problems,
        )
    return sampled, fixed, solve


def _check_useful(
    knobs: Mapping[str, Knob],
    fixed: Mapping[str, str],
    architecture: Architecture,
    raw: Mapping[str, object],
    path: Path,
    problems: Problems,
) -> None:
    """Record knobs that cannot change anything for this model, and knobs that need another."""
    for name, knob in knobs.items():
        entry = find(name, knob.section)
        where = (*path, name) if name in raw else (*path, "include")
        lacks = lacking(entry, architecture)
        if lacks is not None and leaves_neutral(knob, entry):
            problems.add(where, f"{name} needs {lacks}, which the model lacks; say {name}: off")
        for reason in (
            dead_reason(knob, knobs, fixed),
            missing_companion(knob, {*knobs, *fixed}),
        ):
            if reason is not None:
                problems.add(where, reason)


def _solved_names(
    part: SolvePart | None, knobs: Mapping[str, Knob], path: Path, problems: Problems
) -> set[str]:
    if part is None:
        return set()
    where = (*path, "knobs")
    if part.knobs == "all":
        names = list(knobs)
    elif isinstance(part.knobs, list):
        names = part.knobs
    else:
        problems.add(where, f"{part.knobs!r} should be a list of deployment knobs, or all")
        return set()
    if not names:
        problems.add(where, "there is nothing to solve; name deployment knobs, or leave solve out")
    for position, name in enumerate(names):
        with problems.at((*where, position)):
            find(str(name), "deployment")
            if name not in knobs:
                raise SpaceError(
                    f"{name} is not among the deployment knobs of this study; give it choices "
                    f"under deployment.knobs; {suggestion(str(name), knobs)}"
                )
    return {str(name) for name in names}


def _solve(
    part: SolvePart, knobs: tuple[Knob, ...], kind: str, path: Path, problems: Problems
) -> SolveSpec | None:
    given = {d: m for d, m in (("maximize", part.maximize), ("minimize", part.minimize)) if m}
    objective: Objective | None = None
    if len(given) != 1:
        problems.add(path, "solve names one metric to follow: maximize or minimize")
    else:
        ((direction, _),) = given.items()
        with problems.at((*path, direction)):
            objective = parse_objective(given, portfolio=False)
            check_metric(objective.metric, kind)
    limits = []
    for position, text in enumerate(part.limits):
        with problems.at((*path, "limits", position)):
            limit = parse_constraint(text)
            check_metric(limit.numerator, kind)
            if limit.divisor is not None:
                check_metric(limit.divisor, kind)
            limits.append(limit)
    return SolveSpec(knobs, objective, tuple(limits)) if objective else None


def _positive(raw: object, unit: str, what: str) -> float:
    number = parse_quantity(raw, unit, what)
    if number <= 0:
        raise SpaceError(f"{what}: {raw} should be above 0")
    return number
