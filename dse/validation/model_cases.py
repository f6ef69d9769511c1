"""Rows about whole models: training steps, prefill, decode and serving, as cases.

Degrees of the rows count JAX devices over the whole machine; the model counts chips. Where a chip
has two devices (the product of the degrees is twice the chips), the two share the innermost axis.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from importlib import resources
from typing import Any

from dse.validation.cases import Case, torus
from dse.validation.measurements import Measurement, MissingField
from dse.validation.possible import choice, devices_per_chip
from hwmodel.chip import Chip
from hwmodel.ops import BF16, FP8, INT8
from models.architecture import Architecture, MoE
from models.deployment import Deployment
from models.variants import NEUTRAL, Variant
from models.workload import Training, Workload

BITS = {"fp32": 32.0, "bf16": 16.0, "fp8": 8.0, "int8": 8.0}
FORMATS = {"bf16": BF16, "fp8": FP8, "int8": INT8}
SAVED = {
    "query_proj": "save_qkv",
    "key_proj": "save_qkv",
    "value_proj": "save_qkv",
    "context": "save_context",
    "out_proj": "save_out_proj",
    "mlpwi": "save_mlp_up",
    "mlpwo": "save_mlp_down",
}
"""Tensor names of remat policies to the fields of `Training`."""

MLPERF_BLOCK_SEQUENCES = 24576.0
MLPERF_EVAL_SEQUENCES = 24567.0
"""Training and evaluation sequences of one block of the MLPerf GPT-3 benchmark."""


def case(m: Measurement, chip: Chip) -> Case:
    """The case of a row about a whole model.

    Raises:
        MissingField: naming what the row does not state.
    """
    arch = _architecture(m)
    if m.workload_kind == "train":
        return _training(m, chip, arch)
    if (
        m.workload_kind == "prefill"
        and m.metric_std == "latency_s"
        and m.number("fsdp") > 1
        and m.out_len_std == 0
    ):
        return _forward_pass(m, chip, arch)
    return _serving(m, chip, arch)


def _architecture(m: Measurement) -> Architecture:
    from models.huggingface import ModelConfigError, UnknownModelError
    from models.huggingface.json_architecture import resolve

    reference = m.text("arch")
    try:
        return resolve(reference, m.folder)
    except (ModelConfigError, UnknownModelError) as error:
        raise MissingField(f"arch: {error}") from error


def _stated(m: Measurement, field: str, assumed: list[str]) -> str:
    """The row's own cell, else the stack's published default, which is added to `assumed`."""
    value = str(getattr(m, field))
    if value:
        return value
    entry = stack_defaults().get(m.stack, {}).get(field)
    if entry is None:
        raise MissingField(f"{field} is not stated")
    assumed.append(f"{field} {entry['value']}")
    return str(entry["value"])


@functools.cache
def stack_defaults() -> dict[str, Any]:
    """What serving and training software does where nothing is said, by stack, with sources."""
    import yaml

    text = resources.files("hwmodel").joinpath("calibration", "stack_defaults.yaml").read_text()
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def _in_chips(m: Measurement, chip: Chip, *names: str) -> dict[str, float]:
    """Degrees in chips: where a chip has two devices, the first of `names` that can be halved
    gives up the second."""
    degrees = {name: m.number(name) for name in names if name != "attn_dp"}
    if "attn_dp" in names:  # where nothing is left over, the replicas of attention are one
        whole = math.prod(degrees.values()) == m.chips and m.attn_dp is None
        degrees["attn_dp"] = 1.0 if whole else m.number("attn_dp")
    devices = 1.0
    for value in degrees.values():
        devices *= value
    per_chip = devices / m.number("chips")
    if per_chip not in (1.0, float(devices_per_chip(m.tpu, chip))):
        times = "once or twice" if devices_per_chip(m.tpu, chip) == 2 else "once"
        raise MissingField(
            f"the degrees make {devices:g} devices, which is not {times} the "
            f"{m.number('chips'):g} {m.tpu} chips"
        )
    for name in names:
        if per_chip == 1:
            break
        if degrees[name] % 2 == 0:
            degrees[name] /= 2
            per_chip = 1
    if per_chip != 1:
        raise MissingField("no degree can be divided over the two devices of a chip")
    return degrees


def _placed(m: Measurement, chip: Chip, assumed: list[str], **fields: float) -> Deployment:
    if not m.mesh:
        assumed.append("mesh")
    degrees = [fields.get(axis, 1.0) for axis in ("tensor", "expert", "context", "fsdp", "data")]
    x, y, z = torus(m, chip, degrees)
    return Deployment(torus_x=x, torus_y=y, torus_z=z, **fields)


def _training(m: Measurement, chip: Chip, arch: Architecture) -> Case:
    assumed: list[str] = []
    degrees = _in_chips(m, chip, "fsdp", "tp", "dp", "cp", "ep", "pp")
    compute = m.text("compute_dtype")
    weights = _bits("weight_dtype", _stated(m, "weight_dtype", assumed))
    deployment = _placed(
        m,
        chip,
        assumed,
        fsdp=degrees["fsdp"],
        tensor=degrees["tp"],
        data=degrees["dp"],
        context=degrees["cp"],
        expert=degrees["ep"],
        attention_data=degrees["ep"],
        pipeline=degrees["pp"],
    )
    training = Training(
        sequence_tokens=m.number("in_len"),
        global_batch=m.number("global_batch"),
        microbatches=1.0,
        **_saved(m, assumed),
        offload_saved=float(m.offload == "activations"),
        master_weight_bits=weights,
        gradient_bits=weights,
        moment_bits=_moments(m, weights),
        causal=float(m.operation().get("causal", True)),
        expert_capacity=m.expert_capacity or 0.0,
    )
    numbers = {"flops": 0.0, "steps": 0.0, "evaluations": 0.0}
    if m.metric_std in ("mfu", "tflops_per_chip"):
        causal = float(choice("flop_count", m.text("flop_count"), ("full", "causal")) == "causal")
        tokens = training.sequence_tokens * training.global_batch
        numbers["flops"] = tokens * needed_flops_per_token(arch, training.sequence_tokens, causal)
    elif m.metric_std == "mlperf_block_s":
        numbers["steps"] = MLPERF_BLOCK_SEQUENCES / training.global_batch
        numbers["evaluations"] = MLPERF_EVAL_SEQUENCES / training.global_batch
    elif m.metric_std != "step_s":
        raise MissingField(f"metric_std {m.metric_std} is not predicted for training")
    moe = any(isinstance(f, MoE) for f in arch.feed_forwards)
    parts = {
        "chip": chip,
        "architecture": arch,
        "variant": _variant(compute, "bf16", weight_bits=16.0),
        "deployment": deployment,
        "training": training,
    }
    return Case(
        m,
        "train_moe" if moe else "train_dense",
        "training",
        parts,
        numbers,
        tuple(assumed),
        (("metric", m.metric_std),),
    )


def _saved(m: Measurement, assumed: list[str]) -> dict[str, float]:
    """The `save_*` fields of a remat policy."""
    policy = choice("remat", _stated(m, "remat", assumed), ("full", "minimal", "custom"))
    fields = dict.fromkeys(dict.fromkeys(SAVED.values()), 0.0)
    if policy == "minimal":
        return {**dict.fromkeys(fields, 1.0), "save_context": 0.0}
    if policy == "custom":
        for tensor in m.text("remat_saved").split("+"):
            if tensor != "decoder_layer_input":
                fields[SAVED[choice("remat_saved", tensor, SAVED)]] = 1.0
    return fields


def _moments(m: Measurement, weight_bits: float) -> float:
    """Bits of both AdamW moments per parameter; they have the width of the weights."""
    if m.optimizer == "adamw_mu_bf16":
        return 16.0 + weight_bits
    return 2 * weight_bits


def needed_flops_per_token(arch: Architecture, tokens: float, causal: float) -> float:
    """FLOPs per token of a training step as published model-FLOP counts have them
    (`models.training.flops`), attention counted causally or in full."""
    import jax

    from models.training.flops import flops_per_token

    with jax.enable_x64(True):
        return float(flops_per_token(arch, tokens, causal))


def _variant(compute: str, kv: str, weight_bits: float) -> Variant:
    return dataclasses.replace(
        NEUTRAL,
        compute_format=FORMATS[choice("compute_dtype", compute, FORMATS)],
        activation_bits=BITS[compute],
        weight_bits=weight_bits,
        kv_bits=_bits("kv_dtype", kv),
    )


def _bits(field: str, dtype: str) -> float:
    return BITS[choice(field, dtype, BITS)]


def _forward_pass(m: Measurement, chip: Chip, arch: Architecture) -> Case:
    """A prefill of a whole batch with gathered weights: a training step's forward pass."""
    assumed: list[str] = []
    degrees = _in_chips(m, chip, "fsdp", "tp", "dp", "cp", "ep", "pp")
    deployment = _placed(
        m, chip, assumed, fsdp=degrees["fsdp"], tensor=degrees["tp"], data=degrees["dp"]
    )
    weights = _bits("weight_dtype", m.text("weight_dtype"))
    training = Training(
        sequence_tokens=m.number("in_len"),
        global_batch=m.number("global_batch"),
        microbatches=1.0,
        master_weight_bits=weights,
    )
    parts = {
        "chip": chip,
        "architecture": arch,
        "variant": _variant(m.text("compute_dtype"), m.text("kv_dtype"), weights),
        "deployment": deployment,
        "training": training,
    }
    return Case(m, "prefill", "training", parts, {}, tuple(assumed), (("metric", "forward"),))


def _serving(m: Measurement, chip: Chip, arch: Architecture) -> Case:
    assumed: list[str] = []
    shards = 1.0
    if m.attn_dp == m.tp == m.chips:  # the same chips hold the KV cache of different sequences
        shards, m = m.number("attn_dp"), dataclasses.replace(m, attn_dp=1.0)
    degrees = _in_chips(m, chip, "tp", "attn_dp", "dp", "fsdp", "pp", "cp")
    group = degrees["tp"] * degrees["attn_dp"]
    experts = m.number("ep") > 1
    workload = Workload(
        prompt_tokens=round(m.number("in_len")), output_tokens=round(m.number("out_len_std")) or 1
    )
    if m.length_dist == "dataset":
        raise MissingField("length_dist: the lengths of a dataset vary and are not stated")
    batch = _sequences(m)
    chunk = m.max_batched_tokens
    if chunk is None:
        chunk = workload.prompt_tokens
        if m.stack != "paper":
            assumed.append("max_batched_tokens")
    deployment = _placed(
        m,
        chip,
        assumed,
        tensor=1.0 if experts else group,
        expert=group if experts else 1.0,
        attention_data=degrees["attn_dp"],
        kv_batch_shards=shards,
        data=degrees["dp"],
        layout_2d=float(m.stack == "paper"),
        batch=batch,
        prefill_chunk_tokens=chunk,
    )
    compute = m.compute_dtype or m.text("weight_dtype")
    if not m.compute_dtype:
        assumed.append(f"compute_dtype {compute}")
    if m.kv_dtype == "":
        assumed.append("kv_dtype bf16")
    defaults = stack_defaults().get(m.stack, {})
    kind = {"prefill": "prefill", "decode": "decode"}.get(m.workload_kind, "serve")
    parts = {
        "chip": chip,
        "architecture": arch,
        "variant": _variant(
            compute, m.kv_dtype or "bf16", _bits("weight_dtype", m.text("weight_dtype"))
        ),
        "deployment": deployment,
        "workload": workload,
    }
    return Case(
        m,
        kind,
        "serving",
        parts,
        {"clients": m.concurrency or batch},
        tuple(assumed),
        (("metric", m.metric_std), ("kind", kind), ("mixed", bool(defaults.get("mixed_batches")))),
    )


def _sequences(m: Measurement) -> float:
    """Sequences that decode at a time, before the KV cache limits them."""
    known = [value for value in (m.concurrency, m.global_batch) if value is not None]
    if not known:
        raise MissingField("neither concurrency nor global_batch is stated")
    return min(known)
