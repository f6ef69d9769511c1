"""Fronts that lie at an edge of what a study allowed."""

from __future__ import annotations

from collections.abc import Mapping

from dse import edges
from dse.results import Point
from search_spaces.catalog import find
from search_spaces.hbm import generations
from search_spaces.knob import Choice, Knob
from search_spaces.values import knob


def _point(**labels: str) -> Point:
    return Point(0, None, "", labels, {}, {}, {}, True)


def _plain(name: str, *labels: str, when: Mapping[str, tuple[str, ...]] | None = None) -> Knob:
    choices = tuple(Choice(label, {name: float(i)}) for i, label in enumerate(labels))
    return Knob(name, "chip", "", name, choices, ordered=True, when=when)


def _texts(knobs: list[Knob], points: list[Point]) -> list[str]:
    return [edge.text for edge in edges.reached(edges.to_meta(knobs), points)]


def test_an_edge_is_named_where_all_points_are_at_it() -> None:
    knobs = [_plain("a", "1", "2", "4"), _plain("b", "1", "2", "4"), _plain("c", "1", "2", "4")]
    points = [_point(a="4", b="1", c="2"), _point(a="4", b="1", c="4")]
    assert _texts(knobs, points) == ["a 4 (highest)", "b 1 (lowest)"]
    assert edges.lines(edges.to_meta(knobs), points) == [
        "All points are at an edge of a 4 (highest), b 1 (lowest): "
        "wider choices may hold better designs."
    ]
    assert edges.lines(edges.to_meta(knobs), [_point(a="2", b="2", c="2")] * 2) == []


def test_one_point_and_two_choices_say_nothing() -> None:
    assert _texts([_plain("a", "1", "2", "4")], [_point(a="4")]) == []
    assert _texts([_plain("a", "1", "2")], [_point(a="2")] * 3) == []


def test_a_knob_counts_only_where_it_matters() -> None:
    packing = _plain("packing", "1", "2", "4", when={"bits": ("8",)})
    wide, narrow = _point(bits="16", packing="1"), _point(bits="8", packing="4")
    assert _texts([packing], [wide, narrow, narrow]) == ["packing 4 (highest)"]
    assert _texts([packing], [wide, wide]) == []


def test_the_end_of_the_catalog_is_no_edge() -> None:
    """What a study may not widen is not worth a line."""
    cores = knob(find("cores", "chip"), [1, 2, 16])
    assert _texts([cores], [_point(cores="1")] * 2) == []
    assert _texts([cores], [_point(cores="16")] * 2) == []
    fewer = knob(find("cores", "chip"), [2, 4, 8])
    assert _texts([fewer], [_point(cores="8")] * 2) == ["cores 8 (highest)"]
    hbm = find("hbm_generation", "chip")
    kinds = knob(hbm, ["hbm2e", "hbm3", "hbm3e"])
    assert _texts([kinds], [_point(hbm_generation="hbm2e")] * 2) == [
        "hbm_generation hbm2e (lowest)"
    ]
    newest = list(generations())[-1]
    kinds = knob(hbm, ["hbm2e", "hbm3", newest])
    assert _texts([kinds], [_point(hbm_generation=newest)] * 2) == []


def test_results_of_earlier_versions_have_none() -> None:
    assert edges.lines({}, [_point(a="1")] * 2) == []
