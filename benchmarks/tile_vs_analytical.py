"""The two rungs over random legal candidates: rank correlation, ratios, and time per candidate.

    python benchmarks/tile_vs_analytical.py [--study studies/llama31-70b-serving.yaml]
                                            [--candidates 1000] [--seed 0]

Candidates are legal rows over all knobs of the study, sampled and solved ones, drawn at random.
Printed are Spearman's rank correlation, the median and 80 % range of tile over analytical, and the
80 % quantile of its absolute logarithm (`hwmodel/data/rungs_apart.yaml`) for throughput, TTFT and
TPOT, the time of the tile rung per candidate on one core after compilation,
and the operators whose times differ most, with the cause that the comparison names most often.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

METRICS = ("tokens_per_s_per_chip", "ttft_s", "tpot_s")
COMPARED = 200
"""Candidates whose operators are compared one by one."""
SHOWN = 8


def legal_rows(assignment, count: int, seed: int) -> np.ndarray:
    """`count` random rows that are legal."""
    found: list[np.ndarray] = []
    while sum(map(len, found)) < count:
        rows = assignment.space.sample(20_000, seed)
        found.append(rows[assignment.evaluator(rows).worst <= 0])
        seed += 1
    return np.concatenate(found)[:count]


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Rank correlation; equal values share their mean rank."""
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def differences(assignment, rows: np.ndarray) -> list[tuple[str, bool, float, float, str]]:
    """Per phase and operator name: whether it is a collective, time at both rungs over all rows,
    and the cause of most of the difference. Largest differences first."""
    from dse.scoring.explain import operators

    analytical: dict[str, float] = defaultdict(float)
    tile: dict[str, float] = defaultdict(float)
    causes: dict[str, Counter[str]] = defaultdict(Counter)
    collectives = set()
    for row in rows:
        for op in operators(assignment, row):
            name = f"{op['phase']}: {op['name']}"
            analytical[name] += op["analytical_s"]
            tile[name] += op["time_s"]
            if op["network_s"] > 0:
                collectives.add(name)
            causes[name][op["cause"]] += abs(op["time_s"] - op["analytical_s"])
    found = [
        (n, n in collectives, analytical[n], tile[n], causes[n].most_common(1)[0][0]) for n in tile
    ]
    return sorted(found, key=lambda row: -abs(row[3] - row[2]))


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    root = Path(__file__).resolve().parents[1]
    parser.add_argument("--study", default=str(root / "studies" / "llama31-70b-serving.yaml"))
    parser.add_argument("--candidates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    import dataclasses

    from dse.scoring.assignment import build
    from dse.scoring.cache import enable_compilation_cache
    from dse.scoring.tile import corrected, played
    from dse.spec import load
    from dse.spec.study import TILE

    enable_compilation_cache()
    study = dataclasses.replace(load(arguments.study), fidelity=TILE)
    assignment = build(study, study.assignments[0])
    rows = legal_rows(assignment, arguments.candidates, arguments.seed)
    names = assignment.evaluator.metrics
    before = dict(zip(names, assignment.evaluator(rows).metrics, strict=True))
    played(assignment.evaluator, rows[:1])  # compiles
    began, cpu = time.perf_counter(), time.process_time()
    factors = played(assignment.evaluator, rows).factors
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    result = corrected(assignment.evaluator, rows, factors)
    after = dict(zip(names, result.metrics, strict=True))

    print(f"{len(rows)} legal candidates of {Path(arguments.study).name}, seed {arguments.seed}")
    print(
        f"{'metric':24} {'Spearman':>9} {'median ratio':>13} {'10 %':>7} {'90 %':>7} {'|log|':>7}"
    )
    for name in METRICS:
        ratio = after[name] / before[name]
        low, high = np.quantile(ratio, [0.1, 0.9])
        print(
            f"{name:24} {spearman(before[name], after[name]):9.4f} "
            f"{statistics.median(ratio):13.3f} {low:7.3f} {high:7.3f} "
            f"{np.quantile(np.abs(np.log(ratio)), 0.8):7.3f}"
        )
    print(
        f"TILE {1e3 * wall_s / len(rows):.2f} ms a candidate "
        f"({1e3 * cpu_s / len(rows):.2f} ms of processor time)"
    )
    compared = differences(assignment, rows[:COMPARED])
    total = sum(row[2] for row in compared)
    print(f"\noperators that differ most, sums over {min(COMPARED, len(rows))} candidates:")
    for kind, of_network in (("kernel", False), ("collective", True)):
        print(f"{kind:46} {'share':>6} {'ratio':>6}  cause")
        for name, _, closed, fine, cause in [r for r in compared if r[1] is of_network][:SHOWN]:
            ratio = fine / closed if closed > 0 else float("inf")
            print(f"{name:46} {closed / total:6.1%} {ratio:6.2f}  {cause}")


if __name__ == "__main__":
    main()
