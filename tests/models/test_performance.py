"""The whole model over random legal candidates: what must always hold.

One compiled evaluator per model scores thousands of candidates per example, so that hypothesis
draws seeds and steps rather than single candidates.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dse.scoring.explain import operator_rows
from hwmodel import theta
from model_cases import Case, nan_allowed, wide
from models.architecture import skeleton
from models.huggingface import catalog_names, load
from models.performance import METRICS
from models.workload import Workload

MODELS = [
    "Meta-Llama-3.1-70B",
    "Qwen3-235B-A22B",
    pytest.param("DeepSeek-V3", marks=pytest.mark.slow),
    pytest.param("granite-4.0-h-small", marks=pytest.mark.slow),
    pytest.param("gemma-3-27b-it", marks=pytest.mark.slow),
    pytest.param("Meta-Llama-3.1-70B@h100", marks=pytest.mark.slow),
]
ROWS = 4096
FASTER = {  # knob: direction of its choices that must never make a step slower
    "clock_ghz": 1,
    "mxus_per_core": 1,
    "vpu_alus": 1,
    "vmem_mib": 1,
    "cmem_mib": 1,
    "hbm_stacks": 1,
    "ici_link_gb_per_s": 1,
    "dcn_gb_per_s": 1,
    "mxu_cadence": -1,
}
LATENCIES = ("hbm_latency_s", "ici_hop_latency_s", "mxu_latency_cycles", "dcn_latency_s")
STEPS = ("prefill_step_s", "decode_step_s")
ROUNDING = 1e-12
FEW = settings(
    max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def _case(model: str) -> Case:
    name, _, chip = model.partition("@")
    return wide(name, chip or "v6e")


def _moved(case: Case, rows: NDArray[np.int32], name: str, step: int) -> tuple[NDArray, NDArray]:
    """`rows` with one knob moved by `step` choices, and which rows could move."""
    column = case.space.names.index(name)
    index = rows[:, column] + step
    can = (index >= 0) & (index < case.space.cardinalities[column])
    moved = rows.copy()
    moved[can, column] = index[can]
    return moved, can


@pytest.mark.parametrize("model", MODELS)
@FEW
@given(seed=st.integers(0, 2**31))
def test_more_of_a_resource_never_makes_a_step_slower(model: str, seed: int) -> None:
    """At fixed mapping; the larger chip may even be illegal, its time must still not be longer."""
    case = _case(model)
    rows = case.legal_rows(ROWS, seed)
    before, _ = case.score(rows)
    for name, direction in FASTER.items():
        moved, can = _moved(case, rows, name, direction)
        after, _ = case.score(moved)
        assert can.any(), name
        for step in STEPS:
            slower = after[step] > before[step] * (1 + ROUNDING)
            assert not (slower & can).any(), (name, step, case.space.labels(rows[slower][0]))


@pytest.mark.parametrize("model", MODELS)
@FEW
@given(seed=st.integers(0, 2**31), share=st.floats(0.05, 0.95))
def test_less_latency_never_makes_a_step_slower(model: str, seed: int, share: float) -> None:
    case = _case(model)
    rows = case.legal_rows(ROWS, seed)
    before, _ = case.score(rows)
    evaluator = case.evaluator
    for field in LATENCIES:
        nearer = evaluator.under(
            theta.central(), {field: share * getattr(case.chip, field)}, evaluator.table
        )
        after = dict(zip(METRICS, nearer(rows).metrics, strict=True))
        for step in STEPS:
            assert np.all(after[step] <= before[step] * (1 + ROUNDING)), (field, step)
        # The fixed time of a thread-block kernel is measured whole, with the depth of its unit.
        used = field != "mxu_latency_cycles" or case.chip.mxu_row_tile == 0
        assert any(np.any(after[step] < before[step]) for step in STEPS) == used, field


@pytest.mark.parametrize("model", MODELS)
@FEW
@given(seed=st.integers(0, 2**31))
def test_a_larger_batch_never_takes_less_time_in_total(model: str, seed: int) -> None:
    """The time in which every sequence of the batch completes one request."""
    case = _case(model)
    rows = case.legal_rows(ROWS, seed)
    moved, can = _moved(case, rows, "batch", 1)
    before, _ = case.score(rows)
    after, _ = case.score(moved)
    cycle_before = case.values("batch", rows) / before["tokens_per_s"]
    cycle_after = case.values("batch", moved) / after["tokens_per_s"]
    assert can.any()
    assert np.all(cycle_after >= cycle_before * (1 - ROUNDING))


@pytest.mark.parametrize("model", MODELS)
def test_metrics_of_legal_candidates_are_finite(model: str) -> None:
    _check_finite(_case(model))


def _check_finite(case: Case) -> None:
    rows = case.legal_rows(5 * ROWS, 0)
    assert len(rows) > 200
    metrics, _ = case.score(rows)
    for name, values in metrics.items():
        if nan_allowed(name, case):
            continue
        bad = ~np.isfinite(values)
        assert not bad.any(), (name, bad.sum(), case.space.labels(rows[bad][0]))
        assert np.all(values >= 0), name
    for name in ("mfu_prefill", "mfu_decode", "mbu_decode"):
        # low-precision and sparse peaks are a few times the bf16 peak that mfu is stated over
        assert metrics[name].max() < (1.0 if name == "mbu_decode" else 16.0), name


def _one_of_each_skeleton() -> list[str]:
    found: dict[object, str] = {}
    for name in catalog_names():
        found.setdefault(skeleton(load(name)), name)
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("model", _one_of_each_skeleton())
def test_metrics_are_finite_for_every_kind_of_model(model: str) -> None:
    _check_finite(wide(model))


def test_the_metrics_of_one_candidate_are_consistent() -> None:
    case = _case("Meta-Llama-3.1-70B")
    rows = case.legal_rows(ROWS, 3)
    m, _ = case.score(rows)
    assert np.allclose(m["tokens_per_s_per_chip"] * m["chips"], m["tokens_per_s"], rtol=1e-12)
    assert np.allclose(m["tokens_per_s_per_user"] * m["tpot_s"], 1, rtol=1e-12)
    assert np.allclose(m["request_latency_s"], m["ttft_s"] + 1000 * m["tpot_s"], rtol=1e-12)
    power = m["joules_per_token"] * m["tokens_per_s"] / m["chips"]
    assert np.allclose(power, m["average_power_w"], rtol=1e-12)
    dollars = m["usd_per_chip_hour"] * m["chips"] / m["tokens_per_s"] / 3600 * 1e6
    assert np.allclose(dollars, m["usd_per_mtoken"], rtol=1e-12)
    assert np.all(m["ttft_s"] >= m["prefill_step_s"])
    assert np.all(m["tpot_s"] >= m["decode_step_s"] * (1 - ROUNDING))
    assert np.all(m["hbm_used_bytes"] >= m["weight_bytes_per_chip"])
    assert np.all(m["hbm_used_bytes"] <= m["hbm_bytes"])


def test_the_operators_of_a_step_add_up_to_its_time() -> None:
    case = _case("Meta-Llama-3.1-70B")
    for row in case.legal_rows(ROWS, 5)[:2]:
        metrics, _ = case.score(row[None, :])
        table = operator_rows("", case.evaluator, row)
        prefill = sum(op["time_s"] for op in table if op["phase"] == "prefill")
        decode = sum(op["time_s"] for op in table if op["phase"] == "decode")
        stages = case.values("pipeline", row[None, :])[0]
        assert prefill == pytest.approx(metrics["prefill_step_s"][0], rel=1e-9)
        assert decode * stages == pytest.approx(metrics["decode_step_s"][0], rel=1e-9)
        for op in table:
            if op["bound_by"] != "network" and op["network_s"] == 0:
                assert op["time_s"] >= max(op["mxu_s"], op["vpu_s"], op["hbm_s"]) * (1 - ROUNDING)
        for phase in ("prefill", "decode"):
            shares = sum(op["share"] for op in table if op["phase"] == phase)
            assert shares == pytest.approx(1, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload",
    [
        Workload(prompt_tokens=1.0, output_tokens=1.0),
        Workload(prompt_tokens=128_000.0, output_tokens=8_000.0, cached_prefix_tokens=120_000.0),
        Workload(prompt_tokens=4000.0, output_tokens=1000.0, expert_imbalance=2.0),
    ],
    ids=["shortest", "long and cached", "skewed experts"],
)
def test_metrics_are_finite_under_other_workloads(workload: Workload) -> None:
    case = wide("Qwen3-235B-A22B", "v6e", workload)
    rows = case.legal_rows(4 * ROWS, 0)
    assert len(rows) > 20
    metrics, _ = case.score(rows)
    for name, values in metrics.items():
        assert np.all(np.isfinite(values)), name
