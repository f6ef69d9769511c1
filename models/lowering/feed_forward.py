"""Feed-forward blocks to operators: dense (1-D or 2-D weight-stationary) and mixture of experts."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_zero
from hwmodel.ops import DENSE_BF16, Collective, Matmul, Operator, Vector
from hwmodel.whole import ceil_div
from models.architecture import DenseFFN, FeedForward, MoE
from models.lowering.mixers import Shared, residual_ops
from models.workload import Workload

Number = Any


def lower_feed_forward(
    s: Shared, block: FeedForward, w: Workload, side: Number, suffix: str
) -> list[Operator]:
    """Operators of all layers of `block` in one pipeline stage, on one chip.

    `side` is the number of shards of the hidden dimension in the 2-D layout (1 in the 1-D layout).
    Mixture-of-experts blocks keep the 1-D layout: their experts hold whole rows, so that every chip
    needs the whole hidden dimension of its tokens.
    """
    if isinstance(block, DenseFFN):
        return _dense(s, block, side, suffix)
    return _experts(s, block, w, 1.0, suffix)


def _dense(s: Shared, f: DenseFFN, side: Number, suffix: str) -> list[Operator]:
    count = f.layers * s.layer_share
    width = ceil_div(f.width, s.deployment.model_parallel)
    return [
        *_two_matmuls(s, f"feed-forward{suffix}", count, width, f.gated, side),
        *_reduce(s, count, f.gated * f.width, f.width, side, suffix, gather=1.0),
    ]


def _two_matmuls(
    s: Shared, name: str, count: Number, width: Number, gated: Number, side: Number
) -> list[Operator]:
    """Up (and gate) and down projections of a block of which one chip holds `width` columns.

    The 2-D layout gives a chip hidden / side rows and width · side columns: the same weights.
    """
    tokens = s.phase.ffn_tokens
    hidden = ceil_div(s.hidden, side)
    columns = width * side
    return [
        Matmul(
            name=f"{name} up",
            makes="mlp_up",
            count=count,
            m=tokens,
            k=hidden,
            n=(1 + gated) * columns,
            numerics=s.numerics,
            vpu_ops=tokens * s.hidden * s.theta["norm_ops_per_element"]
            + tokens * columns * s.theta["activation_ops_per_element"],
        ),
        Matmul(
            name=f"{name} down",
            makes="mlp_down",
            count=count,
            m=tokens,
            k=columns,
            n=hidden,
            numerics=s.numerics,
            vpu_ops=residual_ops(s, tokens, hidden),
        ),
    ]


def _reduce(
    s: Shared,
    count: Number,
    gate_width: Number,
    width: Number,
    side: Number,
    suffix: str,
    gather: Number,
) -> list[Operator]:
    """Communication around a block split over the `model` axis.

    1-D: gather the tokens of all request groups, then sum partial outputs (an all-reduce, written
    as reduce-scatter over `model` and all-gather over `attention`, since each chip only needs its
    own group's tokens). 2-D (Pope et al. 2022, 2211.05102, weight-stationary 2-D): activations are
    gathered and scattered over one side of the grid at a time.
    """
    d = s.deployment
    tokens_bytes = s.phase.ffn_tokens * s.hidden * 2
    two_d = side > 1
    flat = jnp.where(two_d, 0.0, 1.0) * gather
    ops: list[Operator] = [
        Collective(
            name=f"token all-gather{suffix}",
            makes="mlp_up",
            count=count,
            kind="all_gather",
            axis="attention_data",
            payload_bytes=tokens_bytes * gather,
        ),
        Collective(
            name=f"feed-forward reduce-scatter{suffix}",
            makes="mlp_down",
            count=count * flat,
            kind="reduce_scatter",
            axis="model",
            payload_bytes=tokens_bytes,
        ),
        Collective(
            name=f"feed-forward all-gather{suffix}",
            makes="mlp_down",
            count=count * flat,
            kind="all_gather",
            axis="attention",
            payload_bytes=tokens_bytes / d.attention_data,
        ),
    ]
    if is_zero(d.layout_2d) or is_zero(side - 1):
        return ops
    grid = jnp.where(two_d, 1.0, 0.0) * count
    width_bytes = s.phase.ffn_tokens * 2 * ceil_div(width, d.model_parallel) * side
    gate_share = 1 + gate_width / jnp.maximum(width, 1.0)
    return [
        *ops,
        Collective(
            name=f"2-D hidden gather and scatter{suffix}",
            makes="mlp_up",
            count=grid,
            kind="all_reduce",
            axis="model_y",
            payload_bytes=tokens_bytes / side,
        ),
        Collective(
            name=f"2-D width reduce-scatter{suffix}",
            makes="mlp_up",
            count=grid,
            kind="reduce_scatter",
            axis="model_x",
            payload_bytes=width_bytes * gate_share,
        ),
        Collective(
            name=f"2-D width all-gather{suffix}",
            makes="mlp_down",
            count=grid,
            kind="all_gather",
            axis="model_x",
            payload_bytes=width_bytes,
        ),
    ]


def hit_share(block: MoE, tokens: Number) -> Number:
    """Expected share of experts that at least one of `tokens` tokens is routed to.

    1 - (1 - k / E)^T for independent, uniform routing of T tokens to k of E experts.
    """
    miss = jnp.log1p(-jnp.minimum(block.top_k / block.experts, 1 - 1e-12))
    return -jnp.expm1(tokens * miss)


def _experts(s: Shared, f: MoE, w: Workload, side: Number, suffix: str) -> list[Operator]:
    p, d = s.phase, s.deployment
    count = f.layers * s.layer_share
    hidden_in = s.hidden if is_zero(f.latent_dim) else f.latent_dim
    width = ceil_div(f.expert_width, d.tensor)
    experts = ceil_div(f.experts, d.expert)
    hit = hit_share(f, p.ffn_tokens)
    load = w.expert_imbalance
    ragged: Number = 1.0
    if not is_zero(w.expert_capacity):
        load = jnp.where(w.expert_capacity > 0, w.expert_capacity, load)
        ragged = jnp.where(w.expert_capacity > 0, 0.0, 1.0)
    rows = p.ffn_tokens * f.top_k * load / (f.experts * hit)
    groups = experts * hit
    routing = p.ffn_tokens * f.experts * s.theta["router_ops_per_score"]
    combine = p.ffn_tokens * f.top_k / d.expert * hidden_in * s.theta["residual_ops_per_element"]
    ops: list[Operator] = [
        Matmul(
            name=f"router{suffix}",
            makes="mlp_up",
            count=count,
            m=p.ffn_tokens,
            k=s.hidden,
            n=f.experts,
            numerics=DENSE_BF16,
            vpu_ops=routing,
        ),
        Matmul(
            name=f"experts up{suffix}",
            makes="mlp_up",
            count=count,
            m=rows,
            k=hidden_in,
            n=(1 + f.gated) * width,
            groups=groups,
            numerics=s.numerics,
            vpu_ops=p.ffn_tokens * s.hidden * s.theta["norm_ops_per_element"]
            + rows * groups * width * s.theta["activation_ops_per_element"],
            resident_groups=experts,
            ragged=ragged,
        ),
        Matmul(
            name=f"experts down{suffix}",
            makes="mlp_down",
            count=count,
            m=rows,
            k=width,
            n=hidden_in,
            groups=groups,
            numerics=s.numerics,
            vpu_ops=combine,
            resident_groups=experts,
            ragged=ragged,
        ),
    ]
    routed_bytes = p.ffn_tokens * f.top_k / d.expert * hidden_in * 2
    ops.append(
        Vector(
            name=f"expert dispatch and combine{suffix}",
            makes="mlp_up",
            count=count,
            vpu_ops=0.0,
            hbm_bytes=routed_bytes * s.theta["moe_permute_passes"],
        )
    )
    if not is_zero(f.shared_width):
        shared = ceil_div(f.shared_width, d.model_parallel)
        ops += _two_matmuls(s, f"shared expert{suffix}", count, shared, f.gated, side)
    if not is_zero(f.latent_dim):
        ops.append(
            Matmul(
                name=f"latent projections{suffix}",
                makes="mlp_up",
                count=2 * count,
                m=p.ffn_tokens,
                k=s.hidden,
                n=ceil_div(f.latent_dim, d.model_parallel),
                numerics=s.numerics,
            )
        )
    return ops + _expert_communication(s, f, count, hidden_in, side, suffix)


def _expert_communication(
    s: Shared, f: MoE, count: Number, hidden_in: Number, side: Number, suffix: str
) -> list[Operator]:
    """Token exchange of expert parallelism: all-to-all, or gather and sum, whichever moves less.

    All-to-all needs tokens that differ over the expert axis (attention data-parallel over it); each
    token goes to at most min(k, expert) shards. Otherwise every shard already sees all tokens or
    gathers them, and partial outputs are summed as in a dense block.
    """
    p, d = s.phase, s.deployment
    own_tokens = p.ffn_tokens / d.attention_data
    sent = own_tokens * jnp.minimum(f.top_k, d.expert) * hidden_in * 2
    gathered = p.ffn_tokens * s.hidden * 2
    exchange: Number = jnp.where(
        (d.attention_data >= d.expert) & (d.expert > 1) & (sent < gathered), 1.0, 0.0
    )
    if is_zero(d.expert - 1):
        exchange = 0.0
    ops = _reduce(s, count, 0.0, f.shared_width, side, suffix, gather=1.0 - exchange)
    if is_zero(exchange):
        return ops
    return [
        *ops,
        Collective(
            name=f"expert all-to-all{suffix}",
            makes="mlp_up",
            count=2 * count * exchange,
            kind="all_to_all",
            axis="expert",
            payload_bytes=sent,
        ),
        Collective(
            name=f"expert tensor all-reduce{suffix}",
            makes="mlp_down",
            count=count * exchange,
            kind="all_reduce",
            axis="tensor",
            payload_bytes=own_tokens * s.hidden * 2,
        ),
    ]
