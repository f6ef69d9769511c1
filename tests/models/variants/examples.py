"""Architectures with published shapes, written out so that these tests need no parser."""

from __future__ import annotations

from models.architecture import Architecture, Attention, DenseFFN, LatentAttention, MoE, Recurrent


def llama_70b() -> Architecture:
    """Llama-3.1-70B: 80 layers, 64 query and 8 KV heads of 128, FFN 28672."""
    return Architecture(
        name="Llama-3.1-70B",
        model_type="llama",
        layers=80,
        hidden=8192,
        vocab=128256,
        mixers=(Attention(layers=80, q_heads=64, kv_heads=8, qk_head_dim=128, v_head_dim=128),),
        feed_forwards=(DenseFFN(layers=80, width=28672),),
        norm_parameters=161 * 8192,
        max_context_tokens=131072,
    )


def gemma_2_9b() -> Architecture:
    """Gemma-2-9B: every other layer is windowed to 4096 tokens as released."""
    attention = {"q_heads": 16, "kv_heads": 8, "qk_head_dim": 256, "v_head_dim": 256}
    return Architecture(
        name="gemma-2-9b",
        model_type="gemma2",
        layers=42,
        hidden=3584,
        vocab=256000,
        mixers=(
            Attention(layers=21, window=4096, **attention),
            Attention(layers=21, **attention),
        ),
        feed_forwards=(DenseFFN(layers=42, width=14336),),
        tied_embeddings=1,
        max_context_tokens=8192,
    )


def qwen3_235b() -> Architecture:
    """Qwen3-235B-A22B: 128 experts of width 1536, 8 per token."""
    return Architecture(
        name="Qwen3-235B-A22B",
        model_type="qwen3_moe",
        layers=94,
        hidden=4096,
        vocab=151936,
        mixers=(Attention(layers=94, q_heads=64, kv_heads=4, qk_head_dim=128, v_head_dim=128),),
        feed_forwards=(MoE(layers=94, experts=128, top_k=8, expert_width=1536),),
        max_context_tokens=40960,
    )


def deepseek_v3() -> Architecture:
    """DeepSeek-V3: latent attention, 3 dense layers, 256 experts, stored in fp8."""
    return Architecture(
        name="DeepSeek-V3",
        model_type="deepseek_v3",
        layers=61,
        hidden=7168,
        vocab=129280,
        mixers=(
            LatentAttention(
                layers=61,
                heads=128,
                q_lora_rank=1536,
                kv_lora_rank=512,
                qk_nope_head_dim=128,
                qk_rope_head_dim=64,
                v_head_dim=128,
            ),
        ),
        feed_forwards=(
            DenseFFN(layers=3, width=18432),
            MoE(layers=58, experts=256, top_k=8, expert_width=2048, shared_width=2048),
        ),
        max_context_tokens=163840,
        released_weight_bits=8,
    )


def mamba() -> Architecture:
    """A model of recurrent layers only."""
    return Architecture(
        name="mamba",
        model_type="mamba2",
        layers=48,
        hidden=1536,
        vocab=50288,
        mixers=(
            Recurrent(
                layers=48,
                in_width=6448,
                conv_channels=3328,
                conv_kernel=4,
                heads=48,
                key_dim=128,
                value_dim=64,
                out_width=3072,
            ),
        ),
        feed_forwards=(),
    )


ALL = (llama_70b, gemma_2_9b, qwen3_235b, deepseek_v3, mamba)
