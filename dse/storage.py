"""The results of a study on disk: one directory with one writer and an append-only log.

`study.yaml` is the study file as it was run, `meta.json` what its results mean, `log.jsonl` the
results. Every line of the log is a JSON object that ends in its own checksum. A chunk of scores is
written when it arrives, a generation when all of its trials are told, and the file is synced once a
generation, so a crash loses at most the chunks in flight. Readers take no lock: a line counts once
it is complete.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from dse.errors import StoreError
from dse.trials import Evaluated, Generation, Trial

FORMAT = 1
LOG, META, STUDY, LOCK = "log.jsonl", "meta.json", "study.yaml", "writer.lock"
_CHECKSUM = ',"crc32":"%08x"}'
_CHECKSUM_LENGTH = len(_CHECKSUM % 0)


@dataclass
class Log:
    """Everything a log holds. torn_bytes: length of an unfinished last line (a crash); 0 = none.

    evaluated: by design, those of unfinished generations included. known: reference scores by name.
    """

    generations: list[Generation] = field(default_factory=list)
    evaluated: dict[str, Evaluated] = field(default_factory=dict)
    known: dict[str, Evaluated] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    torn_bytes: int = 0

    @property
    def trials(self) -> list[Trial]:
        """Told trials, by number."""
        return [trial for generation in self.generations for trial in generation.trials]


@dataclass(frozen=True)
class Store:
    """The directory of one study's results."""

    directory: Path

    @property
    def exists(self) -> bool:
        """Whether results were begun here."""
        return (self.directory / META).exists()

    def meta(self) -> dict[str, Any]:
        """What `create` wrote. Raises StoreError when it is missing or unreadable."""
        path = self.directory / META
        try:
            meta = json.loads(path.read_text(encoding="utf-8"))
            version = meta["format"]
        except FileNotFoundError:
            raise StoreError(f"{self.directory} holds no study: {META} is missing") from None
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path} is damaged ({error}); nothing was changed. The trials are in {LOG}: "
                f"move {META} away and run the study again to write it anew"
            ) from None
        if version != FORMAT:
            raise StoreError(
                f"{path} has format {version}, this version reads {FORMAT}; "
                "use the version that wrote it, or a new study name"
            )
        return dict(meta)

    def study_text(self) -> str:
        """The study file as it was last run."""
        return (self.directory / STUDY).read_text(encoding="utf-8")

    def create(self, meta: Mapping[str, Any], study_text: str) -> None:
        """Begin (or describe anew) the results; each file is replaced whole or not at all."""
        self.directory.mkdir(parents=True, exist_ok=True)
        replace_file(self.directory / STUDY, study_text)
        replace_file(self.directory / META, json.dumps({"format": FORMAT, **meta}, indent=1) + "\n")

    def read(self) -> Log:
        """The log so far. Raises StoreError for a damaged line, naming it and the way on."""
        path = self.directory / LOG
        return read_log(path) if path.exists() else Log()

    def running(self) -> bool:
        """Whether a process on this machine is writing these results (asked without locking)."""
        try:
            pid = int((self.directory / LOCK).read_text())
            os.kill(pid, 0)
        except (FileNotFoundError, ValueError, ProcessLookupError):
            return False
        except PermissionError:
            return True
        return True


class Writer:
    """The one process that appends to a study's log; a context manager."""

    def __init__(self, store: Store) -> None:
        """Take the writer's lock. Raises StoreError when another process holds it."""
        store.directory.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(store.directory / LOCK)
        self._path = store.directory / LOG
        self._file: IO[bytes] | None = None

    def open(self, log: Log) -> Path | None:
        """Open for appending after what `log` read. An unfinished last line is moved to a file of
        its own, whose path is returned."""
        torn = None
        if log.torn_bytes:
            torn = _set_aside(self._path, log.size, log.torn_bytes)
        self._file = open(self._path, "ab")
        return torn

    def session(self, facts: Mapping[str, Any]) -> None:
        """One line about this run: when, with what versions and workers."""
        self._append({"kind": "session", **facts})

    def known(self, rows: Mapping[str, Evaluated]) -> None:
        """Scores of known chips."""
        self._append({"kind": "known", "rows": {k: v.to_json() for k, v in rows.items()}})

    def scores(self, rows: Sequence[Evaluated], seconds: float) -> None:
        """A chunk of newly evaluated designs."""
        self._append({"kind": "scores", "seconds": seconds, "rows": [r.to_json() for r in rows]})

    def generation(self, generation: Generation) -> None:
        """A generation that was told; synced to disk before this returns."""
        self._append(
            {
                "kind": "generation",
                "index": generation.index,
                "ask_s": generation.ask_s,
                "wall_s": generation.wall_s,
                "trials": [
                    {
                        "number": t.number,
                        "indices": t.indices,
                        "values": t.values,
                        "complete": t.complete,
                        "cached": t.cached,
                        "design": t.evaluated.design,
                    }
                    for t in generation.trials
                ],
            }
        )
        assert self._file is not None
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Sync, and release the lock."""
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._file.close()
        self._lock.truncate(0)
        self._lock.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _append(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None, "open() first"
        self._file.write(encode(record))
        self._file.flush()


def encode(record: Mapping[str, Any]) -> bytes:
    """One line of the log: JSON whose last member is the CRC-32 of everything before it."""
    body = json.dumps(record, separators=(",", ":"), allow_nan=False)[:-1].encode()
    return body + (_CHECKSUM % zlib.crc32(body)).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The record of one line (without its newline). Raises ValueError when it was altered."""
    body, checksum = line[:-_CHECKSUM_LENGTH], line[-_CHECKSUM_LENGTH:]
    if checksum != (_CHECKSUM % zlib.crc32(body)).encode():
        raise ValueError("its checksum does not match")
    record = json.loads(line)
    return dict(record)


def read_log(path: Path) -> Log:
    """Read a log. Raises StoreError naming the first damaged line, unless it is an unfinished last
    one, which a crash leaves behind and `Log.torn_bytes` reports."""
    log = Log()
    generations: dict[int, Generation] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line.endswith(b"\n"):
            log.torn_bytes = len(line)
            break
        try:
            _apply(decode(line[:-1]), log, generations)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(
                f"{path}, line {number} is damaged: {error}. Nothing was changed. Lines 1 to "
                f"{number - 1} are sound and hold {_sound(generations)} finished trials; to go on "
                f"from there:\n  cp {LOG} {LOG}.damaged && head -n {number - 1} {LOG}.damaged > "
                f"{LOG}\nin {path.parent}"
            ) from None
        log.size += len(line)
    log.generations = [generations[index] for index in sorted(generations)]
    return log


def _apply(record: Mapping[str, Any], log: Log, generations: dict[int, Generation]) -> None:
    kind = record["kind"]
    if kind == "scores":
        for row in map(Evaluated.from_json, record["rows"]):
            log.evaluated[row.design] = row
    elif kind == "generation":
        index = record["index"]
        trials = tuple(
            Trial(
                row["number"],
                index,
                tuple(row["indices"]),
                tuple(row["values"]),
                row["complete"],
                row["cached"],
                log.evaluated[row["design"]],
            )
            for row in record["trials"]
        )
        # The last generation may be written again, longer, when the number of trials is raised.
        generations[index] = Generation(index, trials, record["ask_s"], record["wall_s"])
    elif kind == "known":
        log.known = {name: Evaluated.from_json(row) for name, row in record["rows"].items()}
    elif kind == "session":
        log.sessions.append(dict(record))
    else:
        raise ValueError(f"unknown kind {kind!r}")


def _sound(generations: Mapping[int, Generation]) -> int:
    return sum(len(generation.trials) for generation in generations.values())


def _lines(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from file


def replace_file(path: Path, text: str) -> None:
    """Write a file whole or not at all, synced."""
    temporary = path.with_name(path.name + ".new")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def _set_aside(path: Path, keep: int, torn: int) -> Path:
    """Move the last `torn` bytes of the log to the first free `log.jsonl.torn-N`."""
    target = next(
        candidate
        for n in range(1, 10**6)
        if not (candidate := path.with_name(f"{path.name}.torn-{n}")).exists()
    )
    with open(path, "r+b") as file:
        file.seek(keep)
        target.write_bytes(file.read(torn))
        file.truncate(keep)
        os.fsync(file.fileno())
    return target


def _lock(path: Path) -> IO[str]:
    import fcntl

    file = open(path, "a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read() or "another process"
        file.close()
        raise StoreError(
            f"{path.parent} is being written by process {owner}; wait for it, or stop it"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file
