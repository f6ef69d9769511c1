"""summary: an architecture as plain data, for `dse models show` and its `--json`."""

from __future__ import annotations

import dataclasses
from typing import Any

from models.architecture import (
    Architecture,
    kv_bytes_per_token,
    parameters_active,
    parameters_total,
    state_bytes_per_sequence,
)


def summary(arch: Architecture) -> dict[str, Any]:
    """JSON-able facts of `arch`; the first five keys are the machine-readable contract.

    `parameters_total`, `parameters_active`, `kv_bytes_per_token` (16-bit cache) and `layers` are
    ints; `mixers` and `feed_forwards` are lists of one dict per group of equal layers.
    """
    return {
        "name": arch.name,
        "parameters_total": _whole(parameters_total(arch)),
        "parameters_active": _whole(parameters_active(arch)),
        "kv_bytes_per_token": _whole(kv_bytes_per_token(arch)),
        "layers": _whole(arch.layers),
        "hidden": _whole(arch.hidden),
        "vocab": _whole(arch.vocab),
        "model_type": arch.model_type,
        "tied_embeddings": bool(arch.tied_embeddings),
        "max_context_tokens": _whole(arch.max_context_tokens),
        "released_weight_bits": _whole(arch.released_weight_bits),
        "state_bytes_per_sequence": _whole(state_bytes_per_sequence(arch)),
        "mixers": [_group(m) for m in arch.mixers],
        "feed_forwards": [_group(b) for b in arch.feed_forwards],
        "source": arch.source,
        "provenance": arch.provenance,
    }


def _group(block: Any) -> dict[str, Any]:
    """One group of layers: its kind, and the fields that differ from 'absent' (zero or default)."""
    fields = {
        f.name: _plain(getattr(block, f.name))
        for f in dataclasses.fields(block)
        if f.default is dataclasses.MISSING or getattr(block, f.name) != f.default
    }
    return {"kind": type(block).__name__, **fields}


def _plain(value: Any) -> int | float:
    number = float(value)
    return int(number) if number.is_integer() else number


def _whole(value: Any) -> int:
    return int(round(float(value)))
