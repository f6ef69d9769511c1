"""Whole steps at the tile rung: kernels of all operators at once, then each step's schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwmodel.chip import Chip
from hwmodel.collectives import Axis
from hwmodel.ops import Operator
from hwmodel.theta import Theta
from hwmodel.tilesim import schedule, search
from hwmodel.tilesim.layers import arrange
from hwmodel.tilesim.machine import FORMAT_FIELDS, MACHINE_FIELDS
from hwmodel.tilesim.pipeline import Array
from hwmodel.tilesim.search import Chosen
from hwmodel.tilesim.table import FIELDS, Entry, Tables, tabulate

Number = Any


@dataclass(frozen=True)
class TileOperator:
    """One row of the operator table at the tile rung: all `count` executions of one step, in
    seconds and bytes. alone_s: what they take without prefetch and overlap with neighbours; time_s:
    what they add to the step. blocks: the block shape chosen, empty for collectives."""

    name: str
    kind: str
    count: float
    time_s: float
    alone_s: float
    mxu_s: float = 0.0
    vpu_s: float = 0.0
    hbm_s: float = 0.0
    network_s: float = 0.0
    fixed_s: float = 0.0
    hbm_bytes: float = 0.0
    network_bytes: float = 0.0
    blocks: tuple[float, ...] = ()


@dataclass(frozen=True)
class TileStep:
    """One step of one pipeline stage: seconds, HBM bytes, and the operators whose time_s add up to
    the seconds."""

    seconds: float
    hbm_bytes: float
    operators: tuple[TileOperator, ...]


class UnsupportedChip(ValueError):
    """A chip whose kernels the tile rung does not play."""


def time_steps(
    chip: Chip,
    theta: Theta,
    axes: Mapping[str, Axis],
    steps: Sequence[Sequence[Operator]],
    layers: float,
) -> list[TileStep]:
    """Play some steps of one chip; `layers` are those of one pipeline stage.

    Raises:
        UnsupportedChip: the chip's matrix units take fixed row tiles (a GPU).
    """
    import jax

    check(chip)
    with jax.enable_x64(True):
        tables = tabulate(chip, theta, axes, steps, layers)
    return [by_step[0] for by_step in play_tables(tables)]


def check(chip: Chip) -> None:
    """Raise `UnsupportedChip` where the play does not apply."""
    if chip.mxu_row_tile > 0:
        raise UnsupportedChip(
            "the tile rung plays chips whose matrix units stream rows (TPUs); this chip's units "
            "take fixed row tiles: use fidelity: analytical"
        )


def play_tables(tables: Tables) -> list[list[TileStep]]:
    """Play B candidates: a list per step of the table, each of B results. Arrays of `tables` carry
    a leading axis of B, or none for one candidate."""
    machine = np.atleast_2d(np.asarray(tables.machine))
    count = len(machine)
    formats = np.asarray(tables.formats).reshape(count, -1, len(FORMAT_FIELDS))
    layers = np.asarray(tables.layers).reshape(count)
    numbers = [
        np.asarray(step).reshape(count, len(entries), -1)
        for step, entries in zip(tables.steps, tables.entries, strict=True)
    ]
    kernels = _kernels(machine, formats, numbers, tables.entries)
    named = ("collective_overlap", "operator_fixed_s")
    costs = machine[:, [MACHINE_FIELDS.index(name) for name in named]]
    return [
        [
            _step(entries, rows[i], [k and (k[0], k[1] + i) for k in found], layers[i], *costs[i])
            for i in range(count)
        ]
        for entries, rows, found in zip(tables.entries, numbers, kernels, strict=True)
    ]


Found = tuple[Chosen, int] | None
"""Results of one kind of operator and the position of one in them; None for collectives."""


def _kernels(
    machine: Array,
    formats: Array,
    numbers: Sequence[Array],
    entries: Sequence[Sequence[Entry]],
) -> list[list[Found]]:
    """Choose blocks for all operators of all steps and candidates, kind by kind; of each operator
    the position of the first candidate."""
    found: list[list[Found]] = [[None for _ in step] for step in entries]
    searches = {
        "matmul": search.matmul,
        "attention": search.attention,
        "vector": search.stream,
    }
    for kind, choose in searches.items():
        where = [
            (s, o)
            for s, step in enumerate(entries)
            for o, entry in enumerate(step)
            if entry.kind == kind
        ]
        if not where:
            continue
        fields = FIELDS[kind]
        columns = [
            np.concatenate(
                [machine, formats[:, entries[s][o].format], numbers[s][:, o, : len(fields)]], axis=1
            )
            for s, o in where
        ]
        # Operators that repeat among the candidates are played once.
        unique, position = np.unique(np.concatenate(columns), axis=0, return_inverse=True)
        problems = dict(zip((*MACHINE_FIELDS, *FORMAT_FIELDS, *fields), unique.T, strict=True))
        chosen = choose(_legible(problems))
        inverse = position.reshape(-1)
        spread = Chosen(**{name: values[inverse] for name, values in vars(chosen).items()})
        for n, (s, o) in enumerate(where):
            found[s][o] = (spread, n * len(machine))
    return found


def _legible(problems: dict[str, Array]) -> dict[str, Array]:
    """Operators that never run keep their row; their shapes are raised to one so that they play."""
    sizes = ("m", "k", "n", "groups", "rows", "length", "qk_width", "v_width")
    return {
        name: np.where(values > 0, values, 1.0) if name in sizes else values
        for name, values in problems.items()
    }


def _step(
    entries: Sequence[Entry],
    rows: Array,
    found: Sequence[Found],
    layers: float,
    overlap: float,
    fixed_s: float,
) -> TileStep:
    counts, items = [], []
    beside: dict[str, float] = {}
    beside_row = -1
    for n, (entry, kernel) in enumerate(zip(entries, found, strict=True)):
        count = float(rows[n, 0])
        items.append(_item(entry, rows[n], kernel, overlap, fixed_s))
        if entry.hides == "prefetch" and count > 0:
            # Gathered one layer ahead, and written to HBM by the operator that follows.
            item = items[n]
            assert isinstance(item, schedule.Transfer)
            per_layer = (item.transfer_s + item.latency_s) * count / layers
            for link in item.links:
                beside[link] = beside.get(link, 0.0) + per_layer
            beside_row, count = n, 0.0
        elif n and entries[n - 1].hides == "prefetch" and _only_moves(entry, rows[n]):
            item = items[n]
            assert isinstance(item, schedule.Kernel)
            beside["hbm"] = beside.get("hbm", 0.0) + item.hbm_s * count / layers
            count = 0.0
        counts.append(count)
    segments = [
        schedule.Segment(n, [(row, items[row]) for row in members])
        for n, members in arrange(counts, layers)
    ]
    layered = max((s.layers for s in segments), default=0.0)
    for segment in segments:
        if beside_row >= 0 and segment.layers > min(layered * (1 - 1e-9), 1.0):
            segment.beside_s, segment.beside_row = beside, beside_row
    seconds, added = schedule.run(segments, len(entries))
    operators = tuple(
        _operator(entry, rows[n], kernel, items[n], added[n], fixed_s)
        for n, (entry, kernel) in enumerate(zip(entries, found, strict=True))
    )
    return TileStep(seconds, sum(op.hbm_bytes for op in operators), operators)


def _collective(row: Array) -> dict[str, float]:
    fields = FIELDS["collective"]
    return dict(zip(fields, row[: len(fields)].tolist(), strict=True))


def _only_moves(entry: Entry, row: Array) -> bool:
    return entry.kind == "vector" and row[FIELDS["vector"].index("vpu_ops")] == 0


def _item(
    entry: Entry,
    row: Array,
    found: Found,
    overlap: float,
    fixed_s: float,
) -> schedule.Item:
    if found is None:
        values = _collective(row)
        used = tuple(link for link in schedule.LINKS if values[f"on_{link}"] > 0)
        chunked = overlap if entry.hides == "matmul" else 0.0
        return schedule.Transfer(values["transfer_s"], values["latency_s"], used, chunked)
    chosen, at = found
    return schedule.Kernel(
        seconds=float(chosen.seconds[at]) + fixed_s,
        hbm_s=float(chosen.hbm_s[at]),
        static_s=float(chosen.static_s[at]),
        latency_s=float(chosen.latency_s[at]),
        part_s=float(chosen.part_s[at]),
        buffer_bytes=float(chosen.buffer_bytes[at]),
        budget_bytes=float(chosen.budget_bytes[at]),
        matmul=entry.kind == "matmul",
        by_token=entry.in_layers,
    )


def _operator(
    entry: Entry,
    row: Array,
    found: Found,
    item: schedule.Item,
    added_s: float,
    fixed_s: float,
) -> TileOperator:
    count = float(row[0])
    if isinstance(item, schedule.Transfer):
        values = _collective(row)
        alone = count * (item.transfer_s + item.latency_s)
        return TileOperator(
            name=entry.name,
            kind=entry.kind,
            count=count,
            time_s=added_s,
            alone_s=alone,
            network_s=alone,
            fixed_s=min(count * item.latency_s, added_s),
            network_bytes=count * (values["ici_bytes"] + values["dcn_bytes"]),
        )
    assert found is not None
    chosen, at = found
    ends = float(chosen.prologue_s[at] + chosen.epilogue_s[at])
    return TileOperator(
        name=entry.name,
        kind=entry.kind,
        count=count,
        time_s=added_s,
        alone_s=count * item.seconds,
        mxu_s=count * float(chosen.mxu_s[at]),
        vpu_s=count * float(chosen.vpu_s[at]),
        hbm_s=count * item.hbm_s,
        fixed_s=count * (fixed_s + ends),
        hbm_bytes=count * float(chosen.hbm_bytes[at]),
        blocks=tuple(chosen.blocks[at].tolist()),
    )
