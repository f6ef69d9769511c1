"""Measured GPU kernels and deployments as records: measurement, prediction, plain roofline.

Kernels are timed by the equations that a step on a GPU preset uses (`dse.validation.gpu_kernels`),
whole tables at a time; deployments through `models.performance.evaluate`
(`dse.validation.gpu_serving`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.validation import gpu_data, gpu_serving
from dse.validation.features import case_features
from dse.validation.gpu_kernels import bounds, columns, seconds
from dse.validation.record import Record
from hwmodel.theta import Theta, central

BARS: Mapping[str, tuple[str, ...]] = {
    "gpu_gemm": ("gpu_gemm",),
    "gpu_prefill_attention": ("gpu_attention",),
    "gpu_decode_attention": ("gpu_attention",),
    "gpu_moe": ("gpu_moe",),
    "gpu_collective": ("gpu_collectives",),
}
"""Lines of the bar table that each kind counts for."""


def records(theta: Theta | None = None, limit: int | None = None) -> list[Record]:
    """Every measured GPU row with its prediction, at most `limit` of each kind.

    `theta` defaults to the central constants. Deployments whose model is not in the catalog, or
    that lack a size, are listed with the reason.
    """
    constants = central() if theta is None else theta
    found = [r for kind in gpu_data.KINDS for r in kernels(kind, constants, limit)]
    return found + gpu_serving.records(constants, limit)


def kernels(kind: str, theta: Theta, limit: int | None = None) -> list[Record]:
    """Records of one kind of kernel, in seconds."""
    frame = gpu_data.table(kind)[:limit]
    rows: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment]  # str keys
    numbers = columns(kind, frame)
    predicted = seconds(kind, numbers, theta)
    roofline, peak = bounds(kind, numbers)
    return [
        Record(
            id=row["id"],
            source=row["source"],
            stack="",
            tpu=row["chip"],
            kind=kind,
            model=row["model"],
            confidence="A",
            predicted=float(predicted[i]),
            measured=row["measured_s"],
            unit="s",
            roofline=float(roofline[i]),
            peak=float(peak[i]),
            bars=BARS[kind],
            features=_features(numbers, i),
        )
        for i, row in enumerate(rows)
    ]


def _features(numbers: Mapping[str, np.ndarray], i: int) -> dict[str, float]:
    """Where row `i` lies among the measured ones; tokens are rows of a product or of queries."""
    per_chip = next((numbers[n][i] for n in ("m", "tokens", "query_tokens") if n in numbers), 0.0)
    ranks = numbers["ranks"][i] if "ranks" in numbers else 1.0
    return case_features(
        peak_bf16_flops=2 * float(numbers["chip.macs_per_cycle"][i] * numbers["chip.clock_hz"][i]),
        hbm_bandwidth_bytes_per_s=float(numbers["chip.hbm_bandwidth_bytes_per_s"][i]),
        chips=float(ranks),
        tokens_per_chip=float(per_chip),
    )
