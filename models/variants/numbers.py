"""Arithmetic that accepts Python numbers, NumPy arrays and traced JAX scalars alike.

Python numbers stay Python numbers (full float64 without any JAX import); anything else goes through
`jax.numpy`, so the same transform serves `dse models show` and the batched evaluation.
"""

from __future__ import annotations

from typing import Any

from hwmodel.whole import floor_div

Number = Any  # int, float, NumPy array or traced JAX scalar

_ROUNDING_GUARD = 1e-9
"""Added before the floor: XLA may fuse `count * scale + 0.5`, which moves halves by one ulp."""


def is_plain(*values: Number) -> bool:
    """Whether all `values` are Python numbers."""
    return all(isinstance(v, int | float) for v in values)


def where(condition: Number, if_true: Number, if_false: Number) -> Number:
    """`if_true` where `condition` holds, else `if_false`."""
    if isinstance(condition, int | float):
        return if_true if condition else if_false
    import jax.numpy as jnp

    return jnp.where(condition, if_true, if_false)


def maximum(a: Number, b: Number) -> Number:
    """The larger of two numbers."""
    if is_plain(a, b):
        return max(a, b)
    import jax.numpy as jnp

    return jnp.maximum(a, b)


def minimum(a: Number, b: Number) -> Number:
    """The smaller of two numbers."""
    if is_plain(a, b):
        return min(a, b)
    import jax.numpy as jnp

    return jnp.minimum(a, b)


def power(base: Number, exponent: float) -> Number:
    """`base ** exponent` for base > 0; traced as exp(exponent * log(base)), so XLA shares logs."""
    if is_plain(base):
        return float(base) ** exponent
    import jax.numpy as jnp

    return jnp.exp(exponent * jnp.log(base))


def both(a: Number, b: Number) -> Number:
    """Logical and of two conditions (plain `bool` or arrays)."""
    return (a and b) if is_plain(a, b) else a & b


def either(a: Number, b: Number) -> Number:
    """Logical or of two conditions (plain `bool` or arrays)."""
    return (a or b) if is_plain(a, b) else a | b


def negate(a: Number) -> Number:
    """Logical not of a condition (plain `bool` or array)."""
    return (not a) if is_plain(a) else ~a


def nearest_whole(count: Number, scale: Number) -> Number:
    """The whole number nearest to `count * scale`, halves up, for count >= 0 and scale >= 0.

    A product, not a quotient, is rounded: `hwmodel.whole` covers the quotients.
    """
    value = count * scale + 0.5 + _ROUNDING_GUARD
    if is_plain(value):
        return float(int(value))
    import jax.numpy as jnp

    return jnp.floor(value)


def divides(divisor: Number, value: Number) -> Number:
    """Whether the whole number `divisor` (0 counts as 1) divides the whole number `value`."""
    safe = maximum(divisor, 1)
    return floor_div(value, safe) * safe == value
