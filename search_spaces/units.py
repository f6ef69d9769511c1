"""Numbers with units: `"1.75 GHz"`, `"128 MiB"`, `"50 ms"`, `"900 GB/s"`, or plain numbers.

A unit is a quotient of terms (`GB/s`, `tokens/s/chip`, `USD/Mtoken`), each a base unit with an
optional decimal or binary prefix. A plain number is taken to be in the unit that the knob or metric
states. Case matters, as in SI: `Gb` is gigabits, `GB` gigabytes, `ms` milliseconds, `MB` megabytes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from search_spaces.errors import UnitError
from search_spaces.nearest import suggestion

Dimension = tuple[tuple[str, int], ...]  # sorted (base unit, exponent) pairs; () is a plain number

_PREFIXES = {
    "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "P": 1e15, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip
# name -> (base unit, factor); None is dimensionless
_BASES: dict[str, tuple[str | None, float]] = {
    "B": ("B", 1.0),
    "byte": ("B", 1.0),
    "bytes": ("B", 1.0),
    "b": ("B", 0.125),
    "bit": ("B", 0.125),
    "bits": ("B", 0.125),
    "Hz": ("Hz", 1.0),
    "s": ("s", 1.0),
    "min": ("s", 60.0),
    "h": ("s", 3600.0),
    "W": ("W", 1.0),
    "J": ("J", 1.0),
    "FLOP": ("FLOP", 1.0),
    "USD": ("USD", 1.0),
    "$": ("USD", 1.0),
    "mm2": ("mm2", 1.0),
    "mm²": ("mm2", 1.0),
    "cm2": ("mm2", 100.0),
    "cm²": ("mm2", 100.0),
    "nat": ("nat", 1.0),
    "nats": ("nat", 1.0),
    "token": ("token", 1.0),
    "tokens": ("token", 1.0),
    "chip": ("chip", 1.0),
    "chips": ("chip", 1.0),
    "user": ("user", 1.0),
    "users": ("user", 1.0),
    "sequence": ("sequence", 1.0),
    "sequences": ("sequence", 1.0),
    "parameter": ("parameter", 1.0),
    "parameters": ("parameter", 1.0),
    "%": (None, 0.01),
    "x": (None, 1.0),
    "share": (None, 1.0),
    "1": (None, 1.0),
}
_PREFIXABLE = (
    "B", "b", "byte", "bytes", "bit", "bits", "Hz", "s", "W", "J", "FLOP", "USD", "token", "tokens",
    "nat", "nats", "parameters",
)  # fmt: skip
_NAMES: dict[Dimension, str] = {
    (): "a plain number",
    (("B", 1),): "a size",
    (("B", 1), ("s", -1)): "a bandwidth",
    (("Hz", 1),): "a frequency",
    (("s", 1),): "a time",
    (("W", 1),): "a power",
    (("J", 1),): "an energy",
    (("mm2", 1),): "an area",
    (("USD", 1),): "an amount of money",
    (("token", 1),): "a number of tokens",
}
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Unit:
    """A parsed unit: `factor` converts to base units (bytes, seconds, Hz, ...)."""

    text: str
    factor: float
    dimension: Dimension

    def describe(self) -> str:
        """What it measures, in words."""
        named = _NAMES.get(self.dimension)
        if named is None:
            return f"a quantity in {self.text}"
        return f"{named} in {self.text}" if self.dimension else named


def parse_unit(text: str) -> Unit | None:
    """The unit that `text` names, or None where a term of it is unknown. "" is a plain number."""
    factor = 1.0
    exponents: dict[str, int] = {}
    for position, term in enumerate(text.split("/") if text else []):
        found = _term(term.strip())
        if found is None:
            return None
        base, scale = found
        sign = 1 if position == 0 else -1
        factor *= scale**sign
        if base is not None:
            exponents[base] = exponents.get(base, 0) + sign
    return Unit(text, factor, tuple(sorted((b, e) for b, e in exponents.items() if e)))


def _term(term: str) -> tuple[str | None, float] | None:
    if term in _BASES:
        return _BASES[term]
    for prefix, scale in _PREFIXES.items():
        base = term.removeprefix(prefix)
        if base != term and base in _PREFIXABLE:
            name, factor = _BASES[base]
            return name, factor * scale
    return None


def parse_quantity(value: object, unit: str, what: str) -> float:
    """`value` as a number in `unit`.

    value: a number (already in `unit`) or text such as "1.75 GHz". unit: a unit as written in the
    catalog ("GHz", "MiB", "cores"); one that is not made of known terms only accepts plain numbers
    or itself. what: the knob or metric, for messages.
    Raises UnitError for text that is no number, an unknown unit, a unit of another kind, or a
    number that is not finite.
    """
    number, given = _split(value, unit, what)
    if not math.isfinite(number):
        raise UnitError(f"{what}: {_show(value)} is not a finite number")
    if given in ("", unit):
        return number
    target = parse_unit(unit)
    if target is None:
        raise UnitError(f"{what}: {_show(value)} does not fit; give a plain number of {unit}")
    parsed = parse_unit(given)
    if parsed is None:
        raise UnitError(f"{what}: unknown unit {given!r} in {_show(value)}; {_fits(target, given)}")
    if parsed.dimension != target.dimension:
        raise UnitError(
            f"{what}: {_show(value)} is {parsed.describe()}, which does not fit; "
            f"{what} takes {target.describe()}, such as {_example(target)}"
        )
    return _tidy(number * parsed.factor / target.factor)


def _split(value: object, unit: str, what: str) -> tuple[float, str]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    match = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        wanted = f"a number in {unit}" if unit else "a number"
        raise UnitError(f"{what}: {_show(value)} is not {wanted}")
    return float(match.group(1)), match.group(2).strip()


def _tidy(number: float) -> float:
    """Undo the rounding of a decimal conversion (1750 MHz is 1.75 GHz, not 1.7500000000000002)."""
    return float(f"{number:.14g}")


def _fits(target: Unit, given: str) -> str:
    candidates = [target.text, *(p + b for p in _PREFIXES for b in _PREFIXABLE)]
    return f"{suggestion(given, candidates)} (it takes {target.describe()})"


def _example(target: Unit) -> str:
    return repr(f"1 {target.text}") if target.text else "1"


def _show(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
