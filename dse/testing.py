"""A small study with a known front, for tests of the loop, the executors and the storage.

An accelerator for matrix products with seven knobs and 34,560 index rows, small enough to be swept:
`true_front` is exact. It scores in microseconds and can be told to fail in chosen ways.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse import pareto
from dse.score import Score
from dse.validation.evidence import Case
from search_spaces.knob import Choice, Knob
from search_spaces.space import Space

if TYPE_CHECKING:
    from dse.results import Results


def _knob(name: str, values: tuple[float, ...], **more: Any) -> Knob:
    choices = tuple(Choice(f"{value:g}", {name: value}) for value in values)
    return Knob(name, "chip", "", name, choices, ordered=True, **more)


SPACE = Space(
    (
        _knob("rows", (16, 32, 64, 128, 256, 512)),
        _knob("cores", (1, 2, 4, 8, 16, 32)),
        _knob("sram_mb", (1, 2, 4, 8, 16, 32)),
        _knob("channels", (1, 2, 4, 8)),
        _knob("clock_ghz", (0.6, 0.9, 1.2, 1.5, 1.8)),
        _knob("bits", (8, 16)),
        _knob("packing", (1, 2, 3, 4), when={"bits": ("8",)}),
    )
)


@dataclass(frozen=True)
class Goal:
    """An objective."""

    text: str
    direction: str


@dataclass(frozen=True)
class Limit:
    """A constraint `metric <= limit`."""

    metric: str
    limit: float

    @property
    def text(self) -> str:
        """As in a study file."""
        return f"{self.metric} <= {self.limit:g}"

    def value(self, scores: Mapping[str, float]) -> float:
        """The limited metric."""
        return scores[self.metric]

    def violation(self, value: float) -> float:
        """value/limit - 1."""
        return value / self.limit - 1


@dataclass(frozen=True)
class Search:
    """Search settings of the fake study."""

    sampler: str = "nsga2"
    trials: int = 120
    seed: int = 7
    population: int = 30


@dataclass(frozen=True)
class FakeSpec:
    """What `dse.spec.load` would return, for the fake problem."""

    path: Path
    name: str = "fake"
    question: str = "does the loop work?"
    text: str = "name: fake\nsearch: {trials: 120}\nchip: {base: a}\n"
    fingerprint: str = "fingerprint-1"
    chip_base: str = "v6e"
    fidelity: str = "analytical"
    search: Search = Search()
    assignments: tuple[Any, ...] = ()
    objectives: tuple[Goal, ...] = (
        Goal("ops_per_s", "maximize"),
        Goal("joules_per_op", "minimize"),
        Goal("area_mm2", "minimize"),
    )
    constraints: tuple[Limit, ...] = (Limit("power_w", 60.0), Limit("area_mm2", 300.0))

    def space(self) -> Space:
        """The fake space."""
        return SPACE


@dataclass(frozen=True)
class Faults:
    """How scoring goes wrong, by design id. crash: the process dies; once: crash only while the
    file named here does not exist yet; hang: sleep for an hour; error: raise; nan: a NaN objective.
    delay_s: added to every call. unbuildable: the factory raises. unpinned: raise in a process that
    may use more than one CPU.
    """

    crash: frozenset[int] = frozenset()
    once: str = ""
    hang: frozenset[int] = frozenset()
    error: frozenset[int] = frozenset()
    nan: frozenset[int] = frozenset()
    all_errors: bool = False
    delay_s: float = 0.0
    unbuildable: bool = False
    unpinned: bool = False


@dataclass
class FakeScorer:
    """Scores the fake problem; `scored` lists the design ids of every call, in order."""

    faults: Faults = Faults()
    version: str = "fake-1"
    chunk: int = 8
    scored: list[int] = field(default_factory=list)
    first: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def _lock(self) -> threading.Lock:
        return threading.Lock()

    def score(self, indices: np.ndarray) -> list[Score]:
        """See `dse.score.Scorer`."""
        designs = [SPACE.design_id(row) for row in indices]
        self._break(set(designs))
        self.scored += designs
        metrics = evaluate(indices)
        return [
            self._score(design, {name: float(column[i]) for name, column in metrics.items()})
            for i, design in enumerate(designs)
        ]

    def reference_scores(self) -> list[tuple[str, Score]]:
        """The middle of the space, as the known chip."""
        row = np.array([[2, 2, 2, 2, 2, 1, 0]], dtype=np.int32)
        metrics = {name: float(column[0]) for name, column in evaluate(row).items()}
        return [("fake as it is", Score(metrics, solved={"batch": "64"}))]

    def first_rows(self) -> np.ndarray:
        """See `dse.score.Scorer`."""
        return np.array(self.first, dtype=np.int32).reshape(-1, len(SPACE.knobs))

    def feasibility(
        self, indices: np.ndarray, deployments: Sequence[Mapping[str, str]]
    ) -> list[dict[str, float]]:
        """Certain, but for the power at a high clock."""
        share = [0.75 if row[4] >= 3 else 1.0 for row in indices]
        assert all(set(labels) == {"batch"} for labels in deployments)
        return [
            {"legality": 1.0, "power_w <= 60": p, "area_mm2 <= 300": 1.0, "joint": p} for p in share
        ]

    def reference_feasibility(self) -> dict[str, dict[str, float]]:
        """See `dse.score.Scorer`."""
        (shares,) = self.feasibility(np.array([[2, 2, 2, 2, 2, 1, 0]]), [{"batch": "64"}])
        return {"fake as it is": shares}

    def uncertainty(
        self, indices: np.ndarray, deployments: Sequence[Mapping[str, str]]
    ) -> list[Case]:
        """Areas are known to 10 %; the faster the clock, the farther from what was measured."""
        assert all(set(labels) == {"batch"} for labels in deployments)
        area = {"area_mm2": (0.9, 1.1)}
        far = [[{"log_peak_flops": float(row[4])}] for row in indices]
        return [Case({"serve": one}, moe=False, gpu=False, estimates=area) for one in far]

    def reference_uncertainty(self) -> dict[str, Case]:
        """See `dse.score.Scorer`."""
        (case,) = self.uncertainty(np.array([[2, 2, 2, 2, 2, 1, 0]]), [{"batch": "64"}])
        return {"fake as it is": case}

    def explain(self, indices: np.ndarray, deployment: Mapping[str, str]) -> list[dict[str, Any]]:
        """One operator."""
        assert set(deployment) == {"batch"}
        operator = {"phase": "decode", "name": "matmul", "time_s": 1e-3, "bytes": 1e6}
        return [{**operator, "flops": 1e9, "bound_by": "mxu", "share": 1.0}]

    def explain_reference(self, name: str) -> list[dict[str, Any]]:
        """Another operator."""
        assert name == "fake as it is"
        return [{**self.explain(np.zeros(7, np.int32), {"batch": "64"})[0], "name": "reference"}]

    def _break(self, designs: set[int]) -> None:
        time.sleep(self.faults.delay_s)
        if designs & self.faults.hang:
            time.sleep(3600)
        if self.faults.unpinned and len(os.sched_getaffinity(0)) > 1:
            raise AssertionError("this process is not pinned to one CPU")
        if self.faults.all_errors or designs & self.faults.error:
            raise ValueError("the model cannot take this design")
        if designs & self.faults.crash:
            os._exit(13)
        if self.faults.once:
            try:
                Path(self.faults.once).touch(exist_ok=False)
            except FileExistsError:
                return
            os._exit(13)

    def _score(self, design: int, metrics: dict[str, float]) -> Score:
        need, have = metrics.pop("tile_mb"), metrics.pop("sram_mb")
        if need > have:
            return Score(
                {"area_mm2": metrics["area_mm2"]},
                legal=False,
                reason="vmem_overflow",
                explanation=f"one tile needs {need:g} MB, the chip has {have:g} MB",
                repair="sram_mb one step up",
                violation=need / have - 1,
            )
        if design in self.faults.nan:
            metrics["ops_per_s"] = float("nan")
        other = {name: value * 0.999 for name, value in metrics.items()}
        mapping = {"deployment": {"batch": "32"}, "metrics": {**other, "joules_per_op": 1e9}}
        return Score(metrics, solved={"batch": "64"}, mappings=(mapping,))


@dataclass(frozen=True)
class Factory:
    """Picklable builder of FakeScorer."""

    faults: Faults = Faults()

    def __call__(self) -> FakeScorer:
        """A new scorer."""
        if self.faults.unbuildable:
            raise RuntimeError("no such model")
        return FakeScorer(self.faults)


def evaluate(indices: np.ndarray) -> dict[str, np.ndarray]:
    """Metrics of canonical rows, int32[n, 7] -> float[n] each."""
    columns = SPACE.canonical(indices).T
    table = [
        np.array([choice.fields[knob.name] for choice in knob.choices]) for knob in SPACE.knobs
    ]
    rows, cores, sram, channels, clock, bits, packing = (
        values[column] for values, column in zip(table, columns, strict=True)
    )
    narrow = bits == 8
    macs = rows**2 * cores * np.where(narrow, 1 + 0.3 * packing, 1.0)
    compute = 2 * macs * clock * 1e9
    reuse = np.sqrt(sram * 2**20 / (bits / 8))
    memory = channels * 25e9 * reuse / (bits / 8)
    rate = compute * memory / (compute + memory)
    core = rows**2 * np.where(narrow, 1e-3, 2.5e-3) + 2 + np.where(narrow, packing, 0)
    area = cores * core + 1.2 * sram + 9 * channels
    volts = 0.6 + 0.25 * clock
    power = 4 + 0.05 * area * volts**2 + rate * bits / 16 * volts**2 * 5e-13 + 2.0 * channels
    return {
        "ops_per_s": rate,
        "joules_per_op": power / rate,
        "area_mm2": area,
        "power_w": power,
        "tile_mb": rows**2 * 12 * cores * bits / 8 / 2**20,
        "sram_mb": sram,
    }


def true_front(spec: FakeSpec) -> np.ndarray:
    """Objective values of the exact front of a fake study, float[n, 3]."""
    metrics = evaluate(SPACE.grid())
    feasible = metrics["tile_mb"] <= metrics["sram_mb"]
    for limit in spec.constraints:
        feasible &= metrics[limit.metric] <= limit.limit
    values = np.stack([metrics[goal.text][feasible] for goal in spec.objectives], axis=1)
    front: np.ndarray = values[
        pareto.nondominated(values, [goal.direction for goal in spec.objectives])
    ]
    return front


def run_fake(
    directory: Path,
    *,
    faults: Faults = Faults(),
    workers: str | int = 0,
    spec: FakeSpec | None = None,
    **search: Any,
) -> Results:
    """Run (or go on with) the fake study in `directory`; `search` overrides its settings."""
    from dse.runner import run_spec

    spec = spec or FakeSpec(directory / "fake.yaml")
    spec = replace(spec, search=replace(spec.search, **search))
    return run_spec(spec, Factory(faults), workers=workers, quiet=True)
