"""Operators of a step on a chip with thread blocks: the seconds that replace those of its engines.

The measured kernels are timed by the same functions (`dse.validation.gpu_kernels`), each alone; in
a step the next kernel's launch hides all but `block_fixed_exposed_fraction` of fixed times. Plain
vector operators and gradients of attention keep the generic equations of `hwmodel.step`.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from hwmodel.rates import MxuFormat, Rates
from hwmodel.rows import Row
from hwmodel.theta import Theta
from hwmodel.thread_block_attention import attention
from hwmodel.thread_blocks import BlockRates, Path, matmul_path, moe_path, product

Number = Any


def blocked(
    r: Rates,
    theta: Theta,
    fmt: MxuFormat,
    row: Row,
    work: dict[str, Number],
    done: dict[str, Number],
) -> dict[str, Number]:
    """`done`, what the engines need for the operator `row`, with the seconds of thread blocks.

    `row` has the fields of a Matmul or an Attention, `work` its vector operations; `done` is
    returned unchanged for a chip without thread blocks.
    """
    b = r.blocks
    if b is None:
        return done
    if "kv_bytes" in row:
        kernel = attention(b, theta, row)
        simt_s: Number = 0.0  # part of the kernel
    else:
        kernel = _matmul(b, theta, fmt, row)
        simt_s = work["vpu_ops"] * r.vpu_s_per_op
    running_s = kernel["time_s"] - kernel["fixed_s"]
    e = theta["engine_overlap_fraction"]
    seconds = e * jnp.maximum(running_s, simt_s) + (1 - e) * (running_s + simt_s)
    fixed_s = kernel["fixed_s"] * theta["block_fixed_exposed_fraction"]
    count = row["count"]
    new = {
        "mxu_s": count * kernel["tensor_s"],
        "vpu_s": count * (simt_s + kernel.get("simt_s", 0.0)),
        "hbm_s": count * kernel["hbm_s"],
        "fixed_s": count * fixed_s,
        "time_s": count * (seconds + fixed_s),
        "hbm_bytes": count * kernel["hbm_bytes"],
    }
    if isinstance(b.row_tile, int | float):
        return done | new
    return done | {key: jnp.where(b.row_tile > 0, value, done[key]) for key, value in new.items()}


def _matmul(b: BlockRates, theta: Theta, fmt: MxuFormat, row: Row) -> dict[str, Number]:
    """A plain matmul, or one of the two products of routed experts (`resident_groups` >= 0)."""
    routed = row["resident_groups"] >= 0
    rate = 1 / (fmt.rows_per_issue_inverse * fmt.cycles_per_issue * b.rows_per_cycle)
    numbers = (rate / fmt.nm_speedup_inverse, fmt.stored_bytes_per_weight, fmt.activation_bytes)
    plain = [matmul_path(theta, f, *numbers) for f in ("16bit", "8bit_block", "4bit")]
    mixture = [moe_path(theta, f, *numbers) for f in ("16bit", "8bit", "4bit")]
    chosen = {}
    for field in Path.__dataclass_fields__:
        by_bits = [
            jnp.where(routed, getattr(m, field), getattr(p, field))
            for p, m in zip(plain, mixture, strict=True)
        ]
        narrow = jnp.where(fmt.operand_bits > 4, by_bits[1], by_bits[2])
        chosen[field] = jnp.where(fmt.operand_bits > 8, by_bits[0], narrow)
    return product(
        b,
        theta,
        Path(**chosen),
        jnp.stack([row["m"]]),
        jnp.stack([row["groups"]]),
        row["n"],
        row["k"],
        row["weight_reads"],
        routed,
    )
