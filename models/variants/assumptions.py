"""Quality bands that a study assumes, where no published law covers a choice.

A choice with an assumed band sets the pair `<transform>_nats_low`, `<transform>_nats_high` of
`Variant`, which replaces the law of that transform; a choice without one keeps the law. Two knobs
of one transform (experts_scale and top_k) add their bands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from models.variants.registry import transform_of

if TYPE_CHECKING:
    from models.architecture import Architecture


def requires_assumption(arch: Architecture, knob: str, values: Sequence[Any]) -> str | None:
    """Why a study that offers `values` for `knob` must assume a quality band, or None.

    `values` are the choices that have no band yet; the other knobs are taken as neutral. The answer
    names the choice and the reason.

    Raises:
        KeyError: `knob` is no `Variant` field that a transform reads.
    """
    transform = transform_of(knob)
    for value in values:
        reason = transform.missing_law(arch, knob, value)
        if reason is not None:
            return f"{knob} = {value:g} changes {arch.name}, and {reason}"
    return None


def unpriced_choice(arch: Architecture, fields: Mapping[str, float]) -> str | None:
    """`requires_assumption` for a choice that sets several `Variant` fields at once.

    N:M sparsity is judged as a pair (4:16 is within the law, 1:16 is not); other fields one by one.
    """
    fields = dict(fields)
    if {"nm_n", "nm_m"} <= set(fields):
        n, m = fields.pop("nm_n"), fields.pop("nm_m")
        reason = requires_assumption(arch, "nm_m", [m / n])
        if reason is not None:
            return reason.replace(f"nm_m = {m / n:g}", f"{n:g}:{m:g} sparsity", 1)
    for knob, value in fields.items():
        reason = requires_assumption(arch, knob, [value])
        if reason is not None:
            return reason
    return None


def needs_training_tokens(arch: Architecture, knob: str, values: Sequence[Any]) -> bool:
    """Whether the law of any of the choices depends on the number of training tokens (4 bits)."""
    if knob == "weight_bits":
        return 4 in values and arch.released_weight_bits > 4
    return knob == "activation_bits" and 4 in values


def check_band(low: float, high: float) -> None:
    """Refuse an assumed band that is no quality loss.

    Raises:
        ValueError: not 0 <= low <= high with high finite and above 0. A high of 0 would say that an
            inexact change is free, and could not be told from "nothing assumed".
    """
    if not (math.isfinite(high) and 0 <= low <= high and high > 0):
        raise ValueError(
            "a quality band needs 0 <= low <= high and high > 0 in nats per token (an inexact "
            f"change is never assumed to be free), not low {low:g}, high {high:g}"
        )
