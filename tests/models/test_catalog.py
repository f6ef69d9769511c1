"""The catalog: every file parses, has a source, and answers to its names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from models.describe import summary
from models.huggingface import UnknownModelError, catalog_names, load, resolve
from models.huggingface.catalog import aliases, read_catalog, sources, supplements


@pytest.mark.parametrize("name", catalog_names())
def test_every_file_parses_to_whole_positive_counts(name: str) -> None:
    facts = summary(load(name))
    assert facts["name"] == name
    for key in ("parameters_total", "parameters_active", "kv_bytes_per_token", "layers"):
        assert type(facts[key]) is int, key
    assert 0 < facts["parameters_active"] <= facts["parameters_total"]
    assert facts["kv_bytes_per_token"] + facts["state_bytes_per_sequence"] > 0
    assert facts["released_weight_bits"] in (4, 8, 16)
    assert json.loads(json.dumps(facts)) == facts


def test_the_contract_keys_come_first() -> None:
    first = list(summary(load("Meta-Llama-3.1-70B")))[:5]
    assert first == [
        "name",
        "parameters_total",
        "parameters_active",
        "kv_bytes_per_token",
        "layers",
    ]


def test_201_files_each_with_a_source() -> None:
    assert len(catalog_names()) == 201
    assert set(sources()) == set(catalog_names())
    for name, row in sources().items():
        assert re.match(r"[ABCD] ", row["provenance"]), name
        assert row["repo"], name


def test_sources_name_no_local_place() -> None:
    folder = Path(__file__).parents[2] / "models" / "catalog"
    for file in ("SOURCES.csv", "supplements.yaml", "aliases.yaml"):
        assert not re.search(r"(?m)(^|[\s,\"'])/\w+/\w+", (folder / file).read_text("utf-8")), file


@pytest.mark.parametrize(
    "name",
    [
        "llama3__Meta-Llama-3.1-70B",
        "Meta-Llama-3.1-70B",
        "meta-llama-3.1-70b",
        "LLAMA3__META-LLAMA-3.1-70B",
        "Llama-3.1-70B",
    ],
)
def test_friendly_names(name: str) -> None:
    assert resolve(name) == "llama3__Meta-Llama-3.1-70B"
    assert load(name).name == "llama3__Meta-Llama-3.1-70B"


def test_the_part_after_the_prefix_names_one_model_each() -> None:
    for name in catalog_names():
        assert resolve(name.partition("__")[2].upper()) == name


@pytest.mark.parametrize("name", ["Llama-3.1-71B", "qwen3-235b", "70B", "", "nonsense-xyz"])
def test_an_unknown_name_is_never_replaced(name: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        load(name)
    assert f"'{name}'" in str(caught.value)


def test_an_unknown_name_lists_the_nearest() -> None:
    with pytest.raises(UnknownModelError, match="nearest: .*Llama-3.1-70B"):
        load("Llama-3.1-71B")
    with pytest.raises(UnknownModelError, match="nearest: .*Qwen3-235B-A22B"):
        load("qwen3-235b-a22")


def test_aliases_point_at_catalog_models_and_shadow_none() -> None:
    tails = {n.partition("__")[2].casefold() for n in catalog_names()}
    for alias, name in aliases().items():
        assert name in catalog_names()
        assert alias.casefold() not in tails


def test_supplements_are_sourced_needed_and_for_catalog_files() -> None:
    for name, entry in supplements().items():
        assert name in catalog_names()
        assert entry["source"] and entry["kind"] in ("published", "default", "estimate"), name
        original = read_catalog(name)
        overwritten = {k for k in entry["set"] if original.get(k) not in (None, entry["set"][k])}
        assert overwritten <= {"model_type"}, name
        assert entry["kind"] in load(name).provenance


def test_a_copy_of_an_incomplete_file_reads_the_same(tmp_path: Path) -> None:
    for name in ("smollm__SmolLM2-135M", "glm4.5__GLM-4.5"):
        copy = tmp_path / "config.json"
        copy.write_text(json.dumps(read_catalog(name)), "utf-8")
        ours, theirs = summary(load(copy)), summary(load(name))
        changed = ("name", "source", "provenance")
        assert {k: v for k, v in ours.items() if k not in changed} == {
            k: v for k, v in theirs.items() if k not in changed
        }


def test_releases_that_differ_only_in_width() -> None:
    widths = {"GLM-5": 16, "GLM-5-FP8": 8, "GLM-5-NVFP4": 4, "Qwen3-30B-A3B": 16}
    widths |= {"Qwen3-30B-A3B-NVFP4": 4, "DeepSeek-V3": 8, "gpt-oss-120b": 4}
    widths |= {"DeepSeek-V4-Flash": 4, "DeepSeek-V4-Flash-FP8": 8, "Kimi-K2.5": 4}
    assert {name: load(name).released_weight_bits for name in widths} == widths
    for name in catalog_names():
        stated = re.search(r"NVFP4|FP8$|FP8-Static", name)
        if stated:
            bits = 4 if "NVFP4" in name else 8
            assert load(name).released_weight_bits == bits, name
