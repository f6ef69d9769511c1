"""The forward pass of one microbatch as one chip sees it."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp

from hwmodel.literal import is_one
from hwmodel.whole import ceil_div
from models.deployment import Deployment
from models.lowering.phase import Number, Phase
from models.workload import Training


@dataclass(frozen=True, kw_only=True)
class TrainingPhase(Phase):
    """A phase whose tokens see those before them (causal 1) or the whole sequence (causal 0)."""

    causal: Number = 1.0

    def attended_tokens(self, window: Number) -> Number:
        """Mean tokens that one token attends to; a window reaches both ways where not causal."""
        before = super().attended_tokens(window)
        if is_one(self.causal):
            return before
        reach = jnp.where(window > 0, jnp.minimum(2 * window, self.last_token), self.last_token)
        return jnp.where(self.causal > 0, before, reach)


def sequence_groups(d: Deployment) -> Number:
    """Groups of chips of one pipeline stage that hold different sequences, of all replicas."""
    return d.data * d.request_groups


def sequences_per_microbatch(d: Deployment, t: Training) -> Number:
    """Sequences of one microbatch of one group."""
    return ceil_div(t.global_batch, sequence_groups(d) * t.microbatches)


def microbatch_phase(d: Deployment, t: Training) -> TrainingPhase:
    """One forward pass of one microbatch: whole sequences, the output head on every token."""
    sequences = sequences_per_microbatch(d, t)
    query_tokens = ceil_div(t.sequence_tokens, d.context)
    tokens = sequences * query_tokens
    return TrainingPhase(
        name="train",
        decode=False,
        steps=1.0,
        sequences=sequences,
        query_tokens=query_tokens,
        projection_tokens=tokens,
        ffn_tokens=tokens * d.attention_data,
        logit_tokens=tokens * d.attention_data,
        first_token=0.0,
        last_token=t.sequence_tokens,
        context=d.context,
        caches=0.0,
        causal=t.causal,
    )
