"""Rows that their machine cannot have measured are skipped with the field and the limit."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from dse.validation.measurements import METRICS_OF, Measurement, MissingField, published
from dse.validation.possible import check_devices, devices_per_chip
from dse.validation.predictor import prepare, record
from hwmodel import presets, theta


@functools.cache
def rows() -> dict[str, Measurement]:
    return {row.id: row for row in published()}


def changed(name: str, **fields: Any) -> Measurement:
    return dataclasses.replace(rows()[name], **fields)


def reason(m: Measurement) -> str:
    """Why a row is skipped, before or after its case is made; no row here is compiled."""
    p = prepare(m)
    return p.reason if p.case is None else record(p, theta.central()).reason_if_skipped


GEMM, HBM, TRAIN, SERVE = "v5e-pallas-xla-8192", "iw-hbm-128M", "v6e-l8-8", "v6e-vllm-l33-c64"


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        (GEMM, {"metric_std": "tpot_s"}, "metric_std tpot_s is not predicted for a matmul row"),
        (TRAIN, {"metric_std": "ttft_s"}, "metric_std ttft_s is not predicted for training"),
        (SERVE, {"metric_std": "mfu"}, "metric_std mfu is not predicted for a serve row"),
        (GEMM, {"workload_kind": "train"}, "workload_kind train does not fit the op matmul"),
        (SERVE, {"workload_kind": "hbm"}, "arch: a hbm row needs a JSON object"),
        (
            GEMM,
            {"metric_std": "tflops_per_device", "value_std": 400.0},
            "tflops_per_device 400 TFLOP/s is above the 196.6 TFLOP/s that the peak of v5e",
        ),
        (GEMM, {"value_std": 1e-9}, "time_s 1e-09 s is less than"),
        (HBM, {"value_std": 9e12}, "bandwidth_bytes_per_s 9e+12 B/s is above the 3.69e+12 B/s"),
        (TRAIN, {"value_std": 0.01}, "step_s 0.01 s is less than"),
        (
            TRAIN,
            {"metric_std": "mfu", "value_std": 1.4, "flop_count": "causal"},
            "mfu 1.4 is above",
        ),
        (SERVE, {"metric_std": "out_tok_s_total", "value_std": 1e6}, "is above the"),
        (GEMM, {"compute_dtype": "int8"}, "compute_dtype 'int8' is not one of bf16"),
        (GEMM, {"arch": '{"op": "matmul", "m": 8, "n": 8}'}, "matmul needs 'k' as a number"),
        (GEMM, {"chips": 0.5}, "chips 0.5: a v5e chip has 1 JAX device"),
        (GEMM, {"chips": 4.0, "tp": 8.0}, "tp 8: needs 8 devices; 4 v5e chips have 4"),
        (SERVE, {"chips": 4.0, "mesh": "2x2"}, "tp 8: needs 8 devices; 4 v6e chips have 4"),
        (SERVE, {"ep": 16.0}, "ep 16: needs 16 devices; 8 v6e chips have 8"),
        (TRAIN, {"ep": 2.0}, "fsdp 8 x ep 2: needs 16 devices"),
        (TRAIN, {"mesh": "9x9"}, "mesh '9x9' has not the 8 chips"),
        (TRAIN, {"mesh": "4by2"}, "mesh '4by2' has not the 8 chips"),
        (TRAIN, {"compute_dtype": "fp32"}, "compute_dtype 'fp32' is not one of bf16, fp8, int8"),
        (TRAIN, {"remat": "some"}, "remat 'some' is not one of full"),
        (SERVE, {"weight_dtype": "fp16"}, "weight_dtype 'fp16' is not one of"),
    ],
)
def test_an_impossible_row_is_skipped_with_its_reason(
    name: str, fields: dict[str, Any], words: str
) -> None:
    assert words in reason(changed(name, **fields))


@pytest.mark.parametrize("chip", presets.names())
def test_every_chip_has_its_number_of_devices(chip: str) -> None:
    assert devices_per_chip(chip, presets.load(chip)) in (1, 2)


@pytest.mark.parametrize(
    ("chip", "devices"),
    [("v2", 2), ("v3", 2), ("v4", 1), ("v5e", 1), ("v5p", 1), ("v6e", 1), ("v7x", 2), ("h100", 1)],
)
def test_devices_follow_the_chip(chip: str, devices: int) -> None:
    assert devices_per_chip(chip, presets.load(chip)) == devices
    m = changed(SERVE, tpu=chip, chips=4.0, tp=4.0 * devices)
    check_devices(m, presets.load(chip))
    with pytest.raises(MissingField, match="needs"):
        check_devices(dataclasses.replace(m, pp=2.0), presets.load(chip))


def test_published_rows_are_possible() -> None:
    """Each has a metric of its kind and the devices it needs: what is skipped lacks a field."""
    words = ("needs", "is not predicted", "does not fit", "is not one of", "has not the")
    found = {m.id: prepare(m) for m in published()}
    assert sum(p.case is not None for p in found.values()) == 147
    refused = {n: p.reason for n, p in found.items() if any(w in p.reason for w in words)}
    assert not refused
    known = [p.measurement for p in found.values() if p.case is not None]
    assert all(m.metric_std in METRICS_OF[m.workload_kind] for m in known)
