"""What to change where a configuration is illegal: the nearest legal value where one is simple."""

from __future__ import annotations

import math

from dse.divisors import multiples_around
from dse.predict.configuration import Configuration
from dse.predict.options import MOST_CHIPS, REMAT
from models.architecture import Attention, LatentAttention, MoE
from models.workload import Training


def hint(code: str, c: Configuration, amount: float) -> str:
    """One sentence on the nearest change that removes violation `code`."""
    d = c.deployment
    groups = round(d.data * d.pipeline * d.request_groups)
    if code == "hbm_overflow":
        return _more_memory(c, amount)
    if code in ("query_heads_split", "kv_heads_split"):
        return _heads(c)
    if code == "batch_too_small":
        option = "--global-batch" if c.phase == "train" else "--batch"
        return f"{option} {groups} or more, or fewer groups of chips"
    if code == "batch_split":
        return _whole_batches(c)
    if code == "expert_degree":
        fewest = min(round(f.experts) for f in c.architecture.feed_forwards if isinstance(f, MoE))
        return f"--expert {fewest} or less"
    if code == "pipeline_degree":
        return f"--pipeline {round(c.architecture.layers)} or less"
    if code == "pod_size":
        return f"a --torus of at most {round(c.chip.ici_max_chips)} chips; slices meet over DCN"
    if code == "mesh_tiling":
        return "a --torus whose sides are products of the degrees, such as powers of two"
    if code == "attention_split":
        return f"an --attention-data that divides {round(d.model_parallel)}"
    if code == "sequence_split":
        return "a --sequence-tokens that --context divides"
    return ""


def _more_memory(c: Configuration, amount: float) -> str:
    """Chips that would have as much memory as is needed, were all of it divided among them."""
    training = c.phase == "train"
    smaller = "" if training else "narrower --weights or --kv"
    if isinstance(c.inputs, Training) and any(getattr(c.inputs, name) for name in REMAT):
        smaller = "a --remat that keeps less"
    times = 2 ** math.ceil(math.log2(1 + amount))
    chips = round(c.deployment.chips * times)
    if chips > MOST_CHIPS:
        return smaller
    spread = "fsdp" if training else "tensor"
    if not training and not _heads_divide(c, round(c.deployment.attention_tensor) * times):
        spread = "expert" if c.moe else "pipeline"  # a larger tensor would split a head
    more = f"{chips} chips or more with a larger --{spread}"
    return f"{more}, or {smaller}" if smaller else more


def _whole_batches(c: Configuration) -> str:
    """The global batches around the stated one that the groups of chips share evenly."""
    assert isinstance(c.inputs, Training)
    d = c.deployment
    parts = round(d.data * d.request_groups * c.inputs.microbatches)
    near = multiples_around(round(c.inputs.global_batch), parts)
    return f"--global-batch {' or '.join(map(str, near))}"


def _heads_divide(c: Configuration, tensor: int) -> bool:
    """Whether all heads divide over a tensor degree."""
    mixers = c.architecture.mixers
    query = [round(m.q_heads) for m in mixers if isinstance(m, Attention)]
    query += [round(m.heads) for m in mixers if isinstance(m, LatentAttention)]
    kv = [round(m.kv_heads) for m in mixers if isinstance(m, Attention)]
    whole = all(k % tensor == 0 or tensor % k == 0 for k in kv)
    return whole and all(q % tensor == 0 for q in query)


def _heads(c: Configuration) -> str:
    """The largest tensor degree at or below the stated one over which all heads divide."""
    most = round(c.deployment.attention_tensor)
    fits = [t for t in range(1, most + 1) if most % t == 0 and _heads_divide(c, t)]
    if not fits:
        return "another --tensor"
    tensor, copies = fits[-1], most // fits[-1]
    return f"--tensor {tensor} with --data {copies}, or --attention-data {copies}"
