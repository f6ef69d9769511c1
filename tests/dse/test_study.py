"""The loop: the same study for any executor, any interruption, and never a design twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse import pareto, progress
from dse.errors import EvaluationError, UserError
from dse.executors.base import Batch, ChunkResult
from dse.executors.in_process import InProcess
from dse.results import Results
from dse.storage import LOG, Log, Store, Writer
from dse.study import Loop, Problem
from dse.testing import SPACE, FakeScorer, FakeSpec, Faults, Limit, Search, run_fake, true_front

SAMPLERS = ("nsga2", "nsga3", "tpe", "qmc")


def facts(results: Results) -> list[tuple[Any, ...]]:
    return [
        (t.number, t.generation, t.indices, t.values, t.complete, t.cached, t.evaluated)
        for t in results.log.trials
    ]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_seed_gives_a_study_and_another_seed_another(tmp_path: Path, sampler: str) -> None:
    size = {"trials": 30, "population": 10, "sampler": sampler}
    first = run_fake(tmp_path / "a", **size)
    assert facts(first) == facts(run_fake(tmp_path / "b", **size))
    assert facts(first) != facts(run_fake(tmp_path / "c", seed=8, **size))
    assert [t.number for t in first.log.trials] == list(range(30))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_killed_after_any_line_and_run_again_equals_uninterrupted(
    tmp_path: Path, sampler: str
) -> None:
    size = {"trials": 32, "population": 9, "sampler": sampler}
    whole = run_fake(tmp_path / "whole", **size)
    lines = (whole.store.directory / LOG).read_bytes().splitlines(keepends=True)
    for keep in range(0, len(lines), 3 if sampler == "nsga2" else 7):
        directory = tmp_path / f"{keep}"
        again = Store(directory / "results" / "fake")
        again.create(whole.meta, whole.store.study_text())
        (again.directory / LOG).write_bytes(b"".join(lines[:keep]) + lines[keep][:9])
        assert facts(run_fake(directory, **size)) == facts(whole)


def test_resuming_evaluates_only_what_was_not_saved(tmp_path: Path) -> None:
    whole = run_fake(tmp_path, trials=60, population=20)
    path = whole.store.directory / LOG
    lines = path.read_bytes().splitlines(keepends=True)
    kinds = [json.loads(line)["kind"] for line in lines]
    cut = len(kinds) - 1 - kinds[::-1].index("generation")
    path.write_bytes(b"".join(lines[:cut]))  # all scores of the last generation, but not the record
    resumed, scorer = _loop(whole.store, trials=60, population=20)
    assert resumed
    assert scorer.scored == []
    assert facts(Results(whole.store)) == facts(whole)


def test_no_design_is_scored_twice(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    finished, scorer = _loop(store, trials=400, population=30)
    assert finished
    assert len(scorer.scored) == len(set(scorer.scored))
    trials = store.read().trials
    designs = {t.evaluated.design for t in trials}
    assert len(designs) == len(scorer.scored) < len(trials)
    assert sum(t.cached for t in trials) == len(trials) - len(designs)


def test_inactive_knobs_do_not_make_new_designs(tmp_path: Path) -> None:
    trials = run_fake(tmp_path, trials=300, sampler="random").log.trials
    bits, packing = SPACE.names.index("bits"), SPACE.names.index("packing")
    wide = [t for t in trials if t.indices[bits] == 1]
    assert {t.indices[packing] for t in wide} == {0, 1, 2, 3}  # asked, but
    assert {t.evaluated.params["packing"] for t in wide} == {"1"}  # canonical


def test_raising_the_number_of_trials_equals_having_had_it(tmp_path: Path) -> None:
    run_fake(tmp_path / "a", trials=45, population=20)
    longer = run_fake(tmp_path / "a", trials=100, population=20)
    assert facts(longer) == facts(run_fake(tmp_path / "b", trials=100, population=20))


def test_a_finished_study_is_not_run_again(tmp_path: Path) -> None:
    first = run_fake(tmp_path, trials=30)
    before = (first.store.directory / LOG).read_bytes()
    # This scorer would fail: it must not be asked.
    run_fake(tmp_path, trials=30, faults=Faults(all_errors=True))
    assert (first.store.directory / LOG).read_bytes() == before


def test_search_quality_on_the_known_front(tmp_path: Path) -> None:
    spec = FakeSpec(tmp_path / "fake.yaml")
    found = run_fake(tmp_path, spec=spec, trials=800, population=50).front()
    truth = true_front(spec)
    scale = pareto.Scale.of(truth, [goal.direction for goal in spec.objectives])
    values = found[[goal.text for goal in spec.objectives]].to_numpy(dtype=float)
    assert 0.93 < scale.hypervolume(values) / scale.hypervolume(truth) <= 1.0


def test_first_rows_come_first_and_become_parents(tmp_path: Path) -> None:
    import optuna

    best = (0, 0, 0, 0, 4, 0, 3)
    loop = _new_loop(Store(tmp_path / "s"), FakeScorer(first=(best,)), trials=20, population=10)
    loop.run(threading.Event())
    loop._writer.close()
    assert loop.generations[0].trials[0].indices == best
    study = loop._study
    assert isinstance(study.sampler, optuna.samplers.NSGAIISampler)
    parents = study.sampler.get_parent_population(study, 1)
    assert 0 in [trial.number for trial in parents]


def test_illegal_trials_are_told_finite_worst_values_and_their_violation(tmp_path: Path) -> None:
    results = run_fake(tmp_path, trials=300, population=30)
    illegal = [t for t in results.log.trials if not t.evaluated.score.legal]
    assert illegal
    for trial in illegal:
        assert trial.complete and not trial.feasible
        assert all(np.isfinite(trial.values))
        assert trial.evaluated.violations["legality"] > 0
        assert trial.evaluated.score.reason == "vmem_overflow"
        assert set(trial.evaluated.constraints) == {"area_mm2 <= 300"}  # the only metric it has
        earlier = [t for t in results.log.trials if t.generation <= trial.generation]
        legal = np.array([t.values for t in earlier if t.evaluated.score.legal])
        worst = [legal[:, 0].min(), legal[:, 1].max(), legal[:, 2].max()]
        assert list(trial.values) == worst


def test_one_bad_design_fails_alone_and_nan_is_rejected(tmp_path: Path) -> None:
    clean = run_fake(tmp_path / "clean", trials=40, population=20).log.trials
    legal = [int(t.evaluated.design) for t in clean if t.evaluated.score.legal]
    faults = Faults(error=frozenset(legal[:1]), nan=frozenset(legal[1:2]))
    results = run_fake(tmp_path / "bad", trials=40, population=20, faults=faults)
    failed = {int(t.evaluated.design): t for t in results.log.trials if not t.complete}
    assert set(failed) == set(legal[:2])
    error, nan = failed[legal[0]].evaluated.score, failed[legal[1]].evaluated.score
    assert error.reason == "error" and "cannot take this design" in error.explanation
    assert nan.reason == "non_finite" and "nan for ops_per_s" in nan.explanation
    assert legal[0] not in results.front()["number"].tolist()
    log = (results.store.directory / "warnings.log").read_text()
    assert "Traceback" in log


def test_a_broken_model_stops_the_study_and_saves_no_failures(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="none of the 10 candidates"):
        run_fake(tmp_path, trials=20, population=10, faults=Faults(all_errors=True))
    assert len(run_fake(tmp_path, trials=20, population=10).log.trials) == 20


def test_a_stopped_study_saves_finished_chunks_and_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    stop = threading.Event()
    scorer = FakeScorer(faults=Faults(delay_s=0.2))  # so that the last chunk cannot run ahead
    loop = _new_loop(store, scorer, executor=_StopAfter(scorer, stop, 4), trials=60, population=20)
    assert loop.run(stop) is False
    loop._writer.close()
    log = store.read()
    assert len(log.trials) == 20 and len(log.evaluated) > 20
    finished, second = _loop(store, trials=60, population=20)
    assert finished
    assert not set(second.scored) & {int(design) for design in log.evaluated}
    assert facts(Results(_described(store))) == facts(
        run_fake(tmp_path / "whole", trials=60, population=20)
    )


def test_an_unknown_sampler_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'nsga9' is not one of nsga2"):
        run_fake(tmp_path, sampler="nsga9")


def test_nothing_feasible_reports_what_blocks(tmp_path: Path) -> None:
    spec = FakeSpec(tmp_path / "fake.yaml", constraints=(Limit("power_w", 1e-3),))
    results = run_fake(tmp_path, spec=spec, trials=60)
    assert len(results.front()) == 0
    near = results.front(least_violating=True)
    assert len(near) == 5 and not near["feasible"].any()
    assert near["power_w"].is_monotonic_increasing
    assert results.blocking()[0]["constraint"] == "power_w <= 0.001"


class _StopAfter:
    """Sets `stop` after a number of chunks, as a signal would."""

    def __init__(self, scorer: FakeScorer, stop: threading.Event, chunks: int) -> None:
        self._inner, self._stop, self._left = InProcess(scorer, threads=1), stop, chunks

    def evaluate(self, batch: Batch, stop: threading.Event) -> Iterator[ChunkResult]:
        for result in self._inner.evaluate(batch, stop):
            yield result
            self._left -= 1
            if self._left == 0:
                self._stop.set()

    def describe(self) -> str:
        return "test"

    def close(self) -> None:
        self._inner.close()


def _new_loop(
    store: Store, scorer: FakeScorer, executor: Any = None, log: Log | None = None, **search: Any
) -> Loop:
    spec = FakeSpec(Path("fake.yaml"), search=replace(Search(), **search))
    writer = Writer(store)
    log = store.read()
    writer.open(log)
    return Loop(
        Problem(spec.space(), spec.objectives, spec.constraints, spec.search),
        log,
        writer,
        executor or InProcess(scorer, threads=1),
        scorer.chunk,
        scorer.first_rows(),
        progress.Silent(),
    )


def _loop(store: Store, **search: Any) -> tuple[bool, FakeScorer]:
    scorer = FakeScorer()
    loop = _new_loop(store, scorer, **search)
    finished = loop.run(threading.Event())
    loop._writer.close()
    return finished, scorer


def _described(store: Store) -> Store:
    store.create({"name": "s"}, "")
    return store
