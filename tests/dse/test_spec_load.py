"""Legal studies: what `dse.spec.load` makes of them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from dse.spec import StudySpec, load
from dse.spec.mapping import mapping_grid
from models.variants import training_tokens
from search_spaces.space import Space
from spec_examples import PATH, PORTFOLIO, STUDY, edited, read

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*.yaml"))


def test_chip_knobs_include_override_and_off() -> None:
    spec = read()
    names = [knob.name for knob in spec.chip_knobs]
    assert names == ["vmem_mib", "hbm_stacks", "hbm_generation", "clock_ghz"]
    assert spec.chip_knobs[3].labels == ("1.4", "1.75")
    assert spec.chip_base == "v6e"


def test_space_has_what_is_sampled_and_not_what_is_solved() -> None:
    spec = read()
    assert spec.space().names == (
        "vmem_mib", "hbm_stacks", "hbm_generation", "clock_ghz", "weight_format", "head_dim",
        "window_share", "window_tokens", "mesh_order",
    )  # fmt: skip
    (assignment,) = spec.assignments
    assert [k.name for k in assignment.solved_knobs] == ["torus", "tensor", "batch"]
    assert assignment.solve is not None
    assert assignment.solve.objective.text == "tokens_per_s_per_chip"
    assert [c.limit for c in assignment.solve.limits] == [0.05]
    assert assignment.fixed_fields == {"pipeline": 2.0}
    assert assignment.deployment_fixed["pipeline"].label == "2"


def test_conditional_knob_collapses() -> None:
    space = read().space()
    row = space.indices({**space.labels(space.row(0)), "window_tokens": "4096"})
    assert space.design_id(row) == 0


def test_model_workload_and_search() -> None:
    spec = read()
    (assignment,) = spec.assignments
    assert assignment.architecture.layers == 80
    assert assignment.model_ref == "llama3__Meta-Llama-3.1-70B"
    assert assignment.training_tokens == training_tokens("Llama-3.1-70B").tokens
    assert assignment.workload.prompt_tokens == 4000
    assert assignment.workload.expert_imbalance == 1
    assert (spec.search.sampler, spec.search.trials) == ("nsga2", 100)
    assert (spec.name, spec.question, spec.path, spec.text) == (
        "small", "does it load", PATH, STUDY,
    )  # fmt: skip


def test_assumed_band_is_set_by_its_choice_only() -> None:
    (head_dim,) = [k for k in read().assignments[0].model_knobs if k.name == "head_dim"]
    fields = {c.label: dict(c.fields) for c in head_dim.choices}
    assert fields["64"] == {
        "head_dim": 64, "head_dim_nats_low": 0.0, "head_dim_nats_high": 0.02,
    }  # fmt: skip
    assert fields["released"]["head_dim_nats_high"] == 0


def test_the_band_of_a_window_share_prices_windows_of_any_length() -> None:
    text = edited("window_tokens: [1024, 4096]", "window_tokens: [512, 4096]")
    text = text.replace(
        "{head_dim: {64: [0.0, 0.02]}}",
        "{head_dim: {64: [0.0, 0.02]}, window_share: {0.5: [0.0, 0.1]}}",
    )
    knobs = {knob.name: knob for knob in read(text).space().knobs}
    assert knobs["window_tokens"].labels == ("512", "4096")
    assert knobs["window_share"].choices[1].fields["window_nats_high"] == 0.1


def test_stated_training_tokens() -> None:
    text = edited("  knobs:\n    weight", "  training_tokens: 2e12\n  knobs:\n    weight")
    assert read(text).assignments[0].training_tokens == 2e12


def test_short_forms_and_defaults() -> None:
    spec = read(
        "chip: v5e\nmodel: llama3__Meta-Llama-3.1-8B\n"
        "workload: {prompt_tokens: 1, output_tokens: 1}\n"
        "deployment: {knobs: {batch: default}}\nobjectives: [minimize: ttft_s]\n"
    )
    assert spec.name == "small"  # the file's stem
    assert spec.question == ""
    assert spec.chip_knobs == ()
    assert spec.constraints == ()
    assert spec.search.sampler == "nsga2"
    assert spec.assignments[0].solve is None
    assert spec.space().names == ("batch",)


def test_another_name_of_the_chip_is_the_same_study() -> None:
    spec = read(edited("base: v6e", "base: TPU Trillium"))
    assert spec.chip_base == "v6e"
    assert spec.fingerprint == read().fingerprint


def test_one_value_sets_a_knob_without_varying_it() -> None:
    spec = read(edited("clock_ghz: [1.4, 1.75 GHz]", "clock_ghz: 1.5"))
    assert spec.chip_knobs[3].labels == ("1.5",)


def test_portfolio_knobs_are_prefixed() -> None:
    spec = read(PORTFOLIO)
    assert spec.is_portfolio
    assert spec.space().names == (
        "clock_ghz", "dense.window_share", "dense.window_tokens", "dense.tensor", "dense.layout",
        "moe.experts_scale",
    )  # fmt: skip
    dense, moe = spec.assignments
    assert (dense.name, dense.weight, moe.weight) == ("dense", 3, 1)
    assert spec.space().knob("dense.layout").when == {"dense.tensor": ("2",)}
    assert {k.assignment for k in dense.model_knobs} == {"dense"}
    assert [k.name for k in moe.solved_knobs] == ["moe.expert", "moe.batch"]
    assert moe.workload.prompt_tokens == 2000
    assert [o.text for o in spec.objectives] == [
        "mean(tokens_per_s_per_chip)", "worst_regret(tpot_s)",
    ]  # fmt: skip


def test_exact_kv_replication_needs_no_price_and_no_band() -> None:
    text = edited("window_share: [0, 0.5]", "kv_heads: [released, 16]", PORTFOLIO)
    text = edited(", window_tokens: 1024", "", text)
    text = edited("experts_scale: [0.5, 1]", "", text)
    text = edited("constraints: [quality_loss_nats <= 0.1]\n", "", text)
    assert read(text).space().knob("dense.kv_heads").labels == ("released", "16")


def test_mapping_grid_fills_whole_slices() -> None:
    (assignment,) = read().assignments
    space = Space(assignment.solved_knobs)
    found = {tuple(space.labels(row).values()) for row in mapping_grid(assignment)}
    # two pipeline stages: tensor 8 fills a 4x4 slice, tensor 16 a 4x8 slice or two 4x4 slices
    pairs = {(torus, tensor) for torus, tensor, _ in found}
    assert pairs == {("4x4", "8"), ("4x4", "16"), ("4x8", "16")}
    assert len(found) == 6


def test_mapping_grid_with_a_sampled_degree_is_the_whole_grid() -> None:
    text = edited("knobs: [torus, tensor, batch]", "knobs: [torus, batch]")
    (assignment,) = read(text).assignments
    assert len(mapping_grid(assignment)) == 4


def test_pickles() -> None:
    spec = read(PORTFOLIO)
    _ = spec.fingerprint
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert again.fingerprint == spec.fingerprint
    assert again.space() == spec.space()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("question: does it load", "question: something else  # and a comment"),
        ("trials: 100", "trials: 5000"),
        ("name: small", "name: other"),
        ("1.75 GHz", "1750 MHz"),
        ("die_area_mm2 <= 800", "die_area_mm2 <= 8 cm2"),
        ("[16, 64]", "[64, 16]"),
    ],
)
def test_fingerprint_is_free_of(old: str, new: str) -> None:
    assert read(edited(old, new)).fingerprint == read().fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("clock_ghz: [1.4,", "clock_ghz: [1.3,"),
        ("base: v6e", "base: v5p"),
        ("include: tpu_memory_system, ", "include: tpu_network, "),
        ("Meta-Llama-3.1-70B", "Meta-Llama-3.1-8B"),
        ("prompt_tokens: 4000", "prompt_tokens: 4001"),
        ("[0.0, 0.02]", "[0.0, 0.03]"),
        ("pipeline: 2", "pipeline: 4"),
        ("[16, 64]", "[16, 32]"),
        ("tpot_s <= 50 ms", "tpot_s <= 60 ms"),
        ("die_area_mm2 <= 800", "die_area_mm2 <= 801"),
        ("  - minimize: quality_loss_nats", "  - minimize: quality_loss_nats\n  - minimize: tdp_w"),
        ("seed: 1", "seed: 2"),
        ("nsga2", "nsga3"),
        ("population: 20", "population: 30"),
    ],
)
def test_fingerprint_depends_on(old: str, new: str) -> None:
    assert read(edited(old, new)).fingerprint != read().fingerprint


@pytest.mark.parametrize("path", STUDIES, ids=lambda p: p.stem)
def test_the_studies_that_come_with_the_project_load(path: Path) -> None:
    spec = load(path)
    assert spec.name == path.stem
    assert spec.question
    assert path.read_text("utf-8").startswith("# ")
    for assignment in spec.assignments:
        assert 0 < len(mapping_grid(assignment)) <= 11_000
    rows = spec.space().sample(20, seed=0)
    assert len(np.unique(spec.space().design_ids(rows))) > 1


def test_the_llama_study_is_as_joint_as_promised() -> None:
    spec = load(next(p for p in STUDIES if p.stem == "llama31-70b-serving"))
    (assignment,) = spec.assignments
    assert len(spec.chip_knobs) >= 8
    varied = {k.name for k in assignment.model_knobs if len(k.choices) > 1}
    assert varied >= {
        "head_dim", "kv_heads", "ffn_width_scale", "weight_format", "kv_format", "nm_sparsity",
        "window_share",
    }  # fmt: skip
    deployment = {
        k.name for k in (*assignment.deployment_knobs_sampled, *assignment.solved_knobs)
    } | set(assignment.deployment_fixed)
    assert deployment == {
        "torus", "data", "fsdp", "tensor", "expert", "pipeline", "context", "attention_data",
        "layout", "mesh_order", "batch", "prefill_chunk",
    }  # fmt: skip
    assert len(spec.objectives) >= 4
    assert {c.metric for c in spec.constraints} == {"die_area_mm2", "tdp_w", "ttft_s"}


def test_studies_of_the_brief_are_there() -> None:
    assert {p.stem for p in STUDIES} >= {
        "llama31-70b-serving", "qwen3-235b-serving", "deepseek-v3-serving", "portfolio-three",
        "frozen-v6e-llama31-70b",
    }  # fmt: skip


def test_a_config_path_is_relative_to_the_study(tmp_path: Path) -> None:
    from importlib import resources

    source = resources.files("models").joinpath("catalog/llama3__Meta-Llama-3.1-70B.json")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.json").write_text(source.read_text("utf-8"))
    text = edited("config: llama3__Meta-Llama-3.1-70B", "config: configs/mine.json")
    (tmp_path / "study.yaml").write_text(text)
    spec: StudySpec = load(tmp_path / "study.yaml")
    assert spec.assignments[0].architecture.layers == 80
