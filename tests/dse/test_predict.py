"""`dse predict`: the rules for what is not stated, the numbers, and one message per mistake."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from dse.cli.app import main
from dse.errors import EXIT_ILLEGAL, UserError
from dse.predict.configuration import Configuration, Request, build
from dse.predict.hints import hint
from dse.predict.nearest import fitting
from dse.predict.options import BITS, COMPUTE, OF_PHASES, PHASES
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
        (request(chips=0), "--chips 0: state a whole number from 1"),
        (request(chips=-3), "--chips -3: state a whole number from 1"),
        (request(chips=10**9), "--chips 1000000000: state a whole number from 1"),
        (request(degrees={"data": 3}), "--data 2, --data 4, 6, 9 chips"),
        (request(degrees={"data": 2, "tensor": 2}), "--chips 4, or --tensor 4"),
        (request(degrees={"expert": 8}), "no experts"),
        (request(kv="int5"), "int4"),
        (request(weights="fp33"), "fp32, bf16"),
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
    assert hint("hbm_overflow", build(request()), 0.3).startswith("16 chips or more with a larger")
    # 16 chips do not split 8 KV heads further, but hold copies; 64 would split the 32 query heads
    assert "--tensor" in hint("hbm_overflow", build(request()), 0.3)
    assert "--pipeline" in hint("hbm_overflow", build(request()), 7.0)
    assert "chips" not in hint("hbm_overflow", build(request()), 1e9)
    assert "--remat" not in hint("hbm_overflow", build(training()), 0.3)
    assert "--remat" in hint("hbm_overflow", build(training(remat="minimal")), 0.3)
    assert "--global-batch 8 or 16" in hint("batch_split", build(training(global_batch=12)), 1.0)
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
    assert facts["hbm_usable_bytes"] < facts["metrics"]["hbm_bytes"] and facts["notes"] == []
    with pytest.raises(SystemExit) as caught:
        main([*words, "--data", "3"])
    assert caught.value.code == 2 and capsys.readouterr().err.startswith("dse: --chips 8")


def test_what_cannot_run_is_said_first_and_by_the_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["predict", "--model", SMALL, "--chip", "v5e", "--chips", "8", "--phase", "decode"]
    words += ["--batch", "20000"]
    with pytest.raises(SystemExit) as caught:
        main(words)
    out, err = capsys.readouterr()
    assert caught.value.code == EXIT_ILLEGAL and err.startswith("compiling the model")
    verdict = out.splitlines()[1]
    assert verdict.startswith("does not fit: needs ") and "GB of 17.18 GB" in verdict
    batch = int(verdict.partition("--batch ")[2].partition(",")[0])
    assert predict(build(request(batch=batch))).violations == []
    assert predict(build(request(batch=batch + 1))).violations != []
    with pytest.raises(SystemExit) as caught:
        main([*words, "--json"])
    out, err = capsys.readouterr()
    facts = json.loads(out)
    assert caught.value.code == EXIT_ILLEGAL and err == "" and facts["legal"] is False
    assert facts["metrics"]["hbm_used_bytes"] > facts["hbm_usable_bytes"]
    assert facts["operators"] and facts["violations"][0]["code"] == "hbm_overflow"


def test_more_microbatches_are_proposed_where_they_fit() -> None:
    large = training(chip="v5p", chips=16, global_batch=64, sequence_tokens=8192, remat="minimal")
    proposed = fitting(build(large))
    assert proposed.startswith("--microbatches ")
    fewest = int(proposed.split()[1])
    codes = []
    for parts in (fewest // 2, fewest):
        found = predict(build(dataclasses.replace(large, microbatches=parts)))
        codes.append([violation["code"] for violation in found.violations])
    assert codes == [["hbm_overflow"], []]
    assert fitting(build(training(chips=1, chip="v5e", global_batch=1))) == ""


def test_options_of_another_phase_are_refused() -> None:
    assert set(OF_PHASES) <= {field.name for field in dataclasses.fields(Request)}
    for option, (phases, _) in OF_PHASES.items():
        value: Any = {"kv": "fp8", "remat": "full", "offload": True}.get(option, 8)
        for phase in set(PHASES) - set(phases):
            lengths = training() if phase == "train" else request(phase=phase)
            asked = dataclasses.replace(lengths, **{option: value})
            with pytest.raises(UserError) as caught:
                build(asked)
            flag = "--" + option.replace("_", "-")
            assert str(caught.value).startswith(f"{flag} is for --phase {phases[0]}")
            assert f"not {phase}; " in str(caught.value)
    with pytest.raises(UserError, match="--microbatches .* --remat is for"):
        build(request(microbatches=2, remat="full"))


def test_help_lists_what_is_accepted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    lines = {w[0]: w for line in capsys.readouterr().out.splitlines() if (w := line.split())}
    for option, accepted in (("--weights", BITS), ("--kv", BITS), ("--activations", COMPUTE)):
        assert set(accepted) <= {word.strip(",") for word in lines[option]}
        for name in accepted:
            build(request(**{option[2:]: name}))
    assert "fp32" not in lines["--activations"]
    assert {"1", "1000000."} <= set(lines["--chips"])


def test_examples_of_the_documentation_can_run(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "validation.md").read_text("utf-8")
    text = page.partition("## One configuration")[2].replace("\\\n", " ")
    examples = [line.split() for line in text.splitlines() if line.startswith("dse predict ")]
    assert {words[words.index("--phase") + 1] for words in examples} >= {"train", "decode"}
    for words in examples:
        with pytest.raises(SystemExit) as caught:
            main(words[1:])
        assert caught.value.code == 0, words
        assert capsys.readouterr().out.splitlines()[1].startswith("fits: ")


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
