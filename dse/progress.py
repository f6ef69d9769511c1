"""What a running study shows: a live line on a terminal, nothing anywhere else."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Snapshot:
    """State of a study after a generation. `_now`: in this run only; ask_s: seconds in the sampler.

    unique: distinct designs; hypervolume: best so far, normalised (see `pareto.Scale`).
    """

    done: int
    total: int
    done_now: int
    unique: int
    feasible: int
    hypervolume: float
    front: int
    ask_s: float
    wall_s: float
    wall_now_s: float
    executor: str

    @property
    def rate(self) -> float:
        """Trials per second in this run; 0 before the first generation."""
        return self.done_now / self.wall_now_s if self.wall_now_s > 0 else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds to go at this run's rate; None before the first generation."""
        return (self.total - self.done) / self.rate if self.rate > 0 else None

    @property
    def feasible_share(self) -> float:
        """Feasible trials over all trials."""
        return self.feasible / self.done if self.done else 0.0

    @property
    def unique_share(self) -> float:
        """Distinct designs over all trials."""
        return self.unique / self.done if self.done else 0.0

    @property
    def ask_share(self) -> float:
        """Share of the wall time spent in the sampler."""
        return self.ask_s / self.wall_s if self.wall_s > 0 else 0.0


class Progress(Protocol):
    """Listens to a running study."""

    def start(self, snapshot: Snapshot) -> None:
        """The study begins, or goes on."""
        ...

    def update(self, snapshot: Snapshot) -> None:
        """A generation was told."""
        ...

    def note(self, text: str) -> None:
        """One line that should stay visible."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


class Silent:
    """No display; notes go to standard error unless `quiet`."""

    def __init__(self, quiet: bool = True) -> None:
        self._quiet = quiet

    def start(self, snapshot: Snapshot) -> None:
        """See `Progress`."""

    def update(self, snapshot: Snapshot) -> None:
        """See `Progress`."""

    def note(self, text: str) -> None:
        """See `Progress`."""
        if not self._quiet:
            print(text, file=sys.stderr)

    def close(self) -> None:
        """See `Progress`."""


class Live:
    """A bar that is redrawn in place, with the numbers that tell whether a study goes well."""

    def __init__(self, console: Any = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            auto_refresh=True,
        )
        self._task: Any = None

    def start(self, snapshot: Snapshot) -> None:
        """See `Progress`."""
        self._task = self._bar.add_task("", total=snapshot.total, numbers="first generation")
        self._bar.start()
        if snapshot.done:
            self.update(snapshot)

    def update(self, snapshot: Snapshot) -> None:
        """See `Progress`."""
        self._bar.update(self._task, completed=snapshot.done, numbers=numbers(snapshot))

    def note(self, text: str) -> None:
        """See `Progress`."""
        self._bar.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """See `Progress`."""
        self._bar.stop()


def numbers(snapshot: Snapshot) -> str:
    """The numbers of a snapshot as one short line."""
    eta = "-" if snapshot.eta_s is None else f"{snapshot.eta_s:.0f} s"
    return (
        f"{snapshot.rate:.0f}/s  HV {snapshot.hypervolume:.4f}  front {snapshot.front}  "
        f"feasible {snapshot.feasible_share:.0%}  unique {snapshot.unique_share:.0%}  "
        f"sampler {snapshot.ask_share:.0%}  ETA {eta}"
    )


def make(*, quiet: bool) -> Progress:
    """Live on a terminal, otherwise silent; `quiet` is always silent."""
    if quiet:
        return Silent()
    return Live() if sys.stdout.isatty() else Silent(quiet=False)
