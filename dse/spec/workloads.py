"""What a study does with its model, serve or train, and which knobs and metrics belong to that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dse.metrics import metrics
from dse.spec.problems import Problems
from dse.spec.schema import TrainingPart, TrainPart, WorkloadPart
from dse.spec.text import Path
from models.architecture import Architecture, MoE
from models.workload import Training, Workload
from search_spaces.catalog import find
from search_spaces.errors import SpaceError
from search_spaces.knob import Section
from search_spaces.nearest import suggestion
from search_spaces.units import parse_quantity

MOST_TOKENS = 1e9
"""Longest prompt, output or sequence that a workload may state; beyond it is a slip of the pen."""

MOST_BITS = {"master_weight_bits": (8, 32), "moment_bits": (0, 64)}

_DOES = {"serve": "serves requests", "train": "trains"}


@dataclass(frozen=True)
class Length:
    """The longest sequence that a workload needs: its tokens, the key that states it, in words."""

    tokens: float
    path: Path
    what: str


def kind_of(workload: Workload | Training) -> str:
    """`serve` or `train`."""
    return "train" if isinstance(workload, Training) else "serve"


def longest_sequence(workload: Workload | Training) -> Length:
    """What the model's context must hold."""
    if isinstance(workload, Training):
        return Length(workload.sequence_tokens, ("train", "sequence_tokens"), "sequences are")
    tokens = workload.prompt_tokens + workload.output_tokens
    return Length(tokens, ("prompt_tokens",), "prompt and output are")


def read_workload(
    part: WorkloadPart | TrainingPart, path: Path, problems: Problems
) -> Workload | Training | None:
    """The workload, or None where a problem was recorded."""
    if isinstance(part, TrainingPart):
        return _training(part.train, (*path, "train"), problems)
    return _serving(part, path, problems)


def _serving(part: WorkloadPart, path: Path, problems: Problems) -> Workload | None:
    values: dict[str, float] = {}
    for name, raw in part:
        with problems.at((*path, name)):
            if name == "expert_imbalance":
                values[name] = _at_least(raw, 1, "", name)
            else:
                least = 0 if name == "cached_prefix_tokens" else 1
                values[name] = _whole(raw, least, "tokens", name)
    if len(values) < len(WorkloadPart.model_fields):
        return None
    if values["cached_prefix_tokens"] >= values["prompt_tokens"]:
        problems.add(
            (*path, "cached_prefix_tokens"),
            f"{values['cached_prefix_tokens']:g} cached tokens leave nothing of a prompt of "
            f"{values['prompt_tokens']:g}; at least its last token must be computed",
        )
    return Workload(**values)


def _training(part: TrainPart, path: Path, problems: Problems) -> Training | None:
    values: dict[str, float] = {}
    for name, raw in part:
        with problems.at((*path, name)):
            if name in MOST_BITS:
                low, high = MOST_BITS[name]
                values[name] = _at_least(raw, low, "bits", name)
                if values[name] > high:
                    raise SpaceError(f"{name}: {raw} is above {high}")
            elif name == "expert_imbalance":
                values[name] = _at_least(raw, 1, "", name)
            elif name == "expert_capacity":
                values[name] = _capacity(raw)
            else:
                unit = "sequences" if name == "global_batch" else "tokens"
                values[name] = _whole(raw, 1, unit, name)
    if len(values) < len(TrainPart.model_fields):
        return None
    return Training(**values)


def _capacity(raw: object) -> float:
    """A capacity factor: 0, dropless, or room for at least every expert's even share."""
    factor = parse_quantity(raw, "", "expert_capacity")
    if factor != 0 and factor < 1:
        raise SpaceError(
            f"expert_capacity: {raw} is below 1, an even share; say 0 where no token is dropped"
        )
    return factor


def check_experts(
    workload: Workload | Training, architecture: Architecture, path: Path, problems: Problems
) -> None:
    """Record a capacity of experts that the model lacks, or beyond every token for every one."""
    if not workload.expert_capacity:
        return
    where = (*path, "train", "expert_capacity")
    blocks = [f for f in architecture.feed_forwards if isinstance(f, MoE)]
    if not blocks:
        problems.add(where, f"{architecture.name} has no routed experts; leave expert_capacity out")
        return
    most = max(block.experts / block.top_k for block in blocks)
    if workload.expert_capacity > most:
        problems.add(
            where,
            f"expert_capacity: {workload.expert_capacity:g} is above {most:g}, at which every "
            f"expert of {architecture.name} has room for every token",
        )


def _at_least(raw: object, least: float, unit: str, name: str) -> float:
    number = parse_quantity(raw, unit, name)
    if number < least:
        raise SpaceError(f"{name}: {raw} is below {least}")
    return number


def _whole(raw: object, least: float, unit: str, name: str) -> float:
    number = _at_least(raw, least, unit, name)
    if number % 1 or number > MOST_TOKENS:
        raise SpaceError(f"{name}: {raw} is not a whole number of {unit} up to {MOST_TOKENS:g}")
    return number


def check_suits(
    names: Iterable[str],
    section: Section,
    kind: str,
    raw: Mapping[str, Any],
    path: Path,
    problems: Problems,
) -> None:
    """Record knobs that mean nothing under this kind of workload."""
    for name in names:
        wanted = find(name, section).workload
        if wanted not in (None, kind):
            problems.add(
                (*path, name) if name in raw else (*path, "include"),
                f"{name} means nothing where a study {_DOES[kind]}{_INSTEAD.get(name, '')}",
            )


_INSTEAD = {"batch": "; the batch of a training step is workload.train.global_batch"}


def check_metric(name: str, kind: str) -> None:
    """Raises SpaceError for a metric that this kind of workload does not have."""
    known = metrics()
    if known[name].workload not in ("any", kind):
        fitting = [m.name for m in known.values() if m.workload in ("any", kind)]
        twin = f"train_{name}" if kind == "train" else name.removeprefix("train_")
        hint = f"did you mean {twin!r}?" if twin in fitting else suggestion(name, fitting)
        raise SpaceError(f"{name} is a metric of studies that {known[name].workload}; {hint}")
