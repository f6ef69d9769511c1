"""The metrics that a study may name: `metrics.yaml`, read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

import yaml


@dataclass(frozen=True)
class Metric:
    """One metric: `unit` of the stored number, which way is `better`, and what it belongs to.

    workload: the kind of workload that has it, `any` for both.
    interval: what its interval is taken from (see `metrics.yaml`), "" where it has none.
    """

    name: str
    unit: str
    better: Literal["higher", "lower", "either"]
    scope: Literal["chip", "assignment"]
    meaning: str
    workload: Literal["serve", "train", "any"] = "serve"
    interval: str = ""


@cache
def metrics() -> Mapping[str, Metric]:
    """All metrics by name, in file order."""
    text = resources.files("dse").joinpath("metrics.yaml").read_text("utf-8")
    return {name: Metric(name=name, **raw) for name, raw in yaml.safe_load(text).items()}
