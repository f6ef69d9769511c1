"""Dataclasses as shapes and numbers: what goes in comes back out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dse.scoring.shapes import join, paths, split
from models.huggingface import load


def _zero(part: Any, field: dataclasses.Field[Any], value: float) -> bool:
    return value == 0


@pytest.mark.parametrize("model", ["Llama-3.1-8B", "Qwen3-235B-A22B", "DeepSeek-V3"])
def test_a_model_comes_back_without_its_names(model: str) -> None:
    arch = load(model)
    shape, numbers = split(arch, _zero)
    assert list(numbers) == list(paths(shape))
    assert 0 not in numbers.values()
    names = {f.name: "" for f in dataclasses.fields(arch) if isinstance(getattr(arch, f.name), str)}
    assert join(shape, numbers) == dataclasses.replace(arch, **names)


def test_other_numbers_keep_the_shape_and_other_kinds_do_not() -> None:
    one, _ = split(load("Llama-3.1-8B"), _zero)
    other, numbers = split(load("Meta-Llama-3.1-70B"), _zero)
    assert one == other
    assert numbers["mixers.0.layers"] == 80
    assert split(load("DeepSeek-V3"), _zero)[0] != one
