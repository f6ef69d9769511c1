"""Mixers with constant state, one layer each, from the fields of a config.json."""

from __future__ import annotations

from models.architecture import Recurrent
from models.huggingface.frame import Frame

_DTYPE_BITS = {"float32": 32, "bfloat16": 16, "float16": 16}


def mamba2(
    f: Frame,
    *,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    kernel: int,
    conv_bias: bool,
    linear_bias: bool,
    gated_norm: bool = True,
) -> Recurrent:
    """Mamba-2: one input projection makes gate, x, B, C and the step; state head_dim × state."""
    inner = heads * head_dim
    conv = inner + 2 * groups * state
    in_width = inner + conv + heads
    extra = 3 * heads  # dt_bias, A_log, D
    extra += conv if conv_bias else 0
    extra += in_width + f.hidden if linear_bias else 0
    extra += inner if gated_norm else 0
    return Recurrent(
        layers=1,
        in_width=in_width,
        conv_channels=conv,
        conv_kernel=kernel,
        heads=heads,
        key_dim=state,
        value_dim=head_dim,
        out_width=inner,
        state_bits=_state_bits(f),
        chunk=_chunk(f),
        extra_parameters=extra,
    )


def gated_delta(f: Frame) -> Recurrent:
    """Gated delta rule (Qwen3-Next, Qwen3.5): fewer key heads than value heads."""
    r = f.r
    key_dim, value_dim = r.integer("linear_key_head_dim"), r.integer("linear_value_head_dim")
    heads = r.integer("linear_num_value_heads")
    keys, values = r.integer("linear_num_key_heads") * key_dim, heads * value_dim
    return Recurrent(
        layers=1,
        in_width=2 * keys + 2 * values + 2 * heads,
        conv_channels=2 * keys + values,
        conv_kernel=r.integer("linear_conv_kernel_dim"),
        heads=heads,
        key_dim=key_dim,
        value_dim=value_dim,
        out_width=values,
        state_bits=_state_bits(f),
        chunk=_chunk(f),
        extra_parameters=2 * heads + value_dim,  # dt_bias, A_log, norm
    )


def kimi_delta(f: Frame, *, heads: int, head_dim: int, kernel: int) -> Recurrent:
    """Kimi Delta Attention: gated delta rule with a low-rank decay per channel."""
    width = heads * head_dim
    return Recurrent(
        layers=1,
        in_width=3 * width + heads + 2 * head_dim,  # q, k, v, beta, and the two low-rank downs
        conv_channels=3 * width,
        conv_kernel=kernel,
        heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        out_width=width,
        state_bits=_state_bits(f),
        chunk=_chunk(f),
        # the two low-rank ups, dt_bias, A_log, norm
        extra_parameters=2 * head_dim * width + width + heads + head_dim,
    )


def lightning(f: Frame) -> Recurrent:
    """Lightning attention (MiniMax-01, M1): linear attention with a fixed decay and an output
    gate.
    """
    r = f.r
    heads, head_dim = r.integer("num_attention_heads"), r.integer("head_dim")
    width = heads * head_dim
    return Recurrent(
        layers=1,
        in_width=4 * width,
        conv_channels=0,
        conv_kernel=0,
        heads=heads,
        key_dim=head_dim,
        value_dim=head_dim,
        out_width=width,
        chunk=_chunk(f),
        extra_parameters=width,  # norm before the output projection
    )


def rg_lru(f: Frame, *, heads: int) -> Recurrent:
    """RG-LRU block (Griffin, RecurrentGemma): a diagonal recurrence with block-diagonal gates."""
    r = f.r
    width = r.integer("lru_width", default=f.hidden)
    block = f.heads_divide("lru_width", width, heads)
    biases = 2 * width + f.hidden + width  # two inputs, output, convolution
    gates = 2 * (heads * block * block + width) + width  # input and recurrence gate, decay
    return Recurrent(
        layers=1,
        in_width=2 * width,
        conv_channels=width,
        conv_kernel=r.integer("conv1d_width"),
        heads=heads,
        key_dim=1,
        value_dim=block,
        out_width=width,
        chunk=_chunk(f),
        extra_parameters=biases + gates,
    )


def mlstm(f: Frame) -> Recurrent:
    """mLSTM (xLSTM-7B): a matrix memory with exponential input and forget gates per head."""
    r = f.r
    heads = r.integer("num_heads")
    keys = int(f.hidden * r.number("qk_dim_factor"))
    values = int(f.hidden * r.number("v_dim_factor"))
    r.expect("use_bias", False)
    return Recurrent(
        layers=1,
        in_width=2 * keys + 2 * values + 2 * heads,
        conv_channels=0,
        conv_kernel=0,
        heads=heads,
        key_dim=f.heads_divide("qk_dim_factor", keys, heads),
        value_dim=f.heads_divide("v_dim_factor", values, heads),
        out_width=values,
        state_bits=_bits(f, "inference_state_dtype"),
        chunk=_chunk(f),
        extra_parameters=2 * heads + values,  # gate biases, norm
    )


def _chunk(f: Frame) -> int:
    default = {"default": f.family.chunk} if f.family.chunk else {}
    return f.r.integer("chunk_size", "mamba_chunk_size", **default)


def _state_bits(f: Frame) -> int:
    return _bits(f, "mamba_ssm_dtype", "mamba_ssm_cache_dtype")


def _bits(f: Frame, *keys: str) -> int:
    """32 where the file does not say: every modelling code here keeps the state in float32."""
    value = f.r.raw(*keys) or "float32"
    if not isinstance(value, str) or value not in _DTYPE_BITS:
        raise f.r.error(keys[0], f"{value!r} is not known", f"use one of {', '.join(_DTYPE_BITS)}")
    return _DTYPE_BITS[value]
