"""Probability that constraints hold, given how uncertain the constants and the chip's fields are.

Every candidate is evaluated again under the same paired draws of theta and of those chip fields
that are estimates with a range, at a fixed mapping, by the compilation that scored it. Fields that
a knob sets are decisions, not estimates; only what an HBM generation brings along (energy, price
and PHY area) is drawn there too, by one quantile for all generations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.scoring.batch import BatchEvaluator
from dse.scoring.tile import TileEvaluator
from dse.spec import Constraint
from dse.trials import JOINT, LEGALITY
from hwmodel import presets, theta

DRAWS = 64
SEED = 0

_WHOLE = ("ALUs", "cycles")
"""Units of counts that are drawn, to whole numbers."""

_FIXED = ("dies", "stacks", "links", "chips", "rows", "SparseCores")
"""Units of counts that are not drawn: published totals (HBM, the pod) are stated with them."""

_GENERATION_FIELDS = {
    "hbm_energy_j_per_byte": "energy_j_per_byte",
    "hbm_usd_per_byte": "usd_per_byte",
    "hbm_phy_mm2_per_stack": "phy_mm2_per_stack",
}


@dataclass(frozen=True)
class Estimate:
    """A number with its range, and one uniform quantile per draw."""

    value: float
    low: float
    high: float
    quantiles: NDArray[np.float64]

    def draws(self) -> NDArray[np.float64]:
        """One value per quantile, as `hwmodel.theta.quantile`."""
        drawn: NDArray[np.float64] = theta.quantile(self.low, self.value, self.high, self.quantiles)
        return drawn


def chip_draws(chip: str, count: int = DRAWS, seed: int = SEED) -> dict[str, NDArray[np.float64]]:
    """Draws [count] of the fields of preset `chip` that carry a range, by field."""
    fields = presets.describe(chip)["fields"]
    quantiles = _quantiles(count, seed)
    drawn = {}
    for name, entry in fields.items():
        low, high = entry["low"], entry["high"]
        if low is None or not low < high or entry["unit"] in _FIXED:
            continue
        values = Estimate(float(entry["value"]), float(low), float(high), quantiles[name]).draws()
        drawn[name] = np.round(values) if entry["unit"] in _WHOLE else values
    return drawn


def generation_draws(
    field: str, values: NDArray[np.float64], count: int = DRAWS, seed: int = SEED
) -> NDArray[np.float64]:
    """Draws [count, n] of the values [n] that HBM generations give to `field`; a value that is of
    none of them stays as it is."""
    quantity = _GENERATION_FIELDS[field]
    rows = [generation[quantity] for generation in presets.hbm_generations().values()]
    known = {float(row["value"]): row for row in rows if "low" in row}
    out = np.repeat(values[None, :], count, axis=0)
    for column, value in enumerate(values):
        if (row := known.get(float(value))) is not None:
            quantiles = _quantiles(count, seed)[field]
            estimate = Estimate(float(value), float(row["low"]), float(row["high"]), quantiles)
            out[:, column] = estimate.draws()
    return out


def outcomes(
    evaluator: BatchEvaluator | TileEvaluator,
    chip: str,
    rows: NDArray[np.int32],
    count: int = DRAWS,
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.bool_]]:
    """Metrics by name [count, n], and whether each row is legal [count, n], under every draw."""
    constants = theta.draws(count, SEED)
    fields = chip_draws(chip, count)
    spans = {f: s for f, s in evaluator.spans.items() if f in _GENERATION_FIELDS}
    generations = {
        field: generation_draws(field, evaluator.table[span], count)
        for field, span in spans.items()
    }
    values, legal = [], []
    for draw in range(count):
        table = evaluator.table.copy()
        for field, span in spans.items():
            table[span] = generations[field][draw]
        drawn = evaluator.under(
            {name: column[draw] for name, column in constants.items()},
            {name: column[draw] for name, column in fields.items()},
            table,
        )
        result = drawn(rows)
        values.append(result.metrics)
        legal.append(result.worst <= 0)
    stacked = np.stack(values)
    return {name: stacked[:, i] for i, name in enumerate(evaluator.metrics)}, np.stack(legal)


def probabilities(
    parts: Sequence[tuple[Mapping[str, NDArray[np.float64]], NDArray[np.bool_]]],
    constraints: Sequence[Constraint],
) -> list[dict[str, float]]:
    """Share of the draws in which each constraint holds for every part (the assignments), by the
    constraint's text, legality and the joint of all included; one dict per candidate."""
    holds = {LEGALITY: np.all([legal for _, legal in parts], axis=0)}
    for constraint in constraints:
        met = [constraint.violation(constraint.value(metrics)) <= 0 for metrics, _ in parts]
        holds[constraint.text] = np.all(met, axis=0)
    holds[JOINT] = np.all(list(holds.values()), axis=0)
    shares = {text: met.mean(axis=0) for text, met in holds.items()}
    count = parts[0][1].shape[1]
    return [{text: float(share[i]) for text, share in shares.items()} for i in range(count)]


def _quantiles(count: int, seed: int) -> dict[str, NDArray[np.float64]]:
    """One uniform quantile per draw for every chip field, the same for each assignment."""
    rng = np.random.default_rng([seed, 1])  # not the stream of theta.draws
    return {name: rng.random(count) for name in presets.UNITS}
