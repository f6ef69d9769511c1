"""The real scorer on a tiny study of Llama-3.1-8B: scores, probabilities, explanations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dse import evaluate
from dse.evaluate import Scorer
from dse.scoring import feasibility
from dse.spec import StudySpec, read_text
from hwmodel import theta

STUDY = """
chip:
  base: v6e
  knobs:
    mxu_dim: [128, 256]
    hbm_stacks: [1, 2, 4]
    hbm_generation: [hbm3, hbm3e]
model:
  config: llama3__Meta-Llama-3.1-8B
  knobs: {weight_format: [bf16, fp8]}
workload: {prompt_tokens: 1000, output_tokens: 200}
deployment:
  knobs: {torus: [2x2], tensor: [1, 2, 4], batch: [8, 4096]}
  solve: {knobs: all, maximize: tokens_per_s_per_chip, limits: [tpot_s <= %s]}
objectives:
  - maximize: tokens_per_s_per_chip
  - minimize: quality_loss_nats
constraints: [die_area_mm2 <= %s, tdp_w <= 400, ttft_s <= 2]
search: {trials: 12, population: 6, seed: 1}
"""


def study(tpot: str = "50 ms", area: str = "500") -> StudySpec:
    return read_text(STUDY % (tpot, area), Path("tiny.yaml"))


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(study())


ROWS = study().space().grid()


def test_the_base_chip_has_a_first_row_that_scores_like_the_reference(scorer: Scorer) -> None:
    ((name, reference),) = scorer.reference_scores()
    (row,) = scorer.first_rows()
    (score,) = scorer.score(row[None, :])
    assert name == "v6e as it is" and reference.legal
    assert study().space().labels(row)["hbm_stacks"] == "2"
    for metric, value in score.metrics.items():
        assert value == pytest.approx(reference.metrics[metric], rel=2e-3), metric
    # The list price of v6e says nothing of a chip that might be another one.
    assert "usd_per_mtoken_list" in reference.metrics
    assert "usd_per_mtoken_list" not in score.metrics


def test_every_candidate_has_the_best_of_its_mappings(scorer: Scorer) -> None:
    scores = scorer.score(ROWS)
    assert [s.legal for s in scores].count(True) == len(ROWS)
    for score in scores:
        assert set(score.solved) == {"torus", "tensor", "batch"}
        assert score.metrics["tpot_s"] <= 0.05
        best = score.metrics["tokens_per_s_per_chip"]
        assert all(m["metrics"]["tokens_per_s_per_chip"] <= best for m in score.mappings)


def test_a_row_scores_the_same_alone_and_in_a_batch(scorer: Scorer) -> None:
    together = scorer.score(ROWS)
    for i in (0, len(ROWS) - 1):
        (alone,) = scorer.score(ROWS[i : i + 1])
        assert alone == together[i]


def test_limits_that_no_mapping_meets_are_named() -> None:
    (score,) = Scorer(study(tpot="1 us")).score(ROWS[:1])
    assert not score.legal and score.reason == "solve_limits" and score.violation > 1
    assert "tpot_s <= 1 us" in score.explanation and "tpot_s <= 1 us" in score.repair
    assert score.metrics["tpot_s"] > 1e-6


def test_an_illegal_candidate_says_what_would_make_it_legal() -> None:
    text = (STUDY % ("1 s", "500")).replace("tensor: [1, 2, 4], batch: [8, 4096]", "batch: [256]")
    spec = read_text(text.replace("knobs: {torus: [2x2],", "knobs: {"), Path("tiny.yaml"))
    scores = Scorer(spec).score(spec.space().grid())
    broken = [s for s in scores if not s.legal]
    assert broken
    for score in broken:
        assert score.reason == "hbm_overflow" and score.explanation and score.violation > 0
    assert any(score.repair.startswith("hbm_stacks 2 -> 4") for score in broken)
    nearest = {score.repair for score in broken}
    assert not any("  " in repair for repair in nearest), nearest


def test_probabilities_are_shares_that_follow_the_limit(scorer: Scorer) -> None:
    deployments = [s.solved for s in scorer.score(ROWS)]
    found = scorer.feasibility(ROWS, deployments)
    area, power = "die_area_mm2 <= 500", "tdp_w <= 400"
    for shares in found:
        assert set(shares) == {"legality", area, power, "ttft_s <= 2", "joint"}
        assert all(0 <= share <= 1 for share in shares.values())
        others = [share for text, share in shares.items() if text != "joint"]
        assert max(0, sum(others) - len(others) + 1) <= shares["joint"] + 1e-12
        assert shares["joint"] <= min(others)
    assert any(0 < shares[area] < 1 for shares in found)
    wider = Scorer(study(area="700")).feasibility(ROWS, deployments)
    pairs = [(a[area], b["die_area_mm2 <= 700"]) for a, b in zip(found, wider, strict=True)]
    assert all(narrow <= wide for narrow, wide in pairs)
    assert any(narrow < wide for narrow, wide in pairs)
    assert found == scorer.feasibility(ROWS, deployments)  # the draws are seeded
    assert scorer.feasibility(ROWS[:0], []) == []
    assert set(scorer.reference_feasibility()["v6e as it is"]) == set(found[0])


def test_at_the_central_estimates_the_draws_give_the_score_itself(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    central = {name: np.full(2, value) for name, value in theta.central().items()}
    monkeypatch.setattr(theta, "draws", lambda count, seed: central)
    monkeypatch.setattr(feasibility, "chip_draws", lambda chip, count: {})
    monkeypatch.setattr(feasibility, "generation_draws", lambda f, v, n: np.tile(v, (n, 1)))
    monkeypatch.setattr(evaluate, "outcomes", lambda e, c, r: feasibility.outcomes(e, c, r, 2))
    scores = scorer.score(ROWS)
    shares = scorer.feasibility(ROWS, [s.solved for s in scores])
    for score, share in zip(scores, shares, strict=True):
        assert share["die_area_mm2 <= 500"] == (score.metrics["die_area_mm2"] <= 500)
        assert share["tdp_w <= 400"] == (score.metrics["tdp_w"] <= 400)
        assert share["legality"] == 1


def test_only_estimates_are_drawn() -> None:
    drawn = feasibility.chip_draws("v6e")
    assert {"node_nm", "hbm_energy_j_per_byte", "dcn_latency_s"} <= set(drawn)
    assert not {"clock_hz", "hbm_stacks", "compute_dies", "mxu_rows"} & set(drawn)
    assert all(3 <= node <= 5 for node in drawn["node_nm"]) and np.ptp(drawn["node_nm"]) > 0
    assert np.all(drawn["vpu_alus_per_slot"] % 1 == 0)
    values = feasibility.generation_draws("hbm_usd_per_byte", np.array([8e-9, 9.5e-9, 1.0]))
    assert np.ptp(values[:, 0]) > 0 and np.all(values[:, 2] == 1.0)
    assert np.all(np.diff(values[np.argsort(values[:, 0])][:, 1]) >= 0)  # one quantile for all


def test_the_explanation_adds_up_to_the_score(scorer: Scorer) -> None:
    (score,) = scorer.score(ROWS[:1])
    operators = scorer.explain(ROWS[0], score.solved)
    for phase, metric in (("prefill", "prefill_step_s"), ("decode", "decode_step_s")):
        rows = [row for row in operators if row["phase"] == phase]
        assert sum(row["time_s"] for row in rows) == pytest.approx(score.metrics[metric], rel=1e-9)
        assert sum(row["share"] for row in rows) == pytest.approx(1)
        assert {row["bound_by"] for row in rows} <= {"mxu", "vpu", "hbm", "network", "latency"}
    other = scorer.explain(ROWS[0], {**score.solved, "batch": "8", "tensor": "1"})
    assert other != operators


def test_the_known_chip_is_explained_as_it_is(scorer: Scorer) -> None:
    ((name, reference),) = scorer.reference_scores()
    rows = scorer.explain_reference(name)
    for phase, metric in (("prefill", "prefill_step_s"), ("decode", "decode_step_s")):
        total = sum(row["time_s"] for row in rows if row["phase"] == phase)
        assert total == pytest.approx(reference.metrics[metric], rel=1e-6)
    with pytest.raises(KeyError):
        scorer.explain_reference("v5e as it is")


def test_the_model_version_follows_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("hwmodel", "models", "search_spaces", "dse"):
        (tmp_path / package / "data").mkdir(parents=True)
        (tmp_path / package / "code.py").write_text("x = 1\n")
    constants = tmp_path / "hwmodel" / "data" / "theta.yaml"
    constants.write_text("a: 1\n")
    monkeypatch.setattr(evaluate.resources, "files", lambda package: tmp_path / package)
    version = evaluate.model_version.__wrapped__
    before = version()
    (tmp_path / "dse" / "code.py").write_text("x = 2\n")  # the engine decides no score
    assert version() == before
    calibration = tmp_path / "hwmodel" / "calibration"
    (calibration / "gpu").mkdir(parents=True)
    for name in ("residuals.csv", "gaps.yaml", "silicon.csv", "hosts.yaml", "gpu/gemm.csv"):
        (calibration / name).write_text("x\n")
    assert version() == before  # nor does what measurements say of the scores
    fitted = constants.with_name("theta_fitted.yaml")
    fitted.write_text("b: {value: 1, prior: {value: 2}}\n")
    with_fitted = version()
    fitted.write_text("b: {value: 1, prior: {value: 3}}\n")
    assert version() == with_fitted != before
    fitted.write_text("b: {value: 2, prior: {value: 3}}\n")
    assert version() != with_fitted
    constants.write_text("a: 2\n")
    assert version() != before
