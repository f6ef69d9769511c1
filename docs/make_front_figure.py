"""Draw docs/front.png: the Pareto front of a finished study, with the known chips beside it.

    python docs/make_front_figure.py [STUDY] [--output FILE]

STUDY is what `dse front` takes (default: studies/llama31-70b-serving.yaml). Needs matplotlib, which
the `dev` extra brings.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import dse

X, Y, COLOUR = "usd_per_mtoken", "tokens_per_s_per_chip", "quality_loss_nats"
LABELS = {
    X: "modelled cost, USD per million output tokens",
    Y: "output tokens per second and chip",
    COLOUR: "quality loss, nats per token (pessimistic end)",
}


def draw(study: str, output: Path) -> None:
    """Write the figure of `study`, whose objectives must include the three metrics above."""
    points = dse.open_results(study).front(known=True)
    known = points["known"].fillna("") != ""
    front = points[~known]
    figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
    dots = axes.scatter(
        front[X], front[Y], c=front[COLOUR], cmap="viridis", s=36, edgecolor="black", linewidth=0.4
    )
    figure.colorbar(dots, label=LABELS[COLOUR])
    for _, point in points[known].iterrows():
        axes.scatter(point[X], point[Y], marker="*", s=220, color="crimson", zorder=3)
        axes.annotate(
            point["known"], (point[X], point[Y]), (-10, 8), textcoords="offset points", ha="right"
        )
    axes.set(xscale="log", yscale="log", xlabel=LABELS[X], ylabel=LABELS[Y])
    axes.grid(True, which="both", linewidth=0.3)
    axes.set_title(f"{Path(study).stem}: {len(front)} points of the front", fontsize=11)
    figure.savefig(output, dpi=130)


def main() -> None:
    """Read the arguments and draw."""
    parser = argparse.ArgumentParser(description="Draw the Pareto front of a finished study.")
    parser.add_argument("study", nargs="?", default="studies/llama31-70b-serving.yaml")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("front.png"))
    arguments = parser.parse_args()
    draw(arguments.study, arguments.output)


if __name__ == "__main__":
    main()
