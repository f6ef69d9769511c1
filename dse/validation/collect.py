"""The records that a reader asked for, from every source of measurements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dse.errors import UserError
from dse.validation.record import KINDS, Record


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
        from search_spaces.nearest import suggestion

        for kind in kinds:
            if kind not in KINDS:
                raise UserError(f"--kind: no kind is called {kind!r}; {suggestion(kind, KINDS)}")
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
    def gpus(self) -> bool:
        """Whether any row of a GPU can be wanted; predicting those takes longest."""
        kinds = any(kind.startswith("gpu") for kind in self.kinds) or not self.kinds
        return kinds and (not self.tpus or any(tpu[0] in "hb" for tpu in self.tpus))


def collect(file: Path | None, wanted: Wanted, *, with_host: bool = True) -> list[Record]:
    """Records of the user's file, or of all published measurements, TPUs first.

    with_host: add the host time of serving stacks. Raises UserError for a file that cannot be read.
    """
    if file is not None and not file.is_file():
        raise UserError(f"--measurements: there is no file {file}")
    found = _tpu_records(file, wanted, with_host)
    if file is None and wanted.gpus:
        from dse.validation import gpu, saved

        found += [record for record in saved.through("gpu", gpu.records) if wanted(record)]
    return found


def without_host(file: Path | None, records: Sequence[Record], wanted: Wanted) -> list[Record]:
    """The records that a stack's host time was added to, predicted without it."""
    from dse.validation.hosts import pairs

    stacks = {r.stack for r in records} & set(pairs())
    if not stacks:
        return []
    return [r for r in _tpu_records(file, wanted, with_host=False) if r.stack in stacks]


def left_out(wanted: Wanted) -> list[Record]:
    """Every TPU row under constants fitted without any row of the same chip; takes minutes."""
    from dse.validation.fit import leave_one_generation_out

    folds = leave_one_generation_out()
    return [record for records in folds.values() for record in records if wanted(record)]


def _tpu_records(file: Path | None, wanted: Wanted, with_host: bool) -> list[Record]:
    from dse.scoring.cache import enable_compilation_cache
    from dse.validation import measurements, predictor, saved
    from hwmodel import theta

    name = "tpu" if with_host else "tpu-without-host"
    if file is None:
        known = saved.load(name)
        if known is None and wanted == Wanted():
            known = predictor.records(None, with_host=with_host)
            saved.keep(name, known)
        if known is not None:
            return [record for record in known if wanted(record)]
    enable_compilation_cache()
    rows = measurements.read(file) if file else measurements.published()
    values = theta.central()
    found = []
    for row in rows:
        if not wanted.place(row.source, row.tpu):
            continue
        prepared = predictor.prepare(row)
        if prepared.case is None or wanted.kind(prepared.case.kind):
            record = predictor.record(prepared, values, with_host)
            found += [record] if wanted.kind(record.kind) else []
    return found
