"""`dse validate`: how far predictions lie from published measurements, and from your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli.options import Json

if TYPE_CHECKING:
    from dse.validation.gaps import Gap
    from dse.validation.record import Record
    from dse.validation.report import Report


def validate(
    measurements: Annotated[
        Path | None,
        typer.Option(help="Your own measurements instead, in the columns of silicon.csv."),
    ] = None,
    left_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-generation-out",
            help="Predict each TPU by constants fitted without it (minutes).",
        ),
    ] = False,
    gaps: Annotated[
        bool,
        typer.Option("--gaps", help="Only the rows that miss: why, and what would settle it."),
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots to this file, too.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only rows of this kind, as the tables name it.")
    ] = None,
    tpu: Annotated[list[str] | None, typer.Option(help="Only rows of this chip.")] = None,
    source: Annotated[
        list[str] | None, typer.Option(help="Only rows whose source contains this.")
    ] = None,
    with_host: Annotated[
        bool,
        typer.Option("--with-host/--without-host", help="Add the host time of serving software."),
    ] = True,
    details: Annotated[
        bool, typer.Option("--details", help="Also the errors of every source.")
    ] = False,
    json: Json = False,
) -> None:
    """Predictions beside measurements: errors, bias, rank, and whether intervals hold."""
    from dse.cli import tables
    from dse.errors import UserError
    from dse.validation import report
    from dse.validation.collect import Wanted

    if left_out and measurements:
        raise UserError("--leave-one-generation-out refits the published rows; give one of the two")
    if html is not None:
        _check_page(html, measurements)
    wanted = Wanted.of(kind or [], tpu or [], source or [])
    found = _report(measurements, wanted, left_out, with_host, gaps or json or html is not None)
    if html is not None:
        from dse.validation.html import page

        html.write_text(page(found), encoding="utf-8")
    if gaps:
        _gaps(found, json)
    elif json:
        tables.emit_json(report.to_json(found))
    elif found.own:
        _print_own(found)
    else:
        _print(found, details)
    if html is not None and not json:
        tables.console().print(f"wrote {html}", markup=False)


def _check_page(html: Path, measurements: Path | None) -> None:
    """Refuse, before anything takes minutes, a place where the page cannot or should not go."""
    from dse.errors import UserError

    if html.is_dir():
        raise UserError(f"--html: {html} is a folder; name a file in it")
    if not html.parent.is_dir():
        raise UserError(f"--html: there is no folder {html.parent}; make it first")
    if not html.exists():
        return
    with html.open("rb") as file:
        start = file.read(20).lower()
    # A page of an earlier run is replaced; a measurement file named by mistake is not.
    if start and not start.startswith(b"<!doctype html>"):
        raise UserError(f"--html: {html} exists and is no HTML page; name another file")


def _report(
    measurements: Path | None, wanted: Any, left_out: bool, with_host: bool, explained: bool
) -> Report:
    from dse.errors import UserError
    from dse.validation import bars, collect, intervals, residuals
    from dse.validation.report import report

    if left_out:
        records = collect.left_out(wanted)
        plain: list[Record] = []
    else:
        records, plain = collect.collect(measurements, wanted, with_host=with_host)
    if not records:
        raise UserError("no measured row fits --kind, --tpu and --source; drop one of them")
    records = intervals.attach(records, intervals.calibration(), as_unseen_chip=left_out)
    if explained and not left_out:  # a user's rows miss by their interval, so that comes first
        records = collect.explained(measurements, records, with_host=with_host)
    if measurements is not None:
        hosted = [r.id for r in plain if r.predicted is not None]
        return report(records, (), unfitted=True, own=True, hosted=hosted)
    left = records if left_out else residuals.left_out_records(records)
    lines = bars.table(records, left_out=left, without_host=plain, unfitted=left_out)
    return report(records, lines, unfitted=left_out)


BAR_HEADERS = (
    "measurements",
    "figure",
    "target",
    "n",
    "measured [90 %]",
    "met",
    "held out",
    "beside",
)


def _print(found: Report, details: bool) -> None:
    from dse.cli import tables
    from dse.validation.text import line_cells, set_cells, short_names, skipped_groups

    bar = map(line_cells, found.lines)
    tables.print_table(BAR_HEADERS, bar, title="The bar", compact=True)
    headers = ["source", "chip", "kind", "n", "skipped", "median", "p90", "bias"]
    headers += ["rank", "peak share / roofline's", "in 80 % interval", "half-width"]
    pooled = [set_cells(one)[1:] for one in found.sets if not one.source]
    # The kind leads where rows are printed one below the other.
    tables.print_table(
        ["kind", "chip", *headers[3:]],
        [[row[1], row[0], *row[2:]] for row in pooled],
        title="All sources",
        compact=True,
    )
    if details:
        names = short_names(one.source for one in found.sets)
        by_source = [set_cells(one, names) for one in found.sets if one.source]
        tables.print_table(headers, by_source, title="Per source, chip and kind", compact=True)
    if found.skipped:
        tables.print_table(
            ["kind", "why", "rows", "such as"],
            skipped_groups(found.skipped),
            title=f"{len(found.skipped)} rows that cannot be predicted",
            compact=True,
        )
    notes = [
        "median, p90: of |predicted / measured - 1|; bias: median of predicted / measured - 1; "
        "rank: Spearman correlation of efficiency, achieved over plain roofline, of 8 rows or more "
        "of one chip; peak share: the same of achieved over peak, which a roofline can order too.",
        "[90 %]: bootstrap over groups (source, chip, model). Coverage and half-width: rows never "
        "fitted.",
    ]
    if not details:
        notes.append("--details: every source. --json, --html: every row. --gaps: why rows miss.")
    for note in notes:
        tables.console().print(note, markup=False)


ROW_HEADERS = (
    "id",
    "kind",
    "chip",
    "predicted",
    "measured",
    "unit",
    "error",
    "80 % interval",
    "inside",
)


def _print_own(found: Report) -> None:
    """A user's rows one by one, then figures over them, then those that were skipped."""
    from dse.cli import tables
    from dse.validation.statistics import predicted
    from dse.validation.text import row_cells, set_cells

    rows = predicted(found.records)
    if rows:
        tables.print_table(ROW_HEADERS, map(row_cells, rows), title="Your rows", compact=True)
        pooled = [set_cells(one)[1:] for one in found.sets if not one.source and one.summary.n]
        figures = ("n", "skipped", "median", "p90", "bias", "rank", "peak share / roofline's")
        cells = [[row[1], row[0], *row[2:]] for row in pooled]
        headers = ("kind", "chip", *figures, "in 80 % interval", "half-width")
        tables.print_table(headers, cells, title="Summary of your rows", compact=True)
    if found.skipped:
        skipped = [(r.id, r.kind, r.tpu, r.reason_if_skipped) for r in found.skipped]
        title = f"{len(skipped)} of your {len(found.records)} rows cannot be predicted"
        tables.print_table(("id", "kind", "chip", "why"), skipped, title=title, compact=True)
    for note in _own_notes(found, bool(rows)):
        tables.console().print(note, markup=False)


def _own_notes(found: Report, any_predicted: bool) -> list[str]:
    notes = []
    if any_predicted:
        notes.append(
            "error: predicted / measured - 1; median, p90: of its size; bias: its median. The "
            "intervals come from published rows of the same class of work."
        )
        notes.append("--json, --html: more of every row. --gaps: why rows miss their interval.")
    if found.hosted:
        notes.append(f"With the fitted host time of their stack: {', '.join(found.hosted)}.")
    return notes


def _gaps(found: Report, json: bool) -> None:
    from dse.cli import tables
    from dse.validation.gaps import gaps, missed, outside
    from dse.validation.text import line_cells

    rows = gaps(found.records, misses=outside if found.own else missed)
    skipped = [{"id": r.id, "kind": r.kind, "reason": r.reason_if_skipped} for r in found.skipped]
    if json:
        targets = [line.title for line in found.lines if line.met is False]
        tables.emit_json(
            {"gaps": [_gap_json(gap) for gap in rows], "missed": targets, "skipped": skipped}
        )
        return
    missed_lines = [line for line in found.lines if line.met is False]
    title = f"{len(missed_lines)} targets missed"
    if not found.own:
        tables.print_table(BAR_HEADERS, map(line_cells, missed_lines), title=title, compact=True)
    console = tables.console()
    beyond = "of yours outside their 80 % interval" if found.own else "beyond their target"
    count = sum(len(g.records) for g in rows)
    console.print(
        f"{count} row{'' if count == 1 else 's'} {beyond}" + (", by cause:\n" if count else "")
    )
    for gap in rows:
        _print_gap(console, gap)
    if skipped:
        console.print(f"{len(skipped)} rows could not be predicted: without --gaps they are listed")


def _print_gap(console: Any, gap: Gap) -> None:
    errors = sorted(gap.errors)
    names = [r.id for r in gap.records]
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    lines = [
        f"{gap.kind} on {gap.tpu}: {len(names)} rows, {errors[0]:+.0%} to {errors[-1]:+.0%}",
        f"  rows: {', '.join(names[:6])}{more}",
        f"  likely cause: {gap.cause}",
        *([f"  the prediction is bound by: {gap.bound_by}"] if gap.bound_by else []),
        f"  would settle it: {gap.settles}",
    ]
    for line in [*lines, ""]:
        console.print(line, markup=False)


def _gap_json(gap: Gap) -> dict[str, Any]:
    return {
        "kind": gap.kind,
        "tpu": gap.tpu,
        "rows": [r.id for r in gap.records],
        "errors": gap.errors,
        "cause": gap.cause,
        "settles": gap.settles,
        "bound_by": gap.bound_by,
    }
