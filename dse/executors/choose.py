"""Which executor a run gets, and the rule by which `--workers auto` decides."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dse.errors import UserError
from dse.executors.base import Batch, ChunkResult, Executor
from dse.executors.in_process import InProcess, usable_cpus
from dse.score import Scorer, ScorerFactory

START_UP_S = 15.0  # a local Ray (3-7 s) and its workers' imports and compilation (measured)


@dataclass(frozen=True)
class Measured:
    """Cost of evaluating one generation in process: wall and CPU seconds over `chunks` chunks."""

    wall_s: float
    cpu_s: float
    chunks: int


def advise(measured: Measured, generations_left: int, cpus: int) -> tuple[bool, str]:
    """Whether local Ray workers would pay, and why.

    Threads already use several cores when the scorer releases the interpreter lock. Workers can at
    best keep min(cpus, chunks) cores busy, so they save the share of the remaining evaluation time
    in which cores idle now. They pay when that is more than twice what they cost to start.
    """
    busy = max(measured.cpu_s / measured.wall_s, 1e-9) if measured.wall_s > 0 else 1.0
    reachable = min(cpus, measured.chunks)
    left_s = measured.wall_s * generations_left
    saved_s = max(0.0, left_s * (1 - busy / reachable))
    use = saved_s > 2 * START_UP_S
    return use, (
        f"a generation takes {measured.wall_s:.2g} s on {busy:.1f} of {reachable} usable cores; "
        f"Ray workers would save {saved_s:.0f} s of the {left_s:.0f} s left "
        f"and cost {START_UP_S:.0f} s to start"
    )


class Auto:
    """In process, until a measured generation says that local Ray workers would pay."""

    def __init__(
        self,
        scorer: Scorer,
        start_ray: Callable[[], Executor],
        tell: Callable[[str], None],
        cpus: int | None = None,
    ) -> None:
        self._executor: Executor = InProcess(scorer)
        self._start_ray = start_ray
        self._tell = tell
        self._cpus = cpus or usable_cpus()
        self._batches = 0
        self._decided = False

    def evaluate(self, batch: Batch, stop: threading.Event) -> Iterator[ChunkResult]:
        """See `Executor.evaluate`. The first batch compiles, so the second is measured."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield from self._executor.evaluate(batch, stop)
        self._batches += 1
        if self._decided or self._batches < 2 or stop.is_set() or not batch.chunks:
            return
        self._decided = True
        measured = Measured(
            time.perf_counter() - wall, time.process_time() - cpu, len(batch.chunks)
        )
        use_ray, why = advise(measured, batch.generations_left, self._cpus)
        if use_ray:
            self._executor.close()
            self._executor = self._start_ray()
        self._tell(f"workers: {self._executor.describe()} ({why})")

    def describe(self) -> str:
        """See `Executor.describe`."""
        return self._executor.describe()

    def close(self) -> None:
        """See `Executor.close`."""
        self._executor.close()


def parse(workers: str | int, ray_address: str | None) -> int | None:
    """The number of workers that `--workers auto|0|N` means; None for auto.

    Raises UserError for anything else than auto or a whole number >= 0, and for 0 together with an
    address.
    """
    count = None if workers == "auto" else _whole(workers)
    if count == 0 and ray_address:
        raise UserError(
            "--workers 0 runs in this process and cannot use --ray-address; leave one out"
        )
    return count


def make(
    workers: int | None,
    scorer: Scorer,
    factory: ScorerFactory,
    *,
    ray_address: str | None,
    timeout_s: float,
    tell: Callable[[str], None],
) -> Executor:
    """The executor for a number of workers (see `parse`). An address means Ray: with None, one
    worker per CPU of the cluster."""

    def start(number: int | None) -> Executor:
        from dse.executors.ray_pool import RayPool

        return RayPool(factory, number, address=ray_address, timeout_s=timeout_s)

    if workers == 0:
        return InProcess(scorer)
    if workers is None and not ray_address:
        return Auto(scorer, lambda: start(usable_cpus()), tell)
    return start(workers)


def _whole(workers: str | int) -> int:
    try:
        count = int(workers)
    except ValueError:
        count = -1
    if count < 0:
        raise UserError(f"--workers takes auto, 0 or a number of workers, not {workers!r}")
    return count
