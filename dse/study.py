"""The study loop: ask a generation, evaluate what is new, tell it in order, save it.

Everything asked is a function of the seed and of the trials told before, everything told is a
function of what was asked, and a generation is saved as one record. So the same study file gives
the same trials for any executor and any number of workers, and an interrupted study that is run
again continues to exactly the trials it would have had.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dse import samplers
from dse.errors import EvaluationError
from dse.executors.base import Batch, Chunk, Executor
from dse.pareto import Tracker
from dse.progress import Progress, Snapshot
from dse.storage import Log, Writer
from dse.trials import (
    Constraint,
    Evaluated,
    Generation,
    Objective,
    Trial,
    judge,
    objective_values,
    told_constraints,
)

if TYPE_CHECKING:
    import optuna


class SearchSettings(Protocol):
    """What a study file says about the search."""

    @property
    def sampler(self) -> str:
        """Name of the sampler."""
        ...

    @property
    def trials(self) -> int:
        """Trials wanted."""
        ...

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        ...

    @property
    def population(self) -> int:
        """Trials of one generation."""
        ...


class SearchSpace(Protocol):
    """The part of `search_spaces.space.Space` that a search needs."""

    @property
    def names(self) -> Sequence[str]:
        """Knob names, in column order."""
        ...

    @property
    def cardinalities(self) -> Sequence[int]:
        """Choices of each knob."""
        ...

    def canonical(self, indices: Any) -> np.ndarray:
        """Canonical rows, int32[n, knobs]."""
        ...

    def design_ids(self, indices: Any) -> np.ndarray:
        """Canonical design number of each row."""
        ...

    def labels(self, row: Any) -> dict[str, str]:
        """Labels of one row by knob."""
        ...


@dataclass(frozen=True)
class Problem:
    """What is searched: the parts of a study that the loop works with."""

    space: SearchSpace
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    search: SearchSettings


class Loop:
    """One run of a study, continuing whatever `log` holds.

    chunk: rows scored per call, fixed so that scores never depend on the number of workers.
    first_rows: int32[n, knobs] to try before anything is sampled.
    """

    def __init__(
        self,
        problem: Problem,
        log: Log,
        writer: Writer,
        executor: Executor,
        chunk: int,
        first_rows: np.ndarray,
        progress: Progress,
    ) -> None:
        self._problem = problem
        self._writer = writer
        self._executor = executor
        self._chunk = chunk
        self._first_rows = first_rows
        self._progress = progress
        self._population = problem.search.population
        self._texts = [constraint.text for constraint in problem.constraints]
        finished = _whole_generations(log.generations, self._population)
        self.generations: list[Generation] = []
        self._cache: dict[str, Evaluated] = {}
        self._spare = dict(log.evaluated)
        self._worst: np.ndarray | None = None
        self._tracker = Tracker([o.direction for o in problem.objectives])
        self._study = _new_study(problem)
        for generation in finished:
            self._replay(generation)
        samplers.restore_parents(self._study, map(self._sampler, range(len(finished))))
        self._seconds_before = sum(generation.wall_s for generation in finished)
        self._done_before = self.done

    @property
    def done(self) -> int:
        """Trials told."""
        return sum(len(generation.trials) for generation in self.generations)

    def run(self, stop: threading.Event) -> bool:
        """Work until all trials are told (True) or `stop` is set (False)."""
        total = self._problem.search.trials
        self._progress.start(self._snapshot())
        while self.done < total:
            index = len(self.generations)
            size = min(self._population, total - self.done)
            generation = None if stop.is_set() else self._generation(index, size, stop)
            if generation is None:
                return False
            self._writer.generation(generation)
            self._remember(generation)
            self._progress.update(self._snapshot())
        return True

    def _generation(self, index: int, size: int, stop: threading.Event) -> Generation | None:
        """Ask, evaluate and tell one generation; None when stopped before all was evaluated."""
        began = time.perf_counter()
        asked = self._ask(index, size)
        ask_s = time.perf_counter() - began
        rows = self._problem.space.canonical(np.array([row for _, row in asked], dtype=np.int32))
        designs = [str(number) for number in self._problem.space.design_ids(rows)]
        found = self._evaluate(designs, rows, stop)
        if found is None:
            return None
        began_tell = time.perf_counter()
        trials = self._tell(index, asked, [found[design] for design in designs])
        ask_s += time.perf_counter() - began_tell
        return Generation(index, trials, ask_s, time.perf_counter() - began)

    def _ask(self, index: int, size: int) -> list[tuple[optuna.Trial, list[int]]]:
        """`size` trials and their knob indices; fixed rows come first."""
        space, search = self._problem.space, self._problem.search
        self._study.sampler = self._sampler(index)
        distributions = samplers.distributions(space.names, space.cardinalities)
        fixed = [dict(zip(space.names, map(int, row), strict=True)) for row in self._fixed(index)]
        asked = []
        for position in range(size):
            row = fixed[position] if position < len(fixed) else {}
            pinned = {name: row[name] for name in distributions if row}
            self._study.add_trial(samplers.waiting(search.sampler, index, pinned))
            trial = self._study.ask()
            picked = {
                name: trial.suggest_int(name, 0, space.cardinalities[column] - 1)
                for column, name in enumerate(space.names)
                if name in distributions
            }
            asked.append((trial, [picked.get(name, 0) for name in space.names]))
        return asked

    def _fixed(self, index: int) -> np.ndarray:
        """Rows that this generation begins with and no sampler is asked for, int32[n, knobs]."""
        search, first = self._problem.search, index * self._population
        rows = samplers.planned_rows(
            search.sampler,
            search.seed,
            first,
            self._population,
            self._problem.space.cardinalities,
        )
        return np.concatenate([self._first_rows, rows]) if index == 0 else rows

    def _evaluate(
        self, designs: Sequence[str], rows: np.ndarray, stop: threading.Event
    ) -> dict[str, Evaluated] | None:
        """Every design of a generation: from the cache, from an interrupted run, or scored now."""
        found = {design: self._cache[design] for design in designs if design in self._cache}
        fresh = {d: row for d, row in zip(designs, rows, strict=True) if d not in found}
        names = list(fresh)
        pieces = [names[i : i + self._chunk] for i in range(0, len(names), self._chunk)]
        found.update({design: self._spare[design] for design in names if design in self._spare})
        missing = [[design for design in piece if design not in found] for piece in pieces]
        work = [piece for piece in missing if piece]
        chunks = tuple(
            Chunk(i, np.array([fresh[design] for design in piece], dtype=np.int32))
            for i, piece in enumerate(work)
        )
        failed: list[Evaluated] = []
        batch = Batch(chunks, self._generations_left())
        for result in self._executor.evaluate(batch, stop):
            judged = [
                judge(
                    design,
                    self._problem.space.labels(fresh[design]),
                    score,
                    self._problem.objectives,
                    self._problem.constraints,
                    attempts,
                )
                for design, score, attempts in zip(
                    work[result.index], result.scores, result.attempts, strict=True
                )
            ]
            found.update({row.design: row for row in judged})
            # A failure is saved only once its generation is told: an interrupted run retries it.
            failed += [row for row in judged if row.score.failed]
            self._writer.scores([row for row in judged if not row.score.failed], result.seconds)
        if any(design not in found for design in names):
            return None
        _refuse_all_failed(failed, sum(map(len, work)))
        if failed:
            self._writer.scores(failed, 0.0)
        return found

    def _tell(
        self,
        index: int,
        asked: Sequence[tuple[optuna.Trial, list[int]]],
        evaluated: Sequence[Evaluated],
    ) -> tuple[Trial, ...]:
        """Tell a generation in trial order.

        An illegal candidate has no objective values, and NaN would drop it from the population. It
        is told the worst value seen so far in each objective (0 before any): samplers that obey
        feasibility first never compare that number with a legal candidate's, the others see a bad
        design. One whose evaluation failed is told as failed.
        """
        import optuna

        values = [objective_values(e.score.metrics, self._problem.objectives) for e in evaluated]
        legal = [v for v, e in zip(values, evaluated, strict=True) if v and e.score.legal]
        self._worsen(legal)
        width = len(self._problem.objectives)
        worst = tuple(map(float, self._worst)) if self._worst is not None else (0.0,) * width
        trials, seen = [], set(self._cache)
        for (trial, row), own, item in zip(asked, values, evaluated, strict=True):
            told = own if own and item.score.legal else worst
            for key, violation in told_constraints(item, self._texts).items():
                trial.set_constraint(key, violation)
            if item.score.failed:
                self._study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                self._study.tell(trial, told)
            trials.append(
                Trial(
                    number=trial.number,
                    generation=index,
                    indices=tuple(row),
                    values=told,
                    complete=not item.score.failed,
                    cached=item.design in seen,
                    evaluated=item,
                )
            )
            seen.add(item.design)
        return tuple(trials)

    def _replay(self, generation: Generation) -> None:
        """Put a saved generation back into the sampler's study, and remember it."""
        import optuna

        search, space = self._problem.search, self._problem.space
        distributions = samplers.distributions(space.names, space.cardinalities)
        states = optuna.trial.TrialState
        for trial in generation.trials:
            picked = dict(zip(space.names, trial.indices, strict=True))
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=states.COMPLETE if trial.complete else states.FAIL,
                    values=trial.values if trial.complete else None,
                    params={name: picked[name] for name in distributions},
                    distributions=distributions,
                    constraints=told_constraints(trial.evaluated, self._texts),
                    system_attrs=samplers.system_attributes(search.sampler, generation.index),
                )
            )
        self._worsen([t.values for t in generation.trials if t.evaluated.score.legal])
        self._remember(generation)

    def _remember(self, generation: Generation) -> None:
        self.generations.append(generation)
        for trial in generation.trials:
            self._cache[trial.evaluated.design] = trial.evaluated
            self._spare.pop(trial.evaluated.design, None)
        legal = [trial for trial in generation.trials if trial.evaluated.score.legal]
        shape = (len(legal), len(self._problem.objectives))
        self._tracker.add(
            np.array([trial.values for trial in legal]).reshape(shape),
            np.array([trial.feasible for trial in legal], dtype=bool),
        )

    def _worsen(self, values: Iterable[tuple[float, ...]]) -> None:
        rows = np.array(list(values)).reshape(-1, len(self._problem.objectives))
        if self._worst is not None:
            rows = np.vstack([rows, self._worst])
        if len(rows):
            maximize = np.array([o.direction == "maximize" for o in self._problem.objectives])
            self._worst = np.where(maximize, rows.min(axis=0), rows.max(axis=0))

    def _sampler(self, generation: int) -> optuna.samplers.BaseSampler:
        search = self._problem.search
        return samplers.make(search.sampler, search.seed, generation, self._population)

    def _generations_left(self) -> int:
        left = self._problem.search.trials - self.done
        return max(0, -(-left // self._population) - 1)

    def _snapshot(self) -> Snapshot:
        trials = [trial for generation in self.generations for trial in generation.trials]
        wall_s = sum(generation.wall_s for generation in self.generations)
        return Snapshot(
            done=len(trials),
            total=self._problem.search.trials,
            done_now=len(trials) - self._done_before,
            unique=len(self._cache),
            feasible=sum(trial.feasible for trial in trials),
            hypervolume=self._tracker.hypervolume,
            front=self._tracker.front_size,
            ask_s=sum(generation.ask_s for generation in self.generations),
            wall_s=wall_s,
            wall_now_s=wall_s - self._seconds_before,
            executor=self._executor.describe(),
        )


def _new_study(problem: Problem) -> optuna.Study:
    import optuna

    search = problem.search
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.create_study(
            directions=samplers.directions([o.direction for o in problem.objectives]),
            sampler=samplers.make(search.sampler, search.seed, 0, search.population),
        )
    finally:
        optuna.logging.set_verbosity(verbosity)


def _whole_generations(generations: Sequence[Generation], population: int) -> Sequence[Generation]:
    """All but a short last generation: it is asked again in full, from evaluated designs, so that a
    study whose number of trials was raised equals one that had that number from the start."""
    if generations and len(generations[-1].trials) < population:
        return generations[:-1]
    return generations


def _refuse_all_failed(failed: Sequence[Evaluated], scored: int) -> None:
    """Raise EvaluationError when nothing could be scored: the model is broken, not the designs."""
    if scored >= 2 and len(failed) == scored:
        raise EvaluationError(
            f"none of the {scored} candidates of a generation could be evaluated; the first: "
            f"{failed[0].score.reason}, {failed[0].score.explanation}"
        )
