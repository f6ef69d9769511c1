"""What changed between two texts of one study file, for a reader."""

from __future__ import annotations

import json
from typing import Any

from dse.spec.problems import show_path
from dse.spec.text import Document, Path, YamlError, parse

_FREE = (("name",), ("question",), ("search", "trials"))
"""Keys that results do not depend on (StudySpec.fingerprint leaves them out)."""


def difference(stored: str, current: str, file: str) -> list[str]:
    """One line for each key whose value differs: `file:12: search.seed: was 1, is 2`.

    stored, current: YAML texts; the line is that of `current`, of the parent for a key gone.
    A text that is no longer YAML gives one line that says so. Equal contents give one line that
    names the cause left: a preset or the catalog changed.
    """
    try:
        old, new = parse(stored, file), parse(current, file)
    except YamlError as error:
        return [f"{file}:{error.line or 1}: {error}"]
    changes = _changes(old.data, new.data, (), new)
    return changes or [f"{file}: the text says the same, but a preset or the catalog has changed"]


def _changes(old: Any, new: Any, path: Path, document: Document) -> list[str]:
    if path in _FREE or old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for key in [*old, *(key for key in new if key not in old)]:
            where = (*path, key)
            if where in _FREE:
                continue
            if key not in new:
                found.append(_line(where, document, f"was {_show(old[key])}, is gone"))
            elif key not in old:
                found.append(_line(where, document, f"is new: {_show(new[key])}"))
            else:
                found += _changes(old[key], new[key], where, document)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = zip(old, new, strict=True)
        return [c for i, (a, b) in enumerate(pairs) for c in _changes(a, b, (*path, i), document)]
    return [_line(path, document, f"was {_show(old)}, is {_show(new)}")]


def _line(path: Path, document: Document, what: str) -> str:
    return f"{document.file}:{document.line(path) or 1}: {show_path(path)}: {what}"


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."
