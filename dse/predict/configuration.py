"""From what a user states to the parts that the equations take, by stated rules.

Degrees that are not given are 1, but for one that takes all remaining chips: `fsdp` in training,
`tensor` in inference. The torus is the most cubic one of as many chips as one slice holds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dse.errors import UserError
from hwmodel.chip import Chip
from hwmodel.ops import BF16, FP8, INT4, INT8
from models.architecture import Architecture, MoE
from models.deployment import Deployment
from models.variants import NEUTRAL, Variant
from models.workload import Training, Workload

PHASES = ("train", "prefill", "decode", "serve")
DEGREES = ("data", "fsdp", "tensor", "expert", "pipeline", "context")
BITS = {"fp32": 32.0, "bf16": 16.0, "int8": 8.0, "fp8": 8.0, "int4": 4.0, "fp4": 4.0}
_FORMATS = {"bf16": BF16, "int8": INT8, "fp8": FP8, "int4": INT4, "fp4": INT4}
REMAT = ("save_qkv", "save_context", "save_out_proj", "save_mlp_up", "save_mlp_down")


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user states; None where nothing was said.

    degrees: by name, of DEGREES. attention_data: replicas of attention inside tensor x expert.
    remat: full, minimal, or fields of `Training` joined by + (save_qkv+save_out_proj).
    """

    model: str
    chip: str
    chips: int
    phase: str
    degrees: Mapping[str, int] = field(default_factory=dict)
    attention_data: int | None = None
    torus: str | None = None
    prompt_tokens: int = 1024
    output_tokens: int = 128
    batch: int | None = None
    prefill_chunk_tokens: int | None = None
    sequence_tokens: int | None = None
    global_batch: int | None = None
    microbatches: int = 1
    remat: str = "full"
    offload: bool = False
    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    stack: str = ""


@dataclass(frozen=True)
class Configuration:
    """Checked parts. inputs: `Training` in phase train, else `Workload`. rules: in words, what was
    chosen because nothing was said. stack: serving software whose host time is added, or empty."""

    phase: str
    chip_name: str
    chip: Chip
    architecture: Architecture
    variant: Variant
    deployment: Deployment
    inputs: Training | Workload
    rules: tuple[str, ...]
    stack: str = ""

    @property
    def moe(self) -> bool:
        """Whether the model has routed experts."""
        return any(isinstance(f, MoE) for f in self.architecture.feed_forwards)

    @property
    def gpu(self) -> bool:
        """Whether the chip's matrix units take row tiles of fixed size."""
        return bool(self.chip.mxu_row_tile)


def build(request: Request) -> Configuration:
    """The configuration of a request.

    Raises:
        UserError: an unknown name, or numbers that cannot be; the message names the nearest change.
    """
    if request.phase not in PHASES:
        raise UserError(f"--phase: {request.phase!r} is not one of {', '.join(PHASES)}")
    if request.stack:
        from dse.predict.host import check

        check(request.stack, request.phase)
    name, chip = _chip(request.chip)
    rules: list[str] = []
    degrees = _degrees(request, rules)
    torus = _torus(request, chip, rules)
    experts = float(degrees["expert"])
    attention = request.attention_data
    if attention is None:
        attention = degrees["expert"] if request.phase == "train" else 1
    inputs, batch = _inputs(request, degrees, attention, rules)
    deployment = Deployment(
        **{k: float(v) for k, v in degrees.items()},
        attention_data=float(attention),
        torus_x=torus[0],
        torus_y=torus[1],
        torus_z=torus[2],
        batch=float(batch),
        prefill_chunk_tokens=float(request.prefill_chunk_tokens or request.prompt_tokens),
    )
    architecture = _model(request.model)
    if experts > 1 and not any(isinstance(f, MoE) for f in architecture.feed_forwards):
        raise UserError(f"--expert {experts:g}: {request.model} has no experts; leave it out")
    return Configuration(
        request.phase,
        name,
        chip,
        architecture,
        _variant(request),
        deployment,
        inputs,
        tuple(rules),
        request.stack,
    )


def _chip(name: str) -> tuple[str, Chip]:
    from hwmodel import presets

    try:
        return presets.canonical(name), presets.load(name)
    except presets.ChipError as error:
        raise UserError(f"--chip: {error}") from None


def _model(name: str) -> Architecture:
    from models.huggingface import ModelConfigError, UnknownModelError, load

    try:
        return load(name)
    except (ModelConfigError, UnknownModelError, FileNotFoundError) as error:
        raise UserError(f"--model: {error}") from None


def _degrees(request: Request, rules: list[str]) -> dict[str, int]:
    """All degrees; their product is the number of chips."""
    chips = request.chips
    if chips < 1:
        raise UserError(f"--chips {chips}: there must be at least one chip")
    for option, value in request.degrees.items():
        if value < 1:
            raise UserError(f"--{option} {value}: a degree is at least 1")
    rest = "fsdp" if request.phase == "train" else "tensor"
    stated = math.prod(request.degrees.values())
    words = " x ".join(f"--{k} {v}" for k, v in request.degrees.items()) or "no degrees"
    if rest not in request.degrees and chips % stated:
        near = ", ".join([*_divisors_near(request), *map(str, _multiples(chips, stated))])
        raise UserError(f"--chips {chips} is no multiple of {words}; nearest: {near} chips")
    if rest in request.degrees and stated != chips:
        others = stated // request.degrees[rest]
        change = f"--chips {stated}"
        if chips % others == 0:
            change += f", or --{rest} {chips // others}"
        raise UserError(f"{words} make {stated} chips, --chips says {chips}; set {change}")
    degrees = {**dict.fromkeys(DEGREES, 1), **request.degrees}
    if rest not in request.degrees:
        degrees[rest] = chips // stated
        rules.append(f"{rest} {degrees[rest]}: all chips that no other degree takes")
    return degrees


def _divisors_near(request: Request) -> list[str]:
    """The last stated degree, changed to the values around it that divide the chips left over."""
    option, value = list(request.degrees.items())[-1]
    others = math.prod(request.degrees.values()) // value
    if request.chips % others:
        return []
    left = request.chips // others
    fits = [v for v in range(1, left + 1) if left % v == 0]
    below, above = [v for v in fits if v < value][-1:], [v for v in fits if v > value][:1]
    return [f"--{option} {v}" for v in below + above]


def _multiples(chips: int, step: int) -> list[int]:
    """The multiples of `step` around `chips`, without zero."""
    below = chips // step * step
    return [c for c in (below, below + step) if c > 0]


def _torus(request: Request, chip: Chip, rules: list[str]) -> tuple[float, float, float]:
    from dse.validation.cases import most_cubic

    dimensions = round(chip.ici_torus_ndims)
    if request.torus is not None:
        return _sides(request, request.torus, dimensions)
    largest = round(chip.ici_max_chips)
    slices = next(s for s in range(1, request.chips + 1) if _fits(request.chips, s, largest))
    own = request.chips // slices
    sides = (float(own), 1.0, 1.0) if chip.ici_switched else most_cubic(own, dimensions)
    shown = "x".join(f"{side:g}" for side in sides[:dimensions] or sides)
    rules.append(f"torus {shown}" + (f", {slices} slices" if slices > 1 else ""))
    return sides


def _fits(chips: int, slices: int, largest: int) -> bool:
    return chips % slices == 0 and chips // slices <= largest


def _sides(request: Request, text: str, dimensions: int) -> tuple[float, float, float]:
    parts = text.lower().split("x")
    if not 1 <= len(parts) <= 3 or not all(p.isdecimal() and int(p) > 0 for p in parts):
        raise UserError(f"--torus {text}: write the sides as 4x4 or 4x4x8")
    sides = [int(p) for p in parts]
    if len([s for s in sides if s > 1]) > dimensions:
        raise UserError(f"--torus {text}: {request.chip} has links for {dimensions} dimensions")
    own = math.prod(sides)
    if request.chips % own:
        near = " or ".join(str(c) for c in _multiples(request.chips, own))
        raise UserError(
            f"--torus {text} has {own} chips, and --chips {request.chips} is no whole number of "
            f"such slices; the nearest are {near} chips"
        )
    x, y, z = [float(s) for s in (*sides, 1, 1)[:3]]
    return x, y, z


def _inputs(
    request: Request, degrees: Mapping[str, int], attention: int, rules: list[str]
) -> tuple[Training | Workload, int]:
    """Training or workload, and the sequences in flight."""
    if request.phase == "train":
        if request.global_batch is None or request.sequence_tokens is None:
            raise UserError("--phase train needs --global-batch and --sequence-tokens")
        training = Training(
            sequence_tokens=float(request.sequence_tokens),
            global_batch=float(request.global_batch),
            microbatches=float(request.microbatches),
            offload_saved=float(request.offload),
            **_saved(request.remat),
        )
        return training, 1
    groups = degrees["data"] * degrees["pipeline"] * degrees["fsdp"] * attention
    batch = request.batch
    if batch is None:
        batch = groups
        rules.append(f"batch {batch}: one sequence for each group of chips with its own requests")
    workload = Workload(
        prompt_tokens=float(request.prompt_tokens), output_tokens=float(request.output_tokens)
    )
    return workload, batch


def _saved(policy: str) -> dict[str, float]:
    """The `save_*` fields of a policy; minimal keeps every projection but not attention's result,
    as in MaxText."""
    if policy == "full":
        return {}
    if policy == "minimal":
        return {name: float(name != "save_context") for name in REMAT}
    names = policy.split("+")
    for name in names:
        if name not in REMAT:
            from search_spaces.nearest import suggestion

            raise UserError(
                f"--remat: {name!r} is neither full, minimal nor a tensor to keep; "
                f"{suggestion(name, REMAT)}"
            )
    return dict.fromkeys(names, 1.0)


def _variant(request: Request) -> Variant:
    for option, value in (
        ("weights", request.weights),
        ("activations", request.activations),
        ("kv", request.kv),
    ):
        if value not in BITS:
            raise UserError(f"--{option} {value!r} is not one of {', '.join(BITS)}")
    if request.activations == "fp32":
        raise UserError("--activations fp32: matrix units multiply in 16 bits or fewer; use bf16")
    return dataclasses.replace(
        NEUTRAL,
        weight_bits=BITS[request.weights],
        activation_bits=BITS[request.activations],
        compute_format=_FORMATS[request.activations],
        kv_bits=BITS[request.kv],
    )
