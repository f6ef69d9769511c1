"""Classes of prediction: which measured rows say how wrong a prediction may be.

Every kind of record is a class of its own. Where it has too few held-out rows its interval comes
from the nearest class above it that has enough; TPUs and GPUs are never pooled.
"""

from __future__ import annotations

from collections.abc import Mapping

PARENTS: Mapping[str, str] = {
    "matmul": "microbenchmark",
    "matmul_host": "tpu",
    "hbm": "microbenchmark",
    "collective": "microbenchmark",
    "train_dense": "train",
    "train_moe": "train",
    "prefill": "serving",
    "decode": "serving",
    "serve": "serving",
    "microbenchmark": "tpu",
    "train": "tpu",
    "serving": "tpu",
    "gpu_prefill_attention": "gpu_attention",
    "gpu_decode_attention": "gpu_attention",
    "gpu_gemm": "gpu_kernel",
    "gpu_attention": "gpu_kernel",
    "gpu_moe": "gpu_kernel",
    "gpu_collective": "gpu_kernel",
    "gpu_kernel": "gpu",
    "gpu_ttft": "gpu_serving",
    "gpu_tpot": "gpu_serving",
    "gpu_serving": "gpu",
}
"""The class above each class; `tpu` and `gpu` have none."""

NAMES: Mapping[str, str] = {
    "microbenchmark": "microbenchmarks",
    "train": "training steps",
    "train_dense": "dense training steps",
    "train_moe": "MoE training steps",
    "serving": "prefill, decode and serving",
    "prefill": "prefill steps",
    "decode": "decode steps",
    "serve": "serving",
    "tpu": "all TPU rows",
    "gpu": "all GPU rows",
    "gpu_serving": "GPU serving",
    "gpu_ttft": "GPU time to first token",
    "gpu_tpot": "GPU time per output token",
}
"""How a class is called in sentences, where its own name does not read well."""


def lineage(kind: str) -> list[str]:
    """A class and those above it, nearest first."""
    found = [kind]
    while found[-1] in PARENTS:
        found.append(PARENTS[found[-1]])
    return found


def belongs(kind: str, to: str) -> bool:
    """Whether rows of `kind` are rows of the class `to`."""
    return to in lineage(kind)


def called(name: str) -> str:
    """A class in words."""
    return NAMES.get(name, name.replace("gpu_", "GPU ").replace("_", " "))
