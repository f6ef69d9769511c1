"""Choice of block shapes: every candidate is ranked by totals, the best few are played."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hwmodel.tilesim import candidates, kernels
from hwmodel.tilesim.pipeline import Array, Played, play

PLAYED = 6
"""Block shapes of each operator that are played step by step."""

Build = Callable[..., kernels.Kernel]


@dataclass(frozen=True)
class Chosen:
    """The best block shape of each of Q problems and its play; arrays [Q] except blocks [Q, dims].

    seconds, mxu_s, ... are of one execution of the operator, without its fixed cost. static_s is
    the part of the first transfer that can precede the operator's input (latency_s of it a latency,
    which does not occupy HBM), buffer_bytes what its
    buffers hold, part_s the time until the first part of the result is there.
    """

    seconds: Array
    mxu_s: Array
    vpu_s: Array
    hbm_s: Array
    hbm_bytes: Array
    prologue_s: Array
    static_s: Array
    latency_s: Array
    epilogue_s: Array
    steps: Array
    volume: Array
    buffer_bytes: Array
    budget_bytes: Array
    part_s: Array
    blocks: Array


def matmul(problems: Mapping[str, Array], shapes: Array | None = None) -> Chosen:
    """Blocks for [Q] matmuls; shapes [C, 5] replaces the candidates of `candidates.matmul_blocks`,
    and is then taken whether or not it fits on chip."""
    stated = shapes is not None
    table = candidates.matmul_blocks() if shapes is None else shapes
    p = _columns(problems)
    rows, depth, columns, together, by_rows = table.T
    blocks = (
        candidates.fit(p["m"], rows, 1 / p["rows_per_issue_inverse"]),
        candidates.fit(p["k"], depth, p["mxu_rows"]),
        candidates.fit(p["n"], columns, p["mxu_cols"]),
        np.broadcast_to(together, (len(p["m"]), len(table))),
        np.broadcast_to(by_rows, (len(p["m"]), len(table))),
    )
    return _choose(kernels.matmul, problems, blocks, stated)


def attention(problems: Mapping[str, Array]) -> Chosen:
    """Blocks for [Q] attention operators."""
    p = _columns(problems)
    rows, entries, together = candidates.attention_blocks().T
    blocks = (
        candidates.fit(p["rows"], rows, 1 / p["rows_per_issue_inverse"]),
        candidates.fit(p["length"] + p["masked_length"], entries, p["mxu_cols"]),
        np.broadcast_to(together, (len(p["rows"]), len(together))),
    )
    return _choose(kernels.attention, problems, blocks, False)


def stream(problems: Mapping[str, Array]) -> Chosen:
    """Number of parts for [Q] streaming operators."""
    parts = candidates.stream_blocks()
    shape = (len(problems["hbm_bytes"]), len(parts))
    return _choose(kernels.stream, problems, (np.broadcast_to(parts, shape),), False)


def _columns(problems: Mapping[str, Array]) -> dict[str, Array]:
    return {name: values[:, None] for name, values in problems.items()}


def _choose(
    build: Build, problems: Mapping[str, Array], blocks: tuple[Array, ...], stated: bool
) -> Chosen:
    """Rank all candidates [Q, C] of each problem, play the best, take the fastest."""
    kernel = build(_columns(problems), *blocks)
    bound = kernels.lower_bound_s(kernel)
    over = kernel.vmem_bytes / kernel.budget_bytes
    if not stated:
        # Where nothing fits, the smallest blocks stand in: legality says so elsewhere.
        bound = np.where(over <= 1, bound, np.inf)
        none = ~np.isfinite(bound).any(axis=1, keepdims=True)
        bound = np.where(none, over, bound)
    count = min(PLAYED, bound.shape[1])
    best = np.argpartition(bound, count - 1, axis=1)[:, :count]
    picked = tuple(np.take_along_axis(b, best, axis=1).reshape(-1) for b in blocks)
    flat = {name: np.repeat(values, count) for name, values in problems.items()}
    chosen = build(flat, *picked)
    played = play(chosen.pipeline)
    # Fewer than `count` may fit; `bound` is finite for those only.
    fits = np.isfinite(np.take_along_axis(bound, best, axis=1))
    seconds = np.where(fits, played.seconds.reshape(-1, count), np.inf)
    top = np.argmin(seconds, axis=1) + np.arange(len(seconds)) * count
    return _chosen(chosen, played, picked, top)


def _chosen(
    kernel: kernels.Kernel, played: Played, picked: tuple[Array, ...], top: Array
) -> Chosen:
    p, scale = kernel.pipeline, kernel.scale[top]
    outputs = p.groups * np.ceil(p.total[0] / p.block[0]) * np.ceil(p.total[1] / p.block[1])

    def of(name: str) -> Array:
        values: Array = getattr(played, name)[top]
        return values

    return Chosen(
        seconds=of("seconds") * scale,
        mxu_s=of("mxu_s") * scale,
        vpu_s=of("vpu_s") * scale,
        hbm_s=of("hbm_s") * scale,
        hbm_bytes=of("hbm_bytes") * scale,
        prologue_s=of("prologue_s") * scale,
        static_s=of("static_s") * scale,
        latency_s=np.minimum(p.dma_latency_s[top], of("static_s")) * scale,
        epilogue_s=of("epilogue_s") * scale,
        steps=of("steps") * scale,
        volume=of("volume") * scale,
        buffer_bytes=kernel.vmem_bytes[top],
        budget_bytes=(kernel.budget_bytes * np.ones_like(kernel.vmem_bytes))[top],
        part_s=of("seconds") * scale / np.maximum(outputs[top], 1.0),
        blocks=np.stack([b[top] for b in picked], axis=1),
    )
