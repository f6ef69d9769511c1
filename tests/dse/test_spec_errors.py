"""Every kind of bad study: its message, line, key and nearest name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.errors import UserError
from dse.spec import SpecError, load
from spec_examples import PATH, PORTFOLIO, STUDY, edited, line_of, read

# (old, new, part of the line that is named, key path, parts of the message)
BAD = [
    # structure
    ("name: small", "name: ../small", "name", "name", ["'../small' should be 1 to 100 letters"]),
    ("name: small", "name: ''", "name", "name", ["'' should be 1 to 100 letters"]),
    ("die_area_mm2 <= 800", "die_area_mm2 <= -1", "- die_area", "constraints[0]",
     ["die_area_mm2 is never negative"]),
    ("search:", "serach:", "serach:", "serach", ["unknown key; did you mean 'search'?"]),
    ("question: d", "qestion: d", "qestion", "qestion", ["did you mean 'question'?"]),
    ("{prompt_tokens: 4000,", "{promt_tokens: 4000,", "promt", "workload.promt_tokens",
     ["unknown key; did you mean 'prompt_tokens'?"]),
    ("{prompt_tokens: 4000,", "{", "workload:", "workload", ["the key 'prompt_tokens' is missing"]),
    ("  base: v6e\n", "", "chip:", "chip", ["the key 'base' is missing"]),
    ("sampler: nsga2", "sampler: nsgaii", "search:", "search.sampler",
     ["'nsgaii' is unknown; did you mean 'nsga2'?"]),
    ("sampler: nsga2", "sampler: cmaes", "search:", "search.sampler",
     ["'cmaes' is unknown; valid names: gp, nsga2, nsga3, qmc, random, tpe"]),
    ("trials: 100", "trials: 0", "search:", "search.trials", ["0", "greater than or equal to 1"]),
    ("trials: 100", "trials: many", "search:", "search.trials", ["'many' should be a integer"]),
    ("seed: 1", "seed: 1.5", "search:", "search.seed", ["1.5", "integer"]),
    ("name: small", "name: 7", "name:", "name", ["7 should be a string"]),
    ("workload: {prompt_tokens: 4000, output_tokens: 1000}", "workload: 4000", "workload:",
     "workload", ["4000 should be a mapping of keys to values"]),
    ("  - minimize: quality_loss_nats", "  minimize: quality_loss_nats", None, "",
     ["not valid YAML"]),
    # chip
    ("base: v6e", "base: v6x", "base:", "chip.base", ["unknown chip 'v6x'", "v6e"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "clok_ghz: [1.4]", "clok", "chip.knobs.clok_ghz",
     ["no chip knob is called 'clok_ghz'; did you mean 'clock_ghz'?"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "batch: [1]", "batch: [1]", "chip.knobs.batch",
     ["'batch' is a deployment knob; it belongs under deployment"]),
    ("include: tpu_memory_system", "include: tpu_memory_sytem", "include:", "chip.knobs.include",
     ["no chip preset is called 'tpu_memory_sytem'; did you mean 'tpu_memory_system'?"]),
    ("include: tpu_memory_system", "include: [serving_pod]", "include:", "chip.knobs.include[0]",
     ["holds deployment knobs"]),
    ("include: tpu_memory_system", "include: 3", "include:", "chip.knobs.include",
     ["3 should be the name of a preset"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "vmem_mib: [64 MiB, 128 GHz]", "128 GHz",
     "chip.knobs.vmem_mib[1]", ["vmem_mib: '128 GHz' is a frequency in GHz", "a size in MiB"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "clock_ghz: [1.4, 40]", "[1.4, 40]", "chip.knobs.clock_ghz[1]",
     ["40 is outside 0.2 to 4 GHz"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "clock_ghz: [1.4, 1400 MHz]", "1400", "chip.knobs.clock_ghz",
     ["clock_ghz lists 1.4 twice"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "clock_ghz: []", "clock_ghz: []", "chip.knobs.clock_ghz",
     ["clock_ghz has no choices; list some, or say default or off"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "clock_ghz:", "clock_ghz:", "chip.knobs.clock_ghz",
     ["clock_ghz has no choices"]),
    ("clock_ghz: [1.4, 1.75 GHz]", "clock_ghz: {low: 1}", "low: 1", "chip.knobs.clock_ghz",
     ["takes a list of choices, not a mapping"]),
    # model
    ("Meta-Llama-3.1-70B", "Meta-Lama-3.1-70B", "config:", "model.config",
     ["Meta-Lama-3.1-70B", "Meta-Llama-3.1-70B"]),
    ("weight_format: [bf16, fp8]", "weight_format: [bf16, fp9]", "fp9",
     "model.knobs.weight_format[1]", ["'fp9' is not a choice; did you mean 'fp8'?"]),
    ("weight_format: [bf16, fp8]", "experts_scale: [0.5, 1]", "experts_scale",
     "model.knobs.experts_scale",
     ["experts_scale needs routed experts, which the model lacks; say experts_scale: off"]),
    ("weight_format: [bf16, fp8]", "include: moe_variants", "moe_variants", "model.knobs.include",
     ["experts_scale needs routed experts"]),
    ("    window_share: [0, 0.5]\n", "", "window_tokens", "model.knobs.window_tokens",
     ["window_tokens changes nothing while window_share is 0; vary or set window_share"]),
    ("    window_tokens: [1024, 4096]\n", "", "window_share", "model.knobs.window_share",
     ["window_share needs window_tokens beside it"]),
    ("  assume: {head_dim: {64: [0.0, 0.02]}}\n", "", "head_dim", "model.knobs.head_dim",
     ["no published law", "assume: {head_dim: {64: [0.0, 0.02]}}"]),
    ("assume: {head_dim: {64:", "assume: {head_dimm: {64:", "assume", "model.assume.head_dimm",
     ["no model knob is called 'head_dimm'; did you mean 'head_dim'?"]),
    ("assume: {head_dim:", "assume: {kv_heads: {4: [0.0, 0.1]}, head_dim:", "assume",
     "model.assume.kv_heads", ["kv_heads is not among the model's knobs"]),
    ("assume: {head_dim: {64:", "assume: {head_dim: {32: [0.0, 0.1], 64:", "assume",
     "model.assume.head_dim.32", ["head_dim has no choice '32'"]),
    ("assume: {head_dim: {64:", "assume: {head_dim: {released: [0.0, 0.1], 64:", "assume",
     "model.assume.head_dim.released", ["is the model as released; it costs nothing"]),
    ("{64: [0.0, 0.02]}", "{64: 0.02}", "assume", "model.assume.head_dim.64",
     ["0.02 should be two numbers, [low, high] in nats per token"]),
    ("{64: [0.0, 0.02]}", "{64: [0.0, 0.0]}", "assume", "model.assume.head_dim.64",
     ["never assumed to be free"]),
    ("{64: [0.0, 0.02]}", "{64: [0.3, 0.02]}", "assume", "model.assume.head_dim.64",
     ["0 <= low <= high"]),
    ("{64: [0.0, 0.02]}", "{64: [0.0, 0.02]}, window_share: {0.5: [0.0, 0.1]}, "
     "window_tokens: {1024: [0.0, 0.1]}", "assume", "model.assume.window_tokens",
     ["window_share and window_tokens share one band"]),
    ("  knobs:\n    weight", "  training_tokens: -1\n  knobs:\n    weight", "training_tokens",
     "model.training_tokens", ["training_tokens: -1 should be above 0"]),
    ("  knobs:\n    weight", "  training_tokens: 15 GB\n  knobs:\n    weight", "training_tokens",
     "model.training_tokens", ["a size in GB"]),
    ("    window_tokens: [1024, 4096]", "    window_tokens: [512, 4096]", "window_tokens",
     "model.knobs.window_tokens", ["512", "measurement ends at 1024 tokens"]),
    # workload
    ("prompt_tokens: 4000", "prompt_tokens: 4000.5", "workload", "workload.prompt_tokens",
     ["4000.5 is not a whole number of tokens"]),
    ("prompt_tokens: 4000", "prompt_tokens: 1e40", "workload", "workload.prompt_tokens",
     ["1e+40 is not a whole number of tokens up to 1e+09"]),
    ("prompt_tokens: 4000", "prompt_tokens: 0", "workload", "workload.prompt_tokens",
     ["prompt_tokens: 0 is below 1"]),
    ("output_tokens: 1000", "output_tokens: 3 s", "workload", "workload.output_tokens",
     ["a time in s"]),
    ("output_tokens: 1000", "output_tokens: 1000, cached_prefix_tokens: 4000", "workload",
     "workload.cached_prefix_tokens", ["leave nothing of a prompt of 4000"]),
    ("output_tokens: 1000", "output_tokens: 1000, expert_imbalance: 0.5", "workload",
     "workload.expert_imbalance", ["expert_imbalance: 0.5 is below 1"]),
    # deployment
    ("fixed: {pipeline: 2}", "fixed: {pipelin: 2}", "pipelin", "deployment.fixed.pipelin",
     ["no deployment knob is called 'pipelin'; did you mean 'pipeline'?"]),
    ("fixed: {pipeline: 2}", "fixed: {tensor: 8}", "fixed", "deployment.fixed.tensor",
     ["tensor is both varied under knobs and fixed here; keep one of them"]),
    ("fixed: {pipeline: 2}", "fixed: {pipeline: [1, 2]}", "fixed", "deployment.fixed.pipeline",
     ["[1, 2] is not a number"]),
    ("torus: [4x4, 4x8]", "torus: [4x4, 4*8]", "4*8", "deployment.knobs.torus[1]",
     ["'4*8' is not of the form 4x8 or 4x4x4"]),
    ("mesh_order: default", "expert: [1, 2]", "expert", "deployment.knobs.expert",
     ["expert needs routed experts"]),
    ("[torus, tensor, batch]", "[torus, tensr]", "[torus, tensr]", "deployment.solve.knobs[1]",
     ["no deployment knob is called 'tensr'; did you mean 'tensor'?"]),
    ("[torus, tensor, batch]", "[torus, context]", "[torus, context]", "deployment.solve.knobs[1]",
     ["context is not among the deployment knobs of this study"]),
    ("[torus, tensor, batch]", "most", "knobs: most", "deployment.solve.knobs",
     ["'most' should be a list of deployment knobs, or all"]),
    ("[torus, tensor, batch]", "[]", "knobs: []", "deployment.solve.knobs",
     ["there is nothing to solve"]),
    ("    maximize: tokens_per_s_per_chip\n", "", "solve:", "deployment.solve",
     ["solve names one metric to follow: maximize or minimize"]),
    ("    maximize: tokens_per_s_per_chip\n", "    maximize: tokens_per_s_per_chp\n",
     "per_chp", "deployment.solve.maximize", ["did you mean 'tokens_per_s_per_chip'?"]),
    ("    maximize: tokens_per_s_per_chip\n", "    maximize: ttft_s\n",
     "maximize: ttft_s", "deployment.solve.maximize", ["it should be minimized"]),
    ("tpot_s <= 50 ms", "tpot_s <= 50 MB", "50 MB", "deployment.solve.limits[0]",
     ["a size in MB"]),
    # objectives and constraints
    ("- die_area_mm2 <= 800", "- die_area_mm3 <= 800", "mm3", "constraints[0]",
     ["no metric is called 'die_area_mm3'; did you mean 'die_area_mm2'?"]),
    ("- die_area_mm2 <= 800", "- die_area_mm2 <= 800 W", "800 W", "constraints[0]",
     ["die_area_mm2: '800 W' is a power in W"]),
    ("  - minimize: quality_loss_nats", "  - minimize: quality_loss_nats\n  - minimize: ttfs_s",
     "ttfs_s", "objectives[2]", ["no metric is called 'ttfs_s'; did you mean 'ttft_s'?"]),
    ("  - minimize: quality_loss_nats", "  - minimize: quality_loss_nats\n  - minimize: "
     "quality_loss_nats # again", "again", "objectives[2]", ["quality_loss_nats is listed twice"]),
    ("  - minimize: quality_loss_nats\n", "", "objectives:", "objectives",
     ["weight_format, head_dim, window_share may cost model quality",
      "the search would only make the model smaller", "minimize: quality_loss_nats"]),
    ("  - minimize: quality_loss_nats", "  - minimize: quality_loss_nats\n  - minimize: "
     "usd_per_mtoken_list", "mtoken_list", "objectives[2]",
     ["the list price of v6e says nothing about the other chips"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "on_line", "key", "parts"), BAD)
def test_one_message_with_line_key_and_fix(
    old: str, new: str, on_line: str | None, key: str, parts: list[str]
) -> None:
    text = edited(old, new)
    with pytest.raises(SpecError) as error:
        read(text)
    message = str(error.value)
    for part in parts:
        assert part in message
    problem = next(p for p in error.value.problems if p.key == key)
    if on_line is not None:
        assert problem.line == line_of(on_line, text)
        assert f"{PATH}:{problem.line}: {key}: " in message
    assert "Traceback" not in message


BAD_PORTFOLIO = [
    ("name: moe", "name: dense", "portfolio[1].name", "the name 'dense' is used twice"),
    ("name: moe", "name: m.oe", "portfolio[1].name", "'m.oe' should be letters, digits"),
    ("    weight: 3\n", "    weight: 0\n", "portfolio[0].weight", "weight: 0 should be above 0"),
    ("name: moe", "nme: moe", "portfolio[1].nme", "unknown key; did you mean 'name'?"),
    ("expert: [1, 2, 4]", "expert: [1, 2.5]", "portfolio[1].deployment.knobs.expert[1]",
     "2.5 is not a whole number of chips"),
    ("Qwen3-30B-A3B", "Qwen3-30B-A3", "portfolio[1].model.config", "Qwen3-30B-A3B"),
    ("mean(tokens_per_s_per_chip)", "tokens_per_s_per_chip", "objectives[0]",
     "say mean(tokens_per_s_per_chip) or"),
    ("search:", "workload: {prompt_tokens: 1, output_tokens: 1}\nsearch:", "workload",
     "each member of the portfolio has its own workload; move it there"),
    ("constraints: [quality_loss_nats <= 0.1]\n", "", "objectives",
     "dense.window_share, moe.experts_scale may cost model quality"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "key", "part"), BAD_PORTFOLIO)
def test_bad_portfolio(old: str, new: str, key: str, part: str) -> None:
    with pytest.raises(SpecError) as error:
        read(edited(old, new, PORTFOLIO))
    (problem,) = [p for p in error.value.problems if p.key == key]
    assert part in problem.message
    assert problem.line is not None


def test_empty_portfolio() -> None:
    text = "chip: v6e\nportfolio: []\nobjectives: [minimize: tdp_w]\n"
    with pytest.raises(SpecError, match=r"small\.yaml:2: portfolio: the portfolio is empty"):
        read(text)


def test_neither_model_nor_portfolio() -> None:
    with pytest.raises(SpecError, match=r"the key 'model' is missing \(or a portfolio"):
        read("chip: v6e\nobjectives: [minimize: tdp_w]\n")


def test_no_objectives() -> None:
    text = STUDY.replace("  - maximize: tokens_per_s_per_chip\n  - min", "  - min")
    text = edited("objectives:\n  - minimize: quality_loss_nats\n", "objectives: []\n", text)
    with pytest.raises(SpecError, match="objectives: a study needs at least one objective"):
        read(text)


EMPTY = """\
chip: v6e
model: llama3__Meta-Llama-3.1-8B
workload: {prompt_tokens: 10, output_tokens: 10}
deployment: {fixed: {batch: 4}}
objectives: [minimize: ttft_s]
search: {trials: 2}
"""


def test_empty_space() -> None:
    with pytest.raises(
        SpecError, match=r"small.yaml:1: the space is empty.*set search.trials to 1"
    ):
        read(EMPTY)
    assert read(edited("trials: 2", "trials: 1", EMPTY)).space().size == 1
    solved = edited(
        "{fixed: {batch: 4}}",
        "{knobs: {batch: [1, 2]}, solve: {knobs: all, minimize: ttft_s}}",
        EMPTY,
    )
    assert read(solved).space().size == 1


def test_list_price_of_a_chip_without_one() -> None:
    text = edited("chip: v6e", "chip: 8t", EMPTY)
    text = edited("fixed: {batch: 4}", "knobs: {batch: [1, 2]}", text)
    text = edited("minimize: ttft_s", "minimize: usd_per_mtoken_list", text)
    with pytest.raises(SpecError, match="8t has no published price; say usd_per_mtoken"):
        read(text)
    assert read(text.replace("chip: 8t", "chip: v6e"))


def test_unknown_training_tokens_matter_only_to_four_bits(tmp_path: Path) -> None:
    from importlib import resources

    config = resources.files("models").joinpath("catalog/llama3__Meta-Llama-3.1-8B.json")
    (tmp_path / "mine.json").write_text(config.read_text("utf-8"))
    text = edited(
        "model: llama3__Meta-Llama-3.1-8B",
        "model:\n  config: mine.json\n  knobs: {weight_format: [bf16, w4a16]}",
        edited("[minimize: ttft_s]", "[minimize: quality_loss_nats]", EMPTY),
    )
    study = tmp_path / "study.yaml"
    study.write_text(text)
    with pytest.raises(SpecError, match=r"study.yaml:4: model.knobs.weight_format: .*training_tok"):
        load(study)
    study.write_text(text.replace("w4a16", "fp8"))
    assert load(study).assignments[0].training_tokens is None
    study.write_text(edited("  knobs", "  training_tokens: 1e12\n  knobs", text))
    assert load(study).assignments[0].training_tokens == 1e12


def test_several_problems_are_listed_together_in_order() -> None:
    text = edited("base: v6e", "base: v6x", edited("pipeline: 2", "pipelin: 2"))
    text = edited("- die_area_mm2", "- die_aera_mm2", text)
    with pytest.raises(SpecError) as error:
        read(text)
    lines = str(error.value).splitlines()
    assert lines[0] == f"{PATH} has 3 problems:"
    assert [p.key for p in error.value.problems] == [
        "chip.base", "deployment.fixed.pipelin", "constraints[0]",
    ]  # fmt: skip
    assert len(lines) == 4


def test_duplicate_keys() -> None:
    text = edited("workload:", "chip: v5e\nworkload:")
    with pytest.raises(SpecError) as error:
        read(text)
    line = line_of("chip: v5e", text)
    assert str(error.value) == f"{PATH}:{line}: key 'chip' is given twice, first on line 3"


@pytest.mark.parametrize("text", ["", "# only a comment\n", "- a\n- b\n", "just words"])
def test_not_a_mapping(text: str) -> None:
    with pytest.raises(SpecError, match="a study file is a mapping with keys such as chip"):
        read(text)


def test_missing_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "llama.yaml").write_text(STUDY)
    with pytest.raises(
        SpecError, match=r"there is no such study file; did you mean '.*llama\.yaml'"
    ):
        load(tmp_path / "lama.yaml")
    with pytest.raises(SpecError, match=r"the folder '.*nowhere' does not exist"):
        load(tmp_path / "nowhere" / "x.yaml")


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="the file is not UTF-8 text"):
        load(tmp_path / "binary.yaml")
    with pytest.raises(SpecError, match="the file cannot be read: Is a directory"):
        load(tmp_path)


TOKENS = re.findall(r"[\w.]+", STUDY + PORTFOLIO)
ODD = [
    "",
    "[]",
    "{}",
    "null",
    "-1",
    "0",
    "1e999",
    "9" * 400,
    "[[1]]",
    "{a: 1}",
    "true",
    "x: y",
    "'",
    "*x",
    "&x",
    "!!int",
    "1.5 GHz",
    "off",
    "default",
    "all",
    "\u00e9",
    "- a",
    "a b",
]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_damaged_study_never_gives_a_traceback(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([STUDY, PORTFOLIO]))
    for _ in range(data.draw(st.integers(1, 3))):
        words = list(re.finditer(r"[\w.]+", text))
        word = data.draw(st.sampled_from(words))
        new = data.draw(st.sampled_from(ODD + TOKENS))
        text = text[: word.start()] + new + text[word.end() :]
    try:
        spec = read(text)
        assert spec.space().size >= 1
        assert spec.fingerprint
    except SpecError as error:
        assert all(problem.message for problem in error.problems)


def test_a_spec_error_is_for_the_user() -> None:
    assert issubclass(SpecError, UserError)
