"""Quality rules of a study: bands where no law exists, and no inexact knob without a price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dse.spec.expressions import Constraint, Objective
from dse.spec.problems import Problems
from dse.spec.study import AssignmentSpec
from dse.spec.text import Path
from search_spaces.catalog import find
from search_spaces.errors import SpaceError
from search_spaces.knob import Choice, Knob
from search_spaces.nearest import suggestion
from search_spaces.values import choice, neutral_choice

if TYPE_CHECKING:
    from models.architecture import Architecture

QUALITY = "quality_loss_nats"
QUALITY_CENTRAL = "quality_loss_central_nats"
_BAND_ENDS = ("_nats_low", "_nats_high")

Band = tuple[float, float]


def read_assumptions(
    raw: Mapping[str, Mapping[str, Any]], knobs: Mapping[str, Knob], path: Path, problems: Problems
) -> dict[str, dict[str, Band]]:
    """`assume` as knob -> label -> (low, high) in nats/token, each checked against the knob."""
    found: dict[str, dict[str, Band]] = {}
    bearers: dict[str | None, str] = {}
    for name, bands in raw.items():
        with problems.at((*path, name)):
            entry = find(name, "model")
            if name not in knobs:
                raise SpaceError(
                    f"{name} is not among the model's knobs; {suggestion(name, knobs)}"
                )
            if (other := bearers.setdefault(entry.band, name)) != name:
                raise SpaceError(
                    f"{other} and {name} share one band of quality loss; state it for one of them"
                )
            found[name] = {}
            for label, band in bands.items():
                with problems.at((*path, name, label)):
                    setting = choice(entry, label)
                    knobs[name].index(setting.label)
                    if setting.fields == neutral_choice(entry).fields:
                        raise SpaceError(
                            f"{name} {label} is the model as released; it costs nothing"
                        )
                    found[name][setting.label] = _band(name, label, band)
    return found


def _band(name: str, label: str, raw: object) -> Band:
    from models.variants import check_band

    numbers: list[Any] = raw if isinstance(raw, list) and len(raw) == 2 else [None]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise SpaceError(f"{raw!r} should be two numbers, [low, high] in nats per token")
    low, high = float(numbers[0]), float(numbers[1])
    try:
        check_band(low, high)
    except ValueError as error:
        raise SpaceError(f"{name} {label}: {error}") from None
    return low, high


def with_bands(
    knobs: Mapping[str, Knob],
    assumed: Mapping[str, Mapping[str, Band]],
    architecture: Architecture,
    path: Path,
    problems: Problems,
) -> dict[str, Knob]:
    """`knobs` with assumed bands among the fields of their choices. Records a problem for each
    choice that has no law and no assumption."""
    return {
        name: _with_band(
            knob,
            assumed.get(name, {}),
            _has_priced_companion(knob, knobs, assumed),
            architecture,
            (*path, name),
            problems,
        )
        for name, knob in knobs.items()
    }


def _has_priced_companion(
    knob: Knob, knobs: Mapping[str, Knob], assumed: Mapping[str, Mapping[str, Band]]
) -> bool:
    """Whether another knob of the same band has one assumed for every setting but the released."""
    for name, bands in assumed.items():
        entry = find(name, "model")
        if name != knob.name and entry.band == find(knob.name, "model").band:
            released = neutral_choice(entry).fields
            return all(c.label in bands or c.fields == released for c in knobs[name].choices)
    return False


def _with_band(
    knob: Knob,
    bands: Mapping[str, Band],
    companion: bool,
    architecture: Architecture,
    path: Path,
    problems: Problems,
) -> Knob:
    from models.variants import unpriced_choice

    entry = find(knob.name, "model")
    reasons = {
        c.label: reason
        for c in knob.choices
        if c.label not in bands
        # A window's length changes nothing by itself; the band of its share is its price.
        and not (companion and not _choice_is_inexact(c, architecture))
        and (reason := unpriced_choice(architecture, c.fields)) is not None
    }
    if reasons:
        example = ", ".join(f"{label}: [0.0, 0.02]" for label in reasons)
        problems.add(
            path,
            f"{', '.join(reasons)}: {next(iter(reasons.values()))}. Under model, state a band of "
            f"quality loss in nats per token, as in assume: {{{knob.name}: {{{example}}}}}, "
            "or leave the choice out",
        )
    if not bands:
        return knob
    low, high = f"{entry.band}_nats_low", f"{entry.band}_nats_high"
    choices = tuple(
        Choice(c.label, {**c.fields, low: band[0], high: band[1]})
        for c in knob.choices
        for band in [bands.get(c.label, (0.0, 0.0))]
    )
    return replace(knob, choices=choices)


def check_training_tokens(
    knobs: Iterable[Knob],
    architecture: Architecture,
    stated: float | None,
    path: Path,
    problems: Problems,
) -> float | None:
    """Training tokens of the model: as stated, else as published, else None. Records a problem
    where they are unknown and the quality law of a choice depends on them."""
    from models.variants import (
        UnknownTrainingTokensError,
        needs_training_tokens,
        training_tokens,
    )

    if stated is not None:
        return stated
    try:
        return training_tokens(architecture.name).tokens
    except UnknownTrainingTokensError as error:
        for knob in knobs:
            for choice_ in knob.choices:
                for field, value in choice_.fields.items():
                    if not field.endswith(_BAND_ENDS) and needs_training_tokens(
                        architecture, field, [value]
                    ):
                        problems.add((*path, knob.name), str(error))
        return None


def check_priced(
    assignments: Iterable[AssignmentSpec],
    objectives: Iterable[Objective],
    constraints: Iterable[Constraint],
    problems: Problems,
) -> None:
    """Refuse a study that varies inexact knobs but neither minimizes nor limits their cost."""
    inexact = [
        knob.name
        for assignment in assignments
        for knob in assignment.model_knobs
        if len(knob.choices) > 1 and _is_inexact(knob, assignment.architecture)
    ]
    weighed = {o.metric for o in objectives} | {c.numerator for c in constraints}
    priced = not weighed.isdisjoint((QUALITY, QUALITY_CENTRAL))
    if inexact and not priced:
        problems.add(
            ("objectives",),
            f"{', '.join(inexact)} may cost model quality, and nothing in this study weighs that: "
            f"the search would only make the model smaller. Add minimize: {QUALITY} to the "
            f"objectives, or a constraint such as {QUALITY} <= 0.02",
        )


def _is_inexact(knob: Knob, architecture: Architecture) -> bool:
    """Whether some choice changes what the model computes."""
    return any(_choice_is_inexact(choice_, architecture) for choice_ in knob.choices)


def _choice_is_inexact(setting: Choice, architecture: Architecture) -> bool:
    from models.variants import TRANSFORMS, Variant

    variant = Variant(**setting.fields)
    return any(t.inexact(architecture, variant) for t in TRANSFORMS)
