"""One builder per layer plan: which mixers and feed-forward blocks stand in which layers.

Most model_types share `decoder`; the others differ in more than facts. `BUILDERS` is the table that
`families.yaml` names.
"""

from __future__ import annotations

from collections.abc import Callable

from models.huggingface.builders.gemma import gemma3n, gemma4
from models.huggingface.builders.linear import kimi_linear, lightning, linear_hybrid
from models.huggingface.builders.mamba import falcon_h1, granite_hybrid, mamba2_only, zamba2
from models.huggingface.builders.nemotron import nemotron_h
from models.huggingface.builders.recurrences import recurrent_gemma, xlstm
from models.huggingface.builders.stacks import (
    chunked,
    compressed,
    decoder,
    falcon,
    many_heads,
    pruned,
    sparse_latent,
    two_widths,
)
from models.huggingface.frame import Frame, Parts

BUILDERS: dict[str, Callable[[Frame], Parts]] = {
    b.__name__: b
    for b in (
        decoder,
        chunked,
        sparse_latent,
        two_widths,
        many_heads,
        falcon,
        compressed,
        pruned,
        gemma4,
        gemma3n,
        linear_hybrid,
        kimi_linear,
        lightning,
        nemotron_h,
        mamba2_only,
        falcon_h1,
        granite_hybrid,
        zamba2,
        xlstm,
        recurrent_gemma,
    )
}
