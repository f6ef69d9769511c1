"""Measured rows: the columns of `hwmodel/calibration/silicon.csv`, typed, with what is missing kept
missing.

A user's own rows (`dse validate --measurements FILE.csv`) have the same columns. An empty cell
means not known; it is never replaced by a default here.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from dse.errors import UserError
from dse.validation.record import group_of, held_out
from search_spaces.nearest import nearest, suggestion


class MissingField(Exception):
    """A row cannot be predicted; the message names the field that is missing, or why."""


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One row. Numbers in SI units or fractions, as the column names of the file say."""

    id: str
    source: str
    tpu: str
    model: str
    workload_kind: str
    confidence: str
    metric_std: str
    value_std: float
    chips: float | None = None
    arch: str = ""
    weight_dtype: str = ""
    compute_dtype: str = ""
    kv_dtype: str = ""
    global_batch: float | None = None
    concurrency: float | None = None
    in_len: float | None = None
    out_len_std: float | None = None
    length_dist: str = ""
    dp: float | None = None
    fsdp: float | None = None
    tp: float | None = None
    ep: float | None = None
    pp: float | None = None
    cp: float | None = None
    num_slices: float | None = None
    attn_dp: float | None = None
    remat: str = ""
    remat_saved: str = ""
    offload: str = ""
    optimizer: str = ""
    mesh: str = ""
    stack: str = ""
    stack_version: str = ""
    flop_count: str = ""
    max_batched_tokens: float | None = None
    expert_capacity: float | None = None
    folder: Path = Path()
    """Where paths in `arch` start: the folder of the file."""

    @property
    def group(self) -> str:
        """What is held out together: source, chip and model."""
        return group_of(self.source, self.tpu, self.model)

    @property
    def held_out(self) -> bool:
        """Whether the row is only reported and never fitted."""
        return held_out(self.group)

    def number(self, field: str) -> float:
        """The value of a numeric column.

        Raises:
            MissingField: the cell is empty.
        """
        value = getattr(self, field)
        if value is None:
            raise MissingField(f"{field} is not stated")
        return float(value)

    def text(self, field: str) -> str:
        """The value of a text column, as `number`."""
        value = str(getattr(self, field))
        if not value:
            raise MissingField(f"{field} is not stated")
        return value

    def operation(self) -> dict[str, Any]:
        """The microbenchmark or architecture that `arch` states as a JSON object; {} for a name."""
        if not self.arch.startswith("{"):
            return {}
        parsed: dict[str, Any] = json.loads(self.arch)
        return parsed


_FIELDS = {f.name: f for f in dataclasses.fields(Measurement) if f.name != "folder"}
_NUMBERS = tuple(n for n, f in _FIELDS.items() if "float" in str(f.type))
_REQUIRED = tuple(n for n, f in _FIELDS.items() if f.default is dataclasses.MISSING)
METRICS = {
    "step_s": "s",
    "mlperf_block_s": "s",
    "mfu": "1",
    "mbu": "1",
    "tflops_per_chip": "TFLOP/s",
    "tflops_per_device": "TFLOP/s",
    "tpot_s": "s",
    "itl_s": "s",
    "ttft_s": "s",
    "out_tok_s_total": "tokens/s",
    "tok_s_total": "tokens/s",
    "samples_s_total": "samples/s",
    "latency_s": "s",
    "time_s": "s",
    "bandwidth_bytes_per_s": "B/s",
}
"""Units of the values of `metric_std`."""
METRICS_OF: dict[str, tuple[str, ...]] = {
    "matmul": ("tflops_per_device", "time_s"),
    "hbm": ("bandwidth_bytes_per_s", "time_s"),
    "collective": ("bandwidth_bytes_per_s", "time_s"),
    "train": ("step_s", "mfu", "tflops_per_chip", "mlperf_block_s"),
    "prefill": ("ttft_s", "latency_s"),
    "decode": ("tpot_s", "itl_s", "latency_s"),
    "serve": ("out_tok_s_total", "tok_s_total", "tpot_s", "itl_s", "ttft_s"),
}
"""Metrics that each workload_kind can have and the equations predict."""
_MAY_BE_ZERO = ("out_len_std", "expert_capacity")

_RATES = ("mfu", "mbu", "tflops_per_chip", "tflops_per_device", "bandwidth_bytes_per_s")


def more_is_better(metric: str) -> bool:
    """Whether a metric is a rate or a share, not a time."""
    return metric in _RATES or metric.endswith("_total")


def published() -> list[Measurement]:
    """The published rows that come with the package."""
    file = resources.files("hwmodel").joinpath("calibration", "silicon.csv")
    with resources.as_file(file) as path:
        return read(path)


def read(path: Path) -> list[Measurement]:
    """The rows of a measurement file.

    Raises:
        UserError: naming the line and the column, where the file cannot be understood.
    """
    try:
        # -sig: spreadsheets write a mark before the first column's name.
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            _check_header(path, list(reader.fieldnames or []))
            rows = [(reader.line_num, _row(path, reader.line_num, raw)) for raw in reader]
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: not a UTF-8 text file ({error.reason}); save it as CSV in UTF-8"
        ) from error
    except csv.Error as error:
        raise UserError(f"{path}: not a CSV file ({error})") from error
    lines: dict[str, int] = {}
    for line, row in rows:
        if row.id in lines:
            raise UserError(
                f"{path}:{line}: the id {row.id!r} appears twice, first in line {lines[row.id]}; "
                "make ids unique"
            )
        lines[row.id] = line
    if not rows:
        raise UserError(f"{path}: no rows below the header; add one line per measurement")
    return [row for _, row in rows]


@functools.cache
def known_columns() -> tuple[str, ...]:
    """The columns of the package's file: those read here, and others for its readers."""
    text = resources.files("hwmodel").joinpath("calibration", "silicon.csv").read_text("utf-8")
    return tuple(next(csv.reader(text.splitlines()[:1])))


def _check_header(path: Path, columns: list[str]) -> None:
    if not columns:
        raise UserError(f"{path}: the file is empty; its first line must name the columns")
    missing = [name for name in _REQUIRED if name not in columns]
    unknown = [name for name in columns if name not in known_columns()]
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if missing:
        hint = "; separate columns by commas" if len(columns) == 1 else _misspelt(unknown, missing)
        plural = "columns {} are" if len(missing) > 1 else "column {} is"
        raise UserError(f"{path}:1: the {plural.format(_quoted(missing))} missing{hint}")
    if unknown:
        near = nearest(unknown[0], known_columns()) if unknown[0] else None
        fix = f"did you mean {near!r}?" if near and near not in columns else "remove it"
        raise UserError(
            f"{path}:1: the column {unknown[0]!r} is unknown; {fix} (free text goes into 'notes')"
        )
    if twice:
        raise UserError(f"{path}:1: the column {twice[0]!r} appears twice; keep one")


def _misspelt(unknown: list[str], missing: list[str]) -> str:
    pairs = {name: nearest(name, missing) for name in unknown if name}
    found = [f"rename {name!r} to {near!r}" for name, near in pairs.items() if near]
    return f"; {', '.join(found)}" if found else "; add it"


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))


def _row(path: Path, line: int, raw: dict[str, str | None]) -> Measurement:
    if None in raw:  # cells beyond the last column
        raise UserError(
            f"{path}:{line}: more cells than the header has columns; quote texts with commas"
        )
    values: dict[str, Any] = {}
    for name in _FIELDS:
        cell = (raw.get(name) or "").strip()
        if name in _NUMBERS:
            values[name] = _number(path, line, name, cell)
        else:
            values[name] = cell
    for name in _REQUIRED:
        if values[name] in ("", None):
            raise UserError(f"{path}:{line}: {name} is empty; every row needs it")
    if values["confidence"] not in ("A", "B", "C"):
        raise UserError(f"{path}:{line}: confidence {values['confidence']!r} is not A, B or C")
    if values["metric_std"] not in METRICS:
        near = suggestion(values["metric_std"], METRICS)
        raise UserError(f"{path}:{line}: metric_std {values['metric_std']!r} is unknown; {near}")
    if values["workload_kind"] not in METRICS_OF:
        near = suggestion(values["workload_kind"], METRICS_OF)
        raise UserError(
            f"{path}:{line}: workload_kind {values['workload_kind']!r} is unknown; {near}"
        )
    if values["value_std"] <= 0:
        raise UserError(f"{path}:{line}: value_std must be above 0")
    if values["arch"].startswith("{"):
        try:
            json.loads(values["arch"])
        except json.JSONDecodeError as error:
            raise UserError(f"{path}:{line}: arch is not valid JSON ({error.msg})") from error
    values["tpu"] = _chip_name(values["tpu"])
    return Measurement(**values, folder=path.parent)


def _chip_name(name: str) -> str:
    """The chip's own name, so that filters and groups know it; an unknown one stays as it is."""
    from hwmodel import presets

    try:
        return presets.canonical(name)
    except presets.ChipError:
        return name


def _number(path: Path, line: int, name: str, cell: str) -> float | None:
    if not cell:
        return None
    # "512 (2 slices) presumably" stays readable: the number comes first in the published rows.
    first, _, rest = cell.partition(" ")
    try:
        value = float(first)
    except ValueError:
        raise UserError(f"{path}:{line}: {name} {cell!r} is not a number") from None
    if rest and not rest.startswith("("):  # "7.5 ms" must not pass for 7.5 s
        raise UserError(
            f"{path}:{line}: {name} {cell!r} is a number and a word; write the number alone, in "
            "the unit of the column or metric"
        )
    if not math.isfinite(value):
        raise UserError(f"{path}:{line}: {name} {cell!r} is not a finite number")
    if name != "value_std" and (value < 0 or (value == 0 and name not in _MAY_BE_ZERO)):
        raise UserError(
            f"{path}:{line}: {name} {cell!r} must be above 0; leave it empty if unknown"
        )
    return value
