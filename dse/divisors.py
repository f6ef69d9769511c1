"""Whole numbers that divide a number or are multiples of one: degrees, sides and batches."""

from __future__ import annotations

import math


def divisors(n: int) -> list[int]:
    """Those of `n`, ascending; none of 0."""
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return low + [n // d for d in reversed(low) if d * d != n]


def multiples_around(n: int, step: int) -> list[int]:
    """The multiples of `step` at or below `n` and above it, without zero."""
    below = n // step * step
    return [m for m in (below, below + step) if m > 0]
