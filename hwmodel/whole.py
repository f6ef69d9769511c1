"""Exact whole-number arithmetic on float64 values: the only place where a quotient is rounded.

Counts, dimensions and degrees are whole numbers held in float64. Integer division is not a vector
instruction on today's CPUs, and the rounded float quotient of an exact multiple is wrong under jit,
where XLA turns `x / 300` into `x * (1 / 300)`. So every tile, shard and round-up is computed as

    ceil(a / b)  = floor((a + b - 1/2) / b)        floor(a / b) = floor((a + 1/2) / b)

For whole a and b the argument of floor is never closer than 1 / (2 b) to a whole number, so the
result is exact however the quotient is rounded, as long as a < 2**50.
"""

from __future__ import annotations

import math
from typing import Any

Number = Any  # whole number: int, float, NumPy array or traced JAX scalar


def floor_div(a: Number, b: Number) -> Number:
    """Largest whole q with q * b <= a, for whole 0 <= a < 2**50 and whole b >= 1."""
    if _plain(a, b):
        return float(int(a) // int(b)) if b else math.nan
    import jax.numpy as jnp

    return jnp.floor((a + 0.5) / b)


def ceil_div(a: Number, b: Number) -> Number:
    """Smallest whole q with q * b >= a, for whole 0 <= a < 2**50 and whole b >= 1."""
    if _plain(a, b):
        return float(-(-int(a) // int(b))) if b else math.nan
    import jax.numpy as jnp

    return jnp.floor((a + (b - 0.5)) / b)


def ceil_times(a: Number, inverse: Number) -> Number:
    """`ceil_div(a, b)` where only inverse = 1 / b is at hand: floor(a / b + 1 - 1 / (2 b)).

    Exact for whole a < 2**49; the division is done once for many a.
    """
    import jax.numpy as jnp

    return jnp.floor(a * inverse + (1 - 0.5 * inverse))


def round_up(a: Number, multiple: Number) -> Number:
    """Smallest multiple of `multiple` that is at least the whole number `a`."""
    return ceil_div(a, multiple) * multiple


def up(a: Number) -> Number:
    """Smallest whole number that is at least the real number `a` (an expected count, not a quotient
    of whole numbers)."""
    import jax.numpy as jnp

    return -jnp.floor(-a)


def divides(b: Number, a: Number) -> Number:
    """True where the whole number `b` divides `a` exactly."""
    return a == b * floor_div(a, b)


def _plain(a: Number, b: Number) -> bool:
    """Whether both are plain whole numbers; expected counts take the path of arrays."""
    return all(isinstance(x, int | float) and math.isfinite(x) and x == int(x) for x in (a, b))
