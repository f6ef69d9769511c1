"""parse: one config.json, as a mapping, to an `Architecture`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.architecture import Architecture
from models.huggingface.builders import BUILDERS
from models.huggingface.builders.nemotron import nemotron_kinds
from models.huggingface.catalog import complete
from models.huggingface.errors import ModelConfigError, nearest
from models.huggingface.family import Family, Wrapper, families, wrappers
from models.huggingface.frame import Frame
from models.huggingface.quantization import released_weight_bits
from models.huggingface.reader import Reader


def parse(config: Mapping[str, Any], name: str, source: str, provenance: str = "") -> Architecture:
    """The language model that `config` (a Hugging Face config.json) describes.

    Vision and audio towers, projectors and draft (MTP) layers are left out. `source` names the file
    in messages. Raises ModelConfigError, naming the file and the field, for an unknown model_type,
    a missing or contradictory field, and a field whose effect is unknown.
    """
    if not isinstance(config, Mapping):
        raise ModelConfigError(source, "(whole file)", "is no JSON object", "give a config.json")
    completed, additions = complete(config, name)
    family, inner, wrapper = _language_model(completed, source)
    r = Reader(inner, source, family.model_type)
    hidden = r.integer("hidden_size", "n_embd")
    frame = Frame(
        r=r,
        family=family,
        layers=_layer_count(r),
        hidden=hidden,
        vocab=r.integer("vocab_size"),
        max_context=r.integer(
            "max_position_embeddings", "n_positions", "model_max_length", default=0, minimum=0
        ),
    )
    r.expect("word_embed_proj_dim", hidden)
    if family.position_table and not frame.max_context:
        raise r.error(
            "max_position_embeddings", "is missing and sizes the position table", "add it"
        )
    for field, allowed in family.accepts.items():
        r.expect(field, allowed)
    r.skip(*family.skips)
    tied = _tied(completed, inner, family, wrapper)
    r.skip("tie_word_embeddings")
    parallel = r.switch(family.parallel_block)
    parts = BUILDERS[family.builder](frame)
    r.refuse_unread()
    return Architecture(
        name=name,
        model_type=str(completed["model_type"]),
        layers=frame.layers,
        hidden=hidden,
        vocab=frame.vocab,
        mixers=parts.mixers,
        feed_forwards=parts.feed_forwards,
        tied_embeddings=int(tied),
        parallel_block=int(parallel),
        residual_streams=parts.residual_streams,
        norm_parameters=parts.norm_parameters,
        embedding_extra_parameters=parts.embedding_extra_parameters,
        other_parameters=parts.other_parameters,
        reused_parameters=parts.reused_parameters,
        max_context_tokens=frame.max_context,
        released_weight_bits=released_weight_bits(
            Reader(completed, source, family.model_type), Reader(inner, source, family.model_type)
        ),
        source=source,
        provenance="; ".join(p for p in (provenance, additions) if p),
    )


def _language_model(
    config: Mapping[str, Any], source: str
) -> tuple[Family, Mapping[str, Any], Wrapper | None]:
    """The family, the level that holds the language model's fields, and the wrapper if any."""
    outer = config.get("model_type")
    text = config.get("text_config")
    if text is None:
        if isinstance(outer, str) and outer in wrappers() and outer not in families():
            raise ModelConfigError(
                source,
                "text_config",
                f"is missing though model_type {outer!r} is multimodal",
                "add it, or give the language model's own model_type",
            )
        return _family(outer, source, "model_type"), config, None
    if not isinstance(text, Mapping):
        raise ModelConfigError(source, "text_config", "is no JSON object", "correct it")
    wrapper = wrappers().get(outer) if isinstance(outer, str) else None
    if wrapper is None:
        raise _unknown(outer, source, "model_type", sorted(wrappers()))
    kind = text.get("model_type", wrapper.text[0])
    if kind not in wrapper.text:
        raise _unknown(kind, source, "text_config.model_type", list(wrapper.text))
    return _family(kind, source, "text_config.model_type"), text, wrapper


def _family(model_type: Any, source: str, field: str) -> Family:
    if model_type == "litgpt-derived":
        raise ModelConfigError(
            source,
            field,
            "'litgpt-derived' says neither which modelling code runs the model nor "
            "whether its embeddings are tied",
            "set model_type to the Hugging Face one (for instance llama) and add "
            "tie_word_embeddings",
        )
    if not isinstance(model_type, str) or model_type not in families():
        raise _unknown(model_type, source, field, sorted({*families(), *wrappers()}))
    return families()[model_type]


def _unknown(value: Any, source: str, field: str, known: list[str]) -> ModelConfigError:
    if value is None:
        return ModelConfigError(source, field, "is missing", f"add one of: {', '.join(known)}")
    close = nearest(str(value), known) or known
    return ModelConfigError(
        source,
        field,
        f"{value!r} is not supported (nearest: {', '.join(close)})",
        "if the model has the same layers as one of these, set that name; otherwise register it in "
        "models/huggingface/families.yaml with the facts that its modelling code fixes",
    )


def _layer_count(r: Reader) -> int:
    kinds = nemotron_kinds(r) if r.model_type == "nemotron_h" else None
    if not kinds:
        return r.integer("num_hidden_layers", "n_layer")
    if r.integer("num_hidden_layers", default=len(kinds)) != len(kinds):
        raise r.error(
            "num_hidden_layers", f"is not {len(kinds)}, the number of layers listed", "correct it"
        )
    return len(kinds)


def _tied(
    outer: Mapping[str, Any], inner: Mapping[str, Any], family: Family, wrapper: Wrapper | None
) -> bool:
    """The flag of the outermost level that has one, else the default of the outer class."""
    for level in (outer, inner):
        value = level.get("tie_word_embeddings")
        if value is not None:
            return bool(value)
    return wrapper.tied_default if wrapper is not None else family.tied_default
