"""Whether a knob can mean anything for a model: `needs` of the catalog, against an Architecture."""

from __future__ import annotations

from collections.abc import Callable

from models.architecture import Architecture, Attention, DenseFFN, LatentAttention, MoE
from search_spaces.catalog import Entry
from search_spaces.errors import SpaceError


def lacking(entry: Entry, architecture: Architecture) -> str | None:
    """What `architecture` lacks that the knob needs, in words, or None where it applies."""
    if entry.needs is None:
        return None
    if entry.needs not in _NEEDS:
        raise SpaceError(f"catalog: {entry.name} needs {entry.needs!r}, which is not known")
    words, meets = _NEEDS[entry.needs]
    parts = (*architecture.mixers, *architecture.feed_forwards)
    return None if any(meets(part) for part in parts) else words


def _is_full_attention(part: object) -> bool:
    return (
        isinstance(part, Attention)
        and part.window == 0
        and part.compress_ratio == 1
        and part.select_tokens == 0
    )


_NEEDS: dict[str, tuple[str, Callable[[object], bool]]] = {
    "attention": ("attention with KV heads", lambda part: isinstance(part, Attention)),
    "full_attention": ("full attention with KV heads", _is_full_attention),
    "kv_cache": ("a KV cache", lambda part: isinstance(part, Attention | LatentAttention)),
    "feed_forward": ("feed-forward blocks", lambda part: isinstance(part, DenseFFN | MoE)),
    "dense_feed_forward": ("dense feed-forward blocks", lambda part: isinstance(part, DenseFFN)),
    "experts": ("routed experts", lambda part: isinstance(part, MoE)),
}
