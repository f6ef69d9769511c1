"""Results of a study as pandas DataFrames: trials, the front, and explanations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse import edges, locate, notes, pareto, probabilities, uncertainty
from dse.errors import UserError
from dse.notes import Assumption
from dse.probabilities import Probabilities
from dse.storage import Log, Store
from dse.trials import JOINT, Evaluated, Trial, told_constraints
from dse.uncertainty import Uncertainty

if TYPE_CHECKING:
    import pandas as pd

    from dse.spec import StudySpec
    from dse.validation.evidence import Interval


@dataclass(frozen=True)
class Point:
    """One point of a study: a trial at its own mapping or a kept one, or a known chip.

    number, mapping: None where they do not apply. known: name of the known chip, "" for a trial.
    p_feasible: probability by constraint (`dse.probabilities`), None where it was not computed.
    assumptions: bands of quality loss that the study assumed for these settings.
    intervals: 80 % interval of metrics by name (`dse.uncertainty`), None where not computed.
    """

    number: int | None
    mapping: int | None
    known: str
    params: Mapping[str, str]
    deployment: Mapping[str, str]
    metrics: Mapping[str, float]
    constraints: Mapping[str, float]
    feasible: bool
    p_feasible: Mapping[str, float] | None = None
    assumptions: tuple[Assumption, ...] = ()
    intervals: Mapping[str, Interval] | None = None

    def to_json(self) -> dict[str, Any]:
        """The documented row of `dse front --json`; NaN becomes null."""
        return {
            "number": self.number,
            "params": {**self.params, **self.deployment},
            "metrics": {k: v if np.isfinite(v) else None for k, v in self.metrics.items()},
            "constraints": dict(self.constraints),
            "feasible": self.feasible,
            "mapping": self.mapping,
            "known": self.known or None,
            "p_feasible": None if self.p_feasible is None else dict(self.p_feasible),
            "assumptions": [asdict(a) for a in self.assumptions],
            "intervals": self.intervals_json(),
        }

    def intervals_json(self) -> dict[str, dict[str, Any]] | None:
        """The intervals as plain data."""
        if self.intervals is None:
            return None
        return {name: one.to_json() for name, one in self.intervals.items()}


class Results:
    """The results of one study. Reads the log once; make a new one to see later trials.

    interrupted: whether the run that returned these results was stopped before its last trial.
    """

    def __init__(self, store: Store, interrupted: bool = False) -> None:
        self.store = store
        self.interrupted = interrupted
        self.meta = store.meta()

    @cached_property
    def log(self) -> Log:
        """The log as read."""
        return self.store.read()

    @property
    def objectives(self) -> list[str]:
        """Names of the objectives, which are also metric names."""
        return [objective["name"] for objective in self.meta["objectives"]]

    @property
    def directions(self) -> list[str]:
        """'maximize' or 'minimize' per objective."""
        return [objective["direction"] for objective in self.meta["objectives"]]

    def trial(self, number: int) -> Trial:
        """The trial of that number. Raises UserError when there is none."""
        trials = self.log.trials
        if not 0 <= number < len(trials):
            have = f"0 to {len(trials) - 1}" if trials else "none yet"
            raise UserError(f"{self.meta['name']} has no trial {number}; there are {have}")
        return trials[number]

    def find(self, subject: str) -> int | str:
        """What `--trial` names: the number of a trial, or a known chip's name as the front shows
        it ('v6e as it is'; 'v6e' will do). Raises UserError where it is neither."""
        if subject.lstrip("-").isdecimal():
            return self.trial(int(subject)).number
        folded = subject.casefold()
        names = [n for n in self.log.known if f"{n} ".casefold().startswith(f"{folded} ")]
        if len(names) == 1:
            return names[0]
        known = ", ".join(f"'{name}'" for name in self.log.known) or "none"
        raise UserError(
            f"'{subject}' is neither the number of a trial nor one known chip; known chips: {known}"
        )

    def known(self, name: str) -> Evaluated:
        """The score of the known chip called `name`."""
        return self.log.known[name]

    def trials(self) -> pd.DataFrame:
        """One row per trial: number, generation, state, knobs, metrics and violations."""
        rows = [
            {
                "number": trial.number,
                "generation": trial.generation,
                "design": trial.evaluated.design,
                "feasible": trial.feasible,
                "legal": trial.evaluated.score.legal,
                "failed": trial.evaluated.score.failed,
                "cached": trial.cached,
                "reason": trial.evaluated.score.reason,
                **_flat(point_of(trial)),
            }
            for trial in self.log.trials
        ]
        return _frame(rows)

    def front(self, *, known: bool = False, least_violating: bool = False) -> pd.DataFrame:
        """The Pareto front, one row per point; see `front_points`."""
        return frame_of(self.front_points(known=known, least_violating=least_violating))

    def front_points(self, *, known: bool = False, least_violating: bool = False) -> list[Point]:
        """Feasible points that no other one dominates, by trial number.

        Kept mappings of a trial compete like trials; of points with equal objectives the first
        stays. known: append the known chips. least_violating: when nothing is feasible, give the
        five evaluated designs that violate least instead of none.
        """
        front = self._front
        if not front and least_violating:
            front = [point_of(trial) for trial in self.least_violating()]
        return [self._annotated(p) for p in front] + (self.known_points() if known else [])

    def known_points(self) -> list[Point]:
        """Known chips in this study's terms, in the scorer's order."""
        points = [_known_point(name, row) for name, row in self.log.known.items()]
        return [self._annotated(point) for point in points]

    def point(self, subject: int | str, mapping: int | None = None) -> Point:
        """A trial at its own mapping or a kept one, or a known chip. Raises UserError where there
        is no such trial."""
        if isinstance(subject, str):
            return self._annotated(_known_point(subject, self.known(subject)))
        of_trial = points_of(self.trial(subject))
        return self._annotated(of_trial[0 if mapping is None else mapping + 1])

    @cached_property
    def probabilities(self) -> Probabilities:
        """Probabilities of being feasible, as the last run saved them."""
        return probabilities.load(self.store, self.meta["model_version"])

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """What intervals depend on, as the last run saved it."""
        return uncertainty.load(self.store, self.meta["model_version"])

    def _annotated(self, point: Point) -> Point:
        return replace(
            point,
            p_feasible=self.probabilities.of(point),
            intervals=self.uncertainty.intervals(point),
            assumptions=tuple(notes.in_force(self.meta, point.params)),
        )

    def least_violating(self, count: int = 5) -> list[Trial]:
        """Evaluated designs with the smallest summed violation, legal ones first."""
        designs = [t for t in self._designs() if not t.evaluated.score.failed]
        told = [told_constraints(t.evaluated, self.meta["constraints"]) for t in designs]
        order = pareto.least_violating(told, count)
        return [designs[i] for i in order]

    def blocking(self) -> list[dict[str, Any]]:
        """How many evaluated designs break each constraint; illegal ones by their reason too."""
        designs = [t.evaluated for t in self._designs() if not t.evaluated.score.failed]
        return pareto.blocking([e.violations for e in designs]) if designs else []

    def reasons(self) -> dict[str, int]:
        """How many designs were illegal or failed, by reason, most frequent first."""
        counts: dict[str, int] = {}
        for trial in self._designs():
            if reason := trial.evaluated.score.reason:
                counts[reason] = counts.get(reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def hypervolume(self) -> float:
        """Hypervolume of the trials' front, as the progress display showed it last."""
        tracker = pareto.Tracker(self.directions)
        for generation in self.log.generations:
            legal = [t for t in generation.trials if t.evaluated.score.legal]
            values = np.array([t.values for t in legal]).reshape(len(legal), len(self.objectives))
            tracker.add(values, np.array([t.feasible for t in legal], dtype=bool))
        return tracker.hypervolume

    def status(self) -> dict[str, Any]:
        """Where the study stands, as plain data."""
        trials = self.log.trials
        designs = {trial.evaluated.design for trial in trials}
        feasible = sum(trial.feasible for trial in trials)
        wall_s = sum(generation.wall_s for generation in self.log.generations)
        total = self.meta["search"]["trials"]
        running = self.store.running()
        state = "running" if running else "finished" if len(trials) >= total else "stopped"
        return {
            "name": self.meta["name"],
            "question": self.meta["question"],
            "directory": str(self.store.directory),
            "state": state,
            "trials": len(trials),
            "trials_wanted": total,
            "generations": len(self.log.generations),
            "designs": len(designs),
            "space_size": self.meta["space_size"],
            "feasible_trials": feasible,
            "failed_trials": sum(trial.evaluated.score.failed for trial in trials),
            "front": len(self.front_points()),
            "p_feasible": self._p_feasible_summary(),
            "hypervolume": self.hypervolume(),
            "seconds": wall_s,
            "sampler_seconds": sum(generation.ask_s for generation in self.log.generations),
            "reasons": self.reasons(),
            "constraints": self.blocking(),
            "unfinished_bytes": self.log.torn_bytes,
            "objectives": self.meta["objectives"],
            "model_version": self.meta["model_version"],
            "assumptions": self.meta.get("assumptions", []),
            "notes": self.meta.get("notes", [notes.ANALYTICAL]),
            "edges": [
                {"knob": edge.knob, "choice": edge.choice, "end": edge.end}
                for edge in edges.reached(self.meta, self.front_points())
            ],
        }

    def _p_feasible_summary(self) -> dict[str, Any]:
        """Joint probabilities over the front: how many are known, how many are high, extremes."""
        shares = [p.p_feasible[JOINT] for p in self.front_points() if p.p_feasible is not None]
        return {
            "points": len(shares),
            "at_least_0.9": sum(share >= probabilities.UNCERTAIN for share in shares),
            "lowest": min(shares, default=None),
            "highest": max(shares, default=None),
        }

    def constrained_metrics(self) -> list[str]:
        """Metrics that the constraints name, in order."""
        words = [re.findall(r"[A-Za-z_]\w*", c.split("=")[0]) for c in self.meta["constraints"]]
        return list(dict.fromkeys(word for names in words for word in names))

    def better_is_higher(self, name: str) -> bool:
        """Whether more of a metric is better: by the study's objectives, else by the metric."""
        from dse.metrics import metrics

        if name in self.objectives:
            return self.directions[self.objectives.index(name)] == "maximize"
        return name in metrics() and metrics()[name].better == "higher"

    def explain(self, subject: int | str, mapping: int | None = None) -> pd.DataFrame:
        """Operator by operator: phase, name, time_s, bytes, flops, bound_by, share.

        subject: a trial's number, or a known chip as `find` takes it.
        """
        return _frame(self.explain_rows(subject, mapping))

    def explain_rows(self, subject: int | str, mapping: int | None = None) -> list[dict[str, Any]]:
        """As `explain`, as plain rows. Builds the model, which takes seconds.

        Raises UserError for a trial or kept mapping that does not exist, for an illegal trial, and
        when the study file or the model changed since.
        """
        from dse import changes
        from dse.runner import build_scorer

        found = self.find(subject) if isinstance(subject, str) else subject
        if isinstance(found, str):
            label, score = found, self.known(found).score
            if mapping is not None:
                raise UserError(f"{label} has its best mapping only; leave --mapping out")
        else:
            label, score = f"trial {found}", self.trial(found).evaluated.score
        if not score.metrics or score.failed:
            raise UserError(f"{label} could not be evaluated: {score.explanation}")
        if mapping is not None and not 0 <= mapping < len(score.mappings):
            raise UserError(f"{label} keeps {len(score.mappings)} other mappings; the first is 0")
        spec = self.study()
        scorer = build_scorer(spec)
        changes.check_model(self.store, scorer.version)
        if isinstance(found, str):
            return scorer.explain_reference(found)
        row = np.array([self.trial(found).indices], dtype=np.int32)
        labels = score.solved if mapping is None else score.mappings[mapping]["deployment"]
        return scorer.explain(spec.space().canonical(row)[0], labels)

    def study(self) -> StudySpec:
        """The study as its file states it. Raises StoreError when the file changed since."""
        from dse import changes
        from dse.spec import load

        path = Path(self.meta["study_file"])
        spec = load(path if path.exists() else self.store.directory / "study.yaml")
        changes.check_study(self.store, spec.fingerprint, spec.text, str(path))
        return spec

    def beyond_fits(self, subject: int | str) -> list[str]:
        """Where the quality loss of a trial or a known chip is an extrapolation, in sentences.

        Nothing for an illegal candidate. Raises UserError when the study file cannot be read any
        more or changed since.
        """
        from dse.law_domains import beyond_fits

        if isinstance(subject, str) or not self.trial(subject).evaluated.score.legal:
            return []
        return beyond_fits(self.study(), self.trial(subject).evaluated.params)

    @cached_property
    def _front(self) -> list[Point]:
        candidates = [p for trial in self._designs() for p in points_of(trial)]
        feasible = [p for p in candidates if p.feasible and self._has_objectives(p)]
        keep = pareto.nondominated(self._values(feasible), self.directions)
        return [point for point, kept in zip(feasible, keep, strict=True) if kept]

    def _designs(self) -> list[Trial]:
        """The first trial of each design."""
        first: dict[str, Trial] = {}
        for trial in self.log.trials:
            first.setdefault(trial.evaluated.design, trial)
        return list(first.values())

    def _has_objectives(self, point: Point) -> bool:
        return all(np.isfinite(point.metrics.get(name, np.nan)) for name in self.objectives)

    def _values(self, points: Sequence[Point]) -> np.ndarray:
        values = [[point.metrics[name] for name in self.objectives] for point in points]
        return np.array(values).reshape(len(points), len(self.objectives))


def open_results(study: str | Path, results: str | Path | None = None) -> Results:
    """Results of a study file, a results directory, or a study name (see `locate.find`)."""
    return Results(locate.find(str(study), Path(results) if results else None))


def frame_of(points: Sequence[Point]) -> pd.DataFrame:
    """One row per point: number, mapping, known, feasible, p_feasible (joint), assumptions,
    metrics, knobs, violations, and the ends of intervals as `<metric>_low` and `<metric>_high`."""
    rows = [
        {
            "number": point.number,
            "mapping": point.mapping,
            "known": point.known,
            "feasible": point.feasible,
            "p_feasible": np.nan if point.p_feasible is None else point.p_feasible[JOINT],
            "assumptions": "; ".join(a.text for a in point.assumptions),
            **_flat(point),
            **_ends(point),
        }
        for point in points
    ]
    frame = _frame(rows)
    return frame.astype({"number": "Int64", "mapping": "Int64"}) if rows else frame


def point_of(trial: Trial) -> Point:
    """The point of a trial at its own mapping."""
    item = trial.evaluated
    return Point(
        number=trial.number,
        mapping=None,
        known="",
        params=item.params,
        deployment=item.score.solved,
        metrics=item.score.metrics,
        constraints=item.constraints,
        feasible=item.feasible,
    )


def points_of(trial: Trial) -> list[Point]:
    """The trial's own point, then one for each kept mapping."""
    item = trial.evaluated
    points = [point_of(trial)]
    pairs = zip(item.score.mappings, item.mapping_constraints, strict=True)
    for index, (mapping, constraints) in enumerate(pairs):
        points.append(
            Point(
                number=trial.number,
                mapping=index,
                known="",
                params=item.params,
                deployment=mapping["deployment"],
                metrics=mapping["metrics"],
                constraints=constraints,
                feasible=item.score.legal and all(v <= 0 for v in constraints.values()),
            )
        )
    return points


def _known_point(name: str, row: Evaluated) -> Point:
    constraints = row.constraints if row.score.legal else row.violations
    return Point(
        None, None, name, {}, row.score.solved, row.score.metrics, constraints, row.feasible
    )


def _flat(point: Point) -> dict[str, Any]:
    """Metrics under their names, knobs under theirs (`knob_` before one that a metric also has),
    violations under the constraint's text."""
    knobs = {**point.params, **point.deployment}
    named = {f"knob_{k}" if k in point.metrics else k: v for k, v in knobs.items()}
    return {**point.metrics, **named, **point.constraints}


def _ends(point: Point) -> dict[str, float]:
    """Both ends of each interval."""
    found: dict[str, float] = {}
    for name, interval in (point.intervals or {}).items():
        found |= {f"{name}_low": interval.low, f"{name}_high": interval.high}
    return found


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows))
