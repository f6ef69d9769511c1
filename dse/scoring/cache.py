"""Compilations on disk, so that the next run of a study starts at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def cache_directory() -> Path:
    """Where compiled models are kept: $DSE_CACHE_DIR, else the user's cache directory."""
    chosen = os.environ.get("DSE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tpu-dse"


def enable_compilation_cache() -> None:
    """Let JAX keep its compilations; where the directory cannot be written, compile each time."""
    import jax

    directory = cache_directory() / "jax"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    update: Callable[[str, object], None] = jax.config.update  # untyped in JAX
    update("jax_compilation_cache_dir", str(directory))
    update("jax_persistent_cache_min_compile_time_secs", 0.5)
