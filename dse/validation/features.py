"""Where a case lies among the measured ones: the logarithms that distances are taken in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwmodel.chip import Chip
    from models.deployment import Deployment
    from models.workload import Training, Workload

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


def features_by_class(
    chip: Chip, d: Deployment, work: Workload | Training
) -> dict[str, dict[str, float]]:
    """`step_features` of each class of prediction (`dse.validation.evidence.CLASSES`) that such
    work has."""
    from models.workload import Training

    if isinstance(work, Training):
        tokens = {"train": work.sequence_tokens * work.global_batch}
    else:
        tokens = {"prefill": work.prompt_tokens, "decode": d.batch, "serve": d.batch}
    return {
        name: step_features(chip.peak_bf16_flops, chip.hbm_bandwidth_bytes_per_s, d.chips, count)
        for name, count in tokens.items()
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
