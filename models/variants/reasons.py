"""What each illegal combination is called, in words that need no numbers (for counts in a log)."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "head_dim_without_softmax_attention": "head_dim is set on a model without separate heads",
    "head_dim_not_whole": "head_dim does not split the projections into whole heads",
    "kv_heads_without_softmax_attention": "kv_heads is set on a model without KV heads",
    "kv_heads_do_not_divide_q_heads": "kv_heads does not divide the query heads",
    "ffn_width_scale_not_positive": "ffn_width_scale is not greater than 0",
    "ffn_width_without_ffn": "ffn_width_scale is set on a model without feed-forward blocks",
    "experts_without_moe": "experts_scale or top_k is set on a dense model",
    "experts_scale_not_positive": "experts_scale is not greater than 0",
    "top_k_above_experts": "top_k is more than the experts of a layer",
    "layer_share_out_of_range": "layer_share keeps no layer, or more than all",
    "window_share_out_of_range": "window_share is not between 0 and 1",
    "window_share_without_tokens": "window_share is set without window_tokens",
    "window_without_full_attention": "window_share is set on a model without full attention",
    "compute_format_needs_narrow_operands": "operands are wider than the compute format",
    "kv_bits_without_kv_cache": "kv_bits is set on a model without a KV cache",
    "nm_n_out_of_range": "N of N:M sparsity is not between 1 and M",
}
"""Code of a `Condition` -> what is wrong. Codes are stable: they are counted in study logs."""
