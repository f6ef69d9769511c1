"""The nearest valid name to a misspelt one, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LISTED = 12  # more names than this do not help a reader of an error message
_CLOSE_ENOUGH = 0.5


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of `names` (case ignored, the first of equals), or None for none similar."""
    known = list(names)
    scored = [(_similarity(name, candidate), candidate) for candidate in known]
    best = max(scored, key=lambda pair: pair[0], default=(0.0, ""))
    if best[0] >= _CLOSE_ENOUGH:
        return best[1]
    containing = [c for c in known if name and name.lower() in c.lower()]
    return min(containing, key=len, default=None)


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio()


def suggestion(name: str, names: Iterable[str]) -> str:
    """`did you mean 'x'?`, or the valid names where none is similar (the first few of many)."""
    known = list(names)
    found = nearest(name, known)
    if found is not None:
        return f"did you mean {found!r}?"
    if not known:
        return "there is none to choose from"
    more = "" if len(known) <= _LISTED else f" and {len(known) - _LISTED} more"
    return f"valid names: {', '.join(sorted(known)[:_LISTED])}{more}"
