"""The only entry that scores a candidate: knob-index rows of a study in, scores out."""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.metrics import metrics
from dse.score import Score
from dse.scoring import portfolio
from dse.scoring.assignment import Assignment, build, reference_row
from dse.scoring.batch import REASON_CODES, BatchResult
from dse.scoring.cache import enable_compilation_cache
from dse.scoring.explain import operators
from dse.scoring.feasibility import DRAWS, SEED, outcomes, probabilities
from dse.scoring.repair import nearest_legal
from dse.scoring.shortlist import shortlist
from dse.scoring.solve import Solved, solve
from dse.scoring.uncertainty import cases
from dse.spec import SolveSpec, StudySpec
from dse.spec.load import LIST_PRICES
from dse.spec.study import TILE
from dse.validation.evidence import Case
from hwmodel import theta
from models.legality import REASONS
from search_spaces.space import Space

Indices = NDArray[np.int32]
Outcomes = tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]

ROWS_PER_CALL = 40_960
"""Mappings evaluated per call of `Scorer.score`, about: a tenth of a second of work."""

REGRET_DESIGNS = 512
"""Designs of the seeded sweep that sets each assignment's own best for `worst_regret`."""

TILE_CANDIDATES_PER_CALL = 8
"""Candidates of one call at the tile rung, about half a second of work."""

TILE_REGRET_DESIGNS = 64
"""`REGRET_DESIGNS` at the tile rung."""

_REPAIR_MAPPINGS = 8


class Scorer:
    """Scores candidates of one study at its fidelity (see `dse.score.Scorer`)."""

    def __init__(self, study: StudySpec) -> None:
        enable_compilation_cache()
        self._study = study
        self._assignments = [build(study, spec) for spec in study.assignments]
        self._space = study.space()
        self._own_best: dict[str, list[float]] = {}
        self._drawn: dict[tuple[bytes, ...], list[Outcomes]] = {}
        mappings = max(len(a.grid) for a in self._assignments)
        self.chunk = max(1, min(ROWS_PER_CALL // mappings, study.search.population // 2, 512))
        if study.fidelity == TILE:
            self.chunk = min(self.chunk, TILE_CANDIDATES_PER_CALL)
        self.version = model_version()
        if study.is_portfolio:
            self._own_best = self._sweep_own_best()

    def score(self, indices: Indices) -> list[Score]:
        """Scores of int32[n, knobs] rows, in order."""
        rows = np.asarray(indices, np.int32)
        parts = [self._score_assignment(a, rows) for a in self._assignments]
        return [self._combined([part[i] for part in parts]) for i in range(len(rows))]

    def reference_scores(self) -> list[tuple[str, Score]]:
        """The base chip as it is, serving the released models at their best mapping."""
        row = reference_row(self._study)[None, :]
        parts = []
        for a in self._assignments:
            rows, solve_spec = self._all_deployments(a, row[0])
            parts.append(self._scores(a, rows, 1, solve_spec, as_it_is=True)[0])
        return [(self._reference_name, self._combined(parts))]

    @property
    def _reference_name(self) -> str:
        return f"{self._study.chip_base} as it is"

    def feasibility(
        self, indices: Indices, deployments: Sequence[Mapping[str, str]]
    ) -> list[dict[str, float]]:
        """Probability that each constraint holds, for candidates at the mappings given.

        indices: int32[n, knobs]. deployments: labels of the solved knobs, n of them. Each dict has
        the constraints' texts, `legality` and `joint`; see `dse.scoring.feasibility`.
        """
        return self._probabilities(self._full(indices, deployments)) if len(indices) else []

    def uncertainty(self, indices: Indices, deployments: Sequence[Mapping[str, str]]) -> list[Case]:
        """What the intervals of candidates depend on; arguments as in `feasibility`."""
        return self._cases(self._full(indices, deployments)) if len(indices) else []

    def reference_uncertainty(self) -> dict[str, Case]:
        """The same for each of `reference_scores`, by name."""
        return {self._reference_name: self._cases(self._reference_rows())[0]}

    def _full(self, indices: Indices, deployments: Sequence[Mapping[str, str]]) -> list[Indices]:
        """The full rows of each assignment, sampled knobs and then solved ones."""
        rows = np.asarray(indices, np.int32)
        solved = [
            [[k.index(labels[k.name]) for k in a.spec.solved_knobs] for labels in deployments]
            for a in self._assignments
        ]
        tails = [np.array(t, np.int32).reshape(len(rows), -1) for t in solved]
        return [np.concatenate([rows, tail], axis=1) for tail in tails]

    def reference_feasibility(self) -> dict[str, dict[str, float]]:
        """The same for each of `reference_scores`, by name."""
        return {self._reference_name: self._probabilities(self._reference_rows())[0]}

    def explain_reference(self, name: str) -> list[dict[str, Any]]:
        """Operators of one of `reference_scores`, as `explain`."""
        if name != self._reference_name:
            raise KeyError(name)
        pairs = zip(self._assignments, self._reference_rows(), strict=True)
        return [op for a, full in pairs for op in operators(a, full[0])]

    def _reference_rows(self) -> list[Indices]:
        """The full row, [1, all knobs], of the base chip as it is in each assignment."""
        row = reference_row(self._study)
        chosen = []
        for a in self._assignments:
            rows, solve_spec = self._all_deployments(a, row)
            rows, result = self._scored(a, rows, 1, solve_spec)
            columns, worst = _columns(a, result.metrics, 1), result.worst.reshape(1, -1)
            best = self._choose(solve_spec, columns, worst, 0).best
            chosen.append(rows[best : best + 1])
        return chosen

    def _probabilities(self, rows: Sequence[Indices]) -> list[dict[str, float]]:
        """From the full rows of each assignment."""
        return probabilities(self._outcomes(rows), self._study.constraints)

    def _cases(self, rows: Sequence[Indices]) -> list[Case]:
        """From the full rows of each assignment."""
        draws = [metrics for metrics, _ in self._outcomes(rows)]
        return cases(self._study, self._assignments, rows, draws)

    def _outcomes(self, rows: Sequence[Indices]) -> list[Outcomes]:
        """The full rows of each assignment under paired draws. Those of the front and of the known
        chip are kept: probabilities and intervals are asked for one after the other."""
        constants = theta.draws(DRAWS, SEED)
        key = (*(full.tobytes() for full in rows), *(c.tobytes() for c in constants.values()))
        if key not in self._drawn:
            if len(self._drawn) > 1:
                self._drawn.clear()
            self._drawn[key] = [
                outcomes(a.final, self._study.chip_base, full)
                for a, full in zip(self._assignments, rows, strict=True)
            ]
        return self._drawn[key]

    def first_rows(self) -> Indices:
        """The base chip's own row where every chip and model knob has that setting, else none."""
        row = np.zeros(len(self._space.knobs), np.int32)
        references = reference_row(self._study)
        for column, knob in enumerate(self._space.knobs):
            if knob.section not in ("chip", "model"):
                continue
            owner = next(a for a in self._assignments if knob.assignment in ("", a.spec.name))
            wanted = owner.space.knobs[column].choices[references[column]].fields
            same = [i for i, c in enumerate(knob.choices) if _same(c.fields, wanted)]
            if not same:
                return np.zeros((0, len(self._space.knobs)), np.int32)
            row[column] = same[0]
        return self._space.canonical(row[None, :])

    def explain(self, indices: Indices, deployment: Mapping[str, str]) -> list[dict[str, Any]]:
        """Operators of one candidate, int32[knobs], at the labels of its solved knobs."""
        row = np.asarray(indices, np.int32)
        rows: list[dict[str, Any]] = []
        for a in self._assignments:
            tail = [knob.index(deployment[knob.name]) for knob in a.spec.solved_knobs]
            full = np.concatenate([row, np.array(tail, np.int32)])
            rows += operators(a, full)
        return rows

    def _score_assignment(self, a: Assignment, rows: Indices) -> list[Score]:
        full = _product(rows, a.grid)
        return self._scores(a, full, len(rows), a.spec.solve)

    def _scored(
        self, a: Assignment, full: Indices, n: int, solve_spec: SolveSpec | None
    ) -> tuple[Indices, BatchResult]:
        """Rows [n * G, all knobs] and their results at the study's fidelity; at the tile rung of
        the few mappings of each of the n candidates that the analytical rung ranks best."""
        result = a.evaluator(full)
        if a.final is a.evaluator:
            return full, result
        columns, worst = _columns(a, result.metrics, n), result.worst.reshape(n, -1)
        per = full.reshape(n, -1, full.shape[1])
        picked = [
            shortlist(solve_spec, {name: c[i] for name, c in columns.items()}, worst[i])
            for i in range(n)
        ]
        count = max(len(p) for p in picked)  # repeated where fewer are legal
        few = np.concatenate([per[i, np.resize(p, count)] for i, p in enumerate(picked)])
        return few, a.final(few)

    def _choose(
        self,
        solve_spec: SolveSpec | None,
        columns: Mapping[str, NDArray[np.float64]],
        worst: NDArray[np.float64],
        i: int,
    ) -> Solved:
        own = {name: column[i] for name, column in columns.items()}
        return solve(solve_spec, own, worst[i], self._study.objectives, self._study.constraints)

    def _scores(
        self,
        a: Assignment,
        full: Indices,
        n: int,
        solve_spec: SolveSpec | None,
        as_it_is: bool = False,
    ) -> list[Score]:
        """Scores of n candidates from all their mappings, `full` [n * G, all knobs]."""
        full, result = self._scored(a, full, n, solve_spec)
        columns, worst = _columns(a, result.metrics, n), result.worst.reshape(n, -1)
        reason = result.reason.reshape(n, -1)
        per = full.reshape(n, -1, full.shape[1])
        scores = []
        for i in range(n):
            solved = self._choose(solve_spec, columns, worst, i)
            chosen = self._metrics(columns, i, solved.best, as_it_is)
            labels = self._solved_labels(a, per[i, solved.best])
            if solved.status == "illegal":
                code = REASON_CODES[reason[i, solved.best]]
                scores.append(
                    Score(
                        legal=False,
                        reason=code,
                        explanation=_explanation(code, solved.violation, bool(labels)),
                        repair=self._repair(a, per[i], worst[i]),
                        violation=solved.violation,
                        solved=labels,
                    )
                )
            elif solved.status == "limits":
                scores.append(
                    Score(
                        legal=False,
                        reason="solve_limits",
                        explanation=(
                            "no mapping meets the solve limits; closest is "
                            f"{solved.blocking} missed by {solved.violation:.0%}"
                        ),
                        repair=f"relax {solved.blocking}, or widen the solved knobs",
                        violation=solved.violation,
                        solved=labels,
                        metrics=chosen,
                    )
                )
            else:
                kept = tuple(
                    {
                        "deployment": self._solved_labels(a, per[i, k]),
                        "metrics": self._metrics(columns, i, k, as_it_is),
                    }
                    for k in solved.kept
                )
                scores.append(Score(metrics=chosen, solved=labels, mappings=kept))
        return scores

    def _metrics(
        self,
        columns: Mapping[str, NDArray[np.float64]],
        i: int,
        k: int,
        as_it_is: bool,
    ) -> dict[str, float]:
        """All finite metrics of one mapping, objectives and constraint quotients included."""
        values = {name: float(column[i, k]) for name, column in columns.items()}
        if not self._study.is_portfolio:
            for constraint in self._study.constraints:
                values.setdefault(constraint.metric, float(constraint.value(values)))
        if not as_it_is and self._invents_chips:
            for metric in LIST_PRICES:
                values.pop(metric, None)
        # A chip without a list price has no price per token; a metric that is not there is not NaN.
        return {name: value for name, value in values.items() if not np.isnan(value)}

    @property
    def _invents_chips(self) -> bool:
        """Whether candidates have other chips than the base, for which its list price means
        nothing."""
        return any(len(knob.choices) > 1 for knob in self._study.chip_knobs)

    def _solved_labels(self, a: Assignment, full_row: Indices) -> dict[str, str]:
        """Labels of the deployment knobs that the solver set."""
        sampled = len(self._space.knobs)
        tail = zip(a.space.knobs[sampled:], full_row[sampled:], strict=True)
        return {knob.name: knob.choices[int(index)].label for knob, index in tail}

    def _repair(self, a: Assignment, full: Indices, worst: NDArray[np.float64]) -> str:
        """The nearest change of the study's knobs, with the closest mappings tried for each."""
        mappings = full[np.argsort(worst, kind="stable")[:_REPAIR_MAPPINGS]]
        own = [k for k in self._space.knobs if k.assignment in ("", a.spec.name)]
        columns = [self._space.names.index(k.name) for k in own]
        if any(full[0, c] >= len(self._space.knobs[c].choices) for c in columns):
            return ""  # the base chip itself: nothing of it is varied
        space = Space(tuple(own))

        def violation(changed: Indices) -> NDArray[np.float64]:
            rows = np.repeat(mappings[None], len(changed), axis=0)
            rows[:, :, columns] = changed[:, None, :]
            flat = rows.reshape(-1, full.shape[1])
            amounts: NDArray[np.float64] = a.evaluator(flat).worst.reshape(len(changed), -1)
            return amounts.min(axis=1)

        return nearest_legal(space, full[0, columns], violation)

    def _combined(self, parts: Sequence[Score]) -> Score:
        """One score from those of the assignments."""
        if not self._study.is_portfolio:
            return parts[0]
        names = [a.spec.name for a in self._assignments]
        solved = {k: v for part in parts for k, v in part.solved.items()}
        for name, part in zip(names, parts, strict=True):
            if not part.legal:
                return Score(
                    legal=False,
                    reason=part.reason,
                    explanation=f"{name}: {part.explanation}",
                    repair=part.repair,
                    violation=part.violation,
                    solved=solved,
                )
        own_best = self._own_best or {
            o.metric: [part.metrics[o.metric] for part in parts] for o in self._study.objectives
        }
        combined = portfolio.combine(
            names,
            [a.spec.weight for a in self._assignments],
            [part.metrics for part in parts],
            self._study.objectives,
            self._study.constraints,
            own_best,
        )
        return Score(metrics=combined, solved=solved)

    def _sweep_own_best(self) -> dict[str, list[float]]:
        """Best value of each regret metric for each assignment alone, over a seeded sweep.

        Every assignment is scored on the same `REGRET_DESIGNS` sampled designs, then improved by
        steepest ascent over single-knob changes, within the study's constraints.
        """
        regrets = [o for o in self._study.objectives if o.aggregate == "worst_regret"]
        best: dict[str, list[float]] = {}
        for objective in regrets:
            sign = 1.0 if metrics()[objective.metric].better == "higher" else -1.0
            best[objective.metric] = [
                sign * self._ascend(a, objective.metric, sign) for a in self._assignments
            ]
        return best

    def _ascend(self, a: Assignment, metric: str, sign: float) -> float:
        designs = TILE_REGRET_DESIGNS if self._study.fidelity == TILE else REGRET_DESIGNS
        rows = self._space.sample(designs, self._study.search.seed)
        values = self._own_values(a, rows, metric, sign)
        top = int(np.argmax(values))
        row, value = rows[top], float(values[top])
        while True:
            neighbours = self._space.neighbours(row)
            values = self._own_values(a, neighbours, metric, sign)
            step = int(np.argmax(values)) if len(values) else 0
            if not len(values) or values[step] <= value:
                return value
            row, value = neighbours[step], float(values[step])

    def _own_values(
        self, a: Assignment, rows: Indices, metric: str, sign: float
    ) -> NDArray[np.float64]:
        out = np.full(len(rows), -np.inf)
        for start in range(0, len(rows), self.chunk):
            piece = rows[start : start + self.chunk]
            _, result = self._scored(a, _product(piece, a.grid), len(piece), a.spec.solve)
            columns = _columns(a, result.metrics, len(piece))
            worst = result.worst.reshape(len(piece), -1)
            for i in range(len(piece)):
                solved = self._choose(a.spec.solve, columns, worst, i)
                own = {name: column[i, solved.best] for name, column in columns.items()}
                met = all(c.violation(c.value(own)) <= 0 for c in self._study.constraints)
                if solved.status == "ok" and met:
                    out[start + i] = sign * own[metric]
        return out

    def _all_deployments(self, a: Assignment, row: Indices) -> tuple[Indices, SolveSpec | None]:
        """The reference row under every sampled and solved deployment, and what to choose by."""
        deployment = a.spec.deployment_knobs_sampled
        sampled = Space(deployment).grid()
        rows = np.repeat(row[None, :], len(sampled), axis=0)
        for column, knob in enumerate(deployment):
            rows[:, self._space.names.index(knob.name)] = sampled[:, column]
        objective = next(
            o for o in self._study.objectives if metrics()[o.metric].scope == "assignment"
        )
        chosen_by = a.spec.solve or SolveSpec(a.spec.solved_knobs, objective, ())
        return _product(rows, a.grid), chosen_by


def _product(rows: Indices, grid: Indices) -> Indices:
    """Every row with every mapping: [n, K] and [G, S] to [n * G, K + S]."""
    repeated = np.repeat(rows, len(grid), axis=0)
    return np.concatenate([repeated, np.tile(grid, (len(rows), 1))], axis=1)


def _columns(a: Assignment, values: NDArray[np.float64], n: int) -> dict[str, NDArray[np.float64]]:
    """Metrics [M, n * G] as arrays [n, G] by name."""
    return {name: values[i].reshape(n, -1) for i, name in enumerate(a.evaluator.metrics)}


def _same(fields: Mapping[str, float], wanted: Mapping[str, float]) -> bool:
    """Whether a choice is the base chip's setting; chips are published in rounded totals (v6e: 1638
    GB/s over two stacks of 819.2)."""
    return all(math.isclose(fields[f], wanted[f], rel_tol=0.01) for f in wanted)


def _explanation(code: str, violation: float, solved: bool) -> str:
    where = " in every mapping; in the closest by" if solved else " by"
    amount = f" ({where.strip()} {violation:.0%})" if violation < 1e6 and violation != 1.0 else ""
    return f"{REASONS[code]}{amount}"


@functools.cache
def model_version() -> str:
    """Hash of everything that decides a score: equations, constants, chip and knob data."""
    digest = hashlib.sha256()
    for package in ("hwmodel", "models", "search_spaces", "dse"):
        for path in _files(resources.files(package)):
            inside = "/".join(path)
            if package == "dse" and not inside.startswith(("scoring/", "evaluate.py")):
                continue
            if package == "hwmodel" and path[0] == "calibration":
                continue  # measurements, their errors and the host time of software: no score
            digest.update(f"{package}/{inside}".encode())
            digest.update(_deciding(package, path))
    return digest.hexdigest()[:12]


def _deciding(package: str, path: tuple[str, ...]) -> bytes:
    """A file without what decides no score: what was believed of a constant before its fit."""
    content: bytes = resources.files(package).joinpath(*path).read_bytes()
    if (package, *path) != ("hwmodel", "data", "theta_fitted.yaml"):
        return content
    import yaml

    entries = yaml.safe_load(content)
    values = {k: {n: v for n, v in e.items() if n != "prior"} for k, e in entries.items()}
    return json.dumps(values, sort_keys=True).encode()


def _files(folder: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for item in sorted(folder.iterdir(), key=lambda i: i.name):
        here = (*above, item.name)
        if item.is_dir() and item.name not in ("__pycache__", "catalog" if not above else ""):
            found += _files(item, here)
        elif item.name.endswith((".py", ".yaml", ".csv")):
            found.append(here)
    return found
