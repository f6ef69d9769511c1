"""One Ray actor that scores chunks. Imports nothing heavy before it has pinned its process."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from dse.score import Score, Scorer


class Worker:
    """Long-lived scorer in a process of its own: the factory is paid once, not per chunk."""

    def __init__(self) -> None:
        self._scorer: Scorer | None = None

    def node(self) -> str:
        """Id of the node this worker landed on, so that the driver can hand out its CPUs."""
        import ray

        return str(ray.get_runtime_context().get_node_id())

    def prepare(self, cpu_index: int, factory: bytes) -> int:
        """Pin this process to one CPU of its node, then build the scorer. Returns the process id.

        XLA:CPU sizes its thread pool by the affinity mask when it is first imported and ignores
        OMP_NUM_THREADS, so the order matters. `factory` is a pickled `ScorerFactory`.
        """
        if hasattr(os, "sched_setaffinity"):
            cpus = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cpus[cpu_index % len(cpus)]})
        build: Any = pickle.loads(factory)
        self._scorer = build()
        return os.getpid()

    def score(self, rows: np.ndarray) -> tuple[list[Score], float]:
        """Scores of `rows`, int32[n, knobs], and the seconds they took."""
        import time

        if self._scorer is None:
            raise RuntimeError("score() before prepare()")
        began = time.perf_counter()
        scores = self._scorer.score(rows)
        return scores, time.perf_counter() - began
