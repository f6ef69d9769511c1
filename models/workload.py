"""Workload: the shape of one class of requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Number = Any


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Requests of `prompt_tokens` in and `output_tokens` out, `cached_prefix_tokens` of the prompt
    already in the KV cache. `expert_imbalance` is the load of the busiest expert shard over the
    mean (1 = perfectly balanced)."""

    prompt_tokens: Number
    output_tokens: Number
    cached_prefix_tokens: Number = 0.0
    expert_imbalance: Number = 1.0
