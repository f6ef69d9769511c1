"""Training steps against counts made by hand, and what must hold for every step."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from hwmodel import presets, theta
from hwmodel.chip import Chip
from hwmodel.ops import FP8
from hwmodel.step import OperatorTime, StepTime
from models.architecture import Architecture, Attention, DenseFFN
from models.deployment import Deployment
from models.huggingface import load
from models.legality import REASONS
from models.training import TRAINING_METRICS, TrainingPoint, evaluate_training
from models.training.flops import flops_per_token
from models.variants import NEUTRAL, Variant
from models.workload import Training

THETA = theta.central()
V6E = presets.load("v6e")
SAVES = ("save_qkv", "save_context", "save_out_proj", "save_mlp_up", "save_mlp_down")
MINIMAL = dict.fromkeys(SAVES, 1.0)
LAYERS = 4.0
LAYER = 1024 * (12 * 128 + 8 * 128 + 3 * 4096)  # weights of one layer of SMALL
VOCABULARY = 32000 * 1024
SMALL = Architecture(
    name="four layers",
    model_type="test",
    layers=LAYERS,
    hidden=1024.0,
    vocab=32000.0,
    mixers=(
        Attention(layers=LAYERS, q_heads=8.0, kv_heads=2.0, qk_head_dim=128.0, v_head_dim=128.0),
    ),
    feed_forwards=(DenseFFN(layers=LAYERS, width=4096.0),),
)
TOKENS, BATCH = 2048.0, 64.0


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with jax.enable_x64(True), jax.disable_jit():
        yield


def _deployment(**degrees: float) -> Deployment:
    """A slice of 4 x 4 chips, or as many as the degrees need in a line."""
    return Deployment(**{"torus_x": 4.0, "torus_y": 4.0, **degrees})


def _point(
    arch: Architecture | str = SMALL,
    chip: Chip = V6E,
    d: Deployment | None = None,
    variant: Variant = NEUTRAL,
    constants: tuple[tuple[str, float], ...] = (),
    **training: Any,
) -> TrainingPoint:
    """One point; `constants` replace those of theta."""
    t = Training(**{"sequence_tokens": TOKENS, "global_batch": BATCH, **training})
    return _evaluated(arch, chip, variant, d or _deployment(), t, constants)


@functools.cache
def _evaluated(
    arch: Architecture | str,
    chip: Chip,
    variant: Variant,
    d: Deployment,
    t: Training,
    constants: tuple[tuple[str, float], ...],
) -> TrainingPoint:
    arch = load(arch) if isinstance(arch, str) else arch
    return evaluate_training(chip, arch, variant, d, t, THETA | dict(constants), 15e12)


def _metric(name: str, *args: Any, **kwargs: Any) -> float:
    return float(_point(*args, **kwargs).metrics[name])


def _flops(step: StepTime, *kinds: str) -> float:
    return sum(float(op.flops) for op in step.operators if op.kind in kinds)


def _bytes(step: StepTime, *names: str) -> float:
    found = [float(op.hbm_bytes) for op in step.operators if op.name in names]
    assert len(found) == len(names)
    return sum(found)


def test_metrics_and_reasons_are_the_documented_ones() -> None:
    point = _point()
    assert tuple(point.metrics) == TRAINING_METRICS
    assert set(point.violations) <= set(REASONS)
    assert all(float(v) <= 0 for v in point.violations.values())


@pytest.mark.parametrize("name", ["Meta-Llama-3.1-8B", "Mixtral-8x7B-v0.1", "DeepSeek-V2-Lite"])
def test_a_backward_pass_is_two_forward_passes(name: str) -> None:
    """With every projection kept, matmuls run three times; attention 2 + 5 products against 2."""
    point = _point(name, **MINIMAL)
    matmuls = _flops(point.forward, "matmul")
    assert _flops(point.step, "matmul") == pytest.approx(3 * matmuls, rel=1e-9)
    forward, whole = (
        [float(op.flops) for op in step.operators if op.kind.startswith("attention")]
        for step in (point.forward, point.step)
    )
    head = load(name).mixers[0]
    qk = getattr(head, "qk_head_dim", 0) or head.qk_nope_head_dim + head.qk_rope_head_dim
    products = 3 * qk + 2 * head.v_head_dim
    assert sum(whole) == pytest.approx(sum(forward) * (1 + products / (qk + head.v_head_dim)))


def test_full_rematerialisation_adds_a_forward_pass_but_its_last_matmul_and_the_head() -> None:
    full, minimal = _point(), _point(**MINIMAL)
    added = float(full.step.flops - minimal.step.flops)
    left_out = sum(
        float(op.flops)
        for op in full.forward.operators
        if op.name in ("feed-forward down", "output head")
    )
    assert added == pytest.approx(float(full.forward.flops) - left_out, rel=1e-9)


@pytest.mark.parametrize("save", SAVES)
def test_a_kept_tensor_saves_just_the_operators_that_make_it(save: str) -> None:
    makers = {
        "save_qkv": ["qkv projection"],
        "save_context": ["attention"],
        "save_out_proj": ["output projection"],
        "save_mlp_up": ["feed-forward up"],
        "save_mlp_down": [],
    }[save]
    without, kept = _point(), _point(**{save: 1.0})
    saved = float(without.step.flops - kept.step.flops)
    made = sum(float(op.flops) for op in without.forward.operators if op.name in makers)
    assert saved == pytest.approx(made, rel=1e-9)
    assert kept.metrics["kept_bytes_per_chip"] > without.metrics["kept_bytes_per_chip"]
    assert kept.metrics["hbm_used_bytes"] > without.metrics["hbm_used_bytes"]


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Meta-Llama-3.1-8B", (4096, 32, 32, 8, 128, 14336, 128256, 0, 1)),
        ("Meta-Llama-3.1-70B", (8192, 80, 64, 8, 128, 28672, 128256, 0, 1)),
        ("Mixtral-8x7B-v0.1", (4096, 32, 32, 8, 128, 14336, 32000, 8, 2)),
    ],
)
@pytest.mark.parametrize("causal", [1.0, 0.0])
def test_flops_per_token_in_closed_form(name: str, shape: tuple[int, ...], causal: float) -> None:
    """3 (2 W + A S Hq hd L), A = 2 causal or 4: MaxText's count, which logged TFLOP/s confirm."""
    d, layers, q, kv, hd, ff, vocab, experts, top_k = shape
    w = layers * (3 * d * ff * top_k + d * (q + 2 * kv) * hd + d * q * hd + d * experts) + d * vocab
    tokens = 8192.0
    by_hand = 3 * (2 * w + (2 if causal else 4) * tokens * q * hd * layers)
    assert float(flops_per_token(load(name), tokens, causal)) == pytest.approx(by_hand, rel=1e-12)

    whole = (("attention_block_tokens", 0.0),)  # no block of scores computed for the mask to hide
    point = _point(
        name, sequence_tokens=tokens, global_batch=2.0, causal=causal, constants=whole, **MINIMAL
    )
    executed = _flops(point.forward, "matmul", "attention") * 3 / (2 * tokens)
    assert executed == pytest.approx(by_hand, rel=2e-4)  # mean attended tokens are rounded up


def test_model_flops_utilisation_counts_the_whole_machine() -> None:
    d = _deployment(fsdp=16.0)
    point = _point("Meta-Llama-3.1-8B", d=d)
    needed = float(flops_per_token(load("Meta-Llama-3.1-8B"), TOKENS, 1.0)) * TOKENS * BATCH
    peak = 16 * V6E.peak_bf16_flops
    step_s = float(point.metrics["train_step_s"])
    assert float(point.metrics["mfu_train"]) == pytest.approx(needed / peak / step_s)


def test_hbm_bytes_of_one_matmul_by_hand() -> None:
    """Feed-forward up on one chip: operands through HBM beyond what VMEM keeps, its
    gradient written in 16 bits; in 32 bits every element is two bytes more."""
    from hwmodel.rates import rates

    r = rates(V6E, THETA)
    m, k, n = TOKENS * BATCH, 1024.0, 8192.0
    edge = float(1 / r.block_edge_inverse)
    usable = float(r.on_chip_bytes)

    def traffic(m: float, k: float, n: float) -> float:
        resident = float(getattr(r, "resident_bytes", 0.5 * usable))
        spilled = max(2 * m * k + 2 * m * n - resident, 0)
        reread = 2 * k * n * max(m / edge - 1, 0)
        reread += 2 * m * k * max(n / edge * min(m / edge, 1) - 1, 0)
        return 2 * k * n + spilled + reread

    narrow, wide = _point().step, _point(gradient_bits=32.0).step
    name = "feed-forward up"
    assert _bytes(narrow, name) == pytest.approx(LAYERS * traffic(m, k, n))
    inputs = m * k * 2  # read once more for the gradients of norm and activation
    assert _bytes(narrow, f"{name} input gradient") == pytest.approx(
        LAYERS * (traffic(m, n, k) + inputs)
    )
    gradient = f"{name} weight gradient"
    assert _bytes(narrow, gradient) == pytest.approx(LAYERS * traffic(k, m, n))
    assert _bytes(wide, gradient) - _bytes(narrow, gradient) == pytest.approx(LAYERS * 2 * k * n)


def test_attention_reads_and_writes_every_tensor_once() -> None:
    """q and o forward; q, o, dO, dq and k, v, dk, dv backward, beside flash's rereads of k, v."""
    step = _point().step
    tokens = TOKENS * BATCH
    stream = tokens * 8 * 128 * 2  # q, o, dO or dq of one layer
    keys = tokens * 2 * 128 * 2 * 2  # k and v
    forward, backward = _bytes(step, "attention"), _bytes(step, "attention gradient")
    # The cache term is the same in both passes: it cancels.
    assert backward - forward == pytest.approx(LAYERS * (2 * stream + keys))
    assert forward > LAYERS * 2 * stream


def test_optimizer_traffic_by_hand() -> None:
    """Master weights and two moments in 32 bits: 12 bytes a parameter read and written; gradients
    read twice and weights written in 16 bits."""
    point = _point()
    parameters = LAYERS * LAYER + 2 * VOCABULARY
    assert float(point.metrics["parameters_per_chip"]) == pytest.approx(parameters)
    assert _bytes(point.step, "optimizer update") == pytest.approx(parameters * (24 + 4 + 2))


def test_sharded_weights_are_gathered_twice_and_gradients_scattered_once() -> None:
    d = _deployment(fsdp=16.0)
    weights = (LAYERS * LAYER + VOCABULARY) * 2.0
    table = VOCABULARY * 2.0  # the lookup table's gradient is scattered too
    for microbatches in (1.0, 2.0):
        step = _point(d=d, microbatches=microbatches).step
        moved = {op.name: float(op.ici_bytes) for op in step.operators if op.kind == "collective"}
        share = microbatches * 15 / 16
        for when in ("forward", "backward"):
            name = f"weight all-gather ({when}), fsdp"
            assert moved[name] == pytest.approx(weights * share)
        assert moved["gradient reduce-scatter, fsdp"] == pytest.approx((weights + table) * share)


def test_more_chips_with_sharded_weights_need_less_memory_each() -> None:
    used = [
        _metric("hbm_used_bytes", "Meta-Llama-3.1-8B", d=_deployment(fsdp=fsdp))
        for fsdp in (1.0, 2.0, 4.0, 8.0, 16.0)
    ]
    assert used == sorted(used, reverse=True)
    state = float(
        _point("Meta-Llama-3.1-8B", d=_deployment(fsdp=16.0)).metrics["parameters_per_chip"]
    )
    assert used[-1] > state * (4 + 8 + 2)  # never less than its share of the optimizer's state


def test_a_sharded_optimizer_saves_memory_and_replicas_do_not() -> None:
    one = _metric("hbm_used_bytes", d=_deployment(), global_batch=16.0)
    d = _deployment(data=4.0)
    four = _metric("hbm_used_bytes", d=d)
    sharded = _metric("hbm_used_bytes", d=d, optimizer_sharded=1.0)
    assert four == pytest.approx(one)
    parameters = _metric("parameters_per_chip", d=d)
    # Three quarters of master weights and moments are elsewhere, a 16-bit copy stays.
    assert four - sharded == pytest.approx(parameters * (12 * 0.75 - 2))


def test_offloaded_tensors_leave_hbm_and_cross_the_host_link_twice() -> None:
    kept, moved = _point(**MINIMAL), _point(offload_saved=1.0, **MINIMAL)
    size = float(kept.metrics["kept_bytes_per_chip"])
    link_s = sum(float(op.network_s) for op in moved.step.operators if op.kind == "host")
    assert link_s == pytest.approx(2 * size / V6E.host_bandwidth_bytes_per_s)
    assert float(moved.metrics["hbm_used_bytes"]) < float(kept.metrics["hbm_used_bytes"])
    assert float(moved.metrics["train_step_s"]) > float(kept.metrics["train_step_s"])


def test_replicas_scale_linearly_on_an_infinite_network() -> None:
    fast = dataclasses.replace(
        V6E,
        ici_link_bandwidth_bytes_per_s=1e30,
        dcn_bandwidth_bytes_per_s=1e30,
        ici_hop_latency_s=0.0,
        dcn_latency_s=0.0,
    )
    free = (("collective_fixed_s", 0.0), ("straggler_fraction_per_doubling", 0.0))
    per_second = []
    for data in (1.0, 2.0, 8.0, 64.0):
        d = _deployment(data=data)
        point = _point(chip=fast, d=d, constants=free, global_batch=data * 4)
        per_second.append(float(point.metrics["train_tokens_per_s"]) / data)
    assert per_second == pytest.approx([per_second[0]] * 4, rel=1e-9)


def test_slices_wait_for_each_other_and_pay_for_the_data_centre_network() -> None:
    steps = [
        _metric(
            "train_step_s",
            "Meta-Llama-3.1-8B",
            d=_deployment(fsdp=16.0, data=n),
            global_batch=16 * n,
        )
        for n in (1.0, 2.0, 4.0, 8.0)
    ]
    assert all(a < b for a, b in itertools.pairwise(steps))


def test_a_pipeline_idles_in_its_bubble() -> None:
    d = _deployment(pipeline=2.0)
    for m in (1.0, 4.0):
        step = _point(d=d, microbatches=m).step
        once = ("optimizer update", "pipeline bubble", "wait for other slices")
        work = sum(float(op.time_s) for op in step.operators if op.name not in once)
        (bubble,) = [float(op.time_s) for op in step.operators if op.name == "pipeline bubble"]
        assert bubble == pytest.approx(work / m)


def test_operator_times_add_up() -> None:
    d = _deployment(fsdp=4.0, tensor=2.0, data=2.0, pipeline=2.0)
    for step in (_point(d=d, offload_saved=1.0, microbatches=2.0).step, _point(d=d).forward):
        assert sum(float(op.time_s) for op in step.operators) == pytest.approx(float(step.seconds))


FASTER = (
    "clock_hz",
    "hbm_stack_bandwidth_bytes_per_s",
    "ici_link_bandwidth_bytes_per_s",
    "dcn_bandwidth_bytes_per_s",
    "host_bandwidth_bytes_per_s",
    "vpu_alus_per_slot",
    "vmem_bytes",
)
SPREADS = (
    {"fsdp": 16.0},
    {"fsdp": 4.0, "tensor": 4.0, "data": 4.0},
    {"fsdp": 2.0, "context": 8.0, "data": 2.0},
    {"tensor": 8.0, "pipeline": 2.0, "data": 2.0},
)


@pytest.mark.parametrize("degrees", SPREADS, ids=str)
def test_a_faster_chip_never_makes_a_step_slower(degrees: dict[str, float]) -> None:
    d = _deployment(**degrees)
    factors = (0.03, 0.3, 1.0, 3.0, 30.0)

    def seconds(values: Any) -> Any:
        fields = dict(zip(FASTER, values, strict=True))
        t = Training(sequence_tokens=TOKENS, global_batch=BATCH, offload_saved=1.0, save_qkv=1.0)
        arch = load("Meta-Llama-3.1-8B")
        chip = dataclasses.replace(V6E, **fields)
        return evaluate_training(chip, arch, NEUTRAL, d, t, THETA, 15e12).metrics["train_step_s"]

    base = np.array([getattr(V6E, field) for field in FASTER])
    rows = np.tile(base, (len(FASTER), len(factors), 1))
    for i in range(len(FASTER)):
        rows[i, :, i] *= factors
    with jax.disable_jit(False):
        steps = np.asarray(jax.jit(jax.vmap(seconds))(rows.reshape(-1, len(FASTER))))
    steps = steps.reshape(len(FASTER), len(factors))
    assert np.all(steps[:, 1:] <= steps[:, :-1] * (1 + 1e-12))
    assert np.all(steps[:2, -1] < steps[:2, 0])


def test_transfers_on_links_of_their_own_expose_the_longest_not_the_sum() -> None:
    """Gradients over a slow data-centre network and offload over a slow host link, side by side."""
    slow_dcn = dataclasses.replace(V6E, dcn_bandwidth_bytes_per_s=1e7)
    slow_host = dataclasses.replace(V6E, host_bandwidth_bytes_per_s=1e6)
    both = dataclasses.replace(slow_dcn, host_bandwidth_bytes_per_s=1e6)
    perfect = (("gradient_overlap_fraction", 1.0), ("host_offload_overlap_fraction", 1.0))
    d = _deployment(fsdp=16.0, data=2.0)

    def seconds(chip: Chip) -> float:
        return _metric("train_step_s", chip=chip, d=d, constants=perfect, offload_saved=1.0)

    assert seconds(both) == pytest.approx(max(seconds(slow_dcn), seconds(slow_host)))


def test_narrow_training_speeds_up_matmuls_but_not_attention_or_the_head() -> None:
    chip = presets.load("v7x")
    narrow = dataclasses.replace(NEUTRAL, activation_bits=8.0, compute_format=FP8)
    by_name = [
        {
            op.name: op
            for op in _point("Meta-Llama-3.1-8B", chip, variant=v, **MINIMAL).step.operators
        }
        for v in (NEUTRAL, narrow)
    ]
    for part in ("", " input gradient", " weight gradient"):
        wide, fast = (ops[f"feed-forward up{part}"] for ops in by_name)
        assert float(fast.mxu_s) == pytest.approx(float(wide.mxu_s) / 2, rel=0.01)
        assert float(fast.vpu_ops) > float(wide.vpu_ops)
    for name in ("attention", "attention gradient", "output head", "output head weight gradient"):
        assert float(by_name[0][name].mxu_s) == float(by_name[1][name].mxu_s)


def test_experts_move_tokens_out_again_when_they_are_computed_again() -> None:
    d = _deployment(expert=8.0, attention_data=8.0, fsdp=2.0)
    step = _point("Mixtral-8x7B-v0.1", d=d).step
    counts = {op.name: float(op.count) for op in step.operators}
    for name in ("expert all-to-all", "expert dispatch and combine"):
        assert counts[f"{name} gradient"] == counts[name]
        assert counts[f"{name} again"] == counts[name] / 2


@pytest.mark.parametrize(
    ("reason", "degrees", "training"),
    [
        ("batch_split", {"fsdp": 16.0}, {"global_batch": 24.0}),
        ("batch_too_small", {"fsdp": 16.0}, {"microbatches": 8.0}),
        ("sequence_split", {"context": 3.0}, {}),
        ("query_heads_split", {"tensor": 16.0}, {}),
        ("pipeline_degree", {"pipeline": 8.0}, {}),
        ("hbm_overflow", {}, {"sequence_tokens": 65536.0, "global_batch": 512.0}),
    ],
)
def test_what_cannot_run_is_illegal(
    reason: str, degrees: dict[str, float], training: dict[str, float]
) -> None:
    violations = _point(d=_deployment(**degrees), **training).violations
    assert float(violations[reason]) > 0


def test_the_rung_is_traced_batched_and_differentiated() -> None:
    arch, d = load("Mixtral-8x7B-v0.1"), _deployment(fsdp=16.0)
    t = Training(sequence_tokens=TOKENS, global_batch=BATCH)

    def seconds(clock: Any) -> Any:
        chip = dataclasses.replace(V6E, clock_hz=clock)
        point = evaluate_training(chip, arch, NEUTRAL, d, t, THETA, 15e12)
        return point.metrics["train_step_s"]

    with jax.disable_jit(False):
        (slow, fast) = jax.jit(jax.vmap(seconds))(jax.numpy.array([1.0e9, V6E.clock_hz]))
        slope = jax.jit(jax.grad(seconds))(V6E.clock_hz)
    assert float(fast) == pytest.approx(float(seconds(V6E.clock_hz)), rel=1e-9)
    assert float(slow) > float(fast)
    assert float(slope) < 0


def _capacity(factor: float) -> tuple[OperatorTime, float]:
    """The first product of Mixtral's experts under a capacity factor, and the bytes kept."""
    d = _deployment(expert=4.0, attention_data=4.0, fsdp=4.0)
    point = _point("Mixtral-8x7B-v0.1", d=d, expert_capacity=factor, save_mlp_up=1.0)
    (up,) = (op for op in point.step.operators if op.name == "experts up")
    return up, float(point.metrics["kept_bytes_per_chip"])


def test_a_capacity_factor_makes_equal_groups() -> None:
    """Every expert computes its factor times its even share of rows, issued like a dense product
    instead of one over ragged groups."""
    dropless, equal = _capacity(0.0)[0], _capacity(1.25)[0]
    assert float(equal.flops) == pytest.approx(1.25 * float(dropless.flops))
    ratio = float(equal.mxu_s) / float(dropless.mxu_s)
    assert ratio == pytest.approx(1.25 * THETA["grouped_mxu_fraction"], rel=0.01)


def test_padded_rows_are_kept() -> None:
    (up, dropless), (_, padded) = _capacity(0.0), _capacity(1.25)
    outputs = float(up.flops) / (2 * load("Mixtral-8x7B-v0.1").hidden)
    assert padded - dropless == pytest.approx(0.25 * outputs * 2)  # 16 bits each
