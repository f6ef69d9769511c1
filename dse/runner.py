"""Running a study from its file: checks, storage, workers and interruption around the loop."""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse import changes, edges, locate, notes, probabilities, progress, uncertainty
from dse.errors import StoreError, error_directory
from dse.executors import choose, ray_runtime
from dse.interrupt import stop_on_signal
from dse.results import Results
from dse.score import Scorer, ScorerFactory
from dse.storage import Store, Writer
from dse.study import Loop, Problem
from dse.trials import judge

if TYPE_CHECKING:
    from dse.spec import StudySpec

_PACKAGES = ("optuna", "numpy", "jax", "ray", "moocore")


def build_scorer(spec: StudySpec) -> Scorer:
    """The scorer of a study. Imports JAX; a worker calls it after pinning its process."""
    from dse.evaluate import Scorer as ModelScorer

    scorer: Scorer = ModelScorer(spec)
    return scorer


def run(
    study: str | Path,
    *,
    results: str | Path | None = None,
    workers: str | int = "auto",
    ray_address: str | None = None,
    restart: bool = False,
    quiet: bool = True,
    timeout_s: float = 600.0,
) -> Results:
    """Run a study file, or go on with it, and return its results.

    results: directory for results (default: `results` beside the file). workers: 0 in this process,
    N for N local Ray workers, auto to measure which is faster. restart: set earlier results aside
    and begin anew. timeout_s: longest run of one chunk on a Ray worker.
    Raises UserError for anything wrong with the file, the results or the options.
    """
    from dse.spec import load

    spec = load(Path(study))
    return run_spec(
        spec,
        partial(build_scorer, spec),
        results=Path(results) if results else None,
        workers=workers,
        ray_address=ray_address,
        restart=restart,
        quiet=quiet,
        timeout_s=timeout_s,
    )


def run_spec(
    spec: Any,
    factory: ScorerFactory,
    *,
    results: Path | None = None,
    workers: str | int = "auto",
    ray_address: str | None = None,
    restart: bool = False,
    quiet: bool = True,
    timeout_s: float = 600.0,
) -> Results:
    """As `run`, for a loaded study and any way of scoring it."""
    count = choose.parse(workers, ray_address)
    store = locate.store_for(Path(spec.path), spec.name, results)
    display = progress.make(quiet=quiet)
    if restart and store.exists:
        _refuse_while_running(store)
        if ray_address is not None:  # a cluster that does not answer must not cost the results
            ray_runtime.connect(None, ray_address).close()
        display.note(f"earlier results are kept as {changes.set_aside(store)}")
    if store.exists:
        changes.check_study(store, spec.fingerprint, spec.text, str(spec.path))
    with Writer(store) as writer, _error_log(store), stop_on_signal(display.note) as stop:
        log = store.read()
        if len(log.trials) >= spec.search.trials:
            _describe(store, spec, store.meta()["model_version"])
            display.note(f"all {spec.search.trials} trials were finished before")
            _add_probabilities(Results(store), spec, factory)
            return Results(store)
        scorer = factory()
        if store.exists:
            changes.check_model(store, scorer.version)
        _describe(store, spec, scorer.version)
        torn = writer.open(log)
        if torn:
            display.note(
                f"the last line of the log was unfinished (a crash); moved to {torn.name}, "
                f"going on after trial {len(log.trials) - 1}"
            )
        elif log.trials:
            display.note(f"going on after trial {len(log.trials) - 1}")
        writer.session(_session(workers, ray_address, scorer))
        if not log.known:
            writer.known(_known(spec, scorer))
        executor = choose.make(
            count,
            scorer,
            factory,
            ray_address=ray_address,
            timeout_s=timeout_s,
            tell=display.note,
        )
        try:
            loop = Loop(
                Problem(spec.space(), spec.objectives, spec.constraints, spec.search),
                log,
                writer,
                executor,
                scorer.chunk,
                np.asarray(scorer.first_rows(), dtype=np.int32),
                display,
            )
            finished = loop.run(stop)
        finally:
            display.close()
            executor.close()
        done = Results(store, interrupted=not finished)
        _save_probabilities(done, spec, scorer)
    return done


def _save_probabilities(results: Results, spec: Any, scorer: Scorer) -> None:
    """Compute how probable it is that the front is feasible, and what its intervals depend on, and
    save both."""
    found = probabilities.compute(results, scorer, spec.space().canonical)
    probabilities.save(results.store, found, scorer.version)
    results.probabilities = found
    cases = uncertainty.compute(results, scorer, spec.space().canonical)
    uncertainty.save(results.store, cases, scorer.version)
    results.uncertainty = cases


def _add_probabilities(results: Results, spec: Any, factory: ScorerFactory) -> None:
    """The same for a finished study that lacks them (a crash, a removed or damaged file), unless
    the model has changed since."""
    try:
        if results.probabilities.cover(results) and results.uncertainty.cover(results):
            return
    except StoreError:
        results.probabilities = probabilities.Probabilities()
        results.uncertainty = uncertainty.Uncertainty()
    scorer = factory()
    if scorer.version == results.meta["model_version"]:
        _save_probabilities(results, spec, scorer)


def _refuse_while_running(store: Store) -> None:
    with Writer(store):
        pass


def _describe(store: Store, spec: Any, model_version: str) -> None:
    """Write (again) what the results mean; the study file may have new free keys."""
    space = spec.space()
    solved = [knob for assignment in spec.assignments for knob in assignment.solved_knobs]
    created = store.meta()["created"] if store.exists else _now()
    store.create(
        {
            "name": spec.name,
            "question": spec.question,
            "study_file": str(Path(spec.path).resolve()),
            "fingerprint": spec.fingerprint,
            "model_version": model_version,
            "objectives": [{"name": o.text, "direction": o.direction} for o in spec.objectives],
            "constraints": [c.text for c in spec.constraints],
            "knobs": {knob.name: list(knob.labels) for knob in space.knobs},
            "space_size": space.size,
            "search": {
                "sampler": spec.search.sampler,
                "trials": spec.search.trials,
                "seed": spec.search.seed,
                "population": spec.search.population,
            },
            "created": created,
            "fidelity": spec.fidelity,
            **notes.to_meta(space.knobs, spec.chip_base, spec.fidelity),
            **edges.to_meta([*space.knobs, *solved]),
        },
        spec.text,
    )


def _known(spec: Any, scorer: Scorer) -> dict[str, Any]:
    return {
        name: judge("", {}, score, spec.objectives, spec.constraints)
        for name, score in scorer.reference_scores()
    }


def _session(workers: str | int, ray_address: str | None, scorer: Scorer) -> Mapping[str, Any]:
    return {
        "started": _now(),
        "workers": str(workers),
        "ray_address": ray_address,
        "model_version": scorer.version,
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _error_log(store: Store) -> Iterator[None]:
    """Send this package's warnings (failed candidates, lost workers) to a file beside the log."""
    handler = logging.FileHandler(store.directory / "warnings.log", delay=True, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger = logging.getLogger("dse")
    logger.addHandler(handler)
    error_directory.set(store.directory)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
