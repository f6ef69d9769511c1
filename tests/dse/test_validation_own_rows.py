"""`dse validate --measurements`: a user's file through the real equations, and its mistakes."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dse.cli.app import main

DOCS = Path(__file__).parents[2] / "docs" / "validation.md"


def example() -> str:
    """The CSV that the documentation shows."""
    (found,) = re.findall(r"```csv\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    return str(found)


def validate(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *options: str,
) -> tuple[int, str, str]:
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # no pool: the rows share one compilation
    with pytest.raises(SystemExit) as caught:
        main(["validate", "--measurements", str(path), *(options or ("--json",))])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


def test_the_documented_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """arch as a catalog name, as a path from the CSV's folder, and as JSON; one row lacks a
    field."""
    from models.huggingface.catalog import resolve

    catalog = Path(__file__).parents[2] / "models" / "catalog"
    (config,) = catalog.rglob(f"{resolve('Meta-Llama-3.1-8B')}*.json")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(config.read_text("utf-8"))
    path = tmp_path / "mine.csv"
    path.write_text(example(), encoding="utf-8")
    code, out, err = validate(path, capsys, monkeypatch)
    assert code == 0, err
    rows: dict[str, Any] = {row["id"]: row for row in json.loads(out)["rows"]}
    assert len(rows) == 4 and {row["kind"] for row in rows.values()} == {"matmul", "decode"}
    by_name, by_path, lacking = rows["name"], rows["path"], rows["lacking"]
    assert by_name["predicted"] == pytest.approx(by_path["predicted"]) and by_name["unit"] == "s"
    assert 0.001 < by_name["predicted"] < 0.1 and by_name["reason_if_skipped"] is None
    assert rows["product"]["unit"] == "TFLOP/s" and 100 < rows["product"]["predicted"] < 197
    assert lacking["predicted"] is None and "in_len" in lacking["reason_if_skipped"]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("value_std", "fast", "mine.csv:3: value_std 'fast' is not a number"),
        ("confidence", "D", "mine.csv:3: confidence 'D' is not A, B or C"),
        ("metric_std", "tpot", "mine.csv:3: metric_std 'tpot' is unknown"),
        ("model", "", "mine.csv:3: model is empty"),
    ],
)
def test_a_mistake_is_one_message_with_its_line(
    column: str,
    value: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = list(csv.DictReader(example().splitlines()))
    rows[1][column] = value
    path = tmp_path / "mine.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    code, out, err = validate(path, capsys, monkeypatch)
    assert code == 2 and words in err and not out and err.count("\n") == 1, err


def product_rows(tmp_path: Path) -> Path:
    """Three matmuls: one as measured, one far from it, one above the peak."""
    rows = [row for row in csv.DictReader(example().splitlines()) if row["id"] == "product"]
    values = {"near": "185", "far": "20", "above": "400"}
    path = tmp_path / "mine.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**rows[0], "id": name, "value_std": v} for name, v in values.items())
    return path


def test_own_rows_come_first_and_no_bar_of_the_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = product_rows(tmp_path)
    code, out, err = validate(path, capsys, monkeypatch, "--html", str(tmp_path / "page.html"))
    assert code == 0, err
    places = [out.index(words) for words in ("Your rows", "Summary of your rows", "1 of your 3")]
    assert places == sorted(places)
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert lines["near"].endswith("yes ") and lines["far"].endswith("no ") and "[" in lines["far"]
    assert "is above the 196.6 TFLOP/s" in lines["above"]
    html = (tmp_path / "page.html").read_text("utf-8")
    for text in (out, html):
        assert "The bar" not in text and "host pair" not in text and "PaLM" not in text


def test_own_rows_as_json_and_gaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = product_rows(tmp_path)
    _, out, _ = validate(path, capsys, monkeypatch)
    found = json.loads(out)
    assert found["bars"] == []
    rows = {row["id"]: row for row in found["rows"]}
    assert rows["near"]["inside"] is True and rows["far"]["inside"] is False
    assert rows["far"]["error"] == pytest.approx(rows["far"]["predicted"] / 20 - 1)
    assert rows["above"]["inside"] is None and rows["above"]["error"] is None
    code, out, _ = validate(path, capsys, monkeypatch, "--gaps")
    assert code == 0 and "1 row of yours outside" in out and "targets" not in out
    assert "rows: far" in out and "bound by" in out


def test_places_that_cannot_be_used_are_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dse.validation.collect.collect", pytest.fail)  # nothing is predicted
    path = product_rows(tmp_path)
    for options, words in (
        (("--html", str(tmp_path / "no" / "x.html")), "there is no folder"),
        (("--html", str(tmp_path)), "is a folder"),
        (("--html", str(path)), "is no HTML page"),
        (("--kind", "foo"), "train_moe"),
        (("--kind", "foo"), "gpu_tpot"),
    ):
        code, _, err = validate(path, capsys, monkeypatch, *options)
        assert code == 2 and words in err and err.count("\n") == 1, err
    assert path.read_text("utf-8").startswith("id,")
    monkeypatch.undo()
    for place, words in ((tmp_path, "is a folder"), (tmp_path / "none.csv", "there is no file")):
        code, _, err = validate(place, capsys, monkeypatch)
        assert code == 2 and words in err and err.count("\n") == 1, err
