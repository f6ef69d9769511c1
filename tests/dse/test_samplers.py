"""Samplers: distinct asks, and no hidden state between generations."""

from __future__ import annotations

import numpy as np
import pytest

from dse import samplers
from dse.errors import UserError
from dse.testing import SPACE


def test_qmc_rows_are_addressed_by_number() -> None:
    cards = SPACE.cardinalities
    whole = samplers.planned_rows("qmc", 3, 0, 64, cards)
    parts = [samplers.planned_rows("qmc", 3, first, 16, cards) for first in (0, 16, 32, 48)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert (whole >= 0).all() and (whole < np.array(cards)).all()
    for column, count in enumerate(cards):  # low discrepancy: every choice of every knob appears
        assert set(whole[:, column]) == set(range(count))


def test_samplers_that_listen_plan_nothing() -> None:
    assert samplers.planned_rows("nsga2", 0, 0, 8, SPACE.cardinalities).shape == (0, 7)


@pytest.mark.parametrize("name", ["nsga2", "tpe"])
def test_a_batch_of_asks_is_mostly_distinct(name: str) -> None:
    import optuna

    study = optuna.create_study(directions=["minimize"] * 2, sampler=samplers.make(name, 0, 0, 16))
    spread = samplers.distributions(SPACE.names, SPACE.cardinalities)
    generator = np.random.default_rng(0)
    for generation in range(3):
        study.sampler = samplers.make(name, 0, generation, 16)
        asked = []
        for _ in range(16):
            study.add_trial(samplers.waiting(name, generation, {}))
            asked.append(study.ask(spread))
        assert len({tuple(t.params.values()) for t in asked}) >= 14
        for trial in asked:
            study.tell(trial, generator.random(2).tolist())


def test_knobs_without_a_choice_are_left_out() -> None:
    assert list(samplers.distributions(("a", "b"), (1, 3))) == ["b"]


def test_gp_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs torch"):
        samplers.make("gp", 0, 0, 10)
