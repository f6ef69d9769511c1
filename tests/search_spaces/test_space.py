"""Spaces of index rows."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.errors import SpaceError
from search_spaces.knob import Choice, Knob
from search_spaces.space import Space


def make(name: str, n: int, when: dict[str, tuple[str, ...]] | None = None, ordered: bool = True):  # type: ignore[no-untyped-def]
    choices = tuple(Choice(f"{name}{i}", {f"{name}_field": float(i)}) for i in range(n))
    return Knob(name, "chip", "", "", choices, ordered, when)


# c matters only under a1 and a2; d only under c1, listed before its parent
SPACE = Space(
    (
        make("d", 2, {"c": ("c1",)}),
        make("a", 3),
        make("b", 4, ordered=False),
        make("c", 2, {"a": ("a1", "a2")}),
    )
)


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    knobs: list[Knob] = []
    for i in range(draw(st.integers(1, 5))):
        when = None
        if knobs and draw(st.booleans()):
            parent = draw(st.sampled_from(knobs))
            labels = draw(st.sets(st.sampled_from(parent.labels), min_size=1))
            when = {parent.name: tuple(sorted(labels))}
        knobs.append(make(f"k{i}", draw(st.integers(1, 4)), when, draw(st.booleans())))
    order = draw(st.permutations(knobs))
    return Space(tuple(order))


def naive_canonical(space: Space, row: tuple[int, ...]) -> tuple[int, ...]:
    """A knob whose condition is unmet, its parent read canonically, goes to 0."""
    values = dict(zip(space.names, row, strict=True))

    def value(name: str) -> int:
        knob = space.knob(name)
        for parent, labels in (knob.when or {}).items():
            if space.knob(parent).choices[value(parent)].label not in labels:
                return 0
        return values[name]

    return tuple(value(name) for name in space.names)


def test_counts() -> None:
    assert SPACE.names == ("d", "a", "b", "c")
    assert SPACE.cardinalities == (2, 3, 4, 2)
    assert SPACE.size == 48
    # a0: 4; a1, a2 with c0: 4 each, with c1: 4 x 2 each
    assert len(SPACE.grid()) == 4 + 2 * (4 + 8)


def test_canonical_collapses_through_a_chain() -> None:
    rows = np.array([[1, 0, 2, 1], [1, 1, 2, 0], [1, 1, 2, 1]])
    np.testing.assert_array_equal(SPACE.canonical(rows), [[0, 0, 2, 0], [0, 1, 2, 0], [1, 1, 2, 1]])
    np.testing.assert_array_equal(rows[0], [1, 0, 2, 1])  # the argument is left alone


@settings(deadline=None)
@given(spaces())
def test_canonical_is_the_naive_one_and_idempotent(space: Space) -> None:
    rows = list(itertools.product(*(range(n) for n in space.cardinalities)))
    canonical = space.canonical(np.array(rows))
    assert [tuple(map(int, r)) for r in canonical] == [naive_canonical(space, r) for r in rows]
    np.testing.assert_array_equal(space.canonical(canonical), canonical)


@settings(deadline=None)
@given(spaces())
def test_grid_is_every_design_once_in_order(space: Space) -> None:
    grid = space.grid()
    every = {naive_canonical(space, r) for r in itertools.product(*map(range, space.cardinalities))}
    assert {tuple(map(int, r)) for r in grid} == every
    ids = space.design_ids(grid)
    assert (np.diff(ids) > 0).all()
    assert [space.design_id(r) for r in grid] == ids.tolist()
    for row, number in zip(grid, ids, strict=True):
        np.testing.assert_array_equal(space.row(int(number)), row)


@settings(deadline=None)
@given(spaces(), st.data())
def test_labels_and_indices_round_trip(space: Space, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(space.grid().tolist()))
    assert space.indices(space.labels(row)).tolist() == row


@settings(deadline=None)
@given(spaces(), st.data())
def test_neighbours_differ_from_the_row_and_are_canonical(
    space: Space, data: st.DataObject
) -> None:
    row = data.draw(st.sampled_from(space.grid().tolist()))
    found = space.neighbours(row)
    assert found.shape[1] == len(space.names)
    np.testing.assert_array_equal(space.canonical(found), found)
    assert row not in found.tolist()
    assert len(np.unique(found, axis=0)) == len(found)


def test_neighbours_of_ordered_and_unordered_knobs() -> None:
    space = Space((make("a", 5), make("b", 3, ordered=False)))
    assert sorted(map(tuple, space.neighbours([2, 0]).tolist())) == [(1, 0), (2, 1), (2, 2), (3, 0)]
    assert sorted(map(tuple, space.neighbours([0, 1]).tolist())) == [(0, 0), (0, 2), (1, 1)]


def test_sampling_is_seeded_canonical_and_covers() -> None:
    sample = SPACE.sample(500, seed=3)
    np.testing.assert_array_equal(sample, SPACE.sample(500, seed=3))
    assert (sample != SPACE.sample(500, seed=4)).any()
    np.testing.assert_array_equal(SPACE.canonical(sample), sample)
    assert len(np.unique(sample, axis=0)) == len(SPACE.grid())


def test_design_ids_of_a_space_beyond_int64() -> None:
    space = Space(tuple(make(f"k{i}", 10) for i in range(25)))
    assert space.size == 10**25
    last = np.full((1, 25), 9)
    assert space.design_ids(last).tolist() == [10**25 - 1]
    np.testing.assert_array_equal(space.row(10**25 - 1), last[0])


def test_a_space_without_knobs_has_one_design() -> None:
    space = Space(())
    assert space.size == 1
    assert space.grid().shape == (1, 0)
    assert space.sample(3, 0).shape == (3, 0)
    assert space.design_id([]) == 0
    assert space.neighbours([]).shape == (0, 0)
    assert space.labels([]) == {}


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(SPACE)) == SPACE


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Space((make("a", 2), make("a", 2))), "'a' is in the space twice"),
        (lambda: Space((make("b", 2, {"aa": ("a0",)}), make("a", 2))), "depends on 'aa'.*mean 'a'"),
        (lambda: Space((make("a", 2), make("b", 2, {"a": ("a9",)}))), "a has no choice 'a9'"),
        (
            lambda: Space((make("a", 2, {"b": ("b1",)}), make("b", 2, {"a": ("a1",)}))),
            "conditions of a, b go in a circle",
        ),
        (lambda: SPACE.canonical([[0, 0, 4, 0]]), "b: index 4 is outside 0 to 3"),
        (lambda: SPACE.canonical([[0, 0, -1, 0]]), "b: index -1 is outside"),
        (lambda: SPACE.canonical([[0, 0]]), "do not fit 4 knobs"),
        (lambda: SPACE.indices({"a": "a0"}), "no choice is given for d, b, c"),
        (lambda: SPACE.indices({"e": "a0"}), "no knob of this space is called 'e'"),
        (lambda: SPACE.row(48), "design 48 is outside 0 to 47"),
        (lambda: Space(tuple(make(f"k{i}", 9) for i in range(9))).grid(), "is too large"),
    ],
)
def test_refused(build, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SpaceError, match=message):
        build()


def test_prefixing_keeps_conditions() -> None:
    prefixed = Space(tuple(k.prefixed("m") for k in SPACE.knobs))
    assert prefixed.names == ("m.d", "m.a", "m.b", "m.c")
    np.testing.assert_array_equal(prefixed.grid(), SPACE.grid())
