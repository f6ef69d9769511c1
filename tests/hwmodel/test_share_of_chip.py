"""A device that is a fraction of a chip."""

from __future__ import annotations

import dataclasses
import math

import pytest

from hwmodel import presets
from hwmodel.chip import Chip, share_of

CONSERVED = (
    "peak_bf16_flops",
    "vpu_ops_per_s",
    "hbm_bandwidth_bytes_per_s",
    "hbm_bytes",
    "vmem_bytes",
    "cmem_bytes",
    "ici_bandwidth_bytes_per_s",
    "dcn_bandwidth_bytes_per_s",
    "host_bandwidth_bytes_per_s",
    "sparsecores",
)
KEPT = (
    "clock_hz",
    "mxus_per_core",
    "mxu_rows",
    "mxu_cols",
    "mxu_cadence_bf16_cycles",
    "hbm_latency_s",
    "ici_hop_latency_s",
    "ici_link_bandwidth_bytes_per_s",
    "hbm_stack_bandwidth_bytes_per_s",
)


@pytest.mark.parametrize("name", [n for n in presets.names() if presets.load(n).cores == 2])
def test_two_halves_are_the_whole(name: str) -> None:
    chip = presets.load(name)
    half = share_of(chip, 0.5)
    for quantity in CONSERVED:
        assert 2 * getattr(half, quantity) == getattr(chip, quantity), quantity
    for field in KEPT:
        assert getattr(half, field) == getattr(chip, field), field


def test_one_jax_device_of_a_two_core_chip_has_the_published_numbers() -> None:
    half = share_of(presets.load("v7x"), 0.5)
    fact = presets.describe("v7x")["facts"]["peak_bf16_tflops"]
    at_peak_clock = half.peak_bf16_flops * fact["peak_clock_hz"] / half.clock_hz
    assert at_peak_clock == pytest.approx(fact["value"] * 1e12 / 2, rel=1e-3)
    assert (half.cores, half.hbm_bytes) == (1, 96 * 2**30)
    assert half.hbm_bandwidth_bytes_per_s == pytest.approx(3.69e12, rel=1e-3)


def test_the_whole_is_the_chip_itself() -> None:
    chip = presets.load("v6e")
    for field in dataclasses.fields(Chip):
        ours, theirs = (getattr(c, field.name) for c in (share_of(chip, 1.0), chip))
        assert ours == theirs or (math.isnan(ours) and math.isnan(theirs)), field.name


@pytest.mark.parametrize(("name", "share"), [("v6e", 0.5), ("v7x", 0.3), ("v7x", 0), ("v7x", 2)])
def test_a_core_is_never_split(name: str, share: float) -> None:
    with pytest.raises(ValueError, match="cores"):
        share_of(presets.load(name), share)
