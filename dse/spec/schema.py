"""The shape of a study file: which keys exist and of what type. Meaning is checked afterwards."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from dse.spec.problems import Problems
from dse.spec.text import Document, Path
from search_spaces.nearest import suggestion

Sampler = Literal["nsga2", "nsga3", "tpe", "gp", "qmc", "random"]
SAMPLERS: tuple[str, ...] = get_args(Sampler)
Fidelity = Literal["analytical", "tile"]


class Part(BaseModel):
    """Base of all parts: unknown keys are errors, and no value is converted to another type."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ChipPart(Part):
    """`chip`: a preset name, or a mapping with knobs."""

    base: str
    knobs: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_only(cls, value: Any) -> Any:
        return {"base": value} if isinstance(value, str) else value


class ModelPart(Part):
    """`model`: a catalog name or config path, or a mapping with knobs."""

    config: str
    knobs: dict[str, Any] = Field(default_factory=dict)
    training_tokens: Any = None
    assume: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_only(cls, value: Any) -> Any:
        return {"config": value} if isinstance(value, str) else value


class WorkloadPart(Part):
    """`workload`: the shape of the requests."""

    prompt_tokens: Any
    output_tokens: Any
    cached_prefix_tokens: Any = 0
    expert_imbalance: Any = 1


class TrainPart(Part):
    """`workload.train`: the shape of one optimizer step."""

    sequence_tokens: Any
    global_batch: Any
    master_weight_bits: Any = 32
    moment_bits: Any = 64
    expert_imbalance: Any = 1
    expert_capacity: Any = 0


class TrainingPart(Part):
    """`workload` of a study that trains."""

    train: TrainPart


_SERVES, _TRAINS = "<serves>", "<trains>"


def _kind_of_workload(value: Any) -> str:
    trains = "train" in value if isinstance(value, dict) else isinstance(value, TrainingPart)
    return _TRAINS if trains else _SERVES


AnyWorkload = Annotated[
    Annotated[WorkloadPart, Tag(_SERVES)] | Annotated[TrainingPart, Tag(_TRAINS)],
    Discriminator(_kind_of_workload),
]


class SolvePart(Part):
    """`deployment.solve`: knobs whose best setting is computed for each chip and variant."""

    knobs: Any
    maximize: str | None = None
    minimize: str | None = None
    limits: list[Any] = Field(default_factory=list)


class DeploymentPart(Part):
    """`deployment`: knobs, fixed settings, and what is solved."""

    knobs: dict[str, Any] = Field(default_factory=dict)
    fixed: dict[str, Any] = Field(default_factory=dict)
    solve: SolvePart | None = None


class AssignmentPart(Part):
    """One member of `portfolio`."""

    name: str
    model: ModelPart
    workload: AnyWorkload
    weight: Any = 1
    deployment: DeploymentPart = DeploymentPart()


class SearchPart(Part):
    """`search`: how the space is searched."""

    sampler: Sampler = "nsga2"
    trials: int = Field(default=1000, ge=1)
    seed: int = Field(default=0, ge=0)
    population: int = Field(default=100, ge=2)


class StudyPart(Part):
    """A whole study file."""

    name: str | None = None
    question: str | None = None
    chip: ChipPart
    model: ModelPart | None = None
    workload: AnyWorkload | None = None
    deployment: DeploymentPart = DeploymentPart()
    portfolio: list[AssignmentPart] | None = None
    objectives: list[Any]
    constraints: list[Any] = Field(default_factory=list)
    search: SearchPart = SearchPart()
    fidelity: Fidelity = "analytical"


def read(document: Document, problems: Problems) -> StudyPart | None:
    """The document as a StudyPart; records each problem and returns None where there is one."""
    if not isinstance(document.data, dict):
        problems.add((), "a study file is a mapping with keys such as chip, model and objectives")
        return None
    try:
        return StudyPart.model_validate(document.data)
    except ValidationError as error:
        for item in error.errors():
            _record(item, document, problems)
        return None


def _record(item: Any, document: Document, problems: Problems) -> None:
    path: Path = tuple(key for key in item["loc"] if key not in (_SERVES, _TRAINS))
    kind = item["type"]
    if (
        kind == "extra_forbidden"
        and _TRAINS in item["loc"]
        and path[-1] in WorkloadPart.model_fields
    ):
        problems.add(path, f"a workload that trains has no {path[-1]}; its keys are under train")
    elif kind == "extra_forbidden":
        keys = _keys_beside(path)
        problems.add(path, f"unknown key; {suggestion(str(path[-1]), keys)}")
    elif kind == "missing":
        problems.add(path[:-1], f"the key {path[-1]!r} is missing")
    elif kind == "literal_error":
        known = get_args(Fidelity) if path[-1] == "fidelity" else SAMPLERS
        problems.add(path, f"{item['input']!r} is unknown; {suggestion(str(item['input']), known)}")
    elif kind in ("model_type", "model_attributes_type"):
        problems.add(path, f"{item['input']!r} should be a mapping of keys to values")
    else:
        message = item["msg"].replace("Input should be a valid", "should be a")
        problems.add(path, f"{item['input']!r} {message[0].lower()}{message[1:]}")


def _keys_beside(path: Path) -> list[str]:
    """The legal keys of the mapping in which `path` ends."""
    part: type[Part] = StudyPart
    for key in path[:-1]:
        if isinstance(key, int):
            continue
        part = _PARTS[key]
    return list(part.model_fields)


_PARTS: dict[str | int, type[Part]] = {
    "chip": ChipPart,
    "model": ModelPart,
    "workload": WorkloadPart,
    "train": TrainPart,
    "deployment": DeploymentPart,
    "solve": SolvePart,
    "portfolio": AssignmentPart,
    "search": SearchPart,
}
