"""Mesh axes on the torus, against an enumeration of the chips of a slice."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import jax
import numpy as np
import pytest

from hwmodel import presets, theta
from models.deployment import ORDERED_AXES, Deployment, mesh_axes, slice_fabric, two_d_axes

THETA = theta.central()
V6E = presets.load("v6e")
Order = tuple[str, ...]
DEFAULT: Order = ORDERED_AXES


@pytest.fixture(autouse=True)
def _eager() -> Iterator[None]:
    with jax.enable_x64(True), jax.disable_jit():
        yield


def _deployment(torus: str, order: Order = DEFAULT, **degrees: float) -> Deployment:
    x, y, z = ([float(s) for s in torus.split("x")] + [1.0])[:3]
    ranks = {f"{name}_rank": float(order.index(name)) for name in ORDERED_AXES}
    return Deployment(torus_x=x, torus_y=y, torus_z=z, **ranks, **degrees)


def _coordinates(d: Deployment) -> np.ndarray:
    """Torus coordinates of each chip of a slice, numbered x fastest: [chips, 3]."""
    sides = [int(s) for s in (d.torus_x, d.torus_y, d.torus_z)]
    return np.array([c[::-1] for c in itertools.product(*(range(s) for s in sides[::-1]))])


def _groups(d: Deployment, order: Order, names: tuple[str, ...]) -> list[list[int]]:
    """Chips of one slice that differ only in their position on the axes `names`."""
    sizes = {n: int(getattr(d, n)) for n in order}
    found: dict[tuple[int, ...], list[int]] = {}
    for chip in range(int(d.torus_x * d.torus_y * d.torus_z)):
        rest, place = chip, {}
        for name in order:
            rest, place[name] = divmod(rest, sizes[name])
        key = (rest, *(place[n] for n in order if n not in names))
        found.setdefault(key, []).append(chip)
    return list(found.values())


def _factors(d: Deployment, groups: list[list[int]]) -> tuple[int, int, int]:
    """Different positions that one group takes in x, y and z; the same for all groups."""
    where = _coordinates(d)
    shapes = {tuple(len(set(where[g][:, axis])) for axis in range(3)) for g in groups}
    (shape,) = shapes
    return shape


CASES = [
    ("4x4", {"tensor": 4.0, "fsdp": 4.0}, DEFAULT),
    ("4x4", {"tensor": 8.0, "context": 2.0}, DEFAULT),
    ("2x4", {"tensor": 2.0, "context": 4.0}, ("context", "tensor", "expert", "fsdp")),
    ("4x8", {"tensor": 4.0, "expert": 8.0}, DEFAULT),
    ("4x8", {"tensor": 4.0, "expert": 8.0}, ("expert", "tensor", "context", "fsdp")),
    ("8x8", {"tensor": 4.0, "expert": 4.0, "context": 2.0, "fsdp": 2.0}, DEFAULT),
    ("4x4x4", {"tensor": 16.0, "context": 2.0, "fsdp": 2.0}, DEFAULT),
    ("2x2x4", {"tensor": 2.0, "expert": 2.0, "fsdp": 4.0}, ("fsdp", "tensor", "expert", "context")),
    ("8x8", {"expert": 8.0, "fsdp": 2.0, "context": 4.0}, ("tensor", "fsdp", "expert", "context")),
    ("8x8", {"tensor": 8.0, "fsdp": 2.0, "context": 4.0}, ("expert", "fsdp", "tensor", "context")),
]  # fmt: skip


@pytest.mark.parametrize(("torus", "degrees", "order"), CASES)
def test_the_layout_equals_an_enumeration_of_the_chips(
    torus: str, degrees: Mapping[str, float], order: Order
) -> None:
    d = _deployment(torus, order, **degrees)
    axes = mesh_axes(slice_fabric(V6E, THETA, d), d)
    for name, members in [*((n, (n,)) for n in ORDERED_AXES), ("model", ("tensor", "expert"))]:
        groups = _groups(d, order, members)
        axis = axes[name]
        assert len(groups[0]) == float(axis.size), name
        fx, fy, fz = _factors(d, groups)
        if float(axis.size) > 1:
            assert (float(axis.factor_x), float(axis.factor_y)) == (fx, fy), name
        assert float(axis.ici_size) == pytest.approx(fx * fy * fz), name
        assert float(axis.untiled) == 0, name
        stride = groups[0][1] - groups[0][0] if len(groups[0]) > 1 else None
        assert stride is None or float(axis.start) == stride, name


def test_attention_is_the_inner_part_of_the_model_axis() -> None:
    """Of 16 chips of a block, 4 share an attention layer and 4 such groups are replicas."""
    d = _deployment("4x4", tensor=16.0, attention_data=4.0)
    axes = mesh_axes(slice_fabric(V6E, THETA, d), d)
    inner, outer = axes["attention"], axes["attention_data"]
    assert (float(inner.start), float(inner.size)) == (1, 4)
    assert (float(outer.start), float(outer.size)) == (4, 4)
    assert (float(inner.factor_x), float(inner.factor_y)) == (4, 1)
    assert (float(outer.factor_x), float(outer.factor_y)) == (1, 4)


def test_pipeline_stages_lie_outside_all_other_axes() -> None:
    d = _deployment("4x4", tensor=4.0, fsdp=2.0, pipeline=4.0)
    axes = mesh_axes(slice_fabric(V6E, THETA, d), d)
    assert float(axes["pipeline"].start) == 8
    assert float(axes["pipeline"].ici_size) == 2  # 8 stages-chips fill half a slice each
    assert float(axes["pipeline"].per_dcn) == 0.5


@pytest.mark.parametrize(
    ("torus", "degrees", "fits"),
    [
        ("4x4", {"tensor": 8.0}, True),
        ("4x4", {"tensor": 6.0}, False),
        ("6x4", {"tensor": 4.0, "context": 6.0}, False),
        ("6x4", {"tensor": 6.0, "context": 4.0}, True),
    ],
)
def test_axes_that_do_not_tile_the_torus_are_marked(
    torus: str, degrees: Mapping[str, float], fits: bool
) -> None:
    d = _deployment(torus, **degrees)
    axes = mesh_axes(slice_fabric(V6E, THETA, d), d)
    assert (sum(float(axes[n].untiled) for n in ORDERED_AXES) == 0) == fits


def test_a_2d_grid_splits_at_the_first_torus_dimension() -> None:
    d = _deployment("4x8", tensor=32.0, layout_2d=1.0)
    f = slice_fabric(V6E, THETA, d)
    grid = two_d_axes(f, d, mesh_axes(f, d)["model"])
    assert float(grid.side) == 4 and float(grid.exists) == 1
    x, y = grid.axes["model_x"], grid.axes["model_y"]
    assert (float(x.factor_x), float(x.factor_y)) == (4, 1)
    assert (float(y.factor_x), float(y.factor_y)) == (1, 8)


@pytest.mark.parametrize("side", [2, 3, 4, 7, 16, 49, 64])
def test_a_2d_grid_needs_two_torus_dimensions(side: int) -> None:
    """Also where 1 / (1 / side) is not side, such as 49."""
    d = _deployment(f"{side}x4", tensor=float(side), layout_2d=1.0)
    f = slice_fabric(V6E, THETA, d)
    grid = two_d_axes(f, d, mesh_axes(f, d)["model"])
    assert float(grid.exists) == 0 and float(grid.side) == 1


def test_counts_of_chips_and_sequences() -> None:
    d = Deployment(
        data=2.0, fsdp=2.0, tensor=4.0, expert=2.0, pipeline=3.0, context=5.0,
        attention_data=4.0, batch=100.0,
    )  # fmt: skip
    assert d.model_parallel == 8 and d.attention_tensor == 2
    assert d.replica_chips == 8 * 3 * 5 * 2 and d.chips == 2 * d.replica_chips
    assert d.request_groups == 8
    assert float(d.microbatch_per_group) == 3  # ceil(100 / (2 * 3 * 8))


def test_traced_degrees_give_the_same_layout() -> None:
    d = _deployment("4x8", tensor=4.0, expert=8.0)
    plain = mesh_axes(slice_fabric(V6E, THETA, d), d)

    @jax.jit
    def traced(tensor: float, expert: float, context: float) -> dict[str, tuple[float, ...]]:
        changed = dataclasses.replace(d, tensor=tensor, expert=expert, context=context)
        axes = mesh_axes(slice_fabric(V6E, THETA, changed), changed)
        return {n: (a.start, a.gather_s_per_byte, a.latency_s) for n, a in axes.items()}

    with jax.disable_jit(False):
        found = traced(4.0, 8.0, 1.0)
    for name, axis in plain.items():
        expected = (axis.start, axis.gather_s_per_byte, axis.latency_s)
        if float(axis.size) > 1:
            assert [float(v) for v in found[name]] == pytest.approx([float(v) for v in expected])
        else:
            assert [float(v) for v in found[name][1:]] == [0, 0]


def test_chips_left_idle_in_a_slice_are_held_too() -> None:
    half = Deployment(tensor=8.0, torus_x=4.0, torus_y=4.0)
    assert (float(half.chips), float(half.occupied_chips)) == (8, 16)
    full = Deployment(tensor=8.0, data=2.0, torus_x=4.0, torus_y=4.0)
    assert float(full.occupied_chips) == 16
    two_slices = Deployment(tensor=32.0, torus_x=4.0, torus_y=4.0)
    assert float(two_slices.occupied_chips) == 32
