"""A fit to the data files it belongs in: `theta_fitted.yaml` and `hosts.yaml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dse.validation.fit import Fitted

_HEAD = """\
# Constants fitted to measured rows by `python -m dse.validation.fit`, which writes value, low, high
# (80 %) and kind. `prior` is the estimate before any fit, with its 80 % range, and `source` says
# where the prior comes from. None belongs to one chip, model, row or source.
"""

_HOSTS_HEAD = """\
# Host time of serving software, one pair per stack and version, fitted by `python -m
# dse.validation.fit` on the rows listed, at most half of the stack's. s per step, and s per running
# sequence and step.
"""


def write(fitted: Fitted, folder: Path) -> None:
    """Write both files below `folder`, the package `hwmodel`."""
    path = folder / "data" / "theta_fitted.yaml"
    path.write_text(_HEAD + "".join(_entry(n, e, fitted) for n, e in _read(path).items()))
    hosts = "".join(
        f"{stack!r}:\n  step_s: {_short(host.step_s)}\n  sequence_s: {_short(host.sequence_s)}\n"
        f"  rows: [{', '.join(fitted.host_rows[stack])}]\n"
        for stack, host in fitted.hosts.items()
    )
    (folder / "calibration" / "hosts.yaml").write_text(_HOSTS_HEAD + hosts)


def _read(path: Path) -> dict[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def _entry(name: str, entry: dict[str, Any], fitted: Fitted) -> str:
    low, high = fitted.ranges[name]
    prior = entry["prior"]
    ends = ", ".join(f"{key}: {_short(float(prior[key]))}" for key in ("value", "low", "high"))
    return (
        f"{name}:\n"
        f"  {{value: {_short(fitted.values[name])}, low: {_short(low)}, high: {_short(high)}, "
        f'unit: "{entry["unit"]}", kind: fitted,\n'
        f"   prior: {{{ends}}},\n"
        f'   source: "{entry["source"]}"}}\n'
    )


def _short(value: float) -> str:
    """Four significant digits, in a form that YAML reads as a number."""
    text = f"{value:.4g}"
    mantissa, e, exponent = text.partition("e")
    if e and "." not in mantissa:
        mantissa += ".0"
    return mantissa + e + exponent
