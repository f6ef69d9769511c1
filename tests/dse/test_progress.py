"""The live display, and when there is none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from dse import progress
from dse.progress import Live, Silent, Snapshot, numbers

HALF = Snapshot(
    done=50,
    total=100,
    done_now=30,
    unique=40,
    feasible=25,
    hypervolume=0.5,
    front=7,
    ask_s=1.0,
    wall_s=10.0,
    wall_now_s=6.0,
    executor="in process",
)


def test_numbers_of_a_resumed_study_count_this_run_only() -> None:
    assert HALF.rate == 5.0 and HALF.eta_s == 10.0
    assert numbers(HALF) == (
        "5/s  HV 0.5000  front 7  feasible 50%  unique 80%  sampler 10%  ETA 10 s"
    )


def test_before_the_first_generation_nothing_is_divided_by_zero() -> None:
    empty = Snapshot(0, 100, 0, 0, 0, 0.0, 0, 0.0, 0.0, 0.0, "")
    assert numbers(empty).endswith("ETA -")


def test_live_draws_the_numbers() -> None:
    file = io.StringIO()
    live = Live(Console(file=file, force_terminal=True, width=160))
    live.start(HALF)
    live.update(HALF)
    live.note("going on after trial 19")
    live.close()
    assert "HV 0.5000" in file.getvalue() and "50/100" in file.getvalue()
    assert "going on after trial 19" in file.getvalue()


def test_without_a_terminal_there_is_no_display(capsys: pytest.CaptureFixture[str]) -> None:
    silent = progress.make(quiet=False)
    assert isinstance(silent, Silent)
    silent.start(HALF)
    silent.update(HALF)
    assert capsys.readouterr() == ("", "")
    silent.note("kept")
    assert capsys.readouterr() == ("", "kept\n")
    progress.make(quiet=True).note("dropped")
    assert capsys.readouterr() == ("", "")


def test_closing_before_the_start_is_harmless(tmp_path: Path) -> None:
    Live(Console(file=io.StringIO(), force_terminal=True)).close()
