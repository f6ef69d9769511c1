"""Which training steps can exist: the shared limits of `models.legality`, and its own."""

from __future__ import annotations

from typing import Any

from hwmodel.whole import divides
from models.deployment import Deployment
from models.legality import excess, unless
from models.training.phase import sequence_groups
from models.workload import Training

Number = Any


def batch_violations(d: Deployment, t: Training) -> dict[str, Number]:
    """Amounts by which batch and mesh disagree; keys are among `models.legality.REASONS`."""
    groups = sequence_groups(d) * t.microbatches
    return {
        "batch_too_small": excess(groups, t.global_batch),
        "batch_split": unless(divides(groups, t.global_batch)),
        "sequence_split": unless(divides(d.context, t.sequence_tokens)),
    }
