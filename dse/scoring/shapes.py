"""Dataclasses as a static shape and the numbers that are passed at run time.

A shape is what a compilation depends on: the class, and of each field its value where it is static,
the shapes of the parts of a tuple, or None where the value is a run-time number. Numbers are called
by their path, such as `mixers.0.layers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Shape = tuple[type, tuple[tuple[str, Any], ...]]
IsStatic = Callable[[Any, "dataclasses.Field[Any]", float], bool]
"""Whether the value of a part's field belongs to the shape."""


def split(part: Any, is_static: IsStatic, prefix: str = "") -> tuple[Shape, dict[str, float]]:
    """The shape of a dataclass, and its other numbers by path, in the order of `paths`."""
    fields: list[tuple[str, Any]] = []
    numbers: dict[str, float] = {}
    for f in dataclasses.fields(part):
        value = getattr(part, f.name)
        if isinstance(value, tuple):
            inner = [split(v, is_static, f"{prefix}{f.name}.{i}.") for i, v in enumerate(value)]
            fields.append((f.name, tuple(shape for shape, _ in inner)))
            for _, more in inner:
                numbers |= more
        elif isinstance(value, str):
            fields.append((f.name, ""))  # names never enter a compilation
        elif is_static(part, f, float(value)):
            fields.append((f.name, float(value)))
        else:
            fields.append((f.name, None))
            numbers[prefix + f.name] = float(value)
    return (type(part), tuple(fields)), numbers


def paths(shape: Shape, prefix: str = "") -> Iterator[str]:
    """The paths of the run-time numbers of a shape."""
    for name, static in shape[1]:
        if isinstance(static, tuple):
            for i, inner in enumerate(static):
                yield from paths(inner, f"{prefix}{name}.{i}.")
        elif static is None:
            yield prefix + name


def join(shape: Shape, numbers: Mapping[str, Any], prefix: str = "") -> Any:
    """Rebuild a dataclass from its shape and its run-time numbers by path."""
    cls, fields = shape
    values: dict[str, Any] = {}
    for name, static in fields:
        if isinstance(static, tuple):
            values[name] = tuple(
                join(inner, numbers, f"{prefix}{name}.{i}.") for i, inner in enumerate(static)
            )
        else:
            values[name] = numbers[prefix + name] if static is None else static
    return cls(**values)
