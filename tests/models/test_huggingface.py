"""Reading config.json files: counts against published and independent ones, traps, bad input."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from models.architecture import (
    Architecture,
    Attention,
    LatentAttention,
    MoE,
    Recurrent,
    kv_bytes_per_token,
    parameters_active,
    parameters_total,
)
from models.huggingface import ModelConfigError, catalog_names, load, parse
from models.huggingface.catalog import read_catalog
from models.huggingface.family import families, wrappers
from models.huggingface.reader import ignored_fields

# Parameters of the classes of transformers 5.24.0 instantiated (torch 2.14, meta device) with the
# catalog's configs, language model only. The routers' correction biases are buffers there; the
# checkpoints hold them, so they count here.
COUNTED = list(
    csv.DictReader(
        (Path(__file__).parent / "transformers_counts.csv").read_text("utf-8").splitlines()
    )
)


@pytest.mark.parametrize("row", COUNTED, ids=[r["model"] for r in COUNTED])
def test_parameters_equal_those_of_the_modelling_code(row: dict[str, str]) -> None:
    expected = int(row["parameters"]) + int(row["correction_bias_buffers"])
    assert round(parameters_total(load(row["model"]))) == expected


# --- the size in the name

BIG_TABLES = "the name leaves out the two vocabulary tables"
ROUNDED = "the name rounds the published count down"
SIZE_EXCEPTIONS = {
    # (name, total or active): (stated, counted in billions, why they differ)
    ("llama3__Llama-3.2-1B-Instruct", "total"): (1, 1.236, ROUNDED),
    ("gemma__gemma-7b", "total"): (7, 8.538, BIG_TABLES),
    ("gemma2__gemma-2-2b", "total"): (2, 2.614, BIG_TABLES),
    ("falcon__Falcon3-1B-Base", "total"): (1, 1.669, ROUNDED),
    ("olmo__OLMo-1B-hf", "total"): (1, 1.177, ROUNDED),
    ("bitnet__bitnet-b1.58-2B-4T", "total"): (
        2,
        2.741,
        "class default file: it unties the tables that the checkpoint ties; 2.1B without tables",
    ),
    ("ernie45__ERNIE-4.5-0.3B-PT", "total"): (0.3, 0.361, BIG_TABLES),
    ("gemma3n__gemma-3n-E4B", "total"): (4, 6.835, "E4B: effective, per-layer embeddings left out"),
    ("gemma4__gemma-4-E2B-it", "total"): (
        2,
        4.629,
        "E2B: effective, per-layer embeddings left out",
    ),
    ("gemma4__gemma-4-E4B-it", "total"): (
        4,
        7.463,
        "E4B: effective, per-layer embeddings left out",
    ),
    ("mixtral__Mixtral-8x7B-v0.1", "total"): (56, 46.703, "8x7B: the experts share the attention"),
    ("mixtral__Mixtral-8x22B-v0.1", "total"): (
        176,
        140.621,
        "8x22B: the experts share the attention",
    ),
    ("llama4__Llama-4-Maverick-17B-128E-Instruct", "total"): (
        17,
        400.712,
        "17B is the active part",
    ),
    ("llama4__Llama-4-Scout-17B-16E-Instruct", "total"): (17, 107.770, "17B is the active part"),
    ("kimilinear__Kimi-Linear-48B-A3B-Instruct", "active"): (3, 3.495, BIG_TABLES),
    ("nemotron__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "active"): (3, 3.580, BIG_TABLES),
    ("nemotron__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4", "active"): (3, 3.580, BIG_TABLES),
    ("nemotron__NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "active"): (3, 3.580, BIG_TABLES),
    ("qwen3.5__Qwen3.5-35B-A3B", "active"): (3, 3.455, BIG_TABLES),
    ("qwen3.6__Qwen3.6-35B-A3B", "active"): (3, 3.455, BIG_TABLES),
    ("qwen3.6__Qwen3.6-35B-A3B-NVFP4", "active"): (3, 3.455, BIG_TABLES),
    ("qwen3next__Qwen3-Next-80B-A3B-Instruct", "active"): (3, 3.875, BIG_TABLES),
    ("qwen3next__Qwen3-Next-80B-A3B-Thinking", "active"): (3, 3.875, BIG_TABLES),
}
_SCALE = {"T": 1e12, "B": 1e9, "M": 1e6}
_SIZE = r"(?<![\w.])(?:(\d+)x)?[AE]?(\d+(?:\.\d+)?)([TBM])(?![a-z0-9])"


def stated_sizes(name: str) -> dict[str, float]:
    """The total and active size that a name states, in parameters."""
    tail = name.partition("__")[2].replace("_", "-")
    sizes: dict[str, float] = {}
    for match in re.finditer(_SIZE, tail, re.IGNORECASE):
        kind = "active" if match.group(0)[0] in "Aa" else "total"
        size = int(match.group(1) or 1) * float(match.group(2)) * _SCALE[match.group(3).upper()]
        sizes.setdefault(kind, size)
    return sizes


def test_names_are_read_as_meant() -> None:
    assert stated_sizes("qwen3__Qwen3-235B-A22B-FP8") == {"total": 235e9, "active": 22e9}
    assert stated_sizes("qwen3.8__Qwen3.8-2.4T-A95B") == {"total": 2.4e12, "active": 95e9}
    assert stated_sizes("smollm__SmolLM2-135M") == {"total": 135e6}
    assert stated_sizes("mixtral__Mixtral-8x7B-v0.1") == {"total": 56e9}
    assert stated_sizes("qwen1.5__Qwen1.5-MoE-A2.7B") == {"active": 2.7e9}
    assert stated_sizes("bitnet__bitnet-b1.58-2B-4T") == {"total": 2e9}
    assert stated_sizes("deepseek3__DeepSeek-V3.1-NVFP4") == {}


def test_most_names_state_a_size() -> None:
    assert sum(bool(stated_sizes(n)) for n in catalog_names()) > 125


@pytest.mark.parametrize("name", [n for n in catalog_names() if stated_sizes(n)])
def test_the_size_in_the_name_is_met(name: str) -> None:
    arch = load(name)
    counted = {"total": parameters_total(arch), "active": parameters_active(arch)}
    for kind, stated in stated_sizes(name).items():
        if (name, kind) in SIZE_EXCEPTIONS:
            listed, billions, why = SIZE_EXCEPTIONS[name, kind]
            assert why and stated == listed * 1e9
            assert counted[kind] == pytest.approx(billions * 1e9, rel=1e-3)
            # An exception that no longer is one must leave the table.
            assert abs(counted[kind] / stated - 1) > 0.15
        else:
            assert counted[kind] == pytest.approx(stated, rel=0.15), kind


def test_the_exceptions_are_catalog_models() -> None:
    assert {name for name, _ in SIZE_EXCEPTIONS} <= set(catalog_names())


def test_llama4_active_size_is_the_one_in_its_name() -> None:
    for name in ("Llama-4-Scout-17B-16E-Instruct", "Llama-4-Maverick-17B-128E-Instruct"):
        assert parameters_active(load(name)) == pytest.approx(17e9, rel=0.02)


@pytest.mark.parametrize(
    ("name", "total", "active"),
    [  # published by the makers; active where they count both vocabulary tables
        ("Meta-Llama-3.1-70B", 70_553_706_496, None),
        ("Meta-Llama-3.1-8B", 8_030_261_248, None),
        ("DeepSeek-V3", 671.0e9, None),
        ("Qwen3-235B-A22B", 235.1e9, 22.2e9),
        ("Mixtral-8x7B-v0.1", 46.70e9, 12.9e9),
        ("gpt-oss-120b", 116.8e9, None),
        ("Qwen3-30B-A3B", 30.5e9, 3.35e9),
        ("gemma-3-27b-it", 27.0e9, None),
        ("Kimi-K2-Instruct", 1.03e12, None),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6e9, None),
        ("Llama-3_3-Nemotron-Super-49B-v1", 49.9e9, None),
        ("salamandra-2b", 2_253_490_176, None),
        ("salamandra-7b", 7_768_117_248, None),
        ("SmolLM2-135M", 134_515_008, None),
        ("pythia-70m", 70_426_624, None),
    ],
)
def test_published_counts(name: str, total: float, active: float | None) -> None:
    arch = load(name)
    assert parameters_total(arch) == pytest.approx(total, rel=0.005)
    if active is not None:
        assert parameters_active(arch) == pytest.approx(active, rel=0.005)


@pytest.mark.parametrize(
    ("name", "active", "tables"),
    [  # makers who leave out vocabulary tables: how many of the two
        ("gpt-oss-120b", 5.13e9, 1),  # the model card counts the output table only
        ("gpt-oss-20b", 3.61e9, 1),
        ("DeepSeek-V3", 36.7e9, 1),  # README_WEIGHTS.md: 36.7B with the output head
        ("MiniMax-M1-80k", 45.9e9, 2),
    ],
)
def test_published_active_counts_without_tables(name: str, active: float, tables: int) -> None:
    arch = load(name)
    counted = parameters_active(arch) - tables * arch.vocab * arch.hidden
    assert counted == pytest.approx(active, rel=0.005)


def test_kimi_k2_active_count_lies_between_the_two_conventions() -> None:
    arch = load("Kimi-K2-Instruct")
    assert parameters_active(arch) == pytest.approx(32.6e9, rel=0.01)
    assert parameters_active(arch) - arch.vocab * arch.hidden < 32.6e9


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("Meta-Llama-3.1-70B", 2 * 80 * 8 * 128 * 2),
        ("DeepSeek-V3", 61 * 576 * 2),
        ("Qwen3-235B-A22B", 2 * 94 * 4 * 128 * 2),
        ("GLM-5.2", (78 * 576 + 21 * 128) * 2),
        ("MiMo-V2-Flash", (9 * 4 + 39 * 8) * (192 + 128) * 2),
        ("Qwen3-Next-80B-A3B-Instruct", 12 * 2 * 2 * 256 * 2),
        ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 6 * 2 * 2 * 128 * 2),
        ("gemma-4-31B-it", (50 * 16 * 256 + 10 * 4 * 512) * 2 * 2),
        ("gemma-4-E2B-it", (12 * 256 + 3 * 512) * 2 * 2),
        ("DeepSeek-V4-Flash", (2 * 512 + 21 * (512 + 128) // 4 + 20 * 512 // 128) * 2),
        ("Kimi-Linear-48B-A3B-Instruct", 6 * 576 * 2),
        ("mamba2-780m", 0),
    ],
)
def test_kv_bytes_per_token(name: str, bytes_per_token: int) -> None:
    assert kv_bytes_per_token(load(name)) == bytes_per_token


# --- traps


def only(arch: Architecture, kind: type) -> list[Any]:
    return [m for m in (*arch.mixers, *arch.feed_forwards) if isinstance(m, kind)]


def windows_of(arch: Architecture) -> dict[int, int]:
    """Layers per attention window."""
    counts: dict[int, int] = {}
    for mixer in only(arch, Attention):
        counts[mixer.window] = counts.get(mixer.window, 0) + mixer.layers
    return counts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemma-3-27b-it", {1024: 52, 0: 10}),
        ("gemma-2-2b", {4096: 13, 0: 13}),
        ("gpt-oss-120b", {128: 18, 0: 18}),
        ("Olmo-3-32B", {4096: 48, 0: 16}),  # no layer_types: the class's own 3:1
        ("EXAONE-4.0-32B", {4096: 48, 0: 16}),
        ("gemma-3-1b-it", {512: 22, 0: 4}),
        ("Qwen2.5-7B", {0: 28}),  # window switched off, and as long as the context
        ("MiMo-7B-Base", {0: 36}),
        ("Mixtral-8x7B-v0.1", {0: 32}),
        ("Mistral-7B-v0.1", {4096: 32}),
        ("Llama-4-Scout-17B-16E-Instruct", {8192: 36, 0: 12}),
        ("MiMo-V2-Flash", {128: 39, 0: 9}),
        ("Laguna-S-2.1-FP8", {512: 36, 0: 12}),
        ("recurrentgemma-2b", {2048: 8}),
        ("DeepSeek-V4-Flash", {128: 43}),
    ],
)
def test_windows(name: str, expected: dict[int, int]) -> None:
    assert windows_of(load(name)) == expected


def test_a_window_no_shorter_than_the_context_is_full_attention() -> None:
    config = read_catalog("mistral__Mistral-7B-v0.1")
    assert windows_of(parse({**config, "sliding_window": 131072}, "m", "f")) == {0: 32}
    assert windows_of(parse({**config, "sliding_window": None}, "m", "f")) == {0: 32}


def test_upper_layers_rule_where_the_window_is_on() -> None:
    config = read_catalog("qwen2.5__Qwen2.5-7B")
    on = {**config, "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}
    assert windows_of(parse(on, "m", "f")) == {0: 20, 4096: 8}


def test_different_kv_heads_in_windowed_and_full_layers() -> None:
    by_window = {m.window: m for m in only(load("MiMo-V2-Flash"), Attention)}
    assert (by_window[0].kv_heads, by_window[128].kv_heads) == (4, 8)
    assert (by_window[0].qk_head_dim, by_window[0].v_head_dim) == (192, 128)


def test_explicit_head_dim_wins_over_the_quotient() -> None:
    assert only(load("Qwen3-0.6B"), Attention)[0].qk_head_dim == 128
    assert only(load("gpt-oss-120b"), Attention)[0].qk_head_dim == 64
    # In latent attention head_dim means nothing.
    assert only(load("GLM-5"), LatentAttention)[0].qk_nope_head_dim == 192


def test_layers_are_summed_by_kind() -> None:
    def kinds(name: str) -> dict[str, int]:
        counts: dict[str, int] = {}
        arch = load(name)
        for m in (*arch.mixers, *arch.feed_forwards):
            counts[type(m).__name__] = counts.get(type(m).__name__, 0) + m.layers
        return counts

    assert kinds("Nemotron-H-56B-Base-8K") == {"Recurrent": 54, "Attention": 10, "DenseFFN": 54}
    assert kinds("NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8") == {
        "Recurrent": 48,
        "Attention": 12,
        "MoE": 48,
    }
    assert kinds("MiniMax-M1-80k") == {"Recurrent": 70, "Attention": 10, "MoE": 80}
    assert kinds("Qwen3.5-27B") == {"Recurrent": 48, "Attention": 16, "DenseFFN": 64}
    assert kinds("gemma-4-26B-A4B") == {"Attention": 30, "DenseFFN": 30, "MoE": 30}
    assert kinds("DeepSeek-V3") == {"LatentAttention": 61, "DenseFFN": 3, "MoE": 58}
    assert kinds("Llama-4-Maverick-17B-128E-Instruct") == {
        "Attention": 48,
        "DenseFFN": 24,
        "MoE": 24,
    }
    assert kinds("Zamba2-2.7B") == {"Recurrent": 54, "Attention": 9, "DenseFFN": 9}
    assert kinds("Falcon-H1-Tiny-90M-Base") == {"Attention": 24, "Recurrent": 24, "DenseFFN": 24}
    assert kinds("Llama-3_3-Nemotron-Super-49B-v1")["Attention"] == 49
    assert kinds("mamba2-780m") == {"Recurrent": 48}


def test_shared_caches_and_shared_indexers() -> None:
    small = load("gemma-4-E2B-it")
    assert sum(m.layers for m in small.mixers) == 35
    assert sum(m.kv_layers for m in only(small, Attention)) == 15  # the last 20 reuse
    assert only(load("GLM-5.2"), LatentAttention)[0].index_layers == 21
    assert only(load("GLM-5"), LatentAttention)[0].index_layers == -1


def test_expert_fields_by_their_many_names() -> None:
    def experts(name: str) -> tuple[int, int, int, int]:
        block = only(load(name), MoE)[0]
        return block.experts, block.top_k, block.expert_width, block.shared_width

    assert experts("Mixtral-8x7B-v0.1") == (8, 2, 14336, 0)
    assert experts("gemma-4-26B-A4B") == (128, 8, 704, 0)
    assert experts("DeepSeek-V2-Lite") == (64, 6, 1408, 2816)
    assert experts("Qwen1.5-MoE-A2.7B") == (60, 4, 1408, 5632)
    assert experts("ERNIE-4.5-21B-A3B-PT") == (64, 6, 1536, 3072)
    assert experts("Kimi-Linear-48B-A3B-Instruct") == (256, 8, 1024, 1024)
    assert experts("MiMo-V2-Flash") == (256, 8, 2048, 0)
    assert only(load("NVIDIA-Nemotron-3-Super-120B-A12B-FP8"), MoE)[0].latent_dim == 1024


def test_two_matrix_feed_forwards_and_parallel_blocks() -> None:
    for name in ("falcon-7b", "gpt2", "pythia-1.4b", "Nemotron-H-56B-Base-8K", "opt-125m"):
        assert load(name).feed_forwards[0].gated == 0, name
    parallel = {n for n in catalog_names() if load(n).parallel_block}
    families = {"cohere", "falcon", "gptj", "gptneox", "maxtext", "palm", "pythia"}
    assert {n.partition("__")[0] for n in parallel} == families
    assert "falcon__Falcon3-7B-Base" not in parallel


def test_recurrent_shapes() -> None:
    mamba = only(load("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"), Recurrent)[0]
    assert (mamba.heads, mamba.value_dim, mamba.key_dim) == (64, 64, 128)
    assert (mamba.in_width, mamba.conv_channels) == (2 * 4096 + 2 * 8 * 128 + 64, 4096 + 2048)
    delta = only(load("Qwen3-Next-80B-A3B-Instruct"), Recurrent)[0]
    assert (delta.heads, delta.key_dim, delta.value_dim) == (32, 128, 128)
    assert delta.state_bits == 32


def test_tied_flag_at_either_level_and_by_class_default() -> None:
    outer = read_catalog("gemma3__gemma-3-27b-it")
    inner = dict(outer["text_config"])
    assert parse(outer, "m", "f").tied_embeddings == 1
    assert parse({**outer, "tie_word_embeddings": False}, "m", "f").tied_embeddings == 0
    bare = {k: v for k, v in outer.items() if k != "tie_word_embeddings"}
    text = {k: v for k, v in inner.items() if k != "tie_word_embeddings"}
    assert parse({**bare, "text_config": {**text, "tie_word_embeddings": False}}, "m", "f") == (
        parse({**outer, "tie_word_embeddings": False}, "m", "f")
    )
    assert parse({**bare, "text_config": text}, "m", "f").tied_embeddings == 1  # class default
    llama = read_catalog("llama3__Meta-Llama-3.1-8B")
    del llama["tie_word_embeddings"]
    assert parse(llama, "m", "f").tied_embeddings == 0


def test_draft_layers_are_left_out() -> None:
    config = read_catalog("deepseek3__DeepSeek-V3")
    more = parse({**config, "num_nextn_predict_layers": 3}, "m", "f")
    assert parameters_total(more) == parameters_total(load("DeepSeek-V3"))


def test_vision_towers_are_left_out() -> None:
    config = read_catalog("gemma3__gemma-3-27b-it")
    grown = {**config, "vision_config": {"hidden_size": 99999, "num_hidden_layers": 999}}
    assert parameters_total(parse(grown, "m", "f")) == parameters_total(load("gemma-3-27b-it"))


@pytest.mark.parametrize("name", sorted({"Meta-Llama-3.1-8B", "Qwen3-30B-A3B", "DeepSeek-V3"}))
def test_more_layers_or_experts_are_more_parameters(name: str) -> None:
    arch = load(name)
    config = read_catalog(arch.name)
    for key in (
        "num_hidden_layers",
        "hidden_size",
        "num_experts",
        "n_routed_experts",
        "vocab_size",
    ):
        if key in config:
            grown = parse({**config, key: 2 * config[key]}, "m", "f")
            assert parameters_total(grown) > parameters_total(arch), key


# --- bad input


def llama(**changes: Any) -> dict[str, Any]:
    config = {**read_catalog("llama3__Meta-Llama-3.1-8B"), **changes}
    return {k: v for k, v in config.items() if v != "absent"}


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"model_type": "lama"}, "model_type", "nearest: llama"),
        ({"model_type": "gpt_brand_new"}, "model_type", "register it in"),
        ({"model_type": None}, "model_type", "is missing"),
        ({"model_type": "litgpt-derived"}, "model_type", "tie_word_embeddings"),
        ({"model_type": "gemma3"}, "text_config", "is missing"),
        ({"intermediate_size": "absent"}, "intermediate_size", "is missing"),
        ({"num_hidden_layers": 0}, "num_hidden_layers", "at least 1"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers", "whole number"),
        ({"hidden_size": True}, "hidden_size", "whole number"),
        ({"num_key_value_heads": 5}, "num_key_value_heads", "does not divide"),
        ({"num_attention_heads": 48}, "hidden_size", "no multiple"),
        ({"attention_bias": "yes"}, "attention_bias", "neither true nor false"),
        ({"num_experts": 8}, "num_experts", "is not known"),
        ({"layer_skip_pattern": [1, 2]}, "layer_skip_pattern", "is not known"),
        ({"num_key_value_head": 8}, "num_key_value_head", "did you mean 'num_key_value_heads'"),
        ({"sliding_window": 4096}, "sliding_window", "has no windowed layers"),
        (
            {"layer_types": ["sliding_attention"] * 32, "sliding_window": 4096},
            "layer_types",
            "has no windowed layers",
        ),
        (
            {"model_type": "smollm3", "use_sliding_window": True, "sliding_window": 4096},
            "layer_types",
            "which layers",
        ),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config", "'magic'"),
        ({"torch_dtype": "float12"}, "torch_dtype", "'float12'"),
    ],
)
def test_what_cannot_be_mapped_is_an_error_that_names_it(
    changes: dict[str, Any], field: str, says: str
) -> None:
    with pytest.raises(ModelConfigError) as caught:
        parse(llama(**changes), "m", "some/config.json")
    message = str(caught.value)
    assert message.startswith("some/config.json: field '" + field)
    assert says in message
    assert "; " in message  # and what to do


def test_two_names_for_one_thing_must_agree() -> None:
    config = read_catalog("glm5__GLM-5.2-NVFP4")  # has num_experts beside n_routed_experts
    parse(config, "m", "f")
    with pytest.raises(ModelConfigError, match="num_experts.*is 128 but 'n_routed_experts' is 256"):
        parse({**config, "num_experts": 128}, "m", "f")


def test_lists_must_cover_every_layer() -> None:
    config = read_catalog("gptoss__gpt-oss-20b")
    with pytest.raises(ModelConfigError, match="layer_types.*needs 25 entries"):
        parse({**config, "num_hidden_layers": 25}, "m", "f")
    odd = ["strange_attention"] * 24
    with pytest.raises(ModelConfigError, match="'strange_attention' is not known"):
        parse({**config, "layer_types": odd}, "m", "f")


def test_an_unknown_wrapper_or_inner_model_is_an_error() -> None:
    config = read_catalog("gemma3__gemma-3-27b-it")
    with pytest.raises(ModelConfigError, match="model_type.*'newvl'"):
        parse({**config, "model_type": "newvl"}, "m", "f")
    text = {**config["text_config"], "model_type": "llama"}
    with pytest.raises(ModelConfigError, match="text_config.model_type.*'llama'"):
        parse({**config, "text_config": text}, "m", "f")


def test_switched_off_fields_do_not_matter() -> None:
    quiet = llama(num_experts=0, sliding_window=None, use_moe=False, extra_list=[])
    assert parameters_total(parse(quiet, "m", "f")) == 8_030_261_248


def test_files_by_path(tmp_path: Path) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(llama()), "utf-8")
    for path in (folder, folder / "config.json", str(folder / "config.json")):
        assert load(path).name == "My-Model"
        assert parameters_total(load(path)) == 8_030_261_248


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{broken", r"line 1\).*is no JSON"),
        ("[1, 2]", "no JSON object"),
        ('{\n"a": 1,\n}', r"line \d\).*is no JSON"),
    ],
)
def test_a_broken_file_names_its_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ModelConfigError, match=says) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match="cannot be read"):
        load(tmp_path / "absent.json")


def test_every_family_and_wrapper_states_its_source() -> None:
    assert len(families()) > 55
    entries: list[Any] = [*families().values(), *wrappers().values()]
    for entry in entries:
        assert len(entry.source) > 10, entry.model_type
    for wrapper in wrappers().values():
        assert set(wrapper.text) <= set(families())


def test_no_shape_field_is_ignored() -> None:
    shapes = {"hidden_size", "num_hidden_layers", "vocab_size", "head_dim", "intermediate_size"}
    shapes |= {"num_experts", "sliding_window", "layer_types", "kv_lora_rank", "index_topk"}
    assert not shapes & ignored_fields()


# One file of every builder and quirk, for the corruption test below.
DIVERSE = [
    "llama3__Meta-Llama-3.1-8B",
    "gemma3__gemma-3-4b-it",
    "gemma3n__gemma-3n-E4B",
    "gemma4__gemma-4-26B-A4B",
    "gemma4__gemma-4-E2B-it",
    "deepseek3__DeepSeek-V3",
    "deepseek4__DeepSeek-V4-Flash",
    "glm5__GLM-5.2",
    "mimo__MiMo-V2-Flash",
    "laguna__Laguna-S-2.1-FP8",
    "falcon__falcon-7b",
    "llama4__Llama-4-Scout-17B-16E-Instruct",
    "nemotron__Llama-3_3-Nemotron-Super-49B-v1",
    "nemotron__NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "qwen3next__Qwen3-Next-80B-A3B-Instruct",
    "kimilinear__Kimi-Linear-48B-A3B-Instruct",
    "minimaxm1__MiniMax-M1-80k",
    "falconh1__Falcon-H1-Tiny-90M-Base",
    "mamba__mamba2-780m",
    "xlstm__xLSTM-7b",
    "recurrentgemma__recurrentgemma-2b",
    "zamba2__Zamba2-2.7B",
    "qwen3.6__Qwen3.6-27B-NVFP4",
]
JUNK: list[Any] = [None, -1, 0, 1.5, "junk", True, [], [1], {}, {"a": 1}]


@pytest.mark.parametrize("name", DIVERSE)
def test_a_corrupted_field_is_named_or_harmless_but_never_a_crash(name: str) -> None:
    config = read_catalog(name)
    levels = [None, "text_config"] if "text_config" in config else [None]
    for level in levels:
        fields = config if level is None else config[level]
        for key in fields:
            for junk in JUNK:
                broken = {**fields, key: junk}
                changed = broken if level is None else {**config, level: broken}
                try:
                    arch = parse(changed, "m", "f")
                except ModelConfigError:
                    continue
                assert parameters_total(arch) > 0, (key, junk)
                assert parameters_active(arch) > 0, (key, junk)
