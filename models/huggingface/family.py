"""Family: the facts that a model_type's modelling code fixes and its config.json does not state.

The facts live in `families.yaml`, one entry per model_type with a source. A `like:` entry takes
another family's facts and states what differs: shape-compatible inheritance is written down, never
assumed.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import yaml

Switch = bool | str  # a fixed fact, or "config_field=default"


@dataclass(frozen=True, kw_only=True)
class Family:
    """Facts of one model_type; `builder` names the function that reads its config."""

    model_type: str
    source: str
    builder: str
    tied_default: bool
    gated: bool
    norms_per_layer: int
    norm: str  # rms | layer (weight and bias) | layer_no_bias | none (no weights)
    gloss: str = ""

    # attention
    attention: str = "gqa"
    kv_heads_default: bool = False  # an absent num_key_value_heads means one per query head
    head_dim_default: int = 0  # 0: hidden / heads
    qkv_bias: Switch = False
    o_bias: Switch = False
    qk_norm: str = "none"  # none | head (one weight per element of a head) | full (of all heads)
    qk_norm_when: Switch = True
    sinks: Switch = False  # one learned sink logit per query head
    output_gate: Switch = False
    # Windows: none in the code; only where layer_types lists them; or the code's own rule where
    # layer_types is absent: all layers, all but every full_every-th, from max_window_layers up.
    window_rule: str = "none"  # none | listed | all | every | upper
    window_default: int = 0
    window_enabled_default: bool = True
    full_every: int = 0

    # feed-forward
    feed_forward: str = "dense"
    ffn_key: str = "intermediate_size"
    ffn_bias: Switch = False
    sub_norms: bool = False  # BitNet: a norm before each output projection
    expert_width_key: str = "moe_intermediate_size"
    shared_count_key: str = ""
    shared_count_default: int = 0
    shared_width_key: str = ""
    shared_gate: bool = False
    sparse_rule: str = "all"
    dense_first_default: int = 0
    router_bias: Switch = False
    expert_bias: bool = False

    # recurrent
    chunk: int = 0  # block length of the chunked prefill form, where the file has none

    # whole model
    parallel_block: Switch = False
    lm_head_bias: Switch = False
    position_table: bool = False  # a learned position embedding of max_context rows (GPT-2, OPT)
    accepts: Mapping[str, Any] = field(default_factory=dict)  # field: the only value(s) supported
    skips: tuple[str, ...] = ()  # fields that this family's code does not use


@dataclass(frozen=True, kw_only=True)
class Wrapper:
    """A multimodal model_type whose language model sits under `text_config`."""

    model_type: str
    source: str
    text: tuple[str, ...]  # model_types that text_config may have; the first where it has none
    tied_default: bool


@functools.lru_cache(maxsize=1)
def families() -> dict[str, Family]:
    """Every supported language-model model_type."""
    entries = _document()["families"]
    return {name: _family(name, entries) for name in entries}


@functools.lru_cache(maxsize=1)
def wrappers() -> dict[str, Wrapper]:
    """Every supported multimodal model_type."""
    return {
        name: Wrapper(model_type=name, **{**entry, "text": tuple(entry["text"])})
        for name, entry in _document()["wrappers"].items()
    }


def _family(name: str, entries: Mapping[str, Any]) -> Family:
    entry = dict(entries[name])
    base = entry.pop("like", None)
    facts = {} if base is None else dataclasses.asdict(_family(base, entries))
    facts.update(entry, model_type=name)
    facts["skips"] = tuple(facts.get("skips", ()))
    unknown = set(facts) - {f.name for f in dataclasses.fields(Family)}
    if unknown:
        raise ValueError(f"families.yaml: {name}: unknown facts {sorted(unknown)}")
    return Family(**facts)


@functools.lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    text = (resources.files("models") / "huggingface" / "families.yaml").read_text("utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document
