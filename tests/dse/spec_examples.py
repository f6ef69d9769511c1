"""A small legal study, and changes to its text, for the tests of `dse.spec`."""

from __future__ import annotations

from pathlib import Path

from dse.spec import StudySpec, read_text

STUDY = """\
name: small
question: does it load
chip:
  base: v6e
  knobs: {include: tpu_memory_system, clock_ghz: [1.4, 1.75 GHz], cmem_mib: off}
model:
  config: llama3__Meta-Llama-3.1-70B
  knobs:
    weight_format: [bf16, fp8]
    head_dim: [released, 64]
    window_share: [0, 0.5]
    window_tokens: [1024, 4096]
  assume: {head_dim: {64: [0.0, 0.02]}}
workload: {prompt_tokens: 4000, output_tokens: 1000}
deployment:
  knobs:
    torus: [4x4, 4x8]
    tensor: [8, 16]
    mesh_order: default
    batch: [16, 64]
  fixed: {pipeline: 2}
  solve:
    knobs: [torus, tensor, batch]
    maximize: tokens_per_s_per_chip
    limits: [tpot_s <= 50 ms]
objectives:
  - maximize: tokens_per_s_per_chip
  - minimize: quality_loss_nats
constraints:
  - die_area_mm2 <= 800
search: {sampler: nsga2, trials: 100, seed: 1, population: 20}
"""

PORTFOLIO = """\
chip: {base: v6e, knobs: {clock_ghz: [1.4, 1.75]}}
portfolio:
  - name: dense
    weight: 3
    model: {config: llama3__Meta-Llama-3.1-8B, knobs: {window_share: [0, 0.5], window_tokens: 1024}}
    workload: {prompt_tokens: 4000, output_tokens: 1000}
    deployment: {knobs: {tensor: [1, 2], layout: [1d, 2d]}, fixed: {torus: 2x2}}
  - name: moe
    model: {config: qwen3__Qwen3-30B-A3B, knobs: {experts_scale: [0.5, 1]}}
    workload: {prompt_tokens: 2 ktokens, output_tokens: 100, expert_imbalance: 1.5}
    deployment:
      knobs: {expert: [1, 2, 4], batch: [1, 8]}
      solve: {knobs: all, minimize: tpot_s}
objectives:
  - maximize: mean(tokens_per_s_per_chip)
  - minimize: worst_regret(tpot_s)
constraints: [quality_loss_nats <= 0.1]
search: {trials: 10}
"""

PATH = Path("studies/small.yaml")


def edited(old: str, new: str, text: str = STUDY) -> str:
    """`text` with `old`, which must occur once, replaced."""
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


def read(text: str = STUDY) -> StudySpec:
    """The study as if read from PATH."""
    return read_text(text, PATH)


def line_of(part: str, text: str) -> int:
    """Line (from 1) of the only line that contains `part`."""
    found = [i for i, line in enumerate(text.splitlines(), 1) if part in line]
    assert len(found) == 1, (part, found)
    return found[0]
