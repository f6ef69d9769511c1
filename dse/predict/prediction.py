"""One configuration through the equations: numbers with intervals, operators, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.predict.configuration import Configuration
from dse.predict.hints import hint
from dse.predict.point import point
from dse.validation.evidence import Case, Interval, Ratios, interval
from dse.validation.features import features_by_class

HEADLINES: Mapping[str, tuple[str, ...]] = {
    "train": (
        "train_step_s",
        "train_tokens_per_s_per_chip",
        "mfu_train",
        "forward_step_s",
        "average_power_w",
    ),
    "prefill": ("prefill_step_s", "ttft_s", "prefill_tokens_per_s_per_chip", "mfu_prefill"),
    "decode": ("decode_step_s", "decode_tokens_per_s_per_chip", "mbu_decode"),
    "serve": (
        "tokens_per_s",
        "tokens_per_s_per_chip",
        "ttft_s",
        "tpot_s",
        "request_latency_s",
        "joules_per_token",
        "usd_per_mtoken",
    ),
}
"""The metrics that each phase is asked for."""

_STEPS: Mapping[str, tuple[str, ...]] = {
    "train": ("step",),
    "prefill": ("prefill",),
    "decode": ("decode",),
    "serve": ("prefill", "decode"),
}
_IGNORED = ("quality_unknown",)
"""Limits that say nothing here: quality is not predicted."""


@dataclass(frozen=True)
class Prediction:
    """What is known about one configuration.

    metrics: all of them. intervals: of the headlines. operators: as `dse explain`. violations:
    code, amount (1 for yes or no), meaning and hint of every limit that is exceeded.
    hbm_usable_bytes: what of a chip's HBM a program can have.
    """

    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval]
    operators: list[dict[str, Any]]
    violations: list[dict[str, Any]]
    hbm_usable_bytes: float


def predict(c: Configuration) -> Prediction:
    """Evaluate the configuration at the central constants, and its estimates under draws."""
    from dse.scoring.explain import rows_of_table
    from dse.validation.intervals import calibration
    from hwmodel.rates import usable_hbm_bytes
    from hwmodel.theta import central

    values, violated, tables, estimates = _evaluate(c)
    if c.stack:
        from dse.predict.host import add

        values = add(c.stack, c, values)
    case = Case(_features(c), c.moe, c.gpu, estimates)
    intervals = {
        name: found
        for name in HEADLINES[c.phase]
        if name in values
        and (found := interval(name, values[name], case, calibration())) is not None
    }
    operators = [row for step in _STEPS[c.phase] for row in rows_of_table("", step, tables[step])]
    usable = usable_hbm_bytes(c.chip, central())
    return Prediction(values, intervals, operators, _violations(c, violated), usable)


def _evaluate(
    c: Configuration,
) -> tuple[dict[str, float], dict[str, float], dict[str, Any], dict[str, Ratios]]:
    """Metrics, violations, operator tables, and the ratios of the draws, from one compilation."""
    import dataclasses

    import jax

    from dse.scoring.cache import enable_compilation_cache
    from dse.scoring.explain import step_table
    from dse.scoring.feasibility import DRAWS, chip_draws
    from dse.scoring.fields import SWITCHES
    from hwmodel import theta

    enable_compilation_cache()
    drawn = {n: v for n, v in chip_draws(c.chip_name).items() if n not in SWITCHES}

    def evaluated(constants: Any, fields: Any) -> Any:
        found, steps = point(c, dataclasses.replace(c.chip, **fields), constants)
        tables = {name: step_table(step) for name, step in steps.items()}
        return found.metrics, found.violations, tables

    with jax.enable_x64(True):
        compiled = jax.jit(evaluated)
        own = {name: float(getattr(c.chip, name)) for name in drawn}
        metrics, violations, tables = compiled(theta.central(), own)
        constants = theta.draws(DRAWS)
        spread: dict[str, list[float]] = {name: [] for name in metrics}
        for i in range(DRAWS):
            some = compiled(
                {name: float(column[i]) for name, column in constants.items()},
                {name: float(column[i]) for name, column in drawn.items()},
            )[0]
            for name, value in some.items():
                spread[name].append(float(value))
    values = {name: float(value) for name, value in metrics.items()}
    ratios = {
        name: (float(low / values[name]), float(high / values[name]))
        for name, draws in spread.items()
        if values[name] > 0
        for low, high in [np.quantile(draws, [0.1, 0.9])]
    }
    return values, {k: float(v) for k, v in violations.items()}, tables, ratios


def _features(c: Configuration) -> dict[str, list[Mapping[str, float]]]:
    """The features of each class of prediction."""
    found = features_by_class(c.chip, c.deployment, c.inputs)
    return {name: [features] for name, features in found.items()}


def _violations(c: Configuration, amounts: Mapping[str, float]) -> list[dict[str, Any]]:
    from models.legality import REASONS

    return [
        {"code": code, "amount": amount, "meaning": REASONS[code], "hint": _hint(code, c, amount)}
        for code, amount in amounts.items()
        if amount > 0 and code not in _IGNORED
    ]


def _hint(code: str, c: Configuration, amount: float) -> str:
    """The hint, after the change that was found to fit where there is one."""
    if code != "hbm_overflow":
        return hint(code, c, amount)
    from dse.predict.nearest import fitting

    found = fitting(c)
    more = hint(code, c, amount)
    return f"{found}, which fits, or {more}" if found else more
