"""Cases compiled by skeleton: rows that differ only in numbers share one compilation.

A skeleton is what an equation may branch on: its name, the kinds of a model's blocks, and which
fields keep a neutral value that leaves operators out. All other numbers, theta among them, are
run-time arguments.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dse.scoring.fields import SWITCHES
from dse.scoring.shapes import Shape, join, paths, split
from dse.validation.cases import Case
from dse.validation.equations import EQUATIONS
from hwmodel.chip import Chip

BATCH = 40
"""Thetas per call, padded: one compilation serves single predictions and derivatives alike."""

COMPILER_OPTIONS = {
    # Each skeleton is compiled for a few dozen evaluations: compile quickly, not well.
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}

_ALWAYS_NUMBERS = (
    *("fsdp", "tensor", "data", "attention_data", "torus_y", "torus_z", "compute_format"),
    *("global_batch", "microbatches", "compute_dies", "gated", "max_context_tokens"),
    *("extra_parameters", "embedding_extra_parameters", "other_parameters"),
    *("released_weight_bits", "master_weight_bits", "gradient_bits", "moment_bits"),
    *("save_qkv", "save_context", "save_out_proj", "save_mlp_up", "save_mlp_down"),
    "offload_saved",
)
"""Fields that stay run-time numbers at their neutral value too, so that rows share compilations:
leaving their operators out would save less than another compilation costs."""


@dataclass(frozen=True)
class Skeleton:
    """What the compilation of a case depends on; hashable."""

    equation: str
    parts: tuple[tuple[str, Shape], ...]
    numbers: tuple[str, ...]
    static: tuple[tuple[str, Any], ...]
    theta: tuple[str, ...]


@dataclass(frozen=True)
class Compiled:
    """A case as a skeleton and its numbers [n]."""

    skeleton: Skeleton
    numbers: NDArray[np.float64]

    def value(self, theta: NDArray[np.float64]) -> tuple[float, float]:
        """Predicted value and sequences in memory under theta, in the order of `skeleton.theta`."""
        values, sequences = self.values(theta[None, :])
        return float(values[0]), float(sequences[0])

    def values(
        self, thetas: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The same under several thetas [k, constants]: two arrays [k]."""
        pieces = []
        with jax.enable_x64(True):
            for start in range(0, len(thetas), BATCH):
                piece = thetas[start : start + BATCH]
                padded = np.resize(piece, (BATCH, thetas.shape[1]))
                value, sequences = _compiled(self.skeleton)(self.numbers, padded)
                both = np.stack([np.asarray(value), np.asarray(sequences)])
                pieces.append(both[:, : len(piece)])
        joined = np.concatenate(pieces, axis=1)
        return joined[0], joined[1]


def compile_case(case: Case, theta_names: Sequence[str]) -> Compiled:
    """Split a case into its skeleton and numbers."""
    values: list[float] = []
    parts = []
    for name, part in sorted(case.parts.items()):
        shape, numbers = split(part, is_neutral)
        parts.append((name, shape))
        values += numbers.values()
    names = tuple(sorted(case.numbers))
    values += [float(case.numbers[name]) for name in names]
    skeleton = Skeleton(case.equation, tuple(parts), names, case.static, tuple(theta_names))
    return Compiled(skeleton, np.array(values))


def is_neutral(part: Any, f: dataclasses.Field[Any], value: float) -> bool:
    """Whether a field has a value that leaves operators out, and is worth a compilation."""
    if f.name in _ALWAYS_NUMBERS:
        return False
    if isinstance(part, Chip):
        return SWITCHES.get(f.name) == value
    if f.name in ("batch", "prefill_chunk_tokens", "weight_bits", "activation_bits", "kv_bits"):
        return False
    return value in (-1.0, 0.0) or (f.default is not dataclasses.MISSING and value == f.default)


Arguments = tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]
"""What an equation takes: parts, numbers, static, theta."""


def arguments(skeleton: Skeleton, numbers: Any, theta: Any) -> Arguments:
    """The arguments of an equation from traced numbers [n] and theta [constants]."""
    rest = iter([numbers[i] for i in range(numbers.shape[0])])
    parts = {
        name: join(shape, dict(zip(paths(shape), rest, strict=False)))
        for name, shape in skeleton.parts
    }
    own = {name: next(rest) for name in skeleton.numbers}
    constants = {name: theta[i] for i, name in enumerate(skeleton.theta)}
    return parts, own, dict(skeleton.static), constants


def _evaluate(skeleton: Skeleton, numbers: Any, theta: Any) -> Any:
    return EQUATIONS[skeleton.equation](*arguments(skeleton, numbers, theta))


@functools.cache
def _compiled(skeleton: Skeleton) -> Any:
    def single(numbers: Any, theta: Any) -> Any:
        value, sequences = _evaluate(skeleton, numbers, theta)
        return jnp.asarray(value, jnp.float64), jnp.asarray(sequences, jnp.float64)

    return jax.jit(jax.vmap(single, in_axes=(None, 0)), compiler_options=COMPILER_OPTIONS)
