"""HBM of one chip in training, and the traffic of what is kept and of the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_zero
from hwmodel.ops import Attention, HostTransfer, Matmul, Operator, Vector
from hwmodel.theta import Theta
from models.architecture import Architecture
from models.deployment import Deployment
from models.lowering.model import HEAD, stage_layer_share
from models.training.phase import TrainingPhase
from models.training.weights import Weights
from models.workload import Training

Number = Any


@dataclass(frozen=True, kw_only=True)
class Activations:
    """Bytes of the tensors of all layers of a stage for one microbatch, on one chip."""

    kept: Number
    all: Number
    layers: Number


def activations(
    arch: Architecture, d: Deployment, t: Training, phase: TrainingPhase, ops: Sequence[Operator]
) -> Activations:
    """Count the tensors of a stage from the operators that make them, in 16 bits.

    Tensors of hidden width are split over the chips that share a token (sequence parallelism);
    a layer's input is always kept.
    """
    made: dict[str, Number] = {"qkv": 0.0, "context": 0.0, "mlp_up": 0.0}
    for op in ops:
        if isinstance(op, Matmul) and op.makes in ("qkv", "mlp_up"):
            made[op.makes] = made[op.makes] + op.count * op.m * op.n * op.groups * 2
        elif isinstance(op, Attention) and op.makes == "context":
            made["context"] = made["context"] + (
                op.count * op.groups * op.rows * op.v_width * op.softmax * 2
            )
    layers = arch.layers * stage_layer_share(arch, d)
    stream = layers * phase.projection_tokens * arch.hidden * 2 / d.attention_tensor
    kept = (
        stream * (1 + t.save_out_proj + t.save_mlp_down)
        + made["qkv"] * t.save_qkv
        + made["context"] * t.save_context
        + made["mlp_up"] * t.save_mlp_up
    )
    return Activations(kept=kept, all=3 * stream + sum(made.values()), layers=layers)


def hbm_used_bytes(
    w: Weights,
    a: Activations,
    d: Deployment,
    t: Training,
    theta: Theta,
    logit_bytes: Number,
    weight_bits: Number,
) -> Number:
    """Bytes of HBM in use on the fullest chip.

    Master weights, moments and gradients; with a sharded optimizer the weights that all replicas
    hold beside it; the weights and gradients of two layers, gathered, or the output head; kept
    tensors of every microbatch in flight (one per stage, or all); working tensors of one layer.
    """
    sharded = w.parameters / jnp.where(t.optimizer_sharded > 0, d.data, 1.0)
    state = sharded * (t.master_weight_bits + t.moment_bits) / 8
    state = state + w.parameters * t.gradient_bits / 8
    state = state + jnp.where(t.optimizer_sharded > 0, w.parameters * weight_bits / 8, 0.0)
    stage_bytes = w.attention_bytes + w.other_bytes - w.head_bytes
    stage_elements = w.attention_elements + w.other_elements
    gathered = jnp.maximum(2 * stage_bytes / a.layers, w.head_bytes)
    gathered = gathered + stage_elements / a.layers * t.gradient_bits / 8
    spread = d.fsdp * d.context * d.attention_data > 1
    in_flight = jnp.minimum(d.pipeline, t.microbatches)
    kept = jnp.where(t.offload_saved > 0, 2 * a.kept / a.layers, a.kept * in_flight)
    working = a.all / a.layers * theta["training_layer_buffers"]
    return state + jnp.where(spread, gathered, 0.0) + kept + working + logit_bytes


def logit_bytes(ops: Sequence[Operator], theta: Theta) -> Number:
    """Logits of one tile of the loss: 16 bits and their 32-bit probabilities."""
    logits = sum(op.m * op.n for op in ops if isinstance(op, Matmul) and op.name == HEAD)
    return logits * 6 / theta["logit_chunks"]


def host_transfers(a: Activations, t: Training) -> list[Operator]:
    """Kept tensors out to host memory in the forward pass, back in the backward pass."""
    if is_zero(t.offload_saved):
        return []
    count = t.microbatches * t.offload_saved
    return [
        HostTransfer(name=name, count=count, payload_bytes=a.kept)
        for name in ("kept tensors to host", "kept tensors from host")
    ]


def optimizer(w: Weights, d: Deployment, t: Training, theta: Theta, weight_bits: Number) -> Vector:
    """Once a step: gradients are read (twice: their norm comes first), master weights and moments
    read and written, and the weights that the next step multiplies with written."""
    parameters = w.parameters / jnp.where(t.optimizer_sharded > 0, d.data, 1.0)
    bits = 2 * (t.master_weight_bits + t.moment_bits + t.gradient_bits) + weight_bits
    return Vector(
        name="optimizer update",
        count=1.0,
        vpu_ops=parameters * theta["optimizer_ops_per_parameter"],
        hbm_bytes=parameters * bits / 8,
    )
