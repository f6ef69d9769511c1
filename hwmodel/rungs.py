"""How far the tile rung lies from the analytical one, as measured (`data/rungs_apart.yaml`)."""

from __future__ import annotations

import functools
from importlib import resources


def apart(name: str, *, moe: bool) -> float:
    """The 80 % quantile of |log(tile / analytical)| of a class of prediction.

    name: prefill, decode or serve. moe: for models with routed experts. Raises KeyError for a class
    that the tile rung does not predict.
    """
    return _measured()["moe" if moe else "dense"][name]


@functools.cache
def _measured() -> dict[str, dict[str, float]]:
    import yaml

    path = resources.files("hwmodel").joinpath("data", "rungs_apart.yaml")
    return {
        models: {name: float(value) for name, value in row.items() if name != "source"}
        for models, row in yaml.safe_load(path.read_text()).items()
    }
