"""The analytical rung: one candidate to its metrics, as one pure JAX function.

`evaluate` times one prefill and one decode step, combines them into steady-state serving with
chunked prefill, and adds energy, area, cost and quality. Batch scoring is `jit(vmap(evaluate))`,
gradients are `jax.grad` of it at fixed mapping, and the explanation is the operator table it
returns.

Serving, per deployment of B sequences, O output tokens, c prefill steps a prompt, p pipeline stages
and m sequences per microbatch of a request group: while every sequence completes one request, a
chip runs m p c prefill stage-steps and O p decode stage-steps, so

    cycle_s          = m p c prefill_stage_s + O p decode_stage_s
    tokens_per_s     = B O / cycle_s
    tpot_s           = (cycle_s - c prefill_stage_s) / O      (decode steps plus others' prefill)
    ttft_s           = (c + p - 1) prefill_stage_s + c p decode_stage_s   (a decode step a chunk)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel import area, cost, power
from hwmodel.chip import Chip
from hwmodel.collectives import Axis
from hwmodel.rows import hold, hold_fields
from hwmodel.step import StepTime, time_steps
from hwmodel.theta import Theta
from models import legality
from models.architecture import Architecture, kv_bytes_per_token
from models.deployment import Deployment, Grid, mesh_axes, slice_fabric, two_d_axes
from models.lowering import decode_phase, lower, prefill_phase
from models.lowering.model import (
    Lowered,
    activation_bytes_per_chip,
    hold_architecture,
    kv_bytes_per_sequence_per_chip,
    weight_bytes_per_chip,
)
from models.variants import Variant, apply, quality_loss_nats, twins
from models.workload import Workload

Number = Any


METRICS: tuple[str, ...] = (
    "tokens_per_s_per_chip",
    "tokens_per_s",
    "tokens_per_s_per_user",
    "tokens_per_s_per_watt",
    "ttft_s",
    "tpot_s",
    "decode_step_s",
    "prefill_step_s",
    "itl_max_s",
    "request_latency_s",
    "prefill_tokens_per_s_per_chip",
    "decode_tokens_per_s_per_chip",
    "mfu_prefill",
    "mfu_decode",
    "mbu_decode",
    "joules_per_token",
    "average_power_w",
    "usd_per_chip_hour",
    "usd_per_mtoken",
    "usd_per_mtoken_list",
    "quality_loss_nats",
    "die_area_mm2",
    "largest_die_mm2",
    "tdp_w",
    "chip_cost_usd",
    "chips",
    "hbm_bytes",
    "hbm_used_bytes",
    "weight_bytes_per_chip",
    "kv_bytes_per_token",
)
"""Names of the metrics of every candidate, in the order in which they are computed and stored."""


@dataclass(frozen=True)
class Point:
    """Everything known about one candidate at the analytical rung.

    `metrics` maps names to scalars; `violations` maps reason codes to value/limit - 1 (positive =
    illegal) or to booleans (true = illegal); the step times carry the operator tables.
    """

    metrics: dict[str, Number]
    violations: dict[str, Number]
    prefill: StepTime
    decode: StepTime


@dataclass(frozen=True)
class Placed:
    """One assignment laid out on its chips: all that comes before an operator is timed."""

    changed: Architecture  # with the variant's transforms
    axes: dict[str, Axis]
    grid: Grid
    prefill: Lowered
    decode: Lowered


def place(
    chip: Chip,
    arch: Architecture,
    variant: Variant,
    deployment: Deployment,
    workload: Workload,
    theta: Theta,
) -> Placed:
    """The mesh and the operators of one prefill and one decode step; arguments as `evaluate`."""
    d, w = deployment, workload
    changed = hold_architecture(apply(arch, variant))
    links = slice_fabric(chip, theta, d)
    axes = mesh_axes(links, d)
    grid = two_d_axes(links, d, axes["model"])
    axes |= grid.axes
    pre_phase, dec_phase = hold_fields(prefill_phase(d, w)), hold_fields(decode_phase(d, w))
    split = twins(arch)
    pre = lower(changed, variant, d, w, pre_phase, theta, grid.side, twins=split)
    dec = lower(changed, variant, d, w, dec_phase, theta, grid.side, pre.stage_weight_bytes, split)
    return Placed(changed, axes, grid, pre, dec)


def evaluate(
    chip: Chip,
    arch: Architecture,
    variant: Variant,
    deployment: Deployment,
    workload: Workload,
    theta: Theta,
    training_tokens: Number,
) -> Point:
    """Score one assignment: a model variant, deployed on chips, under a workload.

    All numbers may be scalars traced by JAX; run under `jax.enable_x64(True)`. `arch` is the
    released architecture, already expanded for the transforms the study uses.
    """
    placed = place(chip, arch, variant, deployment, workload, theta)
    steps = (placed.prefill.operators, placed.decode.operators)
    prefill, decode = time_steps(chip, theta, placed.axes, steps)
    return point(
        chip, arch, variant, deployment, workload, theta, training_tokens, placed, prefill, decode
    )


def point(
    chip: Chip,
    arch: Architecture,
    variant: Variant,
    deployment: Deployment,
    workload: Workload,
    theta: Theta,
    training_tokens: Number,
    placed: Placed,
    prefill: StepTime,
    decode: StepTime,
) -> Point:
    """Metrics and legality from the times of one prefill and one decode step, of whichever rung."""
    d, w = deployment, workload
    changed, axes, grid, pre = placed.changed, placed.axes, placed.grid, placed.prefill

    p = d.pipeline
    sequences = d.microbatch_per_group * p  # resident per request group
    chunks = pre.phase.steps
    prompt_s = chunks * prefill.seconds
    decode_step_s = p * decode.seconds
    cycle_s = sequences * prompt_s + w.output_tokens * decode_step_s
    tokens_per_s = d.batch * w.output_tokens / cycle_s
    shared = jnp.where(sequences > 1, 1.0, 0.0)
    ttft_s = (chunks + p - 1) * prefill.seconds + chunks * decode_step_s * shared
    tpot_s = (cycle_s - prompt_s) / w.output_tokens

    weights = weight_bytes_per_chip(changed, d, pre)
    kv = sequences * kv_bytes_per_sequence_per_chip(changed, variant, d, w)
    working = activation_bytes_per_chip(changed, pre.phase, theta)

    area_mm2, kv_per_token = hold(
        (area.die_area_mm2(chip, theta), kv_bytes_per_token(changed, variant.kv_bits))
    )
    tdp_w, chip_usd, static_w, cycle_s, weights, kv = hold(
        (
            power.tdp_w(chip, theta, area_mm2),
            cost.chip_cost_usd(chip, theta, area_mm2),
            power.static_power_w(chip, theta, area_mm2),
            cycle_s,
            weights,
            kv,
        )
    )
    quality, occupied = hold(
        (quality_loss_nats(arch, variant, training_tokens), d.occupied_chips * 1.0)
    )
    dynamic_j = sequences * chunks * prefill.energy_j + w.output_tokens * p * decode.energy_j
    # Per chip that the deployment holds, while every sequence completes one request.
    energy_j = dynamic_j * (d.chips / occupied) + static_w * cycle_s
    average_power_w = energy_j / cycle_s
    usd_per_hour, hbm_used = hold(
        (cost.usd_per_hour(chip, theta, average_power_w, area_mm2), weights + kv + working)
    )
    chip_hours_per_token = occupied / tokens_per_s / 3600
    new_tokens = w.prompt_tokens - w.cached_prefix_tokens
    groups = d.data * d.request_groups
    metrics = {
        "tokens_per_s_per_chip": tokens_per_s / occupied,
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_user": 1 / tpot_s,
        "tokens_per_s_per_watt": tokens_per_s / occupied / average_power_w,
        "ttft_s": ttft_s,
        "tpot_s": tpot_s,
        "decode_step_s": decode_step_s,
        "prefill_step_s": prefill.seconds,
        "itl_max_s": decode_step_s + prefill.seconds,
        "request_latency_s": ttft_s + w.output_tokens * tpot_s,
        "prefill_tokens_per_s_per_chip": groups * new_tokens / prompt_s / occupied,
        "decode_tokens_per_s_per_chip": d.batch / decode_step_s / occupied,
        "mfu_prefill": prefill.flops / prefill.seconds / chip.peak_bf16_flops,
        "mfu_decode": decode.flops / decode.seconds / chip.peak_bf16_flops,
        "mbu_decode": decode.hbm_bytes / decode.seconds / chip.hbm_bandwidth_bytes_per_s,
        "joules_per_token": energy_j * occupied / (d.batch * w.output_tokens),
        "average_power_w": average_power_w,
        "usd_per_chip_hour": usd_per_hour,
        "usd_per_mtoken": usd_per_hour * chip_hours_per_token * 1e6,
        "usd_per_mtoken_list": chip.list_price_usd_per_hour * chip_hours_per_token * 1e6,
        "quality_loss_nats": quality,
        "die_area_mm2": area_mm2,
        "largest_die_mm2": area_mm2 / chip.compute_dies,
        "tdp_w": tdp_w,
        "chip_cost_usd": chip_usd,
        "chips": occupied,
        "hbm_bytes": chip.hbm_bytes,
        "hbm_used_bytes": hbm_used,
        "weight_bytes_per_chip": weights,
        "kv_bytes_per_token": kv_per_token,
    }
    violations = legality.violations(
        chip, arch, changed, variant, d, w, theta, axes, grid, hbm_used, quality
    )
    return Point(metrics, violations, prefill, decode)
