"""`fidelity: tile`: the same metrics from the tile rung's step times, and studies that say so."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import dse
from dse.cli.app import main
from dse.evaluate import Scorer
from dse.scoring import tile
from dse.scoring.assignment import AS_IT_IS
from dse.scoring.shortlist import MAPPINGS, shortlist
from dse.scoring.tile import TileEvaluator
from dse.spec import SolveSpec, SpecError, StudySpec, read_text
from dse.spec.expressions import parse_constraint, parse_objective
from hwmodel import presets

STUDY = """
chip:
  base: v6e
  knobs:
    hbm_stacks: [1, 2, 4]
    clock_ghz: [1.5, 1.75]
model:
  config: llama3__Meta-Llama-3.1-8B
  knobs: {weight_format: [bf16, fp8]}
workload: {prompt_tokens: 1000, output_tokens: 200}
deployment:
  knobs: {torus: [2x2], tensor: [1, 2, 4], fsdp: [1, 2], batch: [8, 16, 64, 256]}
  solve:
    knobs: [tensor, fsdp, batch]
    maximize: tokens_per_s_per_chip
    limits: [tpot_s <= 50 ms]
objectives:
  - maximize: tokens_per_s_per_chip
  - minimize: quality_loss_nats
constraints: [die_area_mm2 <= 700, ttft_s <= 2]
search: {trials: 6, population: 6, seed: 1}
"""


def study(fidelity: str = "tile", text: str = STUDY) -> StudySpec:
    return read_text(f"{text}fidelity: {fidelity}\n", Path("tiny.yaml"))


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(study())


ROWS = study().space().grid()
V6E = presets.load("v6e")
STACK_BYTES_PER_S = V6E.hbm_stack_bandwidth_bytes_per_s


def test_factors_of_one_are_the_analytical_rung(scorer: Scorer) -> None:
    """The metric equations are the same; only step times and HBM bytes differ."""
    (a,) = scorer._assignments
    rows = a.space.sample(40, 3)
    same = tile.corrected(a.evaluator, rows, np.ones((40, 4)))
    plain = a.evaluator(rows)
    assert np.allclose(same.metrics, plain.metrics, rtol=1e-9, equal_nan=True)
    assert np.array_equal(same.reason, plain.reason)


def test_metrics_are_those_of_the_played_steps(scorer: Scorer) -> None:
    (a,) = scorer._assignments
    rows = a.space.sample(400, 4)
    rows = rows[a.evaluator(rows).worst <= 0][:5]
    steps = tile.played(a.evaluator, rows)
    metrics = dict(zip(a.final.metrics, a.final(rows).metrics, strict=True))
    prefill = [step.seconds for step in steps.prefill]
    assert metrics["prefill_step_s"] == pytest.approx(prefill)
    assert metrics["decode_step_s"] == pytest.approx([s.seconds for s in steps.decode])
    moved = np.array([s.hbm_bytes for s in steps.decode])
    peak = [stacks * STACK_BYTES_PER_S for stacks in _stacks(scorer, rows)]
    assert metrics["mbu_decode"] == pytest.approx(moved / metrics["decode_step_s"] / peak)
    assert (steps.factors > 0.3).all() and (steps.factors < 3).all()


def _stacks(scorer: Scorer, rows: np.ndarray) -> list[float]:
    labels = [scorer._assignments[0].space.labels(row)["hbm_stacks"] for row in rows]
    return [float({AS_IT_IS: V6E.hbm_stacks}.get(label, label)) for label in labels]


def test_the_order_of_rows_and_batches_does_not_matter(scorer: Scorer) -> None:
    (a,) = scorer._assignments
    rows = a.space.sample(40, 5)
    whole = TileEvaluator(a.evaluator)(rows)
    part = TileEvaluator(a.evaluator)(rows[::-1][:7])
    assert np.allclose(part.metrics, whole.metrics[:, ::-1][:, :7], rtol=1e-12, equal_nan=True)


def test_scores_differ_from_the_analytical_rung_and_keep_legality(scorer: Scorer) -> None:
    analytical = Scorer(study("analytical"))
    fine, coarse = scorer.score(ROWS), analytical.score(ROWS)
    assert [s.legal for s in fine] == [s.legal for s in coarse]
    pairs = [(f, c) for f, c in zip(fine, coarse, strict=True) if f.legal]
    assert pairs
    for f, c in pairs:
        assert f.metrics["tokens_per_s_per_chip"] != c.metrics["tokens_per_s_per_chip"]
        assert f.metrics["die_area_mm2"] == pytest.approx(c.metrics["die_area_mm2"])
        assert len(f.mappings) < MAPPINGS


def test_references_probabilities_and_intervals_use_the_same_mapping(scorer: Scorer) -> None:
    ((name, reference),) = scorer.reference_scores()
    assert reference.legal
    shares = scorer.reference_feasibility()[name]
    assert 0 <= shares["joint"] <= 1
    (case,) = scorer.reference_uncertainty().values()
    assert case.tile
    low, high = case.estimates["tokens_per_s"]
    assert low < 1 < high
    rows = scorer.explain_reference(name)
    seconds = sum(row["time_s"] for row in rows if row["phase"] == "prefill")
    assert seconds == pytest.approx(reference.metrics["prefill_step_s"])


def test_explain_says_how_the_rungs_differ(scorer: Scorer) -> None:
    (score,) = scorer.score(ROWS[:1])
    rows = scorer.explain(ROWS[0], score.solved)
    for phase, metric in (("prefill", "prefill_step_s"), ("decode", "decode_step_s")):
        own = [row for row in rows if row["phase"] == phase]
        assert sum(row["time_s"] for row in own) == pytest.approx(score.metrics[metric])
        assert all(row["cause"] and row["analytical_s"] > 0 for row in own)


def test_the_shortlist_keeps_the_best_and_some_with_room_to_spare() -> None:
    spec = SolveSpec(
        (), parse_objective({"maximize": "tokens_per_s"}, False), (parse_constraint("ttft_s <= 1"),)
    )
    value = np.arange(100.0)
    metrics = {"tokens_per_s": value, "ttft_s": 0.505 + value / 100}
    chosen = shortlist(spec, metrics, np.where(np.arange(100) == 48, 1.0, -1.0))
    assert len(chosen) == MAPPINGS == len(set(chosen))
    assert list(chosen[:5]) == [49, 47, 46, 45, 44]  # 48 is illegal, 50 and more miss the limit
    assert list(chosen[5:]) == [39, 38, 37]  # a tenth below the limit
    assert list(shortlist(spec, metrics, np.arange(100.0) + 1)[:3]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("fidelity: tile", "fidelity: exact"), "'exact' is unknown"),
        (("base: v6e", "base: h100"), "the tile rung plays inference on TPUs"),
    ],
)
def test_what_the_tile_rung_cannot_do_is_one_message(change: tuple[str, str], message: str) -> None:
    text = f"{STUDY}fidelity: tile\n".replace(*change)
    with pytest.raises(SpecError, match=message) as caught:
        read_text(text, Path("tiny.yaml"))
    assert "fidelity" in str(caught.value)


def test_studies_that_train_are_refused_with_one_message() -> None:
    text = Path(__file__).parents[2].joinpath("studies/train_llama31-70b.yaml").read_text()
    with pytest.raises(SpecError) as caught:
        read_text(f"{text}\nfidelity: tile\n", Path("train.yaml"))
    message = str(caught.value)
    assert message.count("tile rung") == 1
    assert "the workload trains; say fidelity: analytical" in message


def test_the_fidelity_is_part_of_what_results_mean() -> None:
    plain = read_text(STUDY, Path("tiny.yaml"))
    assert plain.fingerprint == study("analytical").fingerprint != study().fingerprint
    assert dataclasses.replace(plain, fidelity="tile").fingerprint == study().fingerprint


def test_a_study_runs_and_says_its_rung(tmp_path: Path, capsys) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(f"{STUDY}fidelity: tile\n")
    results = dse.run(path, workers=0, quiet=True)
    assert len(results.trials()) == 6
    for command in (["front"], ["show", "--trial", "0"], ["explain", "--trial", "0"]):
        with pytest.raises(SystemExit):
            main([command[0], str(path), *command[1:]])
        shown = " ".join(capsys.readouterr().out.split())
        assert "of the tile rung" in shown, command


@pytest.mark.slow
def test_workers_score_alike(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(f"{STUDY}fidelity: tile\n")
    alone = dse.run(path, workers=0, quiet=True, results=tmp_path / "alone")
    ray = dse.run(path, workers=1, quiet=True, results=tmp_path / "ray")
    assert alone.trials().equals(ray.trials())
