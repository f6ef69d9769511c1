"""What the model buys over a plain roofline on the same measured rows.

    python benchmarks/roofline_comparison.py [--no-gpu]

A plain roofline is max(FLOPs / peak, bytes / bandwidth). Prints one line per kind of measured work,
`ROOFLINE <kind> <rows> model median <x> p90 <x> roofline median <x> p90 <x>`, of the errors
|predicted / measured - 1|, and one for the rows of held-out groups, which were never fitted.
Rows that the model cannot predict, or for which no roofline is stated, are left out of both sides,
and counted in the last line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from dse.validation.collect import Wanted, collect
from dse.validation.record import KINDS, Record
from dse.validation.statistics import ratios, roofline_ratios


def line(kind: str, rows: Sequence[Record]) -> str:
    """Both errors of one set of rows."""
    texts = []
    for name, found in (("model", ratios(rows)), ("roofline", roofline_ratios(rows))):
        median, p90 = np.quantile(abs(found - 1), [0.5, 0.9])
        texts.append(f"{name} median {median:.1%} p90 {p90:.1%}")
    return f"ROOFLINE {kind} {len(rows)} {' '.join(texts)}"


def main() -> None:
    """Predict the published rows and print the comparison."""
    kinds = tuple(k for k in KINDS if not k.startswith("gpu")) if "--no-gpu" in sys.argv else ()
    records = collect(None, Wanted(kinds=kinds))
    rows = [r for r in records if r.predicted is not None and r.roofline]
    for kind in KINDS:
        own = [r for r in rows if r.kind == kind]
        fresh = [r for r in own if r.held_out]
        if own:
            print(line(kind, own))
        if fresh:
            print(line(f"{kind} of held-out groups", fresh))
    print(f"{len(records) - len(rows)} of {len(records)} rows are on neither side")


if __name__ == "__main__":
    main()
