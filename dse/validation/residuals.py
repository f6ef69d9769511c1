"""The released residuals: how far each calibration row was predicted from its measurement.

`hwmodel/calibration/residuals.csv`, one row per measured row and fold. Fold `released`: predicted
with the released constants. Fold `left_out`: with constants fitted without any row of the same
chip. After a fit, `python -m dse.validation.residuals` writes the file anew.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from dse.validation.record import Record

FILE = "residuals.csv"
RELEASED, LEFT_OUT = "released", "left_out"
COLUMNS = ("id", "kind", "tpu", "group", "held_out", "fold", "log_residual", "features")
FITTED_CLASSES = ("A", "B")
"""Confidence of the rows that residuals are taken from; class C is too poor to judge by."""


@dataclass(frozen=True)
class Residual:
    """log(predicted / measured) of one row under one fold, and where the row lies."""

    id: str
    kind: str
    tpu: str
    group: str
    held_out: bool
    fold: str
    log_residual: float
    features: Mapping[str, float] = field(default_factory=dict)


def of_records(records: Iterable[Record], fold: str = RELEASED) -> list[Residual]:
    """Residuals of the predicted records of class A and B."""
    return [
        Residual(r.id, r.kind, r.tpu, r.group, r.held_out, fold, residual, dict(r.features))
        for r in records
        if r.confidence in FITTED_CLASSES and (residual := r.log_residual) is not None
    ]


@functools.cache
def released() -> tuple[Residual, ...]:
    """The residuals of the package; none while no fit has been released."""
    path = resources.files("hwmodel").joinpath("calibration", FILE)
    return tuple(parse(path.read_text("utf-8"))) if path.is_file() else ()


def parse(text: str) -> list[Residual]:
    """The inverse of `to_csv`."""
    return [
        Residual(
            id=row["id"],
            kind=row["kind"],
            tpu=row["tpu"],
            group=row["group"],
            held_out=row["held_out"] == "1",
            fold=row["fold"],
            log_residual=float(row["log_residual"]),
            features=_features(row["features"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    ]


def to_csv(residuals: Iterable[Residual]) -> str:
    """The file's text; features as `name=value` joined by semicolons."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for r in residuals:
        features = ";".join(f"{name}={value:.4f}" for name, value in r.features.items())
        number = f"{r.log_residual:.5f}"
        writer.writerow((r.id, r.kind, r.tpu, r.group, int(r.held_out), r.fold, number, features))
    return out.getvalue()


def _features(text: str) -> dict[str, float]:
    pairs = (item.split("=") for item in text.split(";") if item)
    return {name: float(value) for name, value in pairs}


def left_out_records(records: Sequence[Record]) -> list[Record]:
    """The records with the predictions of the released fold that leaves their chip out; those
    without one are left away."""
    known = {r.id: r.log_residual for r in released() if r.fold == LEFT_OUT}
    return [
        dataclasses.replace(r, predicted=r.measured * math.exp(known[r.id]))
        for r in records
        if r.id in known
    ]


def compute() -> list[Residual]:
    """Residuals of every measured row, and of every fold that leaves a TPU generation out."""
    from dse.validation import gpu, predictor
    from dse.validation.fit import leave_one_generation_out

    rows = of_records([*predictor.records(None), *gpu.records()])
    for records in leave_one_generation_out().values():
        rows += of_records(records, LEFT_OUT)
    return rows


def main(residuals: Sequence[Residual] | None = None) -> Path:
    """Write the package's file; returns its path."""
    import hwmodel

    path = Path(next(iter(hwmodel.__path__))) / "calibration" / FILE
    path.write_text(to_csv(compute() if residuals is None else residuals), encoding="utf-8")
    return path


if __name__ == "__main__":
    print(f"wrote {main()}")
