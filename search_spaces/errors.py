"""Errors of this package: one readable message each, without file names, which the caller adds."""

from __future__ import annotations


class SpaceError(ValueError):
    """A knob, choice, preset or space that cannot be used; the message says what would be legal."""


class UnitError(SpaceError):
    """A number with a unit that does not fit where it was given."""
