"""A chip is its numbers: no equation knows the name of a generation."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import yaml

from hwmodel import presets, theta
from hwmodel.chip import CHIP_FIELDS, Chip
from models.deployment import Deployment
from models.huggingface import load
from models.performance import METRICS, evaluate
from models.variants import NEUTRAL
from models.workload import Workload

ROOT = Path(__file__).parents[2]
TPUS = [n for n in presets.names() if presets.load(n).mxu_row_tile == 0]
MODELS = ("Meta-Llama-3.1-8B", "Qwen3-30B-A3B")
DEPLOYMENT = Deployment(tensor=4.0, torus_x=2.0, torus_y=2.0, batch=32.0)
CHAT = Workload(prompt_tokens=2000.0, output_tokens=500.0)


def bare(name: str) -> Chip:
    """The numbers of a chip file and nothing else of it: no name, unit, kind or source."""
    text = (resources.files("hwmodel") / "chips" / f"{name}.yaml").read_text("utf-8")
    fields = yaml.safe_load(text)["fields"]
    return Chip(**{field: float(fields[field]["value"]) for field in CHIP_FIELDS})


@functools.cache
def compiled(model: str) -> Any:
    arch = load(model)

    def metrics(fields: dict[str, Any]) -> list[Any]:
        # A literal, as in studies of TPUs: the branch of fixed row tiles is left out.
        chip = Chip(**{**fields, "mxu_row_tile": 0.0})
        point = evaluate(chip, arch, NEUTRAL, DEPLOYMENT, CHAT, theta.central(), 15e12)
        return [point.metrics[m] for m in METRICS]

    return jax.jit(metrics)


def score(model: str, chip: Chip) -> bytes:
    with jax.enable_x64(True):
        values = compiled(model)({field: getattr(chip, field) for field in CHIP_FIELDS})
    return np.array(values, np.float64).tobytes()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", TPUS)
def test_bare_numbers_predict_what_the_named_chip_does(name: str, model: str) -> None:
    assert score(model, bare(name)) == score(model, presets.load(name))


@pytest.mark.parametrize("model", MODELS)
def test_the_prediction_depends_on_the_numbers(model: str) -> None:
    assert len({score(model, bare(name)) for name in TPUS}) == len(TPUS)


def test_no_code_of_the_model_names_a_chip() -> None:
    """Names may stand in comments and docstrings, never in an identifier or a string of code."""
    with (resources.files("hwmodel") / "data" / "chip_aliases.yaml").open(encoding="utf-8") as file:
        names = [*presets.names(), *map(str, yaml.safe_load(file))]
    chip = re.compile(rf"(?<![a-z0-9-])(?:{'|'.join(map(re.escape, names))})(?![a-z0-9])")
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path in modules()
        for line, text in code_words(ast.parse(path.read_text("utf-8")))
        if chip.search(text.lower().replace("_", " "))
    ]
    assert not found, found


def test_no_equation_reads_the_named_chips() -> None:
    readers = [
        str(path.relative_to(ROOT))
        for path in modules()
        if re.search(r"^\s*(from|import) .*\bpresets\b", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert not readers, readers


def modules() -> list[Path]:
    return [p for package in ("hwmodel", "models") for p in (ROOT / package).rglob("*.py")]


def code_words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Identifiers and strings of a module, docstrings left out, each with its line."""
    documents = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in documents:
                yield line, node.value
            continue
        for field in ("id", "attr", "arg", "name", "asname"):
            word = getattr(node, field, None)
            if isinstance(word, str):
                yield line, word


def test_the_search_for_names_finds_them() -> None:
    code = '"""On v5e."""\nif chip == "v5e": v6e_cycles = trillium.x\n'
    words = [w for _, w in code_words(ast.parse(code))]
    assert {"v5e", "v6e_cycles", "trillium"} <= set(words) and "On v5e." not in words
