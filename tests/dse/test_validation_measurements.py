"""Reading measured rows: the published file, and what a user's file may get wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dse.errors import UserError
from dse.validation import measurements
from dse.validation.measurements import Measurement, MissingField, published, read

COLUMNS = "id,source,tpu,model,workload_kind,confidence,metric_std,value_std,chips,fsdp"


def _file(tmp_path: Path, *lines: str, header: str = COLUMNS) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_the_published_file_has_every_row_of_the_collection() -> None:
    rows = published()
    assert len(rows) == 190
    assert {row.confidence for row in rows} == {"A", "B", "C"}
    assert sum(row.held_out for row in rows) == 79


def test_empty_cells_stay_unknown(tmp_path: Path) -> None:
    (row,) = read(_file(tmp_path, "a,me,v5e,m,train,A,step_s,1.5,,8"))
    assert row.value_std == 1.5 and row.fsdp == 8
    assert row.chips is None and row.remat == ""
    with pytest.raises(MissingField, match="chips is not stated"):
        row.number("chips")
    with pytest.raises(MissingField, match="remat is not stated"):
        row.text("remat")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,me,v5e,m,train,A,step_s,fast,8,8", r"rows.csv:2: value_std 'fast' is not a number"),
        ("a,me,v5e,m,train,A,step_s,-1,8,8", r"rows.csv:2: value_std must be above 0"),
        ("a,me,v5e,m,train,D,step_s,1,8,8", r"rows.csv:2: confidence 'D' is not A, B or C"),
        ("a,me,v5e,m,train,A,steps,1,8,8", r"rows.csv:2: metric_std 'steps' is unknown.*step_s"),
        ("a,me,,m,train,A,step_s,1,8,8", r"rows.csv:2: tpu is empty"),
        ("a,me,v5e,m,trian,A,step_s,1,8,8", r"rows.csv:2: workload_kind 'trian'.*'train'"),
        ("a,me,v5e,m,train,A,step_s,7.5 ms,8,8", r"rows.csv:2: value_std '7.5 ms' is a number and"),
        ("a,me,v5e,m,train,A,step_s,1,0,8", r"rows.csv:2: chips '0' must be above 0"),
        ("a,me,v5e,m,train,A,step_s,1,8,8,9", r"rows.csv:2: more cells than the header"),
        ("a,me,v5e,m,train,A,step_s,nan,8,8", r"rows.csv:2: value_std 'nan' is not a finite"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read(_file(tmp_path, line))


def test_a_missing_column_and_a_repeated_id_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the column 'value_std' is missing"):
        read(_file(tmp_path, "a", header="id,source,tpu,model,workload_kind,confidence,metric_std"))
    line = "a,me,v5e,m,train,A,step_s,1,8,8"
    with pytest.raises(UserError, match=r":3: the id 'a' appears twice, first in line 2"):
        read(_file(tmp_path, line, line))
    with pytest.raises(UserError, match="no rows"):
        read(_file(tmp_path))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "the file is empty"),
        (COLUMNS.replace("value_std", "value_sdt"), "rename 'value_sdt' to 'value_std'"),
        (COLUMNS.replace(",", ";"), "missing; separate columns by commas"),
        (COLUMNS + ",global_bacth", "'global_bacth' is unknown; did you mean 'global_batch'"),
        (COLUMNS + ",chips", "'chips' appears twice"),
    ],
)
def test_a_header_that_is_wrong_says_what_to_change(
    tmp_path: Path, header: str, message: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n" if header else "")
    with pytest.raises(UserError, match=message):
        read(path)


def test_what_spreadsheets_and_people_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{COLUMNS},notes\na,me,trillium,m,train,A,step_s,1,8,8,fine\n", "utf-8-sig")
    (row,) = read(path)
    assert row.id == "a" and row.tpu == "v6e"


def test_bad_json_in_arch_names_the_line(tmp_path: Path) -> None:
    path = _file(
        tmp_path, 'a,me,v5e,m,train,A,step_s,1,8,8,"{d_model: 3}"', header=COLUMNS + ",arch"
    )
    with pytest.raises(UserError, match=r"rows.csv:2: arch is not valid JSON"):
        read(path)


def test_the_operation_of_a_named_architecture_is_empty() -> None:
    rows = {row.id: row for row in measurements.published()}
    assert rows["v6e-l8-8"].operation() == {}
    assert rows["iw-gemm-1024"].operation()["m"] == 1024
    assert isinstance(rows["iw-gemm-1024"], Measurement)
