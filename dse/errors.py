"""Errors that reach a user as one readable message, and the exit codes of the command line."""

from __future__ import annotations

import tempfile
from contextvars import ContextVar
from pathlib import Path

EXIT_OK = 0
EXIT_INTERNAL = 1
EXIT_BAD_INPUT = 2
EXIT_ILLEGAL = 3
EXIT_INTERRUPTED = 130


class UserError(Exception):
    """Something the user can put right; the message names the place and the fix. Exit code 2."""


class StoreError(UserError):
    """Results that cannot be read, or that do not belong to the study being run."""


class EvaluationError(Exception):
    """Every candidate of a generation failed to evaluate: a defect, not a property of a design."""


# Where the details of an unexpected error go: beside the results once a study is being run.
error_directory: ContextVar[Path | None] = ContextVar("error_directory", default=None)


def error_log() -> Path:
    """A path for the details of an unexpected error, in `error_directory` or a temporary folder."""
    directory = error_directory.get()
    if directory is None or not directory.is_dir():
        directory = Path(tempfile.mkdtemp(prefix="dse-"))
    return directory / "error.log"
