"""The host time of a serving stack on top of a prediction, as `dse validate` adds it."""

from __future__ import annotations

from collections.abc import Mapping

from dse.errors import UserError
from dse.predict.configuration import Configuration

WITHOUT = ("joules_per_token",)
"""Headlines that a busy host changes in a way that is not modelled."""


def check(stack: str, phase: str) -> None:
    """Raises UserError for a stack without fitted host time, or a phase that no stack serves."""
    from dse.validation.hosts import pairs
    from search_spaces.nearest import suggestion

    if phase == "train":
        raise UserError("--stack is host time of serving software; drop it for --phase train")
    if stack not in pairs():
        raise UserError(
            f"--stack: no host time was fitted for {stack!r}; {suggestion(stack, tuple(pairs()))}"
        )


def add(stack: str, c: Configuration, metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics with the stack's host time in every step; those of WITHOUT are left away."""
    import jax

    from dse.validation.equations import HOST_SEQUENCE_S, HOST_STEP_S, cycle
    from dse.validation.hosts import pairs
    from dse.validation.model_cases import stack_defaults
    from hwmodel.theta import central

    pair = pairs()[stack]
    theta = {**central(), HOST_STEP_S: pair["step_s"], HOST_SEQUENCE_S: pair["sequence_s"]}
    parts = {"chip": c.chip, "deployment": c.deployment, "workload": c.inputs}
    mixed = bool(stack_defaults().get(stack.split()[0], {}).get("mixed_batches"))
    # A prefill by itself has no decode step that its chunks could ride on.
    with jax.enable_x64(True):
        found = cycle(parts, metrics, mixed and c.phase == "serve", theta)
    prompt_s, _, decode_s, cycle_s = (float(value) for value in found)
    output = float(c.inputs.output_tokens)  # type: ignore[union-attr]
    tokens_per_s = c.deployment.batch * output / cycle_s
    slower = tokens_per_s / metrics["tokens_per_s"]
    stretched = metrics["decode_step_s"] / decode_s
    changed = {
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_chip": metrics["tokens_per_s_per_chip"] * slower,
        "usd_per_mtoken": metrics["usd_per_mtoken"] / slower,
        "ttft_s": prompt_s,
        "tpot_s": (cycle_s - prompt_s) / output,
        "request_latency_s": cycle_s,
        "prefill_step_s": metrics["prefill_step_s"] + pair["step_s"] + pair["sequence_s"],
        "decode_step_s": decode_s,
        "decode_tokens_per_s_per_chip": metrics["decode_tokens_per_s_per_chip"] * stretched,
        "mbu_decode": metrics["mbu_decode"] * stretched,
    }
    chunk = metrics["prefill_step_s"] / changed["prefill_step_s"]
    for name in ("prefill_tokens_per_s_per_chip", "mfu_prefill"):
        changed[name] = metrics[name] * chunk
    return {k: v for k, v in {**metrics, **changed}.items() if k not in WITHOUT}
