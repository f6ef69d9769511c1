"""From what a user states to the parts that the equations take, by stated rules.

Degrees that are not given are 1, but for one that takes all remaining chips: `fsdp` in training,
`tensor` in inference. Chips make as few slices as hold them, each the most cubic torus (`slices`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dse.divisors import divisors, multiples_around
from dse.errors import UserError
from dse.predict import slices
from dse.predict.options import (
    BITS,
    COMPUTE,
    DEGREES,
    MOST_CHIPS,
    OF_PHASES,
    OUTPUT_TOKENS,
    PHASES,
    PROMPT_TOKENS,
    REMAT,
    any_of,
)
from hwmodel.chip import Chip
from models.architecture import Architecture, MoE
from models.deployment import Deployment
from models.variants import NEUTRAL, Variant
from models.workload import Training, Workload


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user states; None where nothing was said.

    degrees: by name, of `options.DEGREES`. attention_data: replicas of attention inside
    tensor x expert. remat: full, minimal, or fields of `Training` joined by +
    (save_qkv+save_out_proj).
    """

    model: str
    chip: str
    chips: int
    phase: str
    degrees: Mapping[str, int] = field(default_factory=dict)
    attention_data: int | None = None
    torus: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    batch: int | None = None
    prefill_chunk: int | None = None
    sequence_tokens: int | None = None
    global_batch: int | None = None
    microbatches: int | None = None
    remat: str | None = None
    offload: bool = False
    weights: str = "bf16"
    activations: str = "bf16"
    kv: str | None = None
    stack: str = ""


@dataclass(frozen=True)
class Configuration:
    """Checked parts. inputs: `Training` in phase train, else `Workload`. rules: in words, what was
    chosen because nothing was said. notes: what to know about a slice that nobody may offer.
    stack: serving software whose host time is added, or empty."""

    phase: str
    chip_name: str
    chip: Chip
    architecture: Architecture
    variant: Variant
    deployment: Deployment
    inputs: Training | Workload
    rules: tuple[str, ...]
    notes: tuple[str, ...] = ()
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
    _check_phase(request)
    if request.stack:
        from dse.predict.host import check

        check(request.stack, request.phase)
    name, chip = _chip(request.chip)
    rules: list[str] = []
    degrees = _degrees(request, rules)
    torus = _torus(request, name, chip, rules)
    note = slices.unpublished(torus, name, chip)
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
        prefill_chunk_tokens=float(request.prefill_chunk or request.prompt_tokens or PROMPT_TOKENS),
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
        (note,) if note else (),
        request.stack,
    )


def _check_phase(request: Request) -> None:
    """Refuse what would be ignored: a user who states it believes that it counts."""
    wrong = []
    for option, (phases, instead) in OF_PHASES.items():
        if getattr(request, option) not in (None, False) and request.phase not in phases:
            change = f"use {instead} instead" if instead else "leave it out"
            flag = "--" + option.replace("_", "-")
            wrong.append(f"{flag} is for --phase {any_of(phases)}, not {request.phase}; {change}")
    if wrong:
        raise UserError(". ".join(wrong))


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
    if not 1 <= chips <= MOST_CHIPS:
        raise UserError(f"--chips {chips}: state a whole number from 1 to {MOST_CHIPS}")
    for option, value in request.degrees.items():
        if value < 1:
            raise UserError(f"--{option} {value}: a degree is at least 1")
    rest = "fsdp" if request.phase == "train" else "tensor"
    stated = math.prod(request.degrees.values())
    words = " x ".join(f"--{k} {v}" for k, v in request.degrees.items()) or "no degrees"
    if rest not in request.degrees and chips % stated:
        near = ", ".join([*_divisors_near(request), *map(str, multiples_around(chips, stated))])
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
    fits = divisors(request.chips // others)
    below, above = [v for v in fits if v < value][-1:], [v for v in fits if v > value][:1]
    return [f"--{option} {v}" for v in below + above]


def _torus(request: Request, name: str, chip: Chip, rules: list[str]) -> tuple[float, float, float]:
    if request.torus is not None:
        sides = slices.stated(request.torus, request.chips, name, chip)
        count = request.chips // math.prod(round(side) for side in sides)
    else:
        sides, count = slices.default(request.chips, chip)
    if request.torus is None or count > 1:
        rules.append(slices.named(sides, count, chip))
    return sides


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
            microbatches=float(request.microbatches or 1),
            offload_saved=float(request.offload),
            **_saved(request.remat or "full"),
        )
        return training, 1
    groups = degrees["data"] * degrees["pipeline"] * degrees["fsdp"] * attention
    batch = request.batch
    if batch is None:
        batch = groups
        rules.append(f"batch {batch}: one sequence for each group of chips with its own requests")
    workload = Workload(
        prompt_tokens=float(request.prompt_tokens or PROMPT_TOKENS),
        output_tokens=float(request.output_tokens or OUTPUT_TOKENS),
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
    kv = request.kv or "bf16"
    for option, value, accepted in (
        ("weights", request.weights, BITS),
        ("activations", request.activations, COMPUTE),
        ("kv", kv, BITS),
    ):
        if value not in accepted:
            raise UserError(f"--{option} {value!r} is not one of {', '.join(accepted)}")
    return dataclasses.replace(
        NEUTRAL,
        weight_bits=BITS[request.weights],
        activation_bits=BITS[request.activations],
        compute_format=COMPUTE[request.activations],
        kv_bits=BITS[kv],
    )
