"""Executors: what they promise the loop, and the rule that chooses one."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dse.errors import UserError
from dse.executors.base import Batch, Chunk
from dse.executors.choose import Auto, Measured, advise, parse
from dse.executors.in_process import InProcess
from dse.testing import SPACE, FakeScorer, Faults


def batch(count: int, size: int = 4, left: int = 0) -> Batch:
    rows = SPACE.sample(count * size, seed=3)
    chunks = [Chunk(i, rows[i * size : (i + 1) * size]) for i in range(count)]
    return Batch(tuple(chunks), left)


def test_in_process_scores_every_row_in_order() -> None:
    executor = InProcess(FakeScorer(), threads=3)
    work = batch(5)
    results = {r.index: r for r in executor.evaluate(work, threading.Event())}
    executor.close()
    assert sorted(results) == [0, 1, 2, 3, 4]
    for chunk in work.chunks:
        assert results[chunk.index].scores == tuple(FakeScorer().score(chunk.rows))
        assert results[chunk.index].attempts == (1,) * 4


def test_in_process_isolates_the_row_that_raises() -> None:
    work = batch(1)
    bad = SPACE.design_id(work.chunks[0].rows[2])
    executor = InProcess(FakeScorer(Faults(error=frozenset([bad]))), threads=1)
    (result,) = executor.evaluate(work, threading.Event())
    executor.close()
    assert [score.failed for score in result.scores] == [False, False, True, False]
    assert result.scores[2].explanation == "ValueError: the model cannot take this design"


def test_in_process_starts_no_chunk_after_stop() -> None:
    executor = InProcess(FakeScorer(Faults(delay_s=0.05)), threads=1)
    stop = threading.Event()
    seen = []
    for result in executor.evaluate(batch(20), stop):
        seen.append(result.index)
        stop.set()
    executor.close()
    assert 1 <= len(seen) <= 3


def test_a_scorer_that_loses_rows_is_noticed() -> None:
    class Short(FakeScorer):
        def score(self, indices: np.ndarray) -> list:  # type: ignore[type-arg]
            return super().score(indices)[:-1]

    executor = InProcess(Short(), threads=1)
    with pytest.raises(AssertionError, match="3 scores for 4 rows"):
        list(executor.evaluate(batch(1), threading.Event()))
    executor.close()


@pytest.mark.parametrize(
    ("measured", "left", "cpus", "expected"),
    [
        (Measured(wall_s=0.05, cpu_s=0.05, chunks=8), 100, 8, False),  # 5 s left: never pays
        (Measured(wall_s=10.0, cpu_s=10.0, chunks=8), 50, 8, True),  # one core of eight busy
        (Measured(wall_s=10.0, cpu_s=78.0, chunks=8), 50, 8, False),  # threads fill the machine
        (Measured(wall_s=10.0, cpu_s=10.0, chunks=1), 50, 8, False),  # one chunk, one worker
        (Measured(wall_s=10.0, cpu_s=10.0, chunks=8), 50, 1, False),  # one core
    ],
)
def test_auto_uses_ray_only_where_it_saves_time(
    measured: Measured, left: int, cpus: int, expected: bool
) -> None:
    use, why = advise(measured, left, cpus)
    assert use is expected
    assert "Ray workers would save" in why


def test_auto_decides_once_after_the_second_batch_and_says_why() -> None:
    notes: list[str] = []
    started: list[int] = []

    def start() -> InProcess:
        started.append(1)
        return InProcess(FakeScorer(), threads=1)

    auto = Auto(FakeScorer(Faults(delay_s=0.02)), start, notes.append, cpus=64)
    for left in (10**7, 10**7, 10**7):
        assert len(list(auto.evaluate(batch(80, 1, left), threading.Event()))) == 80
    auto.close()
    assert len(notes) == 1 and "cost 15 s to start" in notes[0]
    assert started == [1]


@pytest.mark.parametrize("workers", ["two", "-1", "1.5"])
def test_nonsense_workers_are_refused(workers: str) -> None:
    with pytest.raises(UserError, match="--workers takes auto, 0 or a number"):
        parse(workers, None)


def test_in_process_and_a_cluster_exclude_each_other() -> None:
    with pytest.raises(UserError, match="cannot use --ray-address"):
        parse("0", "127.0.0.1:6379")
    assert parse("auto", None) is None and parse("3", "127.0.0.1:6379") == 3
