"""The knobs a study may turn, as data (chip, model, deployment), presets, and spaces of them."""

from __future__ import annotations

from search_spaces.errors import SpaceError, UnitError
from search_spaces.fields import FieldTable
from search_spaces.knob import Choice, Knob
from search_spaces.nearest import nearest, suggestion
from search_spaces.space import Space

__all__ = [
    "Choice",
    "FieldTable",
    "Knob",
    "Space",
    "SpaceError",
    "UnitError",
    "nearest",
    "suggestion",
]
