"""The operator vocabulary: what any workload is lowered to before it is timed on a chip.

Every operator is one chip's share of the work. `count` is how often it runs in one step (layers of
a pipeline stage, usually). All numbers may be traced JAX scalars; the list of operators is static.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Number = Any

BF16, INT8, FP8, INT4 = 0.0, 1.0, 2.0, 3.0
"""Codes of `Numerics.compute_format`: the matrix-unit format that operands are multiplied in."""


@dataclass(frozen=True, kw_only=True)
class Numerics:
    """Storage widths and matrix-unit format of a matmul.

    `nm_n`:`nm_m` is the N:M sparsity of the stationary operand (1:1 = dense).
    """

    weight_bits: Number = 16.0
    activation_bits: Number = 16.0
    compute_format: Number = BF16
    nm_n: Number = 1.0
    nm_m: Number = 1.0


DENSE_BF16 = Numerics()

Makes = Literal["", "qkv", "context", "out_proj", "mlp_up", "mlp_down"]
"""Which tensor of a layer an operator makes: what training keeps, or computes again."""


@dataclass(frozen=True, kw_only=True)
class Matmul:
    """`groups` independent products [m, k] @ [k, n] with a weight operand read from HBM.

    `vpu_ops` is the vector work fused with it (norms, rotary, activation, residual).
    `weight_reads` is 0 where the second operand is made on chip (recurrent state), else 1.
    `resident_groups` is how many groups' weights live in HBM where not all are read every step
    (experts); negative: the same as `groups`. `extra_hbm_bytes` is traffic of one execution beside
    its operands.
    """

    name: str
    count: Number
    m: Number
    k: Number
    n: Number
    groups: Number = 1.0
    numerics: Numerics = DENSE_BF16
    vpu_ops: Number = 0.0
    weight_reads: float = 1.0
    resident_groups: Number = -1.0
    ragged: Number = 0.0
    extra_hbm_bytes: Number = 0.0
    makes: Makes = ""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Fused softmax attention (flash form): scores never leave the chip.

    `groups` = sequences × KV heads of this chip. Each group multiplies `rows` query rows (query
    heads that share the KV head × query tokens) with `length` cached entries of width `qk_width`,
    and the probabilities with values of width `v_width`. `kv_bytes` is what HBM must deliver per
    group once; `kv_elements_converted` counts cached elements that the VPU must widen per group.
    """

    name: str
    count: Number
    groups: Number
    rows: Number
    length: Number
    qk_width: Number
    v_width: Number
    kv_bytes: Number
    kv_elements_converted: Number = 0.0
    softmax: Number = 1.0
    """1 for attention, 0 for a score pass without softmax and values (a sparse-attention
    indexer)."""
    masked_length: Number = 0.0
    """Entries beyond `length` per query whose scores a blocked kernel computes for the mask to
    hide; they cost time and are not work."""
    paged: Number = 0.0
    """1 where keys and values come from the scattered pages of a cache, 0 where they are whole."""
    extra_hbm_bytes: Number = 0.0
    """Traffic of one execution, all groups, beside reading the cache: new entries are written."""
    query_tokens: Number = 0.0
    """New tokens per sequence among the `rows`; 0: one decoded token. Only thread blocks (GPU) run
    the two differently."""
    window: Number = 0.0
    """Tokens that a query sees at most; 0: all."""
    makes: Makes = ""


@dataclass(frozen=True, kw_only=True)
class AttentionBackward(Attention):
    """Gradient of fused softmax attention: five products against the forward pass's two.

    Scores and probability gradients are computed again from queries, keys and values (contractions
    over `qk_width` and `v_width`); three products make the gradients of V, K and Q.
    """


@dataclass(frozen=True, kw_only=True)
class Vector:
    """Elementwise or reduction work on the VPU with its own HBM traffic."""

    name: str
    count: Number
    vpu_ops: Number
    hbm_bytes: Number = 0.0
    in_layers: bool = False
    """True where one row holds passes over the tokens that belong to every layer of the stage."""
    makes: Makes = ""


@dataclass(frozen=True, kw_only=True)
class HostTransfer:
    """Bytes of one execution over the link to host memory, one way. Any work of the step may hide
    it."""

    name: str
    count: Number
    payload_bytes: Number


CollectiveKind = Literal["all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute"]


@dataclass(frozen=True, kw_only=True)
class Collective:
    """A collective over one logical mesh axis (a key of `Network.axes`).

    `payload_bytes`: all_gather / reduce_scatter / all_reduce, the full (gathered) array per group;
    all_to_all, the bytes each chip sends in all; permute, the bytes each chip sends to its
    neighbour. `hides` says what may hide it: "prefetch" (weights known in advance, any work of the
    step), "gradient" (sums of gradients, any work that is left after them), "matmul" (partly, by
    the neighbouring matmuls of the same layer) or "nothing".
    """

    name: str
    count: Number
    kind: CollectiveKind
    axis: str
    payload_bytes: Number
    hides: Literal["prefetch", "gradient", "matmul", "nothing"] = "matmul"
    makes: Makes = ""


Operator = Matmul | Attention | Vector | Collective | HostTransfer
