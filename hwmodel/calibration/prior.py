"""What was believed of a fitted constant before any fit: the prior that keeps the fit physical."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Prior:
    """An estimate with its range, and the unbounded coordinate it is fitted in.

    A constant whose range stays within (0, 1) and that is a share is fitted as its logit, every
    other one as its logarithm. The range is taken as the central 80 % of a normal distribution
    there.
    """

    estimate: float
    low: float
    high: float
    share: bool = False

    def coordinate(self, value: float) -> float:
        """The unbounded coordinate of a value."""
        if self.share:
            value = min(max(value, 1e-3), 1 - 1e-3)
            return math.log(value / (1 - value))
        return math.log(value)

    def value(self, x: float) -> float:
        """The value at an unbounded coordinate."""
        return 1 / (1 + math.exp(-x)) if self.share else math.exp(x)

    @property
    def centre(self) -> float:
        """Coordinate of the estimate."""
        return self.coordinate(self.estimate)

    @property
    def width(self) -> float:
        """Standard deviation of the coordinate."""
        return (self.coordinate(self.high) - self.coordinate(self.low)) / (2 * 1.2816)


@functools.cache
def priors() -> dict[str, Prior]:
    """The prior of every fitted constant, by name (`prior` of `hwmodel/data/theta_fitted.yaml`)."""
    import yaml

    file = resources.files("hwmodel").joinpath("data", "theta_fitted.yaml")
    loaded: dict[str, Any] = yaml.safe_load(file.read_text())
    return {
        name: Prior(
            estimate=float(entry["prior"]["value"]),
            low=float(entry["prior"]["low"]),
            high=float(entry["prior"]["high"]),
            share=entry["unit"] == "1",
        )
        for name, entry in loaded.items()
    }
