"""(Architecture, Variant, Deployment, Workload, phase) to the operator table of one chip."""

from __future__ import annotations

from models.lowering.model import Lowered, lower
from models.lowering.phase import Phase, decode_phase, prefill_phase

__all__ = ["Lowered", "Phase", "decode_phase", "lower", "prefill_phase"]
