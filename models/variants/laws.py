"""Published quality laws as functions of sizes and bits; coefficients live in `quality_laws.yaml`.

Every function returns nats per token and accepts plain or traced numbers. Only differences from a
model's own baseline are ever used: absolute losses of different papers do not compare.
"""

from __future__ import annotations

import functools
import math
from importlib import resources
from typing import Any, NamedTuple

from models.architecture import Architecture, MoE, parameters_active, parameters_total
from models.variants.numbers import Number, maximum, minimum, power, where
from models.variants.transform import Band

KV_BITS = 8
"""Narrowest KV cache with a published loss."""
PRECISION_BITS = (4, 8)
"""Quantised widths of weights and activations with a published loss."""
_FP8 = 2


@functools.cache
def coefficients() -> dict[str, Any]:
    """The content of `quality_laws.yaml`."""
    import yaml

    text = resources.files("models.variants").joinpath("quality_laws.yaml").read_text()
    data: dict[str, Any] = yaml.safe_load(text)
    return data


# --- size ----------------------------------------------------------------------------------------


class Size(NamedTuple):
    """What the size laws look at: parameter counts, and the inactive share of the experts.

    `embeddings` are the tables (output head included), which weight sparsity leaves alone.
    `inactive_share` is None for a dense model (a static fact: the kinds of block).
    """

    total: Number
    active: Number
    embeddings: Number
    inactive_share: Number | None


def size(arch: Architecture) -> Size:
    """The `Size` of an architecture."""
    total = parameters_total(arch)
    embeddings = (
        arch.vocab * arch.hidden * (2 - arch.tied_embeddings) + arch.embedding_extra_parameters
    )
    blocks = [f for f in arch.feed_forwards if isinstance(f, MoE)]
    if not blocks:
        return Size(total, total, embeddings, None)
    # In columns of expert width, so that shared experts count as experts that are always active.
    visited = sum(f.layers * (f.top_k * f.expert_width + f.shared_width) for f in blocks)
    present = sum(f.layers * (f.experts * f.expert_width + f.shared_width) for f in blocks)
    return Size(total, parameters_active(arch), embeddings, 1 - visited / present)


def dense_loss(law: str, parameters: Number, tokens: Number) -> Number:
    """Absolute loss E + A / N^alpha + B / D^beta of the dense law `law`."""
    c = coefficients()["dense"][law]
    return c["E"] + _dense_term(law, parameters) + c["B"] * power(tokens, -c["beta"])


def _dense_term(law: str, parameters: Number) -> Number:
    c = coefficients()["dense"][law]
    return c["A"] * power(parameters, -c["alpha"])


def moe_loss(parameters: Number, tokens: Number, inactive_share: Number) -> Number:
    """Absolute loss of Abnar's law for a mixture of experts."""
    c = coefficients()["moe"]
    return c["e"] + _moe_term(parameters, inactive_share) + c["b"] * power(tokens, -c["beta"])


def _moe_term(parameters: Number, inactive_share: Number) -> Number:
    c = coefficients()["moe"]
    active = 1 - inactive_share
    return (
        c["a"] * power(parameters, -c["alpha"])
        + c["c"] * power(active, -c["lambda"])
        + c["d"] * power(active, -c["delta"]) * power(parameters, -c["gamma"])
    )


def size_loss_nats(before: Size, after: Size) -> Band:
    """Loss of going from `before` to `after` with the same training tokens; a gain counts as 0.

    Dense: Besiroglu is central, the band spans Besiroglu and Sardana. Mixture of experts: Abnar is
    central, the band also spans the dense laws at total and at active parameters. Assumes that the
    variant is trained like its parent, not cut from it afterwards.
    """
    laws = ("besiroglu", "sardana")
    changes = [_dense_term(n, after.total) - _dense_term(n, before.total) for n in laws]
    central = changes[0]
    if before.inactive_share is not None and after.inactive_share is not None:
        changes += [_dense_term(n, after.active) - _dense_term(n, before.active) for n in laws]
        central = _moe_term(after.total, after.inactive_share) - _moe_term(
            before.total, before.inactive_share
        )
        changes.append(central)
    low = functools.reduce(minimum, changes)
    high = functools.reduce(maximum, changes)
    return Band(maximum(low, 0.0), maximum(central, 0.0), maximum(high, 0.0))


# --- sparsity ------------------------------------------------------------------------------------


def largest_sparsity() -> float:
    """The highest sparsity of the fit."""
    return float(coefficients()["sparsity_evidence"]["domain"]["sparsity_max"])


def equivalent_size_multiplier(sparsity: Number) -> Number:
    """Size of the dense model that equals a sparse one, over its non-zero parameters (Frantar)."""
    c = coefficients()["sparsity"]
    kept = c["a_S"] * power(1 - sparsity, c["b_S"]) + c["c_S"]
    return power((c["a_S"] + c["c_S"]) / kept, 1 / c["b_N"])


def sparsity_loss_nats(dense: Size, sparsity: Number) -> Band:
    """Loss of training with weight sparsity: the size law at the equivalent dense size.

    Low and central prune everything but the embeddings; high counts the embeddings as pruned too.
    NaN beyond the sparsities of the fit.
    """
    outside = sparsity > largest_sparsity()
    inside = where(outside, 0.0, sparsity)
    equivalent = equivalent_size_multiplier(inside) * (1 - inside)
    weights_only = size_loss_nats(dense, _shrunk(dense, equivalent, dense.embeddings))
    everything = size_loss_nats(dense, _shrunk(dense, equivalent, 0))
    band = Band(weights_only.low, weights_only.central, everything.high)
    return Band(*(where(outside, math.nan, end) for end in band))


def _shrunk(dense: Size, share: Number, spared: Number) -> Size:
    return dense._replace(
        total=spared + share * (dense.total - spared),
        active=spared + share * (dense.active - spared),
    )


# --- precision -----------------------------------------------------------------------------------


def qat_loss(scheme: str, parameters: Number, tokens: Number, group_size: int) -> Number:
    """Loss of 4-bit quantisation-aware training: `scheme` is w4a4, w4a16 or w16a4 (Chen)."""
    c = coefficients()["precision"][scheme]
    group = math.log2(group_size) ** c["gamma_G"]
    return c["k"] * group * power(tokens, c["gamma_D"]) * power(parameters, -c["gamma_N"])


def precision_loss_nats(
    model: Size, tokens: Number, weight_bits: Number, activation_bits: Number, code: Number
) -> Band:
    """Loss of `weight_bits` and `activation_bits` in compute format `code`.

    4 bits: quantisation-aware training; 8 bits: measured perplexity, fp8 where the format is fp8,
    else int8. The larger of neighbouring laws is taken, so that fewer bits never look better. NaN
    for other widths, and for 4 bits where `tokens` is NaN.
    """
    ends = []
    for end, parameters in (
        ("low", model.total),
        ("central", model.active),
        ("high", model.active),
    ):
        ends.append(_precision_end(end, parameters, tokens, weight_bits, activation_bits, code))
    return Band(*ends)


def _precision_end(
    end: str,
    parameters: Number,
    tokens: Number,
    weight_bits: Number,
    activation_bits: Number,
    code: Number,
) -> Number:
    c = coefficients()["precision"]
    group = c["group_size"][end]
    fp8 = code == _FP8
    # Loss by (weight bits, activation bits); activations alone are bounded by both together.
    w8a16 = where(fp8, c["fp8_weights"][end], c["int8_weights"][end])
    w8a8 = where(fp8, c["fp8"][end], c["int8"][end])
    w16a8 = w8a8
    w4a16 = maximum(qat_loss("w4a16", parameters, tokens, group), w8a16)
    w16a4 = maximum(qat_loss("w16a4", parameters, tokens, group), w16a8)
    w4a8 = w4a16 + w8a8
    w8a4 = w16a4 + w8a16
    w4a4 = maximum(qat_loss("w4a4", parameters, tokens, group), maximum(w4a8, w8a4))
    with_a16 = _by_bits(weight_bits, w4a16, w8a16, 0.0)
    with_a8 = _by_bits(weight_bits, w4a8, w8a8, w16a8)
    with_a4 = _by_bits(weight_bits, w4a4, w8a4, w16a4)
    return _by_bits(activation_bits, with_a4, with_a8, with_a16)


def _by_bits(bits: Number, four: Number, eight: Number, sixteen: Number) -> Number:
    return where(bits == 4, four, where(bits == 8, eight, where(bits >= 16, sixteen, math.nan)))


def kv_bits_loss_nats(kv_bits: Number) -> Band:
    """Loss of a KV cache of 8 to 15 bits; NaN below."""
    c = coefficients()["kv_bits"]
    below = kv_bits < KV_BITS
    return Band(*(where(below, math.nan, c[end]) for end in ("low", "central", "high")))


# --- sliding window ------------------------------------------------------------------------------


class WindowDomain(NamedTuple):
    """Where the sliding-window measurement holds."""

    shortest_window_tokens: float
    largest_share: float


def window_domain() -> WindowDomain:
    """The domain of `window_loss_nats`."""
    c = coefficients()["window"]
    return WindowDomain(
        float(min(c["perplexity_by_window_tokens"])), float(c["domain"]["window_share_max"])
    )


def window_loss_nats(share: Number, window_tokens: Number) -> Band:
    """Loss with `share` of the attention layers windowed to `window_tokens`.

    The value of the next shorter window measured (a longer one loses no more), and of half of the
    layers (fewer lose no more). NaN outside the domain.
    """
    c = coefficients()["window"]
    domain = window_domain()
    reference, half = c["reference_perplexity"], c["printed_digits"] / 2
    band = Band(math.nan, math.nan, math.nan)
    for tokens, perplexity in sorted(c["perplexity_by_window_tokens"].items()):
        measured = Band(
            max(math.log((perplexity - half) / (reference + half)), 0.0),
            math.log(perplexity / reference),
            math.log((perplexity + half) / (reference - half)),
        )
        pairs = zip(measured, band, strict=True)
        band = Band(*(where(window_tokens >= tokens, new, old) for new, old in pairs))
    # A hair above the limit: half of an odd number of layers must not depend on rounding.
    outside = share > domain.largest_share + 1e-9
    return Band(*(where(outside, math.nan, end) for end in band))
