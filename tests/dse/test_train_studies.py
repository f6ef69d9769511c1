"""Studies that train: their form, what they refuse, and their scores."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from dse.evaluate import Scorer
from dse.scoring.fields import assemble, base_values, field_names
from dse.spec import SpecError, StudySpec, load
from dse.spec.mapping import mapping_grid
from hwmodel import theta
from model_cases import BANDS, STEP, TRAINING_TOKENS, wide
from models.deployment import Deployment
from models.training import TRAINING_METRICS, evaluate_training
from models.variants import NEUTRAL, expand
from models.workload import Training
from search_spaces import FieldTable
from spec_examples import PORTFOLIO, edited, line_of, read

STUDY = """\
chip:
  base: v6e
  knobs: {hbm_stacks: [1, 2, 4], clock_ghz: [1.4, 1.75]}
model: llama3__Meta-Llama-3.1-8B
workload:
  train: {sequence_tokens: 8 ktokens, global_batch: 64}
deployment:
  knobs:
    data: [1, 2]
    fsdp: [8, 16]
    microbatches: [1, 2]
    remat: default
    optimizer_sharding: default
  fixed: {torus: 4x4}
  solve: {knobs: all, maximize: train_tokens_per_s_per_chip, limits: [train_step_s <= 60 s]}
objectives:
  - maximize: train_tokens_per_s_per_chip
  - minimize: train_usd_per_mtoken
constraints: [die_area_mm2 <= 800]
search: {trials: 10}
"""

# (old, new, part of the line that is named, key path, part of the message)
BAD = [
    ("sequence_tokens: 8 ktokens", "sequence_token: 8", "train:",
     "workload.train.sequence_token", "did you mean 'sequence_tokens'?"),
    ("sequence_tokens: 8 ktokens, ", "", "train:", "workload.train",
     "the key 'sequence_tokens' is missing"),
    ("  train: {", "  prompt_tokens: 100\n  train: {", "prompt_tokens", "workload.prompt_tokens",
     "a workload that trains has no prompt_tokens; its keys are under train"),
    ("global_batch: 64", "global_batch: 0.5", "train:", "workload.train.global_batch",
     "global_batch: 0.5 is below 1"),
    ("global_batch: 64", "global_batch: 8 GB", "train:", "workload.train.global_batch",
     "a size in GB"),
    ("global_batch: 64", "global_batch: 64, moment_bits: 128", "train:",
     "workload.train.moment_bits", "moment_bits: 128 is above 64"),
    ("global_batch: 64", "global_batch: 64, expert_capacity: 0.5", "train:",
     "workload.train.expert_capacity", "expert_capacity: 0.5 is below 1, an even share"),
    ("global_batch: 64", "global_batch: 64, expert_capacity: 1.25", "train:",
     "workload.train.expert_capacity", "has no routed experts; leave expert_capacity out"),
    ("model: llama3__Meta-Llama-3.1-8B\nworkload:\n  train: {sequence_tokens: 8 ktokens, ",
     "model: mixtral__Mixtral-8x7B-v0.1\nworkload:\n  train: {expert_capacity: 5, sequence_tokens: "
     "8 ktokens, ", "train:", "workload.train.expert_capacity",
     "expert_capacity: 5 is above 4, at which every expert"),
    ("sequence_tokens: 8 ktokens", "sequence_tokens: 1e6", "train:",
     "workload.train.sequence_tokens", "takes at most 131072"),
    ("    remat: default", "    batch: [1, 2]", " batch:", "deployment.knobs.batch",
     "batch means nothing where a study trains; the batch of a training step is "
     "workload.train.global_batch"),
    ("fixed: {torus: 4x4}", "fixed: {torus: 4x4, prefill_chunk: 512}", "fixed",
     "deployment.fixed.prefill_chunk", "prefill_chunk means nothing where a study trains"),
    ("    remat: default", "    remat: [ful]", "remat", "deployment.knobs.remat[0]",
     "'ful' is not a choice; did you mean 'full'?"),
    ("    data: [1, 2]\n", "", "optimizer_sharding", "deployment.knobs.optimizer_sharding",
     "optimizer_sharding changes nothing while data is 1"),
    ("minimize: train_usd_per_mtoken", "minimize: usd_per_mtoken", "- minimize", "objectives[1]",
     "usd_per_mtoken is a metric of studies that serve; did you mean 'train_usd_per_mtoken'?"),
    ("[die_area_mm2 <= 800]", "[tpot_s <= 1]", "constraints", "constraints[0]",
     "tpot_s is a metric of studies that serve"),
    ("[die_area_mm2 <= 800]", "[train_step_s / ttft_s <= 1]", "constraints", "constraints[0]",
     "ttft_s is a metric of studies that serve"),
    ("limits: [train_step_s <= 60 s]", "limits: [tpot_s <= 1]", "solve",
     "deployment.solve.limits[0]", "tpot_s is a metric of studies that serve"),
    ("solve: {knobs: all, maximize: train_tokens", "solve: {knobs: all, maximize: tokens", "solve",
     "deployment.solve.maximize", "did you mean 'train_tokens_per_s_per_chip'?"),
    ("minimize: train_usd_per_mtoken", "minimize: train_usd_per_mtoken_list", "- minimize",
     "objectives[1]", "say train_usd_per_mtoken, the modelled cost"),
    ("model: llama3__Meta-Llama-3.1-8B",
     "model: {config: llama3__Meta-Llama-3.1-8B, knobs: {kv_format: [bf16, fp8]}}", "model:",
     "model.knobs.kv_format", "kv_format means nothing where a study trains"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "on_line", "key", "message"), BAD)
def test_one_message_with_line_key_and_fix(
    old: str, new: str, on_line: str, key: str, message: str
) -> None:
    text = edited(old, new, STUDY)
    with pytest.raises(SpecError) as caught:
        read(text)
    where = f":{line_of(on_line, text)}: {key}: "
    (line,) = [line for line in str(caught.value).splitlines() if where in line]
    assert message in line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("maximize: mean(tokens", "maximize: mean(train_tokens", "metric of studies that train"),
        ("knobs: {expert: [1, 2, 4],", "knobs: {remat: default, expert: [1, 2, 4],",
         "remat means nothing where a study serves requests"),
        ("workload: {prompt_tokens: 2 ktokens, output_tokens: 100, expert_imbalance: 1.5}",
         "workload: {train: {sequence_tokens: 8192, global_batch: 8}}", "make two studies of them"),
    ],
)  # fmt: skip
def test_serving_and_training_are_kept_apart(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        read(edited(old, new, PORTFOLIO))


def test_the_workload_is_as_stated_and_changes_the_fingerprint() -> None:
    study = read(STUDY)
    assert study.assignments[0].workload == Training(sequence_tokens=8000.0, global_batch=64.0)
    other = read(edited("global_batch: 64", "global_batch: 64, moment_bits: 48", STUDY))
    assert other.fingerprint != study.fingerprint
    grid = mapping_grid(study.assignments[0])
    # data 2 with fsdp 8 or either with 16; without data there is no optimizer to shard over it.
    assert len(grid) == 2 * 4 * (1 + 2 + 2)


def test_the_batch_and_a_single_evaluation_agree() -> None:
    """Every metric and the largest violation, from the fields of a row through the plain rung."""
    case = wide("Meta-Llama-3.1-70B", workload=STEP)
    rows = np.concatenate([case.legal_rows(4096, 21)[:1], case.space.sample(1, 22)])
    result = case.evaluator(rows)
    base = base_values(case.chip, NEUTRAL, Deployment(), case.workload)
    free = {field for knob in case.space.knobs for field in knob.fields}
    base |= {name: value for name, value in BANDS.items() if name not in free}
    table = FieldTable.build(case.space, field_names(base), base)
    arch = expand(case.architecture, window=True)
    for i, values in enumerate(table.decode(rows)):
        parts = assemble(dict(zip(table.names, values.tolist(), strict=True)))
        degrees = {k: jax.numpy.asarray(v) for k, v in dataclasses.asdict(parts.deployment).items()}
        with jax.enable_x64(True), jax.disable_jit():
            point = evaluate_training(
                parts.chip,
                arch,
                parts.variant,
                Deployment(**degrees),
                parts.workload,
                theta.central(),
                TRAINING_TOKENS,
            )
        for metric, found in zip(TRAINING_METRICS, result.metrics[:, i], strict=True):
            assert found == pytest.approx(float(point.metrics[metric]), rel=1e-9), metric
        worst = max(float(amount) for amount in point.violations.values())
        assert result.worst[i] == pytest.approx(worst, rel=1e-9, abs=1e-6)


def test_a_capacity_is_part_of_the_workload() -> None:
    text = edited("llama3__Meta-Llama-3.1-8B", "mixtral__Mixtral-8x7B-v0.1", STUDY)
    capacities = []
    for more in ("", ", expert_capacity: 0", ", expert_capacity: 1.25"):
        workload = read(edited("global_batch: 64", f"global_batch: 64{more}", text))
        capacities.append(workload.assignments[0].workload.expert_capacity)
    assert capacities == [0, 0, 1.25]


@pytest.fixture(scope="module")
def study() -> StudySpec:
    return read(STUDY)


@pytest.fixture(scope="module")
def scorer(study: StudySpec) -> Scorer:
    return Scorer(study)


def test_a_study_is_scored_explained_and_compared_with_the_known_chip(
    study: StudySpec, scorer: Scorer
) -> None:
    row = study.space().indices({"hbm_stacks": "2", "clock_ghz": "1.75"})
    (score,) = scorer.score(row[None])
    ((name, reference),) = scorer.reference_scores()
    assert score.legal and name == "v6e as it is"
    for metric, value in score.metrics.items():
        assert reference.metrics[metric] == pytest.approx(value, rel=1e-12)
    assert "train_usd_per_mtoken_list" in reference.metrics
    assert "train_usd_per_mtoken_list" not in score.metrics
    table = scorer.explain(row, score.solved)
    assert {op["phase"] for op in table} == {"train"}
    total = sum(op["time_s"] for op in table)
    assert total == pytest.approx(score.metrics["train_step_s"])
    assert {"attention gradient", "optimizer update", "weight all-gather (backward), fsdp"} <= {
        op["name"] for op in table
    }


def test_the_best_mapping_is_chosen_and_its_chance_is_told(
    study: StudySpec, scorer: Scorer
) -> None:
    (assignment,) = scorer._assignments
    rows = study.space().grid()
    for row, score in zip(rows, scorer.score(rows), strict=True):
        full = np.concatenate(
            [np.repeat(row[None], len(assignment.grid), axis=0), assignment.grid], axis=1
        )
        result = assignment.evaluator(full)
        metrics = dict(zip(TRAINING_METRICS, result.metrics, strict=True))
        usable = (result.worst <= 0) & (metrics["train_step_s"] <= 60)
        assert score.legal == bool(usable.any())
        if score.legal:
            best = metrics["train_tokens_per_s_per_chip"][usable].max()
            assert score.metrics["train_tokens_per_s_per_chip"] == best
    (chances,) = scorer.feasibility(rows[-1:], [scorer.score(rows[-1:])[0].solved])
    assert 0 <= chances["joint"] <= chances["die_area_mm2 <= 800"] <= 1


def test_an_illegal_candidate_comes_with_a_repair_that_works() -> None:
    text = edited("hbm_stacks: [1, 2, 4]", "hbm_stacks: [1, 8]", STUDY)
    text = edited("fsdp: [8, 16]", "fsdp: [16]", text).replace("3.1-8B", "3.1-70B")
    study = read(edited("limits: [train_step_s <= 60 s]", "limits: []", text))
    scorer = Scorer(study)
    labels = {"hbm_stacks": "1", "clock_ghz": "1.4"}
    (score,) = scorer.score(study.space().indices(labels)[None])
    assert not score.legal and score.reason == "hbm_overflow"
    assert score.repair == "hbm_stacks 1 -> 8"
    labels["hbm_stacks"] = "8"
    (mended,) = scorer.score(study.space().indices(labels)[None])
    assert mended.legal


def test_the_example_study_is_legal_and_small_enough_to_run() -> None:
    study = load(Path(__file__).parents[2] / "studies" / "train_llama31-70b.yaml")
    assert isinstance(study.assignments[0].workload, Training)
    assert 1000 <= study.search.trials <= 2000
    assert len(mapping_grid(study.assignments[0])) < 5000
