"""Ctrl-C: the first asks a study to stop cleanly, the second ends the process at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from dse.errors import EXIT_INTERRUPTED


@contextmanager
def stop_on_signal(tell: Callable[[str], None]) -> Iterator[threading.Event]:
    """An event that Ctrl-C (or SIGTERM) sets; outside the main thread nothing is installed.

    The second signal exits with 130 without unwinding: the log is complete up to its last line, so
    there is nothing to clean up.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            os._exit(EXIT_INTERRUPTED)
        stop.set()
        with suppress(RuntimeError):  # the signal came in the middle of another message
            tell("stopping after the chunks that are running; Ctrl-C again exits at once")

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, handle) for number in signals]
    try:
        yield stop
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
