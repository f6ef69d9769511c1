"""`dse predict`: one configuration, with its interval, its operators and the evidence behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dse.cli.options import Json

if TYPE_CHECKING:
    from dse.predict.configuration import Configuration
    from dse.predict.prediction import Prediction

_Degree = Annotated[int | None, typer.Option(min=1, help="Degree of this kind of parallelism.")]
_Format = Annotated[str, typer.Option(help="bf16, int8, fp8, int4 or fp4.")]


def predict(
    model: Annotated[str, typer.Option(help="Catalog name, or path of a config.json.")],
    chip: Annotated[str, typer.Option(help="Known chip, such as v6e.")],
    chips: Annotated[int, typer.Option(help="How many chips the whole deployment has.")],
    phase: Annotated[str, typer.Option(help="train, prefill, decode or serve.")],
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Prompt of one request.")] = 1024,
    output_tokens: Annotated[int, typer.Option(min=1, help="Answer of one request.")] = 128,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Sequences in flight (default: one a group of chips).")
    ] = None,
    prefill_chunk: Annotated[
        int | None, typer.Option(min=1, help="Prompt tokens of one prefill step (default: all).")
    ] = None,
    sequence_tokens: Annotated[
        int | None, typer.Option(min=1, help="Tokens of one training sequence.")
    ] = None,
    global_batch: Annotated[
        int | None, typer.Option(min=1, help="Sequences of one optimizer step.")
    ] = None,
    microbatches: Annotated[int, typer.Option(min=1, help="Parts of a training batch.")] = 1,
    remat: Annotated[
        str,
        typer.Option(help="full, minimal, or what to keep: save_qkv+save_out_proj."),
    ] = "full",
    offload: Annotated[
        bool, typer.Option("--offload", help="Keep saved activations in host memory.")
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
        str | None, typer.Option(help="Sides of one slice, 4x4x8 (default: the most cubic).")
    ] = None,
    weights: _Format = "bf16",
    activations: _Format = "bf16",
    kv: _Format = "bf16",
    stack: Annotated[
        str,
        typer.Option(help="Add the host time of this serving software: 'sglang-jax 0.1.0'."),
    ] = "",
    json: Json = False,
) -> None:
    """Time, rates and memory of one model on one number of chips, and how sure they are.

    Degrees that are not given are 1; the chips left over go to --tensor, in training to --fsdp.
    """
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
            prefill_chunk_tokens=prefill_chunk,
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
    found = evaluate(configuration)
    if json:
        tables.emit_json(prediction_json(configuration, found))
    else:
        _print(configuration, found)


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
    rows = []
    for name in (name for name in HEADLINES[c.phase] if name in found.metrics):
        interval = found.intervals.get(name)
        evidence = evidence_text(interval) if interval else "not measured"
        value = tables.metric(name, found.metrics[name])
        rows.append((name, value, range_text(name, interval), evidence))
    tables.print_table(["metric", "value", "80 % interval", "evidence"], rows, title=title)
    for step in dict.fromkeys(op["phase"] for op in found.operators):
        _print_step(step, [op for op in found.operators if op["phase"] == step])
    used, capacity = found.metrics["hbm_used_bytes"], found.metrics["hbm_bytes"]
    line = f"memory of a chip: {tables.amount(used)} of {tables.amount(capacity)} HBM"
    console.print(f"{line} ({used / capacity:.0%})", markup=False)
    for rule in c.rules:
        console.print(f"chosen: {rule}", markup=False)
    for violation in found.violations:
        _print_violation(console, violation)


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


def _print_violation(console: Any, violation: dict[str, Any]) -> None:
    amount = violation["amount"]
    over = f" (by {amount:.0%})" if 0 < amount < 1e6 and amount != 1 else ""
    hint = f"; try {violation['hint']}" if violation["hint"] else ""
    console.print(f"illegal: {violation['meaning']}{over}{hint}", markup=False, style="bold")
