"""What the Python API returns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dse
from dse.errors import UserError
from dse.results import Results
from dse.testing import run_fake


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return run_fake(tmp_path_factory.mktemp("study"), trials=200, population=40)


def test_public_names_are_there() -> None:
    assert dse.Results is Results
    assert set(dir(dse)) == {"Results", "UserError", "open_results", "run"}
    assert callable(dse.run) and dse.UserError is UserError
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        dse.nope  # noqa: B018


def test_trials_have_knobs_metrics_and_constraints(results: Results) -> None:
    frame = results.trials()
    assert frame["number"].tolist() == list(range(200))
    assert {"rows", "bits", "ops_per_s", "power_w", "power_w <= 60", "batch"} <= set(frame)
    legal = frame[frame["legal"]]
    limits = (legal["power_w"] <= 60) & (legal["area_mm2"] <= 300)
    assert (legal["feasible"] == limits).all()
    assert set(frame[~frame["legal"]]["reason"]) == {"vmem_overflow"}


def test_front_is_feasible_and_nondominated_in_all_trials(results: Results) -> None:
    front, trials = results.front(), results.trials()
    own = front[front["mapping"].isna()]
    feasible = trials[trials["feasible"]]
    for _, row in own.iterrows():
        better = (
            (feasible["ops_per_s"] >= row["ops_per_s"])
            & (feasible["joules_per_op"] <= row["joules_per_op"])
            & (feasible["area_mm2"] <= row["area_mm2"])
        )
        equal = (
            (feasible["ops_per_s"] == row["ops_per_s"])
            & (feasible["joules_per_op"] == row["joules_per_op"])
            & (feasible["area_mm2"] == row["area_mm2"])
        )
        assert not (better & ~equal).any()


def test_kept_mappings_compete(results: Results) -> None:
    # The fake's kept mapping has a slightly smaller area, so the smallest design is one of them.
    front = results.front()
    smallest = front.loc[front["area_mm2"].idxmin()]
    assert smallest["mapping"] == 0 and smallest["batch"] == "32"


def test_known_chips_come_last_and_are_marked(results: Results) -> None:
    front = results.front(known=True)
    assert front["known"].tolist()[-1] == "fake as it is"
    assert (front["known"] == "").sum() == len(front) - 1
    assert np.isnan(front["number"].astype(float).iloc[-1])


def test_a_trial_that_is_not_there(results: Results) -> None:
    with pytest.raises(UserError, match="has no trial 200; there are 0 to 199"):
        results.trial(200)
    with pytest.raises(UserError, match="has no trial -1"):
        results.trial(-1)


def test_status_adds_up(results: Results) -> None:
    status = results.status()
    assert status["state"] == "finished" and status["trials"] == 200
    assert status["front"] == len(results.front())
    assert status["designs"] == results.trials()["design"].nunique()
    assert status["hypervolume"] > 0
    assert sum(status["reasons"].values()) == results.trials().query("not legal").design.nunique()


def test_an_empty_study_is_not_an_error(tmp_path: Path) -> None:
    from dse.storage import Store

    done = run_fake(tmp_path, trials=10)
    (done.store.directory / "log.jsonl").unlink()
    empty = Results(Store(done.store.directory))
    assert len(empty.trials()) == 0 and len(empty.front(known=True, least_violating=True)) == 0
    assert empty.status()["state"] == "stopped"
