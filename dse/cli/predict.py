"""`dse predict`: one configuration, with its interval, its operators and the evidence behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli.options import Json
from dse.errors import EXIT_ILLEGAL
from dse.predict.options import (
    BITS,
    COMPUTE,
    MOST_CHIPS,
    OF_PHASES,
    OUTPUT_TOKENS,
    PHASES,
    PROMPT_TOKENS,
    any_of,
)

if TYPE_CHECKING:
    from dse.predict.configuration import Configuration
    from dse.predict.prediction import Prediction

_Degree = Annotated[int | None, typer.Option(min=1, help="Degree of this kind of parallelism.")]


def _help(option: str, text: str) -> str:
    """Help of an option, after the phases it is for."""
    return f"{text} ({any_of(OF_PHASES[option][0])})"


def predict(
    model: Annotated[str, typer.Option(help="Catalog name, or path of a config.json.")],
    chip: Annotated[str, typer.Option(help="Known chip, such as v6e.")],
    chips: Annotated[int, typer.Option(help=f"Chips of the whole deployment, 1 to {MOST_CHIPS}.")],
    phase: Annotated[str, typer.Option(help=f"{any_of(PHASES)}.")],
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help=_help("prompt_tokens", f"Prompt of one request, default {PROMPT_TOKENS}")
        ),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(
            min=1, help=_help("output_tokens", f"Answer of one request, default {OUTPUT_TOKENS}")
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1, help=_help("batch", "Sequences in flight, default one a group of chips")
        ),
    ] = None,
    prefill_chunk: Annotated[
        int | None,
        typer.Option(
            min=1, help=_help("prefill_chunk", "Prompt tokens of one prefill step, default all")
        ),
    ] = None,
    sequence_tokens: Annotated[
        int | None,
        typer.Option(min=1, help=_help("sequence_tokens", "Tokens of one training sequence")),
    ] = None,
    global_batch: Annotated[
        int | None,
        typer.Option(min=1, help=_help("global_batch", "Sequences of one optimizer step")),
    ] = None,
    microbatches: Annotated[
        int | None,
        typer.Option(min=1, help=_help("microbatches", "Parts of a training batch, default 1")),
    ] = None,
    remat: Annotated[
        str | None,
        typer.Option(
            help=_help(
                "remat", "full, minimal, or what to keep: save_qkv+save_out_proj; default full"
            )
        ),
    ] = None,
    offload: Annotated[
        bool,
        typer.Option("--offload", help=_help("offload", "Keep saved activations in host memory")),
    ] = False,
    data: _Degree = None,
    fsdp: _Degree = None,
    tensor: _Degree = None,
    expert: _Degree = None,
    pipeline: _Degree = None,
    context: _Degree = None,
    attention_data: Annotated[
        int | None, typer.Option(min=1, help="Replicas of attention within tensor x expert.")
    ] = None,
    torus: Annotated[
        str | None, typer.Option(help="Sides of one slice, 4x4x8, default the most cubic.")
    ] = None,
    weights: Annotated[str, typer.Option(help=any_of(BITS))] = "bf16",
    activations: Annotated[str, typer.Option(help=any_of(COMPUTE))] = "bf16",
    kv: Annotated[
        str | None, typer.Option(help=_help("kv", any_of(BITS)) + "; default bf16")
    ] = None,
    stack: Annotated[
        str,
        typer.Option(help="Add the host time of this serving software: 'sglang-jax 0.1.0'."),
    ] = "",
    json: Json = False,
) -> None:
    """Time, rates and memory of one model on one number of chips, and how sure they are.

    Degrees that are not given are 1; the chips left over go to --tensor, in training to --fsdp.
    Exit code 0: it can run. 3: it cannot, and the first lines say why and what to change (--json:
    `legal` is false). 2: a mistake in what was asked.
    """
    import sys

    from dse.cli import tables
    from dse.predict.configuration import Request, build
    from dse.predict.prediction import predict as evaluate

    degrees = {
        "data": data,
        "fsdp": fsdp,
        "tensor": tensor,
        "expert": expert,
        "pipeline": pipeline,
        "context": context,
    }
    configuration = build(
        Request(
            model=model,
            chip=chip,
            chips=chips,
            phase=phase,
            degrees={k: v for k, v in degrees.items() if v is not None},
            attention_data=attention_data,
            torus=torus,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            batch=batch,
            prefill_chunk=prefill_chunk,
            sequence_tokens=sequence_tokens,
            global_batch=global_batch,
            microbatches=microbatches,
            remat=remat,
            offload=offload,
            weights=weights,
            activations=activations,
            kv=kv,
            stack=stack,
        )
    )
    if not json:  # as `dse run`: notes go to standard error, none beside JSON
        print("compiling the model (about 8 s the first time)", file=sys.stderr, flush=True)
    found = evaluate(configuration)
    if json:
        tables.emit_json(prediction_json(configuration, found))
    else:
        _print(configuration, found)
    if found.violations:
        raise typer.Exit(EXIT_ILLEGAL)


def prediction_json(c: Configuration, found: Prediction) -> dict[str, Any]:
    """The documented object of `dse predict --json`."""
    import dataclasses

    return {
        "model": c.architecture.name,
        "chip": c.chip_name,
        "chips": c.deployment.chips,
        "phase": c.phase,
        "stack": c.stack or None,
        "deployment": dataclasses.asdict(c.deployment),
        "inputs": dataclasses.asdict(c.inputs),
        "rules": list(c.rules),
        "notes": list(c.notes),
        "hbm_usable_bytes": found.hbm_usable_bytes,
        "metrics": dict(found.metrics),
        "intervals": {name: i.to_json() for name, i in found.intervals.items()},
        "operators": found.operators,
        "legal": not found.violations,
        "violations": found.violations,
    }


def _print(c: Configuration, found: Prediction) -> None:
    from dse.cli import tables
    from dse.cli.intervals import evidence_text, range_text
    from dse.predict.prediction import HEADLINES

    console = tables.console()
    title = f"{c.architecture.name} on {c.deployment.chips:g} {c.chip_name}: {c.phase}"
    title += f", with the host time of {c.stack}" if c.stack else ""
    console.print(title, style="bold", markup=False)
    for line in verdict(found):
        console.print(line, style="bold" if found.violations else None, markup=False)
    for note in c.notes:
        console.print(f"note: {note}", markup=False)
    rows = []
    for name in (name for name in HEADLINES[c.phase] if name in found.metrics):
        interval = found.intervals.get(name)
        evidence = evidence_text(interval) if interval else "not measured"
        value = tables.metric(name, found.metrics[name])
        rows.append((name, value, range_text(name, interval), evidence))
    tables.print_table(["metric", "value", "80 % interval", "evidence"], rows)
    for step in dict.fromkeys(op["phase"] for op in found.operators):
        _print_step(step, [op for op in found.operators if op["phase"] == step])
    for rule in c.rules:
        console.print(f"chosen: {rule}", markup=False)


def verdict(found: Prediction) -> list[str]:
    """Whether it can run, in a line for each limit: the first thing to know."""
    from dse.cli.tables import amount

    used, capacity = found.metrics["hbm_used_bytes"], found.metrics["hbm_bytes"]
    usable = found.hbm_usable_bytes
    memory = (
        f"needs {amount(used)} of HBM a chip, usable are {amount(usable)} of {amount(capacity)} "
        f"({used / usable:.0%})"
    )
    lines = [_violation(v) for v in found.violations if v["code"] != "hbm_overflow"]
    overflow = [v for v in found.violations if v["code"] == "hbm_overflow"]
    fits = f"does not fit: {memory}{_hint(overflow[0])}" if overflow else f"fits: {memory}"
    # What is wrong comes first: one line says all where only memory or nothing is.
    return [fits, *lines] if overflow else [*lines, fits]


def _violation(violation: dict[str, Any]) -> str:
    amount = violation["amount"]
    over = f" (by {amount:.0%})" if 0 < amount < 1e6 and amount != 1 else ""
    return f"illegal: {violation['meaning']}{over}{_hint(violation)}"


def _hint(violation: dict[str, Any]) -> str:
    return f"; try {violation['hint']}" if violation["hint"] else ""


def _print_step(step: str, operators: list[dict[str, Any]]) -> None:
    from dse.cli import tables

    rows = [
        (
            op["name"],
            tables.seconds(op["time_s"]),
            f"{op['share']:.1%}",
            tables.amount(op["bytes"]),
            op["flops"],
            op["bound_by"],
        )
        for op in operators
    ]
    total = tables.seconds(sum(op["time_s"] for op in operators))
    names = {"step": "one training step", "prefill": "one prefill step"}
    title = f"{names.get(step, 'one decode step')} of one pipeline stage: {total}"
    tables.print_table(
        ["operator", "time", "share", "bytes", "flops", "bound by"], rows, title=title
    )
