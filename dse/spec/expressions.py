"""Objectives (`minimize: worst_regret(ttft_s)`) and constraints (`ttft_s <= 2 s`) as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dse.metrics import Metric, metrics
from search_spaces.errors import SpaceError
from search_spaces.nearest import suggestion
from search_spaces.units import parse_quantity

Number = Any  # float or NumPy array
Direction = Literal["maximize", "minimize"]
Aggregate = Literal["value", "mean", "worst", "worst_regret"]
AGGREGATES: tuple[str, ...] = ("mean", "worst", "worst_regret")

_CALL = re.compile(r"\s*(\w+)\s*(?:\(\s*(\w+)\s*\))?\s*")
_CONSTRAINT = re.compile(
    r"\s*([A-Za-z_]\w*)\s*(?:/\s*([A-Za-z_]\w*)\s*)?(<=|>=)\s*(.+?)\s*", re.DOTALL
)


@dataclass(frozen=True)
class Objective:
    """One objective. `text` is its name in scores: the metric, or `mean(metric)` and so on.

    aggregate: `value` for one assignment or a chip metric; over a portfolio `mean` (weighted),
    `worst`, or `worst_regret`: the largest loss of an assignment against its own best, as a share.
    """

    direction: Direction
    metric: str
    aggregate: Aggregate
    text: str

    @property
    def name(self) -> str:
        """The key of its value among a candidate's metrics: `text`."""
        return self.text


@dataclass(frozen=True)
class Constraint:
    """`numerator [/ divisor] op limit`, the limit in the unit that the metrics are stored in.

    `metric` is the key of the constrained value among a candidate's metrics: the metric's name, or
    "numerator / divisor". In a portfolio the constraint holds for each assignment.
    """

    metric: str
    numerator: str
    divisor: str | None
    op: Literal["<=", ">="]
    limit: float
    text: str

    def value(self, scores: Mapping[str, Number]) -> Number:
        """The constrained quantity, from metric values by name."""
        value = scores[self.numerator]
        return value if self.divisor is None else value / scores[self.divisor]

    def violation(self, value: Number) -> Number:
        """value/limit - 1, negated for >=: positive where violated, and comparable between
        constraints. With a limit of 0 there is no scale, and it is the plain difference."""
        scale = abs(self.limit) or 1.0
        difference = (value - self.limit) / scale
        return difference if self.op == "<=" else -difference


def parse_objective(raw: object, portfolio: bool) -> Objective:
    """One entry of `objectives`. Raises SpaceError for anything that cannot be searched for."""
    if not (isinstance(raw, dict) and len(raw) == 1):
        raise SpaceError(f"{raw!r} should be maximize: METRIC or minimize: METRIC")
    ((direction, expression),) = raw.items()
    if direction not in ("maximize", "minimize"):
        hint = suggestion(str(direction), ("maximize", "minimize"))
        raise SpaceError(f"unknown direction {direction!r}; {hint}")
    match = _CALL.fullmatch(expression) if isinstance(expression, str) else None
    if match is None:
        raise SpaceError(f"{expression!r} should be a metric, or {' or '.join(_calls())} of one")
    first, argument = match.groups()
    if argument is None:
        return _plain(direction, find_metric(first), portfolio)
    return _aggregated(direction, first, find_metric(argument), portfolio)


def parse_constraint(raw: object) -> Constraint:
    """One constraint. Raises SpaceError (UnitError for a unit that is not the metric's)."""
    match = _CONSTRAINT.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        raise SpaceError(
            f"{raw!r} should be METRIC <= NUMBER or METRIC >= NUMBER, such as ttft_s <= 500 ms"
        )
    name, divisor, op, limit_text = match.groups()
    unit = find_metric(name).unit
    if divisor is not None:
        unit = _quotient_unit(find_metric(name), find_metric(divisor))
    key = name if divisor is None else f"{name} / {divisor}"
    limit = parse_quantity(limit_text, unit, key)
    if op == "<=" and limit < 0 and unit != "nats/token":
        raise SpaceError(f"{key} is never negative, so nothing can be within {limit_text}")
    return Constraint(
        metric=key,
        numerator=name,
        divisor=divisor,
        op="<=" if op == "<=" else ">=",
        limit=limit,
        text=f"{key} {op} {limit_text}",
    )


def find_metric(name: str) -> Metric:
    """The metric called `name`; raises SpaceError with the nearest name."""
    known = metrics()
    if name not in known:
        raise SpaceError(f"no metric is called {name!r}; {suggestion(name, known)}")
    return known[name]


def _plain(direction: Direction, metric: Metric, portfolio: bool) -> Objective:
    _check_direction(direction, metric)
    if portfolio and metric.scope == "assignment":
        calls = " or ".join(f"{name}({metric.name})" for name in AGGREGATES)
        raise SpaceError(f"{metric.name} has one value for each assignment here; say {calls}")
    return Objective(direction, metric.name, "value", metric.name)


def _aggregated(direction: Direction, name: str, metric: Metric, portfolio: bool) -> Objective:
    if name not in AGGREGATES:
        raise SpaceError(f"unknown function {name!r}; {suggestion(name, AGGREGATES)}")
    text = f"{name}({metric.name})"
    if not portfolio:
        raise SpaceError(f"{text} is over a portfolio, which this study has not; say {metric.name}")
    if metric.scope == "chip":
        raise SpaceError(f"{metric.name} is the same for all assignments; say it without {name}")
    if name == "worst_regret":
        if direction != "minimize":
            raise SpaceError(f"{text} is a loss; it should be minimized")
        if metric.better == "either":
            raise SpaceError(f"{metric.name} has no best value, so there is no regret")
    else:
        _check_direction(direction, metric)
    aggregate: Any = name
    return Objective(direction, metric.name, aggregate, text)


def _check_direction(direction: Direction, metric: Metric) -> None:
    right = {"higher": "maximize", "lower": "minimize"}.get(metric.better, direction)
    if direction != right:
        raise SpaceError(f"{metric.name} is better {metric.better}; it should be {right}d")


def _quotient_unit(metric: Metric, divisor: Metric) -> str:
    if metric.unit == divisor.unit:
        return ""
    if "/" in divisor.unit:
        raise SpaceError(f"{metric.name} / {divisor.name} has no unit that a limit can be given in")
    return f"{metric.unit}/{divisor.unit}"


def _calls() -> list[str]:
    return [f"{name}(...)" for name in AGGREGATES]
