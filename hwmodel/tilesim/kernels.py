"""Matmul, attention and streaming kernels as pipelines: what a block moves, computes and occupies.

A kernel reads [Q] problems (dicts of arrays) and one block shape for each, and describes the grid
for `pipeline.play`. Matrix-unit time of one block: a pass streams the block's rows through one
latched [K, N] tile and takes max(issue, latch) cycles; passes are dealt to all units, at least one
each; the first latch and the array's fill are exposed in every block (openxla/xla `cost_model.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hwmodel.tilesim.pipeline import Array, Operand, Pipeline, blocks

Problem = Mapping[str, Array]

OUTPUT_BYTES = 2.0
ACCUMULATOR_BYTES = 4.0
WIDENED_BYTES = 2.0
PROBABILITY_BYTES = 6.0  # an f32 score and the bf16 probability made of it


@dataclass(frozen=True)
class Kernel:
    """A described kernel: its grid, the on-chip bytes that its blocks need, and its budget [Q].
    scale: groups below one, of which the grid plays one whole. vmem_bytes: with all buffers."""

    pipeline: Pipeline
    vmem_bytes: Array
    budget_bytes: Array
    scale: Array


def ceil_times(a: Array, inverse: Array) -> Array:
    """As `hwmodel.whole.ceil_times`, on NumPy arrays."""
    return np.floor(a * inverse + (1 - 0.5 * inverse))


def _expand(values: Array, like: Array) -> Array:
    return values.reshape(values.shape + (1,) * (np.ndim(like) - values.ndim))


def kept_on_chip(p: Problem, activations: Array) -> tuple[Array, Array]:
    """Share of an operator's activations that go through HBM, and bytes that stay on chip.

    As in the analytical rung, part of on-chip memory keeps activations between operators.
    """
    kept = np.minimum(activations, p["resident_bytes"])
    return 1 - kept / np.maximum(activations, 1e-300), kept


def matmul(
    p: Problem, rows: Array, depth: Array, columns: Array, together: Array, by_rows: Array
) -> Kernel:
    """`groups` products [m, k] @ [k, n] in blocks [rows, depth] @ [depth, columns], with `together`
    groups in one step. by_rows: 1 where block rows are the outermost loop, else block columns."""
    groups = np.maximum(p["groups"], 1.0)
    together = np.minimum(together, groups)
    through, kept = kept_on_chip(
        p,
        p["m"] * p["groups"] * (p["k"] * p["activation_bytes"] + p["n"] * OUTPUT_BYTES),
    )
    row_major = by_rows > 0
    one, zero = np.ones_like(rows), np.zeros_like(rows)
    a_bytes = p["activation_bytes"] * through * together
    b_bytes = p["stored_bytes_per_weight"] * p["weight_reads"] * together
    extra = p["extra_hbm_bytes"] / (p["groups"] * p["m"] * p["n"])
    c_bytes = (OUTPUT_BYTES * through + extra) * together
    widening = p["vpu_ops_per_weight"] * p["weight_reads"]
    work = p["vpu_ops"] / (p["groups"] * p["m"] * p["k"] * p["n"])
    s_per_cycle = p["mxu_s_per_cycle"] * (1 + p["ragged"] * p["ragged_slowdown"])

    def compute(outer: Array, middle: Array, inner: Array, fresh: Array) -> tuple[Array, Array]:
        def wide(values: Array) -> Array:
            return _expand(values, outer)

        r = np.where(wide(row_major), outer, middle)
        c = np.where(wide(row_major), middle, outer)
        each = np.maximum(
            ceil_times(r, wide(p["rows_per_issue_inverse"])) * wide(p["cycles_per_issue"]),
            wide(p["latch_cycles"]),
        )
        passes = ceil_times(inner, wide(1 / p["mxu_rows"]))
        passes = passes * ceil_times(c, wide(1 / p["mxu_cols"])) * wide(together / p["mxu_units"])
        cycles = np.maximum(passes, 1.0) * each * wide(p["nm_speedup_inverse"])
        mxu_s = cycles * wide(s_per_cycle) + wide(p["ramp_s"])
        ops = r * c * inner * wide(work) + fresh * (c * inner * wide(widening))
        return mxu_s, ops * wide(together * p["vpu_s_per_op"])

    held = 2 * (rows * depth * a_bytes + depth * columns * b_bytes + rows * columns * c_bytes)
    held = held + rows * columns * together * ACCUMULATOR_BYTES
    held = held + np.where(widening > 0, depth * columns * together * WIDENED_BYTES, 0.0)
    pipeline = Pipeline(
        total=(
            np.where(row_major, p["m"], p["n"]),
            np.where(row_major, p["n"], p["m"]),
            p["k"] * one,
        ),
        block=(np.where(row_major, rows, columns), np.where(row_major, columns, rows), depth),
        groups=groups / together,
        streamed=Operand(a_bytes, outer=by_rows, middle=1 - by_rows, inner=one),
        stationary=Operand(b_bytes, outer=1 - by_rows, middle=by_rows, inner=one),
        output=Operand(c_bytes, outer=one, middle=one, inner=zero),
        compute=compute,
        **_rates(p, one),
    )
    budget = p["on_chip_bytes"] - kept
    return Kernel(pipeline, held, budget, np.minimum(p["groups"], 1.0) * one)


def attention(p: Problem, rows: Array, entries: Array, together: Array) -> Kernel:
    """Flash attention: blocks of `rows` queries visit blocks of `entries` of the cache, `together`
    groups in one step. On the matrix units the cache is latched and queries stream, or the other
    way round, whichever takes less; softmax runs on the VPU. Scores for the mask to hide are played
    like the others; the cache's bytes are spread over all. As `hwmodel.operator_time.attention`."""
    groups = np.maximum(p["groups"], 1.0)
    together = np.minimum(together, groups)
    one, zero = np.ones_like(rows), np.zeros_like(rows)
    soft = p["softmax"]
    through, kept = kept_on_chip(
        p, p["rows"] * p["groups"] * (p["qk_width"] + soft * p["v_width"]) * OUTPUT_BYTES
    )
    q_bytes = p["qk_width"] * p["activation_bytes"] * through * together
    length = p["length"] + p["masked_length"]
    slowdown = 1 + p["paged"] * p["paged_compute_slowdown"]
    entry_bytes = p["kv_bytes"] / length * together
    extra = p["extra_hbm_bytes"] / (p["groups"] * p["rows"])
    out_bytes = (soft * p["v_width"] * OUTPUT_BYTES * through + extra) * together
    per_score = p["softmax_ops_per_score"] * soft + (1 - soft)
    widening = p["kv_elements_converted"] / length * p["dequant_ops_per_weight"]
    s_per_cycle = p["mxu_s_per_cycle"] * (slowdown * p["kernel_speedup"])
    units = together / p["mxu_units"]

    def compute(outer: Array, middle: Array, inner: Array, fresh: Array) -> tuple[Array, Array]:
        def wide(values: Array) -> Array:
            return _expand(values, outer)

        def issue(streamed: Array) -> Array:
            issues = ceil_times(streamed, wide(p["rows_per_issue_inverse"]))
            return issues * wide(p["cycles_per_issue"])

        by_row, by_col = wide(1 / p["mxu_rows"]), wide(1 / p["mxu_cols"])
        latch = wide(p["latch_cycles"])
        deep, wide_out = ceil_times(wide(p["qk_width"]), by_row), wide(soft)
        scores = deep * ceil_times(inner, by_col)
        values = ceil_times(inner, by_row) * ceil_times(wide(p["v_width"]), by_col)
        latched = np.maximum(scores * wide(units), 1.0)
        latched = latched + wide_out * np.maximum(values * wide(units), 1.0)
        latched = latched * np.maximum(issue(outer), latch)
        tiles = deep + wide_out * ceil_times(wide(p["v_width"]), by_row)
        stream = tiles * (issue(inner) + latch) * ceil_times(outer, by_col) * wide(units)
        cycles = np.minimum(latched, stream)
        mxu_s = cycles * wide(s_per_cycle) + wide(p["ramp_s"])
        ops = outer * inner * wide(per_score) + fresh * (inner * wide(widening))
        return mxu_s, ops * wide(slowdown * together * p["vpu_s_per_op"])

    held = 2 * (rows * q_bytes + entries * entry_bytes + rows * out_bytes)
    held = held + rows * (entries * PROBABILITY_BYTES + p["v_width"] * ACCUMULATOR_BYTES) * together
    converted = p["kv_elements_converted"] / length * WIDENED_BYTES
    held = held + entries * converted * together
    pipeline = Pipeline(
        total=(p["rows"] * one, one, length * one),
        block=(rows, one, entries),
        groups=groups / together,
        streamed=Operand(q_bytes * one, outer=one, middle=zero, inner=zero),
        stationary=Operand(entry_bytes * one, outer=zero, middle=zero, inner=one),
        output=Operand(out_bytes * one, outer=one, middle=zero, inner=zero),
        compute=compute,
        **_rates(p, one * (1 + p["paged"] * p["paged_read_slowdown"])),
    )
    budget = p["on_chip_bytes"] - kept
    return Kernel(pipeline, held, budget, np.minimum(p["groups"], 1.0) * one)


def stream(p: Problem, parts: Array) -> Kernel:
    """`hbm_bytes` through HBM and `vpu_ops` on the VPU, cut into equal `parts`."""
    one, zero = np.ones_like(parts), np.zeros_like(parts)
    part_bytes = p["hbm_bytes"] / parts
    vpu_s = p["vpu_ops"] / parts * p["vpu_s_per_op"]

    def compute(outer: Array, middle: Array, inner: Array, fresh: Array) -> tuple[Array, Array]:
        return np.zeros_like(inner), inner * _expand(vpu_s, outer)

    pipeline = Pipeline(
        total=(one, one, parts),
        block=(one, one, one),
        groups=one,
        streamed=Operand(zero, outer=zero, middle=zero, inner=zero),
        stationary=Operand(part_bytes, outer=zero, middle=zero, inner=one),
        output=Operand(zero, outer=zero, middle=zero, inner=zero),
        compute=compute,
        **_rates(p, one),
    )
    return Kernel(pipeline, 2 * part_bytes, p["on_chip_bytes"], one)


def _rates(p: Problem, slowdown: Array) -> dict[str, Array]:
    """The pipeline's rates; `slowdown` of HBM is that of scattered pages against a long copy."""
    one = np.ones_like(slowdown)
    names = ("dma_latency_s", "step_latency_s", "step_fixed_s", "engine_overlap")
    return {name: p[name] * one for name in names} | {
        "hbm_s_per_byte": p["hbm_s_per_byte"] * slowdown
    }


def lower_bound_s(kernel: Kernel) -> Array:
    """About the seconds below which no play of these grids can fall: totals of average blocks,
    without the interplay of steps. Ranks block shapes before the best few are played. Any shape."""
    p = kernel.pipeline
    outer, middle, inner = (blocks(t, b) for t, b in zip(p.total, p.block, strict=True))
    average = tuple(t / c for t, c in zip(p.total, (outer, middle, inner), strict=True))
    steps = p.groups * outer * middle * inner

    def size(operand: Operand) -> Array:
        extent = np.where(operand.outer > 0, average[0], 1.0)
        extent = extent * np.where(operand.middle > 0, average[1], 1.0)
        return operand.bytes_per_element * extent * np.where(operand.inner > 0, average[2], 1.0)

    def fetches(operand: Operand) -> Array:
        by_inner = (operand.inner > 0) & (inner > 1)
        by_middle = by_inner | ((operand.middle > 0) & (middle > 1))
        by_outer = by_middle | ((operand.outer > 0) & (outer > 1))
        times = np.where(by_inner, inner, 1.0) * np.where(by_middle, middle, 1.0)
        return p.groups * times * np.where(by_outer, outer, 1.0)

    share = fetches(p.stationary) / steps
    mxu_s, vpu_s = p.compute(average[0], average[1], average[2], share)
    e = p.engine_overlap
    compute_s = e * np.maximum(mxu_s, vpu_s) + (1 - e) * (mxu_s + vpu_s)
    moves = [(fetches(o), size(o)) for o in (p.streamed, p.stationary)]
    moves.append((p.groups * outer * middle, size(p.output)))
    ends = sum(s for _, s in moves)
    dma_s = (sum(times * s for times, s in moves) - ends) * p.hbm_s_per_byte
    busiest = np.maximum.reduce([times * (s > 0) for times, s in moves])
    dma_s = dma_s + p.step_latency_s * np.maximum(busiest - 1, 0)
    ends_s = ends * p.hbm_s_per_byte + p.dma_latency_s * (busiest > 0)
    return ends_s + np.maximum(dma_s, steps * compute_s) + steps * p.step_fixed_s
