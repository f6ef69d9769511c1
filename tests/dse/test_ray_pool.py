"""The Ray pool: same results as in process, and every kind of failure.

One local Ray with two CPUs serves the whole module. `slow` marks what starts more Rays.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dse.errors import EvaluationError, UserError
from dse.executors import ray_runtime
from dse.executors.base import Batch, Chunk, ChunkResult
from dse.executors.ray_pool import RayPool
from dse.testing import SPACE, Factory, FakeScorer, Faults, run_fake

ROWS = SPACE.sample(12, seed=3)
DESIGNS = [SPACE.design_id(row) for row in ROWS]
BATCH = Batch(tuple(Chunk(i, ROWS[i * 4 : (i + 1) * 4]) for i in range(3)), 0)


@pytest.fixture(scope="module", autouse=True)
def local_ray() -> Iterator[None]:
    runtime = ray_runtime.connect(2, None)
    yield
    runtime.close()


def evaluate(pool: RayPool) -> dict[int, ChunkResult]:
    try:
        return {r.index: r for r in pool.evaluate(BATCH, threading.Event())}
    finally:
        pool.close()


def test_a_study_is_the_same_with_two_workers(tmp_path: Path) -> None:
    size = {"trials": 60, "population": 20}
    here = run_fake(tmp_path / "a", workers=0, **size).log.trials
    there = run_fake(tmp_path / "b", workers=2, **size).log.trials
    assert here == there


def test_a_crash_is_retried_and_counted(tmp_path: Path) -> None:
    results = evaluate(RayPool(Factory(Faults(once=str(tmp_path / "crashed"))), 2))
    plain = FakeScorer().score(ROWS)
    assert [s for i in range(3) for s in results[i].scores] == plain
    assert sorted(a for r in results.values() for a in r.attempts) == [1] * 8 + [2] * 4


@pytest.mark.slow
def test_a_poison_design_is_quarantined_alone() -> None:
    results = evaluate(RayPool(Factory(Faults(crash=frozenset([DESIGNS[5]]))), 2))
    failed = [(i, p) for i, r in results.items() for p, s in enumerate(r.scores) if s.failed]
    assert failed == [(1, 1)]
    score = results[1].scores[1]
    assert score.reason == "worker_crash"
    assert score.explanation == "killed its worker 2 times, quarantined"


@pytest.mark.slow
def test_a_hanging_design_times_out_alone() -> None:
    pool = RayPool(Factory(Faults(hang=frozenset([DESIGNS[0]]))), 2, timeout_s=1.5, attempts=1)
    results = evaluate(pool)
    assert [s.reason for s in results[0].scores] == ["timeout", *(s.reason for s in _plain(1, 4))]
    assert not any(s.failed for s in results[1].scores + results[2].scores)


@pytest.mark.slow
def test_an_exception_is_not_retried() -> None:
    results = evaluate(RayPool(Factory(Faults(error=frozenset([DESIGNS[9]]))), 1))
    score = results[2].scores[1]
    assert score.failed and score.explanation == "ValueError: the model cannot take this design"
    assert results[2].attempts == (1, 1, 1, 1)


@pytest.mark.slow
def test_stop_abandons_what_runs(tmp_path: Path) -> None:
    pool = RayPool(Factory(Faults(hang=frozenset(DESIGNS[:1]))), 1)
    stop = threading.Event()
    threading.Timer(1.5, stop.set).start()
    began = time.monotonic()
    assert list(pool.evaluate(BATCH, stop)) == []
    assert time.monotonic() - began < 15
    pool.close()


@pytest.mark.slow
def test_a_scorer_that_cannot_be_built_is_an_error_not_a_loop() -> None:
    with pytest.raises(EvaluationError, match="build its scorer: RuntimeError: no such model$"):
        evaluate(RayPool(Factory(Faults(unbuildable=True)), 1))


@pytest.mark.slow
def test_workers_are_pinned_to_one_cpu_each() -> None:
    results = evaluate(RayPool(Factory(Faults(unpinned=True)), 2))
    assert not any(score.failed for r in results.values() for score in r.scores)


def test_a_cluster_that_does_not_answer_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**_: Any) -> None:
        raise ConnectionError("nobody there")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    with pytest.raises(UserError, match="no Ray cluster answers at 10.0.0.1:6379: nobody"):
        ray_runtime.connect(2, "10.0.0.1:6379")


def test_ray_address_in_the_environment_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    asked: dict[str, Any] = {}
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **options: asked.update(options))
    ray_runtime.connect(2, None)
    assert asked["address"] == "local" and asked["num_cpus"] == 2
    assert asked["include_dashboard"] is False and asked["object_store_memory"] <= 100 * 2**20
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] == "0"


def _plain(first: int, last: int) -> list[Any]:
    return FakeScorer().score(ROWS[first:last])
