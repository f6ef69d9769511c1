"""Predictions of the published rows, kept in the user's cache directory: they take minutes.

A file belongs to one state of everything that a prediction depends on, by the hash in its name.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from dse.scoring.cache import cache_directory
from dse.validation.record import Record
from dse.validation.residuals import FILE as RESIDUALS

_PACKAGES = ("hwmodel", "models", "dse.scoring", "dse.validation")
_KINDS = (".py", ".yaml", ".csv", ".json")
_UNRELATED = (RESIDUALS, "gaps.yaml", "bars.yaml")
"""Files that say something of predictions and change none."""


def load(name: str) -> list[Record] | None:
    """The saved records of a source of measurements; None where there are none of this state."""
    try:
        rows = json.loads(_path(name).read_text("utf-8"))
        return [Record(**{**row, "bars": tuple(row["bars"])}) for row in rows]
    except (OSError, ValueError, TypeError, KeyError):
        return None


def keep(name: str, records: Sequence[Record]) -> None:
    """Save records, and remove those of other states; does nothing where that cannot be done."""
    path = _path(name)
    text = json.dumps([dataclasses.asdict(r) for r in records])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob(f"{name}-*.json"):
            old.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError:
        return


def _path(name: str) -> Path:
    return cache_directory() / "validation" / f"{name}-{state()}.json"


@functools.cache
def state() -> str:
    """Hash of the equations, constants, measurements and models."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path, item in _files(resources.files(package), package):
            digest.update(path.encode())
            digest.update(item.read_bytes())
    return digest.hexdigest()[:12]


def _files(folder: Any, above: str) -> Iterator[tuple[str, Any]]:
    for item in sorted(folder.iterdir(), key=lambda i: i.name):
        path = f"{above}/{item.name}"
        if item.is_dir():
            yield from _files(item, path)
        elif item.name.endswith(_KINDS) and item.name not in _UNRELATED:
            yield path, item
