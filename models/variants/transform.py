"""Transform: one way of changing a model, with its legality and its quality cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from models.variants.variant import Variant

if TYPE_CHECKING:
    from models.architecture import Architecture

Number = Any  # int, float, NumPy array or traced JAX scalar


class Band(NamedTuple):
    """A quality loss in nats per token against the model's own baseline: low <= central <= high."""

    low: Number
    central: Number
    high: Number

    def plus(self, other: Band) -> Band:
        """The sum of two losses, end by end."""
        return Band(self.low + other.low, self.central + other.central, self.high + other.high)


class Explanation(NamedTuple):
    """Why a combination is illegal, and the nearest change that makes it legal."""

    reason: str
    nearest: str


@dataclass(frozen=True)
class Condition:
    """Something that makes a variant illegal for an architecture.

    `violated` is a plain or traced boolean; `explain` is for plain numbers only. `code` is a key of
    `models.variants.reasons.REASONS`.
    """

    code: str
    violated: Number
    explain: Callable[[], Explanation]


@dataclass(frozen=True)
class Transform:
    """One transform. All callables accept plain and traced numbers.

    - `apply(arch, variant)`: the changed architecture (the same where only bits change).
    - `inexact(arch, variant)`: whether the outputs of the model change; if not, it costs nothing.
    - `law_nats(before, after, variant, tokens)`: the published law, NaN outside its domain, and
      None where there is none. `tokens` is the number of training tokens (NaN where unknown).
    - `conditions(arch, variant)`: what would make the variant illegal; fixed length per skeleton.
    - `missing_law(arch, knob, value)`: why a plain knob value needs an assumed band, or None.
    - `resizes`: whether later size laws start from the changed parameter count.
    """

    name: str
    fields: tuple[str, ...]
    changes: str
    exact_when: str
    law: str | None
    apply: Callable[[Architecture, Variant], Architecture]
    inexact: Callable[[Architecture, Variant], Number]
    law_nats: Callable[[Architecture, Architecture, Variant, Number], Band] | None
    conditions: Callable[[Architecture, Variant], list[Condition]]
    missing_law: Callable[[Architecture, str, Any], str | None]
    resizes: bool = False


def unchanged(arch: Architecture, variant: Variant) -> Architecture:
    """`apply` of a transform that changes bits or zeros, not shapes."""
    return arch
