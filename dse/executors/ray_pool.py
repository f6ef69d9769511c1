"""A pool of Ray actors with its own failure policy.

Ray would retry for ever, count nothing and never time out, so the pool does it: an actor that dies
or overruns is replaced, the chunk it was working on is tried again, then split into single
candidates, and a candidate that keeps killing its worker is quarantined as failed. Two chunks are
in flight per actor, so that none waits for the driver.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dse.errors import EvaluationError
from dse.executors import ray_runtime
from dse.executors.base import Batch, ChunkResult
from dse.score import Score, ScorerFactory

_log = logging.getLogger(__name__)
_POLL_S = 0.2  # how soon Ctrl-C and timeouts are noticed
_GRACE_S = 2.0  # given to running chunks after Ctrl-C
_IN_FLIGHT = 2
_MAX_STARTS = 3  # consecutive failed starts of one slot
_LOST = {"worker_crash": "killed its worker", "timeout": "ran out of time"}


@dataclass
class _Job:
    """Rows that travel together: positions in the chunk, and how often they were tried."""

    chunk: int
    positions: list[int]
    rows: np.ndarray
    attempts: int = 0


@dataclass
class _Open:
    """A chunk whose rows are coming in."""

    scores: dict[int, Score] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0


class _Slot:
    """One place in the pool: an actor, its start-up, and the jobs in flight on it, oldest first."""

    def __init__(self, starts: int = 0) -> None:
        self.starts = starts  # consecutive failed starts
        self.actor: Any = None
        self.node_ref: Any = None  # answers with the node it landed on
        self.ready_ref: Any = None  # answers when the scorer is built
        self.ready = False
        self.node = ""
        self.cpu = -1
        self.jobs: deque[tuple[Any, _Job]] = deque()
        self.head_since = 0.0  # when the oldest job began to run

    @property
    def refs(self) -> list[Any]:
        """What this slot is waiting for."""
        starting = [ref for ref in (self.node_ref, self.ready_ref) if ref is not None]
        return starting + [ref for ref, _ in self.jobs]


class RayPool:
    """Executor over `workers` actors, in a local Ray of its own or on the cluster at `address`.

    workers None: one per CPU of the cluster. timeout_s: longest run of one chunk, compilation
    included, before its worker is killed. attempts: tries of a chunk, and then of each of its
    candidates alone.
    """

    def __init__(
        self,
        factory: ScorerFactory,
        workers: int | None,
        *,
        address: str | None = None,
        timeout_s: float = 600.0,
        attempts: int = 2,
    ) -> None:
        self._ray = ray_runtime.connect(workers, address)
        self._actor_class = ray_runtime.actor_class()
        self._factory = ray_runtime.pickled(factory)
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._slots = [_Slot() for _ in range(workers or self._ray.cpus())]

    def describe(self) -> str:
        """See `Executor.describe`."""
        return f"{len(self._slots)} workers on {self._ray.where}"

    def evaluate(self, batch: Batch, stop: threading.Event) -> Iterator[ChunkResult]:
        """See `Executor.evaluate`. After `stop`, running chunks have two seconds to finish."""
        opened = {chunk.index: _Open() for chunk in batch.chunks}
        size = {chunk.index: len(chunk.rows) for chunk in batch.chunks}
        queue = deque(
            _Job(chunk.index, list(range(len(chunk.rows))), chunk.rows) for chunk in batch.chunks
        )
        deadline: float | None = None
        while opened:
            if stop.is_set():
                deadline = deadline or time.monotonic() + _GRACE_S
                queue.clear()
                if time.monotonic() > deadline or not any(slot.jobs for slot in self._slots):
                    return self._abandon()
            self._submit(queue)
            for job, scores, seconds in self._collect(queue):
                chunk = opened[job.chunk]
                chunk.seconds = seconds
                for position, score in zip(job.positions, scores, strict=True):
                    chunk.scores[position] = score
                    chunk.attempts[position] = job.attempts
                if len(chunk.scores) == size[job.chunk]:
                    yield _finished(job.chunk, opened.pop(job.chunk))

    def close(self) -> None:
        """Kill the actors; end Ray if this pool started it."""
        for place in range(len(self._slots)):
            self._replace(place)
        self._ray.close()

    def _submit(self, queue: deque[_Job]) -> None:
        """Start missing actors while there is work, and keep `_IN_FLIGHT` jobs on each."""
        for slot in self._slots:
            if queue and slot.actor is None:
                slot.actor = self._actor_class.remote()
                slot.node_ref = slot.actor.node.remote()
        for depth in range(_IN_FLIGHT):  # breadth first: no actor gets two while another has none
            for slot in self._slots:
                if queue and slot.ready and len(slot.jobs) == depth:
                    if not slot.jobs:
                        slot.head_since = time.monotonic()
                    job = queue.popleft()
                    slot.jobs.append((slot.actor.score.remote(job.rows), job))

    def _collect(self, queue: deque[_Job]) -> list[tuple[_Job, list[Score], float]]:
        """Wait for the next answers; failed jobs go back on the queue or come out as failures."""
        finished: list[tuple[_Job, list[Score], float]] = []
        refs = {ref: slot for slot in self._slots for ref in slot.refs}
        if refs:
            done, _ = self._ray.module.wait(list(refs), num_returns=1, timeout=_POLL_S)
            for ref in done:
                self._answer(refs[ref], ref, queue, finished)
        now = time.monotonic()
        for slot in self._slots:
            if slot.jobs and now - slot.head_since > self._timeout_s:
                self._lost(slot, "timeout", queue, finished)
        return finished

    def _answer(self, slot: _Slot, ref: Any, queue: deque[_Job], finished: list[Any]) -> None:
        try:
            value = self._ray.module.get(ref)
        except self._ray.module.exceptions.RayActorError:
            self._lost(slot, "worker_crash", queue, finished)
        except self._ray.module.exceptions.RayTaskError as error:
            if ref in (slot.node_ref, slot.ready_ref):
                text = f"a worker could not build its scorer: {_text(error)}"
                raise EvaluationError(text) from error
            self._raised(self._take(slot, ref), error, queue, finished)
        else:
            if ref == slot.node_ref:
                slot.node_ref = None
                self._prepare(slot, str(value))
            elif ref == slot.ready_ref:
                slot.ready_ref, slot.ready, slot.starts = None, True, 0
            else:
                job = self._take(slot, ref)
                job.attempts += 1
                finished.append((job, *value))

    def _prepare(self, slot: _Slot, node: str) -> None:
        """Give the new actor the lowest CPU that no other actor of its node holds."""
        taken = {other.cpu for other in self._slots if other is not slot and other.node == node}
        slot.node = node
        slot.cpu = next(cpu for cpu in range(len(taken) + 1) if cpu not in taken)
        slot.ready_ref = slot.actor.prepare.remote(slot.cpu, self._factory)

    def _take(self, slot: _Slot, ref: Any) -> _Job:
        """Remove and return the job that `ref` stands for; the next one now begins to run."""
        job = next(job for other, job in slot.jobs if other == ref)
        slot.jobs = deque(pair for pair in slot.jobs if pair[0] != ref)
        slot.head_since = time.monotonic()
        return job

    def _raised(self, job: _Job, error: Exception, queue: deque[_Job], finished: list[Any]) -> None:
        """The scorer raised: deterministic, so never tried again as it was."""
        job.attempts += 1
        if len(job.positions) > 1:
            queue.extendleft(_singles(job))
            return
        _log.warning("scoring %s failed\n%s", job.rows[0].tolist(), error)
        finished.append((job, [Score.failure("error", _text(error))], 0.0))

    def _lost(self, slot: _Slot, reason: str, queue: deque[_Job], finished: list[Any]) -> None:
        """The actor died or overran: replace it, and blame only the job that was running."""
        starts = 0 if slot.ready else slot.starts + 1
        if starts >= _MAX_STARTS:
            raise EvaluationError(f"a worker died {_MAX_STARTS} times while starting")
        jobs = [job for _, job in slot.jobs]
        self._replace(self._slots.index(slot), starts)
        queue.extendleft(jobs[1:])
        if not jobs:
            return
        head = jobs[0]
        head.attempts += 1
        _log.warning("%s, attempt %d, candidates %s", reason, head.attempts, head.rows.tolist())
        if head.attempts < self._attempts:
            queue.appendleft(head)
        elif len(head.positions) > 1:
            queue.extendleft(_singles(head))
        else:
            text = f"{_LOST[reason]} {head.attempts} times, quarantined"
            finished.append((head, [Score.failure(reason, text)], 0.0))

    def _abandon(self) -> None:
        """Kill the actors that are busy: the study was told to stop."""
        for place, slot in enumerate(self._slots):
            if slot.jobs or not slot.ready:
                self._replace(place)

    def _replace(self, place: int, starts: int = 0) -> None:
        """Kill the actor of a slot and leave it empty; `_submit` fills it when there is work."""
        actor = self._slots[place].actor
        if actor is not None:
            self._ray.module.kill(actor)
        self._slots[place] = _Slot(starts)


def _text(error: Exception) -> str:
    """What the worker raised, without Ray's wrapping."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {cause}"


def _singles(job: _Job) -> list[_Job]:
    """Each candidate of a job alone, with its tries starting over: its neighbours may be guilty."""
    return [
        _Job(job.chunk, [position], job.rows[i : i + 1]) for i, position in enumerate(job.positions)
    ]


def _finished(index: int, chunk: _Open) -> ChunkResult:
    order = sorted(chunk.scores)
    return ChunkResult(
        index,
        tuple(chunk.scores[position] for position in order),
        chunk.seconds,
        tuple(chunk.attempts[position] for position in order),
    )
