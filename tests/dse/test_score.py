"""Scores survive storage, and are rounded by the documented rule."""

from __future__ import annotations

import json
import math

import pytest

from dse.score import Score, rounded


def test_round_trip_keeps_every_field() -> None:
    mapping = {"deployment": {"batch": "32"}, "metrics": {"ttft_s": 0.5, "tpot_s": 0.01}}
    score = Score(
        {"ttft_s": 0.25, "usd": 3.0},
        legal=False,
        reason="hbm_overflow",
        explanation="too big",
        repair="tensor 16",
        violation=0.5,
        solved={"batch": "64"},
        mappings=(mapping, mapping),
        failed=True,
    )
    assert Score.from_json(json.loads(json.dumps(score.to_json(), allow_nan=False))) == score


def test_non_finite_metrics_are_null_and_come_back_as_nan() -> None:
    data = Score({"price": math.nan, "latency": math.inf}).to_json()
    assert data["metrics"] == {"price": None, "latency": None}
    assert math.isnan(Score.from_json(data).metrics["price"])


@pytest.mark.parametrize("value", [0.1 + 0.2, 1 / 3, 1.23456789123e-30, -9.87654321987e12])
def test_rounding_hides_last_bits_and_is_idempotent(value: float) -> None:
    assert rounded(value) == rounded(math.nextafter(value, math.inf))
    assert rounded(rounded(value)) == rounded(value)
    assert rounded(value) == pytest.approx(value, rel=1e-8)


def test_rounded_reaches_mappings() -> None:
    score = Score({"a": 1 / 3}, mappings=({"deployment": {}, "metrics": {"a": 2 / 3}},)).rounded()
    assert score.metrics["a"] == 0.333333333
    assert score.mappings[0]["metrics"]["a"] == 0.666666667
