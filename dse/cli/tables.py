"""How the command line prints: JSON, tables, and numbers in humane units."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

_WIDE = 10_000  # columns when not on a terminal: a pipe must not lose text
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def emit_json(data: Any) -> None:
    """Print `data` as JSON; numbers that are not finite become null."""
    print(json.dumps(_finite(data), indent=1, ensure_ascii=False))


def console() -> Any:
    """A rich console on standard output, never narrower than its content in a pipe."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


def print_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    title: str = "",
    marked: Iterable[int] = (),
    compact: bool = False,
) -> None:
    """Print a table of text and numbers; rows whose position is in `marked` stand out.

    compact: where the table is wider than the terminal, print its rows one below the other, as
    names and values, instead of folding the cells.
    """
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    body = [list(row) for row in rows]
    for position, header in enumerate(headers):
        numeric = any(isinstance(row[position], int | float) for row in body)
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    emphasised = set(marked)
    for position, row in enumerate(body):
        cells = [_escape(cell(value)) for value in row]
        table.add_row(*cells, style="bold" if position in emphasised else None)
    screen = console()
    unlimited = screen.options.update(width=_WIDE)
    if compact and screen.measure(table, options=unlimited).maximum > screen.width:
        _print_records(screen, headers, body, title, emphasised)
    else:
        screen.print(table)


def _print_records(
    screen: Any,
    headers: Sequence[str],
    body: Sequence[Sequence[Any]],
    title: str,
    emphasised: set[int],
) -> None:
    """Each row as a line of its first cell, and below it the others as `name value`, wrapped
    between pairs."""
    import textwrap

    if title:
        screen.print(title, style="italic", markup=False)
    for position, row in enumerate(body):
        style = "bold" if position in emphasised else None
        screen.print(f"{headers[0]} {cell(row[0])}", style=style, markup=False)
        # A pair stays on one line: its spaces are made unbreakable while the text is wrapped.
        pairs = (f"{h} {cell(v)}" for h, v in zip(headers[1:], row[1:], strict=True))
        text = "  ".join(pair.replace(" ", "\0") for pair in pairs)
        for line in textwrap.wrap(
            text, screen.width, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        ):
            screen.print(line.replace("\0", " "), style=style, markup=False)


def cell(value: Any) -> str:
    """Text of one cell: numbers to four digits, nothing for None and NaN."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def metric(name: str, value: Any) -> str:
    """A metric in a unit people read: seconds as ms or us, bytes as GB, others to four digits."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return cell(value)
    unit = _unit(name)
    if unit == "s":
        return scaled(value, _SECONDS)
    if unit in ("B", "B/token"):
        return scaled(value, _BYTES)
    if unit.startswith("share"):
        return f"{value:.1%}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """`value` in the largest unit that leaves at least 1, to four digits."""
    for size, name in units:
        if abs(value) >= size:
            return f"{value / size:.4g} {name}"
    size, name = units[-1]
    return f"{value / size:.4g} {name}"


def seconds(value: float) -> str:
    """A duration in s, ms, us or ns."""
    return scaled(value, _SECONDS)


def amount(value: float) -> str:
    """Bytes in TB to B."""
    return scaled(value, _BYTES)


@cache
def _unit(name: str) -> str:
    from dse.metrics import metrics

    inner = name.rpartition("(")[2].rstrip(")")
    if name.startswith("worst_regret("):
        return "share"
    known = metrics().get(inner)
    return known.unit if known else ""


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return data
