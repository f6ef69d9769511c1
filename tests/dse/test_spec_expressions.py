"""Objectives and constraints."""

from __future__ import annotations

import numpy as np
import pytest

from dse.metrics import metrics
from dse.spec.expressions import parse_constraint, parse_objective
from search_spaces.errors import SpaceError, UnitError
from search_spaces.units import parse_unit


def test_metrics_are_those_of_the_model() -> None:
    from models.performance import METRICS
    from models.training import TRAINING_METRICS

    for kind, names in (("serve", METRICS), ("train", TRAINING_METRICS)):
        own = {m.name for m in metrics().values() if m.workload in ("any", kind)}
        assert own == set(names)


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda m: m.name)
def test_metric_units_are_known(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric.better in ("higher", "lower", "either")
    assert metric.scope in ("chip", "assignment")
    assert metric.workload in ("serve", "train", "any")
    assert parse_unit(metric.unit) is not None


@pytest.mark.parametrize(
    ("text", "metric", "op", "limit"),
    [
        ("die_area_mm2 <= 800", "die_area_mm2", "<=", 800),
        ("die_area_mm2<=8 cm2", "die_area_mm2", "<=", 800),
        ("tpot_s <= 50 ms", "tpot_s", "<=", 0.05),
        ("tokens_per_s_per_user >= 20", "tokens_per_s_per_user", ">=", 20),
        ("hbm_used_bytes <= 30 GiB", "hbm_used_bytes", "<=", 30 * 2**30),
        ("hbm_used_bytes / hbm_bytes <= 90 %", "hbm_used_bytes / hbm_bytes", "<=", 0.9),
        ("tdp_w/die_area_mm2 <= 0.9 W/mm2", "tdp_w / die_area_mm2", "<=", 0.9),
    ],
)
def test_constraints(text: str, metric: str, op: str, limit: float) -> None:
    constraint = parse_constraint(text)
    assert constraint.metric == metric
    assert constraint.op == op
    assert constraint.limit == pytest.approx(limit)


def test_violation_is_relative_and_signed() -> None:
    area = parse_constraint("die_area_mm2 <= 800")
    assert area.violation(1000) == pytest.approx(0.25)
    assert area.violation(600) == pytest.approx(-0.25)
    assert area.violation(800) == 0
    speed = parse_constraint("tokens_per_s_per_user >= 20")
    assert speed.violation(10) == pytest.approx(0.5)
    assert speed.violation(25) == pytest.approx(-0.25)
    np.testing.assert_allclose(area.violation(np.array([400.0, 1600.0])), [-0.5, 1])


def test_a_limit_of_zero_is_a_plain_difference() -> None:
    exact = parse_constraint("quality_loss_nats <= 0")
    assert exact.violation(0.01) == pytest.approx(0.01)
    assert exact.violation(0) == 0


def test_a_quotient_is_taken_of_the_metrics() -> None:
    fill = parse_constraint("hbm_used_bytes / hbm_bytes <= 0.8")
    value = fill.value({"hbm_used_bytes": 30.0, "hbm_bytes": 32.0})
    assert value == pytest.approx(0.9375)
    assert fill.violation(value) == pytest.approx(0.171875)
    assert parse_constraint("tdp_w <= 1").value({"tdp_w": 3.0}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("die_area_mm <= 800", "no metric is called 'die_area_mm'; did you mean 'die_area_mm2'"),
        ("hbm_used_bytes / hbm_byte <= 1", "no metric is called 'hbm_byte'"),
        ("ttft_s < 2", "should be METRIC <= NUMBER"),
        ("ttft_s", "should be METRIC <= NUMBER"),
        (7, "should be METRIC <= NUMBER"),
        ("ttft_s <= fast", "ttft_s: 'fast' is not a number in s"),
        ("tdp_w / tokens_per_s <= 2", "has no unit that a limit can be given in"),
    ],
)
def test_refused_constraints(text: object, message: str) -> None:
    with pytest.raises(SpaceError) as error:
        parse_constraint(text)
    assert message in str(error.value)


def test_limit_with_a_unit_that_does_not_fit() -> None:
    with pytest.raises(UnitError, match=r"ttft_s: '2 GB' is a size in GB.*a time in s"):
        parse_constraint("ttft_s <= 2 GB")


def test_objectives() -> None:
    plain = parse_objective({"maximize": "tokens_per_s_per_chip"}, portfolio=False)
    assert (plain.direction, plain.metric, plain.aggregate, plain.name) == (
        "maximize", "tokens_per_s_per_chip", "value", "tokens_per_s_per_chip",
    )  # fmt: skip
    regret = parse_objective({"minimize": "worst_regret( tokens_per_s_per_chip )"}, portfolio=True)
    assert (regret.aggregate, regret.metric) == ("worst_regret", "tokens_per_s_per_chip")
    assert regret.name == "worst_regret(tokens_per_s_per_chip)"
    assert parse_objective({"minimize": "worst(ttft_s)"}, True).aggregate == "worst"
    assert parse_objective({"maximize": "mean(tokens_per_s)"}, True).aggregate == "mean"
    assert parse_objective({"minimize": "tdp_w"}, True).aggregate == "value"
    assert parse_objective({"maximize": "hbm_bytes"}, False).direction == "maximize"


@pytest.mark.parametrize(
    ("raw", "portfolio", "message"),
    [
        ("ttft_s", False, "should be maximize: METRIC or minimize: METRIC"),
        ({"minimize": "ttft_s", "maximize": "chips"}, False, "should be maximize: METRIC"),
        ({"minimise": "ttft_s"}, False, "unknown direction 'minimise'; did you mean 'minimize'"),
        ({"minimize": "tftt_s"}, False, "no metric is called 'tftt_s'; did you mean 'ttft_s'"),
        ({"minimize": 3}, False, "should be a metric"),
        ({"minimize": "ttft_s + tpot_s"}, False, "should be a metric"),
        ({"maximize": "ttft_s"}, False, "ttft_s is better lower; it should be minimized"),
        ({"minimize": "tokens_per_s"}, False, "better higher; it should be maximized"),
        ({"minimize": "mean(ttft_s)"}, False, "is over a portfolio, which this study has not"),
        ({"minimize": "ttft_s"}, True, "one value for each assignment here; say mean(ttft_s) or"),
        ({"minimize": "avg(ttft_s)"}, True, "unknown function 'avg'; valid names: mean, worst"),
        ({"minimize": "mean(tdp_w)"}, True, "is the same for all assignments; say it without mean"),
        ({"maximize": "worst_regret(ttft_s)"}, True, "is a loss; it should be minimized"),
        ({"minimize": "worst_regret(chips)"}, True, "no best value"),
        ({"maximize": "mean(ttft_s)"}, True, "it should be minimized"),
    ],
)
def test_refused_objectives(raw: object, portfolio: bool, message: str) -> None:
    with pytest.raises(SpaceError) as error:
        parse_objective(raw, portfolio)
    assert message in str(error.value)
