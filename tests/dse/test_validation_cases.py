"""Measured rows as cases: devices to chips, tori, remat policies, and what a row must state."""

from __future__ import annotations

import dataclasses

import pytest

from dse.validation.cases import case, most_cubic
from dse.validation.measurements import MissingField, published
from dse.validation.model_cases import needed_flops_per_token
from models.huggingface import load

ROWS = {row.id: row for row in published()}


def test_degrees_in_devices_become_degrees_in_chips() -> None:
    made = case(ROWS["iw-l70-64-bf16"])  # fsdp 128 over the 128 devices of 64 chips
    deployment = made.parts["deployment"]
    assert deployment.fsdp == 64 and deployment.chips == 64
    assert (deployment.torus_x, deployment.torus_y, deployment.torus_z) == (4, 4, 4)


def test_one_device_of_a_chip_has_half_of_it() -> None:
    chip = case(ROWS["iw-gemm-1024"]).parts["chip"]
    whole = case(ROWS["iw-ag-2x2x1-65536"]).parts["chip"]
    assert chip.cores == whole.cores / 2
    assert chip.hbm_bandwidth_bytes_per_s == whole.hbm_bandwidth_bytes_per_s / 2


def test_remat_policies_say_what_is_kept() -> None:
    kept = case(ROWS["v6e-l8-8"]).parts["training"]
    assert kept.save_qkv == 1 and kept.save_out_proj == 1 and kept.save_mlp_up == 0
    assert kept.offload_saved == 1
    full = case(ROWS["v5e-16b-1x"]).parts["training"]
    assert full.save_qkv == full.save_mlp_up == full.save_mlp_down == 0
    minimal = case(ROWS["mlperf41-gpt3-v5p8192"]).parts["training"]
    assert minimal.save_qkv == minimal.save_mlp_up == minimal.save_mlp_down == 1


def test_what_the_stack_does_by_default_is_listed_as_assumed() -> None:
    assert "remat full" in case(ROWS["v6e-mistral7b-8"]).assumed
    unknown = dataclasses.replace(ROWS["v6e-mistral7b-8"], stack="another")
    with pytest.raises(MissingField, match="remat is not stated"):
        case(unknown)


@pytest.mark.parametrize(
    ("row", "missing"),
    [
        ("mt-tier-l405-v6e", "fsdp"),
        ("marin-grug1b5", "arch"),
        ("mt-tier-l270-v5p", "flop_count"),
        ("mlperf41-sd2-v5p16", "diffusion"),
        ("jsp-l27-bf16", "in_len"),
        ("iw-vllm-q397-1k8k", "tp"),
    ],
)
def test_a_row_that_cannot_be_predicted_names_the_field(row: str, missing: str) -> None:
    with pytest.raises(MissingField, match=missing):
        case(ROWS[row])


def test_degrees_that_make_no_devices_are_refused() -> None:
    odd = dataclasses.replace(ROWS["v6e-l8-8"], fsdp=5.0)
    with pytest.raises(MissingField, match="the degrees make 5 devices"):
        case(odd)


def test_unstated_slices_are_the_most_cubic_ones() -> None:
    assert most_cubic(64, 3) == (4, 4, 4)
    assert most_cubic(512, 3) == (8, 8, 8)
    assert most_cubic(192, 3) == (4, 4, 12)
    assert most_cubic(4, 3) == (1, 2, 2)
    assert most_cubic(256, 2) == (16, 16, 1)


def test_a_slice_follows_degrees_that_close_rings() -> None:
    deployment = case(ROWS["mlperf41-gpt3-v5p8192"]).parts["deployment"]
    sides = (deployment.torus_x, deployment.torus_y, deployment.torus_z)
    assert sides == (8, 32, 16)  # tensor 8, fsdp 32, data 16


@pytest.mark.parametrize(
    ("row", "causal", "tokens_per_s", "tflops"),
    [  # tokens/s and TFLOP/s per chip or device as printed beside each other in the sources
        ("v6e-l8-8", 0.0, 7138.89, 413.433),
        ("v6e-l70-256", 0.0, 960.248, 462.297),
        ("iw-l70-256-128k-bf16", 1.0, 963.03, 897.94),
        ("v5p-l405", 1.0, 124.618, 314.53),
    ],
)
def test_model_flops_reproduce_what_was_published(
    row: str, causal: float, tokens_per_s: float, tflops: float
) -> None:
    m = ROWS[row]
    counted = needed_flops_per_token(load(m.arch), m.number("in_len"), causal) * tokens_per_s
    assert counted / 1e12 == pytest.approx(tflops, rel=1e-3)
