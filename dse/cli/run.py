"""`dse run`: run a study, or go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dse.cli.options import Json, ResultsDir
from dse.errors import EXIT_INTERRUPTED


def run(
    study: Annotated[Path, typer.Argument(help="Study file (YAML).")],
    results: ResultsDir = None,
    workers: Annotated[
        str,
        typer.Option(help="0: in this process; N: N Ray workers; auto: measure, then choose."),
    ] = "auto",
    ray_address: Annotated[
        str | None, typer.Option(help="Use the Ray cluster at this address.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Longest run of one chunk on a Ray worker, in seconds.")
    ] = 600.0,
    restart: Annotated[
        bool, typer.Option("--restart", help="Set earlier results aside and begin anew.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
    json: Json = False,
) -> None:
    """Run STUDY to its Pareto front. Run it again to go on where it stopped."""
    import sys

    from dse import runner
    from dse.cli import front, tables

    done = runner.run(
        study,
        results=results,
        workers=workers,
        ray_address=ray_address,
        restart=restart,
        quiet=quiet or json,
        timeout_s=timeout,
    )
    if json:
        status = done.status()
        known = [point.to_json() for point in done.known_points()]
        tables.emit_json({**status, "interrupted": done.interrupted, "known": known})
    elif not quiet and not done.interrupted:
        front.summary(done, str(study), top=10)
    if done.interrupted:
        told = len(done.log.trials)
        total = done.meta["search"]["trials"]
        again = f"dse run {study}" + (f" --results {results}" if results else "")
        print(
            f"stopped after {told} of {total} trials, all saved; go on with: {again}",
            file=sys.stderr,
        )
        raise typer.Exit(EXIT_INTERRUPTED)
