"""From what a user writes to choices."""

from __future__ import annotations

import itertools

import pytest

from search_spaces.catalog import find
from search_spaces.errors import SpaceError, UnitError
from search_spaces.knob import SECTIONS, Knob
from search_spaces.values import choice, knob


def entry(name: str):  # type: ignore[no-untyped-def]
    for section in SECTIONS:
        try:
            return find(name, section)
        except SpaceError:
            continue
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("name", "value", "label", "fields"),
    [
        ("clock_ghz", "1750 MHz", "1.75", {"clock_hz": 1.75e9}),
        ("vmem_mib", "0.125 GiB", "128", {"vmem_bytes": 2.0**27}),
        ("mxu_dim", 256, "256", {"mxu_rows": 256, "mxu_cols": 256}),
        ("nm_speedup", 2, "2", {"nm_speedup_16bit": 2, "nm_speedup_8bit": 2}),
        ("ici_links", 6, "6", {"ici_links": 6, "ici_torus_ndims": 3, "ici_wrap_multiple": 4}),
        ("ici_links", "4", "4", {"ici_links": 4, "ici_torus_ndims": 2, "ici_wrap_multiple": 16}),
        ("head_dim", "released", "released", {"head_dim": 0}),
        ("head_dim", 64, "64", {"head_dim": 64}),
        ("weight_format", "w4a16", "w4a16",
         {"weight_bits": 4, "activation_bits": 16, "compute_format": 0}),
        ("kv_format", "int4", "int4", {"kv_bits": 4}),
        ("nm_sparsity", "dense", "dense", {"nm_n": 1, "nm_m": 1}),
        ("nm_sparsity", "2 : 4", "2:4", {"nm_n": 2, "nm_m": 4}),
        ("window_share", "50 %", "0.5", {"window_share": 0.5}),
        ("torus", "4x8", "4x8", {"torus_x": 4, "torus_y": 8, "torus_z": 1}),
        ("torus", "4X4x2", "4x4x2", {"torus_x": 4, "torus_y": 4, "torus_z": 2}),
        ("layout", "2d", "2d", {"layout_2d": 1}),
        ("batch", "64 sequences", "64", {"batch": 64}),
        ("prefill_chunk", 4096, "4096", {"prefill_chunk_tokens": 4096}),
        ("mesh_order", "fsdp-context-expert-tensor", "fsdp-context-expert-tensor",
         {"tensor_rank": 3, "expert_rank": 2, "context_rank": 1, "fsdp_rank": 0}),
    ],
)  # fmt: skip
def test_settings(name: str, value: object, label: str, fields: dict[str, float]) -> None:
    found = choice(entry(name), value)
    assert found.label == label
    assert dict(found.fields) == fields


def test_hbm_sets_five_chip_fields() -> None:
    fields = choice(entry("hbm_generation"), "hbm3e").fields
    assert fields["hbm_stack_bytes"] == 24 * 2**30
    assert set(fields) == {
        "hbm_stack_bytes", "hbm_stack_bandwidth_bytes_per_s", "hbm_energy_j_per_byte",
        "hbm_usd_per_byte", "hbm_phy_mm2_per_stack",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("clock_ghz", 17.5, "clock_ghz: 17.5 is outside 0.2 to 4 GHz"),
        ("mxu_dim", 100.5, "mxu_dim: 100.5 is not a whole number of PEs"),
        ("head_dim", 0, "outside 16 to 1024 elements, or released"),
        ("ici_links", 5, "ici_links: 5 is not a choice"),
        ("ici_links", True, "is not a choice"),
        ("hbm_generation", "hbm33", "'hbm33' is not a choice; did you mean 'hbm3'"),
        ("weight_format", "w4a15", "did you mean 'w4a16'"),
        ("nm_sparsity", "4:2", "needs 1 <= N < M <= 32"),
        ("nm_sparsity", "2/4", "is not dense or N:M"),
        ("torus", "4", "is not of the form 4x8 or 4x4x4"),
        ("torus", "4x0", "has a side outside 1 to 64"),
        ("torus", "4xa", "is not of the form"),
        ("mesh_order", "tensor-expert", "must name each of tensor, expert, context, fsdp once"),
        ("mesh_order", "tensr-expert-context-fsdp", "did you mean 'tensor'"),
        ("layout", "3d", "did you mean"),
    ],
)
def test_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(SpaceError) as error:
        choice(entry(name), value)
    assert message in str(error.value)


def test_unit_that_does_not_fit() -> None:
    with pytest.raises(UnitError, match="vmem_mib: '128 GHz' is a frequency"):
        choice(entry("vmem_mib"), "128 GHz")


def test_numbers_are_sorted_and_formats_are_not() -> None:
    assert knob(entry("clock_ghz"), [2, 1.5, 1.75]).labels == ("1.5", "1.75", "2")
    assert knob(entry("clock_ghz"), [2, 1.5]).ordered
    assert knob(entry("hbm_generation"), ["hbm4", "hbm2"]).labels == ("hbm2", "hbm4")
    assert knob(entry("weight_format"), ["w4a16", "bf16"]).labels == ("w4a16", "bf16")
    assert not knob(entry("weight_format"), ["w4a16", "bf16"]).ordered
    assert not knob(entry("head_dim"), ["released", 64]).ordered


def test_the_same_setting_twice() -> None:
    with pytest.raises(SpaceError, match=r"clock_ghz lists 1\.75 twice"):
        knob(entry("clock_ghz"), [1.75, "1750 MHz"])


def test_all_mesh_orders_are_permutations() -> None:
    built = knob(
        entry("mesh_order"),
        ["-".join(p) for p in itertools.permutations(("tensor", "expert", "context", "fsdp"))],
    )
    assert {tuple(sorted(c.fields.values())) for c in built.choices} == {(0, 1, 2, 3)}
    assert len({tuple(sorted(c.fields.items())) for c in built.choices}) == 24


def test_no_choices() -> None:
    with pytest.raises(SpaceError, match="cores has no choices"):
        Knob("cores", "chip", "cores", "", (), True)
