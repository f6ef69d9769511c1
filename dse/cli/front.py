"""`dse front`: the Pareto front as a table, CSV, Parquet or JSON."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dse.cli.options import Json, ResultsDir, Study
from dse.errors import UserError

if TYPE_CHECKING:
    from dse.results import Point, Results


class Format(StrEnum):
    """Output formats."""

    table = "table"
    csv = "csv"
    parquet = "parquet"
    json = "json"


def front(
    study: Study,
    results: ResultsDir = None,
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file (parquet needs one).")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Sort by this metric, best first (-NAME: worst first).")
    ] = None,
    top: Annotated[int | None, typer.Option(min=1, help="Only the first N points.")] = None,
    known: Annotated[
        bool | None,
        typer.Option("--known/--no-known", help="Known chips too (default: in the table only)."),
    ] = None,
    params: Annotated[
        bool, typer.Option("--params", help="Show the knobs in the table too.")
    ] = False,
    intervals: Annotated[
        bool, typer.Option("--intervals/--no-intervals", help="Show 80 % intervals in the table.")
    ] = True,
    json: Json = False,
) -> None:
    """Print the Pareto front of STUDY, with known chips beside it."""
    from dse.results import open_results

    opened = open_results(study, results)
    chosen = Format.json if json else format
    with_known = known if known is not None else chosen is Format.table
    points = select(opened, sort, top)
    if chosen is Format.table:
        if output:
            raise UserError("--output needs --format csv, parquet or json")
        show_table(opened, points, study, with_known, params, intervals)
        return
    rows = points + (opened.known_points() if with_known else [])
    write(opened, rows, chosen, output)


def select(results: Results, sort: str | None, top: int | None) -> list[Point]:
    """Points of the front (the least violating designs when nothing is feasible), sorted."""
    points = results.front_points(least_violating=True)
    if sort is not None:
        points = _sorted(results, points, sort)
    return points[:top]


def write(results: Results, points: list[Point], format: Format, output: Path | None) -> None:
    """Write points as JSON, CSV or Parquet, to `output` or standard output."""
    import json

    from dse.cli import tables
    from dse.results import frame_of

    if format is Format.json:
        rows = [point.to_json() for point in points]
        if output is None:
            tables.emit_json(rows)
        else:
            output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        return
    frame = frame_of(points)
    if format is Format.csv:
        text = frame.to_csv(index=False)
        if output is None:
            print(text, end="")
        else:
            output.write_text(text, encoding="utf-8")
    elif output is None:
        raise UserError("--format parquet needs --output FILE")
    else:
        frame.to_parquet(output, index=False)


def show_table(
    results: Results,
    points: list[Point],
    study: str,
    known: bool,
    params: bool,
    intervals: bool = True,
) -> None:
    """The front as a table, known chips below it in bold; what blocks when it is empty."""
    from dse import edges
    from dse.cli import tables
    from dse.cli.intervals import evidence_lines
    from dse.notes import beyond_reticle

    names = _columns(results)
    knobs = _knobs(points) if params else []
    rows = [_row(point, names, knobs, intervals) for point in points]
    known_points = results.known_points() if known else []
    marked = range(len(rows), len(rows) + len(known_points))
    rows += [_row(point, names, knobs, intervals) for point in known_points]
    feasible = any(point.feasible for point in points)
    title = f"{results.meta['name']}: {len(points)} points of the front"
    if not points:
        title = f"{results.meta['name']}: no trials yet"
    elif not feasible:
        title = f"{results.meta['name']}: nothing feasible yet; the designs that violate least"
    headers = ["trial", *names, "feasible", "p(feasible)", *knobs]
    tables.print_table(headers, rows, title=title, marked=marked, compact=True)
    if points and not feasible:
        show_blocking(results)
    dies = [p.metrics["largest_die_mm2"] for p in points if "largest_die_mm2" in p.metrics]
    at_edges = edges.lines(results.meta, results.front_points())
    evidence = evidence_lines([*points, *known_points], names) if intervals else []
    for line in [*evidence, *at_edges, *beyond_reticle(dies)]:
        tables.console().print(line, markup=False)
    print_footer(results)


def summary(results: Results, study: str, top: int) -> None:
    """What `dse run` prints at the end."""
    from dse.cli import tables

    status = results.status()
    console = tables.console()
    console.print(
        f"{status['trials']} trials, {status['designs']} designs, "
        f"{status['feasible_trials']} trials feasible, {status['front']} points on the front, "
        f"{status['seconds']:.1f} s ({status['sampler_seconds']:.1f} s in the sampler)",
        markup=False,
    )
    points = select(results, results.objectives[0], top)
    show_table(results, points, study, known=True, params=False)
    if status["front"] > top:
        console.print(f"the whole front: dse front {study}", markup=False)


def show_blocking(results: Results) -> None:
    """Which constraints and which reasons keep designs from being feasible."""
    from dse.cli import tables

    rows = [(row["constraint"], row["violated_by"], row["smallest"]) for row in results.blocking()]
    tables.print_table(
        ["constraint", "designs that break it", "smallest violation"], rows, title="What blocks"
    )
    if reasons := results.reasons():
        tables.print_table(["illegal because", "designs"], list(reasons.items()))


def _columns(results: Results) -> list[str]:
    """Objectives, then the metrics that constraints limit."""
    names = list(results.objectives)
    return names + [name for name in results.constrained_metrics() if name not in names]


def _knobs(points: list[Point]) -> list[str]:
    return list({name: None for point in points for name in {**point.params, **point.deployment}})


def _row(point: Point, names: list[str], knobs: list[str], intervals: bool) -> list[object]:
    from dse.cli.intervals import value_cell

    label = point.known or str(point.number)
    if point.mapping is not None:
        label += f" m{point.mapping}"
    values = {**point.params, **point.deployment}
    metrics = [value_cell(point, name, intervals) for name in names]
    feasible = "yes" if point.feasible else "no"
    return [label, *metrics, feasible, p_feasible(point), *(values.get(k) for k in knobs)]


def p_feasible(point: Point) -> str:
    """The joint probability, and the metric of the least certain constraint where it is uncertain
    (`dse show` lists all)."""
    from dse.probabilities import uncertain
    from dse.trials import JOINT

    if point.p_feasible is None:
        return "-"
    doubtful = uncertain(point.p_feasible)
    joint = f"{point.p_feasible[JOINT]:.0%}"
    return f"{joint} {min(doubtful, key=doubtful.__getitem__).split()[0]}" if doubtful else joint


def print_footer(results: Results) -> None:
    """What a reader must know about the numbers: the rung, and what the study assumed."""
    from dse.cli import tables
    from dse.notes import footer

    for line in footer(results.meta):
        tables.console().print(line, markup=False)


def _sorted(results: Results, points: list[Point], sort: str) -> list[Point]:
    from difflib import get_close_matches

    name = sort.removeprefix("-")
    known = sorted({metric for point in points for metric in point.metrics})
    if points and name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"the nearest is {near[0]}" if near else f"there are {', '.join(known)}"
        raise UserError(f"--sort: no metric is called {name!r}; {hint}")
    descending = results.better_is_higher(name) != sort.startswith("-")
    worst = float("-inf") if descending else float("inf")
    return sorted(
        points,
        key=lambda point: _finite_or(point.metrics.get(name), worst),
        reverse=descending,
    )


def _finite_or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None or value != value else value
