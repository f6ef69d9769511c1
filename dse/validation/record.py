"""One measurement beside what the model predicts for it.

Everything that `dse validate` prints, every interval and every line of the bar table is computed
from a list of records and from nothing else, whichever source they come from.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

KINDS = (
    "matmul",
    "matmul_host",
    "hbm",
    "collective",
    "train_dense",
    "train_moe",
    "prefill",
    "decode",
    "serve",
    "diffusion",
    "gpu_gemm",
    "gpu_prefill_attention",
    "gpu_decode_attention",
    "gpu_moe",
    "gpu_collective",
    "gpu_ttft",
    "gpu_tpot",
)
"""Kinds of measured work: classes of prediction that have an error of their own."""

BARS = (
    "microbenchmarks",
    "train_dense_a",
    "train_all_ab",
    "palm_prefill",
    "palm_decode",
    "serve_fixed",
    "gpu_gemm",
    "gpu_attention",
    "gpu_moe",
    "gpu_collectives",
)
"""Lines of the bar table that a record may count for."""


@dataclass(frozen=True)
class Record:
    """One measured row and its prediction, both in `unit`.

    A row that cannot be predicted has `predicted` None and says in `reason_if_skipped` which field
    is missing; a row that was predicted has an empty reason.
    """

    id: str
    source: str
    stack: str
    """Software that ran it; empty for microbenchmarks without one."""
    tpu: str
    """Preset name of the chip, GPUs included."""
    kind: str
    """One of KINDS."""
    model: str
    confidence: str
    """A, B or C; rows of class C are never fitted."""
    predicted: float | None
    measured: float
    unit: str
    roofline: float | None = None
    """What max(FLOPs / peak, bytes / bandwidth) predicts, in the same unit."""
    peak: float | None = None
    """What the chip's peak alone predicts, in the same unit: FLOPs / peak FLOP/s, or bytes /
    bandwidth where the work has no FLOPs (hbm, collective)."""
    higher_is_better: bool = False
    """Whether the value is a rate (FLOP/s, tokens/s, bytes/s) and not a time."""
    reason_if_skipped: str = ""
    bars: tuple[str, ...] = ()
    """Lines of the bar table (BARS) that the row counts for."""
    low: float | None = None
    high: float | None = None
    """80 % interval of the prediction; None until dse.validation.intervals attaches it."""
    features: Mapping[str, float] = field(default_factory=dict)
    """Logarithms that say where the case lies (dse.validation.features.case_features)."""
    bound_by: str = ""
    """What takes the time in the prediction, such as `attention 41 % (vpu), all-gather 22 %`."""
    notes: str = ""

    def __post_init__(self) -> None:
        """Refuse a prediction that is no number: every statistic would hide it.

        Raises:
            ValueError: naming the row.
        """
        if self.predicted is not None and not math.isfinite(self.predicted):
            raise ValueError(f"the prediction of {self.id} is {self.predicted}: a defect")

    @property
    def group(self) -> str:
        """What is held out, resampled and calibrated together: source, chip and model."""
        return group_of(self.source, self.tpu, self.model)

    @property
    def held_out(self) -> bool:
        """Whether the row's group is only reported and never fitted."""
        return held_out(self.group)

    @property
    def log_residual(self) -> float | None:
        """log(predicted / measured), positive where the prediction is too high; None if skipped."""
        if self.predicted is None or self.predicted <= 0 or self.measured <= 0:
            return None
        return math.log(self.predicted / self.measured)


def group_of(source: str, tpu: str, model: str) -> str:
    """The group of a row."""
    return f"{source}|{tpu}|{model}"


def held_out(group: str) -> bool:
    """Whether `sha1(group) mod 3 == 0`: a third of the groups, chosen by nobody."""
    return int(hashlib.sha1(group.encode()).hexdigest(), 16) % 3 == 0
