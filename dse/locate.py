"""Finding a study's results: by study file, by results directory, or by name."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from dse.errors import UserError
from dse.storage import META, Store

_STUDY_SUFFIXES = (".yaml", ".yml")


def store_for(study_file: Path, name: str, results: Path | None) -> Store:
    """Where the study called `name` in `study_file` keeps its results: in `results`, by default
    the directory `results` beside the file."""
    return Store((results or study_file.parent / "results") / name)


def find(study: str, results: Path | None = None) -> Store:
    """The results that STUDY means: a study file, a results directory, or the name of a study.

    Names are looked up in `results`, by default in `results` and `studies/results` below the
    working directory. Raises UserError, with the nearest name, when there are none.
    """
    path = Path(study)
    if path.suffix in _STUDY_SUFFIXES:
        from dse.spec import load

        spec = load(path)
        store = store_for(spec.path, spec.name, results)
        if not store.exists:
            raise UserError(f"{study} has no results in {store.directory}; first: dse run {study}")
        return store
    if (path / META).exists():
        return Store(path)
    known = {store.directory.name: store for store in stores(results)}
    if study in known:
        return known[study]
    near = get_close_matches(study, known, n=1)
    hint = f"the nearest is {near[0]}" if near else "`dse list` shows those there are"
    raise UserError(f"{study} is no study file, results directory or known study name; {hint}")


def stores(results: Path | None = None) -> Iterator[Store]:
    """All studies with results in `results`, or in the default places."""
    roots = [results] if results else [Path("results"), Path("studies/results")]
    for root in roots:
        for meta in sorted(root.glob(f"*/{META}")):
            yield Store(meta.parent)
