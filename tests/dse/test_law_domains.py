"""Sentences on extrapolated quality laws, from the labels of a study's knobs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dse.law_domains import beyond_fits
from dse.spec import load

STUDIES = Path(__file__).parents[2] / "studies"
RELEASED = {
    "head_dim": "released",
    "kv_heads": "released",
    "ffn_width_scale": "1",
    "weight_format": "bf16",
    "kv_format": "bf16",
    "nm_sparsity": "dense",
    "window_share": "0",
    "window_tokens": "4096",
}


@pytest.mark.parametrize(
    ("changed", "sentences"),
    [
        ({}, []),
        ({"kv_format": "fp8"}, []),
        ({"head_dim": "64"}, []),  # the study assumes a band: no law is stretched
        ({"ffn_width_scale": "0.75"}, ["the model has 70.6B"]),
        ({"weight_format": "w4a16"}, ["the 4-bit law was fitted up to", "B tokens"]),
        ({"nm_sparsity": "2:4"}, ["size laws were fitted", "the sparsity law was fitted"]),
    ],
)
def test_a_70b_model_is_beyond_the_laws_it_uses(
    changed: dict[str, str], sentences: list[str]
) -> None:
    study = load(STUDIES / "llama31-70b-serving.yaml")
    found = beyond_fits(study, {**RELEASED, **changed})
    assert len(found) == len(sentences) and all(
        part in line for part, line in zip(sentences, found, strict=True)
    )


def test_sentences_of_a_portfolio_name_the_assignment() -> None:
    study = load(STUDIES / "llama31-70b-serving.yaml")
    (alone,) = study.assignments
    knobs = tuple(knob.prefixed("chat") for knob in alone.model_knobs)
    member = dataclasses.replace(alone, name="chat", model_knobs=knobs)
    labels = {f"chat.{name}": label for name, label in {**RELEASED, "nm_sparsity": "2:4"}.items()}
    found = beyond_fits(dataclasses.replace(study, assignments=(member,)), labels)
    assert len(found) == 2 and all(line.startswith("chat: ") for line in found)
