"""What takes the time in a prediction, in words: `attention 41% (vpu), feed-forward 22% (mxu)`.

The operators are those of the case's own equation. They need a compilation of their own, so only
rows that miss their target are worth it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from dse.validation.cases import Case
from dse.validation.compiled import COMPILER_OPTIONS, Skeleton, arguments, compile_case
from dse.validation.counting import counting
from dse.validation.equations import (
    HOST_SEQUENCE_S,
    HOST_STEP_S,
    microbenchmark_step,
    served,
    trained,
)
from dse.validation.gaps import missed
from dse.validation.hosts import NONE, host_time
from dse.validation.measurements import Measurement
from dse.validation.record import Record
from hwmodel.step import StepTime

SHOWN = 4
"""Most operators that are named."""
SMALLEST = 0.04
"""Share of the time below which an operator is not named."""

_SUFFIXES = (" input gradient", " weight gradient", " gradient", " again")
"""What a training step does with an operator of its forward pass; named as one."""


def bound_by(case: Case, theta: Mapping[str, float]) -> str:
    """The operators that take most of the predicted time, with their share and what limits them.

    case: with as many sequences as fit (`predictor.fitting`). theta: with host time.
    """
    from dse.scoring.explain import rows_of_table

    ready = compile_case(case, tuple(theta))
    with jax.enable_x64(True):
        tables = _compiled(ready.skeleton)(ready.numbers, np.array(list(theta.values())))
        times = _times(case)
    wanted = [name for name in tables if times[name] > 0]
    seconds: dict[tuple[str, str], float] = {}
    for name in wanted:
        for row in rows_of_table("", name, tables[name]):
            label = row["name"]
            for suffix in _SUFFIXES:
                label = label.removesuffix(suffix)
            key = (f"{name} {label}" if len(wanted) > 1 else label), row["bound_by"]
            seconds[key] = seconds.get(key, 0.0) + row["time_s"] * times[name]
    if host_s := _host_s(case, theta, times):
        seconds["host", ""] = host_s
    return text(seconds)


def text(seconds: Mapping[tuple[str, str], float]) -> str:
    """The largest shares of all seconds, by (operator, engine); without engine, only the name."""
    total = sum(seconds.values())
    ranked = sorted(seconds.items(), key=lambda item: -item[1])[:SHOWN]
    return ", ".join(
        f"{name} {value / total:.0%}" + (f" ({engine})" if engine else "")
        for (name, engine), value in ranked
        if value >= SMALLEST * total
    )


@functools.cache
def _compiled(skeleton: Skeleton) -> Any:
    """Operator tables of each step; a compilation of its own, so that predictions and fits do not
    carry them."""
    from dse.scoring.explain import step_table

    def tables(numbers: Any, theta: Any) -> dict[str, Any]:
        steps = _steps(skeleton.equation, *arguments(skeleton, numbers, theta))
        return {name: step_table(step) for name, step in steps.items()}

    return jax.jit(tables, compiler_options=COMPILER_OPTIONS)


def _steps(equation: str, parts: Any, n: Any, static: Any, theta: Any) -> dict[str, StepTime]:
    if equation == "training":
        point = trained(parts, theta)
        return {"step": point.forward if static["metric"] == "forward" else point.step}
    if equation == "serving":
        steps = served(parts, theta)
        return {"prefill": steps.prefill, "decode": steps.decode}
    return {"step": microbenchmark_step(equation, parts, n, static, theta)}


def _times(case: Case) -> dict[str, float]:
    """How often each step runs in the time that the row measured."""
    from models.lowering import prefill_phase

    if case.equation != "serving":
        return {"step": 1.0}
    d, w, static = case.parts["deployment"], case.parts["workload"], dict(case.static)
    if static["kind"] == "decode" or static["metric"] == "itl_s":
        return {"prefill": 0.0, "decode": 1.0}
    chunks = float(prefill_phase(d, w).steps)
    if static["kind"] == "prefill" or static["metric"] == "ttft_s":
        return {"prefill": chunks, "decode": 0.0}
    prompts = d.batch / d.data / d.request_groups
    return {"prefill": chunks * prompts, "decode": float(w.output_tokens)}


def _host_s(case: Case, theta: Mapping[str, float], times: Mapping[str, float]) -> float:
    if case.equation != "serving":
        return 0.0
    d = case.parts["deployment"]
    rides = dict(case.static)["mixed"] and times["decode"] > 0  # the host works once for both
    chunk_s = (0.0 if rides else theta[HOST_STEP_S]) + theta[HOST_SEQUENCE_S]
    decode_s = theta[HOST_STEP_S] + theta[HOST_SEQUENCE_S] * d.batch / d.data
    return float(times["prefill"] * chunk_s + times["decode"] * decode_s)


def explain(
    records: Sequence[Record],
    rows: Sequence[Measurement],
    with_host: bool,
    misses: Callable[[Record], bool] = missed,
) -> list[Record]:
    """The records, those that miss with `bound_by`; `rows` are their measurements."""
    from dse.validation.predictor import fitting, prepare, with_host_time
    from hwmodel.theta import central

    known = {m.id: m for m in rows}
    asked = {r.id for r in records if r.id in known and misses(r)}
    found = []
    with counting("what bounds rows that miss", len(asked)) as count:
        for r in records:
            if r.id not in asked:
                found.append(r)
                continue
            m = known[r.id]
            case = prepare(m).case
            theta = with_host_time(central(), host_time(m) if with_host else NONE)
            if case is not None:
                case, _ = fitting(case, theta)
                r = dataclasses.replace(r, bound_by=bound_by(case, theta))
            found.append(r)
            count(1)
    return found
