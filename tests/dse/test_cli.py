"""The command line on the fake study: outputs, JSON contracts, and one message per mistake."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dse.cli.app import main
from dse.testing import FakeScorer, FakeSpec, Faults

TEXT = "name: fake\nsearch: {trials: 80}\nchip: {base: a}\n"


class Command:
    """Runs `dse ...` in this process; returns (exit code, stdout, stderr)."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        return int(caught.value.code or 0), out, err

    def json(self, *arguments: object) -> Any:
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        return json.loads(out, parse_constant=pytest.fail)


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSpec:
    path = tmp_path / "fake.yaml"
    path.write_text(TEXT)
    base = FakeSpec(path, text=TEXT)
    spec = replace(base, search=replace(base.search, trials=80, population=20))
    monkeypatch.setattr("dse.spec.load", lambda _: spec)
    monkeypatch.setattr("dse.runner.build_scorer", lambda _: FakeScorer())
    monkeypatch.chdir(tmp_path)
    return spec


@pytest.fixture
def dse(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


def test_run_prints_the_front_with_the_known_chip(spec: FakeSpec, dse: Command) -> None:
    code, out, err = dse("run", spec.path, "--workers", "0")
    assert code == 0 and "80 trials" in out and "fake as it is" in out
    assert "\x1b[" not in out  # not a terminal
    code, out, err = dse("run", spec.path, "--workers", "0")
    assert "all 80 trials were finished before" in err and "fake as it is" in out


def test_run_json_and_quiet(spec: FakeSpec, dse: Command) -> None:
    facts = dse.json("run", spec.path, "--workers", "0")
    assert facts["trials"] == 80 and facts["interrupted"] is False
    assert facts["known"][0]["known"] == "fake as it is"
    assert dse("run", spec.path, "--restart", "--quiet", "--workers", "0") == (0, "", "")
    assert (spec.path.parent / "results" / "fake.1" / "log.jsonl").exists()


def test_front_json_contract(spec: FakeSpec, dse: Command) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    rows = dse.json("front", spec.path)
    assert rows
    for row in rows:
        assert {"number", "params", "metrics", "constraints", "feasible"} <= set(row)
        assert isinstance(row["number"], int) and row["feasible"] is True
        assert all(isinstance(v, str) for v in row["params"].values())
        assert all(v <= 0 for v in row["constraints"].values())
        assert {"ops_per_s", "joules_per_op", "area_mm2"} <= set(row["metrics"])
    with_known = dse.json("front", "fake", "--known")
    assert with_known[:-1] == rows and with_known[-1]["known"] == "fake as it is"
    assert dse.json("front", spec.path.parent / "results" / "fake") == rows


def test_probabilities_are_saved_and_shown(spec: FakeSpec, dse: Command) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    saved = spec.path.parent / "results" / "fake" / "feasibility.json"
    rows = dse.json("front", "fake", "--known")
    shares = [row["p_feasible"] for row in rows]
    assert all(set(s) == {"legality", "power_w <= 60", "area_mm2 <= 300", "joint"} for s in shares)
    assert {s["joint"] for s in shares} == {0.75, 1.0}
    _, out, _ = dse("front", "fake")
    assert "75% power_w" in out and "dse validate shows" in out
    doubtful = next(row for row in rows if row["p_feasible"]["joint"] < 1)
    shown = dse.json("show", "fake", "--trial", doubtful["number"])
    assert shown["p_feasible"] == doubtful["p_feasible"] and "dse validate" in shown["notes"][0]
    status = dse.json("status", "fake")
    assert status["p_feasible"]["points"] == status["front"]
    assert status["p_feasible"]["lowest"] == 0.75
    log = saved.with_name("log.jsonl").read_bytes()
    for damage in ("{", "[]", '{"model_version": "fake-1", "points": [{}], "known": {}}'):
        saved.write_text(damage)
        code, out, err = dse("front", "fake")
        assert code == 2 and "feasibility.json is damaged" in err and "dse run" in err
    assert dse("run", spec.path, "--workers", "0", "-q")[0] == 0  # which writes it anew
    assert dse.json("front", "fake", "--known") == rows
    saved.unlink()
    assert dse.json("front", "fake")[0]["p_feasible"] is None
    assert dse("front", "fake")[0] == 0
    assert saved.with_name("log.jsonl").read_bytes() == log


def test_assumptions_are_marked_in_every_output(
    spec: FakeSpec, dse: Command, tmp_path: Path
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    meta = tmp_path / "results" / "fake" / "meta.json"
    facts = json.loads(meta.read_text())
    assert facts["assumptions"] == [] and len(facts["notes"]) == 1
    band = {"knob": "bits", "choice": "8", "low": 0.0, "high": 0.02}
    meta.write_text(json.dumps(facts | {"assumptions": [band]}))
    text = "bits 8: 0 to 0.02 nats/token"
    rows = dse.json("front", "fake")
    assert all(r["assumptions"] == [band] * (r["params"]["bits"] == "8") for r in rows)
    using = next(row["number"] for row in rows if row["assumptions"])
    assert dse.json("show", "fake", "--trial", using)["assumptions"] == [band]
    assert dse.json("status", "fake")["assumptions"] == [band]
    for command in (("front",), ("front", "--format", "csv"), ("show", "-t", using), ("status",)):
        code, out, _ = dse(command[0], "fake", *command[1:])
        assert code == 0 and text in out, command


def test_front_formats_sort_and_top(spec: FakeSpec, dse: Command, tmp_path: Path) -> None:
    import pandas as pd

    dse("run", spec.path, "--workers", "0", "-q")
    code, out, _ = dse("front", "fake", "--format", "csv", "--sort", "ops_per_s", "--top", 3)
    rows = list(csv.DictReader(io.StringIO(out)))
    rates = [float(row["ops_per_s"]) for row in rows]
    assert code == 0 and len(rows) == 3 and rates == sorted(rates, reverse=True)
    _, out, _ = dse("front", "fake", "--format", "csv", "--sort", "-ops_per_s")
    rates = [float(row["ops_per_s"]) for row in csv.DictReader(io.StringIO(out))]
    assert rates == sorted(rates)
    path = tmp_path / "front.parquet"
    assert dse("front", "fake", "--format", "parquet", "-o", path)[0] == 0
    assert len(pd.read_parquet(path)) == len(rates)
    code, out, _ = dse("front", "fake", "--params")
    assert code == 0 and "fake as it is" in out and "clock_ghz" in out
    code, out, _ = dse("front", "fake", "--no-known")
    assert "fake as it is" not in out


def test_show_explain_status_list_journal(spec: FakeSpec, dse: Command, tmp_path: Path) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    number = dse.json("front", "fake")[0]["number"]
    shown = dse.json("show", "fake", "--trial", number)
    assert shown["number"] == number and shown["solved"] == {"batch": "64"}
    assert shown["mappings"][0]["deployment"] == {"batch": "32"}
    code, out, _ = dse("show", "fake", "--trial", number)
    assert code == 0 and "64 (solved)" in out and "power_w <= 60" in out
    (operator,) = dse.json("explain", "fake", "--trial", number)
    assert {"phase", "name", "time_s", "bytes", "flops", "bound_by"} <= set(operator)
    code, out, _ = dse("explain", "fake", "--trial", number, "--mapping", 0)
    assert code == 0 and "matmul" in out and "1 ms" in out and "100.0%" in out
    assert dse.json("status", "fake")["state"] == "finished"
    code, out, _ = dse("status", "fake")
    assert code == 0 and "80 of 80" in out and "vmem_overflow" in out
    (listed,) = dse.json("list")
    assert listed["name"] == "fake" and listed["trials"] == 80
    path = tmp_path / "x.journal"
    assert dse.json("journal", "fake", "-o", path)["trials"] == 80 and path.exists()
    assert dse("journal", "fake", "-o", path)[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "fake", "--trial", 99), "fake has no trial 99; there are 0 to 79"),
        (("explain", "fake", "--trial", 0, "--mapping", 7), "keeps 1 other mappings"),
        (("front", "fake", "--sort", "ops_per_sec"), "the nearest is ops_per_s"),
        (("front", "fakee"), "the nearest is fake"),
        (("front", "fake", "--format", "parquet"), "needs --output"),
        (("run", "fake.yaml", "--workers", "many", "--restart"), "--workers takes auto"),
    ],
)
def test_mistakes_are_one_message(
    spec: FakeSpec, dse: Command, arguments: tuple[object, ...], message: str
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    code, out, err = dse(*arguments)
    assert code == 2 and message in err and "Traceback" not in err + out


def test_a_changed_study_file_is_refused_and_nothing_is_lost(
    spec: FakeSpec, dse: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    log = spec.path.parent / "results" / "fake" / "log.jsonl"
    before = log.read_bytes()
    changed = replace(spec, text=TEXT.replace("base: a", "base: b"), fingerprint="other")
    monkeypatch.setattr("dse.spec.load", lambda _: changed)
    for command in (("run", spec.path), ("explain", "fake", "--trial", 0)):
        code, _, err = dse(*command)
        assert code == 2 and "Traceback" not in err
        assert 'fake.yaml:3: chip.base: was "a", is "b"' in err
        assert "--restart: these results are kept as fake.1" in err
    assert log.read_bytes() == before
    assert dse("front", "fake")[0] == 0  # reading needs no study file


def test_another_model_version_is_refused(
    spec: FakeSpec, dse: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    longer = replace(spec, search=replace(spec.search, trials=100))
    monkeypatch.setattr("dse.spec.load", lambda _: longer)
    monkeypatch.setattr("dse.runner.build_scorer", lambda _: FakeScorer(version="fake-2"))
    code, _, err = dse("run", spec.path, "--workers", "0")
    assert code == 2 and "model version fake-1, this is fake-2" in err


def test_a_damaged_log_is_one_message(spec: FakeSpec, dse: Command) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    log = spec.path.parent / "results" / "fake" / "log.jsonl"
    damaged = log.read_bytes().replace(b"area_mm2", b"area_cm2", 1)
    log.write_bytes(damaged)
    for command in (("front", "fake"), ("run", spec.path), ("status", "fake")):
        code, _, err = dse(*command)
        assert code == 2 and "log.jsonl, line 2 is damaged" in err and "head -n 1" in err
    assert dse.json("list")[0]["state"] == "damaged"
    assert log.read_bytes() == damaged


def test_a_defect_of_ours_leaves_a_log_and_no_traceback(
    spec: FakeSpec, dse: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FakeScorer(Faults(all_errors=True))
    monkeypatch.setattr("dse.runner.build_scorer", lambda _: broken)
    code, out, err = dse("run", spec.path, "--workers", "0")
    assert code == 1 and "Traceback" not in out + err
    assert "internal error, please report it" in err
    path = Path(err.partition("details in ")[2].partition(";")[0])
    assert "EvaluationError" in path.read_text() and path.parent.name == "fake"


def test_a_place_that_cannot_be_written_is_one_message(
    spec: FakeSpec, dse: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    code, _, err = dse("run", spec.path, "--results", tmp_path / "file", "--workers", "0")
    assert code == 2 and err.strip().endswith("file/fake: Not a directory")


def test_what_a_study_can_name(dse: Command) -> None:
    model = dse.json("models", "show", "Meta-Llama-3.1-70B")
    assert {"name", "parameters_total", "parameters_active", "kv_bytes_per_token", "layers"} <= set(
        model
    )
    assert model["layers"] == 80 and model["kv_bytes_per_token"] == 327_680
    assert len(dse.json("models")) > 100 and dse.json("models", "list") == dse.json("models")
    assert "v6e" in [chip["name"] for chip in dse.json("chips")]
    field = dse.json("chips", "show", "v6e")["fields"]["clock_hz"]
    assert field["source"] and field["unit"] == "Hz"
    assert "ttft_s" in [metric["name"] for metric in dse.json("metrics")]
    assert "mxu_dim" in [knob["name"] for knob in dse.json("knobs")["knobs"]]
    for command in (("models", "show", "Llama-9"), ("chips", "show", "v6x")):
        code, _, err = dse(*command)
        assert code == 2 and "Traceback" not in err
    for command in (("models",), ("chips",), ("chips", "show", "v6e"), ("metrics",), ("knobs",)):
        code, out, _ = dse(*command)
        assert code == 0 and len(out) > 500
