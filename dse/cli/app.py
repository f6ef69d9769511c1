"""The `dse` command: its commands, and the one place where errors become messages."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import typer

from dse.cli import catalog, front, predict, run, validate, views
from dse.errors import (
    EXIT_BAD_INPUT,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    UserError,
    error_directory,
    error_log,
)

app = typer.Typer(
    name="dse",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich help costs 0.3 s to import
    help="Search TPU designs, model variants and mappings together, to a Pareto front.",
)
app.command()(run.run)
app.command()(front.front)
app.command()(views.status)
app.command("list")(views.list_studies)
app.command()(views.show)
app.command()(views.explain)
app.command()(views.journal)
app.command()(validate.validate)
app.command()(predict.predict)
app.add_typer(catalog.models, name="models")
app.add_typer(catalog.chips, name="chips")
app.command()(catalog.knobs)
app.command()(catalog.metrics)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 well, 2 bad input, 3 a configuration that cannot
    run, 130 interrupted, 1 a defect of ours."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="dse")
    except UserError as error:
        print(f"dse: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except OSError as error:  # a place that cannot be read or written, or a full disk
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if error.filename is None and not full:
            _internal(error)
        place = error.filename or error_directory.get() or "the output"
        hint = (
            "; make room and run the same command again, finished trials are safe" if full else ""
        )
        print(f"dse: {place}: {error.strerror}{hint}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        _internal(error)


def _internal(error: Exception) -> NoReturn:
    path = _save_traceback()
    print(
        f"dse: internal error, please report it ({type(error).__name__}: {error})\n"
        f"dse: details in {path}; trials that were told are saved",
        file=sys.stderr,
    )
    sys.exit(EXIT_INTERNAL)


def _save_traceback() -> Path:
    """Add the current traceback to the error log; returns its path."""
    path = error_log()
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{' '.join(sys.argv)}\n\n{traceback.format_exc()}\n")
    return path
