"""`dse validate --html`: one page that needs no network, with plots and every table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources

from dse.validation import plot
from dse.validation.bars import Line
from dse.validation.record import KINDS, Record
from dse.validation.report import Report, Set
from dse.validation.statistics import error_of, inside, predicted
from dse.validation.text import line_cells, percent, set_cells

LARGEST_TABLE = 400
"""Rows of one kind that the page lists; more of them are in the plot and in --json."""


def page(found: Report) -> str:
    """The page as HTML text."""
    style = resources.files("dse").joinpath("validation", "page.css").read_text("utf-8")
    chips = sorted({r.tpu for r in found.records})
    body = [
        "<h1>Predictions beside measurements</h1>",
        _lead(found),
        *([] if found.own else ["<h2>The bar</h2>", _bar_table(found.lines)]),
        "<h2>Predicted against measured</h2>",
        _key(chips),
        '<div class="plots">',
        *_plots(found, chips),
        "</div>",
        "<h2>Errors</h2>",
        _set_table("Per chip and kind", [s for s in found.sets if not s.source]),
        _set_table("Per source, chip and kind", [s for s in found.sets if s.source]),
        "<h2>Rows</h2>",
        *_row_tables(found),
        *_skipped(found.skipped),
    ]
    content = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8" />\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1" />\n'
        f"<title>dse validate</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{content}\n</main>\n</body>\n</html>\n"
    )


def _lead(found: Report) -> str:
    rows = predicted(found.records)
    fresh = (
        f", {sum(r.held_out for r in rows)} of them from groups that no constant was fitted to "
        "(hollow marks)"
    )
    return (
        f"<p>{len(rows)} of {len(found.records)} measured rows are predicted"
        f"{'' if found.own else fresh}. Errors are of predicted over measured minus 1; intervals "
        "in brackets are 90&nbsp;% bootstraps over groups of source, chip and model.</p>"
    )


def _bar_table(lines: Sequence[Line]) -> str:
    headers = ("measurements", "figure", "target", "n", "measured", "met", "held out", "beside")
    return _table("Targets", headers, [line_cells(line) for line in lines], numbers=(3,))


def _set_table(title: str, sets: Sequence[Set]) -> str:
    figures = ("n", "skipped", "median", "p90", "bias", "rank", "rank of peak share / roofline's")
    headers = ("source", "chip", "kind", *figures, "in 80 % interval", "half-width")
    rows = [set_cells(one) for one in sets]
    return _table(title, headers, rows, numbers=range(3, 12))


def _plots(found: Report, chips: Sequence[str]) -> Iterable[str]:
    for kind in _kinds(found.records):
        rows = [r for r in predicted(found.records) if r.kind == kind]
        for unit in sorted({r.unit for r in rows}):
            same = [r for r in rows if r.unit == unit]
            title = f"{kind.replace('_', ' ')}: {len(same)} rows"
            yield (
                f"<figure><figcaption>{escape(title)}</figcaption>"
                f"{plot.scatter(title, same, chips)}</figure>"
            )


def _row_tables(found: Report) -> Iterable[str]:
    headers = ("id", "chip", "class", "measured", "predicted", "80 % interval", "unit")
    every = (*headers, "error", "inside")
    for kind in _kinds(found.records):
        rows = [r for r in predicted(found.records) if r.kind == kind]
        shown = rows[:LARGEST_TABLE]
        more = f", the first {LARGEST_TABLE}" if len(rows) > LARGEST_TABLE else ""
        title = f"{kind.replace('_', ' ')}: {len(rows)} rows{more}"
        table = _table(title, every, [_row(r, found.own) for r in shown], numbers=(3, 4, 5, 7))
        yield f"<details><summary>{escape(title)}</summary>{table}</details>"


def _row(r: Record, own: bool) -> list[object]:
    between = "-" if r.low is None or r.high is None else f"{r.low:.4g} to {r.high:.4g}"
    error = percent(error_of(r), sign=True)
    name = f"{r.id} (held out)" if r.held_out and not own else r.id
    held = inside(r)
    return [
        name,
        r.tpu,
        r.confidence,
        f"{r.measured:.4g}",
        f"{r.predicted or 0.0:.4g}",
        between,
        r.unit,
        error,
        "-" if held is None else held,
    ]


def _skipped(rows: Sequence[Record]) -> list[str]:
    if not rows:
        return []
    cells = [(r.id, r.kind, r.tpu, r.reason_if_skipped) for r in rows]
    return ["<h2>Skipped rows</h2>", _table("", ("id", "kind", "chip", "why"), cells)]


def _kinds(records: Sequence[Record]) -> list[str]:
    have = {r.kind for r in predicted(records)}
    return [kind for kind in KINDS if kind in have]


def _key(chips: Sequence[str]) -> str:
    marks = [f"{plot.key(i)} {escape(chip)}" for i, chip in enumerate(chips)]
    return f'<p class="key">{" &nbsp; ".join(marks)}; hollow: held out</p>'


def _table(
    caption: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    numbers: Iterable[int] = (),
) -> str:
    right = set(numbers)
    css = [' class="number"' if i in right else "" for i in range(len(headers))]
    head = "".join(f"<th{c}>{escape(h)}</th>" for c, h in zip(css, headers, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{c}>{_cell(v)}</td>" for c, v in zip(css, row, strict=True)) + "</tr>"
        for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="wide"><table>{title}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        word = "yes" if value else "no"
        return f'<span class="met-{word}">{word}</span>'
    return escape(str(value))
