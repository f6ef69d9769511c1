"""Lines on standard error that say what is being computed, once it takes more than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

QUIET_S = 3.0
"""Seconds without a line: at the start, and between two lines."""


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of items that have just been done.

    Prints `predicting <what>: <done> of <total>` every few seconds, nothing where all is fast.
    """
    done, printed = 0, time.monotonic()

    def count(more: int) -> None:
        nonlocal done, printed
        done += more
        now = time.monotonic()
        if now - printed >= QUIET_S:
            printed = now
            print(f"predicting {what}: {done} of {total}", file=sys.stderr, flush=True)

    yield count
