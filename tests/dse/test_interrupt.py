"""Ctrl-C on a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from dse.storage import Store
from dse.testing import run_fake

PROGRAM = """
import sys
from dataclasses import replace
from pathlib import Path
import dse.runner, dse.spec
from dse.cli.app import main
from dse.testing import FakeScorer, FakeSpec, Faults

path = Path(sys.argv[1])
spec = FakeSpec(path)
spec = replace(spec, search=replace(spec.search, trials=300, population=20))
dse.spec.load = lambda _: spec
dse.runner.build_scorer = lambda _: FakeScorer(Faults(delay_s=float(sys.argv[2])))
main(["run", str(path), "--workers", "0"])
"""


def start(directory: Path, delay_s: float) -> subprocess.Popen[str]:
    path = directory / "fake.yaml"
    path.write_text("name: fake\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(path), str(delay_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def wait_for_trials(store: Store, process: subprocess.Popen[str], count: int) -> None:
    deadline = time.monotonic() + 60
    while len(store.read().trials) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ctrl_c_saves_exits_130_and_the_same_command_goes_on(tmp_path: Path) -> None:
    store = Store(tmp_path / "results" / "fake")
    process = start(tmp_path, 0.05)
    wait_for_trials(store, process, 20)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    told = len(store.read().trials)
    assert 20 <= told < 300
    assert f"stopped after {told} of 300 trials, all saved; go on with: dse run" in err
    assert "Traceback" not in out + err
    resumed = run_fake(tmp_path, trials=300, population=20)
    whole = run_fake(tmp_path / "whole", trials=300, population=20)
    assert resumed.log.trials == whole.log.trials


def test_a_second_ctrl_c_exits_at_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "results" / "fake")
    process = start(tmp_path, 30.0)
    deadline = time.monotonic() + 60
    while not store.exists or not store.read().sessions:
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None  # a chunk of 30 s is running
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130 and time.monotonic() - began < 5
