"""Where a case lies among the measured ones: the logarithms that distances are taken in."""

from __future__ import annotations

import math
from collections.abc import Mapping

FEATURES: Mapping[str, str] = {
    "log_peak_flops": "bf16 peak of the chip, FLOP/s",
    "log_hbm_bandwidth": "HBM bandwidth of the chip, B/s",
    "log_chips": "chips that work together",
    "log_tokens_per_chip": "tokens that one step processes, per chip",
    "log_flops_per_byte": "FLOPs of a step over its HBM bytes",
}
"""Natural logarithms, by name; a case leaves out what does not apply to it."""


def case_features(
    *,
    peak_bf16_flops: float,
    hbm_bandwidth_bytes_per_s: float,
    chips: float | None = None,
    tokens_per_chip: float | None = None,
    flops_per_byte: float | None = None,
) -> dict[str, float]:
    """FEATURES of a case, from plain numbers; None and what is not positive are left out."""
    values = (
        peak_bf16_flops,
        hbm_bandwidth_bytes_per_s,
        chips,
        tokens_per_chip,
        flops_per_byte,
    )
    return {
        name: math.log(value)
        for name, value in zip(FEATURES, values, strict=True)
        if value is not None and value > 0
    }


def step_features(
    peak_bf16_flops: float, hbm_bandwidth_bytes_per_s: float, chips: float, tokens: float
) -> dict[str, float]:
    """Those of a step of a whole model: `tokens` are the prompt's in prefill, the sequences in
    decode and serving, and those of the global batch in training."""
    return case_features(
        peak_bf16_flops=peak_bf16_flops,
        hbm_bandwidth_bytes_per_s=hbm_bandwidth_bytes_per_s,
        chips=chips,
        tokens_per_chip=tokens / chips,
    )
