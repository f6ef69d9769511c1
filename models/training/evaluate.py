"""One training candidate to its metrics, as one pure JAX function.

A pipeline stage of p runs M microbatches forward and backward, then updates its weights:

    busy_s = M · (forward + recomputation + backward) + update
    step_s = (busy_s + (p - 1) · one microbatch) · (1 + f · log2(slices))

The second term is the pipeline's bubble, the last factor the wait for the slowest slice. Energy,
area, cost and quality are those of serving.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel import area, cost, power
from hwmodel.chip import Chip
from hwmodel.ops import Operator
from hwmodel.rows import hold, hold_fields
from hwmodel.step import OperatorTime, StepTime, time_steps
from hwmodel.theta import Theta
from models.architecture import Architecture
from models.deployment import Deployment, mesh_axes, slice_fabric, two_d_axes
from models.legality import shared_violations
from models.lowering import lower
from models.lowering.model import hold_architecture
from models.training.backward import passes
from models.training.flops import flops_per_token
from models.training.legality import batch_violations
from models.training.memory import (
    activations,
    hbm_used_bytes,
    host_transfers,
    logit_bytes,
    optimizer,
)
from models.training.phase import microbatch_phase
from models.training.weights import gathers, gradient_scatters, replica_sums, weights_of
from models.variants import Variant, apply, quality_loss_nats, twins
from models.workload import Training, Workload

Number = Any

TRAINING_METRICS: tuple[str, ...] = (
    "train_step_s",
    "forward_step_s",
    "train_tokens_per_s_per_chip",
    "train_tokens_per_s",
    "train_tokens_per_s_per_watt",
    "mfu_train",
    "hfu_train",
    "train_joules_per_token",
    "average_power_w",
    "usd_per_chip_hour",
    "train_usd_per_mtoken",
    "train_usd_per_mtoken_list",
    "quality_loss_nats",
    "die_area_mm2",
    "largest_die_mm2",
    "tdp_w",
    "chip_cost_usd",
    "chips",
    "hbm_bytes",
    "hbm_used_bytes",
    "kept_bytes_per_chip",
    "parameters_per_chip",
)
"""Names of the metrics of every training candidate, in the order in which they are stored."""


@dataclass(frozen=True)
class TrainingPoint:
    """Everything known about one training candidate at the analytical rung.

    `metrics` and `violations` as in `models.performance.Point`; `step` is one optimizer step of one
    chip, `forward` a forward-only pass over the same global batch.
    """

    metrics: dict[str, Number]
    violations: dict[str, Number]
    step: StepTime
    forward: StepTime


def evaluate_training(
    chip: Chip,
    arch: Architecture,
    variant: Variant,
    deployment: Deployment,
    training: Training,
    theta: Theta,
    training_tokens: Number,
) -> TrainingPoint:
    """Score one training step: a model variant, deployed on chips. `deployment.batch` is unused.

    All numbers may be scalars traced by JAX; run under `jax.enable_x64(True)`. `arch` is the
    released architecture, already expanded for the transforms the study uses. The variant's
    precision fields are those of the matmuls (all three products of each), with attention and the
    output head in bf16.
    """
    d, t = deployment, training
    changed = hold_architecture(apply(arch, variant))
    links = slice_fabric(chip, theta, d)
    axes = mesh_axes(links, d, replicas_talk=True)
    grid = two_d_axes(links, d, axes["model"])
    axes |= grid.axes
    phase = hold_fields(microbatch_phase(d, t))
    micro = _microbatch(arch, changed, variant, d, t, phase, theta, grid.side)
    work = passes(micro, d, t, theta)
    weights = hold_fields(weights_of(changed, d, micro))
    tensors = hold_fields(activations(changed, d, t, phase, micro))

    m = t.microbatches
    forward_ops = [*work.forward, *gathers(weights, d, m, "forward")]
    per_microbatch = [
        *forward_ops,
        *work.backward,
        *gathers(weights, d, m, "backward"),
        *gradient_scatters(weights, d, t.gradient_bits, m),
        *host_transfers(tensors, t),
    ]
    once = [
        optimizer(weights, d, t, theta, variant.weight_bits),
        *replica_sums(weights, d, t.gradient_bits, variant.weight_bits, t.optimizer_sharded),
    ]
    busy, ahead = time_steps(chip, theta, axes, ([*per_microbatch, *once], forward_ops))
    step = _whole_step(busy, d, t, theta, once)
    forward = _whole_step(ahead, d, t, theta, ())

    used = hbm_used_bytes(
        weights, tensors, d, t, theta, logit_bytes(micro, theta), variant.weight_bits
    )
    area_mm2, used, quality, occupied, step_s = hold(
        (
            area.die_area_mm2(chip, theta),
            used,
            quality_loss_nats(arch, variant, training_tokens),
            d.occupied_chips * 1.0,
            step.seconds,
        )
    )
    energy_j = step.energy_j * (d.chips / occupied)
    average_power_w = energy_j / step_s + power.static_power_w(chip, theta, area_mm2)
    usd_per_hour = cost.usd_per_hour(chip, theta, average_power_w, area_mm2)
    tokens = t.global_batch * t.sequence_tokens
    tokens_per_s = tokens / step_s
    chip_hours_per_token = occupied / tokens_per_s / 3600
    peak = chip.peak_bf16_flops * occupied
    needed = flops_per_token(changed, t.sequence_tokens, t.causal) * tokens_per_s
    metrics = {
        "train_step_s": step_s,
        "forward_step_s": forward.seconds,
        "train_tokens_per_s_per_chip": tokens_per_s / occupied,
        "train_tokens_per_s": tokens_per_s,
        "train_tokens_per_s_per_watt": tokens_per_s / occupied / average_power_w,
        "mfu_train": needed / peak,
        "hfu_train": step.flops * d.chips / step_s / peak,
        "train_joules_per_token": average_power_w * occupied / tokens_per_s,
        "average_power_w": average_power_w,
        "usd_per_chip_hour": usd_per_hour,
        "train_usd_per_mtoken": usd_per_hour * chip_hours_per_token * 1e6,
        "train_usd_per_mtoken_list": chip.list_price_usd_per_hour * chip_hours_per_token * 1e6,
        "quality_loss_nats": quality,
        "die_area_mm2": area_mm2,
        "largest_die_mm2": area_mm2 / chip.compute_dies,
        "tdp_w": power.tdp_w(chip, theta, area_mm2),
        "chip_cost_usd": cost.chip_cost_usd(chip, theta, area_mm2),
        "chips": occupied,
        "hbm_bytes": chip.hbm_bytes,
        "hbm_used_bytes": used,
        "kept_bytes_per_chip": tensors.kept,
        "parameters_per_chip": weights.parameters,
    }
    own = {k: jnp.asarray(v) for k, v in batch_violations(d, t).items()}
    shared = shared_violations(chip, arch, changed, variant, d, theta, axes, grid, used, quality)
    return TrainingPoint(metrics, own | shared, step, forward)


def _microbatch(
    released: Architecture,
    arch: Architecture,
    variant: Variant,
    d: Deployment,
    t: Training,
    phase: Any,
    theta: Theta,
    side: Number,
) -> tuple[Operator, ...]:
    """Forward operators of one microbatch of one stage, without the gathers of `fsdp`."""
    requests = Workload(
        prompt_tokens=t.sequence_tokens,
        output_tokens=0.0,
        expert_imbalance=t.expert_imbalance,
        expert_capacity=t.expert_capacity,
    )
    return lower(
        arch,
        dataclasses.replace(variant, kv_bits=16.0),
        dataclasses.replace(d, fsdp=1.0),
        requests,
        phase,
        theta,
        side,
        stage_weight_bytes=0.0,
        twins=twins(released),
    ).operators


def _whole_step(
    busy: StepTime, d: Deployment, t: Training, theta: Theta, once: Sequence[Operator]
) -> StepTime:
    """Add the pipeline's bubble and the wait for the slowest slice to a stage's own work."""
    names = {op.name for op in once}
    repeated = sum(op.time_s for op in busy.operators if op.name not in names)
    bubble = repeated * (d.pipeline - 1) / t.microbatches
    doublings = jnp.log2(d.occupied_chips / d.slice_chips)
    working = busy.seconds + bubble
    waiting = working * theta["straggler_fraction_per_doubling"] * doublings
    waits = tuple(
        OperatorTime(name=name, kind="wait", count=1.0, fixed_s=seconds, time_s=seconds)
        for name, seconds in (("pipeline bubble", bubble), ("wait for other slices", waiting))
    )
    return dataclasses.replace(busy, seconds=working + waiting, operators=busy.operators + waits)
