"""From what a user writes for a knob ("1.75 GHz", "fp8", "2:4", "4x4x4") to a Choice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from search_spaces.catalog import Entry
from search_spaces.errors import SpaceError
from search_spaces.hbm import generations
from search_spaces.knob import Choice, Knob
from search_spaces.nearest import suggestion
from search_spaces.units import parse_quantity

_RATIO = re.compile(r"(\d+)\s*:\s*(\d+)")
_TORUS_DIMENSIONS = (2, 3)


def choice(entry: Entry, value: object) -> Choice:
    """The setting that `value` names. Raises SpaceError, UnitError for a unit that does not fit."""
    return _KINDS[entry.kind](entry, value)


def knob(entry: Entry, values: Sequence[object]) -> Knob:
    """A knob over `values`; the choices of an ordered knob are sorted (numbers by size, labels as
    the catalog lists them), so that neighbouring indices are neighbouring settings.

    `when` is left open: it depends on which other knobs a study has (search_spaces/conditions.py).
    """
    choices = [choice(entry, value) for value in values]
    plain_numbers = entry.kind == "linear" and not any(c.label in entry.named for c in choices)
    if plain_numbers:
        choices.sort(key=lambda c: next(iter(c.fields.values())))
    elif entry.ordered:
        order = list(generations() if entry.kind == "hbm" else entry.table)
        choices.sort(key=lambda c: order.index(c.label))
    return Knob(
        name=entry.name,
        section=entry.section,
        unit=entry.unit,
        meaning=entry.meaning,
        choices=tuple(choices),
        ordered=entry.ordered or plain_numbers,
    )


def neutral_choice(entry: Entry) -> Choice:
    """The setting of a model or deployment knob that a study does not mention."""
    if entry.neutral is None:
        raise SpaceError(f"{entry.name} has no neutral setting: the base chip decides")
    if entry.kind == "linear" and entry.neutral not in entry.named:
        number = float(entry.neutral)  # may lie outside `range`: no window is window_tokens 0
        return _linear_choice(entry, number)
    return choice(entry, entry.neutral)


def _linear(entry: Entry, value: object) -> Choice:
    if isinstance(value, str) and value.strip() in entry.named:
        label = value.strip()
        number = float(entry.named[label])
        return Choice(label, {name: number * scale for name, scale in entry.sets.items()})
    number = parse_quantity(value, entry.unit, entry.name)
    _check_range(entry, number, value)
    return _linear_choice(entry, number)


def _linear_choice(entry: Entry, number: float) -> Choice:
    return Choice(_label(number), {name: number * scale for name, scale in entry.sets.items()})


def _check_range(entry: Entry, number: float, value: object) -> None:
    assert entry.range is not None, entry.name
    low, high = entry.range
    named = "".join(f", or {name}" for name in entry.named)
    if not low <= number <= high:
        raise SpaceError(
            f"{entry.name}: {value} is outside {_label(low)} to {_label(high)} {entry.unit}{named}"
        )
    if entry.integer and number != int(number):
        raise SpaceError(f"{entry.name}: {value} is not a whole number of {entry.unit}{named}")


def _table(entry: Entry, value: object) -> Choice:
    return _row(entry, value, entry.table)


def _hbm(entry: Entry, value: object) -> Choice:
    rows = {
        name: {field: row[source] for field, source in entry.sets.items()}
        for name, row in generations().items()
    }
    return _row(entry, value, rows)


def _row(entry: Entry, value: object, rows: Mapping[str, Mapping[str, float]]) -> Choice:
    label = _label(value) if isinstance(value, int | float) else str(value).strip()
    if label not in rows:
        raise SpaceError(f"{entry.name}: {value!r} is not a choice; {suggestion(label, rows)}")
    return Choice(label, {field: float(number) for field, number in rows[label].items()})


def _ratio(entry: Entry, value: object) -> Choice:
    """N:M sparsity, "dense" being 1:1."""
    text = str(value).strip()
    if text == entry.neutral:
        return Choice(text, {entry.sets["n"]: 1.0, entry.sets["m"]: 1.0})
    match = _RATIO.fullmatch(text)
    if match is None:
        raise SpaceError(f"{entry.name}: {value!r} is not {entry.neutral} or N:M, such as 2:4")
    n, m = int(match.group(1)), int(match.group(2))
    assert entry.range is not None, entry.name
    if not 1 <= n < m <= entry.range[1]:
        raise SpaceError(
            f"{entry.name}: {text} needs 1 <= N < M <= {_label(entry.range[1])}, "
            f"such as 2:4; say {entry.neutral} for no sparsity"
        )
    return Choice(f"{n}:{m}", {entry.sets["n"]: float(n), entry.sets["m"]: float(m)})


def _torus(entry: Entry, value: object) -> Choice:
    """Two or three sides, "4x8" or "4x4x4"."""
    parts = str(value).strip().lower().split("x")
    if len(parts) not in _TORUS_DIMENSIONS or not all(part.isdigit() for part in parts):
        raise SpaceError(f"{entry.name}: {value!r} is not of the form 4x8 or 4x4x4")
    sides = [int(part) for part in parts]
    assert entry.range is not None, entry.name
    low, high = entry.range
    if not all(low <= side <= high for side in sides):
        raise SpaceError(
            f"{entry.name}: {value} has a side outside {_label(low)} to {_label(high)} {entry.unit}"
        )
    label = "x".join(str(side) for side in sides)
    by_axis = zip(("x", "y", "z"), [*sides, 1][:3], strict=True)
    return Choice(label, {entry.sets[axis]: float(side) for axis, side in by_axis})


def _permutation(entry: Entry, value: object) -> Choice:
    """All axes named once, in order, joined by "-"."""
    names = str(value).strip().split("-")
    if sorted(names) != sorted(entry.sets):
        unknown = [name for name in names if name not in entry.sets]
        hint = f"; {suggestion(unknown[0], entry.sets)}" if unknown else ""
        raise SpaceError(
            f"{entry.name}: {value!r} must name each of {', '.join(entry.sets)} once, "
            f"such as {entry.neutral}{hint}"
        )
    return Choice("-".join(names), {entry.sets[name]: float(r) for r, name in enumerate(names)})


def _label(number: float) -> str:
    """A number as a label: 128, 1.75, 0.833333333333."""
    return f"{number:.12g}"


_KINDS: dict[str, Callable[[Entry, object], Choice]] = {
    "linear": _linear,
    "table": _table,
    "hbm": _hbm,
    "ratio": _ratio,
    "torus": _torus,
    "permutation": _permutation,
}
