"""What the study loop and an executor say to each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dse.score import Score


@dataclass(frozen=True)
class Chunk:
    """Rows to be scored in one call. rows: int32[n, knobs]; index: position in its batch."""

    index: int
    rows: np.ndarray


@dataclass(frozen=True)
class ChunkResult:
    """Scores of a chunk, in row order. seconds: of its last attempt; attempts: per row."""

    index: int
    scores: tuple[Score, ...]
    seconds: float
    attempts: tuple[int, ...]


@dataclass(frozen=True)
class Batch:
    """The chunks of one generation, and how many generations are still to come after it."""

    chunks: tuple[Chunk, ...]
    generations_left: int


class Executor(Protocol):
    """Scores batches. A candidate that cannot be scored gets `Score.failure`, no exception."""

    def evaluate(self, batch: Batch, stop: threading.Event) -> Iterator[ChunkResult]:
        """Yield results as chunks finish, in any order; once `stop` is set no chunk starts."""
        ...

    def describe(self) -> str:
        """One phrase for people: what runs where."""
        ...

    def close(self) -> None:
        """Release threads, actors and clusters that this executor started."""
        ...
