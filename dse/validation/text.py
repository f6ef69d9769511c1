"""Figures of a validation as cells of a table, the same in the terminal and on the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from dse.validation.bars import Line
from dse.validation.record import Record
from dse.validation.report import Set
from dse.validation.statistics import Figure, error_of, inside

SOURCE_WIDTH = 44
SOURCE_HEAD = 16
"""Characters that are kept of the start of a longer name; the rest are of its end."""
EXAMPLES = 2
_PERCENT = ("median", "p90", "worst", "coverage")


def set_cells(one: Set, names: Mapping[str, str] | None = None) -> list[Any]:
    """Source (its name in `names`), chip, kind, n, skipped, median, p90, bias, ranks, coverage,
    half-width."""
    s = one.summary
    cover = s.coverage.value
    return [
        (names or {}).get(one.source, one.source) or "all",
        one.tpu or "all",
        one.kind,
        s.n,
        one.skipped,
        percent(s.median.value),
        percent(s.p90.value),
        percent(s.bias.value, sign=True),
        number(s.rank.value),
        f"{number(s.rank_peak.value)} / {number(s.rank_roofline.value)}",
        "-" if cover is None else f"{cover:.0%} of {s.n_covered}",
        percent(s.width.value),
    ]


def line_cells(line: Line) -> list[Any]:
    """Title, figure, target, n, measured with its interval, met, held out, beside."""
    held = "-"
    if line.held_out is not None:
        held = f"{percent(line.held_out)} of {line.n_held_out}"
    met: Any = line.met
    if line.met is None:
        met = "undecided" if line.n else "no rows"
    return [
        line.title,
        line.statistic,
        line.target,
        line.n,
        figure_text(line.figure, line.statistic in _PERCENT),
        met,
        held,
        line.beside,
    ]


def short_names(sources: Iterable[str]) -> dict[str, str]:
    """Long names without their middle, no two alike; `--json` has them whole."""
    whole = sorted(set(sources))
    names = {source: _cut(source) for source in whole}
    shared = Counter(names.values())
    return {source: name if shared[name] == 1 else source for source, name in names.items()}


def _cut(source: str) -> str:
    if len(source) <= SOURCE_WIDTH:
        return source
    tail = SOURCE_WIDTH - SOURCE_HEAD - 1
    return f"{source[:SOURCE_HEAD]}…{source[-tail:]}"


def row_cells(r: Record) -> list[Any]:
    """Id, kind, chip, predicted, measured, unit, error, interval, inside of a predicted row."""
    between = "none" if r.low is None or r.high is None else f"[{r.low:.4g}, {r.high:.4g}]"
    return [
        r.id,
        r.kind,
        r.tpu,
        r.predicted,
        r.measured,
        r.unit,
        percent(error_of(r), sign=True),
        between,
        inside(r),
    ]


def skipped_groups(records: Iterable[Record]) -> list[list[Any]]:
    """Kind, why, rows and examples of the rows without a prediction, most rows first."""
    found: dict[tuple[str, str], list[str]] = {}
    for r in records:
        found.setdefault((r.kind, r.reason_if_skipped), []).append(r.id)
    ranked = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [[kind, why, len(ids), _examples(ids)] for (kind, why), ids in ranked]


def _examples(ids: list[str]) -> str:
    more = ", ..." if len(ids) > EXAMPLES else ""
    return ", ".join(ids[:EXAMPLES]) + more


def figure_text(figure: Figure, in_percent: bool) -> str:
    """`6.1% [4.0 to 9.2]`."""
    if figure.value is None:
        return "-"
    scale, digits = (100.0, 1) if in_percent else (1.0, 2)
    text = f"{figure.value * scale:.{digits}f}" + ("%" if in_percent else "")
    if figure.low is None or figure.high is None:
        return text
    return f"{text} [{figure.low * scale:.{digits}f} to {figure.high * scale:.{digits}f}]"


def percent(value: float | None, *, sign: bool = False) -> str:
    """`6.1%`, or a dash for None."""
    if value is None:
        return "-"
    return f"{value:+.1%}" if sign else f"{value:.1%}"


def number(value: float | None) -> str:
    """Two decimals, or a dash for None."""
    return "-" if value is None else f"{value:.2f}"
