"""`dse show` and `dse explain` of known chips, narrow terminals, edges and extrapolated losses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from dse.cli import tables
from dse.testing import FakeSpec
from test_cli import Command, dse, spec  # noqa: F401


@pytest.mark.parametrize("name", ["fake as it is", "FAKE as it is", "fake"])
def test_a_known_chip_is_shown_and_explained_by_name(
    spec: FakeSpec,  # noqa: F811
    dse: Command,  # noqa: F811
    name: str,
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    shown = dse.json("show", "fake", "--trial", name)
    (known,) = [row for row in dse.json("front", "fake", "--known") if row["known"]]
    assert (shown["number"], shown["known"]) == (None, "fake as it is")
    assert shown["metrics"] == known["metrics"] and shown["p_feasible"] == known["p_feasible"]
    code, out, _ = dse("show", "fake", "-t", name)
    assert code == 0 and "fake as it is: " in out and "power_w <= 60" in out
    (operator,) = dse.json("explain", "fake", "--trial", name)
    assert operator["name"] == "reference"
    code, out, _ = dse("explain", "fake", "--trial", name)
    assert code == 0 and "fake as it is" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "fake", "--trial", "v6e"), "known chips: 'fake as it is'"),
        (("explain", "fake", "--trial", "fak"), "neither the number of a trial"),
        (("show", "fake", "--trial", "-1"), "has no trial -1"),
        (("explain", "fake", "--trial", "fake", "--mapping", 0), "leave --mapping out"),
    ],
)
def test_what_names_nothing_is_one_message(
    spec: FakeSpec,  # noqa: F811
    dse: Command,  # noqa: F811
    arguments: tuple[object, ...],
    message: str,
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    code, out, err = dse(*arguments)
    assert code == 2 and message in err and "Traceback" not in err + out


@pytest.mark.parametrize("width", [60, 80, 99])
def test_a_narrow_terminal_gets_a_compact_front(
    spec: FakeSpec,  # noqa: F811
    dse: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    width: int,
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    _, wide, _ = dse("front", "fake", "--params")
    monkeypatch.setattr(tables, "console", lambda: Console(highlight=False, width=width))
    code, narrow, _ = dse("front", "fake", "--params")
    assert code == 0 and all(len(line) <= width for line in narrow.splitlines())
    rows = dse.json("front", "fake")
    for row in rows[:3]:
        assert f"trial {row['number']}\n" in narrow
        rate = tables.metric("ops_per_s", row["metrics"]["ops_per_s"])
        assert f"ops_per_s {rate}" in narrow and rate in wide
    assert "trial fake as it is" in narrow and narrow.count("clock_ghz ") == len(rows) + 1


def test_a_table_that_fits_stays_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "console", lambda: Console(highlight=False, width=40))
    tables.print_table(["trial", "a [b]"], [["1", 2.5]], compact=True)
    assert "─" in capsys.readouterr().out
    tables.print_table(["trial", "a [b]"], [["1 " + "x" * 40, 2.5]], compact=True)
    out = capsys.readouterr().out
    assert "─" not in out and "a [b] 2.5" in out


def test_edges_are_named_below_the_front(
    spec: FakeSpec,  # noqa: F811
    dse: Command,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dse.testing import SPACE
    from search_spaces.space import Space

    slow = tuple(
        replace(k, choices=k.choices[:3]) if k.name == "clock_ghz" else k for k in SPACE.knobs
    )
    monkeypatch.setattr(type(spec), "space", lambda _: Space(slow))
    dse("run", spec.path, "--workers", "0", "-q")
    rows = dse.json("front", "fake")
    reached = {edge["knob"]: edge["choice"] for edge in dse.json("status", "fake")["edges"]}
    for name, label in reached.items():
        assert all(
            row["params"][name] == label
            for row in rows
            if name != "packing" or row["params"]["bits"] == "8"
        )
    _, out, _ = dse("front", "fake")
    assert ("All points are at an edge of" in out) == bool(reached)


def test_extrapolated_quality_laws_are_shown(
    spec: FakeSpec,  # noqa: F811
    dse: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dse("run", spec.path, "--workers", "0", "-q")
    number = dse.json("front", "fake")[0]["number"]
    assert dse.json("show", "fake", "--trial", number)["beyond_fits"] == []
    monkeypatch.setattr("dse.law_domains.beyond_fits", lambda study, params: ["far out"])
    assert dse.json("show", "fake", "--trial", number)["beyond_fits"] == ["far out"]
    _, out, _ = dse("show", "fake", "--trial", number)
    assert "quality loss is an extrapolation: far out" in out
    monkeypatch.setattr("dse.spec.load", lambda _: replace(spec, fingerprint="other"))
    assert dse.json("show", "fake", "--trial", number)["beyond_fits"] is None
