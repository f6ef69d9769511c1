"""Where a candidate's quality loss is an extrapolation: beyond the range its law was fitted on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dse.spec import StudySpec


def beyond_fits(study: StudySpec, params: Mapping[str, str]) -> list[str]:
    """Sentences on the laws whose fitted domain the variant leaves, for a study's knob labels.

    Empty where the candidate changes no model, or the study assumed a band instead of a law. In a
    portfolio each sentence begins with the name of its assignment.
    """
    from models.variants import NEUTRAL, out_of_domain

    found = []
    for assignment in study.assignments:
        fields: dict[str, float] = {}
        for knob in assignment.model_knobs:
            fields |= knob.choices[knob.index(params[knob.name])].fields
        variant = dataclasses.replace(NEUTRAL, **fields)
        tokens = assignment.training_tokens
        sentences = out_of_domain(
            assignment.architecture, variant, math.nan if tokens is None else tokens
        )
        prefix = f"{assignment.name}: " if assignment.name else ""
        found += [prefix + sentence for sentence in sentences]
    return found
