"""Fit what only whole deployments show: `python -m dse.validation.fit_gpu_hosts`.

First the share of fixed times that stays where kernels follow each other, one for all, from the
time per output token of rows that are not held out. Then two host seconds, per step and per
sequence and step, for each backend and version that states one, from half of those rows
(`sha1(id) mod 2 == 0`). Writes `theta_thread_blocks.yaml` and `hwmodel/calibration/gpu/hosts.yaml`.
"""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path

import numpy as np

from dse.validation import gpu_serving
from dse.validation.fit_gpu import write
from hwmodel.theta import Theta, central

FEWEST = 8
"""Rows below which a stack gets no pair."""


def used(identity: str) -> bool:
    """Whether a row belongs to the half that pairs are fitted on."""
    return int(hashlib.sha1(identity.encode()).hexdigest(), 16) % 2 == 0


EXPOSED = "block_fixed_exposed_fraction"


def fit_exposed() -> float:
    """The share, of a grid of tenths, with the smallest mean of a loss that grows linearly for
    outliers."""
    shares = [round(0.1 * i, 1) for i in range(2, 11)]
    return min(shares, key=lambda share: _loss(central() | {EXPOSED: share}))


def _loss(theta: Theta) -> float:
    logs = [
        record.log_residual
        for record in gpu_serving.records(theta)
        if record.kind == "gpu_tpot" and not record.held_out and record.log_residual is not None
    ]
    return float(np.mean(np.sqrt(1 + (np.array(logs) / 0.1) ** 2)))


def fit(theta: Theta) -> dict[str, dict[str, float]]:
    """Pairs by stack; both are at least zero."""
    from scipy.optimize import least_squares

    rows: dict[str, list[tuple[float, float, float]]] = {}
    for record in gpu_serving.records(theta):
        known = record.predicted is not None and not record.stack.endswith(" nan")
        if known and record.kind == "gpu_tpot" and not record.held_out and used(record.id):
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
    """Fit and write the share and all pairs."""
    import yaml

    share = fit_exposed()
    write({EXPOSED: share})
    path = Path(str(resources.files("hwmodel").joinpath("calibration", "gpu", "hosts.yaml")))
    path.write_text(
        "# Host seconds per step and per sequence and step of GPU serving stacks, and the number\n"
        "# of rows they were fitted on; written by dse/validation/fit_gpu_hosts.py.\n"
        + yaml.safe_dump(fit(central() | {EXPOSED: share}), sort_keys=True)
    )


if __name__ == "__main__":
    main()
