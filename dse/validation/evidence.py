"""The interval of a metric, and the evidence behind it.

A metric that says how fast something runs is as wrong as measured rows of its class were predicted.
One that says what a chip costs or draws has no measured rows for most chips; its interval is the
spread of paired draws of the uncertain constants. One that is both, such as dollars per token, adds
the two in quadrature in log space: the error of the speed and that of the price are independent.

The rows were predicted by the analytical rung. A speed of the tile rung is as far from the truth as
that, and as far from the analytical rung as the rungs usually are: the two add up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dse.metrics import metrics
from dse.validation.classes import called
from dse.validation.intervals import Calibration, Spread
from hwmodel.rungs import apart

CLASSES = ("prefill", "decode", "serve", "train")
"""Classes that a metric may name; `kind_of` makes them kinds of records."""

Ratios = tuple[float, float]
"""Low and high end of an estimate over its central value."""


@dataclass(frozen=True)
class Interval:
    """80 % interval of a number, and in words what it rests on.

    widened: how many times wider than nearby ones, for the distance from what was measured.
    """

    low: float
    high: float
    evidence: str
    widened: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """As `--json` gives it."""
        return asdict(self)


@dataclass(frozen=True)
class Case:
    """What the intervals of one candidate depend on.

    features: of each class of prediction, for each assignment that the number covers. moe, gpu:
    whether the model has routed experts, and whether the chip is a GPU. estimates: ratios of the
    paired draws, by metric. tile: whether the numbers are of the tile rung.
    """

    features: Mapping[str, Sequence[Mapping[str, float]]]
    moe: bool
    gpu: bool
    estimates: Mapping[str, Ratios]
    tile: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain data, the inverse of `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Case:
        """A case from a file. Raises KeyError, TypeError or ValueError where it is damaged."""
        features = {
            str(name): [{str(k): float(v) for k, v in one.items()} for one in several]
            for name, several in data["features"].items()
        }
        estimates = {
            str(k): (float(low), float(high)) for k, (low, high) in data["estimates"].items()
        }
        return cls(features, bool(data["moe"]), bool(data["gpu"]), estimates, bool(data["tile"]))


def kind_of(name: str, *, moe: bool, gpu: bool) -> str:
    """The kind of measured rows that stands for a class of prediction."""
    if name == "train":
        kind = "train_moe" if moe else "train_dense"
        return "gpu" if gpu else kind
    if gpu:
        return "gpu_ttft" if name == "prefill" else "gpu_tpot"
    return name


def interval(metric: str, value: float, case: Case, source: Calibration) -> Interval | None:
    """That of a metric's value; None where it has none, or nothing was measured or estimated.

    metric: as in `metrics.yaml`; an aggregate over a portfolio goes by the metric inside it.
    """
    inner = metric.rpartition("(")[2].rstrip(")").rpartition(".")[2]
    known = None if metric.startswith("worst_regret(") else metrics().get(inner)
    if known is None or not known.interval or not value or not math.isfinite(value):
        return None
    low = high = 0.0
    widened = 1.0
    evidence = []
    for part in known.interval.split(", "):
        ends: Ratios | None = None
        if part in CLASSES:
            spread = _widest(part, case, source)
            if spread is not None:
                half = spread.log_half_width
                evidence.append(f"measured {called(spread.name)}, n={spread.n}")
                if case.tile:
                    between = apart(part, moe=case.moe)
                    half += between
                    evidence[-1] += f", by the analytical rung, and {math.expm1(between):.0%} "
                    evidence[-1] += "that the rungs lie apart"
                ends = (-half, half)
                widened = spread.factor
        else:
            ratios = case.estimates.get(known.name if part == "draws" else part)
            if ratios is not None:
                ends = (math.log(min(ratios[0], 1.0)), math.log(max(ratios[1], 1.0)))
                evidence.append("estimate range")
        if ends is None:
            return None  # half of the error is unknown: half an interval would look better
        low, high = math.hypot(low, ends[0]), math.hypot(high, ends[1])
    size = abs(value)
    bottom, top = value - size * (1 - math.exp(-low)), value + size * (math.exp(high) - 1)
    return Interval(bottom, top, " and ".join(evidence), widened)


def _widest(name: str, case: Case, source: Calibration) -> Spread | None:
    """The spread of the assignment that lies farthest from what was measured."""
    kind = kind_of(name, moe=case.moe, gpu=case.gpu)
    found = [source.spread(kind, features) for features in case.features.get(name, ({},))]
    known = [spread for spread in found if spread is not None]
    return max(known, key=lambda s: s.log_half_width) if len(known) == len(found) else None
