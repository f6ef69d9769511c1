"""Hugging Face config.json files to `models.architecture.Architecture`.

    from models.huggingface import load
    load("Meta-Llama-3.1-70B")          # a catalog model
    load("some/folder/config.json")     # a file of your own

Only the language model is read: vision and audio towers, projectors and draft (multi-token
prediction) layers are left out. Everything that a modelling code fixes and a config.json does not
state is registered per model_type in `families.yaml`; what is not registered is an error.
"""

from __future__ import annotations

from pathlib import Path

from models.architecture import Architecture
from models.huggingface.catalog import catalog_names, read_catalog, read_file, resolve, sources
from models.huggingface.errors import ModelConfigError, UnknownModelError
from models.huggingface.parsing import parse

__all__ = ["ModelConfigError", "UnknownModelError", "catalog_names", "load", "parse", "resolve"]


def load(name_or_path: str | Path) -> Architecture:
    """The architecture of a catalog model (full name, the part after `__`, or an alias), or of a
    config.json given by path (the file, or the folder that holds it).

    Raises UnknownModelError for a name that fits no model or several, ModelConfigError for a file
    that cannot be mapped.
    """
    text = str(name_or_path)
    path = Path(text)
    if path.is_dir() and (path / "config.json").is_file():
        path = path / "config.json"
    if isinstance(name_or_path, Path) or path.is_file() or path.suffix == ".json":
        name = path.parent.name if path.name == "config.json" and path.parent.name else path.stem
        return parse(read_file(path), name, str(path), "file given by path")
    name = resolve(text)
    row = sources()[name]
    origin = f"{row['provenance']} ({row['repo']})"
    return parse(read_catalog(name), name, f"catalog/{name}.json", origin)
