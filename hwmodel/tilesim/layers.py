"""Which layers have which operators: the segments of a step from the counts of its table."""

from __future__ import annotations

import math
from collections.abc import Sequence

MOST_PER_LAYER = 4.0


def arrange(counts: Sequence[float], layers: float) -> list[tuple[float, list[int]]]:
    """Segments (layers, rows of the table) in execution order.

    counts: executions of each row in one step. Rows with at most one execution stand alone, before
    or after the layers as in the table. Rows of one block have equal counts, or small multiples of
    the first row's (an exchange there and back). A block that fewer than all layers have takes
    consecutive ones, where the block before it ended.
    """
    layered = [i for i, count in enumerate(counts) if count > 1]
    before = [i for i, c in enumerate(counts) if 0 < c <= 1 and (not layered or i < layered[0])]
    after = [i for i, c in enumerate(counts) if 0 < c <= 1 and layered and i > layered[0]]
    segments = [(counts[i], [i]) for i in before]
    pieces = _pieces(counts, layered, layers)
    cuts = sorted({0.0, layers, *(edge for begin, end, _, _ in pieces for edge in (begin, end))})
    for low, high in zip(cuts, cuts[1:], strict=False):
        rows: list[int] = []
        for begin, end, row, times in pieces:
            if begin <= low and high <= end:
                rows += [row] * times
        if rows:
            segments.append((high - low, rows))
    return segments + [(counts[i], [i]) for i in after]


def _pieces(
    counts: Sequence[float], layered: Sequence[int], layers: float
) -> list[tuple[float, float, int, int]]:
    """Per row the spans of layers that have it: (begin, end, row, times per layer)."""
    pieces = []
    begin, size = 0.0, 0.0
    for row in layered:
        times = round(counts[row] / size) if size else 0
        if not (1 <= times <= MOST_PER_LAYER and abs(counts[row] - times * size) < 1e-6 * size):
            begin = (begin + size) % layers if size < layers else 0.0
            times = math.ceil(counts[row] / layers * (1 - 1e-12))
            size = counts[row] / times
        for low, high in _wrapped(begin, size, layers):
            pieces.append((low, high, row, times))
    return pieces


def _wrapped(begin: float, size: float, layers: float) -> list[tuple[float, float]]:
    end = begin + size
    if end <= layers * (1 + 1e-12):
        return [(begin, min(end, layers))]
    return [(begin, layers), (0.0, end - layers)]
