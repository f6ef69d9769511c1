"""Whether a number is known while a compilation is traced, so that branches can be left out.

A field that no knob sets is a Python number in the equations, every other one a traced scalar.
"""

from __future__ import annotations

from typing import Any

Number = Any


def is_literal(value: Number, number: float) -> bool:
    """True where `value` is a Python number equal to `number`; never for a traced one."""
    return isinstance(value, int | float) and value == number


def is_zero(value: Number) -> bool:
    """True where a field is statically zero, so that its operators are left out."""
    return is_literal(value, 0)


def is_one(value: Number) -> bool:
    """True where a degree is statically one, so that nothing is split."""
    return is_literal(value, 1)
