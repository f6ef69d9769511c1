"""The log: what a crash, a damaged disk and a second writer do to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dse.errors import StoreError
from dse.score import Score
from dse.storage import LOG, Store, Writer, decode, encode, read_log
from dse.trials import Evaluated, Generation, Trial


def design(name: str) -> Evaluated:
    return Evaluated(name, {"k": "1"}, Score({"m": 1.5}), {"m <= 2": -0.25})


def generation(index: int, names: list[str], start: int = 0) -> Generation:
    trials = [
        Trial(start + i, index, (i, 0), (1.5,), True, False, design(name))
        for i, name in enumerate(names)
    ]
    return Generation(index, tuple(trials), 0.1, 0.2)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "s")
    with Writer(store) as writer:
        writer.open(store.read())
        writer.session({"started": "now"})
        writer.known({"v6e as it is": design("")})
        for index, names in enumerate((["a", "b"], ["c", "d"])):
            writer.scores([design(name) for name in names], 0.5)
            writer.generation(generation(index, names, 2 * index))
    return store


def test_log_round_trip(store: Store) -> None:
    log = store.read()
    assert [t.number for t in log.trials] == [0, 1, 2, 3]
    assert log.trials[2] == generation(1, ["c", "d"], 2).trials[0]
    assert log.known["v6e as it is"].score.metrics == {"m": 1.5}
    assert log.torn_bytes == 0


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_unfinished_last_line_is_recovered_and_kept_aside(store: Store, cut: int) -> None:
    path = store.directory / LOG
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    log = store.read()
    assert [t.number for t in log.trials] == [0, 1]
    assert set(log.evaluated) == {"a", "b", "c", "d"}  # the second generation's scores are there
    with Writer(store) as writer:
        torn = writer.open(log)
        writer.generation(generation(1, ["c", "d"], 2))
    assert torn is not None
    assert whole[:-cut].endswith(torn.read_bytes())
    assert [t.number for t in store.read().trials] == [0, 1, 2, 3]


def test_a_flipped_digit_is_noticed_and_nothing_is_overwritten(store: Store) -> None:
    path = store.directory / LOG
    damaged = path.read_bytes().replace(b'"values":[1.5]', b'"values":[1.6]', 1)
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match=r"line 4 is damaged: its checksum.*\n?.*head -n 3"):
        store.read()
    assert path.read_bytes() == damaged


def test_the_way_on_that_the_message_gives_works(store: Store) -> None:
    path = store.directory / LOG
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4]) + b"garbage\n" + b"".join(lines[5:]))
    with pytest.raises(StoreError, match="hold 2 finished trials"):
        store.read()
    path.write_bytes(b"".join(lines[:4]))  # head -n 4
    assert len(store.read().trials) == 2


def test_a_longer_generation_supersedes_a_shorter_one(store: Store) -> None:
    with Writer(store) as writer:
        writer.open(store.read())
        writer.scores([design("e")], 0.1)
        writer.generation(generation(1, ["c", "d", "e"], 2))
    assert [t.evaluated.design for t in store.read().trials] == ["a", "b", "c", "d", "e"]


def test_one_writer_at_a_time_and_readers_take_no_lock(store: Store) -> None:
    with Writer(store) as writer:
        writer.open(store.read())
        assert store.running()
        assert len(store.read().trials) == 4
        with pytest.raises(StoreError, match="is being written by process"):
            Writer(store)
    assert not store.running()
    Writer(store).close()


def test_unreadable_meta_is_one_message(store: Store) -> None:
    with pytest.raises(StoreError, match="holds no study"):
        store.meta()
    store.create({"name": "s"}, "name: s\n")
    assert store.meta()["name"] == "s"
    (store.directory / "meta.json").write_text("{")
    with pytest.raises(StoreError, match="is damaged"):
        store.meta()
    (store.directory / "meta.json").write_text('{"format": 99}')
    with pytest.raises(StoreError, match="format 99"):
        store.meta()


def test_encode_decode() -> None:
    assert decode(encode({"kind": "x", "v": [1.5, "ü"]}).rstrip(b"\n"))["v"] == [1.5, "ü"]
    with pytest.raises(ValueError):
        decode(b"")


def test_reading_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / LOG
    path.touch()
    assert read_log(path).trials == []
