"""Predictions of many rows on all cores: nearly all of their time goes into compiling.

Rows that share a compilation stay together; each group is one task of a pool of processes. A
machine with one core, or a single task, does without a pool.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

from dse.validation.counting import counting
from dse.validation.measurements import Measurement
from dse.validation.record import Record

LARGEST_POOL = 8
"""Processes, each of which holds JAX and the models in some 500 MB."""


@dataclass(frozen=True)
class Predicted:
    """Records of TPU rows with and without host time of serving software, and of GPU rows."""

    with_host: list[Record] = field(default_factory=list)
    without_host: list[Record] = field(default_factory=list)
    gpu: list[Record] = field(default_factory=list)


Task = tuple[Sequence[Measurement], bool]
"""Rows of one compilation, and whether the GPU rows are meant instead."""


def predict(rows: Sequence[Measurement], *, gpus: bool = False) -> Predicted:
    """Predict rows, in their order, and with `gpus` every GPU row too."""
    tasks: list[Task] = [((), True)] if gpus else []
    tasks += [(group, False) for group in _groups(rows)]
    found = Predicted()
    with counting("measured rows, this time only", sum(map(_size, tasks))) as count:
        for task, done in _each(tasks):
            found.with_host.extend(done.with_host)
            found.without_host.extend(done.without_host)
            found.gpu.extend(done.gpu)
            count(_size(task))
    order = {m.id: i for i, m in enumerate(rows)}
    for records in (found.with_host, found.without_host):
        records.sort(key=lambda r: order[r.id])
    return found


def _size(task: Task) -> int:
    return len(task[0]) or 1


def _each(tasks: Sequence[Task]) -> Iterator[tuple[Task, Predicted]]:
    workers = min(len(tasks), os.cpu_count() or 1, LARGEST_POOL)
    if workers <= 1:
        yield from ((task, run(task)) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")  # JAX has threads: a fork could hang
    with ProcessPoolExecutor(workers, context) as pool:
        waiting = {pool.submit(run, task): task for task in tasks}
        for future in as_completed(waiting):
            yield waiting[future], future.result()


def _groups(rows: Sequence[Measurement]) -> list[list[Measurement]]:
    """Rows by compilation, whole models first: they take longest."""
    from dse.validation.compiled import compile_case
    from dse.validation.predictor import prepare

    groups: dict[object, list[Measurement]] = {}
    for row in rows:
        case = prepare(row).case
        whole = case is not None and "architecture" in case.parts
        groups.setdefault(compile_case(case, ()).skeleton if whole and case else "", []).append(row)
    return sorted(groups.values(), key=lambda g: g is groups.get(""))


def run(task: Task) -> Predicted:
    """One task; what a process of the pool executes."""
    from dse.scoring.cache import enable_compilation_cache
    from hwmodel import theta

    rows, gpus = task
    if gpus:
        from dse.validation import gpu

        return Predicted(gpu=gpu.records())
    from dse.validation.predictor import prepare, record

    enable_compilation_cache()
    values = theta.central()
    prepared = [prepare(row) for row in rows]
    return Predicted(
        [record(p, values, True) for p in prepared], [record(p, values, False) for p in prepared]
    )
