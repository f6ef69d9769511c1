"""Every resource costs: growing it raises die area, TDP or cost on any chip. Finite gradients."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hwmodel import area, cost, power, presets, theta
from hwmodel.chip import CHIP_FIELDS, Chip

THETA = theta.central()

# field: factor, or (from, to) where the field may be zero, and what must rise
RESOURCES: dict[str, tuple[float | None, tuple[str, ...]]] = {
    "clock_hz": (1.05, ("tdp_w",)),
    "cores": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "mxus_per_core": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "mxu_rows": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "mxu_cols": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "mxu_cadence_bf16_cycles": (0.5, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "int8_rate": (None, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "fp8_rate": (None, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "int4_rate": (None, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "nm_speedup_16bit": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "nm_speedup_8bit": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "vpu_lanes": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "vpu_sublanes": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "vpu_alus_per_slot": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "vmem_bytes": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "cmem_bytes": (None, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "sparsecores": (None, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "hbm_stacks": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "hbm_stack_bytes": (2.0, ("chip_cost_usd",)),
    "hbm_stack_bandwidth_bytes_per_s": (1.5, ("tdp_w", "usd_per_hour")),
    "ici_links": (1.5, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "ici_link_bandwidth_bytes_per_s": (2.0, ("die_area_mm2", "tdp_w", "chip_cost_usd")),
    "dcn_bandwidth_bytes_per_s": (2.0, ("usd_per_hour",)),
    "compute_dies": (2.0, ("die_area_mm2", "tdp_w")),
}
METRICS = ("die_area_mm2", "tdp_w", "chip_cost_usd", "usd_per_hour")


def _metrics(chip: Chip) -> dict[str, jax.Array]:
    area_mm2 = area.die_area_mm2(chip, THETA)
    return {
        "die_area_mm2": area_mm2,
        "tdp_w": power.tdp_w(chip, THETA, area_mm2),
        "chip_cost_usd": cost.chip_cost_usd(chip, THETA, area_mm2),
        "usd_per_hour": cost.usd_per_hour(chip, THETA, 300.0, area_mm2),
    }


def _evaluate(vectors: np.ndarray) -> dict[str, np.ndarray]:
    """Metrics of many chips, one compiled call; vectors [n, fields]."""
    with jax.enable_x64(True):
        found = _compiled(jnp.asarray(vectors))
        return {k: np.asarray(v) for k, v in found.items()}


def _metrics_of_vector(x: jax.Array) -> dict[str, jax.Array]:
    return _metrics(Chip(**dict(zip(CHIP_FIELDS, x, strict=True))))


def _sum_of_logs(x: jax.Array) -> jax.Array:
    return sum(jnp.log(value) for value in _metrics_of_vector(x).values())


_compiled = jax.jit(jax.vmap(_metrics_of_vector))
_compiled_gradient = jax.jit(jax.vmap(jax.grad(_sum_of_logs)))


def _vector(chip: Chip) -> np.ndarray:
    return np.array([getattr(chip, f) for f in CHIP_FIELDS])


@pytest.mark.parametrize("field", RESOURCES)
def test_a_larger_resource_costs(field: str) -> None:
    factor, must_rise = RESOURCES[field]
    before, after = [], []
    for name in presets.names():
        chip = presets.load(name)
        old = getattr(chip, field)
        before.append(_vector(chip))
        new = old * factor if factor is not None else old + 1.0
        if field == "cmem_bytes":
            new = old + 2.0**20
        after.append(_vector(dataclasses.replace(chip, **{field: new})))
    low, high = _evaluate(np.array(before)), _evaluate(np.array(after))
    for metric in must_rise:
        assert np.all(high[metric] > low[metric] * (1 + 1e-9)), (field, metric)


@pytest.mark.parametrize("field", RESOURCES)
def test_a_larger_resource_saves_nothing(field: str) -> None:
    """No metric falls, except that more, smaller dies yield better and may cost less."""
    factor, _ = RESOURCES[field]
    chips = [presets.load(name) for name in presets.names()]
    before = np.array([_vector(c) for c in chips])
    after = before.copy()
    column = CHIP_FIELDS.index(field)
    after[:, column] = before[:, column] * factor if factor is not None else before[:, column] + 1.0
    low, high = _evaluate(before), _evaluate(after)
    for metric in METRICS:
        if field == "compute_dies" and metric in ("chip_cost_usd", "usd_per_hour"):
            continue
        assert np.all(high[metric] >= low[metric] * (1 - 1e-9)), (field, metric)


def test_a_switched_network_costs_more_than_a_torus() -> None:
    chip = presets.load("v6e")
    switched = dataclasses.replace(chip, ici_switched=1.0)
    assert cost.system_capex_usd(switched, THETA) > cost.system_capex_usd(chip, THETA)


def test_a_newer_hbm_generation_costs_more_per_byte() -> None:
    rows = presets.hbm_generations()
    chip = presets.load("v6e")

    def dollars(generation: str) -> float:
        row = rows[generation]
        changed = dataclasses.replace(
            chip,
            hbm_stack_bandwidth_bytes_per_s=row["stack_bandwidth_bytes_per_s"]["value"],
            hbm_usd_per_byte=row["usd_per_byte"]["value"],
            hbm_energy_j_per_byte=row["energy_j_per_byte"]["value"],
            hbm_phy_mm2_per_stack=row["phy_mm2_per_stack"]["value"],
        )
        return float(cost.chip_cost_usd(changed, THETA))

    costs = [dollars(g) for g in rows]
    assert costs == sorted(costs) and len(set(costs)) == len(costs)


def test_gradients_are_finite() -> None:
    vectors = np.array([_vector(presets.load(n)) for n in presets.names()])
    priced = np.nan_to_num(vectors)  # an unpublished list price is NaN and enters nothing
    with jax.enable_x64(True):
        gradient = np.asarray(_compiled_gradient(jnp.asarray(priced)))
    assert gradient.shape == vectors.shape
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[:, CHIP_FIELDS.index("vmem_bytes")] > 0)
    assert np.all(gradient[:, CHIP_FIELDS.index("list_price_usd_per_hour")] == 0)


def test_the_batch_and_a_single_chip_agree() -> None:
    chips = [presets.load(n) for n in presets.names()]
    batch = _evaluate(np.array([_vector(c) for c in chips]))
    with jax.enable_x64(True):
        for i, chip in enumerate(chips):
            for metric, value in _metrics(chip).items():
                assert float(value) == pytest.approx(batch[metric][i], rel=1e-9)


@pytest.mark.parametrize("seed", [0])
def test_metrics_stay_finite_over_the_uncertainty_of_theta(seed: int) -> None:
    with jax.enable_x64(True):
        draws = {k: jnp.asarray(v) for k, v in theta.draws(64, seed).items()}
        chip = presets.load("v6e")
        areas = area.die_area_mm2(chip, draws)
        watts = power.tdp_w(chip, draws)
        dollars = cost.usd_per_hour(chip, draws, 300.0)
    for values in (np.asarray(areas), np.asarray(watts), np.asarray(dollars)):
        assert values.shape == (64,) and np.all(np.isfinite(values) & (values > 0))
        assert np.std(values) > 0
