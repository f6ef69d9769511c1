"""Read a study file into a StudySpec, or say everything that is wrong with it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from dse.spec.assignments import ASSIGNMENT_NAME, read_assignment
from dse.spec.expressions import (
    Constraint,
    Objective,
    parse_constraint,
    parse_objective,
)
from dse.spec.knobs import read_knobs
from dse.spec.problems import Problem, Problems, SpecError
from dse.spec.quality import check_priced
from dse.spec.schema import AssignmentPart, StudyPart, read
from dse.spec.study import TILE, AssignmentSpec, SearchSpec, StudySpec
from dse.spec.text import YamlError, parse
from dse.spec.workloads import check_metric, kind_of
from search_spaces.knob import Knob
from search_spaces.nearest import nearest

if TYPE_CHECKING:
    from hwmodel.chip import Chip

LIST_PRICES = {
    "usd_per_mtoken_list": "usd_per_mtoken",
    "train_usd_per_mtoken_list": "train_usd_per_mtoken",
}
"""Metrics at list price, each with the modelled cost that any chip has."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}")


def load(path: str | PathLike[str]) -> StudySpec:
    """The study at `path`. Raises SpecError, whose text is for the user, for whatever is wrong."""
    file = FilePath(path)
    return read_text(_read(file), file)


def read_text(text: str, path: FilePath) -> StudySpec:
    """The study that `text` states, as if read from `path`; raises SpecError as `load` does."""
    try:
        document = parse(text, str(path))
    except YamlError as error:
        raise SpecError(str(path), [Problem(error.line, "", str(error))]) from None
    problems = Problems(document)
    part = read(document, problems)
    problems.raise_any()
    assert part is not None  # `read` records a problem wherever it returns None
    spec = _build(part, text, path, problems)
    problems.raise_any()
    assert spec is not None
    return spec


def _read(path: FilePath) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        message = "there is no such study file"
        folder = path.parent
        if folder.is_dir():
            found = nearest(path.name, [f.name for f in folder.iterdir() if f.suffix == ".yaml"])
            message += f"; did you mean {str(folder / found)!r}?" if found else ""
        else:
            message += f"; the folder {str(folder)!r} does not exist"
    except UnicodeDecodeError:
        message = "the file is not UTF-8 text"
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}"
    raise SpecError(str(path), [Problem(None, "", message)])


def _build(part: StudyPart, text: str, path: FilePath, problems: Problems) -> StudySpec | None:
    base, chip = _chip(part.chip.base, problems)
    chip_knobs = read_knobs(part.chip.knobs, "chip", ("chip", "knobs"), problems)
    portfolio = part.portfolio is not None
    assignments = _assignments(part, path.parent, problems)
    kind = _kind(assignments, problems)
    objectives = _objectives(part, portfolio, kind, problems)
    constraints = _constraints(part, kind, problems)
    if chip is not None:
        _check_fidelity(part.fidelity, base, chip, assignments, problems)
        _check_list_price(base, chip, chip_knobs, objectives, constraints, problems)
    check_priced(assignments, objectives, constraints, problems)
    _check_name(part.name, problems)
    if problems.any:
        return None
    spec = StudySpec(
        name=path.stem if part.name is None else part.name,
        question=part.question or "",
        path=path,
        text=text,
        chip_base=base,
        chip_knobs=tuple(chip_knobs.values()),
        assignments=tuple(assignments),
        objectives=tuple(objectives),
        constraints=tuple(constraints),
        search=SearchSpec(**part.search.model_dump()),
        is_portfolio=portfolio,
        fidelity=part.fidelity,
    )
    _check_space(spec, problems)
    return spec


def _check_name(name: str | None, problems: Problems) -> None:
    """The name is that of a folder inside the results directory, and must stay inside."""
    if name is not None and not _NAME.fullmatch(name):
        problems.add(
            ("name",),
            f"{name[:60]!r} should be 1 to 100 letters, digits, spaces, '-', '_' and '.', starting "
            "with a letter or digit: results are kept in a folder of that name",
        )


def _chip(name: str, problems: Problems) -> tuple[str, Chip | None]:
    """Canonical name and numbers of the base chip."""
    from hwmodel.presets import ChipError, canonical, load

    with problems.at(("chip", "base"), ChipError):
        return canonical(name), load(name)
    return name, None


def _check_fidelity(
    fidelity: str, base: str, chip: Chip, assignments: list[AssignmentSpec], problems: Problems
) -> None:
    """The tile rung plays inference steps of chips whose matrix units stream rows."""
    if fidelity != TILE:
        return
    from models.workload import Training

    reasons = []
    if chip.mxu_row_tile > 0:
        reasons.append(f"{base}'s matrix units take fixed row tiles")
    if any(isinstance(a.workload, Training) for a in assignments):
        reasons.append("the workload trains")
    for reason in reasons:
        problems.add(
            ("fidelity",),
            f"the tile rung plays inference on TPUs, and {reason}; say fidelity: analytical",
        )


def _check_list_price(
    base: str,
    chip: Chip,
    knobs: Mapping[str, Knob],
    objectives: list[Objective],
    constraints: list[Constraint],
    problems: Problems,
) -> None:
    """A list price exists for a chip as sold, and says nothing about others."""
    used = [("objectives", i, o.metric) for i, o in enumerate(objectives)]
    used += [("constraints", i, c.numerator) for i, c in enumerate(constraints)]
    for key, i, metric in used:
        if metric not in LIST_PRICES:
            continue
        instead = f"say {LIST_PRICES[metric]}, the modelled cost"
        if math.isnan(chip.list_price_usd_per_hour):
            problems.add((key, i), f"{base} has no published price; {instead}")
        elif any(len(knob.choices) > 1 for knob in knobs.values()):
            problems.add(
                (key, i),
                f"the list price of {base} says nothing about the other chips of this study; "
                f"{instead}",
            )


def _assignments(part: StudyPart, folder: FilePath, problems: Problems) -> list[AssignmentSpec]:
    parts: list[tuple[AssignmentPart, tuple[str | int, ...]]] = []
    if part.portfolio is not None:
        for key in ("model", "workload", "deployment"):
            if key in part.model_fields_set:
                problems.add(
                    (key,), f"each member of the portfolio has its own {key}; move it there"
                )
        if not part.portfolio:
            problems.add(("portfolio",), "the portfolio is empty; list at least one model")
        parts = [(member, ("portfolio", i)) for i, member in enumerate(part.portfolio)]
        _check_names(part.portfolio, problems)
    elif part.model is None or part.workload is None:
        for key in ("model", "workload"):
            if getattr(part, key) is None:
                problems.add((), f"the key {key!r} is missing (or a portfolio in its place)")
    else:
        only = AssignmentPart(
            name="", model=part.model, workload=part.workload, deployment=part.deployment
        )
        parts = [(only, ())]
    found = [
        read_assignment(member, where, folder, problems, portfolio=part.portfolio is not None)
        for member, where in parts
    ]
    return [assignment for assignment in found if assignment is not None]


def _check_names(portfolio: list[AssignmentPart], problems: Problems) -> None:
    seen: set[str] = set()
    for i, member in enumerate(portfolio):
        where = ("portfolio", i, "name")
        if not ASSIGNMENT_NAME.fullmatch(member.name):
            problems.add(where, f"{member.name!r} should be letters, digits, '-' and '_' only")
        if member.name in seen:
            problems.add(where, f"the name {member.name!r} is used twice")
        seen.add(member.name)


def _kind(assignments: list[AssignmentSpec], problems: Problems) -> str | None:
    """What the study does, serve or train; None where that is not known."""
    kinds = [kind_of(a.workload) for a in assignments]
    if len(set(kinds)) > 1:
        other = next(i for i, kind in enumerate(kinds) if kind != kinds[0])
        problems.add(
            ("portfolio", other, "workload"),
            f"the portfolio's first member is to {kinds[0]} and this one to {kinds[other]}; they "
            "share no metric, so make two studies of them",
        )
    return kinds[0] if len(set(kinds)) == 1 else None


def _objectives(
    part: StudyPart, portfolio: bool, kind: str | None, problems: Problems
) -> list[Objective]:
    if not part.objectives:
        problems.add(("objectives",), "a study needs at least one objective")
    found: list[Objective] = []
    for position, raw in enumerate(part.objectives):
        with problems.at(("objectives", position)):
            objective = parse_objective(raw, portfolio)
            if kind is not None:
                check_metric(objective.metric, kind)
            if objective in found:
                problems.add(("objectives", position), f"{objective.text} is listed twice")
            found.append(objective)
    return found


def _constraints(part: StudyPart, kind: str | None, problems: Problems) -> list[Constraint]:
    found = []
    for position, raw in enumerate(part.constraints):
        with problems.at(("constraints", position)):
            constraint = parse_constraint(raw)
            for metric in (constraint.numerator, constraint.divisor):
                if kind is not None and metric is not None:
                    check_metric(metric, kind)
            found.append(constraint)
    return found


def _check_space(spec: StudySpec, problems: Problems) -> None:
    """Something must vary, unless one trial is all that is asked for or a mapping is solved."""
    solved = any(a.solve is not None for a in spec.assignments)
    if spec.space().size == 1 and spec.search.trials > 1 and not solved:
        problems.add(
            (),
            "the space is empty: no knob has more than one choice, so all "
            f"{spec.search.trials} trials would be the same; vary a knob under chip.knobs, "
            "model.knobs or deployment.knobs, or set search.trials to 1",
        )
