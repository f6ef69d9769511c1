"""Weights of one chip in training: how many, how they are sharded, gathered and summed.

What `tensor`, `expert` and `pipeline` leave to a chip is split further over every axis on which
sequences or their tokens differ (fully sharded data parallelism): `fsdp` and `context`, and for
attention, which the `attention_data` groups hold a copy of each, that axis too. Weights are
gathered before use in the forward and again in the backward pass of each microbatch, gradients are
summed and scattered the other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_one, is_zero
from hwmodel.ops import Collective, Matmul, Operator
from hwmodel.rates import stored_bytes_per_weight
from models.architecture import Architecture
from models.deployment import Deployment
from models.lowering.model import HEAD, is_negative, small_parameters, stage_layer_share

Number = Any

ATTENTION = ("qkv", "context", "out_proj")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """Elements and bytes of one chip's weights, before (`*_elements`, `*_bytes`) and after
    (`parameters`) they are split over the axes of the sequences."""

    attention_elements: Number
    attention_bytes: Number
    other_elements: Number
    other_bytes: Number
    head_bytes: Number
    small_elements: Number  # norms, biases and embedding tables: no matmul of their own
    parameters: Number


def weight_elements(op: Matmul) -> Number:
    """Weights of one layer of a matmul on one chip, those of experts no token chose included."""
    return op.k * op.n * (op.groups if is_negative(op.resident_groups) else op.resident_groups)


def weight_shards(d: Deployment, op: Matmul) -> Number:
    """Chips over which the weights of `op` on one chip are split further."""
    shards = d.fsdp * d.context
    return shards * d.attention_data if op.makes in ATTENTION else shards


def weights_of(arch: Architecture, d: Deployment, ops: Sequence[Operator]) -> Weights:
    """Count the weights of a stage from the operators of its forward pass."""
    attention: Number = 0.0
    attention_bytes: Number = 0.0
    other: Number = 0.0
    other_bytes: Number = 0.0
    head_bytes: Number = 0.0
    for op in ops:
        if not isinstance(op, Matmul) or is_zero(op.weight_reads):
            continue
        elements = weight_elements(op) * (1.0 if op.name == HEAD else op.count)
        stored = elements * stored_bytes_per_weight(op.numerics)
        if op.makes in ATTENTION:
            attention, attention_bytes = attention + elements, attention_bytes + stored
        else:
            other, other_bytes = other + elements, other_bytes + stored
        if op.name == HEAD:
            head_bytes = stored
    share = stage_layer_share(arch, d)
    table = arch.vocab * arch.hidden * (1 - arch.tied_embeddings) + arch.embedding_extra_parameters
    small = small_parameters(arch) * share + table / d.model_parallel
    stored_once = other - arch.reused_parameters / d.model_parallel * share
    split = attention / d.attention_data + stored_once + small
    return Weights(
        attention_elements=attention,
        attention_bytes=attention_bytes,
        other_elements=other,
        other_bytes=other_bytes,
        head_bytes=head_bytes,
        small_elements=small,
        parameters=split / (d.fsdp * d.context),
    )


def gathers(w: Weights, d: Deployment, count: Number, when: str) -> list[Operator]:
    """All-gathers of all weights of the stage, `count` times: over `fsdp` first, which may leave
    the slice, over the inner axes last, where the arrays are largest."""
    split = w.attention_bytes / d.attention_data + w.other_bytes
    return _chain(d, f"weight all-gather ({when})", "all_gather", count, split, w.attention_bytes)


def gradient_scatters(w: Weights, d: Deployment, gradient_bits: Number, count: Number) -> list[Any]:
    """Reduce-scatters of all gradients of the stage, `count` times."""
    width = gradient_bits / 8
    attention = w.attention_elements * width
    split = attention / d.attention_data + (w.other_elements + w.small_elements) * width
    return _chain(d, "gradient reduce-scatter", "reduce_scatter", count, split, attention)


def _chain(
    d: Deployment, name: str, kind: Any, count: Number, split: Number, attention: Number
) -> list[Operator]:
    """One collective per axis. `split`: full arrays of a chip, of attention its own share."""
    payloads = {
        "fsdp": (d.fsdp, split / d.context),
        "context": (d.context, split),
        "attention_data": (d.attention_data, attention),
    }
    return [
        Collective(
            name=f"{name}, {axis}",
            count=count,
            kind=kind,
            axis=axis,
            payload_bytes=payload,
            hides="prefetch",
        )
        for axis, (size, payload) in payloads.items()
        if not is_one(size)
    ]


def replica_sums(
    w: Weights, d: Deployment, gradient_bits: Number, weight_bits: Number, sharded: Number
) -> list[Operator]:
    """Once a step, sum gradients over the replicas: an all-reduce, or with a sharded optimizer a
    reduce-scatter of gradients and an all-gather of updated weights."""
    if is_one(d.data):
        return []
    gradients = w.parameters * gradient_bits / 8
    weights = w.parameters * weight_bits / 8
    parts: tuple[tuple[str, Any, Number], ...] = (
        ("gradient reduce-scatter, data", "reduce_scatter", gradients),
        ("gradient or weight all-gather, data", "all_gather", _either(sharded, weights, gradients)),
    )
    return [
        Collective(
            name=name,
            count=1.0,
            kind=kind,
            axis="data",
            payload_bytes=payload,
            hides="gradient",
        )
        for name, kind, payload in parts
    ]


def _either(flag: Number, if_set: Number, otherwise: Number) -> Number:
    if isinstance(flag, int | float):
        return if_set if flag > 0 else otherwise
    return jnp.where(flag > 0, if_set, otherwise)
