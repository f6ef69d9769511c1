"""theta: every fitted constant and every estimated physical field, with a range and a source.

The data live in `hwmodel/data/theta_*.yaml`, one entry per constant:

    mxu_area_mm2_per_mac_7nm: {value: 6.7e-4, low: 2.6e-4, high: 1.5e-3, unit: mm2, kind: estimate,
                               source: "..."}

`kind` is `published`, `fitted` or `estimate`. Inside the model theta is a plain dict from name to
number, which JAX treats as a pytree: the hot path passes the central values, intervals pass draws.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

Theta = Mapping[str, Any]


@dataclass(frozen=True)
class Constant:
    """One entry of theta: central value, range, unit, kind of evidence and source."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    kind: str
    source: str


@functools.cache
def constants() -> dict[str, Constant]:
    """All constants by name, read from the package's data files."""
    import yaml

    found: dict[str, Constant] = {}
    for file in sorted(resources.files("hwmodel").joinpath("data").iterdir(), key=lambda f: f.name):
        if file.name.startswith("theta_") and file.name.endswith(".yaml"):
            for name, entry in yaml.safe_load(file.read_text()).items():
                if name in found:
                    raise ValueError(f"{file.name}: constant '{name}' is defined twice")
                found[name] = Constant(
                    name=name,
                    value=float(entry["value"]),
                    low=float(entry["low"]),
                    high=float(entry["high"]),
                    unit=str(entry["unit"]),
                    kind=str(entry["kind"]),
                    source=str(entry["source"]),
                )
    return found


def central() -> dict[str, float]:
    """The central value of every constant."""
    return {name: c.value for name, c in constants().items()}


def draws(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """`count` paired draws of every constant, arrays of shape [count]; see `quantile`.

    Each constant is drawn independently.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    return {
        name: quantile(c.low, c.value, c.high, rng.random(count))
        for name, c in sorted(constants().items())
    }


def quantile(low: float, value: float, high: float, shares: np.ndarray) -> np.ndarray:
    """Values of an estimate at the quantiles `shares` in [0, 1), any shape.

    The sources give a central value and a range. The central value is taken as the median and the
    density rises linearly from either end of the range to it, half of the probability on each side:
    a one-sided range widens one side and does not move the centre.
    """
    import numpy as np

    below = low + (value - low) * np.sqrt(2 * shares)
    above = high - (high - value) * np.sqrt(2 * (1 - shares))
    return np.where(shares < 0.5, below, above)
