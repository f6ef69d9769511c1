"""Frame and Parts: what every builder gets, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from models.architecture import FeedForward, Mixer
from models.huggingface.family import Family
from models.huggingface.reader import Reader


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The fields that all language models share, already read."""

    r: Reader
    family: Family
    layers: int
    hidden: int
    vocab: int
    max_context: int  # 0: no limit stated

    def norm_weights(self, norms: int | None = None) -> int:
        """Weights of the hidden-wide norms: `norms` per layer (the family's by default) and one
        last.
        """
        per_norm = {"rms": 1, "layer_no_bias": 1, "layer": 2, "none": 0}[self.family.norm]
        count = self.family.norms_per_layer if norms is None else norms
        return (count * self.layers + 1) * per_norm * self.hidden

    def heads_divide(self, whole: str, width: int, heads: int) -> int:
        """width / heads, which must be whole."""
        if width % heads:
            raise self.r.error(
                whole,
                f"{width} is no multiple of {heads} heads",
                "state head_dim, or correct the two",
            )
        return width // heads


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A builder's result, in the terms of `models.architecture.Architecture`."""

    mixers: tuple[Mixer, ...]
    feed_forwards: tuple[FeedForward, ...]
    norm_parameters: int
    embedding_extra_parameters: int = 0
    other_parameters: int = 0
    reused_parameters: Any = 0
    residual_streams: int = 1
