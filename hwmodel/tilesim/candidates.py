"""Block shapes worth trying: powers of two from the largest hardware tile up to whole dimensions.

A candidate is (rows, depth, columns, groups per step, rows outermost). Sizes are clipped to the
problem and raised to the matrix unit's own tile afterwards, so one table serves every shape.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from hwmodel.tilesim.pipeline import Array

WHOLE = 2.0**40
"""A block of the whole dimension, whatever its size."""

_ROWS = (256.0, 512.0, 1024.0, 2048.0, WHOLE)
_DEPTHS = (512.0, 1024.0, 2048.0, WHOLE)
_COLUMNS = (256.0, 512.0, 1024.0, 2048.0, 4096.0, WHOLE)
_CACHE = (256.0, 512.0, 1024.0, 2048.0, 4096.0, WHOLE)
_TOGETHER = (2.0, 4.0, 8.0, 16.0, 32.0)


@functools.cache
def matmul_blocks() -> Array:
    """[C, 5]: rows, depth, columns, groups per step, 1 where rows are the outermost loop."""
    single = list(itertools.product(_ROWS, _DEPTHS, _COLUMNS, (1.0,), (1.0, 0.0)))
    together = [(WHOLE, WHOLE, WHOLE, groups, 1.0) for groups in _TOGETHER]
    return np.array(single + together)


@functools.cache
def attention_blocks() -> Array:
    """[C, 3]: query rows, cache entries, groups per step."""
    single = list(itertools.product(_ROWS, _CACHE, (1.0,)))
    together = list(itertools.product((WHOLE,), _CACHE, _TOGETHER))
    return np.array(single + together)


@functools.cache
def stream_blocks() -> Array:
    """[C]: parts into which a stream is cut."""
    return 2.0 ** np.arange(11)


def fit(total: Array, wanted: Array, tile: Array | float) -> Array:
    """A block of `wanted` elements of a dimension of `total`, at least one hardware tile."""
    return np.minimum(total, np.maximum(wanted, tile))
