"""`dse validate` on synthetic records: tables, the JSON contract, gaps, the page, and messages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dse.cli.app import main
from dse.validation import bars, gaps, intervals, residuals, text
from dse.validation.collect import Wanted
from dse.validation.record import BARS, Record
from dse.validation.report import report
from dse.validation.statistics import NONE

CHIPS = ("v5e", "v6e", "v7x")


def synthetic(sigma: float = 0.03, seed: int = 0) -> list[Record]:
    """Matmul rows of three chips, 12 groups each, decode rows with a bias, and two that fail."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(108):
        truth = float(np.exp(rng.normal(0, 1)))
        rows.append(
            Record(
                id=f"mm{i}",
                source=f"lab {i // 9}",
                stack="",
                tpu=CHIPS[i % 3],
                kind="matmul",
                model="gemm",
                confidence="A",
                predicted=truth * float(np.exp(rng.normal(0, sigma))),
                measured=truth,
                unit="TFLOP/s",
                roofline=2.0 + truth,
                peak=9.0,
                higher_is_better=True,
                bars=("microbenchmarks",),
                features={"log_peak_flops": float(i % 3)},
            )
        )
    serve = replace(rows[0], kind="serve", source="engine <&> co", stack="engine 1", unit="s")
    serve = replace(serve, higher_is_better=False, bars=("serve_fixed",), model="m")
    rows += [
        replace(serve, id=f"sv{i}", predicted=1.0, measured=2.0, bound_by="hbm 80 %")
        for i in range(3)
    ]
    rows.append(
        replace(serve, id="sk1", predicted=None, bars=(), reason_if_skipped="tp is not stated")
    )
    return rows


class Command:
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
def dse(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    rows = synthetic()
    table = [
        *residuals.of_records(rows),
        *residuals.of_records(rows[:108], residuals.LEFT_OUT),
    ]

    def collect(
        file: Path | None, wanted: Wanted, *, with_host: bool = True
    ) -> tuple[list[Record], list[Record]]:
        return [r for r in rows if wanted(r)], []

    monkeypatch.setattr("dse.validation.collect.collect", collect)
    monkeypatch.setattr("dse.validation.collect.explained", lambda _, records, **__: records)
    monkeypatch.setattr("dse.validation.collect.left_out", lambda wanted: rows[:108])
    monkeypatch.setattr("dse.validation.residuals.released", lambda: tuple(table))
    monkeypatch.setattr(
        "dse.validation.intervals.calibration", lambda: intervals.Calibration(table)
    )
    return Command(capsys)


def test_tables_have_every_row_and_what_was_skipped(dse: Command) -> None:
    code, out, err = dse("validate")
    assert code == 0, err
    assert "lab 0" not in out and out.index("The bar") < out.index("All sources")
    code, out, err = dse("validate", "--details")
    assert code == 0, err
    assert "engine <&> co" in out and "lab 0" in out
    assert "matmul and HBM microbenchmarks" in out and "no rows" in out
    assert "sk1" in out and "tp is not stated" in out
    assert "order of efficiency, matmul on v6e" in out


def test_skipped_rows_are_shown_by_reason() -> None:
    lost = replace(synthetic()[-1], kind="serve")
    rows = [replace(lost, id=f"r{i}", reason_if_skipped="a" if i < 5 else "b") for i in range(6)]
    assert text.skipped_groups(rows) == [
        ["serve", "a", 5, "r0, r1, ..."],
        ["serve", "b", 1, "r5"],
    ]


def test_shortened_sources_stay_apart() -> None:
    long = [f"recipes@abc123 training/{'x' * 60}/{end}.md" for end in ("one", "two")]
    inside = [f"tpu-recipes@abc123 {middle}/{'y' * 60}" for middle in ("one", "two")]
    names = text.short_names([*long, *inside, "short"])
    assert len(set(names.values())) == 5 and names["short"] == "short"
    assert all(len(names[s]) <= text.SOURCE_WIDTH for s in long)
    assert names[inside[0]] == inside[0]  # cut, the two would be alike


def test_json_contract(dse: Command) -> None:
    found = dse.json("validate")
    assert len(found["rows"]) == 112
    keys = {"id", "kind", "tpu", "class", "predicted", "measured", "low", "high", "unit"}
    assert all(keys | {"reason_if_skipped"} <= set(row) for row in found["rows"])
    by_id = {row["id"]: row for row in found["rows"]}
    assert by_id["sk1"]["predicted"] is None and "tp" in by_id["sk1"]["reason_if_skipped"]
    assert by_id["mm0"]["low"] < by_id["mm0"]["predicted"] < by_id["mm0"]["high"]
    assert by_id["mm0"]["reason_if_skipped"] is None
    lines = {(line["name"], line["statistic"]): line for line in found["bars"]}
    micro = lines["microbenchmarks", "median"]
    assert micro["met"] is True and micro["low"] < micro["value"] < micro["high"]
    assert lines["serve_fixed", "median"]["met"] is False
    assert lines["gpu_moe", "median"]["met"] is None
    left = lines["left_out", "median"]
    assert left["n"] == 108 and left["value"] == pytest.approx(micro["value"], rel=0.01)
    (pooled,) = [s for s in found["summary"] if s["kind"] == "matmul" and s["tpu"] is None]
    assert pooled["n"] == 108 and pooled["source"] is None and pooled["median"]["value"] > 0


def test_coverage_line_is_of_rows_never_fitted(dse: Command) -> None:
    found = dse.json("validate")
    line = next(line for line in found["bars"] if line["name"] == "coverage_tpu")
    held = [r for r in found["rows"] if r["held_out"] and r["low"] is not None]
    assert line["n"] == len(held) < 112
    inside = np.mean([r["low"] <= r["measured"] <= r["high"] for r in held])
    assert line["value"] == pytest.approx(inside)


def test_filters_and_their_mistakes(dse: Command) -> None:
    rows = dse.json("validate", "--tpu", "trillium", "--kind", "matmul")["rows"]
    assert {r["tpu"] for r in rows} == {"v6e"} and {r["kind"] for r in rows} == {"matmul"}
    assert len(dse.json("validate", "--source", "engine")["rows"]) == 4
    for arguments, words in (
        (("--kind", "matmull"), "matmul"),
        (("--tpu", "v6x"), "v6e"),
        (("--source", "nowhere"), "drop one"),
        (("--leave-one-generation-out", "--measurements", "x.csv"), "one of the two"),
    ):
        code, _, err = dse("validate", *arguments)
        assert code == 2 and words in err and err.count("\n") == 1, err


def test_a_generation_left_out(dse: Command) -> None:
    found = dse.json("validate", "--leave-one-generation-out")
    assert len(found["rows"]) == 108
    line = next(line for line in found["bars"] if line["name"] == "coverage_tpu")
    assert line["n"] == 108  # no row was fitted


def test_gaps(dse: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    found = dse.json("validate", "--gaps")
    (gap,) = [g for g in found["gaps"] if g["kind"] == "serve"]
    assert gap["rows"] == ["sv0", "sv1", "sv2"] and gap["errors"] == [-0.5] * 3
    assert gap["cause"] == gaps.UNKNOWN_CAUSE and gap["bound_by"] == "hbm 80 %"
    assert found["skipped"][0]["id"] == "sk1" and any("serving" in m for m in found["missed"])
    causes = gaps.parse(
        "- {rows: {kind: [serve], source: engine}, cause: host time, settles: a trace}\n"
    )
    monkeypatch.setattr("dse.validation.gaps.released", lambda: causes)
    code, out, _ = dse("validate", "--gaps")
    assert code == 0 and "host time" in out and "a trace" in out and "sv1" in out


def test_causes_are_checked() -> None:
    for entry in ("- {rows: {}, cause: x}", "- {rows: {speed: 3}, cause: x, settles: y}"):
        with pytest.raises(gaps.GapsError, match="entry 0"):
            gaps.parse(entry)
    record = synthetic()[0]
    assert gaps.Cause({"bar": ["microbenchmarks"]}, "", "").explains(record)
    assert not gaps.Cause({"kind": ["hbm"]}, "", "").explains(record)
    assert gaps.limit_of(record) == 0.12 and gaps.limit_of(replace(record, bars=())) is None


def test_page_is_self_contained_and_well_formed(dse: Command, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    code, out, err = dse("validate", "--html", path)
    assert code == 0 and str(path) in out, err
    html = path.read_text("utf-8")
    assert "http" not in html and "<script" not in html
    assert "engine &lt;&amp;&gt; co" in html and "engine <&> co" not in html
    assert "prefers-color-scheme: dark" in html and "measured, TFLOP/s" in html
    ET.fromstring(html.split("\n", 1)[1].replace("&nbsp;", " "))
    for piece in html.split("<svg role")[1:]:
        svg = ET.fromstring("<svg role" + piece.split("</svg>")[0] + "</svg>")
        assert svg.find("title") is not None and svg.find("desc") is not None
    assert html.count("<circle") + html.count("<rect") + html.count("<path") > 111


def test_the_host_pair_is_named_only_where_there_is_one() -> None:
    rows = [r for r in synthetic() if r.bars == ("serve_fixed",)]
    for hosted, words in ((0, ""), (2, ", with the stack's host pair (2 of 3)"), (3, "host pair")):
        lines = bars.table(rows, without_host=rows[:hosted])
        (title,) = [line.title for line in lines if line.name == "serve_fixed"]
        assert title.endswith(words) and ("host" in title) == bool(hosted)


def test_a_plot_of_one_row_has_an_axis() -> None:
    from dse.validation import plot

    row = replace(synthetic()[0], measured=0.0061, predicted=0.0061, low=None, high=None)
    assert "<circle" in plot.scatter("one", [row], CHIPS)


def test_every_target_has_a_known_name() -> None:
    assert set(bars.targets()) == set(BARS)


def test_lines_without_rows_are_undecided() -> None:
    lines = bars.table([])
    assert all(line.met is None and line.figure == NONE for line in lines)
    assert report([], lines).sets == ()


def test_predictions_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dse.validation import saved

    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(saved, "state", lambda: "one")
    rows = synthetic()
    assert saved.load("tpu") is None
    saved.keep("tpu", rows)
    assert saved.load("tpu") == rows
    monkeypatch.setattr(saved, "state", lambda: "two")  # the equations have changed
    assert saved.load("tpu") is None
    saved.keep("tpu", rows[:3])
    assert saved.load("tpu") == rows[:3] and len(list(tmp_path.glob("validation/*"))) == 1
    next(tmp_path.glob("validation/*")).write_text("damaged")
    assert saved.load("tpu") is None
