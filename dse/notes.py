"""What a reader must know about every number of a study: the rung, and what the study assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from search_spaces.knob import Knob

ANALYTICAL = (
    "All numbers are of the analytical rung: equations whose constants are published, estimated or "
    "fitted to measurements. dse validate shows how far off they are for each kind of work."
)

TILE = (
    "All numbers are of the tile rung: kernels played block by block and steps scheduled operator "
    "by operator, of the mappings that the analytical rung ranks best."
)

_LOW, _HIGH = "_nats_low", "_nats_high"


@dataclass(frozen=True)
class Assumption:
    """A band of quality loss, in nats per token, that the study states where no law exists."""

    knob: str
    choice: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """`head_dim 64: 0 to 0.02 nats/token`."""
        return f"{self.knob} {self.choice}: {self.low:g} to {self.high:g} nats/token"


def assumptions(knobs: Sequence[Knob]) -> list[Assumption]:
    """The bands that the choices of a study's knobs carry."""
    found = []
    for knob in knobs:
        for choice in knob.choices:
            for field, high in choice.fields.items():
                if field.endswith(_HIGH) and high > 0:
                    low = choice.fields[field.removesuffix(_HIGH) + _LOW]
                    found.append(Assumption(knob.name, choice.label, low, high))
    return found


def notes(chip: str, fidelity: str = "analytical") -> list[str]:
    """Sentences on the rung, and on the base chip where it is an unvalidated bound."""
    from hwmodel.presets import describe

    unvalidated = describe(chip)["unvalidated"]
    rung = TILE if fidelity == "tile" else ANALYTICAL
    return [rung, *([f"{chip}: {unvalidated}"] if unvalidated else [])]


def to_meta(knobs: Sequence[Knob], chip: str, fidelity: str = "analytical") -> dict[str, Any]:
    """What `meta.json` keeps of both."""
    return {"assumptions": [asdict(a) for a in assumptions(knobs)], "notes": notes(chip, fidelity)}


def in_force(meta: Mapping[str, Any], params: Mapping[str, str]) -> list[Assumption]:
    """The assumptions of a study (its `meta.json`) that a candidate's settings make use of."""
    known = [Assumption(**row) for row in meta.get("assumptions", [])]
    return [a for a in known if params.get(a.knob) == a.choice]


def beyond_reticle(dies_mm2: Sequence[float]) -> list[str]:
    """A line on designs whose largest die exceeds the exposure field: nothing else forbids it."""
    from hwmodel.theta import constants

    limit = constants()["reticle_limit_mm2"].value
    too_large = sum(die > limit for die in dies_mm2)
    if not too_large:
        return []
    return [
        f"{too_large} of {len(dies_mm2)} designs need a die larger than the exposure field; "
        f"constrain largest_die_mm2 <= {limit:g} to leave them out."
    ]


def footer(meta: Mapping[str, Any]) -> list[str]:
    """Lines below every table of results."""
    assumed = [Assumption(**row).text for row in meta.get("assumptions", [])]
    lines = list(meta.get("notes", [ANALYTICAL]))
    if assumed:
        lines.append(f"Assumed by the study: {'; '.join(assumed)}.")
    return lines
