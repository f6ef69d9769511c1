"""`dse status`, `dse list`, `dse show`, `dse explain` and `dse journal`: looking at results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli.options import Json, ResultsDir, Study
from dse.notes import ANALYTICAL

if TYPE_CHECKING:
    from dse.results import Results
    from dse.trials import Evaluated, Trial

Subject = Annotated[
    str,
    typer.Option("--trial", "-t", help="Number of the trial, or a known chip ('v6e as it is')."),
]


def status(study: Study, results: ResultsDir = None, json: Json = False) -> None:
    """How far STUDY is, and what keeps designs from being feasible."""
    from dse.cli import front, tables
    from dse.results import open_results

    opened = open_results(study, results)
    facts = opened.status()
    if json:
        tables.emit_json(facts)
        return
    shown = {
        "question": facts["question"],
        "state": facts["state"],
        "trials": f"{facts['trials']} of {facts['trials_wanted']}",
        "designs": f"{facts['designs']:,} of {facts['space_size']:.4g} in the space",
        "feasible": f"{facts['feasible_trials']} trials",
        "failed": f"{facts['failed_trials']} trials",
        "front": f"{facts['front']} points",
        "p(feasible)": _certainty(facts["p_feasible"]),
        "hypervolume": f"{facts['hypervolume']:.4f} (normalised)",
        "time": f"{facts['seconds']:.1f} s, {facts['sampler_seconds']:.1f} s in the sampler",
        "directory": facts["directory"],
    }
    if facts["unfinished_bytes"] and facts["state"] != "running":
        shown["note"] = "the last line of the log is unfinished; the next run sets it aside"
    tables.print_table([facts["name"], ""], list(shown.items()))
    if facts["trials"]:
        front.show_blocking(opened)
    front.print_footer(opened)


def _certainty(facts: Mapping[str, Any]) -> str:
    """`at least 90% for 3 points, lowest 5%, highest 94%`."""
    if not facts["points"]:
        return "-"
    return (
        f"at least 90% for {facts['at_least_0.9']} of {facts['points']} points; "
        f"lowest {facts['lowest']:.0%}, highest {facts['highest']:.0%}"
    )


def list_studies(results: ResultsDir = None, json: Json = False) -> None:
    """Studies with results in the default places, or in --results."""
    from dse import locate
    from dse.cli import tables
    from dse.errors import StoreError
    from dse.results import Results

    rows: list[dict[str, Any]] = []
    for store in locate.stores(results):
        try:
            facts = Results(store).status()
        except StoreError as error:
            facts = {"name": store.directory.name, "state": "damaged", "problem": str(error)}
        rows.append({**facts, "directory": str(store.directory)})
    keys = ("name", "state", "trials", "trials_wanted", "front", "directory")
    if json:
        tables.emit_json([{key: row.get(key) for key in (*keys, "problem")} for row in rows])
        return
    tables.print_table(keys, [[row.get(key) for key in keys] for row in rows])


def show(study: Study, trial: Subject, results: ResultsDir = None, json: Json = False) -> None:
    """One trial in full: the candidate, every metric, constraints, and why it is illegal if so."""
    from dse.cli import tables
    from dse.cli.intervals import evidence_text, range_text
    from dse.results import open_results

    opened = open_results(study, results)
    subject = opened.find(trial)
    point = opened.point(subject)
    if isinstance(subject, str):
        facts = known_json(subject, opened.known(subject))
    else:
        facts = trial_json(opened.trial(subject))
    facts |= {
        "p_feasible": point.p_feasible,
        "assumptions": point.to_json()["assumptions"],
        "intervals": point.intervals_json(),
        "beyond_fits": _beyond_fits(opened, subject),
        "notes": opened.meta.get("notes", [ANALYTICAL]),
    }
    if json:
        tables.emit_json(facts)
        return
    state = "feasible" if point.feasible else facts["reason"] or "infeasible"
    title = f"{point.known}: {state}"
    if point.number is not None:
        title = f"trial {point.number}, generation {facts['generation']}: {state}"
    knobs = [*facts["params"].items(), *((k, f"{v} (solved)") for k, v in facts["solved"].items())]
    tables.print_table(["knob", "setting"], knobs, title=title)
    for key in ("explanation", "repair"):
        if facts[key]:
            tables.console().print(f"{key}: {facts[key]}", markup=False)
    known = point.intervals or {}
    metrics = [
        (name, tables.metric(name, value), range_text(name, own), evidence_text(own))
        for name, value in facts["metrics"].items()
        for own in [known.get(name)]
    ]
    tables.print_table(["metric", "value", "80 % interval", "evidence"], metrics)
    if point.intervals is None:
        tables.console().print("intervals are computed for the front only", markup=False)
    shares = point.p_feasible or {}
    texts = [*facts["constraints"], *(text for text in shares if text not in facts["constraints"])]
    limits = [_limit(text, facts["constraints"].get(text), shares.get(text)) for text in texts]
    tables.print_table(["constraint", "violation", "met", "p(met)"], limits)
    if not shares:
        tables.console().print("p(met) is computed for the front only", markup=False)
    for assumption in point.assumptions:
        tables.console().print(f"assumed by the study: {assumption.text}", markup=False)
    for sentence in facts["beyond_fits"] or ():
        tables.console().print(f"quality loss is an extrapolation: {sentence}", markup=False)
    if facts["mappings"] and point.number is not None:
        tables.console().print(
            f"{len(facts['mappings'])} other mappings are kept; "
            f"see them with --json, explain one with dse explain --mapping N",
            markup=False,
        )
    for line in opened.meta.get("notes", [ANALYTICAL]):
        tables.console().print(line, markup=False)


def _beyond_fits(results: Results, subject: int | str) -> list[str] | None:
    """Where quality laws are extrapolated; None where the study file no longer says."""
    from dse.errors import UserError

    try:
        return results.beyond_fits(subject)
    except UserError:
        return None


def _limit(text: str, violation: float | None, share: float | None) -> tuple[Any, ...]:
    met = None if violation is None else violation <= 0
    return text, violation, met, None if share is None else f"{share:.0%}"


def trial_json(trial: Trial) -> dict[str, Any]:
    """The documented object of `dse show --json`."""
    return {
        "number": trial.number,
        "known": None,
        "generation": trial.generation,
        **_item_json(trial.evaluated, trial.feasible),
        "cached": trial.cached,
    }


def known_json(name: str, item: Evaluated) -> dict[str, Any]:
    """The same of a known chip, which is no trial."""
    return {
        "number": None,
        "known": name,
        "generation": None,
        **_item_json(item, item.feasible),
        "cached": False,
    }


def _item_json(item: Evaluated, feasible: bool) -> dict[str, Any]:
    score = item.score
    mappings = [
        {**mapping, "constraints": constraints}
        for mapping, constraints in zip(score.mappings, item.mapping_constraints, strict=True)
    ]
    return {
        "design": item.design,
        "params": dict(item.params),
        "solved": dict(score.solved),
        "metrics": dict(score.metrics),
        "constraints": dict(item.constraints),
        "feasible": feasible,
        "legal": score.legal,
        "failed": score.failed,
        "reason": score.reason,
        "explanation": score.explanation,
        "repair": score.repair,
        "violation": score.violation,
        "attempts": item.attempts,
        "mappings": mappings,
    }


def explain(
    study: Study,
    trial: Subject,
    mapping: Annotated[
        int | None, typer.Option(min=0, help="One of the trial's other kept mappings.")
    ] = None,
    results: ResultsDir = None,
    json: Json = False,
) -> None:
    """Operator by operator: time, bytes, FLOPs, what binds each one, and its share of the step."""
    from dse.cli import tables
    from dse.cli.intervals import step_reach
    from dse.results import open_results

    opened = open_results(study, results)
    subject = opened.find(trial)
    rows = opened.explain_rows(subject, mapping)
    if json:
        tables.emit_json(rows)
        return
    several = len({row.get("assignment", "") for row in rows}) > 1
    keys = ["assignment"] if several else []
    keys += ["phase", "name", "time_s", "share", "bytes", "flops", "bound_by"]
    format_of: dict[str, Callable[[float], str]] = {
        "time_s": tables.seconds,
        "bytes": tables.amount,
        "share": lambda share: f"{share:.1%}",
    }
    body = [
        [format_of[k](row[k]) if k in format_of and k in row else row.get(k) for k in keys]
        for row in rows
    ]
    title = subject if isinstance(subject, str) else f"trial {subject}"
    title += "" if mapping is None else f", mapping {mapping}"
    tables.print_table(keys, body, title=title, compact=True)
    for phase in dict.fromkeys(row["phase"] for row in rows):
        total = sum(row["time_s"] for row in rows if row["phase"] == phase)
        if not several:
            line = f"one {phase} step of one pipeline stage: {tables.seconds(total)}"
            line += step_reach(opened.point(subject, mapping), phase)
            tables.console().print(line, markup=False)
    for line in opened.meta.get("notes", [ANALYTICAL]):
        tables.console().print(line, markup=False)


def journal(
    study: Study,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Journal to write (default: NAME.journal here)."),
    ] = None,
    results: ResultsDir = None,
    json: Json = False,
) -> None:
    """Export STUDY as an Optuna journal, for optuna-dashboard and optuna.load_study."""
    from dse.cli import tables
    from dse.journal import export
    from dse.results import open_results

    opened = open_results(study, results)
    path = output or Path(f"{opened.meta['name']}.journal")
    count = export(opened, path)
    if json:
        tables.emit_json({"path": str(path), "trials": count, "study": opened.meta["name"]})
        return
    print(f"wrote {count} trials to {path}; open it with: optuna-dashboard {path}")
