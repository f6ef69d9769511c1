"""What a lowered model computes and reads, against counts that do not use the lowering."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import pytest

from hwmodel import theta
from hwmodel.ops import Attention as AttentionOp
from hwmodel.ops import Matmul, Operator
from models.architecture import (
    Architecture,
    Attention,
    DenseFFN,
    LatentAttention,
    MoE,
    Recurrent,
    expert_parameters,
    kv_bytes_per_token,
    state_bytes_per_sequence,
)
from models.deployment import Deployment
from models.huggingface import load
from models.lowering import decode_phase, lower, prefill_phase
from models.lowering.feed_forward import hit_share
from models.lowering.model import (
    kv_bytes_per_sequence_per_chip,
    small_parameters,
    weight_bytes_per_chip,
)
from models.variants import NEUTRAL, Variant
from models.workload import Workload

THETA = theta.central()
PROMPT, OUTPUT = 4096.0, 1000.0
CHAT = Workload(prompt_tokens=PROMPT, output_tokens=OUTPUT)
ONE_CHIP = Deployment(prefill_chunk_tokens=PROMPT)

DENSE = ["Meta-Llama-3.1-70B", "Qwen3-32B", "gemma-3-27b-it", "gpt2__gpt2"]
MIXTURES = ["Qwen3-235B-A22B", "DeepSeek-V3", "gpt-oss-120b", "DeepSeek-V2-Lite"]
HYBRIDS = ["granite-4.0-h-small", "Nemotron-H-56B-Base-8K", "Kimi-Linear-48B-A3B-Instruct"]


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with jax.enable_x64(True), jax.disable_jit():
        yield


def _lower(
    arch: Architecture,
    d: Deployment,
    w: Workload,
    decode: bool = False,
    variant: Variant = NEUTRAL,
    side: float = 1.0,
) -> Sequence[Operator]:
    phase = decode_phase(d, w) if decode else prefill_phase(d, w)
    return lower(arch, variant, d, w, phase, THETA, side).operators


def _flops(ops: Sequence[Operator]) -> float:
    total = 0.0
    for op in ops:
        if isinstance(op, Matmul):
            total += float(2 * op.count * op.groups * op.m * op.k * op.n)
        elif isinstance(op, AttentionOp):
            width = op.qk_width + op.softmax * op.v_width
            total += float(2 * op.count * op.groups * op.rows * op.length * width)
    return total


def _weights_read(ops: Sequence[Operator]) -> float:
    """Weight elements read once per step."""
    return sum(
        float(op.count * op.groups * op.k * op.n * op.weight_reads)
        for op in ops
        if isinstance(op, Matmul)
    )


def _matmul_parameters(arch: Architecture, experts: str) -> float:
    """Parameters of the blocks that are multiplied: all experts, or the top-k of each token.

    Counted from the widths of each block, not from the operators.
    """
    h = arch.hidden
    total = 0.0
    for m in arch.mixers:
        if isinstance(m, Attention):
            q = m.q_heads * m.qk_head_dim * (1 + m.output_gate * m.v_head_dim / m.qk_head_dim)
            own = m.layers if m.kv_layers == -1 else m.kv_layers
            kv = m.kv_heads * (m.qk_head_dim + (m.kv_projections - 1) * m.v_head_dim)
            total += m.layers * (h * q + m.q_heads * m.v_head_dim * h) + own * h * kv
        elif isinstance(m, LatentAttention):
            q_in = m.q_lora_rank or h
            total += m.layers * (
                h * m.q_lora_rank
                + q_in * m.heads * (m.qk_nope_head_dim + m.qk_rope_head_dim)
                + h * (m.kv_lora_rank + m.qk_rope_head_dim)
                + m.kv_lora_rank * m.heads * (m.qk_nope_head_dim + m.v_head_dim)
                + m.heads * m.v_head_dim * h
            )
        else:
            total += m.layers * (h * m.in_width + m.out_width * h)
    for f in arch.feed_forwards:
        if isinstance(f, DenseFFN):
            total += f.layers * (2 + f.gated) * h * f.width
        else:
            used = f.top_k if experts == "active" else f.experts
            one = expert_parameters(f, h) - f.expert_extra_parameters
            shared = (2 + f.gated) * h * f.shared_width
            total += f.layers * (used * one + shared + h * f.experts + 2 * h * f.latent_dim)
    return total


def _mean_attended(first: float, last: float, window: float) -> float:
    """Mean of min(t, window) over positions first < t <= last, by brute force."""
    positions = range(int(first) + 1, int(last) + 1)
    seen = [min(t, window) if window else t for t in positions]
    return sum(seen) / len(seen)


def _attention_flops(arch: Architecture, first: float, last: float, tokens: float) -> float:
    """Scores and values over exactly the positions that each token may see."""
    total = 0.0
    for m in arch.mixers:
        if isinstance(m, Attention):
            seen = _mean_attended(first, last, m.window)
            total += m.layers * m.q_heads * tokens * seen * (m.qk_head_dim + m.v_head_dim)
        elif isinstance(m, LatentAttention):
            seen = _mean_attended(first, last, 0)
            width = m.qk_nope_head_dim + m.qk_rope_head_dim + m.v_head_dim
            total += m.layers * m.heads * tokens * seen * width
    return 2 * total


def _recurrent_flops(arch: Architecture, tokens: float) -> float:
    """Chunked form: inside chunks attention over a chunk, two products with the state per token."""
    total = 0.0
    for m in arch.mixers:
        if isinstance(m, Recurrent):
            inside = tokens * m.chunk * (m.key_dim + m.value_dim)
            states = 2 * tokens * m.key_dim * m.value_dim
            total += m.layers * m.heads * (inside + states)
    return 2 * total


@pytest.mark.parametrize("name", DENSE + MIXTURES + HYBRIDS)
def test_prefill_flops(name: str) -> None:
    arch = load(name)
    expected = (
        2 * PROMPT * _matmul_parameters(arch, "active")
        + 2 * arch.hidden * arch.vocab  # the head runs once per prompt
        + _attention_flops(arch, 0, PROMPT, PROMPT)
        + _recurrent_flops(arch, PROMPT)
    )
    # lengths are rounded up to whole cached tokens: at most 1 in 500 here
    assert _flops(_lower(arch, ONE_CHIP, CHAT)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", DENSE + ["Qwen3-235B-A22B", "gpt-oss-120b"])
@pytest.mark.parametrize("batch", [1.0, 64.0])
def test_decode_flops(name: str, batch: float) -> None:
    arch, d = load(name), dataclasses.replace(ONE_CHIP, batch=batch)
    expected = 2 * batch * (_matmul_parameters(arch, "active") + arch.hidden * arch.vocab)
    expected += _attention_flops(arch, PROMPT, PROMPT + OUTPUT, batch)
    assert _flops(_lower(arch, d, CHAT, decode=True)) == pytest.approx(expected, rel=1e-3)


def test_decode_of_latent_attention_absorbs_the_up_projections() -> None:
    """Scores over the latent (512 + 64) and values of 512 for each of 128 heads."""
    arch, d = load("DeepSeek-V3"), dataclasses.replace(ONE_CHIP, batch=8.0)
    (m,) = arch.mixers
    assert isinstance(m, LatentAttention)
    seen = _mean_attended(PROMPT, PROMPT + OUTPUT, 0)
    expected = 2 * 8 * (_matmul_parameters(arch, "active") + arch.hidden * arch.vocab)
    expected += 2 * 8 * m.layers * m.heads * seen * (2 * m.kv_lora_rank + m.qk_rope_head_dim)
    assert _flops(_lower(arch, d, CHAT, decode=True)) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", DENSE + MIXTURES + HYBRIDS)
def test_weights_read_in_prefill_are_all_weights(name: str) -> None:
    """4096 tokens hit every expert: each matrix is read once, and the head."""
    arch = load(name)
    expected = _matmul_parameters(arch, "all") + arch.hidden * arch.vocab
    assert _weights_read(_lower(arch, ONE_CHIP, CHAT)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", ["Qwen3-235B-A22B", "DeepSeek-V3"])
def test_weights_read_in_decode_grow_with_the_experts_hit(name: str) -> None:
    arch = load(name)
    active = _matmul_parameters(arch, "active") + arch.hidden * arch.vocab
    everything = _matmul_parameters(arch, "all") + arch.hidden * arch.vocab
    read = [
        _weights_read(_lower(arch, dataclasses.replace(ONE_CHIP, batch=b), CHAT, decode=True))
        for b in (1.0, 4.0, 64.0, 4096.0)
    ]
    assert read[0] == pytest.approx(active, rel=1e-9)  # one token: exactly its top-k experts
    assert read == sorted(read)
    assert read[-1] == pytest.approx(everything, rel=1e-4)


def test_expected_distinct_experts() -> None:
    block = MoE(layers=1, experts=8, top_k=2, expert_width=1)
    assert float(hit_share(block, 1.0)) == pytest.approx(2 / 8)
    assert float(hit_share(block, 2.0)) == pytest.approx(1 - (6 / 8) ** 2)
    assert float(hit_share(block, 1e6)) == pytest.approx(1)
    every = MoE(layers=1, experts=4, top_k=4, expert_width=1)
    assert float(hit_share(every, 1.0)) == pytest.approx(1)


def test_imbalance_loads_the_busiest_expert_shard() -> None:
    arch = load("Qwen3-235B-A22B")
    skewed = dataclasses.replace(CHAT, expert_imbalance=1.5)
    even = sum(_expert_rows(_lower(arch, ONE_CHIP, CHAT)))
    assert sum(_expert_rows(_lower(arch, ONE_CHIP, skewed))) == pytest.approx(1.5 * even)


def _expert_rows(ops: Sequence[Operator]) -> list[float]:
    return [
        float(op.m * op.groups)
        for op in ops
        if isinstance(op, Matmul) and op.name.startswith("experts")
    ]


# --- sharding

SPLITS = [
    Deployment(tensor=8.0, batch=64.0),
    Deployment(tensor=4.0, data=2.0, batch=64.0),
    Deployment(tensor=8.0, attention_data=2.0, batch=64.0),
    Deployment(fsdp=2.0, tensor=4.0, batch=64.0),
    Deployment(pipeline=2.0, tensor=4.0, batch=64.0),
    Deployment(context=2.0, tensor=4.0, batch=64.0),
]


@pytest.mark.parametrize("d", SPLITS, ids=lambda d: f"{d.chips:g} chips")
@pytest.mark.parametrize("name", ["Meta-Llama-3.1-70B", "Qwen3-32B"])
@pytest.mark.parametrize("decode", [False, True])
def test_the_chips_of_a_dense_model_share_its_flops(name: str, d: Deployment, decode: bool) -> None:
    """One step of all chips works on the tokens of all request groups, whatever the split."""
    arch, d = load(name), dataclasses.replace(d, prefill_chunk_tokens=PROMPT)
    groups = float(d.data * d.request_groups)
    microbatch = 64.0 / groups / d.pipeline  # each pipeline stage holds another one
    alone = dataclasses.replace(ONE_CHIP, batch=microbatch)
    whole = _flops_without_head(_lower(arch, alone, CHAT, decode))
    shards = float(d.chips) * _flops_without_head(_lower(arch, d, CHAT, decode))
    assert shards == pytest.approx(groups * whole, rel=2e-3)


def _flops_without_head(ops: Sequence[Operator]) -> float:
    """Every pipeline stage is charged the head of the last one."""
    return _flops([op for op in ops if op.name != "output head"])


@pytest.mark.parametrize(
    "d",
    [
        Deployment(tensor=8.0),
        Deployment(tensor=2.0, expert=8.0),
        Deployment(expert=16.0, attention_data=4.0),
        Deployment(tensor=4.0, expert=4.0, pipeline=2.0),
        Deployment(fsdp=4.0, tensor=4.0),
    ],
    ids=lambda d: f"t{d.tensor:g} e{d.expert:g} p{d.pipeline:g} f{d.fsdp:g}",
)
@pytest.mark.parametrize("name", ["Meta-Llama-3.1-70B", "Qwen3-235B-A22B", "DeepSeek-V3"])
def test_the_chips_of_a_replica_hold_the_model_once(name: str, d: Deployment) -> None:
    """Attention weights are held once per attention-data group, everything else once."""
    arch = load(name)
    if d.expert > 1 and not any(isinstance(f, MoE) for f in arch.feed_forwards):
        d = dataclasses.replace(d, tensor=d.tensor * d.expert, expert=1.0)
    d = dataclasses.replace(d, prefill_chunk_tokens=PROMPT, batch=64.0)
    phase = prefill_phase(d, CHAT)
    lowered = lower(arch, NEUTRAL, d, CHAT, phase, THETA)
    held = float(d.replica_chips * weight_bytes_per_chip(arch, d, lowered))
    blocks = _matmul_parameters(arch, "all")
    attention = _matmul_parameters(dataclasses.replace(arch, feed_forwards=()), "all")
    replicas = sum(  # KV projections beyond one KV head a chip
        m.layers
        * arch.hidden
        * m.kv_heads
        * (m.qk_head_dim + m.v_head_dim)
        * (max(float(d.attention_tensor) / m.kv_heads, 1) - 1)
        for m in arch.mixers
        if isinstance(m, Attention)
    )
    routers = sum(
        f.layers * arch.hidden * f.experts for f in arch.feed_forwards if isinstance(f, MoE)
    )
    shared = float(d.model_parallel)
    uneven = float(-(-arch.layers // d.pipeline) * d.pipeline / arch.layers)  # busiest stage
    latent_down = sum(
        m.layers * arch.hidden * (m.q_lora_rank + m.kv_lora_rank + m.qk_rope_head_dim)
        for m in arch.mixers
        if isinstance(m, LatentAttention)
    )
    expected = (
        (blocks - routers - attention) * uneven
        + (attention + replicas - latent_down) * float(d.attention_data) * uneven
        + (latent_down + routers) * shared * uneven  # not split over the chips of a block
        + (2 - arch.tied_embeddings) * arch.vocab * arch.hidden * _ends(d)
        + small_parameters(arch) * shared * uneven
    )
    assert held == pytest.approx(2 * expected, rel=1e-3)


def _ends(d: Deployment) -> float:
    """Every pipeline stage is charged the embedding and the head."""
    return float(d.pipeline)


@pytest.mark.parametrize(
    "name",
    ["Meta-Llama-3.1-70B", "DeepSeek-V3", "gemma-3-27b-it", "granite-4.0-h-small", "GLM-5.2"],
)
@pytest.mark.parametrize("bits", [16.0, 8.0])
def test_kv_bytes_of_a_short_sequence_match_the_architecture(name: str, bits: float) -> None:
    """Below every window and without replication: tokens x bytes per token, and constant state."""
    arch = load(name)
    w = Workload(prompt_tokens=400.0, output_tokens=112.0)
    variant = dataclasses.replace(NEUTRAL, kv_bits=bits)
    held = float(kv_bytes_per_sequence_per_chip(arch, variant, Deployment(), w))
    expected = kv_bytes_per_token(arch, bits) * 512 + state_bytes_per_sequence(arch)
    assert held == pytest.approx(expected, rel=1e-9)


def test_kv_heads_split_then_replicate() -> None:
    arch = load("Meta-Llama-3.1-70B")  # 8 KV heads
    whole = kv_bytes_per_token(arch) * (PROMPT + OUTPUT)
    for tensor, copies in ((1.0, 1), (8.0, 1), (16.0, 2), (32.0, 4)):
        d = Deployment(tensor=tensor)
        held = float(tensor * kv_bytes_per_sequence_per_chip(arch, NEUTRAL, d, CHAT))
        assert held == pytest.approx(copies * whole)
    context = Deployment(context=4.0)
    assert float(4 * kv_bytes_per_sequence_per_chip(arch, NEUTRAL, context, CHAT)) == pytest.approx(
        whole
    )


def test_a_window_caps_the_cache() -> None:
    arch = load("gemma-3-27b-it")
    held = float(kv_bytes_per_sequence_per_chip(arch, NEUTRAL, Deployment(), CHAT))
    expected = 0.0
    for m in arch.mixers:
        assert isinstance(m, Attention)
        tokens = min(PROMPT + OUTPUT, m.window) if m.window else PROMPT + OUTPUT
        expected += m.layers * tokens * m.kv_heads * (m.qk_head_dim + m.v_head_dim) * 2
    assert held == pytest.approx(expected)


# --- phases


@pytest.mark.parametrize("window", [0, 1, 7, 512, 1024, 4096, 100_000])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 777), (500, 4000), (4000, 5000)])
def test_attended_tokens_in_closed_form_equal_the_sum(window: int, first: int, last: int) -> None:
    phase = dataclasses.replace(
        prefill_phase(ONE_CHIP, CHAT), first_token=float(first), last_token=float(last)
    )
    seen = sum(min(t, window) if window else t for t in range(first + 1, last + 1))
    assert float(phase.attended_tokens(float(window))) == -(-seen // (last - first))


@pytest.mark.parametrize(
    ("prompt", "cached", "chunk", "steps", "tokens"),
    [(4000, 0, 8192, 1, 4000), (4000, 0, 2048, 2, 2000), (4097, 0, 4096, 2, 2049),
     (4000, 3000, 512, 2, 500), (10, 0, 1, 10, 1)],
)  # fmt: skip
def test_a_prompt_is_cut_into_even_chunks(
    prompt: int, cached: int, chunk: int, steps: int, tokens: int
) -> None:
    w = Workload(
        prompt_tokens=float(prompt), output_tokens=10.0, cached_prefix_tokens=float(cached)
    )
    phase = prefill_phase(Deployment(prefill_chunk_tokens=float(chunk)), w)
    assert (float(phase.steps), float(phase.query_tokens)) == (steps, tokens)


def test_chunking_does_not_change_the_attention_of_a_prompt() -> None:
    arch = load("Qwen3-32B")
    whole = _flops(_lower(arch, ONE_CHIP, CHAT))
    for chunk in (512.0, 1024.0, 2048.0):
        d = dataclasses.replace(ONE_CHIP, prefill_chunk_tokens=chunk)
        steps = float(prefill_phase(d, CHAT).steps)
        assert steps == PROMPT / chunk
        assert steps * _flops(_lower(arch, d, CHAT)) == pytest.approx(whole, rel=1e-4)


def test_decode_averages_over_the_output() -> None:
    phase = decode_phase(dataclasses.replace(ONE_CHIP, batch=8.0), CHAT)
    assert float(phase.attended_tokens(0)) == -(-sum(range(4097, 5097)) // 1000)
    assert (phase.sequences, phase.logit_tokens) == (8, 8)


def test_idle_layers_and_formats_reach_every_matmul_but_the_head() -> None:
    variant = dataclasses.replace(NEUTRAL, weight_bits=8, activation_bits=8, compute_format=2)
    ops = _lower(load("Qwen3-235B-A22B"), ONE_CHIP, CHAT, variant=variant)
    wide = {op.name for op in ops if isinstance(op, Matmul) and op.numerics.weight_bits == 16}
    assert wide == {"router", "output head"}
