"""Process table: exact at its rows, monotone between them, traceable."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import yaml

from hwmodel import presets
from hwmodel.process import QUANTITIES, process_at


def _rows() -> dict[float, dict[str, dict[str, object]]]:
    from importlib import resources

    text = resources.files("hwmodel").joinpath("data/process_nodes.yaml").read_text()
    return {float(k): v for k, v in yaml.safe_load(text).items()}


@pytest.mark.parametrize("node", [2.0, 3.0, 4.0, 5.0, 7.0, 16.0])
def test_rows_are_reproduced(node: float) -> None:
    process = process_at(node)
    for quantity in QUANTITIES:
        value = float(getattr(process, quantity))
        assert value == pytest.approx(_rows()[node][quantity]["value"], rel=1e-5), quantity


def test_every_row_is_sourced_and_in_range() -> None:
    for row in _rows().values():
        assert set(row) == set(QUANTITIES)
        for entry in row.values():
            assert entry["low"] <= entry["value"] <= entry["high"]  # type: ignore[operator]
            assert set(str(entry["source"]).split("; ")) <= set(presets.sources())


def test_a_finer_node_is_denser_thriftier_and_dearer() -> None:
    nodes = np.linspace(2.0, 16.0, 141)
    process = process_at(nodes)
    assert np.all(np.diff(process.logic_area_scale) > 0)
    assert np.all(np.diff(process.energy_scale) > 0)
    assert np.all(np.diff(process.sram_mm2_per_mib) >= -1e-6)
    assert np.all(np.diff(process.wafer_usd) < 0)


def test_nodes_outside_the_table_hold_the_nearest_row() -> None:
    assert float(process_at(28.0).wafer_usd) == pytest.approx(float(process_at(16.0).wafer_usd))
    assert float(process_at(1.0).wafer_usd) == pytest.approx(float(process_at(2.0).wafer_usd))


def test_traced_and_plain_agree() -> None:
    nodes = np.array([2.5, 4.0, 6.0, 12.0])
    batched = jax.jit(jax.vmap(lambda n: process_at(n).logic_area_scale))(nodes)
    plain = [float(process_at(float(n)).logic_area_scale) for n in nodes]
    np.testing.assert_allclose(batched, plain, rtol=1e-6)
