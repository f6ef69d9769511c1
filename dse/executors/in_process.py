"""Threads of this process over fixed chunks: a jitted scorer releases the interpreter lock."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import numpy as np

from dse.executors.base import Batch, Chunk, ChunkResult
from dse.score import Score, Scorer

_log = logging.getLogger(__name__)
_POLL_S = 0.2  # how soon Ctrl-C is noticed while chunks run


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class InProcess:
    """Executor over `threads` threads that share one scorer."""

    def __init__(self, scorer: Scorer, threads: int | None = None) -> None:
        self._scorer = scorer
        self._threads = threads or usable_cpus()
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="dse-score")

    def evaluate(self, batch: Batch, stop: threading.Event) -> Iterator[ChunkResult]:
        """See `Executor.evaluate`. A running chunk is always finished."""
        pending: set[Future[ChunkResult]] = {
            self._pool.submit(score_chunk, self._scorer, chunk) for chunk in batch.chunks
        }
        while pending:
            if stop.is_set():
                pending = {future for future in pending if not future.cancel()}
            done, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()

    def describe(self) -> str:
        """See `Executor.describe`."""
        return f"in process, {self._threads} threads"

    def close(self) -> None:
        """Wait for running chunks and end the threads."""
        self._pool.shutdown(cancel_futures=True)


def score_chunk(scorer: Scorer, chunk: Chunk) -> ChunkResult:
    """Score one chunk; if the call raises, each row alone, so that one design fails by itself."""
    began = time.perf_counter()
    attempts = 1
    try:
        scores: tuple[Score, ...] | None = tuple(scorer.score(chunk.rows))
    except Exception:  # whatever a scorer raises belongs to one of these designs: find out which
        scores = None
    if scores is None:
        attempts = 2
        scores = tuple(_score_one(scorer, row) for row in chunk.rows)
    if len(scores) != len(chunk.rows):
        raise AssertionError(f"the scorer gave {len(scores)} scores for {len(chunk.rows)} rows")
    seconds = time.perf_counter() - began
    return ChunkResult(chunk.index, scores, seconds, (attempts,) * len(scores))


def _score_one(scorer: Scorer, row: np.ndarray) -> Score:
    try:
        return scorer.score(row[None, :])[0]
    except Exception as error:
        _log.warning("scoring %s failed", row.tolist(), exc_info=True)
        return Score.failure("error", f"{type(error).__name__}: {error}")
