"""Intervals where a study's numbers are shown: saved with the front, read when shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse import open_results
from dse.cli.app import main
from dse.metrics import Metric
from dse.testing import FakeScorer, FakeSpec, run_fake
from dse.validation import evidence
from dse.validation.evidence import Case, interval, kind_of
from dse.validation.intervals import Calibration
from dse.validation.residuals import Residual
from hwmodel.rungs import apart


def metric(name: str, source: str) -> Metric:
    return Metric(name, "", "higher", "assignment", "", interval=source)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Calibration:
    rng = np.random.default_rng(0)
    residuals = [
        Residual(
            id=f"s{i}",
            kind="serve",
            tpu="v5e",
            group=f"g{i // 3}",
            held_out=True,
            fold="released",
            log_residual=float(rng.normal(0, 0.1)),
            features={"log_peak_flops": float(rng.uniform(-1, 0.5))},
        )
        for i in range(60)
    ]
    found = Calibration(residuals)
    known = {
        "ops_per_s": metric("ops_per_s", "serve"),
        "area_mm2": metric("area_mm2", "draws"),
        "joules_per_op": metric("joules_per_op", "serve, area_mm2"),
        "power_w": metric("power_w", "prefill"),
    }
    monkeypatch.setattr("dse.validation.intervals.calibration", lambda: found)
    monkeypatch.setattr("dse.validation.evidence.metrics", lambda: known)
    return found


CASE = Case({"serve": [{"log_peak_flops": 0.0}]}, False, False, {"area_mm2": (0.9, 1.2)})


def test_speed_and_estimates_add_in_quadrature(source: Calibration) -> None:
    speed = interval("ops_per_s", 100.0, CASE, source)
    area = interval("area_mm2", 50.0, CASE, source)
    both = interval("joules_per_op", 2.0, CASE, source)
    assert speed and area and both
    assert speed.evidence == "measured serving, n=60" and area.evidence == "estimate range"
    assert both.evidence == "measured serving, n=60 and estimate range"
    assert (area.low, area.high) == pytest.approx((45.0, 60.0))
    half = math.log(speed.high / 100)
    assert math.log(100 / speed.low) == pytest.approx(half)
    assert math.log(both.high / 2) == pytest.approx(math.hypot(half, math.log(1.2)))
    assert math.log(2 / both.low) == pytest.approx(math.hypot(half, math.log(1 / 0.9)))


def test_far_from_what_was_measured_is_wider(source: Calibration) -> None:
    far = replace(CASE, features={"serve": [{"log_peak_flops": 12.0}]})
    near, wide = (interval("ops_per_s", 1.0, case, source) for case in (CASE, far))
    assert near and wide and wide.widened > 2 and wide.high > near.high
    both = replace(CASE, features={"serve": [*CASE.features["serve"], *far.features["serve"]]})
    assert interval("ops_per_s", 1.0, both, source) == wide  # of a portfolio the farthest counts
    assert interval("mean(ops_per_s)", 1.0, both, source) == wide
    assert interval("chat.ops_per_s", 1.0, both, source) == wide


def test_of_the_tile_rung_the_distance_between_the_rungs_adds_up(source: Calibration) -> None:
    tile = replace(CASE, tile=True)
    plain, wide = (interval("ops_per_s", 100.0, case, source) for case in (CASE, tile))
    assert plain and wide
    between = apart("serve", moe=False)
    assert math.log(wide.high / plain.high) == pytest.approx(between)
    assert math.log(plain.low / wide.low) == pytest.approx(between)
    share = f"{math.expm1(between):.0%}"
    assert wide.evidence == (
        f"measured serving, n=60, by the analytical rung, and {share} that the rungs lie apart"
    )
    experts = interval("ops_per_s", 100.0, replace(tile, moe=True), source)
    assert experts and experts.high > wide.high
    area = interval("area_mm2", 50.0, tile, source)
    assert area == interval("area_mm2", 50.0, CASE, source)  # no time in it


def test_no_interval_without_evidence(source: Calibration) -> None:
    unknown = Case({}, False, False, {})
    assert interval("joules_per_op", 1.0, unknown, source) is None  # half of it is unknown
    assert interval("area_mm2", 1.0, unknown, source) is None
    assert interval("worst_regret(ops_per_s)", 0.1, CASE, source) is None
    assert interval("ops_per_s", float("nan"), CASE, source) is None
    assert interval("no_such_metric", 1.0, CASE, source) is None
    gpu = replace(CASE, gpu=True)
    assert interval("ops_per_s", 1.0, gpu, source) is None  # TPU rows say nothing of a GPU


def test_an_estimate_range_keeps_the_value_inside(source: Calibration) -> None:
    skewed = replace(CASE, estimates={"area_mm2": (1.05, 1.3)})
    found = interval("area_mm2", 10.0, skewed, source)
    assert found and found.low == 10.0 and found.high == pytest.approx(13.0)


def test_cases_survive_the_file() -> None:
    for case in (CASE, replace(CASE, tile=True)):
        assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case
    with pytest.raises((KeyError, TypeError, ValueError)):
        Case.from_json({"features": {}})


def test_kinds_of_classes() -> None:
    assert kind_of("train", moe=True, gpu=False) == "train_moe"
    assert kind_of("train", moe=False, gpu=False) == "train_dense"
    assert kind_of("decode", moe=True, gpu=True) == "gpu_tpot"
    assert kind_of("prefill", moe=True, gpu=True) == "gpu_ttft"


def test_every_metric_takes_its_interval_from_something_known() -> None:
    from dse.metrics import metrics

    exact = {"quality_loss_nats", "chips", "kv_bytes_per_token", "weight_bytes_per_chip"}
    exact |= {"hbm_bytes", "kept_bytes_per_chip", "parameters_per_chip"}
    for name, known in metrics().items():
        parts = known.interval.split(", ") if known.interval else []
        assert parts or name in exact, f"{name} says nothing of its interval"
        for part in parts:
            assert part in (*evidence.CLASSES, "draws", *metrics()), name
            if part in metrics():
                assert metrics()[part].interval == "draws", name


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSpec]:
    spec = FakeSpec(tmp_path / "fake.yaml", text="name: fake\n")
    spec.path.write_text(spec.text)
    monkeypatch.setattr("dse.spec.load", lambda _: spec)
    monkeypatch.setattr("dse.runner.build_scorer", lambda _: FakeScorer())
    monkeypatch.chdir(tmp_path)
    run_fake(tmp_path, spec=spec, trials=60)
    yield spec


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_front_show_and_explain_carry_intervals(
    study: FakeSpec, source: Calibration, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = command(capsys, "front", "fake")
    assert code == 0, err
    assert "-10 +10%" in out and "80 % intervals of area_mm2: estimate range." in out
    assert "measured serving, n=60, widened up to" in out
    _, plain, _ = command(capsys, "front", "fake", "--no-intervals")
    assert "-10 +10%" not in plain and "80 % intervals" not in plain
    rows: list[dict[str, Any]] = json.loads(command(capsys, "front", "fake", "--json")[1])
    for row in rows:
        ends = row["intervals"]["ops_per_s"]
        assert ends["low"] < row["metrics"]["ops_per_s"] < ends["high"]
        assert set(ends) == {"low", "high", "evidence", "widened"}
        pooled = row["intervals"]["power_w"]["evidence"]  # no prefill row of its own
        assert pooled == "measured prefill, decode and serving, n=60"
    number = rows[0]["number"]
    _, out, _ = command(capsys, "show", "fake", "--trial", number)
    assert "estimate range" in out and " to " in out
    shown = json.loads(command(capsys, "show", "fake", "-t", number, "--json")[1])
    assert shown["intervals"] == rows[0]["intervals"]
    frame = open_results("fake").front()
    assert (frame["area_mm2_low"] < frame["area_mm2"]).all()
    known = json.loads(command(capsys, "show", "fake", "-t", "fake as it is", "--json")[1])
    assert known["intervals"]["area_mm2"]["evidence"] == "estimate range"


def test_results_without_the_file_say_how_to_get_it(
    study: FakeSpec, source: Calibration, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = study.path.parent / "results" / "fake" / "uncertainty.json"
    text = saved.read_text()
    saved.unlink()
    code, out, _ = command(capsys, "front", "fake")
    assert code == 0 and "dse run on the study file" in out
    rows = json.loads(command(capsys, "front", "fake", "--json")[1])
    assert all(row["intervals"] is None for row in rows)
    for damage in ("{", "[]", '{"model_version": "fake-1", "points": [{}], "known": {}}'):
        saved.write_text(damage)
        code, _, err = command(capsys, "front", "fake")
        assert code == 2 and "uncertainty.json is damaged" in err
    run_fake(study.path.parent, spec=study, trials=60)
    assert saved.read_text() == text


def test_intervals_never_change_what_is_stored(study: FakeSpec, source: Calibration) -> None:
    before = (study.path.parent / "results" / "fake" / "log.jsonl").read_bytes()
    open_results("fake").front()
    assert (study.path.parent / "results" / "fake" / "log.jsonl").read_bytes() == before
