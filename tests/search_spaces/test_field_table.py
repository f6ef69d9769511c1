"""Decoding indices to fields."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.errors import SpaceError
from search_spaces.fields import FieldTable
from search_spaces.knob import Choice, Knob
from search_spaces.space import Space

NAMES = tuple("abcdefgh")


def knob(name: str, rows: list[dict[str, float]], assignment: str = "") -> Knob:
    choices = tuple(Choice(str(i), row) for i, row in enumerate(rows))
    return Knob(name, "chip", "", "", choices, True, None, assignment)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Space, dict[str, float], np.ndarray]:
    free = list(draw(st.permutations(NAMES)))
    knobs = []
    number = st.floats(-1e12, 1e12)
    for i in range(draw(st.integers(0, 4))):
        fields = [free.pop() for _ in range(draw(st.integers(1, 2)))]
        count = draw(st.integers(1, 4))
        knobs.append(knob(f"k{i}", [{f: draw(number) for f in fields} for _ in range(count)]))
    base = {f: draw(number) for f in free}
    space = Space(tuple(knobs))
    return space, base, space.sample(draw(st.integers(0, 5)), draw(st.integers(0, 99)))


@settings(deadline=None)
@given(problems())
def test_decode_is_the_naive_decode(problem: tuple[Space, dict[str, float], np.ndarray]) -> None:
    space, base, rows = problem
    table = FieldTable.build(space, NAMES, base)
    expected = []
    for row in rows:
        values = dict(base)
        for k, index in zip(space.knobs, row, strict=True):
            values.update(k.choices[index].fields)
        expected.append([values[name] for name in NAMES])
    decoded = table.decode(rows)
    assert decoded.dtype == np.float64
    assert decoded.shape == (len(rows), len(NAMES))
    np.testing.assert_array_equal(decoded, np.array(expected).reshape(decoded.shape))


def test_arrays_say_what_they_should() -> None:
    space = Space((knob("x", [{"a": 1}, {"a": 2}, {"a": 3}]), knob("y", [{"c": 7}, {"c": 8}])))
    table = FieldTable.build(space, ("a", "b", "c"), {"b": 5, "a": 99})
    assert table.column.tolist() == [0, 0, 1]
    assert table.stride.tolist() == [1, 0, 1]
    assert table.offset.tolist() == [0, 3, 4]
    assert table.lut.tolist() == [1, 2, 3, 5, 7, 8]
    assert {a.dtype.name for a in (table.column, table.stride, table.offset)} == {"int32"}
    np.testing.assert_array_equal(table.decode([[2, 1]]), [[3, 5, 8]])


def test_an_assignment_sees_shared_and_its_own_knobs() -> None:
    space = Space(
        (
            knob("chip", [{"a": 1}, {"a": 2}]),
            knob("one.t", [{"b": 10}, {"b": 20}], "one"),
            knob("two.t", [{"b": 30}, {"b": 40}], "two"),
        )
    )
    for name, value in (("one", 20), ("two", 30)):
        table = FieldTable.build(space, ("a", "b"), {}, assignment=name)
        np.testing.assert_array_equal(table.decode([[1, 1, 0]]), [[2, value]])
    with pytest.raises(SpaceError, match=r"one\.t and two\.t both set b"):
        FieldTable.build(space, ("a", "b"), {})


def test_refused() -> None:
    x = knob("x", [{"clock_hz": 1}])
    with pytest.raises(SpaceError, match="x and y both set clock_hz; keep one of them"):
        FieldTable.build(Space((x, knob("y", [{"clock_hz": 2}]))), ("clock_hz",), {})
    with pytest.raises(SpaceError, match=r"x sets the unknown field 'clock_hz'.*mean 'clok_hz'"):
        FieldTable.build(Space((x,)), ("clok_hz",), {})
    with pytest.raises(SpaceError, match="field 'cores' is set by no knob and has no base value"):
        FieldTable.build(Space((x,)), ("clock_hz", "cores"), {})
    with pytest.raises(SpaceError, match="the choices set different fields"):
        knob("x", [{"a": 1}, {"b": 1}])
