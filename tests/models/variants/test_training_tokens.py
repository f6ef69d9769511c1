"""The table of training tokens."""

from __future__ import annotations

import pytest

from models.variants import UnknownTrainingTokensError, training_tokens
from models.variants.training import table


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("Meta-Llama-3.1-70B", 15e12),
        ("llama3__Meta-Llama-3.1-70B", 15e12),
        ("meta-llama/Llama-3.1-70B", 15e12),
        ("Qwen3-235B-A22B", 36e12),
        ("DeepSeek-V3", 14.8e12),
        ("Kimi-K2-Instruct", 15.5e12),
        ("gemma-2-9b", 8e12),
        ("gemma-3-27b-it", 14e12),
        ("Llama-2-70b-hf", 2e12),
    ],
)
def test_known_models(model: str, tokens: float) -> None:
    assert training_tokens(model).tokens == tokens


@pytest.mark.parametrize("model", ["Mixtral-8x7B-v0.1", "gpt-oss-120b", "Llama-3.1", "llama-2-70b"])
def test_unknown_models_are_named_with_the_way_out(model: str) -> None:
    with pytest.raises(UnknownTrainingTokensError, match=f"(?s){model}.*training_tokens"):
        training_tokens(model)


def test_every_row_is_plausible_and_sourced() -> None:
    assert len(table()) > 90
    for row in table().values():
        assert 1e11 < row.tokens < 1e14
        assert len(row.source) > 10
        assert row.kind in {"read", "secondary", "recalled"}
