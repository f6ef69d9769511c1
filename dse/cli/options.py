"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Study = Annotated[
    str, typer.Argument(help="Study file, results directory, or name of a study with results.")
]
ResultsDir = Annotated[
    Path | None,
    typer.Option("--results", help="Directory of results (default: `results` beside the file)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
