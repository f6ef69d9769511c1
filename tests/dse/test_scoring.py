"""Batch scoring: the same numbers whatever the batch; solving, portfolios and repair."""

from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest

from dse.evaluate import Scorer
from dse.scoring.batch import CHUNK_ROWS, REASON_CODES
from dse.scoring.fields import FIELDS, assemble, base_values
from dse.scoring.portfolio import combine
from dse.scoring.repair import nearest_legal
from dse.scoring.solve import KEPT_MAPPINGS, solve
from dse.spec import Constraint, Objective, SolveSpec
from dse.spec.expressions import parse_constraint, parse_objective
from hwmodel import theta
from model_cases import BANDS, TRAINING_TOKENS, wide
from models.deployment import Deployment
from models.performance import METRICS, evaluate
from models.variants import NEUTRAL, expand
from search_spaces import FieldTable, Space
from spec_examples import read

MODEL = "Meta-Llama-3.1-70B"


# --- one set of equations


def test_the_batch_and_a_single_evaluation_agree() -> None:
    """Every metric and the largest violation, from the fields of a row through plain `evaluate`."""
    case = wide(MODEL)
    rows = case.legal_rows(4096, 21)[:2]
    illegal = case.space.sample(1, 22)
    rows = np.concatenate([rows, illegal])
    result = case.evaluator(rows)
    base = base_values(case.chip, NEUTRAL, Deployment(), case.workload)
    free = {field for knob in case.space.knobs for field in knob.fields}
    base |= {name: value for name, value in BANDS.items() if name not in free}
    table = FieldTable.build(case.space, FIELDS, base)
    arch = expand(case.architecture, window=True)
    for i, values in enumerate(table.decode(rows)):
        parts = assemble(dict(zip(table.names, values.tolist(), strict=True)))
        with jax.enable_x64(True), jax.disable_jit():
            point = evaluate(
                parts.chip,
                arch,
                parts.variant,
                _arrays(parts.deployment),
                parts.workload,
                theta.central(),
                TRAINING_TOKENS,
            )
        for metric, found in zip(METRICS, result.metrics[:, i], strict=True):
            assert found == pytest.approx(float(point.metrics[metric]), rel=1e-9), metric
        amounts = {code: float(amount) for code, amount in point.violations.items()}
        worst = max(amounts.values())
        assert result.worst[i] == pytest.approx(worst, rel=1e-9, abs=1e-6)
        code = REASON_CODES[result.reason[i]]
        assert amounts.get(code, 0.0) == pytest.approx(worst, abs=1e-6)


def _arrays(deployment: Deployment) -> Deployment:
    """Degrees as arrays: an illegal split divides by zero, and must not raise."""
    values = dataclasses.asdict(deployment)
    return Deployment(**{name: jax.numpy.asarray(value) for name, value in values.items()})


def test_a_row_scores_the_same_wherever_it_stands_in_a_batch() -> None:
    case = wide(MODEL)
    rows = case.space.sample(2 * CHUNK_ROWS + 100, 23)
    whole = case.evaluator(rows)
    for part in (slice(0, 1), slice(17, 400), slice(CHUNK_ROWS - 3, CHUNK_ROWS + 5)):
        alone = case.evaluator(rows[part])
        assert np.array_equal(alone.metrics, whole.metrics[:, part], equal_nan=True)
        assert np.array_equal(alone.worst, whole.worst[part])
        assert np.array_equal(alone.reason, whole.reason[part])
    backwards = case.evaluator(rows[::-1])
    assert np.array_equal(backwards.metrics[:, ::-1], whole.metrics, equal_nan=True)


def test_scoring_leaves_the_precision_of_the_program_alone() -> None:
    case = wide(MODEL)
    case.evaluator(case.space.sample(3, 0))
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(1).dtype == np.float32
    assert case.evaluator(case.space.sample(3, 0)).metrics.dtype == np.float64


# --- solving


def _objective(direction: str, metric: str, portfolio: bool = False) -> Objective:
    return parse_objective({direction: metric}, portfolio)


def _limit(text: str) -> Constraint:
    return parse_constraint(text)


@pytest.mark.parametrize("seed", range(20))
def test_solve_finds_the_best_within_the_limits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 200
    metrics = {
        "tokens_per_s_per_chip": rng.uniform(1, 100, n),
        "tpot_s": rng.uniform(0.01, 0.1, n),
        "ttft_s": rng.uniform(0.1, 4, n),
        "joules_per_token": rng.uniform(1, 10, n),
    }
    worst = rng.uniform(-1, 1, n)
    objectives = [
        _objective("maximize", "tokens_per_s_per_chip"),
        _objective("minimize", "joules_per_token"),
    ]
    constraints = [_limit("ttft_s <= 2")]
    spec = SolveSpec((), objectives[0], (_limit("tpot_s <= 50 ms"),))
    solved = solve(spec, metrics, worst, objectives, constraints)
    usable = [i for i in range(n) if worst[i] <= 0 and metrics["tpot_s"][i] <= 0.05]
    best = max(usable, key=lambda i: metrics["tokens_per_s_per_chip"][i])
    assert solved.status == "ok" and solved.best == best
    assert 0 < len(solved.kept) <= KEPT_MAPPINGS
    assert best not in solved.kept and len(set(solved.kept)) == len(solved.kept)
    for i in solved.kept:
        assert i in usable and metrics["ttft_s"][i] <= 2

    def dominates(a: int, b: int) -> bool:
        speed, energy = metrics["tokens_per_s_per_chip"], metrics["joules_per_token"]
        return bool(
            speed[a] >= speed[b]
            and energy[a] <= energy[b]
            and (speed[a] > speed[b] or energy[a] < energy[b])
        )

    fit = [i for i in usable if metrics["ttft_s"][i] <= 2]
    for kept, other in itertools.product(solved.kept, fit):
        assert not dominates(other, kept)


def test_solve_minimizes_too_and_reports_what_is_missed() -> None:
    metrics = {"tpot_s": np.array([0.3, 0.1, 0.2]), "ttft_s": np.array([1.0, 3.0, 2.0])}
    objectives = [_objective("minimize", "tpot_s"), _objective("minimize", "ttft_s")]
    spec = SolveSpec((), objectives[0], ())
    legal = np.array([-1.0, -1.0, -1.0])
    assert solve(spec, metrics, legal, objectives, []).best == 1
    assert set(solve(spec, metrics, legal, objectives, []).kept) == {0, 2}
    strict = SolveSpec((), objectives[0], (_limit("ttft_s <= 0.5"), _limit("tpot_s <= 1")))
    missed = solve(strict, metrics, legal, objectives, [])
    assert (missed.status, missed.best, missed.blocking) == ("limits", 0, "ttft_s <= 0.5")
    assert missed.violation == pytest.approx(1.0)
    nothing = solve(spec, metrics, np.array([0.5, 0.2, 0.9]), objectives, [])
    assert (nothing.status, nothing.best, nothing.violation) == ("illegal", 1, 0.2)


def test_an_illegal_mapping_is_never_chosen() -> None:
    metrics = {"tpot_s": np.array([0.1, 0.5])}
    objectives = [_objective("minimize", "tpot_s")]
    spec = SolveSpec((), objectives[0], ())
    assert solve(spec, metrics, np.array([1e-9, 0.0]), objectives, []).best == 1


# --- portfolio


def test_portfolio_aggregates() -> None:
    scores = [
        {"tpot_s": 0.02, "tokens_per_s_per_chip": 90.0, "die_area_mm2": 500.0},
        {"tpot_s": 0.05, "tokens_per_s_per_chip": 40.0, "die_area_mm2": 500.0},
    ]
    objectives = [
        _objective("maximize", "mean(tokens_per_s_per_chip)", True),
        _objective("minimize", "worst(tpot_s)", True),
        _objective("minimize", "worst_regret(tpot_s)", True),
        _objective("minimize", "worst_regret(tokens_per_s_per_chip)", True),
        _objective("minimize", "die_area_mm2", True),
    ]
    out = combine(
        ["a", "b"],
        [3.0, 1.0],
        scores,
        objectives,
        [_limit("tpot_s <= 0.04"), _limit("tokens_per_s_per_chip >= 50")],
        {"tpot_s": [0.016, 0.05], "tokens_per_s_per_chip": [100.0, 50.0]},
    )
    assert out["mean(tokens_per_s_per_chip)"] == pytest.approx((3 * 90 + 40) / 4)
    assert out["worst(tpot_s)"] == 0.05
    assert out["worst_regret(tpot_s)"] == pytest.approx(0.02 / 0.016 - 1)
    assert out["worst_regret(tokens_per_s_per_chip)"] == pytest.approx(1 - 40 / 50)
    assert out["die_area_mm2"] == 500
    assert (out["a.tpot_s"], out["b.tpot_s"]) == (0.02, 0.05)
    assert out["tpot_s"] == 0.05 and out["tokens_per_s_per_chip"] == 40  # the worst for each


def test_beating_the_own_best_is_no_negative_regret() -> None:
    objective = _objective("minimize", "worst_regret(tpot_s)", True)
    out = combine(["a"], [1.0], [{"tpot_s": 1.0}], [objective], [], {"tpot_s": [2.0]})
    assert out["worst_regret(tpot_s)"] == 0


# --- repair


def _space() -> Space:
    return Space(wide(MODEL).space.knobs[:3])


def test_repair_names_one_change_or_two_that_make_a_row_legal() -> None:
    space = _space()
    row = np.zeros(3, np.int32)

    def needs(*targets: int) -> object:
        def violation(rows: np.ndarray) -> np.ndarray:
            return np.sum([rows[:, c] < 1 for c in targets], axis=0).astype(float)

        return violation

    one = nearest_legal(space, row, needs(1))  # type: ignore[arg-type]
    assert one == f"{space.names[1]} {space.knobs[1].labels[0]} -> {space.knobs[1].labels[1]}"
    two = nearest_legal(space, row, needs(0, 2))  # type: ignore[arg-type]
    assert two.count("->") == 2 and " and " in two
    three = nearest_legal(space, row, needs(0, 1, 2))  # type: ignore[arg-type]
    assert three.startswith("no one or two changes are enough") and "100%" in three


# --- a study, scored


STUDY = """\
chip: {base: v6e, knobs: {vmem_mib: [64, 128], hbm_stacks: [1, 2, 4], clock_ghz: [1.4, 1.75]}}
model: {config: llama3__Meta-Llama-3.1-8B, knobs: {weight_format: [bf16, fp8]}}
workload: {prompt_tokens: 4000, output_tokens: 1000}
deployment:
  knobs: {torus: [1x2, 2x2], tensor: [2, 4], batch: [1, 8, 64, 512], prefill_chunk: [512, 4096]}
  solve: {knobs: all, maximize: tokens_per_s_per_chip, limits: [tpot_s <= 50 ms]}
objectives:
  - maximize: tokens_per_s_per_chip
  - minimize: ttft_s
  - minimize: quality_loss_nats
constraints: [die_area_mm2 <= 800]
search: {trials: 10}
"""


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(read(STUDY))


def test_the_score_of_a_study_is_the_best_of_all_mappings(scorer: Scorer) -> None:
    study = read(STUDY)
    (assignment,) = scorer._assignments
    rows = study.space().grid()
    for row, score in zip(rows, scorer.score(rows), strict=True):
        full = np.concatenate(
            [np.repeat(row[None], len(assignment.grid), axis=0), assignment.grid], axis=1
        )
        result = assignment.evaluator(full)
        metrics = dict(zip(METRICS, result.metrics, strict=True))
        usable = (result.worst <= 0) & (metrics["tpot_s"] <= 0.05)
        assert score.legal == bool(usable.any())
        if score.legal:
            best = metrics["tokens_per_s_per_chip"][usable].max()
            assert score.metrics["tokens_per_s_per_chip"] == best
            for mapping in score.mappings:
                assert mapping["metrics"]["tpot_s"] <= 0.05
                assert mapping["metrics"]["tokens_per_s_per_chip"] <= best
            assert all(math.isfinite(v) for v in score.metrics.values())


def test_scores_do_not_depend_on_their_company(scorer: Scorer) -> None:
    rows = read(STUDY).space().grid()
    together = scorer.score(rows)
    for i in (0, 7, len(rows) - 1):
        assert scorer.score(rows[i : i + 1])[0] == together[i]


def test_the_known_chip_is_scored_as_it_is(scorer: Scorer) -> None:
    ((name, score),) = scorer.reference_scores()
    assert name == "v6e as it is" and score.legal
    row = (
        read(STUDY)
        .space()
        .indices(
            {"vmem_mib": "128", "hbm_stacks": "2", "clock_ghz": "1.75", "weight_format": "bf16"}
        )
    )
    (own,) = scorer.score(row[None])
    for metric, value in own.metrics.items():
        assert score.metrics[metric] == pytest.approx(value, rel=1e-12)


def test_an_illegal_candidate_comes_with_a_repair_that_works() -> None:
    text = STUDY.replace("hbm_stacks: [1, 2, 4]", "hbm_stacks: [1, 8]").replace(
        "config: llama3__Meta-Llama-3.1-8B", "config: llama3__Meta-Llama-3.1-70B"
    )
    study = read(text)
    scorer = Scorer(study)
    labels = {"vmem_mib": "128", "hbm_stacks": "1", "clock_ghz": "1.4", "weight_format": "bf16"}
    (score,) = scorer.score(study.space().indices(labels)[None])
    assert not score.legal and score.reason == "hbm_overflow" and score.violation > 0
    assert "HBM" in score.explanation and "->" in score.repair
    for change in score.repair.split(" and "):
        knob, old, _, new = change.split(" ")
        assert labels[knob] == old
        labels[knob] = new
    (mended,) = scorer.score(study.space().indices(labels)[None])
    assert mended.legal or mended.reason == "solve_limits"
