"""released_weight_bits: storage width of the weights that are most of a published checkpoint.

Block scales are not counted. Where a checkpoint mixes widths, the narrowest weight group counts: in
every mixed release in the catalog it holds the experts or the feed-forward matrices.
"""

from __future__ import annotations

from collections.abc import Mapping

from models.huggingface.reader import Reader

_DTYPE_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "float8_e4m3fn": 8}
_METHOD_BITS = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "nvfp4": 4}
_ALGORITHM_BITS = {"FP8": 8, "NVFP4": 4, "W4A16_NVFP4": 4, "W4A8_NVFP4_FP8": 4, "W4A16": 4}
_EXPERT_BITS = {"fp4": 4, "fp8": 8, "bf16": 16}


def released_weight_bits(outer: Reader, inner: Reader) -> int:
    """Bits per weight from `quantization_config`, else the dtype, of the outer or inner level.

    16 where the file states neither (it is then no verbatim config.json). Raises ModelConfigError
    for a method that is not known.
    """
    for level in (outer, inner):
        if level.raw("quantization_config") is not None:
            return _quantized(level, level.inside("quantization_config"))
    for level in (outer, inner):
        for key in ("dtype", "torch_dtype"):
            if level.raw(key) is not None:
                return _lookup(level, key, _DTYPE_BITS)
    return 16


def _quantized(level: Reader, q: Reader) -> int:
    widths = []
    groups = q.inside("config_groups")
    for name in groups.fields:
        weights = groups.inside(name).inside("weights")
        if weights.fields:
            widths.append(weights.integer("num_bits"))
    for where in (level, q):
        if where.raw("expert_dtype") is not None:
            widths.append(_lookup(where, "expert_dtype", _EXPERT_BITS))
    for key in ("quant_algo", "moe_quant_algo"):
        if q.raw(key) not in (None, "MIXED_PRECISION"):
            widths.append(_lookup(q, key, _ALGORITHM_BITS))
    if q.raw("bits") is not None:  # GPTQ, AWQ
        widths.append(q.integer("bits"))
    for key, width in (("load_in_4bit", 4), ("load_in_8bit", 8)):  # bitsandbytes
        if q.flag(key, default=False):
            widths.append(width)
    if not widths or q.raw("quant_method") in list(_METHOD_BITS):
        widths.append(_lookup(q, "quant_method", _METHOD_BITS))
    return min(widths)


def _lookup(r: Reader, key: str, table: Mapping[str, int]) -> int:
    value = r.raw(key)
    if not isinstance(value, str) or value not in table:
        raise r.error(
            key,
            f"{value!r} is not known (known: {', '.join(table)})",
            "state the width with one of these, or extend models/huggingface/quantization.py",
        )
    return table[value]
