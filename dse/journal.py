"""A study as an Optuna journal: for optuna-dashboard, `optuna.load_study` and Optuna's plots."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse import samplers
from dse.errors import UserError
from dse.results import Results
from dse.trials import Trial

if TYPE_CHECKING:
    import optuna


def export(results: Results, path: Path) -> int:
    """Write all trials to a new journal file at `path`; returns how many.

    Knobs are categorical with their labels (numbers where all labels are numbers), metrics user
    attributes, and constraints Optuna's own, so that feasibility and fronts are the same there.
    Raises UserError when the file exists: a dashboard may have it open.
    """
    import optuna

    if path.exists():
        raise UserError(f"{path} exists; name another file, or remove it first")
    backend = _backend()
    storage = optuna.storages.JournalStorage(backend)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=results.meta["name"],
            directions=samplers.directions(results.directions),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(results.objectives)
        study.set_user_attr("question", results.meta["question"])
        choices = {name: _typed(labels) for name, labels in results.meta["knobs"].items()}
        distributions = {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in choices.items()
        }
        trials = results.log.trials
        study.add_trials([_trial(t, results, choices, distributions) for t in trials])
    finally:
        optuna.logging.set_verbosity(verbosity)
    backend.write(path)
    return len(trials)


def _trial(
    trial: Trial,
    results: Results,
    choices: dict[str, list[Any]],
    distributions: dict[str, Any],
) -> optuna.trial.FrozenTrial:
    import optuna

    item = trial.evaluated
    labels = results.meta["knobs"]
    state = optuna.trial.TrialState
    violations = item.violations
    attributes = {
        "design": item.design,
        "metrics": item.score.to_json().get("metrics", {}),
        "solved": dict(item.score.solved),
    }
    for key in ("reason", "explanation", "repair"):
        if getattr(item.score, key):
            attributes[key] = getattr(item.score, key)
    return optuna.trial.create_trial(
        state=state.COMPLETE if trial.complete else state.FAIL,
        values=trial.values if trial.complete else None,
        params={k: choices[k][labels[k].index(label)] for k, label in item.params.items()},
        distributions=distributions,
        user_attrs=attributes,
        constraints=violations,
        system_attrs={
            **samplers.system_attributes(results.meta["search"]["sampler"], trial.generation),
            # The older form, which is the only one that optuna-dashboard 0.21 reads.
            "constraints": list(violations.values()),
        },
    )


def _typed(labels: Sequence[str]) -> list[Any]:
    """Labels as numbers where every one of them is, so that plots order and space them."""
    for kind in (int, float):
        try:
            numbers = [kind(label) for label in labels]
        except ValueError:
            continue
        if len(set(numbers)) == len(labels):
            return numbers
    return list(labels)


def _backend() -> Any:
    """A journal kept in memory and written at once: Optuna's own syncs the disk for each trial."""
    from optuna.storages.journal import BaseJournalBackend

    class Memory(BaseJournalBackend):
        def __init__(self) -> None:
            self._logs: list[dict[str, Any]] = []

        def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
            return self._logs[log_number_from:]

        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            self._logs += logs

        def write(self, path: Path) -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(path.name + ".new")
            with open(temporary, "w", encoding="utf-8") as file:
                for log in self._logs:
                    file.write(json.dumps(log, separators=(",", ":")) + "\n")
            os.replace(temporary, path)

    return Memory()
