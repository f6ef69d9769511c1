"""Predicted against measured, both logarithmic, as one SVG per kind of work.

Drawn by hand and not by a plotting library: the page stays small, needs nothing, and takes the
colours of the reader's light or dark theme from its style sheet (`chip-0` to `chip-7`).
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from dse.validation.record import Record

SIZE = 360
_LEFT, _BOTTOM, _TOP, _RIGHT = 64, 46, 10, 12
_MARKS = ("circle", "square", "diamond", "triangle")
BAND = 1.2
"""The dashed lines beside the diagonal: predictions within a factor of 1.2."""


def scatter(title: str, records: Sequence[Record], chips: Sequence[str]) -> str:
    """An SVG of predicted rows in one unit. chips: all of the page; their order sets the marks."""
    unit = records[0].unit
    values = [v for r in records for v in (r.measured, r.predicted) if v]
    low, high = math.log10(min(values)), math.log10(max(values))
    margin = max(0.05 * (high - low), 0.05)
    axis = _Axis(low - margin, high + margin)
    inside = sum(1 / BAND <= (r.predicted or 0) / r.measured <= BAND for r in records)
    name = html.escape(title)
    about = (
        f"{len(records)} rows, measured on the horizontal and predicted on the vertical axis in "
        f"{unit}, both logarithmic; {inside} lie within a factor of {BAND} of the diagonal. "
        "The values are in the table of rows."
    )
    parts = [
        f'<svg role="img" viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" '
        f'aria-label="{name}"><title>{name}</title><desc>{html.escape(about)}</desc>',
        *_grid(axis, unit),
        *(_diagonal(axis, factor) for factor in (1 / BAND, 1.0, BAND)),
        *(_mark(axis, r, chips.index(r.tpu)) for r in records),
        "</svg>",
    ]
    return "\n".join(parts)


class _Axis:
    """Both axes: they have the same limits, decimal logarithms."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def x(self, value: float) -> float:
        return _LEFT + self._share(value) * (SIZE - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return SIZE - _BOTTOM - self._share(value) * (SIZE - _BOTTOM - _TOP)

    def _share(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return min(max(share, 0.0), 1.0)

    def ticks(self) -> list[float]:
        """Powers of ten, with 2 and 5 between them where there are few."""
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        for steps in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
            found = [s * 10.0**d for d in decades for s in steps]
            found = [t for t in found if self.low <= math.log10(t) <= self.high]
            if len(found) >= 3:
                break
        if not found:  # a row or two: the axis is narrower than the steps
            middle = 10 ** ((self.low + self.high) / 2)
            return [float(f"{middle:.3g}")]
        skip = math.ceil(len(found) / 6)
        return found[::skip]


def _grid(axis: _Axis, unit: str) -> list[str]:
    bottom, right = SIZE - _BOTTOM, SIZE - _RIGHT
    parts = [
        f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" '
        f'height="{bottom - _TOP}"/>'
    ]
    for tick in axis.ticks():
        x, y = axis.x(tick), axis.y(tick)
        text = f"{tick:.3g}"
        parts += [
            f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>',
            f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>',
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{text}</text>',
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>',
        ]
    shown = html.escape("share" if unit == "1" else unit)
    middle_x, middle_y = (_LEFT + right) / 2, (_TOP + bottom) / 2
    parts += [
        f'<text x="{middle_x:.0f}" y="{SIZE - 8}" text-anchor="middle">measured, {shown}</text>',
        f'<text x="14" y="{middle_y:.0f}" text-anchor="middle" '
        f'transform="rotate(-90 14 {middle_y:.0f})">predicted, {shown}</text>',
    ]
    return parts


def _diagonal(axis: _Axis, factor: float) -> str:
    shift = math.log10(factor)
    low = 10 ** (axis.low + max(0.0, -shift))
    high = 10 ** (axis.high - max(0.0, shift))
    style = "diagonal" if factor == 1 else "band"
    return (
        f'<line class="{style}" x1="{axis.x(low):.1f}" y1="{axis.y(low * factor):.1f}" '
        f'x2="{axis.x(high):.1f}" y2="{axis.y(high * factor):.1f}"/>'
    )


def _mark(axis: _Axis, record: Record, chip: int) -> str:
    assert record.predicted
    x, y = axis.x(record.measured), axis.y(record.predicted)
    error = record.predicted / record.measured - 1
    label = html.escape(
        f"{record.id}, {record.tpu}: measured {record.measured:.4g}, predicted "
        f"{record.predicted:.4g} {record.unit} ({error:+.1%})"
    )
    return _shape(x, y, chip, f"<title>{label}</title>", held=record.held_out)


def _shape(x: float, y: float, chip: int, inside: str, *, held: bool = False) -> str:
    """The mark of a chip around a point, with elements inside it."""
    style = f"chip-{chip % 8}" + (" held" if held else "")
    tag, where = {
        "circle": ("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="3.4"'),
        "square": ("rect", f'x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6"'),
        "diamond": ("path", f'd="M{x:.1f} {y - 4.4:.1f}l4.4 4.4l-4.4 4.4l-4.4 -4.4z"'),
        "triangle": ("path", f'd="M{x:.1f} {y - 4:.1f}l4 7h-8z"'),
    }[_MARKS[chip % len(_MARKS)]]
    return f'<{tag} {where} class="{style}">{inside}</{tag}>'


def key(chip: int) -> str:
    """A small SVG of the mark of a chip, for the page's key."""
    return f'<svg aria-hidden="true" viewBox="0 0 14 14">{_shape(7, 7, chip, "")}</svg>'
