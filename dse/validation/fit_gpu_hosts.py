"""Fit the host time of GPU serving stacks: `python -m dse.validation.fit_gpu_hosts`.

Two seconds, per step and per sequence and step, for each backend and version that states one, from
the time per output token of half of its rows that are not held out (`sha1(id) mod 2 == 0`). Writes
`hwmodel/calibration/gpu/hosts.yaml`.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

import numpy as np

from dse.validation import gpu_serving
from hwmodel.theta import central

FEWEST = 8
"""Rows below which a stack gets no pair."""


def used(identity: str) -> bool:
    """Whether a row belongs to the half that pairs are fitted on."""
    return int(hashlib.sha1(identity.encode()).hexdigest(), 16) % 2 == 0


def fit() -> dict[str, dict[str, float]]:
    """Pairs by stack; both are at least zero."""
    from scipy.optimize import least_squares

    rows: dict[str, list[tuple[float, float, float]]] = {}
    for record in gpu_serving.records(central(), with_host=False):
        known = record.predicted is not None and not record.stack.endswith(" nan")
        if known and record.notes == "tpot" and not record.held_out and used(record.id):
            numbers = (record.predicted, record.measured, record.features["log_sequences"])
            rows.setdefault(record.stack, []).append(numbers)  # type: ignore[arg-type]
    pairs = {}
    for stack, found in sorted(rows.items()):
        if len(found) < FEWEST:
            continue
        device, measured, logs = np.array(found).T
        sequences = np.exp(logs)

        def residuals(
            x: np.ndarray,
            device: np.ndarray = device,
            measured: np.ndarray = measured,
            sequences: np.ndarray = sequences,
        ) -> np.ndarray:
            return np.log((device + 1e-3 * (x[0] + x[1] * sequences)) / measured)

        best = least_squares(
            residuals, [0.1, 0.001], bounds=(0, np.inf), loss="soft_l1", f_scale=0.1
        )
        step, sequence = (round(1e-3 * float(v), 7) for v in best.x)
        pairs[stack] = {"step_s": step, "sequence_s": sequence, "rows": len(found)}
    return pairs


def main() -> None:
    """Fit and write all pairs."""
    import yaml

    path = Path(str(resources.files("hwmodel").joinpath("calibration", "gpu", "hosts.yaml")))
    path.write_text(
        "# Host seconds per step and per sequence and step of GPU serving stacks, and the number\n"
        "# of rows they were fitted on; written by dse/validation/fit_gpu_hosts.py.\n"
        + yaml.safe_dump(fit(), sort_keys=True)
    )


if __name__ == "__main__":
    main()
