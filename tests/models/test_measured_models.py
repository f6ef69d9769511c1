"""Models that published TPU measurements ran, and that no config.json describes."""

from __future__ import annotations

import pytest

from models.architecture import Attention, DenseFFN, parameters_total
from models.huggingface import load


@pytest.mark.parametrize(
    ("name", "billions", "tolerance"),
    [
        ("GPT-3-175B", 174.6, 0.001),  # arXiv:2005.14165 table 2.1 counts 174.6
        ("PaLM-540B", 540.35, 0.0001),  # arXiv:2204.02311 table 1
        ("gpt-j-6B", 6.05, 0.001),  # model card
        # MaxText names its models by a rounded target.
        ("MaxText-16B", 16, 0.03),
        ("MaxText-32B", 32, 0.03),
        ("MaxText-64B", 64, 0.03),
        ("MaxText-128B", 128, 0.03),
        ("MaxText-22B", 22, 0.01),
        ("MaxText-52B", 52, 0.01),
        ("Llama-2-7b-hf", 6.74, 0.001),
        ("Llama-2-70b-hf", 68.98, 0.001),
        ("Mistral-7B-v0.1", 7.24, 0.001),
        ("Mixtral-8x7B-v0.1", 46.7, 0.001),
        ("Mixtral-8x22B-v0.1", 140.6, 0.001),
    ],
)
def test_parameters_match_the_name(name: str, billions: float, tolerance: float) -> None:
    assert parameters_total(load(name)) == pytest.approx(billions * 1e9, rel=tolerance)


def test_palm_shares_one_key_value_head_and_runs_its_blocks_in_parallel() -> None:
    palm = load("PaLM-540B")
    (attention,), (block,) = palm.mixers, palm.feed_forwards
    assert isinstance(attention, Attention) and isinstance(block, DenseFFN)
    assert (attention.q_heads, attention.kv_heads, attention.qk_head_dim) == (48, 1, 256)
    assert (block.width, block.gated, palm.parallel_block) == (73728, 1, 1)


@pytest.mark.parametrize(
    ("name", "gated", "parallel"),
    [
        ("GPT-3-175B", 0, 0),
        ("gpt-j-6B", 0, 1),
        ("MaxText-16B", 1, 0),
        ("MaxText-22B", 0, 1),
        ("MaxText-52B", 0, 1),
    ],
)
def test_gates_and_parallel_blocks(name: str, gated: int, parallel: int) -> None:
    arch = load(name)
    assert (arch.feed_forwards[0].gated, arch.parallel_block) == (gated, parallel)


def test_the_scale_of_maxtext_widens_heads_not_head_dim() -> None:
    (attention,) = load("MaxText-128B").mixers
    assert isinstance(attention, Attention)
    assert (attention.q_heads, attention.kv_heads, attention.qk_head_dim) == (128, 128, 128)
