"""The batch form of the analytical rung: `jit(vmap(evaluate))` over knob-index rows, of serving or
of training.

One compilation serves every study with the same skeleton: the kinds of the model's blocks, which of
its fields are zero, which fields knobs set, and which stay neutral. Everything else (chip, model
dimensions, workload, theta, the choices of each knob) is an argument.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dse.scoring.fields import Parts, assemble, field_names, neutral_values, trains
from dse.scoring.shapes import Shape, join, split
from models.architecture import Architecture
from models.legality import REASONS
from models.performance import METRICS, Point, evaluate
from models.training import TRAINING_METRICS, TrainingPoint, evaluate_training
from models.workload import Training
from search_spaces.fields import FieldTable

CHUNK_ROWS = 4096
"""Rows of every batch, padded: XLA's last bits depend on batch length, so there is only one."""

_COMPILER_OPTIONS = {
    # Fewer live buffers between kernels: measured 1.2 times faster than the concurrent schedule
    # when both cores already have a chunk each.
    "xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
}

REASON_CODES: tuple[str, ...] = tuple(REASONS)


@dataclass(frozen=True)
class Skeleton:
    """What a compilation depends on; hashable."""

    architecture: Shape
    knob_fields: tuple[str, ...]
    literals: tuple[tuple[str, float], ...]
    scalars: tuple[tuple[str, str], ...]  # (group, name) of each number passed at run time


@dataclass(frozen=True)
class BatchResult:
    """`metrics` [M, n] in the order of the evaluator's `metrics`; `worst` [n] is the largest
    violation and `reason` [n] the index into `REASON_CODES` of it."""

    metrics: NDArray[np.float64]
    worst: NDArray[np.float64]
    reason: NDArray[np.int64]


class BatchEvaluator:
    """Scores index rows of one assignment.

    table: knob fields of the space. architecture: released model, expanded for the transforms used.
    base: a value for every field of an assignment that serves, or of one that trains.
    """

    def __init__(
        self,
        table: FieldTable,
        architecture: Architecture,
        base: Mapping[str, float],
        theta: Mapping[str, float],
        training_tokens: float,
    ) -> None:
        varying = [i for i, stride in enumerate(table.stride) if stride > 0]
        knob_fields = tuple(table.names[i] for i in varying)
        fields = field_names(base)
        self.metrics = TRAINING_METRICS if trains(base) else METRICS
        neutral = neutral_values(trains(base))
        literals = tuple(
            (name, float(base[name]))
            for name in fields
            if name not in knob_fields and name in neutral and base[name] == neutral[name]
        )
        shape, numbers = split(architecture, _is_neutral)
        known = dict(literals)
        self.spans = {
            name: slice(int(start), int(end))
            for name, start, end in zip(
                table.names, table.offset, [*table.offset[1:], len(table.lut)], strict=True
            )
        }
        self._numbers = {
            **{("base", n): base[n] for n in fields if n not in knob_fields and n not in known},
            **{("architecture", name): value for name, value in numbers.items()},
            **{("theta", name): value for name, value in theta.items()},
            ("study", "training_tokens"): training_tokens,
        }
        self.skeleton = Skeleton(shape, knob_fields, literals, tuple(self._numbers))
        self._column = np.asarray(table.column[varying], np.int32)
        self._offset = np.asarray(table.offset[varying], np.int32)
        self._table = np.asarray(table.lut, np.float64)
        self._arguments = self._on_device()

    def _on_device(self) -> tuple[Any, ...]:
        """What the compiled function takes beside the rows: few arrays, transferred once."""
        with jax.enable_x64(True):
            numbers = np.array([float(v) for v in self._numbers.values()])
            parts = (self._column, self._offset, self._table, numbers)
            return tuple(jnp.asarray(part) for part in parts)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What compiled functions take beside the rows."""
        return self._arguments

    @property
    def table(self) -> NDArray[np.float64]:
        """Values of all choices of all knobs, [N]; `spans` says which are of which field."""
        return self._table

    def under(
        self,
        theta: Mapping[str, float],
        fields: Mapping[str, float],
        table: NDArray[np.float64],
    ) -> BatchEvaluator:
        """The same candidates under other estimates, by the same compilation.

        theta: a value for every constant. fields: chip fields to replace; one that a knob sets, or
        that the compilation leaves out, stays. table: `table` with other values.
        """
        changed = {("theta", k): v for k, v in theta.items()}
        changed |= {("base", k): v for k, v in fields.items() if ("base", k) in self._numbers}
        other = copy.copy(self)
        other._numbers = self._numbers | changed
        other._table = np.asarray(table, np.float64)
        other._arguments = other._on_device()
        return other

    def __call__(self, indices: NDArray[np.int32]) -> BatchResult:
        """Score int32 [n, knobs] rows in fixed chunks; n may be any size."""
        n = len(indices)
        pieces = [self.start(indices[i : i + CHUNK_ROWS]) for i in range(0, n, CHUNK_ROWS)]
        return self.finish(pieces, n)

    def start(self, rows: NDArray[np.int32]) -> Any:
        """Score up to CHUNK_ROWS rows; returns device arrays."""
        padded = rows
        if len(rows) < CHUNK_ROWS:
            padded = np.resize(rows, (CHUNK_ROWS, rows.shape[1]))
        with jax.enable_x64(True):
            return _compiled(self.skeleton)(padded, *self._arguments)

    def finish(self, pieces: list[Any], n: int) -> BatchResult:
        """Collect chunks into one result of n rows."""
        if len(pieces) == 1:  # nothing to join: no copy
            metrics, packed = (np.asarray(array)[..., :n] for array in pieces[0])
        else:
            metrics = np.concatenate([np.asarray(p[0]) for p in pieces], axis=1)[:, :n]
            packed = np.concatenate([np.asarray(p[1]) for p in pieces])[:n]
        return BatchResult(metrics, *_unpack(packed))

    def read(self, row: NDArray[np.int32], view: Callable[[Any], Any]) -> Any:
        """`view` of the full result of one row, compiled: arrays in the containers it returns."""
        with jax.enable_x64(True):
            rows = np.asarray(row, np.int32)[None, :]
            return _compiled_view(self.skeleton, view)(rows, *self._arguments)


def _is_neutral(part: Any, field: dataclasses.Field[Any], value: float) -> bool:
    return value in (-1.0, 0.0) or value == field.default


def gather_fields(rows: Any, column: Any, offset: Any, table: Any) -> Any:
    """Fields that knobs set, [fields, n], from index rows [n, knobs]: one gather.

    Fields come first so that each is contiguous over the batch.
    """
    return jnp.take(table, offset[:, None] + rows.T[column], mode="clip")  # always in bounds


@dataclass(frozen=True)
class Inputs:
    """What `evaluate` or `evaluate_training` takes, of one candidate."""

    parts: Parts
    architecture: Architecture
    theta: Mapping[str, Any]
    training_tokens: Any


def inputs(skeleton: Skeleton, knob_values: Any, numbers: Any) -> Inputs:
    """One candidate from its knob-set fields [fields] and the other numbers."""
    groups: dict[str, dict[str, Any]] = {}
    for i, (group, name) in enumerate(skeleton.scalars):
        groups.setdefault(group, {})[name] = numbers[i]
    values = groups.get("base", {}) | dict(skeleton.literals)
    values |= {name: knob_values[i] for i, name in enumerate(skeleton.knob_fields)}
    return Inputs(
        assemble(values),
        join(skeleton.architecture, groups["architecture"]),
        groups["theta"],
        groups["study"]["training_tokens"],
    )


AnyPoint = Point | TrainingPoint


def _point(skeleton: Skeleton, knob_values: Any, numbers: Any) -> AnyPoint:
    """Evaluate one candidate from its knob-set fields [fields] and the other numbers."""
    i = inputs(skeleton, knob_values, numbers)
    score = evaluate_training if isinstance(i.parts.workload, Training) else evaluate
    return score(
        i.parts.chip,
        i.architecture,
        i.parts.variant,
        i.parts.deployment,
        i.parts.workload,
        i.theta,
        i.training_tokens,
    )


_RESOLUTION = 2.0**24
_CODES = 64.0  # more than there are reasons


def _largest(violations: Mapping[str, Any]) -> Any:
    """The largest violation and its reason in one number: whole steps of 2**-24, then the code.

    One maximum instead of two chains of comparisons, which XLA would compute twice over. Exact
    while a limit is exceeded less than eight million times over.
    """
    packed: Any = None
    for reason, amount in violations.items():
        code = REASON_CODES.index(reason)
        if amount.dtype == bool:
            entry = jnp.where(amount, _RESOLUTION * _CODES + code, -jnp.inf)
        else:
            entry = jnp.floor(amount * _RESOLUTION) * _CODES + code
        packed = entry if packed is None else jnp.maximum(packed, entry)
    return packed


def _unpack(packed: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Violations and reason codes of `_largest`."""
    steps = np.floor(packed / _CODES)
    return steps / _RESOLUTION, (packed - steps * _CODES).astype(np.int64)


def reduced(point: AnyPoint) -> tuple[Any, Any]:
    """What a batch keeps of a candidate: metrics [M] and the largest violation, packed."""
    names = METRICS if isinstance(point, Point) else TRAINING_METRICS
    metrics = jnp.stack([jnp.asarray(point.metrics[m], jnp.float64) for m in names])
    return metrics, _largest(point.violations)


@functools.cache
def _compiled(skeleton: Skeleton) -> Any:
    def single(knob_values: Any, numbers: Any) -> Any:
        return reduced(_point(skeleton, knob_values, numbers))

    def batch(rows: Any, column: Any, offset: Any, table: Any, numbers: Any) -> Any:
        values = gather_fields(rows, column, offset, table)
        return jax.vmap(single, in_axes=(1, None), out_axes=(1, 0))(values, numbers)

    return jax.jit(batch, compiler_options=_COMPILER_OPTIONS)


@functools.cache
def _compiled_view(skeleton: Skeleton, view: Callable[[Any], Any]) -> Any:
    def viewed(rows: Any, column: Any, offset: Any, table: Any, numbers: Any) -> Any:
        return view(_point(skeleton, gather_fields(rows, column, offset, table)[:, 0], numbers))

    return jax.jit(viewed)
