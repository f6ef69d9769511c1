"""Architectures stated by their widths, as measurement files do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.architecture import MoE, parameters_total
from models.huggingface import ModelConfigError, UnknownModelError, load
from models.huggingface.catalog import read_catalog
from models.huggingface.json_architecture import architecture_from_json, resolve

DENSE: dict[str, Any] = {
    "d_model": 4096,
    "n_layers": 32,
    "n_heads": 32,
    "n_kv_heads": 8,
    "head_dim": 128,
    "d_ff": 14336,
    "gated": True,
    "vocab": 32000,
    "attn": "gqa",
}
EXPERTS: dict[str, Any] = {
    **{k: v for k, v in DENSE.items() if k != "d_ff"},
    "n_experts": 8,
    "top_k": 2,
    "d_ff_expert": 14336,
    "n_shared_experts": 0,
    "first_dense_layers": 0,
}


@pytest.mark.parametrize(
    ("stated", "name"), [(DENSE, "Mistral-7B-v0.1"), (EXPERTS, "Mixtral-8x7B-v0.1")]
)
def test_the_widths_of_a_published_model_give_its_blocks(stated: dict[str, Any], name: str) -> None:
    ours, published = architecture_from_json(stated), load(name)
    assert (ours.layers, ours.hidden, ours.vocab) == (32, 4096, 32000)
    assert ours.feed_forwards == published.feed_forwards
    assert parameters_total(ours) == parameters_total(published)
    # Mistral's window is a fact of the released model that the widths do not state.
    assert ours.mixers[0].q_heads == published.mixers[0].q_heads  # type: ignore[union-attr]


def test_a_parallel_block_and_one_key_value_head() -> None:
    palm = architecture_from_json(
        '{"d_model":18432,"n_layers":118,"n_heads":64,"n_kv_heads":1,"head_dim":256,"d_ff":73728,'
        '"gated":true,"vocab":256000,"attn":"gqa","parallel_block":true}'
    )
    assert palm.parallel_block == 1
    # 16 heads more than the published 48, and a head of its own.
    extra = 16 * 256 * 2 * 18432 * 118 + 256000 * 18432
    assert parameters_total(palm) - parameters_total(load("PaLM-540B")) == extra


def test_dense_layers_first_and_shared_experts() -> None:
    arch = architecture_from_json(
        {**EXPERTS, "n_shared_experts": 2, "first_dense_layers": 3, "d_ff": 10944}
    )
    dense, routed = arch.feed_forwards
    assert (dense.layers, dense.width, routed.layers) == (3, 10944, 29)  # type: ignore[union-attr]
    assert isinstance(routed, MoE) and routed.shared_width == 2 * 14336


@pytest.mark.parametrize("key", sorted(DENSE))
def test_a_missing_width_is_named(key: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        architecture_from_json({k: v for k, v in DENSE.items() if k != key})
    assert caught.value.field == key
    assert f"'{key}': is missing" in str(caught.value)


@pytest.mark.parametrize("key", sorted(set(EXPERTS) - set(DENSE) - {"n_experts"}))
def test_a_missing_width_of_the_experts_is_named(key: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        architecture_from_json({k: v for k, v in EXPERTS.items() if k != key})
    assert caught.value.field == key


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"attn": "mla"}, "attn"),
        ({"n_kv_heads": 5}, "n_kv_heads"),
        ({"d_model": "4096"}, "d_model"),
        ({"gated": 1}, "gated"),
        ({"n_layer": 32}, "n_layer"),
        ({"window": 4096}, "window"),
        ({"op": "matmul"}, "op"),
        ({"family": "diffusion"}, "family"),
        ({"causal": "no"}, "causal"),
    ],
)
def test_what_is_not_understood_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(ModelConfigError) as caught:
        architecture_from_json({**DENSE, **changes})
    assert caught.value.field == field


def test_broken_text_is_refused() -> None:
    for text in ('{"d_model": }', "[1]"):
        with pytest.raises(ModelConfigError, match="JSON"):
            architecture_from_json(text)


def test_references(tmp_path: Path) -> None:
    assert resolve("llama3__Meta-Llama-3.1-70B", tmp_path).name == "llama3__Meta-Llama-3.1-70B"
    assert resolve(" gptj__gpt-j-6B ", tmp_path).layers == 28
    assert resolve(json.dumps(DENSE), tmp_path).vocab == 32000
    (tmp_path / "mine").mkdir()
    for place in ("mine/config.json", "other.json"):
        (tmp_path / place).write_text(json.dumps(read_catalog("qwen3__Qwen3-8B")), "utf-8")
    assert resolve("mine/config.json", tmp_path).name == "mine"
    assert resolve("mine", tmp_path).hidden == 4096
    assert resolve("other.json", Path("elsewhere") / tmp_path).name == "other"


def test_references_to_nothing(tmp_path: Path) -> None:
    with pytest.raises(UnknownModelError, match="nearest"):
        resolve("llama3__Meta-Llama-3.1-71B", tmp_path)
    with pytest.raises(ModelConfigError, match="does not exist"):
        resolve("none/config.json", tmp_path)
    with pytest.raises(ModelConfigError, match="is empty"):
        resolve("  ", tmp_path)
