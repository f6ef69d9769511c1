"""The catalog: config.json files of published models, their names, sources and completions.

`models/catalog/` holds the files as they were found, `SOURCES.csv` where each came from and how
far it can be trusted, `supplements.yaml` the fields that a file lacks (each with a source), and
`aliases.yaml` other names in use.
"""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from models.huggingface.errors import ModelConfigError, UnknownModelError, nearest
from models.huggingface.family import families


def _folder() -> Traversable:
    return resources.files("models") / "catalog"


@functools.lru_cache(maxsize=1)
def catalog_names() -> tuple[str, ...]:
    """The full names of all catalog models, sorted: `family__Model-Name`."""
    return tuple(sorted(p.name[:-5] for p in _folder().iterdir() if p.name.endswith(".json")))


@functools.lru_cache(maxsize=1)
def sources() -> dict[str, dict[str, str]]:
    """The row of SOURCES.csv for each catalog name."""
    text = (_folder() / "SOURCES.csv").read_text("utf-8")
    return {row["file"].removesuffix(".json"): row for row in csv.DictReader(io.StringIO(text))}


def read_catalog(name: str) -> dict[str, Any]:
    """The config.json of one catalog model, as found."""
    config: dict[str, Any] = json.loads((_folder() / f"{name}.json").read_text("utf-8"))
    return config


def resolve(name: str) -> str:
    """The full catalog name for a full name, the part after `__`, or an alias; case does not
    matter.

    Raises UnknownModelError, listing the nearest names, where none or more than one model fits.
    """
    found = _names().get(name.casefold(), ())
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownModelError(f"model '{name}' is ambiguous: {', '.join(found)}")
    shown = {full: full.partition("__")[2] for full in catalog_names()}
    close = nearest(name.rpartition("/")[2], [*shown.values(), *aliases()])
    hint = f"; nearest: {', '.join(close)}" if close else ""
    raise UnknownModelError(
        f"model '{name}' is neither in the catalog nor a file{hint} "
        "(`dse models` lists all, or give the path of a config.json)"
    )


@functools.lru_cache(maxsize=1)
def aliases() -> dict[str, str]:
    """Other names in use, each for one full catalog name."""
    entries = yaml.safe_load((_folder() / "aliases.yaml").read_text("utf-8"))["aliases"]
    return {alias: entry["model"] for alias, entry in entries.items()}


@functools.lru_cache(maxsize=1)
def _names() -> dict[str, tuple[str, ...]]:
    """Case-folded name to the full names it may mean."""
    table: dict[str, dict[str, None]] = {}
    for full in catalog_names():
        for name in (full, full.partition("__")[2]):
            table.setdefault(name.casefold(), {})[full] = None
    for alias, full in aliases().items():
        table.setdefault(alias.casefold(), {})[full] = None
    return {name: tuple(found) for name, found in table.items()}


@functools.lru_cache(maxsize=1)
def supplements() -> dict[str, dict[str, Any]]:
    """Fields that a catalog file lacks: full name to {set: fields, kind: ..., source: text}."""
    document = yaml.safe_load((_folder() / "supplements.yaml").read_text("utf-8"))
    entries: dict[str, dict[str, Any]] = {}
    for group in document["groups"]:
        for name, fields in group["files"].items():
            entries[name] = {
                "set": {**group["set"], **(fields or {})},
                "kind": group["kind"],
                "source": group["source"],
            }
    return entries


@functools.lru_cache(maxsize=1)
def _incomplete() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    return {name: (read_catalog(name), entry) for name, entry in supplements().items()}


def complete(config: Mapping[str, Any], name: str) -> tuple[Mapping[str, Any], str]:
    """`config` with the fields that `supplements.yaml` adds to exactly this file, and their source.

    A file is recognised by its content, so that a copy under another name reads the same; but where
    only the released width is added, the name must be the catalog's too, because an FP8 or NVFP4
    release may differ from its original in nothing else. Any other config comes back as it is.
    """
    for listed, (original, entry) in _incomplete().items():
        if original != config or (set(entry["set"]) == {"quantization_config"} and name != listed):
            continue
        completed = {**config, **entry["set"]}
        _check_litgpt(config, completed)
        return completed, f"{', '.join(entry['set'])} ({entry['kind']}) from: {entry['source']}"
    return config, ""


def _check_litgpt(config: Mapping[str, Any], completed: Mapping[str, Any]) -> None:
    """Hold what a litgpt-derived file does say against the facts of the family it is read as."""
    if config.get("model_type") != "litgpt-derived":
        return
    family = families()[completed["model_type"]]
    norms = {"RMSNorm": ("rms",), "LayerNorm": ("layer", "layer_no_bias", "none")}
    agree = (
        family.gated == (config["architecture_class"] != "GptNeoxMLP")
        and family.norm in norms[config["norm"]]
        and bool(family.parallel_block) == config["parallel_residual"]
    )
    if not agree:
        raise ValueError(f"supplements.yaml: {completed['model_type']} does not fit {dict(config)}")


def read_file(path: Path) -> dict[str, Any]:
    """A config.json given by the user.

    Raises ModelConfigError for a file that cannot be read or is no JSON object.
    """
    try:
        config = json.loads(path.read_text("utf-8"))
    except OSError as problem:
        raise ModelConfigError(
            str(path),
            "(whole file)",
            f"cannot be read ({problem.strerror})",
            "give the path of a config.json",
        ) from problem
    except json.JSONDecodeError as problem:
        raise ModelConfigError(
            str(path), f"(line {problem.lineno})", f"is no JSON: {problem.msg}", "correct the file"
        ) from problem
    except UnicodeDecodeError as problem:
        raise ModelConfigError(
            str(path), "(whole file)", "is no UTF-8 text", "give the path of a config.json"
        ) from problem
    if not isinstance(config, dict):
        raise ModelConfigError(str(path), "(whole file)", "is no JSON object", "give a config.json")
    return config
