"""The fit of constants: what it recovers, what it may use, what it writes."""

from __future__ import annotations

import dataclasses
import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
import yaml

from dse.validation import fit as fitting
from dse.validation.hosts import HostTime, pairs
from dse.validation.measurements import Measurement, published
from dse.validation.predictor import Prepared, in_unit, prepare, record, with_host_time
from dse.validation.write_fit import write
from hwmodel import theta
from hwmodel.calibration.prior import priors

TRUE = {"hbm_sustained_fraction": 0.79, "mxu_sustained_fraction": 0.9, "operator_fixed_s": 2e-6}


def _micro(true: dict[str, float]) -> list[Prepared]:
    """Microbenchmarks whose measured values are what the model predicts under `true`."""
    rows = [m for m in published() if m.workload_kind in ("hbm", "matmul") and m.tpu == "v7x"]
    made = []
    for m in rows:
        predicted = record(prepare(m), theta.central() | true, with_host=False).predicted
        assert predicted is not None
        fittable = next(f"lab {i}" for i in range(50) if not _renamed(m, f"lab {i}").held_out)
        made.append(prepare(dataclasses.replace(_renamed(m, fittable), value_std=predicted)))
    return made


def _renamed(m: Measurement, source: str) -> Measurement:
    return dataclasses.replace(m, source=source)


def test_a_fit_recovers_the_constants_that_made_its_rows() -> None:
    fitted = fitting.fit(_micro(TRUE), tuple(TRUE))
    for name, value in TRUE.items():
        assert fitted.values[name] == pytest.approx(value, rel=0.03)
        low, high = fitted.ranges[name]
        assert low < fitted.values[name] < high


def test_without_rows_that_say_otherwise_the_prior_stays() -> None:
    fitted = fitting.fit(_micro({}), ("gradient_overlap_fraction",))
    assert fitted.values["gradient_overlap_fraction"] == pytest.approx(
        priors()["gradient_overlap_fraction"].estimate, rel=1e-6
    )


def test_held_out_rows_and_class_c_are_never_used() -> None:
    prepared = [prepare(m) for m in published() if m.workload_kind in ("hbm", "matmul")]
    used = [p.measurement for p in prepared if fitting.usable(p)]
    assert used and not any(m.held_out or m.confidence == "C" for m in used)
    assert not any("block_m" in m.operation() for m in used)


def test_at_most_half_of_a_stack_sets_its_host_time() -> None:
    prepared = [prepare(m) for m in published() if m.workload_kind in ("serve", "prefill")]
    halves = fitting.host_halves(prepared)
    rows = {p.measurement.id: p for p in prepared}
    for stack, chosen in halves.items():
        own = [
            p
            for p in prepared
            if p.case is not None
            and fitting.stack_key(p.measurement) == stack
            and p.case.equation == "serving"
        ]
        assert len(chosen) <= len(own) / 2
        assert all(fitting.usable(rows[id]) for id in chosen)
    for stack, entry in pairs().items():
        assert set(entry["rows"]) <= set(halves[stack])


def test_the_robust_loss_is_quadratic_near_zero_and_linear_far_out() -> None:
    small, slope = fitting._soft_l1(0.01)
    assert small == pytest.approx(0.01, rel=1e-3) and slope == pytest.approx(1, rel=1e-3)
    far, _ = fitting._soft_l1(100.0)
    assert far**2 == pytest.approx(2 * 99.005, rel=1e-3)
    assert fitting._soft_l1(-3.0)[0] == -fitting._soft_l1(3.0)[0]
    step = 1e-6
    numeric = (fitting._soft_l1(2 + step)[0] - fitting._soft_l1(2 - step)[0]) / (2 * step)
    assert fitting._soft_l1(2.0)[1] == pytest.approx(numeric, rel=1e-5)


def test_a_prior_maps_back_and_forth() -> None:
    for name, prior in priors().items():
        assert prior.value(prior.centre) == pytest.approx(prior.estimate, rel=1e-3), name
        assert prior.width > 0, name


def test_a_written_fit_reads_back(tmp_path: Path) -> None:
    (tmp_path / "calibration").mkdir()
    (tmp_path / "data").mkdir()
    with resources.as_file(resources.files("hwmodel").joinpath("data", "theta_fitted.yaml")) as f:
        shutil.copy(f, tmp_path / "data")
    names = list(priors())
    made = fitting.Fitted(
        values=dict(zip(names, np.linspace(0.1, 0.9, len(names)), strict=True)),
        ranges={name: (0.05, 0.95) for name in names},
        hosts={"engine 1.0": HostTime(1.5e-3, 2e-5)},
        host_rows={"engine 1.0": ("a", "b")},
        rows=10,
    )
    write(made, tmp_path)
    entries = yaml.safe_load((tmp_path / "data" / "theta_fitted.yaml").read_text())
    for name in names:
        assert float(entries[name]["value"]) == pytest.approx(made.values[name], rel=1e-3)
        assert entries[name]["kind"] == "fitted"
        assert float(entries[name]["prior"]["value"]) == pytest.approx(priors()[name].estimate)
    hosts = yaml.safe_load((tmp_path / "calibration" / "hosts.yaml").read_text())
    assert hosts == {"engine 1.0": {"step_s": 1.5e-3, "sequence_s": 2e-5, "rows": ["a", "b"]}}


def test_the_host_time_is_part_of_every_decode_step() -> None:
    row = next(m for m in published() if m.id == "v6e-sgl-q8-1k-c64")
    without = record(prepare(row), theta.central(), with_host=False)
    with_pair = record(prepare(row), theta.central(), with_host=True)
    assert without.predicted is not None and with_pair.predicted is not None
    assert with_pair.predicted > without.predicted
    assert in_unit(prepare(row).case, 1.0) == 1.0  # type: ignore[arg-type]
    assert with_host_time({}, HostTime(1.0, 2.0)) == {"host_step_s": 1.0, "host_sequence_s": 2.0}
