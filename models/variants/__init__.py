"""Model variants: what can be changed about a model, and what each change costs in quality.

One file per transform; `apply` composes them, `delta_nats` adds their quality losses (Δ nats per
token against the model's own baseline, as a band), `illegal` and `conditions` say what does not
fit, and `catalogue` lists them with their laws and sources.
"""

from __future__ import annotations

from models.variants.assumptions import (
    check_band,
    needs_training_tokens,
    requires_assumption,
    unpriced_choice,
)
from models.variants.quality import breakdown, delta_nats, out_of_domain, quality_loss_nats
from models.variants.reasons import REASONS
from models.variants.registry import (
    TRANSFORMS,
    CatalogueEntry,
    apply,
    catalogue,
    conditions,
    illegal,
    transform_of,
)
from models.variants.training import UnknownTrainingTokensError, training_tokens
from models.variants.transform import Band, Condition, Explanation, Transform
from models.variants.variant import NEUTRAL, Variant
from models.variants.window import expand, twins

__all__ = [
    "NEUTRAL",
    "REASONS",
    "TRANSFORMS",
    "Band",
    "CatalogueEntry",
    "Condition",
    "Explanation",
    "Transform",
    "UnknownTrainingTokensError",
    "Variant",
    "apply",
    "breakdown",
    "catalogue",
    "check_band",
    "conditions",
    "delta_nats",
    "expand",
    "illegal",
    "needs_training_tokens",
    "out_of_domain",
    "quality_loss_nats",
    "requires_assumption",
    "training_tokens",
    "transform_of",
    "twins",
    "unpriced_choice",
]
