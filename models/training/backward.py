"""Forward operators to those of a whole microbatch: forward, recomputation, backward.

A matmul Y = X W has two gradients, dX = dY Wᵀ and dW = Xᵀ dY, each as large as itself; attention
has five products against two. What the backward pass needs and the forward pass did not keep is
computed again, tensor by tensor: a kept tensor saves exactly the operators that make it. The last
matmul of a feed-forward block is never computed again, since nothing reads its output there.
Elementwise work always is, unless the matmul it is fused with is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from hwmodel.literal import is_one, is_zero
from hwmodel.ops import (
    DENSE_BF16,
    Attention,
    AttentionBackward,
    Collective,
    Matmul,
    Numerics,
    Operator,
    Vector,
)
from hwmodel.rates import stored_bytes_per_weight
from hwmodel.theta import Theta
from models.deployment import Deployment
from models.lowering.model import ELEMENTWISE, EMBEDDING, HEAD
from models.training.weights import weight_elements, weight_shards
from models.workload import Training

Number = Any

TRANSPOSED: dict[str, Any] = {"all_gather": "reduce_scatter", "reduce_scatter": "all_gather"}


@dataclass(frozen=True)
class Passes:
    """Operators of all microbatches of one stage: the forward pass, and what training adds."""

    forward: tuple[Operator, ...]
    backward: tuple[Operator, ...]


def passes(ops: Sequence[Operator], d: Deployment, t: Training, theta: Theta) -> Passes:
    """`ops`: the forward operators of one microbatch of one stage on one chip."""
    lowering = _Lowering(d, t, theta)
    forward: list[Operator] = []
    backward: list[Operator] = []
    for op in ops:
        if isinstance(op, Matmul):
            own, more = lowering.matmul(op)
        elif isinstance(op, Attention):
            own, more = lowering.attention(op)
        elif isinstance(op, Vector):
            own, more = lowering.vector(op)
        else:
            assert isinstance(op, Collective)
            own, more = lowering.collective(op)
        forward.append(own)
        backward += more
    return Passes(tuple(forward), tuple(backward))


class _Lowering:
    def __init__(self, d: Deployment, t: Training, theta: Theta) -> None:
        self.d, self.t, self.theta = d, t, theta
        self.again: dict[str, Number] = {
            "": 0.0,
            "qkv": 1 - t.save_qkv,
            "context": 1 - t.save_context,
            "out_proj": 1 - t.save_out_proj,
            "mlp_up": 1 - t.save_mlp_up,
            "mlp_down": 0.0,
        }
        self._gradient_numerics: dict[int, tuple[Numerics, Numerics, Numerics]] = {}

    def matmul(self, op: Matmul) -> tuple[Operator, list[Operator]]:
        """Forward product; recomputation, input gradient and weight gradient."""
        t, theta = self.t, self.theta
        count = op.count * t.microbatches
        again = self.again[op.makes]
        _, numerics, of_weights = self._numerics(op.numerics)
        rows = op.m * op.groups
        inputs, outputs, read = rows * op.k, rows * op.n, op.k * op.n * op.groups
        fused, traffic = op.vpu_ops, self._gathered_bytes(op)
        loss_ops: Number = 0.0
        loss_bytes: Number = 0.0
        if op.name == HEAD:  # the loss reads the logits, its gradient replaces them
            loss_ops, loss_bytes = outputs * theta["loss_ops_per_logit"] / 2, outputs * 2
            fused = 0.0
        quantize = self._quantize_ops(op.numerics)
        forward = dataclasses.replace(
            op,
            count=count,
            vpu_ops=fused + loss_ops + quantize * (inputs + read),
            extra_hbm_bytes=traffic + loss_bytes,
        )
        backward: list[Operator] = []
        if not is_zero(again):
            backward.append(
                dataclasses.replace(
                    op,
                    name=f"{op.name} again",
                    count=count * again,
                    vpu_ops=fused + quantize * (inputs + read),
                )
            )
        elementwise = fused * (theta["backward_vector_ops_ratio"] + 1 - again)
        backward.append(
            dataclasses.replace(
                op,
                name=f"{op.name} input gradient",
                count=count,
                k=op.n,
                n=op.k,
                numerics=numerics,
                vpu_ops=elementwise + loss_ops + quantize * (outputs + read),
                # The elementwise gradients before this product read its saved input.
                extra_hbm_bytes=traffic + 2 * loss_bytes + inputs * 2,
            )
        )
        backward.append(
            dataclasses.replace(
                op,
                name=f"{op.name} weight gradient",
                count=count,
                m=op.k,
                k=op.m,
                numerics=of_weights,
                vpu_ops=quantize * (inputs + outputs),
                resident_groups=-1.0,
                extra_hbm_bytes=self._gradient_bytes(op),
            )
        )
        return forward, backward

    def _numerics(self, forward: Numerics) -> tuple[Numerics, Numerics, Numerics]:
        """Formats of the three products. Sparse weights are sparse along the contraction of the
        forward product only; the weight gradient reads activations where others read weights."""
        if forward is DENSE_BF16:
            return forward, forward, forward
        if id(forward) not in self._gradient_numerics:
            dense = dataclasses.replace(forward, nm_n=1.0, nm_m=1.0)
            activations = dataclasses.replace(dense, weight_bits=16.0)
            self._gradient_numerics[id(forward)] = (forward, dense, activations)
        return self._gradient_numerics[id(forward)]

    def _quantize_ops(self, numerics: Numerics) -> Number:
        """Vector operations per operand element of a product in a narrow format."""
        fmt = numerics.compute_format
        if is_zero(fmt):
            return 0.0
        return jnp.where(fmt > 0, self.theta["quantize_ops_per_element"], 0.0)

    def _gathered_bytes(self, op: Matmul) -> Number:
        """HBM writes of one layer's gathered weights."""
        shards = weight_shards(self.d, op)
        if is_zero(op.weight_reads) or is_one(shards):
            return 0.0
        gathered = weight_elements(op) * stored_bytes_per_weight(op.numerics)
        return jnp.where(shards > 1, gathered, 0.0)

    def _gradient_bytes(self, op: Matmul) -> Number:
        """HBM traffic of one layer's weight gradient beside the product's own 16-bit output: the
        wider write, the read that sums and scatters it, and adding the shard to earlier
        microbatches."""
        if is_zero(op.weight_reads):
            return 0.0
        width = self.t.gradient_bits / 8
        elements = weight_elements(op)
        shards = weight_shards(self.d, op)
        scattered: Number = 0.0
        if not is_one(shards):
            scattered = jnp.where(shards > 1, elements * width, 0.0)
        added = jnp.where(self.t.microbatches > 1, 2 * width * elements / shards, 0.0)
        return elements * jnp.maximum(width - 2, 0.0) + scattered + added

    def attention(self, op: Attention) -> tuple[Operator, list[Operator]]:
        """Flash attention and its gradient, queries, outputs and their gradients through HBM."""
        count = op.count * self.t.microbatches
        queries = op.groups * op.rows * (op.qk_width + op.softmax * op.v_width) * 2
        forward = dataclasses.replace(op, count=count, extra_hbm_bytes=queries)
        name = f"{op.name} gradient"
        if is_zero(op.softmax):  # an indexer's scores: two products of their size
            return forward, [dataclasses.replace(forward, name=name, count=2 * count)]
        backward: list[Operator] = []
        again = self.again[op.makes]
        if not is_zero(again):
            backward.append(
                dataclasses.replace(forward, name=f"{op.name} again", count=count * again)
            )
        tokens = self.t.sequence_tokens
        keys = op.groups * tokens * (op.qk_width + op.v_width) * 2
        fields = {f.name: getattr(op, f.name) for f in dataclasses.fields(op)}
        fields |= {"name": name, "count": count, "extra_hbm_bytes": 2 * queries + keys}
        return forward, [*backward, AttentionBackward(**fields)]

    def vector(self, op: Vector) -> tuple[Operator, list[Operator]]:
        """Lookups, small weights and the order of expert tokens: as much again backward, and the
        gradients of the embedding added up."""
        forward = dataclasses.replace(op, count=op.count * self.t.microbatches)
        added: Number = 0.0
        if op.name == ELEMENTWISE:  # done again, then its gradients
            added = op.hbm_bytes * self.theta["backward_vector_ops_ratio"]
        if op.name == EMBEDDING:  # a row is read, added to and written
            added = op.hbm_bytes * self.t.gradient_bits / 8
        name, hbm_bytes = f"{op.name} gradient", op.hbm_bytes + added
        backward: list[Operator] = [dataclasses.replace(forward, name=name, hbm_bytes=hbm_bytes)]
        again = self.again[op.makes] / 2  # tokens are dispatched again, results not combined
        if not is_zero(again):
            count = forward.count * again
            backward.insert(0, dataclasses.replace(forward, name=f"{op.name} again", count=count))
        return forward, backward

    def collective(self, op: Collective) -> tuple[Operator, list[Operator]]:
        """The transposed collective in the backward pass, of as many bytes; what makes a tensor
        that is computed again runs again too."""
        count = op.count * self.t.microbatches
        forward = dataclasses.replace(op, count=count)
        if op.makes == "context":  # keys and values are gathered again, their gradients summed
            name = f"{op.name} and gradient"
            return forward, [dataclasses.replace(forward, name=name, kind="all_reduce")]
        again = self.again[op.makes]
        if op.kind == "all_to_all":
            again = again / 2  # tokens go out again, the results do not come back
        backward: list[Operator] = []
        if not is_zero(again):
            backward.append(dataclasses.replace(op, name=f"{op.name} again", count=count * again))
        kind = TRANSPOSED.get(op.kind, op.kind)
        backward.append(dataclasses.replace(forward, name=f"{op.name} gradient", kind=kind))
        return forward, backward
