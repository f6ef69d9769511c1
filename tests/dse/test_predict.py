"""`dse predict`: the rules for what is not stated, the numbers, and one message per mistake."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from dse.cli.app import main
from dse.errors import UserError
from dse.predict.configuration import Configuration, Request, build
from dse.predict.hints import hint
from dse.predict.prediction import HEADLINES, predict
from dse.validation import intervals
from dse.validation.residuals import Residual
from hwmodel import presets

SMALL = "Meta-Llama-3.1-8B"


def request(**more: Any) -> Request:
    values: dict[str, Any] = {"model": SMALL, "chip": "v5e", "chips": 8, "phase": "decode"}
    return Request(**{**values, **more})


def training(**more: Any) -> Request:
    return request(**{"phase": "train", "sequence_tokens": 2048, "global_batch": 16, **more})


def test_rules_fill_what_is_not_stated() -> None:
    c = build(request(degrees={"data": 2}))
    d = c.deployment
    assert (d.tensor, d.data, d.fsdp) == (4, 2, 1) and d.chips == 8 and d.batch == 2
    assert (d.torus_x, d.torus_y, d.torus_z) == (2, 4, 1)
    assert any("tensor 4" in rule for rule in c.rules) and any("2x4" in rule for rule in c.rules)
    t = build(training())
    assert t.deployment.fsdp == 8 and t.deployment.tensor == 1
    assert build(training(chip="v5p", chips=16)).deployment.torus_x == 1  # 1x4x4 wraps around
    assert build(request(chip="trillium")).chip_name == "v6e"


def test_slices_beyond_a_pod_meet_over_dcn() -> None:
    c = build(request(chips=1024, degrees={"data": 64}))
    assert c.deployment.slice_chips == 256 == presets.load("v5e").ici_max_chips
    assert any("4 slices" in rule for rule in c.rules)


def test_formats_and_rematerialisation() -> None:
    v = build(request(weights="int4", kv="fp8")).variant
    assert (v.weight_bits, v.activation_bits, v.kv_bits, v.compute_format) == (4, 16, 8, 0)
    assert build(request(activations="int8")).variant.compute_format == 1
    kept = build(training(remat="minimal")).inputs
    assert kept.save_qkv == 1 and kept.save_context == 0  # type: ignore[union-attr]
    some = build(training(remat="save_qkv+save_context")).inputs
    assert some.save_context == 1 and some.save_mlp_up == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(phase="training"), "train, prefill"),
        (request(model="Meta-Llama-3.1-8X"), "Meta-Llama-3.1-8B"),
        (request(chip="v6x"), "v6e"),
        (request(chips=0), "at least one"),
        (request(degrees={"data": 3}), "--data 2, --data 4, 6, 9 chips"),
        (request(degrees={"data": 2, "tensor": 2}), "--chips 4, or --tensor 4"),
        (request(degrees={"expert": 8}), "no experts"),
        (request(torus="3x3"), "9 chips"),
        (request(torus="2x2x2"), "2 dimensions"),
        (request(torus="axb"), "4x4"),
        (request(kv="int5"), "int4"),
        (request(activations="fp32"), "bf16"),
        (request(phase="train"), "--global-batch"),
        (training(remat="save_qk"), "save_qkv"),
    ],
)
def test_mistakes_are_one_message_with_the_nearest_change(asked: Request, words: str) -> None:
    with pytest.raises(UserError) as caught:
        build(asked)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_hints_name_what_fits() -> None:
    c = build(request(chips=64))  # 32 query heads
    assert "--tensor 32 with --data 2" in hint("query_heads_split", c, 1.0)
    assert "16 chips" in hint("hbm_overflow", build(request()), 0.3)
    assert "--batch 8" in hint("batch_too_small", build(request(degrees={"data": 8})), 1.0)
    assert hint("something_else", c, 1.0) == ""


@pytest.fixture(scope="module")
def decode() -> tuple[Configuration, Any]:
    c = build(request(batch=32))
    return c, predict(c)


def test_numbers_and_operators_add_up(decode: tuple[Configuration, Any]) -> None:
    _, found = decode
    total = sum(op["time_s"] for op in found.operators)
    assert total == pytest.approx(found.metrics["decode_step_s"], rel=1e-6)
    assert {op["phase"] for op in found.operators} == {"decode"}
    assert sum(op["share"] for op in found.operators) == pytest.approx(1.0)
    assert found.violations == []
    assert found.metrics["hbm_used_bytes"] < found.metrics["hbm_bytes"]


def test_the_same_equations_as_a_study(decode: tuple[Configuration, Any]) -> None:
    import jax

    from hwmodel import theta
    from models.performance import evaluate

    c, found = decode
    with jax.enable_x64(True):
        parts = (c.chip, c.architecture, c.variant, c.deployment, c.inputs)
        run = jax.jit(lambda: evaluate(*parts, theta.central(), math.nan).metrics)  # type: ignore[arg-type]
        for name, value in run().items():
            assert found.metrics[name] == pytest.approx(float(value), rel=1e-9, nan_ok=True)


def test_command_prints_intervals_and_their_evidence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    residuals = [
        Residual(f"d{i}", "decode", "v5e", f"g{i // 3}", True, "released", 0.01 * (i % 10), {})
        for i in range(30)
    ]
    source = intervals.Calibration(residuals)
    monkeypatch.setattr("dse.validation.intervals.calibration", lambda: source)
    words = ["predict", "--model", SMALL, "--chip", "v5e", "--chips", "8", "--phase", "decode"]
    with pytest.raises(SystemExit):
        main([*words, "--batch", "32", "--json"])
    facts = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    step = facts["metrics"]["decode_step_s"]
    interval = facts["intervals"]["decode_step_s"]
    assert interval["low"] < step < interval["high"]
    assert interval["evidence"] == "measured decode steps, n=30"
    assert math.log(interval["high"] / step) == pytest.approx(0.08)
    assert facts["legal"] is True and facts["deployment"]["tensor"] == 8
    with pytest.raises(SystemExit):
        main([*words, "--batch", "20000"])
    out = capsys.readouterr().out
    assert "measured decode steps, n=30" in out and "illegal: " in out and "--batch" in out
    with pytest.raises(SystemExit) as caught:
        main([*words, "--data", "3"])
    assert caught.value.code == 2 and capsys.readouterr().err.startswith("dse: --chips 8")


def test_training_step() -> None:
    c = build(training())
    found = predict(c)
    assert set(HEADLINES["train"]) <= set(found.metrics)
    total = sum(op["time_s"] for op in found.operators)
    assert total == pytest.approx(found.metrics["train_step_s"], rel=1e-6)
    assert 2 < found.metrics["train_step_s"] / found.metrics["forward_step_s"] < 5


def test_host_time_of_a_stack_is_added_to_every_step() -> None:
    from dse.validation.hosts import pairs

    stack = "sglang-jax 2025-09"
    pair, batch = pairs()[stack], 8
    base = build(request(phase="serve", batch=batch))
    plain = predict(base).metrics
    slow = predict(build(request(phase="serve", batch=batch, stack=stack))).metrics
    step = pair["step_s"] + batch * pair["sequence_s"]
    assert slow["decode_step_s"] == pytest.approx(plain["decode_step_s"] + step)
    chunk = plain["prefill_step_s"] + pair["step_s"] + pair["sequence_s"]
    assert slow["ttft_s"] == pytest.approx(chunk)
    output = base.inputs.output_tokens  # type: ignore[union-attr]
    cycle = batch * chunk + output * slow["decode_step_s"]
    assert slow["tokens_per_s"] == pytest.approx(batch * output / cycle)
    assert slow["request_latency_s"] == pytest.approx(cycle)
    assert "joules_per_token" not in slow and slow["usd_per_mtoken"] > plain["usd_per_mtoken"]
    with pytest.raises(UserError, match="sglang-jax 2025-09"):
        build(request(stack="sglang-jax 2025-9"))
    with pytest.raises(UserError, match="phase train"):
        build(training(stack=stack))
