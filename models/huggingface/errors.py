"""The one error that reading a model configuration raises."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ModelConfigError(ValueError):
    """A configuration that cannot be read: names the file, the field and what to do about it."""

    def __init__(self, source: str, field: str, problem: str, remedy: str) -> None:
        self.source = source
        self.field = field
        super().__init__(f"{source}: field '{field}': {problem}; {remedy}")


class UnknownModelError(KeyError):
    """A model name that is neither a file nor in the catalog; lists the nearest names."""

    def __str__(self) -> str:
        return str(self.args[0])


def nearest(name: str, candidates: Iterable[str], count: int = 5) -> list[str]:
    """The `count` candidates most like `name`, case-insensitively, best first."""
    by_folded = {c.casefold(): c for c in candidates}
    folded = name.casefold()
    close = difflib.get_close_matches(folded, by_folded, n=count, cutoff=0.5)
    containing = [c for c in by_folded if folded and folded in c and c not in close]
    return [by_folded[c] for c in (close + containing)[:count]]
