"""Design-space exploration of TPUs and the models that run on them.

import dse

results = dse.run("studies/llama31-70b-serving.yaml")
results.front()      # pandas DataFrame: the Pareto front
results.explain(42)  # operator by operator: what binds trial 42
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dse.results import Results as Results
    from dse.results import open_results as open_results
    from dse.runner import run as run

_PUBLIC = {
    "run": "dse.runner",
    "Results": "dse.results",
    "open_results": "dse.results",
    "UserError": "dse.errors",
}

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """Import the public names when they are used: the command line must start quickly."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
