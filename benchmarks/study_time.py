"""Time and memory of a whole study, from the command to its front, in a fresh process.

    python benchmarks/study_time.py [--study studies/llama31-70b-serving.yaml] [--warm]

Runs `dse run` with an empty compilation cache (with --warm a second time, with the cache filled)
and prints wall seconds, the seconds until the first trial could be asked (imports, reading the
study, compiling), and the peak memory of the process. The peer, in the same run, is Optuna's own
`Study.optimize` with the same sampler and the same scorer, one trial at a time, on a few trials.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PEER_TRIALS = 40


def run(study: str, results: Path, cache: Path) -> tuple[float, str]:
    """Wall seconds and output of one `dse run`."""
    environment = {**os.environ, "DSE_CACHE_DIR": str(cache)}
    command = [sys.executable, "-m", "dse", "run", study, "--results", str(results)]
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def import_seconds(study: str, cache: Path) -> tuple[float, float]:
    """Seconds to import and read the study, and to build the scorer and score one generation."""
    script = (
        "import time; t = time.perf_counter(); from dse.spec import load; "
        f"spec = load({study!r}); from dse.evaluate import Scorer; scorer = Scorer(spec); "
        "a = time.perf_counter() - t; "
        "scorer.score(spec.space().sample(1, 0)); print(a, time.perf_counter() - t - a)"
    )
    environment = {**os.environ, "DSE_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    start, first = done.stdout.split()
    return float(start), float(first)


def optuna_optimize(study: str, cache: Path) -> float:
    """Seconds per trial of `optuna.Study.optimize` with the same scorer."""
    os.environ["DSE_CACHE_DIR"] = str(cache)
    import numpy as np
    import optuna

    from dse.evaluate import Scorer
    from dse.spec import load

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spec = load(study)
    scorer = Scorer(spec)
    space = spec.space()
    scorer.score(space.sample(1, 0))

    def objective(trial: optuna.Trial) -> tuple[float, ...]:
        row = [
            trial.suggest_int(name, 0, n - 1)
            for name, n in zip(space.names, space.cardinalities, strict=True)
        ]
        score = scorer.score(space.canonical(np.array([row], np.int32)))[0]
        return tuple(score.metrics.get(o.text, 0.0) for o in spec.objectives)

    directions = [o.direction for o in spec.objectives]
    peer = optuna.create_study(directions=directions, sampler=optuna.samplers.NSGAIISampler(seed=1))
    began = time.perf_counter()
    peer.optimize(objective, n_trials=PEER_TRIALS)
    return (time.perf_counter() - began) / PEER_TRIALS


def main() -> None:
    """Print STUDY, START and PEER lines."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--study", default="studies/llama31-70b-serving.yaml")
    parser.add_argument("--warm", action="store_true", help="run again with the cache filled")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for label in ("cold", "warm") if options.warm else ("cold",):
            seconds, output = run(options.study, folder / label, folder / "cache")
            summary = next((line for line in output.splitlines() if "trials," in line), "")
            print(f"STUDY {label} cache {seconds:.1f} s from command to front; {summary}")
        start, first = import_seconds(options.study, folder / "cache")
        print(f"START imports and study {start:.1f} s, first score with a warm cache {first:.1f} s")
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"MEMORY largest process {peak:.0f} MiB")
        each = optuna_optimize(options.study, folder / "cache")
        print(f"PEER Optuna Study.optimize, same scorer: {each * 1000:.0f} ms a trial")


if __name__ == "__main__":
    main()
