"""Speed of the analytical rung: random legal candidates over all knobs, indices in, metrics out.

    python benchmarks/analytical_rate.py [--candidates 1000000] [--repeats 5]

For each model a study over every knob that applies to it is written, random rows are drawn and
filtered to legal ones, and scored by two threads through the same compiled function that studies
use. The time is from int32 knob indices in host memory to float64 metrics in host memory, after
compilation; the compilation is timed apart, with the on-disk cache empty. The best and the median
of the repeats are printed, because the machine is usually shared.

Peers, in the same run and on the same rows: the same equations called for one candidate at a time,
and a plain vectorised NumPy roofline (max of FLOPs / peak and bytes / bandwidth; no tiles, no
network, no energy, area, cost or legality), which shows what the detail costs.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

MODELS = {
    "Llama-3.1-70B": "llama3__Meta-Llama-3.1-70B",
    "Qwen3-235B-A22B": "qwen3__Qwen3-235B-A22B",
    "DeepSeek-V3": "deepseek3__DeepSeek-V3",
}
THREADS = 2


def study_over_all_knobs(model: str, folder: Path):
    """A checked study whose space holds every knob that applies to `model`."""
    from dse.spec import load
    from models.huggingface import load as load_model
    from search_spaces.applies import lacking
    from search_spaces.catalog import entries

    architecture = load_model(model)
    sections = {
        section: [
            n
            for n, e in entries(section).items()
            if lacking(e, architecture) is None and e.workload != "train"
        ]
        for section in ("chip", "model", "deployment")
    }
    bands = {"head_dim", "kv_heads", "layer_share", "window_share", "kv_format", "nm_sparsity"}
    assumed = []
    for name in sections["model"]:
        if name in bands:
            labels = [v for v in entries("model")[name].default if v not in _NEUTRAL]
            pairs = ", ".join(f"'{v}': [0.0, 0.02]" for v in labels)
            assumed.append(f"    {name}: {{{pairs}}}")
    lines = ["chip:", "  base: v6e", "  knobs:"]
    lines += [f"    {n}: default" for n in sections["chip"]]
    lines += ["model:", f"  config: {model}", "  training_tokens: 15e12", "  knobs:"]
    lines += [f"    {n}: default" for n in sections["model"]]
    lines += ["  assume:", *assumed] if assumed else []
    lines += ["workload: {prompt_tokens: 4000, output_tokens: 1000}", "deployment:", "  knobs:"]
    lines += [f"    {n}: default" for n in sections["deployment"]]
    lines += [
        "objectives:",
        "  - maximize: tokens_per_s_per_chip",
        "  - minimize: quality_loss_nats",
    ]
    path = folder / f"{model}.yaml"
    path.write_text("\n".join(lines) + "\n")
    return load(path)


_NEUTRAL = ("released", 0, 1, "0", "1", "bf16", "dense")


def legal_rows(assignment, count: int, seed: int) -> np.ndarray:
    """At least `count` random legal rows, repeated if drawing them takes too long."""
    found: list[np.ndarray] = []
    total = 0
    while total < min(count, 200_000):
        rows = assignment.space.sample(100_000, seed)
        seed += 1
        rows = rows[assignment.evaluator(rows).worst <= 0]
        found.append(rows)
        total += len(rows)
    return np.resize(np.concatenate(found), (count, found[0].shape[1]))


def rate(assignment, rows: np.ndarray, repeats: int) -> list[float]:
    """Candidates per second of each repeat, two threads over fixed chunks."""
    from dse.scoring.batch import CHUNK_ROWS

    chunks = [rows[i : i + CHUNK_ROWS] for i in range(0, len(rows), CHUNK_ROWS)]
    rates = []
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(repeats):
            began = time.perf_counter()
            done = sum(
                r.metrics.shape[1] for r in pool.map(assignment.evaluator, chunks, chunksize=1)
            )
            rates.append(done / (time.perf_counter() - began))
    return rates


def compile_seconds() -> list[float]:
    """A list that grows by the seconds of each compilation."""
    import jax

    seconds: list[float] = []

    def heard(event: str, duration: float, **_: object) -> None:
        if event.endswith("backend_compile_duration"):
            seconds.append(duration)

    jax.monitoring.register_event_duration_secs_listener(heard)
    return seconds


def one_at_a_time(assignment, rows: np.ndarray) -> float:
    """Candidates per second when the compiled batch is called with one candidate each time."""
    began = time.perf_counter()
    for row in rows[:30]:
        assignment.evaluator(row[None, :])
    return 30 / (time.perf_counter() - began)


def numpy_roofline(architecture, rows: np.ndarray) -> float:
    """Candidates per second of a two-line roofline on the same number of rows."""
    from models.architecture import kv_bytes_per_token, parameters_active, parameters_total

    rng = np.random.default_rng(0)
    n = len(rows)
    peak, bandwidth = rng.uniform(1e14, 1e15, n), rng.uniform(1e12, 8e12, n)
    batch, chips = rng.integers(1, 512, n), 2.0 ** rng.integers(0, 6, n)
    active, total = float(parameters_active(architecture)), float(parameters_total(architecture))
    kv = float(kv_bytes_per_token(architecture)) * 4500
    began = time.perf_counter()
    decode = np.maximum(2 * active * batch / peak, (2 * total + kv * batch) / bandwidth) / chips
    prefill = np.maximum(2 * active * 4000 / peak, 2 * total / bandwidth) / chips
    tokens_per_s = batch * 1000 / (batch * prefill + 1000 * decode)
    seconds = time.perf_counter() - began
    assert np.isfinite(tokens_per_s).all()
    return n / seconds


def main() -> None:
    """Print the machine, then RATE, COMPILE and PEER lines per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["DSE_CACHE_DIR"] = scratch
        from dse.scoring.assignment import build
        from dse.scoring.cache import enable_compilation_cache

        enable_compilation_cache()
        compiling = compile_seconds()
        print(f"machine {platform.processor() or platform.machine()}, {os.cpu_count()} CPUs")
        for label, model in MODELS.items():
            study = study_over_all_knobs(model, Path(scratch))
            assignment = build(study, study.assignments[0])
            compiling.clear()
            began = time.perf_counter()
            assignment.evaluator(assignment.space.sample(1, 0))
            first = time.perf_counter() - began
            print(f"COMPILE {label} {sum(compiling):.1f} s; first result after {first:.1f} s")
            rows = legal_rows(assignment, options.candidates, seed=1)
            rates = rate(assignment, rows, options.repeats)
            print(f"KNOBS {label} {len(assignment.space.knobs)}")
            print(f"RATE {label} {max(rates):.0f}")
            print(f"MEDIAN {label} {statistics.median(rates):.0f}")
            print(f"PEER {label} one candidate per call {one_at_a_time(assignment, rows):.0f}")
            roofline = numpy_roofline(study.assignments[0].architecture, rows)
            print(f"PEER {label} NumPy roofline {roofline:.0f}", flush=True)


if __name__ == "__main__":
    main()
