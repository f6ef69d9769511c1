"""The measured GPU kernels as tables: one row a measurement, SI units, with its hold-out group.

The data are `hwmodel/calibration/gpu/*.csv.gz`. Groups are blocks of related shapes on one chip,
all formats and sizes together: a weight matrix (n, k), the heads of an attention, a split of a
mixture, a collective with its ranks and format.
"""

from __future__ import annotations

import functools
from importlib import resources

import numpy as np
import pandas as pd

from dse.validation.record import held_out

KINDS = (
    "gpu_gemm",
    "gpu_prefill_attention",
    "gpu_decode_attention",
    "gpu_moe",
    "gpu_collective",
)
FILES = dict(
    zip(KINDS, ("gemm", "prefill_attention", "decode_attention", "moe", "collectives"), strict=True)
)
PACKAGE = "aiconfigurator-core 0.12.0"


@functools.cache
def table(kind: str) -> pd.DataFrame:
    """All rows of one kind of kernel, with columns `id`, `chip` (preset name), `source`, `model`
    (the hold-out block), `held_out` and `measured_s` beside the package's own."""
    frame = read(FILES[kind])
    frame["chip"] = frame["system"].str.removesuffix("_sxm")
    frame["id"] = [f"{kind}:{i}" for i in range(len(frame))]
    frame["source"] = f"{PACKAGE} {FILES[kind]}"
    frame["model"] = _blocks(kind, frame)
    frame["held_out"] = [
        held_out(f"{s}|{c}|{m}")
        for s, c, m in zip(frame["source"], frame["chip"], frame["model"], strict=True)
    ]
    frame["measured_s"] = frame["latency_ms"] * 1e-3
    return frame


def read(name: str) -> pd.DataFrame:
    """The file `name` (without endings) as the package wrote it."""
    with resources.files("hwmodel").joinpath(f"calibration/gpu/{name}.csv.gz").open("rb") as file:
        return pd.read_csv(file, compression="gzip")


def _blocks(kind: str, frame: pd.DataFrame) -> pd.Series:
    columns, form = {
        "gpu_gemm": (("n", "k"), "n {} k {}"),
        "gpu_prefill_attention": _HEADS,
        "gpu_decode_attention": _HEADS,
        "gpu_moe": (
            ("hidden_size", "inter_size", "moe_tp_size", "num_experts", "moe_ep_size"),
            "{} x {} / {}, {} experts / {}",
        ),
        "gpu_collective": (("op_name", "num_gpus", "nccl_dtype"), "{} x {} {}"),
    }[kind]
    rows = zip(*(frame[c] for c in columns), strict=True)
    return pd.Series([form.format(*row) for row in rows], index=frame.index)


_HEADS = (
    ("num_heads", "num_key_value_heads", "head_dim"),
    "{} heads, {} KV heads x {}",
)


@functools.cache
def expert_loads(tokens: int, experts: int, top_k: int, ranks: int, spread: str) -> np.ndarray:
    """Tokens of each expert of the measured rank, busiest first; shape [experts / ranks].

    `balanced`: token t takes experts t + i · stride (the benchmark's rule). `power_law_A`: loads
    drawn from a power law of exponent A between 1 and 0.8 · tokens (0.01 and 2 where there are
    fewer choices than experts), scaled to all choices, no expert beyond one choice a token; the
    measured rank is the busiest. Means over seeded draws, order statistic by order statistic.
    """
    local = experts // ranks
    if spread == "balanced":
        stride = -(-experts // top_k)
        token, choice = np.arange(tokens)[:, None], np.arange(top_k)[None, :] * stride
        first = token if tokens >= stride else token * stride // tokens
        counts = np.bincount(((first + choice) % experts).ravel(), minlength=experts)
        return -np.sort(-counts[:local].astype(float))
    exponent = 1 - float(spread.rsplit("_", 1)[1])
    many = tokens * top_k > experts
    low, high = (1.0, tokens * 0.8) if many else (0.01, 2.0)
    rng = np.random.default_rng(0)
    total = np.zeros(local)
    for _ in range(_DRAWS):
        share = rng.random(experts)
        drawn = ((high**exponent - low**exponent) * share + low**exponent) ** (1 / exponent)
        ranked = _whole(drawn / drawn.sum() * tokens * top_k, tokens).reshape(ranks, local)
        total += -np.sort(-ranked[ranked.sum(1).argmax()])
    return total / _DRAWS


_DRAWS = 16


def _whole(loads: np.ndarray, limit: int) -> np.ndarray:
    """Whole loads of at most `limit` with the same sum: what is missing or too much is spread over
    the largest first."""
    counts = np.minimum(np.round(loads), limit)
    order = np.argsort(-loads)
    while (missing := int(round(loads.sum() - counts.sum()))) != 0:
        step = 1 if missing > 0 else -1
        open_to = [e for e in order if (counts[e] < limit if step > 0 else counts[e] > 0)]
        counts[open_to[: abs(missing)]] += step
    return counts
