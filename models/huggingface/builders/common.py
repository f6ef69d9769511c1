"""What several builders share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from models.architecture import Mixer
from models.huggingface.feed_forward import feed_forward_layers
from models.huggingface.frame import Frame, Parts
from models.huggingface.layers import merge


def stack(f: Frame, mixers: Sequence[Mixer]) -> Parts:
    """The given mixers with the family's feed-forward blocks, norms and tables."""
    positions = f.max_context * f.hidden if f.family.position_table else 0
    if f.family.model_type == "opt":
        positions += 2 * f.hidden  # OPT's table starts two rows early
    return Parts(
        mixers=merge(mixers),
        feed_forwards=merge(feed_forward_layers(f)),
        norm_parameters=f.norm_weights(),
        embedding_extra_parameters=positions,
        other_parameters=f.vocab if f.r.switch(f.family.lm_head_bias) else 0,
    )


def by_kind(f: Frame, kinds: list[str], **makers: Callable[[Frame], Mixer]) -> list[Mixer]:
    """One mixer per layer by its kind; each kind is read once."""
    unknown = set(kinds) - set(makers)
    if unknown:
        raise f.r.error(
            "layer_types",
            f"{sorted(unknown)} is not known for model_type '{f.r.model_type}'",
            f"use {' or '.join(makers)}",
        )
    made = {kind: makers[kind](f) for kind in sorted(set(kinds))}
    return [made[kind] for kind in kinds]


def round_up(value: float, multiple: int) -> int:
    """`value` rounded up to a whole multiple."""
    return math.ceil(value / multiple) * multiple
