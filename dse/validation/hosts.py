"""Host time of serving software: one pair per stack and version, the only per-source constants.

A step of a serving engine costs the device time and, on the host, `host_step_s` plus
`host_sequence_s` for each running sequence. The pairs are fitted by `dse.validation.fit` on half of
each stack's rows and kept in `hwmodel/calibration/hosts.yaml`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from typing import Any

from dse.validation.measurements import Measurement


@dataclass(frozen=True)
class HostTime:
    """Seconds per step and per running sequence and step."""

    step_s: float = 0.0
    sequence_s: float = 0.0


NONE = HostTime()


def stack_key(m: Measurement) -> str:
    """Name of a stack and its version, as in the file."""
    return f"{m.stack} {m.stack_version}".strip()


def host_time(m: Measurement) -> HostTime:
    """The pair of the row's stack; zero where none was fitted."""
    entry = pairs().get(stack_key(m))
    return NONE if entry is None else HostTime(entry["step_s"], entry["sequence_s"])


@functools.cache
def pairs() -> dict[str, Any]:
    """All fitted pairs by stack: step_s, sequence_s, and rows, the ids they were fitted on."""
    import yaml

    file = resources.files("hwmodel").joinpath("calibration", "hosts.yaml")
    loaded: dict[str, Any] = yaml.safe_load(file.read_text()) or {}
    return loaded
