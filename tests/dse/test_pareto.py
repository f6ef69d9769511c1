"""Fronts and hypervolume against hand-computed cases."""

from __future__ import annotations

import numpy as np
import pytest

from dse import pareto


def test_maximised_columns_count_the_other_way() -> None:
    values = np.array([[1.0, 1.0], [2.0, 1.0], [2.0, 3.0], [3.0, 3.0]])
    assert pareto.nondominated(values, ["maximize", "minimize"]).tolist() == [
        False,
        True,
        False,
        True,
    ]
    assert pareto.nondominated(values, ["minimize", "minimize"]).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_of_equal_points_the_first_stays() -> None:
    values = np.array([[1.0, 2.0], [1.0, 2.0]])
    assert pareto.nondominated(values, ["minimize"] * 2).tolist() == [True, False]


def test_no_points_no_front() -> None:
    assert len(pareto.nondominated(np.zeros((0, 3)), ["minimize"] * 3)) == 0


def test_hypervolume_by_hand_on_a_linear_scale() -> None:
    # 0 in each column keeps it linear; ideal (0, 0), nadir (2, 4), so (1, 1) sits at (0.5, 0.25).
    scale = pareto.Scale.of(np.array([[0.0, 4.0], [2.0, 0.0]]), ["minimize", "minimize"])
    assert scale.hypervolume(np.array([[1.0, 1.0]])) == pytest.approx(0.6 * 0.85)
    assert scale.hypervolume(np.array([[3.0, 1.0]])) == 0.0


def test_positive_objectives_are_compared_on_a_log_scale() -> None:
    scale = pareto.Scale.of(np.array([[1.0, 1.0], [100.0, 100.0]]), ["maximize", "minimize"])
    assert scale.normalise(np.array([[10.0, 10.0]]))[0] == pytest.approx([0.5, 0.5])


def test_six_objectives_are_approximated_deterministically() -> None:
    scale = pareto.Scale.of(np.array([[0.0] * 6, [1.0] * 6]), ["minimize"] * 6)
    points = np.array([[0.6] * 6])
    assert scale.hypervolume(points) == scale.hypervolume(points)
    assert scale.hypervolume(points) == pytest.approx(0.5**6, rel=0.05)


def test_tracker_never_shrinks_and_ignores_infeasible() -> None:
    tracker = pareto.Tracker(["minimize", "minimize"])
    tracker.add(np.array([[5.0, 5.0], [9.0, 9.0]]), np.array([False, False]))
    assert tracker.hypervolume == 0.0
    tracker.add(np.array([[4.0, 4.0], [1.0, 1.0]]), np.array([True, False]))
    first = tracker.hypervolume
    assert first > 0 and tracker.front_size == 1
    tracker.add(np.array([[3.0, 5.0], [6.0, 6.0]]), np.array([True, True]))
    assert tracker.hypervolume > first and tracker.front_size == 2
    before = tracker.hypervolume
    tracker.add(np.zeros((0, 2)), np.zeros(0, dtype=bool))
    assert tracker.hypervolume == before


def test_least_violating_and_blocking() -> None:
    rows = [{"a": 0.5, "b": -1.0}, {"a": 0.1, "b": 0.1}, {"a": -0.2, "b": 0.9}]
    assert pareto.least_violating(rows, 2) == [1, 0]
    assert pareto.blocking(rows) == [
        {"constraint": "a", "violated_by": 2, "smallest": -0.2},
        {"constraint": "b", "violated_by": 2, "smallest": -1.0},
    ]
