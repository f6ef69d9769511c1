"""Logic process: area, SRAM, energy, wafer price and defects as functions of the node.

The table is `data/process_nodes.yaml`. Each quantity is piecewise linear in the node: a handful of
clipped hinges and no transcendental, so that `node_nm` may be traced or an array in the hot path.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from importlib import resources
from typing import Any

import jax.numpy as jnp

Number = Any

QUANTITIES = (
    "logic_area_scale",
    "io_area_scale",
    "sram_mm2_per_mib",
    "energy_scale",
    "wafer_usd",
    "defects_per_cm2",
)


@dataclass(frozen=True)
class Process:
    """One logic process. Scales are relative to 7 nm; each field has the shape of `node_nm`."""

    logic_area_scale: Number
    io_area_scale: Number
    sram_mm2_per_mib: Number
    energy_scale: Number
    wafer_usd: Number
    defects_per_cm2: Number


def process_at(node_nm: Number) -> Process:
    """The process at `node_nm` (nm, scalar or array), constant beyond the ends of the table."""
    nodes, table = _table()
    steps = [
        jnp.clip(node_nm - low, 0.0, high - low)
        for low, high in zip(nodes[:-1], nodes[1:], strict=True)
    ]
    values: dict[str, Number] = {}
    for name in QUANTITIES:
        ys = table[name]
        value: Number = ys[0]
        for i, step in enumerate(steps):
            value = value + (ys[i + 1] - ys[i]) / (nodes[i + 1] - nodes[i]) * step
        values[name] = value
    return Process(**values)


@functools.cache
def _table() -> tuple[tuple[float, ...], dict[str, tuple[float, ...]]]:
    """Nodes ascending, and each quantity in the same order."""
    import yaml

    text = resources.files("hwmodel").joinpath("data/process_nodes.yaml").read_text()
    rows = {float(node): row for node, row in yaml.safe_load(text).items()}
    nodes = tuple(sorted(rows))
    return nodes, {q: tuple(float(rows[n][q]["value"]) for n in nodes) for q in QUANTITIES}
