"""Deployment: how a model is spread over chips, and which spreads are legal.

A replica has tensor × expert × pipeline × context × fsdp chips; `data` replicas serve independent
requests. Feed-forward weights are split over tensor × expert chips; attention is split over
`attention_tensor` of them and replicated over the other `attention_data`, each with its own
requests (the layout of MLA and few-KV-head models: attention data-parallel, experts
expert-parallel). Where attention is split over more chips than there are KV heads, decode may split
the sequences over the `kv_batch_shards` chips that would hold copies of a head's cache (Pope et al.
2022, 2211.05102, batch-sharded attention). `fsdp` splits weights and requests, and gathers weights
layer by layer. `context` splits the tokens of a sequence (prefill) and its KV cache (decode).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.chip import Chip
from hwmodel.collectives import Axis, Fabric, fabric, lay_out
from hwmodel.literal import is_one, is_zero
from hwmodel.rows import hold
from hwmodel.theta import Theta
from hwmodel.whole import ceil_div, round_up

Number = Any

ORDERED_AXES = ("tensor", "expert", "context", "fsdp")
"""Mesh axes whose order on the torus is searched; pipeline and data always come outermost."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Degrees, layout and batching of one deployment. `batch` counts the concurrent sequences of
    all replicas; `prefill_chunk_tokens` are the prompt tokens processed per prefill step."""

    data: Number = 1.0
    fsdp: Number = 1.0
    tensor: Number = 1.0
    expert: Number = 1.0
    pipeline: Number = 1.0
    context: Number = 1.0
    attention_data: Number = 1.0
    kv_batch_shards: Number = 1.0
    layout_2d: Number = 0.0
    tensor_rank: Number = 0.0
    expert_rank: Number = 1.0
    context_rank: Number = 2.0
    fsdp_rank: Number = 3.0
    torus_x: Number = 1.0
    torus_y: Number = 1.0
    torus_z: Number = 1.0
    batch: Number = 1.0
    prefill_chunk_tokens: Number = 2048.0

    @property
    def model_parallel(self) -> Number:
        """Chips that share one copy of a feed-forward block."""
        return self.tensor * self.expert

    @property
    def attention_tensor(self) -> Number:
        """Chips that share one attention layer of one request."""
        return self.model_parallel / self.attention_data

    @property
    def replica_chips(self) -> Number:
        """Chips of one replica."""
        return self.model_parallel * self.pipeline * self.context * self.fsdp

    @property
    def chips(self) -> Number:
        """Chips of the whole deployment."""
        return self.replica_chips * self.data

    @property
    def slice_chips(self) -> Number:
        """Chips of one slice, the torus."""
        return self.torus_x * self.torus_y * self.torus_z

    @property
    def occupied_chips(self) -> Number:
        """Chips of all slices that the deployment holds; those it leaves idle are paid for too."""
        return round_up(self.chips, self.slice_chips)

    @property
    def request_groups(self) -> Number:
        """Groups of chips in one pipeline stage of one replica that hold different requests."""
        return self.fsdp * self.attention_data

    @property
    def microbatch_per_group(self) -> Number:
        """Sequences that one request group decodes at a time (the batch, dealt over all groups)."""
        return ceil_div(self.batch, self.data * self.pipeline * self.request_groups)


def slice_fabric(chip: Chip, theta: Theta, d: Deployment) -> Fabric:
    """The network of one slice of the deployment's torus."""
    return fabric(chip, theta, (d.torus_x, d.torus_y, d.torus_z))


def mesh_axes(f: Fabric, d: Deployment, replicas_talk: bool = False) -> dict[str, Axis]:
    """Lay all mesh axes out on the torus: one `Axis` per logical axis.

    `model` is tensor and expert together, `attention` and `attention_data` its inner and outer
    part. Replicas that talk (training) get a `data` axis, the outermost.
    """
    size = {"tensor": d.tensor, "expert": d.expert, "context": d.context, "fsdp": d.fsdp}
    rank = {
        "tensor": d.tensor_rank,
        "expert": d.expert_rank,
        "context": d.context_rank,
        "fsdp": d.fsdp_rank,
    }
    start: dict[str, Number] = {}
    for name in ORDERED_AXES:
        stride: Number = 1.0
        for other in ORDERED_AXES:
            if other != name:
                if not is_one(size[other]):
                    stride = stride * jnp.where(rank[other] < rank[name], size[other], 1.0)
        start[name] = stride
    # An axis of one chip lies nowhere: the other one alone says where the model axis begins.
    inner = jnp.where(
        d.tensor == 1,
        start["expert"],
        jnp.where(d.expert == 1, start["tensor"], jnp.minimum(start["tensor"], start["expert"])),
    )
    stage = d.model_parallel * d.context * d.fsdp
    places = {name: (start[name], size[name]) for name in ORDERED_AXES} | {
        "attention": (inner, d.attention_tensor),
        "attention_data": (inner * d.attention_tensor, d.attention_data),
        "pipeline": (stage, d.pipeline),
    }
    if replicas_talk:
        places |= {"data": (stage * d.pipeline, d.data)}
    if is_one(d.expert):
        laid = lay_out(f, places)
        return laid | {"model": laid["tensor"]}
    return lay_out(f, places | {"model": (inner, d.model_parallel)})


@dataclass(frozen=True)
class Grid:
    """The 2-D weight-stationary grid: `side` shards of the hidden dimension, and its two axes."""

    side: Number
    axes: dict[str, Axis]
    exists: Number  # True where the model axis spans two torus dimensions


def two_d_axes(f: Fabric, d: Deployment, model: Axis) -> Grid:
    """Split the model axis at its first torus dimension into the two sides of a 2-D layout."""
    if is_zero(d.layout_2d):
        return Grid(side=1.0, axes={}, exists=True)
    first = jnp.floor(jnp.where(model.factor_x > 1, model.factor_x, model.factor_y) + 0.5)
    # A second dimension holds at least two: compare with room, 1 / (1 / 49) is more than 49.
    exists = (first > 1) & (model.per_ici * first < 0.75)
    side = jnp.where((d.layout_2d > 0) & exists, first, 1.0)
    places = {
        "model_x": (model.start, side),
        "model_y": (model.start * side, d.model_parallel / side),
    }
    side, _ = hold((side, jnp.where(exists, 1.0, 0.0)))
    return Grid(side=side, axes=lay_out(f, places), exists=exists)
