"""Names that the options of `dse predict` take. Data only: its help must not import JAX."""

from __future__ import annotations

from collections.abc import Mapping

from hwmodel.ops import BF16, FP8, INT4, INT8

PHASES = ("train", "prefill", "decode", "serve")
DEGREES = ("data", "fsdp", "tensor", "expert", "pipeline", "context")
BITS = {"fp32": 32.0, "bf16": 16.0, "int8": 8.0, "fp8": 8.0, "int4": 4.0, "fp4": 4.0}
"""Formats in which numbers can be stored."""
COMPUTE = {"bf16": BF16, "int8": INT8, "fp8": FP8, "int4": INT4, "fp4": INT4}
"""Formats that matrix units multiply."""
REMAT = ("save_qkv", "save_context", "save_out_proj", "save_mlp_up", "save_mlp_down")
PROMPT_TOKENS, OUTPUT_TOKENS = 1024, 128
"""Of a request whose lengths are not stated."""
MOST_CHIPS = 1_000_000
"""More than any deployment; bounds the search for slices."""

_SERVING = PHASES[1:]
OF_PHASES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "prompt_tokens": (_SERVING, "--sequence-tokens"),
    "output_tokens": (_SERVING, ""),
    "batch": (_SERVING, "--global-batch"),
    "prefill_chunk": (_SERVING, ""),
    "kv": (_SERVING, ""),
    "sequence_tokens": (("train",), "--prompt-tokens"),
    "global_batch": (("train",), "--batch"),
    "microbatches": (("train",), ""),
    "remat": (("train",), ""),
    "offload": (("train",), ""),
}
"""Options that mean nothing in some phases: where they do, and what to say in the others."""


def any_of(names: tuple[str, ...] | Mapping[str, object]) -> str:
    """The names as prose: a, b or c."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
