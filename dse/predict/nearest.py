"""The nearest change that makes a configuration fit in HBM: found by trying, not by a rule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dse.divisors import divisors
from dse.predict.configuration import Configuration
from dse.predict.point import point
from models.workload import Training


def fitting(c: Configuration) -> str:
    """The option and the nearest value of it that fits, with nothing else changed: for training
    more microbatches, which compute the same step; for serving fewer sequences. Empty: none."""
    import jax

    from hwmodel.theta import central

    serving = not isinstance(c.inputs, Training)
    change = _with_batch if serving else _with_microbatches

    def over(value: Any) -> Any:
        return point(change(c, value), c.chip, central())[0].violations["hbm_overflow"]

    with jax.enable_x64(True):
        compiled = jax.jit(over)  # the value is an argument: one compilation for all of them

        def fits(value: int) -> bool:
            return float(compiled(float(value))) <= 0

        if serving:
            return f"--batch {batch}" if (batch := _largest(fits, c)) else ""
        return next((f"--microbatches {m}" for m in _microbatches(c) if fits(m)), "")


def _largest(fits: Callable[[int], bool], c: Configuration) -> int:
    """The largest batch that fits and that all groups of chips share evenly; 0: none does."""
    groups = round(c.deployment.data * c.deployment.pipeline * c.deployment.request_groups)
    low, high = 0, math.ceil(c.deployment.batch / groups)  # sequences of a group
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * groups) else (low, middle)
    return low * groups


def _microbatches(c: Configuration) -> list[int]:
    """More microbatches than now that the sequences of a group of chips divide into, ascending."""
    assert isinstance(c.inputs, Training)
    groups = round(c.deployment.data * c.deployment.request_groups)
    own = round(c.inputs.global_batch) // groups
    return [m for m in divisors(own) if m > c.inputs.microbatches] if own else []


def _with_batch(c: Configuration, value: Any) -> Configuration:
    return replace(c, deployment=replace(c.deployment, batch=value))


def _with_microbatches(c: Configuration, value: Any) -> Configuration:
    return replace(c, inputs=replace(c.inputs, microbatches=value))
