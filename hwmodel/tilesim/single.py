"""One kernel by itself, as a microbenchmark times it: operands start and end in HBM."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from hwmodel.chip import Chip
from hwmodel.ops import DENSE_BF16, Numerics
from hwmodel.theta import Theta
from hwmodel.tilesim import search
from hwmodel.tilesim.machine import FORMAT_FIELDS, MACHINE_FIELDS, format_numbers, machine
from hwmodel.tilesim.search import Chosen
from hwmodel.tilesim.step import check


def matmul_s(
    chip: Chip,
    theta: Theta,
    m: float,
    k: float,
    n: float,
    numerics: Numerics = DENSE_BF16,
    blocks: tuple[float, float, float] | None = None,
    groups: float = 1.0,
) -> float:
    """Device seconds of `groups` products [m, k] @ [k, n], without host time.

    blocks: (bm, bk, bn) with the rows of blocks as the outermost loop, as a Pallas grid (m, n, k);
    None searches. Raises ValueError for blocks that are not three positive sizes and
    `UnsupportedChip` for a GPU.
    """
    if blocks is not None and not (len(blocks) == 3 and min(blocks) > 0):
        raise ValueError(f"blocks are three positive sizes (bm, bk, bn), not {blocks}")
    problem = _problem(
        chip,
        theta,
        numerics,
        {"m": m, "k": k, "n": n, "groups": groups, "weight_reads": 1.0},
    )
    shapes = None if blocks is None else np.array([[*blocks, 1.0, 1.0]])
    return _seconds(problem, search.matmul(problem, shapes))


def attention_s(
    chip: Chip,
    theta: Theta,
    *,
    groups: float,
    rows: float,
    length: float,
    qk_width: float,
    v_width: float,
    kv_bytes: float,
    masked_length: float = 0.0,
    paged: float = 0.0,
) -> float:
    """Device seconds of fused attention, without host time; arguments as `hwmodel.ops.Attention`.

    Raises `UnsupportedChip` for a GPU.
    """
    sizes = {
        "groups": groups,
        "rows": rows,
        "length": length,
        "qk_width": qk_width,
        "v_width": v_width,
        "kv_bytes": kv_bytes,
        "kv_elements_converted": 0.0,
        "softmax": 1.0,
        "masked_length": masked_length,
        "paged": paged,
    }
    problem = _problem(chip, theta, DENSE_BF16, sizes)
    return _seconds(problem, search.attention(problem))


def stream_s(chip: Chip, theta: Theta, hbm_bytes: float, vpu_ops: float = 0.0) -> float:
    """Device seconds to move `hbm_bytes` through HBM beside `vpu_ops` vector operations."""
    problem = _problem(chip, theta, DENSE_BF16, {"hbm_bytes": hbm_bytes, "vpu_ops": vpu_ops})
    return _seconds(problem, search.stream(problem))


def _problem(
    chip: Chip, theta: Theta, numerics: Numerics, sizes: Mapping[str, float]
) -> dict[str, np.ndarray]:
    check(chip)
    # A loop of its own, not among a step's fusions; operands start and end in HBM.
    loop = {**theta, "step_mxu_fraction": 1.0, "activation_resident_fraction": 0.0}
    named = _numbers(chip, tuple(loop.items()), numerics) | {
        "vpu_ops": 0.0,
        "extra_hbm_bytes": 0.0,
        "ragged": 0.0,
        **sizes,
    }
    return {name: np.array([float(value)]) for name, value in named.items()}


@functools.lru_cache(maxsize=64)
def _numbers(
    chip: Chip, values: tuple[tuple[str, float], ...], numerics: Numerics
) -> dict[str, float]:
    """What the play reads of a chip and a format; tracing-ready equations are slow on floats."""
    import jax

    theta = dict(values)
    with jax.enable_x64(True):
        numbers = [*machine(chip, theta), *format_numbers(chip, theta, numerics)]
    return dict(zip((*MACHINE_FIELDS, *FORMAT_FIELDS), map(float, numbers), strict=True))


def _seconds(problem: Mapping[str, np.ndarray], chosen: Chosen) -> float:
    return float(chosen.seconds[0] + problem["operator_fixed_s"][0])
