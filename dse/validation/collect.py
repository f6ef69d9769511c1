"""The records that a reader asked for, from every source of measurements."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dse.errors import UserError
from dse.validation.gaps import missed, outside
from dse.validation.record import KINDS, Record
from search_spaces.nearest import nearest

if TYPE_CHECKING:
    from dse.validation.measurements import Measurement
    from dse.validation.pool import Predicted


@dataclass(frozen=True)
class Wanted:
    """Filters; an empty one lets everything pass. sources: parts of a source's name."""

    kinds: tuple[str, ...] = ()
    tpus: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @classmethod
    def of(cls, kinds: Iterable[str], tpus: Iterable[str], sources: Iterable[str]) -> Wanted:
        """Checked filters, chips under any of their names.

        Raises:
            UserError: an unknown kind or chip; the message names the nearest.
        """
        from hwmodel import presets

        for kind in kinds:
            if kind not in KINDS:
                raise UserError(f"--kind: no kind is called {kind!r}; {_kind_meant(kind)}")
        try:
            chips = tuple(presets.canonical(tpu) for tpu in tpus)
        except presets.ChipError as error:
            raise UserError(f"--tpu: {error}") from None
        return cls(tuple(kinds), chips, tuple(sources))

    def place(self, source: str, tpu: str) -> bool:
        """Whether rows of a source and chip are wanted."""
        named = not self.sources or any(part in source for part in self.sources)
        return named and (not self.tpus or tpu in self.tpus)

    def kind(self, kind: str) -> bool:
        """Whether rows of a kind are wanted."""
        return not self.kinds or kind in self.kinds

    def __call__(self, record: Record) -> bool:
        """Whether a record is wanted."""
        return self.place(record.source, record.tpu) and self.kind(record.kind)

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self == Wanted()

    @property
    def gpus(self) -> bool:
        """Whether any row of a GPU can be wanted; predicting those takes longest."""
        kinds = any(kind.startswith("gpu") for kind in self.kinds) or not self.kinds
        return kinds and (not self.tpus or any(tpu[0] in "hb" for tpu in self.tpus))


def _kind_meant(kind: str) -> str:
    """The nearest kind, else all of them: the list is the only place where a reader finds them."""
    near = nearest(kind, KINDS)
    return f"did you mean {near!r}?" if near else f"kinds are {', '.join(KINDS)}"


def collect(
    file: Path | None, wanted: Wanted, *, with_host: bool = True
) -> tuple[list[Record], list[Record]]:
    """Records of the user's file, or of all published measurements, TPUs first; and with
    `with_host` those of them that a stack's host time was added to, predicted without it.

    Raises UserError for a file that cannot be read.
    """
    from dse.validation.hosts import pairs

    if file is not None and file.is_dir():
        raise UserError(f"--measurements: {file} is a folder; name a CSV file in it")
    if file is not None and not file.is_file():
        raise UserError(f"--measurements: there is no file {file}")
    found = _predicted(file, wanted)
    if not with_host:
        return [*found.without_host, *found.gpu], []
    plain = [r for r in found.without_host if r.stack in pairs()]
    return [*found.with_host, *found.gpu], plain


def explained(
    file: Path | None, records: Sequence[Record], *, with_host: bool = True
) -> list[Record]:
    """The records, those of TPU rows that miss with what takes their time: a published row its
    target, a user's its interval.

    Published rows are explained once and then kept.
    """
    from dse.validation import bound, measurements, saved

    misses = missed if file is None else outside
    if not any(map(misses, records)):
        return list(records)
    if file is not None:
        return bound.explain(records, measurements.read(file), with_host, outside)
    name = "bound" if with_host else "bound_without_host"
    known = {r.id: r.bound_by for r in saved.load(name) or []}
    ready = [dataclasses.replace(r, bound_by=known.get(r.id, "")) for r in records]
    own = [m for m in measurements.published() if m.id not in known]
    fresh = bound.explain(ready, own, with_host)
    if any(r.bound_by and r.id not in known for r in fresh):
        unseen = [r for r in saved.load(name) or [] if r.id not in {f.id for f in fresh}]
        saved.keep(name, [*unseen, *(r for r in fresh if r.bound_by)])
    return fresh


def left_out(wanted: Wanted) -> list[Record]:
    """Every TPU row under constants fitted without any row of the same chip; takes minutes."""
    from dse.validation.fit import leave_one_generation_out

    folds = leave_one_generation_out()
    return [record for records in folds.values() for record in records if wanted(record)]


def _predicted(file: Path | None, wanted: Wanted) -> Predicted:
    """The wanted rows; published ones are predicted once and then kept."""
    from dse.validation import measurements, saved
    from dse.validation.pool import Predicted, predict

    if file is not None:
        return _only(wanted, predict(_placed(measurements.read(file), wanted)))
    kept = {name: saved.load(name) for name in SAVED}
    if not wanted.gpus:
        kept["gpu"] = kept["gpu"] or []
    if any(records is None for records in kept.values()):
        tpus = kept["with_host"] is None or kept["without_host"] is None
        rows = _placed(measurements.published(), wanted) if tpus else []
        fresh = predict(rows, gpus=kept["gpu"] is None)
        whole = wanted.whole
        for name in SAVED:
            if kept[name] is None or (tpus and name != "gpu"):
                kept[name] = getattr(fresh, name)
                if name == "gpu" or whole:
                    saved.keep(name, getattr(fresh, name))
    return _only(wanted, Predicted(**{name: records or [] for name, records in kept.items()}))


SAVED = ("with_host", "without_host", "gpu")
"""Lists of records that are kept, fields of `Predicted`."""


def _placed(rows: Sequence[Measurement], wanted: Wanted) -> list[Measurement]:
    """Rows of wanted sources and chips, and of wanted kinds as far as that is known before they are
    predicted."""
    from dse.validation.predictor import prepare

    found = [row for row in rows if wanted.place(row.source, row.tpu)]
    if wanted.kinds:
        cases = ((row, prepare(row).case) for row in found)
        found = [row for row, case in cases if case is None or wanted.kind(case.kind)]
    return found


def _only(wanted: Wanted, found: Predicted) -> Predicted:
    from dse.validation.pool import Predicted

    lists = {name: [r for r in getattr(found, name) if wanted(r)] for name in SAVED}
    return Predicted(**lists)
