"""No dead knobs: every knob moves a metric. No free ones: every resource costs something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dse.metrics import metrics as metric_table
from model_cases import CHAT, STEP, Case, wide
from models.performance import METRICS
from models.training import TRAINING_METRICS
from models.workload import Workload
from search_spaces.catalog import entries, find
from search_spaces.knob import SECTIONS
from search_spaces.presets import presets

MODELS = ("Meta-Llama-3.1-70B", "Qwen3-235B-A22B")  # together they have what every knob needs
LONG = Workload(prompt_tokens=40_000.0, output_tokens=1000.0)  # longer than any prefill chunk
WORKLOADS = (CHAT, LONG, STEP)
ROWS = 1500
KNOBS = [(section, name) for section in SECTIONS for name in entries(section)]
RESOURCES = [name for name, entry in entries("chip").items() if entry.resource]


def _cases(name: str) -> list[Case]:
    cases = [wide(model, "v6e", workload) for model in MODELS for workload in WORKLOADS]
    return [case for case in cases if name in case.space.names]


def _set(case: Case, rows: NDArray[np.int32], name: str, index: int) -> NDArray[np.int32]:
    changed = rows.copy()
    changed[:, case.space.names.index(name)] = index
    return changed


@pytest.mark.parametrize(("section", "name"), KNOBS, ids=[name for _, name in KNOBS])
def test_every_step_of_every_knob_moves_a_metric(section: str, name: str) -> None:
    """Between any two neighbouring choices some legal candidate differs in some metric."""
    cases = _cases(name)
    assert cases, f"no model of this test has the knob {name}"
    dead = []
    for index in range(max(len(c.space.knob(name).choices) for c in cases) - 1):
        if not any(_moves(case, name, index) for case in cases):
            dead.append([c.space.knob(name).labels[index : index + 2] for c in cases])
    assert not dead


def _moves(case: Case, name: str, index: int) -> bool:
    if index + 1 >= len(case.space.knob(name).choices):
        return False
    rows = _companions(case, name, case.space.sample(4 * ROWS, 7))
    low, high = (_set(case, rows, name, i) for i in (index, index + 1))
    (before, legal_low), (after, legal_high) = case.score(low), case.score(high)
    both = (legal_low <= 0) & (legal_high <= 0)
    return any(bool((before[m][both] != after[m][both]).any()) for m in before)


def _companions(case: Case, name: str, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Move the parents of a conditional knob to a setting under which it is active."""
    for parent, labels in (case.space.knob(name).when or {}).items():
        knob = case.space.knob(parent)
        active = np.array([knob.index(label) for label in labels])
        column = case.space.names.index(parent)
        rows[:, column] = active[np.arange(len(rows)) % len(active)]
    return rows


@pytest.mark.parametrize("name", RESOURCES)
def test_more_of_a_resource_makes_some_metric_worse(name: str) -> None:
    """On every legal candidate, whatever it gains elsewhere."""
    direction = 1 if find(name, "chip").resource == "up" else -1
    for case in _cases(name):
        rows = case.legal_rows(4 * ROWS, 11)
        before, _ = case.score(rows)
        column = case.space.names.index(name)
        index = rows[:, column] + direction
        can = (index >= 0) & (index < case.space.cardinalities[column])
        moved = rows.copy()
        moved[can, column] = index[can]
        after, _ = case.score(moved)
        worse = np.zeros(len(rows), bool)
        for metric, values in before.items():
            better = metric_table()[metric].better
            if better == "higher":
                worse |= after[metric] < values * (1 - 1e-9)
            elif better == "lower":
                worse |= after[metric] > values * (1 + 1e-9)
        free = can & ~worse
        assert can.any()
        assert not free.any(), case.space.labels(rows[free][0])


@pytest.mark.parametrize(("workload", "names"), [(CHAT, METRICS), (STEP, TRAINING_METRICS)])
def test_every_metric_is_moved_by_some_knob(workload: Any, names: tuple[str, ...]) -> None:
    moved = set()
    for model in MODELS:
        case = wide(model, workload=workload)
        metrics, _ = case.score(case.legal_rows(2 * ROWS, 13))
        moved |= {name for name, values in metrics.items() if np.ptp(values) > 0}
    assert moved == set(names)


def test_every_knob_of_every_preset_is_covered() -> None:
    covered = {
        name
        for model in MODELS
        for workload in (CHAT, STEP)
        for name in wide(model, workload=workload).space.names
    }
    assert {name for preset in presets().values() for name in preset.knobs} <= covered
    assert {name for _, name in KNOBS} == covered
    for preset in presets().values():
        for name, values in preset.knobs.items():
            (case, *_) = _cases(name)
            labels = case.space.knob(name).labels
            assert len(labels) >= len(values), (preset.name, name)
