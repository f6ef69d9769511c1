"""Fit the constants of thread blocks to measured GPU kernels: `python -m dse.validation.fit_gpu`.

One family of constants at a time, on the rows that are not held out, in logarithms, within the
ranges that the data file states, with a loss that grows linearly for outliers. Writes the values
back to `hwmodel/data/theta_thread_blocks.yaml`; running it again changes nothing.
"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import numpy as np

from dse.validation.gpu_data import KINDS, table
from dse.validation.gpu_kernels import columns, seconds
from hwmodel.theta import central, constants

FAMILIES = {
    "gpu_gemm": ("block_gemm_", "block_requantise_"),
    "gpu_prefill_attention": ("block_prefill_", "block_ops_per_"),
    "gpu_decode_attention": ("block_decode_",),
    "gpu_moe": ("block_moe_",),
    "gpu_collective": ("block_collective_",),
}
"""Which constants each kind of kernel fits."""


def fit(kind: str) -> dict[str, float]:
    """Values of the constants of one kind that fit its rows that are not held out."""
    from scipy.optimize import least_squares

    known = constants()
    names = [
        n
        for n, c in known.items()
        if n.startswith(FAMILIES[kind]) and c.kind == "fitted" and c.low < c.high
    ]
    frame = table(kind)
    frame = frame[~frame["held_out"]]
    numbers, measured = columns(kind, frame), frame["measured_s"].to_numpy()
    theta = central()

    def residuals(logs: np.ndarray) -> np.ndarray:
        changed = theta | dict(zip(names, np.exp(logs), strict=True))
        return np.log(seconds(kind, numbers, changed) / measured)

    low, high = (np.log([getattr(known[n], end) for n in names]) for end in ("low", "high"))
    start = np.clip(np.log([known[n].value for n in names]), low + 1e-6, high - 1e-6)
    found = least_squares(
        residuals, start, bounds=(low, high), loss="soft_l1", f_scale=0.1, diff_step=1e-3
    )
    return dict(zip(names, np.exp(found.x).tolist(), strict=True))


def write(values: dict[str, float]) -> None:
    """Put the values into the data file, four digits each, leaving all else as it is."""
    path = Path(str(resources.files("hwmodel").joinpath("data/theta_thread_blocks.yaml")))
    text = path.read_text()
    for name, value in values.items():
        text, found = re.subn(
            rf"(^{name}:\s*\{{value: )[^,]+", rf"\g<1>{value:.4g}", text, flags=re.MULTILINE
        )
        if found != 1:
            raise ValueError(f"{path.name}: no entry '{name}'")
    path.write_text(text)


def main() -> None:
    """Fit every family and print the errors."""
    fitted: dict[str, float] = {}
    for kind in KINDS:
        fitted |= fit(kind)
        frame = table(kind)
        predicted = seconds(kind, columns(kind, frame), central() | fitted)
        error = np.abs(predicted / frame["measured_s"].to_numpy() - 1)
        held = frame["held_out"].to_numpy()
        print(
            f"{kind:24s} n {len(frame):5d}  median {np.median(error):.3f}  p90 "
            f"{np.quantile(error, 0.9):.3f}  held out {np.median(error[held]):.3f}"
        )
    write(fitted)


if __name__ == "__main__":
    main()
