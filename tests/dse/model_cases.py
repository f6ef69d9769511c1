"""Batch evaluators over wide spaces, built once per process, for tests of the model as a whole."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dse.scoring.batch import BatchEvaluator
from dse.scoring.cache import enable_compilation_cache
from dse.scoring.fields import base_values, field_names
from hwmodel import presets, theta
from models.deployment import Deployment
from models.huggingface import load
from models.variants import NEUTRAL, expand
from models.workload import Training, Workload
from search_spaces import FieldTable, Knob, Space
from search_spaces.applies import lacking
from search_spaces.catalog import entries, find
from search_spaces.conditions import conditioned
from search_spaces.knob import SECTIONS, Section
from search_spaces.presets import presets as space_presets
from search_spaces.values import choice, knob, neutral_choice

CHAT = Workload(prompt_tokens=4000.0, output_tokens=1000.0)
STEP = Training(sequence_tokens=4096.0, global_batch=1024.0)
TRAINING_TOKENS = 15e12
BANDS = {  # assumed where no published law covers a choice, as a study must
    f"{name}_nats_{end}": value
    for name in ("head_dim", "kv_heads", "layer_share", "window")
    for end, value in (("low", 0.0), ("high", 0.02))
}


def choices_of(name: str, section: Section) -> list[object]:
    """All settings of a knob that the catalog's default or a preset uses, and the neutral one."""
    entry = find(name, section)
    values = list(entry.default)
    for preset in space_presets().values():
        if preset.section == section:
            values += preset.knobs.get(name, ())
    if entry.neutral is not None and choice_fits(name, section):
        values.append(neutral_choice(entry).label)
    labels: dict[str, object] = {}
    for value in values:
        labels.setdefault(choice(entry, value).label, value)
    return list(labels.values())


def choice_fits(name: str, section: Section) -> bool:
    """Whether the neutral setting may be written as a choice (no window is window_tokens 0)."""
    entry = find(name, section)
    if entry.range is None or entry.kind != "linear" or entry.neutral in entry.named:
        return True
    return entry.range[0] <= float(entry.neutral or 0) <= entry.range[1]


class Case:
    """A model on a base chip under a workload, over a space: metrics of index rows."""

    def __init__(
        self,
        model: str,
        knobs: Sequence[Knob],
        chip: str = "v6e",
        workload: Workload | Training = CHAT,
        bands: Mapping[str, float] = BANDS,
    ) -> None:
        enable_compilation_cache()
        self.architecture = load(model)
        self.space = Space(tuple(knobs))
        self.chip = presets.load(chip)
        self.workload = workload
        base = base_values(self.chip, NEUTRAL, Deployment(), workload)
        free = {field for k in knobs for field in k.fields}
        base |= {name: value for name, value in bands.items() if name not in free}
        windowed = "window_share" in self.space.names
        self.evaluator = BatchEvaluator(
            FieldTable.build(self.space, field_names(base), base),
            expand(self.architecture, window=windowed),
            base,
            theta.central(),
            TRAINING_TOKENS,
        )

    def score(self, rows: NDArray[np.int32]) -> tuple[dict[str, NDArray[np.float64]], NDArray]:
        """Metrics by name and the worst violation of each row."""
        result = self.evaluator(rows)
        return dict(zip(self.evaluator.metrics, result.metrics, strict=True)), result.worst

    def legal_rows(self, n: int, seed: int) -> NDArray[np.int32]:
        """The legal ones among `n` random rows."""
        rows = self.space.sample(n, seed)
        return rows[self.score(rows)[1] <= 0]

    def values(self, name: str, rows: NDArray[np.int32]) -> NDArray[np.float64]:
        """Values of the first field of a knob in each row."""
        column = self.space.names.index(name)
        per_choice = [next(iter(c.fields.values())) for c in self.space.knobs[column].choices]
        return np.array(per_choice)[rows[:, column]]


def _knobs(model: str, chosen: Mapping[Section, Mapping[str, list[object]]]) -> list[Knob]:
    architecture = load(model)
    found: list[Knob] = []
    for section in SECTIONS:
        applicable = [
            knob(find(name, section), values)
            for name, values in chosen[section].items()
            if lacking(find(name, section), architecture) is None
        ]
        found += conditioned(applicable)
    return found


@functools.cache
def wide(model: str, chip: str = "v6e", workload: Workload | Training = CHAT) -> Case:
    """Every knob of the catalog that applies to the model and the kind of workload, with every
    setting of every preset."""
    kind = "train" if isinstance(workload, Training) else "serve"
    chosen = {
        section: {
            name: choices_of(name, section)
            for name, entry in entries(section).items()
            if entry.workload in (None, kind)
        }
        for section in SECTIONS
    }
    return Case(model, _knobs(model, chosen), chip, workload)


def nan_allowed(metric: str, case: Case) -> bool:
    """A chip without a published price has no price per token."""
    return metric.endswith("usd_per_mtoken_list") and math.isnan(case.chip.list_price_usd_per_hour)
