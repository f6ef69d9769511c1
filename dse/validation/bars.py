"""The bar table: each target beside what the records show for it, met or not.

Targets are data (`bars.yaml`); the three that are no error of one set of rows (a generation left
out, rank correlation, coverage) are here. A target without rows is neither met nor missed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np

from dse.validation import statistics
from dse.validation.intervals import COVERAGE
from dse.validation.record import KINDS, Record
from dse.validation.statistics import Figure

LEFT_OUT_LIMIT = 0.12
RANK_LIMIT = 0.8
FEWEST_OF_A_KIND = 4
"""Rows below which a kind has no width of its own in the table."""

WIDTH_LIMIT = 2.0
"""Largest half-width of intervals over the median error of the same rows."""


@dataclass(frozen=True)
class Target:
    """A set of rows by its name in `Record.bars`, and its largest allowed figures."""

    name: str
    title: str
    limits: Mapping[str, float]


@dataclass(frozen=True)
class Line:
    """One target. target: the limit as text. figure: what was found, over n rows of some groups.

    held_out, n_held_out: the same over rows never fitted. met: None where there are no rows.
    beside: another figure for comparison, such as the plain roofline's.
    """

    name: str
    title: str
    statistic: str
    target: str
    n: int
    groups: int
    figure: Figure
    met: bool | None
    held_out: float | None = None
    n_held_out: int = 0
    beside: str = ""


@functools.cache
def targets() -> dict[str, Target]:
    """The targets on errors, by name."""
    import yaml

    text = resources.files("dse").joinpath("validation", "bars.yaml").read_text("utf-8")
    return {name: Target(name, **raw) for name, raw in yaml.safe_load(text).items()}


def table(
    records: Sequence[Record],
    *,
    left_out: Sequence[Record] = (),
    without_host: Sequence[Record] = (),
    unfitted: bool = False,
) -> list[Line]:
    """The whole bar table.

    records: with intervals. left_out: predictions under constants fitted without the row's chip.
    without_host: the serving rows without their stack's host time. unfitted: no row was fitted.
    """
    lines = []
    for target in targets().values():
        rows = [r for r in statistics.predicted(records) if target.name in r.bars]
        beside = ""
        if target.name == "serve_fixed":
            hosted = [r for r in without_host if target.name in r.bars]
            beside = _without_host(hosted)
            target = replace(target, title=target.title + _with_host(len(hosted), len(rows)))
        for statistic, limit in target.limits.items():
            lines.append(_error_line(target, statistic, limit, rows, beside))
    lines.append(_left_out_line(left_out))
    lines += _rank_lines(records)
    lines += _interval_lines(records, unfitted)
    return lines


def _error_line(
    target: Target, statistic: str, limit: float, rows: Sequence[Record], beside: str
) -> Line:
    fresh = [r for r in rows if r.held_out]
    found = error(rows, statistic)
    return Line(
        name=target.name,
        title=target.title,
        statistic=statistic,
        target=f"<= {limit:.0%}",
        n=len(rows),
        groups=_groups(rows),
        figure=found,
        met=None if found.value is None else found.value <= limit,
        held_out=error(fresh, statistic).value,
        n_held_out=len(fresh),
        beside=beside,
    )


def error(rows: Sequence[Record], statistic: str) -> Figure:
    """Median, p90 or worst of |predicted / measured - 1|."""
    if not rows:
        return statistics.NONE
    share = {"median": 0.5, "p90": 0.9, "worst": 1.0}[statistic]
    values = abs(statistics.ratios(rows) - 1)
    return statistics.figure(rows, statistics.quantile(values, share))


def _with_host(hosted: int, rows: int) -> str:
    """Of how many rows the prediction has the host time of their stack."""
    if not hosted:
        return ""
    return ", with the stack's host pair" + ("" if hosted >= rows else f" ({hosted} of {rows})")


def _without_host(rows: Sequence[Record]) -> str:
    found = error(statistics.predicted(rows), "median").value
    return "" if found is None else f"without host time {found:.1%}"


def _left_out_line(left_out: Sequence[Record]) -> Line:
    own = {name for name in targets() if not name.startswith("gpu")}
    rows = [r for r in statistics.predicted(left_out) if own & set(r.bars)]
    found = error(rows, "median")
    return Line(
        name="left_out",
        title="one TPU generation left out of the fit, all of the above pooled",
        statistic="median",
        target=f"<= {LEFT_OUT_LIMIT:.0%}",
        n=len(rows),
        groups=_groups(rows),
        figure=found,
        met=None if found.value is None else found.value <= LEFT_OUT_LIMIT,
    )


def _rank_lines(records: Sequence[Record]) -> list[Line]:
    lines = []
    cells = sorted({(r.kind, r.tpu) for r in records})
    for kind, tpu in cells:
        rows = [r for r in statistics.predicted(records) if (r.kind, r.tpu) == (kind, tpu)]
        if len(rows) < statistics.MIN_RANKED:
            continue
        found = statistics.efficiency_rank(rows)
        own, plain = (
            statistics.peak_rank(rows).value,
            statistics.peak_rank(rows, roofline=True).value,
        )
        lines.append(
            Line(
                name="rank",
                title=f"order of efficiency, {kind} on {tpu}",
                statistic="Spearman",
                target=f">= {RANK_LIMIT}",
                n=len(rows),
                groups=_groups(rows),
                figure=found,
                met=None if found.value is None else found.value >= RANK_LIMIT,
                beside=_by_peak(own, plain),
            )
        )
    return lines


def _by_peak(own: float | None, plain: float | None) -> str:
    if plain is None:
        return "roofline has no order"
    text = "-" if own is None else f"{own:.2f}"
    return f"of the share of the peak: {text}, roofline {plain:.2f}"


def _interval_lines(records: Sequence[Record], unfitted: bool) -> list[Line]:
    """Coverage of all intervals of TPU and of GPU rows, and their width: pooled, and against the
    error of each kind, since a pooled ratio compares the width of one kind with the error of
    another."""
    lines = []
    for family, title in (("tpu", "TPU"), ("gpu", "GPU")):
        rows = [r for r in records if r.kind.startswith("gpu") == (family == "gpu")]
        rows = [r for r in rows if r.confidence != "C" and r.low is not None]
        rows = [r for r in rows if unfitted or r.held_out]
        found = statistics.summarise(rows, unfitted=True)
        cover = found.coverage
        holds = None
        if cover.low is not None and cover.high is not None:
            holds = bool(cover.low <= COVERAGE <= cover.high)
        lines.append(
            Line(
                name=f"coverage_{family}",
                title=f"80 % intervals, {title} rows never fitted",
                statistic="coverage",
                target=f"interval has {COVERAGE:.0%}",
                figure=cover,
                met=holds,
                n=len(rows),
                groups=found.groups,
            )
        )
        lines.append(_width_line(f"width_{family}", f"{title} rows never fitted, pooled", rows))
        for kind in KINDS:
            own = [r for r in rows if r.kind == kind]
            if len(own) >= FEWEST_OF_A_KIND:
                lines.append(_width_line(f"width_{kind}", f"{kind} rows never fitted", own))
    return lines


def _width_line(name: str, what: str, rows: Sequence[Record]) -> Line:
    found = statistics.summarise(rows, unfitted=True)
    ratio = found.width_ratio
    return Line(
        name=name,
        title=f"80 % intervals, {what}",
        statistic="half-width / median error",
        target=f"<= {WIDTH_LIMIT:g}",
        figure=ratio,
        met=None if ratio.value is None else ratio.value <= WIDTH_LIMIT,
        n=len(rows),
        groups=found.groups,
    )


def _groups(rows: Sequence[Record]) -> int:
    return len(np.unique([r.group for r in rows])) if rows else 0
