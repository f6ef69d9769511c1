"""Fit the shared constants of the time model to measured rows.

    python -m dse.validation.fit            # fits, prints, writes the data files
    python -m dse.validation.fit --dry-run  # fits and prints

Minimises, over the constants of `hwmodel/data/theta_fitted.yaml` in unbounded coordinates (logit of
a fraction, logarithm of the rest),

    sum over rows of w_i rho(r_i / s) + sum over constants of ((x - x0) / d)^2,

with r_i = log(predicted / measured), rho the soft-L1 loss, s the noise of a published row, w_i one
over the square root of the size of the row's group (a sweep of thirty rows is not thirty opinions),
and a prior of centre x0 and width d from each constant's estimate before any fit. Rows of class C
and held-out groups are never used. Serving rows also have their stack's host time as unknowns; of
each stack at most half of the rows are used.
"""

from __future__ import annotations

import collections
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.validation import measurements
from dse.validation.compiled import Compiled
from dse.validation.equations import HOST_SEQUENCE_S, HOST_STEP_S
from dse.validation.hosts import HostTime, stack_key
from dse.validation.predictor import Prepared, fitting, in_unit, prepare, with_host_time
from dse.validation.record import Record
from hwmodel import theta as constants
from hwmodel.calibration.prior import Prior, priors

NOISE = 0.03
"""Noise of one published row, as a share: rows repeated between versions of one page differ by 1-13
%."""

STEP = 1e-3
"""Step of the difference quotients, in prior widths."""

HOST_PRIOR = {HOST_STEP_S: Prior(2e-3, 2e-4, 2e-2), HOST_SEQUENCE_S: Prior(2e-5, 1e-6, 4e-4)}
"""Seconds a step and a running sequence: from fully hidden to an engine without overlap."""


@dataclass(frozen=True)
class Fitted:
    """Constants by name with the width of their posterior, host times by stack, rows used."""

    values: dict[str, float]
    ranges: dict[str, tuple[float, float]]
    hosts: dict[str, HostTime]
    host_rows: dict[str, tuple[str, ...]]
    rows: int

    @property
    def theta(self) -> dict[str, float]:
        """A value for every constant."""
        return constants.central() | self.values


def usable(p: Prepared) -> bool:
    """Whether a row may be fitted at all; stated blocks are played by the tile rung, not fitted."""
    m, c = p.measurement, p.case
    if c is None or c.equation == "blocked_matmul":
        return False
    return m.confidence in ("A", "B") and not m.held_out


def host_halves(prepared: Iterable[Prepared]) -> dict[str, tuple[str, ...]]:
    """Per serving stack the ids that may be fitted: at most half of its predictable rows.

    Chosen by the hash of the id, by nobody.
    """
    stacks: dict[str, list[Prepared]] = collections.defaultdict(list)
    for p in prepared:
        if _has_host(p):
            stacks[stack_key(p.measurement)].append(p)
    chosen = {}
    for stack, rows in stacks.items():
        eligible = sorted((p.measurement.id for p in rows if usable(p)), key=_hash)
        chosen[stack] = tuple(sorted(eligible[: len(rows) // 2]))
    return chosen


def _hash(text: str) -> str:
    return hashlib.sha1(text.encode()).hexdigest()


@dataclass(frozen=True)
class _Row:
    compiled: Compiled
    measured: float  # in the unit that the equation returns
    weight: float
    columns: NDArray[np.int64]  # unknowns of this row, in the order of its theta positions


def fit(prepared: Sequence[Prepared], names: Sequence[str] | None = None) -> Fitted:
    """Fit the constants `names` (all with a prior, by default) to the usable rows of `prepared`."""
    from scipy.optimize import least_squares

    prior = priors()
    names = tuple(names or prior)
    halves = host_halves(prepared)
    used = [p for p in prepared if usable(p) and _in_half(p, halves)]
    stacks = sorted({stack_key(p.measurement) for p in used if _has_host(p)})
    unknowns = [prior[name] for name in names]
    for _ in stacks:
        unknowns += [HOST_PRIOR[HOST_STEP_S], HOST_PRIOR[HOST_SEQUENCE_S]]
    rows = _rows(used, names, stacks)
    order = [*constants.central(), HOST_STEP_S, HOST_SEQUENCE_S]
    base = np.array([*constants.central().values(), 0.0, 0.0])
    fitted = [order.index(name) for name in names]
    hosts = [len(order) - 2, len(order) - 1]
    centre = np.array([p.centre for p in unknowns])
    width = np.array([p.width for p in unknowns])

    slots = [*fitted, *hosts]

    def thetas(row: _Row, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """theta at x, then with each of the row's unknowns moved by a small step."""
        own = x[row.columns]
        moved = np.vstack([own, own + STEP * np.diag(width[row.columns])])
        out = np.repeat(base[None, :], len(moved), axis=0)
        for i, column in enumerate(row.columns):
            out[:, slots[i]] = [unknowns[column].value(v) for v in moved[:, i]]
        return out

    def both(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        x = centre + z * width
        residuals = np.zeros(len(rows))
        jacobian = np.zeros((len(rows), len(unknowns)))
        for i, row in enumerate(rows):
            values, _ = row.compiled.values(thetas(row, x))
            logs = np.log(values / row.measured) / NOISE
            robust, factor = _soft_l1(float(logs[0]))
            residuals[i] = row.weight * robust
            jacobian[i, row.columns] = row.weight * factor * (logs[1:] - logs[0]) / STEP
        return (
            np.concatenate([residuals, z]),
            np.concatenate([jacobian, np.eye(len(unknowns))]),
        )

    cache: dict[bytes, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}

    def cached(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        key = z.tobytes()
        if key not in cache:
            cache.clear()
            cache[key] = both(z)
        return cache[key]

    solution = least_squares(
        lambda z: cached(z)[0], np.zeros(len(unknowns)), jac=lambda z: cached(z)[1], max_nfev=60
    )
    covariance = np.linalg.inv(solution.jac.T @ solution.jac)
    x = centre + solution.x * width
    spread = 1.2816 * np.sqrt(np.diag(covariance)) * width
    values = [p.value(v) for p, v in zip(unknowns, x, strict=True)]
    low = [p.value(v - s) for p, v, s in zip(unknowns, x, spread, strict=True)]
    high = [p.value(v + s) for p, v, s in zip(unknowns, x, spread, strict=True)]
    n = len(names)
    return Fitted(
        values=dict(zip(names, values[:n], strict=True)),
        ranges={name: (low[i], high[i]) for i, name in enumerate(names)},
        hosts={
            stack: HostTime(values[n + 2 * i], values[n + 2 * i + 1])
            for i, stack in enumerate(stacks)
        },
        host_rows={stack: halves[stack] for stack in stacks},
        rows=len(rows),
    )


def _soft_l1(u: float) -> tuple[float, float]:
    """Square root of the soft-L1 loss 2 (sqrt(1 + u²) - 1), with the sign of u, and its slope."""
    root = math.sqrt(1 + u * u)
    if abs(u) < 1e-6:
        return u, 1.0
    value = math.copysign(math.sqrt(2 * (root - 1)), u)
    return value, u / root / value


def _has_host(p: Prepared) -> bool:
    return p.case is not None and p.case.equation == "serving" and p.measurement.stack != "paper"


def _in_half(p: Prepared, halves: Mapping[str, Sequence[str]]) -> bool:
    return not _has_host(p) or p.measurement.id in halves[stack_key(p.measurement)]


def _rows(used: Sequence[Prepared], names: Sequence[str], stacks: Sequence[str]) -> list[_Row]:
    sizes = collections.Counter(p.measurement.group for p in used)
    theta = with_host_time(constants.central(), HostTime())
    rows = []
    for p in used:
        assert p.case is not None
        c, compiled = fitting(p.case, theta)
        columns = list(range(len(names)))
        if _has_host(p):
            first = len(names) + 2 * stacks.index(stack_key(p.measurement))
            columns += [first, first + 1]
        measured = in_unit(c, p.measurement.value_std)  # a rate as the seconds of the equation
        weight = sizes[p.measurement.group] ** -0.25
        rows.append(_Row(compiled, measured, weight, np.array(columns)))
    return rows


def leave_one_generation_out() -> dict[str, list[Record]]:
    """For each TPU generation the records of its rows under constants fitted without them."""
    from dse.scoring.cache import enable_compilation_cache
    from dse.validation.predictor import record

    enable_compilation_cache()
    prepared = [prepare(m) for m in measurements.published()]
    out = {}
    for tpu in sorted({p.measurement.tpu for p in prepared if p.case is not None}):
        others = [p for p in prepared if p.measurement.tpu != tpu]
        theta = fit(others).theta
        out[tpu] = [record(p, theta) for p in prepared if p.measurement.tpu == tpu]
    return out


def main() -> None:
    """Fit to the package's rows, print the constants, write the data files."""
    import argparse
    from pathlib import Path

    import hwmodel
    from dse.scoring.cache import enable_compilation_cache
    from dse.validation.write_fit import write

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--dry-run", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    enable_compilation_cache()
    fitted = fit([prepare(m) for m in measurements.published()])
    print(f"{fitted.rows} rows")
    for name, value in fitted.values.items():
        low, high = fitted.ranges[name]
        prior = priors()[name]
        print(
            f"{name:34} {value:10.4g}  {low:.3g} to {high:.3g}  before {prior.estimate:.3g}, "
            f"{prior.low:.3g} to {prior.high:.3g}"
        )
    for stack, host in fitted.hosts.items():
        print(f"{stack}: {host.step_s:.3g} s a step, {host.sequence_s:.3g} s a sequence")
    if not arguments.dry_run:
        write(fitted, Path(hwmodel.__file__).parent)


if __name__ == "__main__":
    main()
