"""An independent count: every tensor of five families written out, as the checkpoints hold them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from models.architecture import parameters_active, parameters_total
from models.huggingface import load
from models.huggingface.catalog import read_catalog

Shape = tuple[int, ...]
Config = dict[str, Any]


def llama(c: Config) -> Iterator[Shape]:
    h, i = c["hidden_size"], c["intermediate_size"]
    q, kv = c["num_attention_heads"], c["num_key_value_heads"]
    d = c.get("head_dim", h // q)
    yield c["vocab_size"], h  # embed_tokens
    for _ in range(c["num_hidden_layers"]):
        yield from [(q * d, h), (kv * d, h), (kv * d, h), (h, q * d)]  # q, k, v, o
        yield from [(i, h), (i, h), (h, i)]  # gate, up, down
        yield from [(h,), (h,)]  # input and post-attention norm
    yield (h,)  # norm
    if not c["tie_word_embeddings"]:
        yield c["vocab_size"], h  # lm_head


def qwen3_moe(c: Config, experts: int | None = None) -> Iterator[Shape]:
    h, w, d = c["hidden_size"], c["moe_intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"], c["num_key_value_heads"]
    yield c["vocab_size"], h
    for _ in range(c["num_hidden_layers"]):
        yield from [(q * d, h), (kv * d, h), (kv * d, h), (h, q * d), (d,), (d,)]
        yield c["num_experts"], h  # router
        for _ in range(c["num_experts"] if experts is None else experts):
            yield from [(w, h), (w, h), (h, w)]
        yield from [(h,), (h,)]
    yield (h,)
    yield c["vocab_size"], h


def deepseek_v3(c: Config, experts: int | None = None) -> Iterator[Shape]:
    h, w, heads = c["hidden_size"], c["moe_intermediate_size"], c["num_attention_heads"]
    nope, rope, v = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    ql, kvl = c["q_lora_rank"], c["kv_lora_rank"]
    yield c["vocab_size"], h
    for layer in range(c["num_hidden_layers"]):
        yield from [(ql, h), (ql,), (heads * (nope + rope), ql)]  # q_a, q_a_norm, q_b
        yield from [(kvl + rope, h), (kvl,), (heads * (nope + v), kvl)]  # kv_a, its norm, kv_b
        yield h, heads * v  # o
        if layer < c["first_k_dense_replace"]:
            i = c["intermediate_size"]
            yield from [(i, h), (i, h), (h, i)]
        else:
            yield from [(c["n_routed_experts"], h), (c["n_routed_experts"],)]  # router, its bias
            routed = c["n_routed_experts"] if experts is None else experts
            for _ in range(routed + c["n_shared_experts"]):
                yield from [(w, h), (w, h), (h, w)]
        yield from [(h,), (h,)]
    yield (h,)
    yield c["vocab_size"], h


def gemma3(outer: Config) -> Iterator[Shape]:
    c = outer["text_config"]
    h, i, d = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"], c["num_key_value_heads"]
    yield c["vocab_size"], h  # tied
    for _ in range(c["num_hidden_layers"]):
        yield from [(q * d, h), (kv * d, h), (kv * d, h), (h, q * d), (d,), (d,)]
        yield from [(i, h), (i, h), (h, i)]
        yield from [(h,)] * 4  # before and after each block
    yield (h,)


def nemotron_h(c: Config, experts: int | None = None) -> Iterator[Shape]:
    h, d = c["hidden_size"], c.get("head_dim", c.get("attention_head_dim"))
    heads, width = c["mamba_num_heads"], c["mamba_num_heads"] * c["mamba_head_dim"]
    conv = width + 2 * c["n_groups"] * c["ssm_state_size"]
    yield c["vocab_size"], h
    for kind in c["hybrid_override_pattern"]:
        yield (h,)  # norm
        if kind == "M":
            yield width + conv + heads, h  # in_proj: gate, conv input, step
            yield from [(conv, 1, c["conv_kernel"]), (conv,)]  # conv1d and its bias
            yield from [(heads,), (heads,), (heads,), (width,)]  # dt_bias, A_log, D, gated norm
            yield h, width  # out_proj
        elif kind == "*":
            q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
            yield from [(q, h), (kv, h), (kv, h), (h, q)]
        elif kind == "-":
            yield from [(c["intermediate_size"], h), (h, c["intermediate_size"])]
        elif kind == "E":
            w, shared = c["moe_intermediate_size"], c["moe_shared_expert_intermediate_size"]
            latent = c.get("moe_latent_size")
            if latent:
                yield from [(latent, h), (h, latent)]
            yield from [(c["n_routed_experts"], h), (c["n_routed_experts"],)]
            for _ in range(c["n_routed_experts"] if experts is None else experts):
                yield from [(w, latent or h), (latent or h, w)]
            yield from [(shared, h), (h, shared)]
    yield (h,)
    yield c["vocab_size"], h


def count(shapes: Iterator[Shape]) -> int:
    return sum(map(math.prod, shapes))


@pytest.mark.parametrize(
    ("tensors", "name"),
    [
        (llama, "llama3__Meta-Llama-3.1-8B"),
        (llama, "llama3__Meta-Llama-3.1-70B"),
        (llama, "llama3__Meta-Llama-3.1-405B"),
        (llama, "llama3__Llama-3.2-1B-Instruct"),
        (qwen3_moe, "qwen3__Qwen3-30B-A3B"),
        (qwen3_moe, "qwen3__Qwen3-235B-A22B"),
        (deepseek_v3, "deepseek3__DeepSeek-V3"),
        (deepseek_v3, "kimik2__Kimi-K2-Instruct"),
        (gemma3, "gemma3__gemma-3-4b-it"),
        (gemma3, "gemma3__gemma-3-27b-it"),
        (nemotron_h, "nemotron__Nemotron-H-56B-Base-8K"),
        (nemotron_h, "nemotron__NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
        (nemotron_h, "nemotron__NVIDIA-Nemotron-3-Super-120B-A12B-FP8"),
    ],
)
def test_the_closed_form_equals_the_tensors(tensors: Any, name: str) -> None:
    assert round(parameters_total(load(name))) == count(tensors(read_catalog(name)))


@pytest.mark.parametrize(
    ("tensors", "name"),
    [
        (qwen3_moe, "qwen3__Qwen3-235B-A22B"),
        (deepseek_v3, "deepseek3__DeepSeek-V3"),
        (nemotron_h, "nemotron__NVIDIA-Nemotron-3-Super-120B-A12B-FP8"),
    ],
)
def test_the_active_part_holds_only_the_chosen_experts(tensors: Any, name: str) -> None:
    config = read_catalog(name)
    chosen = count(tensors(config, experts=config["num_experts_per_tok"]))
    assert round(parameters_active(load(name))) == chosen
