"""HBM generations as choices of the `hbm_generation` knob; the facts are hwmodel's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources

import yaml


@cache
def generations() -> Mapping[str, Mapping[str, float]]:
    """Label ("hbm3e") -> central value of each fact of that generation's usual stack, SI units."""
    text = resources.files("hwmodel").joinpath("data/hbm_generations.yaml").read_text("utf-8")
    return {
        name.lower(): {fact: float(cell["value"]) for fact, cell in row.items()}
        for name, row in yaml.safe_load(text).items()
    }
