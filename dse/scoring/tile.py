"""The tile rung for batches: mappings of candidates to their metrics at `fidelity: tile`.

The step times of `hwmodel.tilesim` enter the metric equations of `models.performance` as factors on
the analytical step: seconds and HBM bytes of prefill and decode. At the central theta that is the
tile rung exactly; under a draw of the constants the factors stay, so that intervals and
probabilities need no play of their own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dse.scoring.batch import (
    BatchEvaluator,
    BatchResult,
    Skeleton,
    gather_fields,
    inputs,
    reduced,
)
from hwmodel.chip import Chip
from hwmodel.power import Activity, dynamic_energy_j
from hwmodel.step import StepTime, time_steps
from hwmodel.theta import Theta
from hwmodel.tilesim.step import TileStep, play_tables
from hwmodel.tilesim.table import Tables, tabulate
from models.lowering.model import stage_layer_share
from models.performance import place, point

TILE_ROWS = 16
"""Rows of every compiled call, padded: the arrays of their play fit a core's cache."""

Factors = NDArray[np.float64]
"""[n, 4]: tile over analytical, of prefill and decode seconds, then of their HBM bytes."""


@dataclass(frozen=True)
class Played:
    """The tile rung's steps of n mappings, and what they are relative to the analytical rung."""

    prefill: list[TileStep]
    decode: list[TileStep]
    factors: Factors


class TileEvaluator:
    """Scores index rows of one assignment at the tile rung: `BatchEvaluator`'s interface.

    Under other estimates the factors of the central ones stay: what the play changes is the same
    share of a step, and 64 draws need no 64 plays.
    """

    def __init__(
        self,
        analytical: BatchEvaluator,
        central: BatchEvaluator | None = None,
        factors: dict[bytes, NDArray[np.float64]] | None = None,
    ) -> None:
        self._analytical = analytical
        self._central = analytical if central is None else central
        self._factors = {} if factors is None else factors
        self.metrics = analytical.metrics
        self.spans = analytical.spans

    @property
    def table(self) -> NDArray[np.float64]:
        """As `BatchEvaluator.table`."""
        return self._analytical.table

    def under(
        self,
        theta: Mapping[str, float],
        fields: Mapping[str, float],
        table: NDArray[np.float64],
    ) -> TileEvaluator:
        """As `BatchEvaluator.under`."""
        other = self._analytical.under(theta, fields, table)
        return TileEvaluator(other, self._central, self._factors)

    def __call__(self, indices: NDArray[np.int32]) -> BatchResult:
        """Score int32 [n, knobs] rows."""
        keys = [row.tobytes() for row in indices]
        new = {key: i for i, key in enumerate(keys) if key not in self._factors}
        found = played(self._central, indices[list(new.values())]).factors
        self._factors.update(zip(new, found, strict=True))
        factors = np.array([self._factors[k] for k in keys]).reshape(-1, 4)
        return corrected(self._analytical, indices, factors)

    def operators(self, row: NDArray[np.int32]) -> dict[str, TileStep]:
        """Both steps of one row, by phase."""
        both = played(self._central, row[None, :])
        return {"prefill": both.prefill[0], "decode": both.decode[0]}


def played(evaluator: BatchEvaluator, rows: NDArray[np.int32]) -> Played:
    """Play both steps of int32 [n, knobs] rows."""
    prefill: list[TileStep] = []
    decode: list[TileStep] = []
    analytical: list[NDArray[np.float64]] = []
    for start in range(0, len(rows), TILE_ROWS):
        part = rows[start : start + TILE_ROWS]
        used = len(part)
        with jax.enable_x64(True):
            call = _compiled_tables(evaluator.skeleton)
            tables, steps = call(_padded(part), *evaluator.arguments)
        pre, dec = play_tables(jax.tree.map(functools.partial(_first, used), tables))
        prefill += pre
        decode += dec
        analytical.append(np.asarray(steps)[:used])
    if not prefill:
        return Played([], [], np.zeros((0, 4)))
    found = [
        [getattr(step, what) for what in ("seconds", "hbm_bytes") for step in pair]
        for pair in zip(prefill, decode, strict=True)
    ]
    return Played(prefill, decode, np.array(found) / np.concatenate(analytical))


def corrected(evaluator: BatchEvaluator, rows: NDArray[np.int32], factors: Factors) -> BatchResult:
    """Metrics and legality of int32 [n, knobs] rows whose analytical steps are scaled by `factors`
    [n, 4]."""
    pieces = []
    for start in range(0, len(rows), TILE_ROWS):
        part = _padded(rows[start : start + TILE_ROWS])
        scale = _padded(factors[start : start + TILE_ROWS])
        with jax.enable_x64(True):
            pieces.append(_compiled_metrics(evaluator.skeleton)(part, scale, *evaluator.arguments))
    return evaluator.finish(pieces, len(rows))


def _first(count: int, values: Any) -> NDArray[np.float64]:
    return np.asarray(values)[:count]


def _padded(values: NDArray[Any]) -> NDArray[Any]:
    return values if len(values) == TILE_ROWS else np.resize(values, (TILE_ROWS, values.shape[1]))


@functools.cache
def _compiled_tables(skeleton: Skeleton) -> Any:
    """Rows to their operator tables, and the analytical seconds and HBM bytes [n, 4]."""

    def single(fields: Any, numbers: Any) -> tuple[Tables, Any]:
        i = inputs(skeleton, fields, numbers)
        p = i.parts
        placed = place(p.chip, i.architecture, p.variant, p.deployment, p.workload, i.theta)
        steps = (placed.prefill.operators, placed.decode.operators)
        layers = placed.changed.layers * stage_layer_share(placed.changed, p.deployment)
        prefill, decode = time_steps(p.chip, i.theta, placed.axes, steps)
        times = (prefill.seconds, decode.seconds, prefill.hbm_bytes, decode.hbm_bytes)
        return tabulate(p.chip, i.theta, placed.axes, steps, layers), jnp.stack(times)

    def batch(rows: Any, column: Any, offset: Any, table: Any, numbers: Any) -> Any:
        values = gather_fields(rows, column, offset, table)
        return jax.vmap(single, in_axes=(1, None))(values, numbers)

    return jax.jit(batch)


@functools.cache
def _compiled_metrics(skeleton: Skeleton) -> Any:
    def single(fields: Any, scale: Any, numbers: Any) -> Any:
        i = inputs(skeleton, fields, numbers)
        p = i.parts
        placed = place(p.chip, i.architecture, p.variant, p.deployment, p.workload, i.theta)
        steps = (placed.prefill.operators, placed.decode.operators)
        times = time_steps(p.chip, i.theta, placed.axes, steps)
        prefill, decode = (
            _scaled(p.chip, i.theta, step, scale[n], scale[n + 2]) for n, step in enumerate(times)
        )
        return reduced(
            point(
                p.chip,
                i.architecture,
                p.variant,
                p.deployment,
                p.workload,
                i.theta,
                i.training_tokens,
                placed,
                prefill,
                decode,
            )
        )

    def batch(rows: Any, scale: Any, column: Any, offset: Any, table: Any, numbers: Any) -> Any:
        values = gather_fields(rows, column, offset, table)
        mapped = jax.vmap(single, in_axes=(1, 0, None), out_axes=(1, 0))
        return mapped(values, scale, numbers)

    return jax.jit(batch)


def _scaled(chip: Chip, theta: Theta, step: StepTime, seconds: Any, hbm_bytes: Any) -> StepTime:
    """A step with other seconds and HBM bytes; switching energy follows the bytes."""
    more = step.hbm_bytes * (hbm_bytes - 1)
    return dataclasses.replace(
        step,
        seconds=step.seconds * seconds,
        hbm_bytes=step.hbm_bytes + more,
        energy_j=step.energy_j + dynamic_energy_j(chip, theta, Activity(hbm_bytes=more)),
    )
