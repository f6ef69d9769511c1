"""What to change where a configuration is illegal: the nearest legal value where one is simple."""

from __future__ import annotations

import math

from dse.predict.configuration import Configuration
from models.architecture import Attention, LatentAttention, MoE


def hint(code: str, c: Configuration, amount: float) -> str:
    """One sentence on the nearest change that removes violation `code`."""
    d = c.deployment
    groups = round(d.data * d.pipeline * d.request_groups)
    if code == "hbm_overflow":
        more = 2 ** math.ceil(math.log2(d.chips * (1 + amount)))
        where = "a smaller --global-batch per chip" if c.phase == "train" else "a smaller --batch"
        return f"{more} chips with a larger --{_spread(c)}, narrower formats, or {where}"
    if code in ("query_heads_split", "kv_heads_split"):
        return _heads(c)
    if code == "batch_too_small":
        option = "--global-batch" if c.phase == "train" else "--batch"
        return f"{option} {groups} or more, or fewer groups of chips"
    if code == "batch_split":
        return "a --global-batch that is a multiple of the groups of chips times --microbatches"
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


def _spread(c: Configuration) -> str:
    return "fsdp" if c.phase == "train" else "tensor"


def _heads(c: Configuration) -> str:
    """The largest tensor degree at or below the stated one over which all heads divide."""
    mixers = c.architecture.mixers
    query = [round(m.q_heads) for m in mixers if isinstance(m, Attention)]
    query += [round(m.heads) for m in mixers if isinstance(m, LatentAttention)]
    kv = [round(m.kv_heads) for m in mixers if isinstance(m, Attention)]
    most = round(c.deployment.attention_tensor)
    fits = [
        t
        for t in range(1, most + 1)
        if all(q % t == 0 for q in query) and all(k % t == 0 or t % k == 0 for k in kv)
    ]
    whole = [t for t in fits if most % t == 0]
    if not whole:
        return "another --tensor"
    tensor, copies = whole[-1], most // whole[-1]
    return f"--tensor {tensor} with --data {copies}, or --attention-data {copies}"
