"""Phase: how many tokens and how much context one step of prefill or decode works on, per chip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_zero
from hwmodel.whole import ceil_div
from models.deployment import Deployment
from models.workload import Workload

Number = Any


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One step as one chip sees it.

    `sequences` are the sequences of one request group, `query_tokens` the new tokens per sequence
    whose attention this chip computes, `projection_tokens` the tokens of one request group whose
    projections it computes, `ffn_tokens` those of its feed-forward group, `logit_tokens` the rows
    of the output head. `first_token` is the position of the first new token (earlier ones are
    cached) and `last_token` that of the last, over all steps that are averaged here.
    """

    name: str
    decode: bool
    steps: Number
    sequences: Number
    query_tokens: Number
    projection_tokens: Number
    ffn_tokens: Number
    logit_tokens: Number
    first_token: Number
    last_token: Number
    context: Number
    caches: float = 1.0  # static; 0: keys and values are used once and not kept (training)

    def attended_tokens(self, window: Number) -> Number:
        """Mean cached tokens that one new token attends to, itself included, rounded up to whole.

        Full attention: position t sees t tokens; a window sees min(t, window). Means are over the
        positions first_token < t <= last_token, in closed form.
        """
        new = self.last_token - self.first_token
        return ceil_div(
            _positions_below(self.last_token, window) - _positions_below(self.first_token, window),
            new,
        )

    def masked_tokens(self, attended: Number, window: Number, block: Number) -> Number:
        """Mean tokens beyond those attended of which a prefill kernel computes scores, whole.

        The kernel skips whole blocks of `block` tokens that the mask hides and computes the others
        in full: half a block more than the mask lets through at its diagonal, and half a block more
        at the far edge of a window. A decoded token has no such mask.
        """
        if self.decode:
            return 0.0
        extra = block / 2
        if not is_zero(window):
            extra = extra + jnp.where((window > 0) & (window < self.last_token), block / 2, 0.0)
        return jnp.floor(jnp.clip(self.last_token - attended, 0.0, extra))

    @property
    def visible_tokens(self) -> Number:
        """Mean over the steps of the tokens that the last new token sees, rounded up to whole.

        What one step needs once whatever its number of queries: each step's own end, not the mean
        position inside it.
        """
        new = self.last_token - self.first_token
        return self.first_token + ceil_div(new * (self.steps + 1), 2 * self.steps)


def _positions_below(last: Number, window: Number) -> Number:
    """Sum of min(t, window) over t = 1..last; window 0 means no window."""
    full = last * (last + 1) / 2
    if is_zero(window):
        return full
    beyond = window * (window + 1) / 2 + (last - window) * window
    return jnp.where((window > 0) & (last > window), beyond, full)


def prefill_phase(d: Deployment, w: Workload) -> Phase:
    """One prefill step: one sequence per request group, one chunk of its new prompt tokens.

    The mean over the chunks of a prompt; the output head runs once per prompt.
    """
    new = w.prompt_tokens - w.cached_prefix_tokens
    steps = ceil_div(new, d.prefill_chunk_tokens)
    chunk = ceil_div(new, steps)
    tokens = ceil_div(chunk, d.context)
    return Phase(
        name="prefill",
        decode=False,
        steps=steps,
        sequences=1.0,
        query_tokens=tokens,
        projection_tokens=tokens,
        ffn_tokens=tokens * d.attention_data,
        logit_tokens=d.attention_data / steps,
        first_token=w.cached_prefix_tokens,
        last_token=w.prompt_tokens,
        context=d.context,
    )


def decode_phase(d: Deployment, w: Workload) -> Phase:
    """One decode step of one pipeline microbatch: every sequence gains one token.

    The mean over the output positions of a request.
    """
    sequences = d.microbatch_per_group
    return Phase(
        name="decode",
        decode=True,
        steps=w.output_tokens,
        sequences=sequences,
        query_tokens=1.0,
        projection_tokens=ceil_div(sequences, d.context),
        ffn_tokens=ceil_div(sequences * d.attention_data, d.context),
        logit_tokens=ceil_div(sequences * d.attention_data, d.context),
        first_token=w.prompt_tokens,
        last_token=w.prompt_tokens + w.output_tokens,
        context=d.context,
    )
