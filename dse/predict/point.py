"""The equations of a configuration's phase."""

from __future__ import annotations

from typing import Any

from dse.predict.configuration import Configuration


def point(c: Configuration, chip: Any, constants: Any) -> tuple[Any, dict[str, Any]]:
    """The point of a phase and its steps by name."""
    parts = (chip, c.architecture, c.variant, c.deployment, c.inputs, constants, float("nan"))
    if c.phase == "train":
        from models.training import evaluate_training

        trained = evaluate_training(*parts)  # type: ignore[arg-type]
        return trained, {"step": trained.step}
    from models.performance import evaluate

    found = evaluate(*parts)  # type: ignore[arg-type]
    return found, {"prefill": found.prefill, "decode": found.decode}
