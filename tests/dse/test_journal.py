"""A study exported for Optuna: the same trials, the same front, and a search that can go on."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from dse import journal
from dse.errors import UserError
from dse.results import Results
from dse.testing import Faults, run_fake


def load(results: Results, path: Path) -> optuna.Study:
    journal.export(results, path)
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    storage = optuna.storages.JournalStorage(backend)
    return optuna.load_study(study_name=results.meta["name"], storage=storage)


def test_optuna_finds_the_same_front(tmp_path: Path) -> None:
    results = run_fake(tmp_path, trials=200, population=40)
    study = load(results, tmp_path / "out" / "fake.journal")
    assert [t.number for t in study.trials] == list(range(200))
    assert study.metric_names == results.objectives
    ours = results.trials()
    own = {tuple(t.values) for t in results.log.trials if t.feasible}
    best = {tuple(t.values) for t in study.best_trials}
    front = results.front()
    numbers = front[front["mapping"].isna()]["number"].tolist()
    assert {results.trial(n).values for n in numbers} <= best <= own
    for trial in study.trials:
        feasible = all(value <= 0 for value in trial.constraints.values())
        assert feasible == bool(ours["feasible"][trial.number])
        # optuna-dashboard 0.21 reads constraints from here only
        assert feasible == all(value <= 0 for value in trial.system_attrs["constraints"])


def test_labels_are_numbers_and_metrics_are_attributes(tmp_path: Path) -> None:
    results = run_fake(tmp_path, trials=30)
    trial = load(results, tmp_path / "fake.journal").trials[0]
    ours = results.trial(0).evaluated
    assert {k: str(v) for k, v in trial.params.items()} == dict(ours.params)
    assert isinstance(trial.params["rows"], int) and isinstance(trial.params["clock_ghz"], float)
    assert trial.user_attrs["metrics"] == dict(ours.score.metrics)


def test_failed_trials_are_failed_there_too(tmp_path: Path) -> None:
    bad = int(run_fake(tmp_path / "a", trials=10).log.trials[0].evaluated.design)
    results = run_fake(tmp_path / "b", trials=10, faults=Faults(error=frozenset([bad])))
    trial = load(results, tmp_path / "fake.journal").trials[0]
    assert trial.state == optuna.trial.TrialState.FAIL
    assert trial.user_attrs["reason"] == "error"


def test_an_optuna_search_can_go_on_from_it(tmp_path: Path) -> None:
    results = run_fake(tmp_path, trials=60, population=20)
    study = load(results, tmp_path / "fake.journal")
    study.sampler = optuna.samplers.NSGAIISampler(population_size=20, seed=1)
    trial = study.ask(dict(study.trials[0].distributions))
    study.tell(trial, results.trial(0).values)
    assert study.trials[60].system_attrs["NSGAIISampler:generation"] == 3


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    results = run_fake(tmp_path, trials=10)
    path = tmp_path / "fake.journal"
    path.write_text("mine")
    with pytest.raises(UserError, match="exists; name another file"):
        journal.export(results, path)
    assert path.read_text() == "mine"
