"""What a measured row can say at all: metrics of its kind, devices of its chip, rates below peak.

A row that says more than its machine can do is a slip of the pen: predicted anyway, its error would
count among real ones. It is skipped, with the field, the value and the limit.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import TYPE_CHECKING

from dse.validation.measurements import (
    METRICS,
    METRICS_OF,
    Measurement,
    MissingField,
    more_is_better,
)
from hwmodel import presets

if TYPE_CHECKING:
    from dse.validation.cases import Case
    from hwmodel.chip import Chip

KIND_OF_OP: Mapping[str, str] = {
    "matmul": "matmul",
    "hbm_copy": "hbm",
    "all_gather": "collective",
    "reduce_scatter": "collective",
    "all_reduce": "collective",
    "collective_matmul": "collective",
}
"""workload_kind of the operations that `arch` may state."""

DEGREES = ("dp", "fsdp", "tp", "ep", "pp", "cp", "attn_dp")

PEAK_MARGIN = 1.01
"""Measured over peak up to which a row is believed: published peaks are rounded."""

SERVING_MARGIN = 2.0
"""The same for token rates: their FLOPs count the embedding and the last layer for every token,
up to half of a small model, and cached prompts are not computed at all."""


def devices_per_chip(tpu: str, chip: Chip) -> int:
    """JAX devices that one chip may be: 1, or for two cores what
    `hwmodel/calibration/jax_devices.yaml` states."""
    return 1 if round(float(chip.cores)) != 2 else _devices_of_two_cores()[presets.canonical(tpu)]


@functools.cache
def _devices_of_two_cores() -> dict[str, int]:
    import yaml

    text = resources.files("hwmodel").joinpath("calibration", "jax_devices.yaml").read_text("utf-8")
    loaded: dict[str, int] = yaml.safe_load(text)["devices"]
    return loaded


def check_operation(m: Measurement) -> None:
    """Raises MissingField where `arch` and workload_kind speak of different work."""
    op = m.operation().get("op")
    wanted = KIND_OF_OP.get(str(op))
    if wanted is not None and m.workload_kind != wanted:
        raise MissingField(f"workload_kind {m.workload_kind} does not fit the op {op} of arch")
    if op is None and m.workload_kind in KIND_OF_OP.values():
        raise MissingField(
            f'arch: a {m.workload_kind} row needs a JSON object such as {{"op": ..}}'
        )


def check_devices(m: Measurement, chip: Chip) -> None:
    """Raises MissingField where `chips` is no number of devices, or the degrees need more of them.

    The experts, and replicas of attention, of a serving engine live on the devices of the tensor
    degree: each of them, and all others together, are held to the devices.
    """
    if m.chips is None:
        return
    each = devices_per_chip(m.tpu, chip)
    devices = m.chips * each
    if m.chips <= 0 or not devices.is_integer() or (m.chips > 1 and not m.chips.is_integer()):
        raise MissingField(f"chips {m.chips:g}: a {m.tpu} chip has {each} JAX device(s)")
    shared = () if m.workload_kind == "train" or "op" in m.operation() else ("ep", "attn_dp")
    groups = [tuple(d for d in DEGREES if d not in shared), *((name,) for name in shared)]
    for names in groups:
        stated = {name: value for name in names if (value := getattr(m, name)) not in (None, 1.0)}
        product = math.prod(stated.values())
        # A microbenchmark states only what it splits; half a chip may count as two devices of it.
        if product > max(devices, each):
            words = " x ".join(f"{name} {value:g}" for name, value in stated.items())
            raise MissingField(
                f"{words}: needs {product:g} devices; {m.chips:g} {m.tpu} chips have {devices:g}, "
                f"{each} each"
            )


def check_metric(m: Measurement) -> None:
    """Raises MissingField where this kind of row has no such metric."""
    known = METRICS_OF[m.workload_kind]
    if m.metric_std not in known:
        raise MissingField(
            f"metric_std {m.metric_std} is not predicted for a {m.workload_kind} row, only "
            f"{', '.join(known)}"
        )


def beyond_peak(c: Case, peak: float) -> str:
    """Why a measurement is better than the chip's peak allows; empty where it is not.

    peak: what the peak alone gives (`roofline.bounds`), in the unit of the metric.
    """
    m = c.measurement
    rate = more_is_better(m.metric_std)
    if c.equation == "serving" and not rate:
        return ""  # a mean over clients, or a batch cut to what fits: no bound for one row
    margin = SERVING_MARGIN if c.equation == "serving" else PEAK_MARGIN
    if (m.value_std <= peak * margin) if rate else (m.value_std * margin >= peak):
        return ""
    unit = "" if METRICS[m.metric_std] == "1" else f" {METRICS[m.metric_std]}"
    side = "is above" if rate else "is less than"
    form = f", {m.compute_dtype}" if m.compute_dtype else ""
    what = f"the peak of {m.tpu} (chips {m.chips:g}{form}) {'gives' if rate else 'needs'}"
    return (
        f"value_std: {m.metric_std} {m.value_std:.4g}{unit} {side} the {peak:.4g}{unit} that {what}"
    )


def choice(field: str, value: str, known: Iterable[str]) -> str:
    """The value, where the equations know it.

    Raises:
        MissingField: naming the field and what it may be.
    """
    names = tuple(known)
    if value not in names:
        raise MissingField(f"{field} {value!r} is not one of {', '.join(names)}")
    return value
