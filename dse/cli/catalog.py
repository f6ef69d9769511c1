"""`dse models`, `dse chips`, `dse knobs` and `dse metrics`: what a study can name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dse.cli.options import Json
from dse.errors import UserError

models = typer.Typer(help="Open-weight models of the catalog, or a config.json of your own.")
chips = typer.Typer(help="Known chips and the source of each of their numbers.")


@models.callback(invoke_without_command=True)
def _models(context: typer.Context, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_models(json)


@models.command("list")
def list_models(json: Json = False) -> None:
    """Names of the catalog models."""
    from dse.cli import tables
    from models.huggingface import catalog_names

    names = catalog_names()
    if json:
        tables.emit_json(list(names))
    else:
        print("\n".join(names))


@models.command("show")
def show_model(
    model: Annotated[str, typer.Argument(help="Catalog name, or path of a config.json.")],
    json: Json = False,
) -> None:
    """The parsed architecture, with parameter, active-parameter and KV-bytes-per-token counts."""
    from dse.cli import tables
    from models.describe import summary
    from models.huggingface import ModelConfigError, UnknownModelError, load

    try:
        facts = summary(load(model))
    except (ModelConfigError, UnknownModelError, FileNotFoundError) as error:
        raise UserError(str(error)) from None
    if json:
        tables.emit_json(facts)
        return
    nested = {key: facts.pop(key) for key in ("mixers", "feed_forwards")}
    tables.print_table([facts.pop("name"), ""], list(facts.items()))
    for title, groups in nested.items():
        rows = [(group.pop("kind"), _inline(group)) for group in groups]
        tables.print_table([title, "dimensions"], rows)


@chips.callback(invoke_without_command=True)
def _chips(context: typer.Context, json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_chips(json)


@chips.command("list")
def list_chips(json: Json = False) -> None:
    """Known chips, with their peak and memory."""
    from dse.cli import tables
    from hwmodel import presets

    rows = []
    for name in presets.names():
        chip, about = presets.load(name), presets.describe(name)
        rows.append(
            {
                "name": name,
                "title": about["title"],
                "peak_bf16_flops": chip.peak_bf16_flops,
                "hbm_bytes": chip.hbm_bytes,
                "hbm_bandwidth_bytes_per_s": chip.hbm_bandwidth_bytes_per_s,
                "unvalidated": about["unvalidated"],
            }
        )
    if json:
        tables.emit_json(rows)
        return
    body = [
        (
            row["name"],
            row["title"],
            f"{row['peak_bf16_flops'] / 1e12:.4g}",
            f"{row['hbm_bytes'] / 1e9:.4g}",
            f"{row['hbm_bandwidth_bytes_per_s'] / 1e9:.4g}",
            row["unvalidated"] or "",
        )
        for row in rows
    ]
    tables.print_table(["chip", "title", "bf16 TFLOP/s", "HBM GB", "HBM GB/s", "note"], body)


@chips.command("show")
def show_chip(
    chip: Annotated[str, typer.Argument(help="Name of a chip, such as v6e.")],
    json: Json = False,
) -> None:
    """Every number of one chip, with its unit, kind and source."""
    from dse.cli import tables
    from hwmodel import presets

    try:
        about = presets.describe(chip)
    except presets.ChipError as error:
        raise UserError(str(error)) from None
    if json:
        tables.emit_json(about)
        return
    console = tables.console()
    console.print(about["title"], markup=False)
    if about["unvalidated"]:
        console.print(f"Unvalidated: {about['unvalidated']}", markup=False)
    for title in ("fields", "facts"):
        rows = [_chip_row(name, entry) for name, entry in about[title].items()]
        tables.print_table([title, "value", "unit", "range", "kind", "source"], rows)


def knobs(json: Json = False) -> None:
    """Knobs that a study may turn, by section, and the presets that bundle them."""
    from dse.cli import tables
    from search_spaces.catalog import entries
    from search_spaces.knob import SECTIONS
    from search_spaces.presets import presets

    found = [entry for section in SECTIONS for entry in entries(section).values()]
    rows = [
        {
            "section": entry.section,
            "name": entry.name,
            "unit": entry.unit,
            "meaning": entry.meaning,
            "range": list(entry.range) if entry.range else None,
            "default": list(entry.default),
            "workload": entry.workload or "any",
        }
        for entry in found
    ]
    bundles = [
        {"section": p.section, "name": p.name, "knobs": {k: v for k, v in p.knobs.items()}}
        for p in presets().values()
    ]
    if json:
        tables.emit_json({"knobs": rows, "presets": bundles})
        return
    tables.print_table(
        ["section", "knob", "workload", "unit", "legal", "default", "meaning"],
        [
            (
                row["section"],
                row["name"],
                row["workload"],
                row["unit"],
                _range(row["range"]),
                _listed(row["default"]),
                row["meaning"],
            )
            for row in rows
        ],
    )
    tables.print_table(
        ["section", "preset", "knobs"],
        [(b["section"], b["name"], ", ".join(b["knobs"])) for b in bundles],
    )


def metrics(json: Json = False) -> None:
    """Metrics that an objective or a constraint may name."""
    from dataclasses import asdict

    from dse.cli import tables
    from dse.metrics import metrics as known

    if json:
        tables.emit_json([asdict(metric) for metric in known().values()])
        return
    rows = [(m.name, m.workload, m.unit, m.better, m.scope, m.meaning) for m in known().values()]
    tables.print_table(["metric", "workload", "unit", "better", "scope", "meaning"], rows)


def _range(limits: Any) -> str:
    return f"{limits[0]:g} to {limits[1]:g}" if limits else ""


def _listed(values: Any) -> str:
    return ", ".join(map(str, values))


def _chip_row(name: str, entry: dict[str, Any]) -> tuple[Any, ...]:
    low, high = entry["low"], entry["high"]
    band = "" if low is None else f"{low:g} to {high:g}"
    return name, entry["value"], entry["unit"], band, entry["kind"], entry["source"]


def _inline(group: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in group.items())
