"""Reader: typed access to one config.json that remembers which fields were understood.

Every builder takes what it needs through a `Reader`. When it is done, `refuse_unread` raises for
each field that nobody read and that is not listed in `ignored_fields.yaml`: a field whose effect
is unknown is an error, never a guess. A field that is null, false, zero or empty switches nothing
on, so it passes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any, cast

import yaml

from models.huggingface.errors import ModelConfigError, nearest

_REQUIRED: Any = object()
_TYPE_NAMES = {str: "words", int: "whole numbers", dict: "JSON objects"}


class Reader:
    """One level of a config.json; `source` and `model_type` go into every message."""

    def __init__(
        self, fields: Mapping[str, Any], source: str, model_type: str, prefix: str = ""
    ) -> None:
        self.prefix = prefix
        self.fields = fields
        self.source = source
        self.model_type = model_type
        self._read: set[str] = set()

    def has(self, key: str) -> bool:
        """True where `key` is present, null included."""
        return key in self.fields

    def raw(self, *keys: str) -> Any:
        """The value of the first of `keys` that is present and not null, else None.

        Raises ModelConfigError where two of them are present and disagree.
        """
        self._read.update(keys)
        found = [(k, self.fields[k]) for k in keys if self.fields.get(k) is not None]
        for key, value in found[1:]:
            if value != found[0][1]:
                raise self.error(
                    key,
                    f"is {value!r} but {found[0][0]!r} is {found[0][1]!r}",
                    "keep the one that is true",
                )
        return found[0][1] if found else None

    def integer(self, *keys: str, default: Any = _REQUIRED, minimum: int = 1) -> int:
        """A whole number ≥ `minimum` under the first of `keys` that is present."""
        value = self.raw(*keys)
        if value is None:
            return cast(int, self._default(keys, default, "a whole number"))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.error(
                keys[0], f"{value!r} is no whole number of at least {minimum}", "correct it"
            )
        return value

    def number(self, *keys: str, default: Any = _REQUIRED) -> float:
        """A number under the first of `keys` that is present."""
        value = self.raw(*keys)
        if value is None:
            return cast(float, self._default(keys, default, "a number"))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(keys[0], f"{value!r} is no number", "correct it")
        return float(value)

    def flag(self, *keys: str, default: Any = _REQUIRED) -> bool:
        """true or false under the first of `keys` that is present."""
        value = self.raw(*keys)
        if value is None:
            return cast(bool, self._default(keys, default, "true or false"))
        if not isinstance(value, bool):
            raise self.error(keys[0], f"{value!r} is neither true nor false", "correct it")
        return value

    def per_layer(self, key: str, layers: int, of: type = str) -> list[Any] | None:
        """A list with one entry of type `of` per layer, or None where `key` is absent.

        Longer lists hold draft layers at the end, which are cut.
        """
        value = self.listing(key, of)
        if value is not None and len(value) < layers:
            raise self.error(
                key,
                f"needs {layers} entries, one per layer, and has {len(value)}",
                "complete it or correct num_hidden_layers",
            )
        return None if value is None else value[:layers]

    def listing(self, key: str, of: type) -> list[Any] | None:
        """A list of entries of type `of`, or None where `key` is absent."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(x, of) for x in value):
            raise self.error(key, f"{_short(value)} is no list of {_TYPE_NAMES[of]}", "correct it")
        return list(value)

    def inside(self, key: str) -> Reader:
        """A reader of the JSON object under `key`, empty where `key` is absent."""
        value = self.raw(key)
        if not isinstance(value, Mapping | None):
            raise self.error(key, f"{_short(value)} is no JSON object", "correct it")
        return Reader(value or {}, self.source, self.model_type, f"{self.prefix}{key}.")

    def switch(self, spec: bool | str) -> bool:
        """A fact of a family: fixed true or false, or 'field=default' that the file may set."""
        if isinstance(spec, bool):
            return spec
        key, _, default = spec.partition("=")
        return self.flag(key, default=default == "true")

    def expect(self, key: str, allowed: Any) -> None:
        """Accept `key` only with a value among `allowed` (one value or a list)."""
        value = self.raw(key)
        options = allowed if isinstance(allowed, list) else [allowed]
        if value is not None and value not in options:
            raise self.error(
                key,
                f"{value!r} is not supported for model_type '{self.model_type}' "
                f"(supported: {', '.join(map(repr, options))})",
                "remove the field if it has no effect, or extend models/huggingface",
            )

    def skip(self, *keys: str) -> None:
        """Mark fields as understood to have no effect here."""
        self._read.update(keys)

    def refuse_unread(self) -> None:
        """Raise for every field that was not read and is not known to be without effect."""
        unknown = [
            key
            for key, value in self.fields.items()
            if key not in self._read
            and not key.startswith("_")
            and key.removesuffix("__truncated_from") not in ignored_fields()
            and not _is_off(value)
        ]
        if unknown:
            key = unknown[0]
            similar = nearest(key, sorted(self._read), count=1)
            hint = f" (did you mean '{similar[0]}'?)" if similar else ""
            others = f"; also unknown: {', '.join(unknown[1:])}" if unknown[1:] else ""
            raise self.error(
                key,
                f"= {_short(self.fields[key])} is not known for model_type '{self.model_type}', so "
                f"its effect on shapes and layers is unknown{hint}{others}",
                "remove it if it changes neither, or teach models/huggingface what it means",
            )

    def error(self, field: str, problem: str, remedy: str) -> ModelConfigError:
        """A ModelConfigError of this file."""
        return ModelConfigError(self.source, self.prefix + field, problem, remedy)

    def _default(self, keys: tuple[str, ...], default: Any, what: str) -> Any:
        if default is not _REQUIRED:
            return default
        also = f" (also looked for: {', '.join(keys[1:])})" if keys[1:] else ""
        raise self.error(
            keys[0],
            f"is missing and model_type '{self.model_type}' needs it as {what}{also}",
            "add it from the model's published config.json",
        )


@functools.lru_cache(maxsize=1)
def ignored_fields() -> frozenset[str]:
    """Fields that change neither shapes nor layers, from `ignored_fields.yaml`."""
    text = (resources.files("models") / "huggingface" / "ignored_fields.yaml").read_text("utf-8")
    return frozenset(key for group in yaml.safe_load(text).values() for key in group["fields"])


def _is_off(value: Any) -> bool:
    return value is None or value is False or value == 0 or value in ("", [], {})


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
