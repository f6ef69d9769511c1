"""What is wrong with a study file: every problem found, each with its line, key and fix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dse.errors import UserError
from dse.spec.text import Document, Path
from search_spaces.errors import SpaceError


@dataclass(frozen=True)
class Problem:
    """One problem: `line` of the file (None: the file as a whole), `key` path, and what to do."""

    line: int | None
    key: str
    message: str

    def show(self, file: str) -> str:
        """`file:line: key: message`."""
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class SpecError(UserError):
    """A study file that cannot be used. `str()` is the whole readable message."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda p: p.line or 0))
        shown = [problem.show(file) for problem in self.problems]
        if len(shown) > 1:
            shown.insert(0, f"{file} has {len(shown)} problems:")
        super().__init__("\n".join(shown))


class Problems:
    """Collects the problems of one document, so that one run names them all."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._found: list[Problem] = []

    def add(self, path: Path, message: str) -> None:
        """Record a problem at `path` (keys and list positions from the root)."""
        problem = Problem(self._document.line(path), show_path(path), message)
        if problem not in self._found:
            self._found.append(problem)

    @contextmanager
    def at(self, path: Path, *also: type[Exception]) -> Iterator[None]:
        """Record a SpaceError (or one of `also`) raised in the block as a problem at `path`."""
        expected: tuple[type[Exception], ...] = (SpaceError, *also)
        try:
            yield
        except expected as error:
            self.add(path, str(error))

    @property
    def any(self) -> bool:
        """Whether a problem has been recorded."""
        return bool(self._found)

    def raise_any(self) -> None:
        """Raise SpecError with all recorded problems, if there are any."""
        if self._found:
            raise SpecError(self._document.file, self._found)


def show_path(path: Path) -> str:
    """`portfolio[0].deployment.knobs.batch`; list positions count from 0 as in Python."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += f".{part}" if shown else part
    return shown
