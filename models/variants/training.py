"""How many tokens each catalog model was trained on, from `training_tokens.csv`."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources


class UnknownTrainingTokensError(LookupError):
    """No published number of training tokens is on file for a model."""


@dataclass(frozen=True)
class TrainingTokens:
    """One row of the table. `kind` is `read` (in the source named), `secondary` (a compilation that
    quotes the source) or `recalled` (not re-read when the table was made)."""

    model: str
    tokens: float
    source: str
    kind: str


@functools.cache
def table() -> dict[str, TrainingTokens]:
    """All rows by model name."""
    text = resources.files("models.variants").joinpath("training_tokens.csv").read_text()
    rows = {}
    for row in csv.DictReader(text.splitlines()):
        entry = TrainingTokens(row["model"], float(row["tokens"]), row["source"], row["kind"])
        if entry.model in rows:
            raise ValueError(f"training_tokens.csv: model '{entry.model}' is listed twice")
        rows[entry.model] = entry
    return rows


def training_tokens(model: str) -> TrainingTokens:
    """Training tokens of `model`, a catalog or Hugging Face name with or without a prefix.

    `Llama-3.1-8B`, `llama3__Llama-3.1-8B` and `meta-llama/Llama-3.1-8B` are the same. Only the
    prefix is dropped, no similar name is taken.

    Raises:
        UnknownTrainingTokensError: the model is not in the table.
    """
    name = model.rsplit("/", 1)[-1].split("__", 1)[-1]
    found = table().get(name)
    if found is None:
        raise UnknownTrainingTokensError(
            f"no published number of training tokens is known for '{model}', and the 4-bit quality "
            "law needs it; give it in the study as training_tokens (for example 15e12)"
        )
    return found
