"""A measured row as a case that the model can predict: parts, numbers and an equation's name.

Everything that the columns state goes in as stated. What they do not state, and a software stack's
own published default does, comes from `hwmodel/calibration/stack_defaults.yaml` and is listed in
`Case.assumed`; what nothing states raises `MissingField`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dse.divisors import divisors
from dse.validation.measurements import Measurement, MissingField
from dse.validation.possible import check_devices, check_metric, check_operation, choice
from hwmodel import presets
from hwmodel.chip import Chip, share_of


@dataclass(frozen=True)
class Case:
    """What one prediction needs: `parts` are dataclasses of numbers, `numbers` the rest."""

    measurement: Measurement
    kind: str
    equation: str
    parts: Mapping[str, Any]
    numbers: Mapping[str, float]
    assumed: tuple[str, ...] = ()
    static: tuple[tuple[str, Any], ...] = field(default=())
    """What the equation branches on; part of the compilation's key."""


def case(m: Measurement) -> Case:
    """The case of a row.

    Raises:
        MissingField: the row lacks a field without which it cannot be predicted.
    """
    operation = m.operation()
    if operation.get("family") == "diffusion":
        raise MissingField("diffusion models are not in the model's vocabulary")
    chip = _chip(m)
    check_operation(m)
    check_devices(m, chip)
    made = _microbenchmark(m, chip, operation) if "op" in operation else _model(m, chip)
    check_metric(m)
    return made


def _model(m: Measurement, chip: Chip) -> Case:
    from dse.validation import model_cases

    return model_cases.case(m, chip)


def _chip(m: Measurement) -> Chip:
    try:
        return presets.load(m.tpu)
    except presets.ChipError:
        raise MissingField(f"tpu: {m.tpu!r} names no known chip") from None


def _microbenchmark(m: Measurement, chip: Chip, op: Mapping[str, Any]) -> Case:
    name = str(op["op"])
    if name == "matmul":
        return _matmul(m, chip, op)
    if name == "hbm_copy":
        return Case(
            m,
            "hbm",
            "hbm_copy",
            {"chip": _device(m, chip)},
            {"bytes_moved": _size(op, "bytes_moved")},
        )
    if name in ("all_gather", "reduce_scatter"):
        return _collective(m, chip, op)
    if name == "all_reduce":
        raise MissingField("bytes_moved: the bandwidth's definition is not stated")
    raise MissingField(f"op {name!r} is not in the model's vocabulary")


def _size(op: Mapping[str, Any], name: str) -> float:
    """A number that the JSON object in `arch` states."""
    value = op.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise MissingField(f"arch: {op['op']} needs {name!r} as a number above 0, not {value!r}")
    return float(value)


def _device(m: Measurement, chip: Chip) -> Chip:
    """One JAX device of a chip: `chips` is 0.5 where a chip has two."""
    chips = m.number("chips")
    return share_of(chip, chips) if chips < 1 else chip


def _matmul(m: Measurement, chip: Chip, op: Mapping[str, Any]) -> Case:
    chips = m.number("chips")
    if m.compute_dtype:  # other formats have another rate, which the equation does not know
        choice("compute_dtype", m.compute_dtype, ("bf16",))
    rows, columns = _size(op, "m"), _size(op, "n")
    device = chip
    if chips <= 1:
        device = _device(m, chip)
    else:  # split over the devices of several chips: rows by dp, columns by tp
        devices = m.number("dp") * m.number("fsdp") * m.number("tp")
        rows /= m.number("dp") * m.number("fsdp")
        columns /= m.number("tp")
        device = share_of(chip, chips / devices) if devices > chips else chip
    numbers = {
        "m": rows,
        "k": _size(op, "k"),
        "n": columns,
        "host": float(op.get("timing") == "host"),
    }
    blocks = tuple(_size(op, f"block_{d}") for d in "mkn") if "block_m" in op else None
    equation = "matmul" if blocks is None else "blocked_matmul"
    # Timed from the host, a matmul is mostly its dispatch: another class of prediction.
    kind = "matmul_host" if numbers["host"] else "matmul"
    return Case(m, kind, equation, {"chip": device}, numbers, static=(("blocks", blocks),))


def _collective(m: Measurement, chip: Chip, op: Mapping[str, Any]) -> Case:
    """A group of `group_size` chips; each device of a chip runs its own group at the same time."""
    group = _size(op, "group_size")
    if not 1 < group <= m.number("chips"):
        raise MissingField(f"arch: group_size {group:g} of {m.number('chips'):g} chips")
    sides = torus(m, chip)
    if op["op"] == "all_gather":
        # bytes_moved counts what one chip receives: (group - 1) shards of each of its devices.
        payload = _size(op, "bytes_moved") / (group - 1) * group
    else:  # every member holds the whole array before it is summed and scattered
        payload = _size(op, "bytes_per_device")
    numbers = {"payload_bytes": payload, "group": group}
    for axis, side in zip("xyz", sides, strict=True):
        numbers[f"torus_{axis}"] = side
    return Case(
        m, "collective", "collective", {"chip": chip}, numbers, static=(("op", str(op["op"])),)
    )


def torus(m: Measurement, chip: Chip, degrees: Sequence[float] = ()) -> tuple[float, float, float]:
    """Sides of one slice: as stated in `mesh`; else the degrees themselves where they make a torus
    of closed rings, which is how slices are chosen for them; else the most cubic torus of its
    chips.
    """
    if m.mesh:
        sides = _stated_sides(m)
        return (*sides, *[1.0] * (3 - len(sides)))  # type: ignore[return-value]
    chips = round(m.number("chips") / (m.num_slices or 1))
    rings = [d for d in degrees if d > 1]
    closed = all(d % chip.ici_wrap_multiple == 0 for d in rings)
    if 1 < len(rings) <= chip.ici_torus_ndims and closed and math.prod(rings) == chips:
        return (*rings, *[1.0] * (3 - len(rings)))  # type: ignore[return-value]
    return most_cubic(chips, round(chip.ici_torus_ndims))


def _stated_sides(m: Measurement) -> list[float]:
    try:
        sides = [float(int(side)) for side in m.mesh.split("x")]
    except ValueError:
        sides = []
    whole = math.prod(sides) * (m.num_slices or 1)
    if not 0 < len(sides) <= 3 or min(sides) < 1 or (m.chips or 1) >= 1 and whole != m.chips:
        raise MissingField(f"mesh {m.mesh!r} has not the {m.chips or 0:g} chips, in up to 3 sides")
    return sides


def most_cubic(chips: int, dimensions: int) -> tuple[float, float, float]:
    """Sides of a torus of `chips` whose longest side is shortest.

    Three-dimensional pods are cut in cubes of four: where that is possible all sides are multiples
    of four.
    """
    best: tuple[Any, ...] | None = None
    for x in (1,) if dimensions < 3 else divisors(chips):
        for y in divisors(chips // x):
            z = chips // x // y
            if x <= y <= z:
                cubes = dimensions >= 3 and all(side % 4 == 0 for side in (x, y, z))
                key = (not cubes, z)
                if best is None or key < best[0]:
                    best = (key, (float(x), float(y), float(z)))
    if best is None or not math.isfinite(chips):
        raise MissingField("mesh is not stated and the chips make no torus")
    sides: tuple[float, float, float] = best[1]
    return sides if dimensions >= 3 else (sides[1], sides[2], sides[0])
