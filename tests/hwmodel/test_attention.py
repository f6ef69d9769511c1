"""Attention cycles and softmax work against counts worked out by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest

from hwmodel import presets, theta
from hwmodel.attention import attention_cycles, softmax_vpu_ops
from hwmodel.chip import Chip
from hwmodel.ops import DENSE_BF16, Attention
from hwmodel.rates import mxu_format, rates

THETA = theta.central()
V6E, H100 = presets.load("v6e"), presets.load("h100")


@pytest.fixture(autouse=True)
def _x64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _op(**changed: float) -> dict[str, float]:
    op = Attention(
        name="a",
        count=1.0,
        **{
            "groups": 8.0,
            "rows": 4096.0,
            "length": 2048.0,
            "qk_width": 128.0,
            "v_width": 128.0,
            "kv_bytes": 0.0,
            **changed,
        },
    )
    return {f.name: getattr(op, f.name) for f in dataclasses.fields(op) if f.name != "name"}


def _cycles(chip: Chip, **changed: float) -> float:
    fmt = mxu_format(chip, THETA, DENSE_BF16)
    return float(attention_cycles(rates(chip, THETA), fmt, _op(**changed)))


def test_prefill_latches_the_cache_and_streams_queries() -> None:
    """Scores: 8 key tiles of 256. Values: 8 tiles of 256 keys. 16 passes of 4096 rows per group."""
    assert _cycles(V6E) == 8 * 16 * (4096 / 2) / 2


@pytest.mark.parametrize("width", [64.0, 128.0, 256.0])
def test_a_narrow_head_costs_as_much_as_a_full_tile(width: float) -> None:
    assert _cycles(V6E, qk_width=width, v_width=width) == _cycles(V6E, qk_width=256, v_width=256)


def test_a_head_wider_than_the_array_takes_another_tile() -> None:
    """MLA's expanded 192 fits in one tile, the absorbed 576 takes three and values of 512 two."""
    assert _cycles(V6E, qk_width=192) == _cycles(V6E)
    assert _cycles(V6E, qk_width=576, v_width=512) == _cycles(V6E) * (3 + 2) / 2


def test_decode_latches_the_queries_and_streams_the_cache() -> None:
    """8 query heads on one KV head of 4096 entries: streaming 4096 rows through 2 latched tiles
    beats latching 32 cache tiles for 8 rows each."""
    stream = 2 * (4096 / 2 + 64) / 2
    latched = 32 * 64 / 2
    assert _cycles(V6E, groups=1, rows=8, length=4096) == min(stream, latched) == latched
    slow_latch = dataclasses.replace(V6E, mxu_latch_cadence_cycles=32.0)
    streamed = 2 * (4096 / 2 + 16 * 32) / 2
    assert _cycles(slow_latch, groups=1, rows=8, length=4096) == streamed


def test_a_gpu_latches_nothing_and_fills_row_tiles() -> None:
    one = _cycles(H100, groups=132, rows=1, length=128)
    assert one == _cycles(H100, groups=132, rows=128, length=128)
    assert _cycles(H100, groups=132, rows=129, length=128) == 2 * one


def test_an_indexer_has_scores_but_no_values() -> None:
    with_values = _cycles(V6E, softmax=1.0)
    assert _cycles(V6E, softmax=0.0) == with_values / 2


def test_softmax_work_counts_scores_and_widened_elements() -> None:
    scores = 8 * 4096 * 2048
    assert softmax_vpu_ops(THETA, _op()) == scores * THETA["softmax_ops_per_score"]
    assert softmax_vpu_ops(THETA, _op(softmax=0.0)) == scores
    widened = softmax_vpu_ops(THETA, _op(kv_elements_converted=1000.0))
    extra = 8 * 1000 * THETA["dequant_ops_per_weight"]
    assert widened == scores * THETA["softmax_ops_per_score"] + extra


def test_traced_and_plain_row_tiles_agree() -> None:
    """A chip whose kind is a literal compiles fewer branches, with the same result."""
    fmt = mxu_format(V6E, THETA, DENSE_BF16)
    plain = rates(V6E, THETA)
    traced = dataclasses.replace(plain, row_tile=jnp.asarray(0.0))
    for op in (_op(), _op(rows=8.0), _op(qk_width=64.0, length=300.0)):
        assert attention_cycles(plain, fmt, op) == attention_cycles(traced, fmt, op)
