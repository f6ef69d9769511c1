"""A measured row's `arch`: a catalog name, the path of a config.json, or a short JSON object.

Published measurements often state a model by its widths alone. The JSON object holds these widths
under fixed keys; a key that is missing is unknown, and an unknown width is an error, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from models.architecture import Architecture, Attention, DenseFFN, FeedForward, MoE
from models.huggingface.catalog import read_catalog, read_file, sources
from models.huggingface.catalog import resolve as catalog_name
from models.huggingface.errors import ModelConfigError, UnknownModelError
from models.huggingface.parsing import parse
from models.huggingface.reader import Reader

_SOURCE = "JSON architecture"


class _Widths(Reader):
    """A reader of the JSON object: a missing key cannot be found in any published file."""

    def _default(self, keys: tuple[str, ...], default: Any, what: str) -> Any:
        if isinstance(default, int | float | str | bool):
            return default
        raise self.error(keys[0], f"is missing and needed as {what}", "state it")


def resolve(reference: str, folder: Path) -> Architecture:
    """The architecture that the `arch` cell of a measurement names.

    `reference` is a JSON object, a catalog name (as `models.huggingface.load` takes), or the path
    of a config.json, which starts at `folder` unless it is absolute.

    Raises UnknownModelError for a name that is neither, ModelConfigError (its `field` says which)
    for an object or a file that lacks a field or has one that is not understood.
    """
    text = reference.strip()
    if not text:
        raise ModelConfigError(_SOURCE, "arch", "is empty", "name a model or state its widths")
    if text.startswith("{"):
        return architecture_from_json(text)
    path = folder / text
    if path.is_dir() and (path / "config.json").is_file():
        path = path / "config.json"
    if path.is_file():
        name = path.parent.name if path.name == "config.json" else path.stem
        return parse(read_file(path), name, str(path), "file given by path")
    if path.suffix == ".json":
        raise ModelConfigError(str(path), "(whole file)", "does not exist", "correct the path")
    name = catalog_name(text)
    origin = f"{sources()[name]['provenance']} ({sources()[name]['repo']})"
    return parse(read_catalog(name), name, f"catalog/{name}.json", origin)


def architecture_from_json(stated: Mapping[str, Any] | str) -> Architecture:
    """The decoder (or encoder) that a JSON object of widths states.

    Needed keys: d_model, n_layers, n_heads, n_kv_heads, head_dim, gated, vocab, attn ("gqa", which
    one key-value head or as many as query heads fit too), and d_ff or, for a mixture of experts,
    n_experts, top_k, d_ff_expert, n_shared_experts, first_dense_layers (with d_ff where above 0).
    Optional: parallel_block and tied_embeddings (default false), and `causal`, which says how the
    model was run and is for the workload, not the architecture, to hold. Norms are taken as RMS
    norms, which no object states and which are under 0.01 % of the parameters.

    Raises ModelConfigError, whose `field` is the key that is missing or not understood.
    """
    fields = _object(stated)
    r = _Widths(fields, _SOURCE, _SOURCE)
    for key in ("op", "family"):
        if key in fields:
            raise r.error(key, f"= {fields[key]!r} is no language model", "give its widths")
    if r.raw("attn") is None:
        raise r.error("attn", "is missing", "state the kind of attention: gqa")
    r.expect("attn", "gqa")
    r.flag("causal", default=True)
    hidden, layers = r.integer("d_model"), r.integer("n_layers")
    parallel = r.flag("parallel_block", default=False)
    attention = _attention(r, layers)
    feed_forwards = _feed_forwards(r, layers)
    vocab = r.integer("vocab")
    tied = r.flag("tied_embeddings", default=False)
    r.refuse_unread()
    return Architecture(
        name=_name(hidden, layers, feed_forwards),
        model_type=_SOURCE,
        layers=layers,
        hidden=hidden,
        vocab=vocab,
        mixers=(attention,),
        feed_forwards=feed_forwards,
        tied_embeddings=int(tied),
        parallel_block=int(parallel),
        norm_parameters=((1 if parallel else 2) * layers + 1) * hidden,
        source=_SOURCE,
        provenance="widths stated with the measurement",
    )


def _object(stated: Mapping[str, Any] | str) -> Mapping[str, Any]:
    if isinstance(stated, Mapping):
        return stated
    try:
        parsed = json.loads(stated)
    except json.JSONDecodeError as problem:
        raise ModelConfigError(
            _SOURCE, "(whole object)", f"is no JSON: {problem.msg}", "correct it"
        ) from problem
    if not isinstance(parsed, Mapping):
        raise ModelConfigError(_SOURCE, "(whole object)", "is no JSON object", "give widths by key")
    return parsed


def _attention(r: Reader, layers: int) -> Attention:
    heads, kv_heads, head_dim = (r.integer(k) for k in ("n_heads", "n_kv_heads", "head_dim"))
    if heads % kv_heads:
        raise r.error(
            "n_kv_heads", f"{kv_heads} does not divide {heads} query heads", "correct one of them"
        )
    return Attention(
        layers=layers,
        q_heads=heads,
        kv_heads=kv_heads,
        qk_head_dim=head_dim,
        v_head_dim=head_dim,
    )


def _feed_forwards(r: Reader, layers: int) -> tuple[FeedForward, ...]:
    gated = int(r.flag("gated"))
    if not r.has("n_experts"):
        return (DenseFFN(layers=layers, width=r.integer("d_ff"), gated=gated),)
    experts, top_k, width = (r.integer(k) for k in ("n_experts", "top_k", "d_ff_expert"))
    if top_k > experts:
        raise r.error("top_k", f"{top_k} is more than the {experts} experts", "correct one of them")
    shared = r.integer("n_shared_experts", minimum=0)
    dense = r.integer("first_dense_layers", minimum=0)
    if dense >= layers:
        raise r.error("first_dense_layers", f"{dense} leaves no layer with experts", "correct it")
    routed = MoE(
        layers=layers - dense,
        experts=experts,
        top_k=top_k,
        expert_width=width,
        shared_width=shared * width,
        gated=gated,
    )
    if dense == 0:
        r.skip("d_ff")
        return (routed,)
    return (DenseFFN(layers=dense, width=r.integer("d_ff"), gated=gated), routed)


def _name(hidden: int, layers: int, blocks: tuple[FeedForward, ...]) -> str:
    """A label made of the widths: stated architectures have no name of their own."""
    experts = [f"{b.experts} experts" for b in blocks if isinstance(b, MoE)]
    return ", ".join([f"d{hidden}", f"{layers} layers", *experts])


__all__ = ["ModelConfigError", "UnknownModelError", "architecture_from_json", "resolve"]
