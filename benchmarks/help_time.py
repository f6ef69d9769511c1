"""Seconds that `dse --help` takes, as a user waits for it: a fresh process each time.

    python benchmarks/help_time.py [repetitions]

Prints `HELP <median seconds> of <repetitions> runs (<fastest> to <slowest>)`. The first run, which
may have to write bytecode, is not counted.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def seconds() -> float:
    """Wall time of one `dse --help`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "dse", "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Time the command and print one line."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    seconds()
    times = [seconds() for _ in range(repetitions)]
    print(
        f"HELP {statistics.median(times):.3f} s, median of {repetitions} runs "
        f"({min(times):.3f} to {max(times):.3f})"
    )


if __name__ == "__main__":
    main()
