"""The law functions against published test points."""

from __future__ import annotations

import math

import pytest

from models.variants import laws


@pytest.mark.parametrize(
    ("law", "parameters", "tokens", "loss"),
    [
        ("besiroglu", 70e9, 1.4e12, 1.9739),
        ("besiroglu", 8e9, 15e12, 2.0221),
        ("besiroglu", 1e9, 20e9, 2.5303),
    ],
)
def test_dense_law(law: str, parameters: float, tokens: float, loss: float) -> None:
    assert laws.dense_loss(law, parameters, tokens) == pytest.approx(loss, abs=3e-4)


@pytest.mark.parametrize(
    ("sparsity", "multiplier"), [(0, 1), (0.5, 1.59), (0.75, 2.16), (0.875, 2.64)]
)
def test_equivalent_size_of_a_sparse_model(sparsity: float, multiplier: float) -> None:
    assert laws.equivalent_size_multiplier(sparsity) == pytest.approx(multiplier, abs=1e-2)


@pytest.mark.parametrize(
    ("inactive", "loss"),
    [(0, 2.1005), (0.5, 2.1019), (0.75, 2.1149), (0.9, 2.1498), (0.95, 2.1902), (0.98, 2.2629)],
)
def test_moe_law_at_fixed_total(inactive: float, loss: float) -> None:
    assert laws.moe_loss(10e9, 100e9, inactive) == pytest.approx(loss, abs=5e-5)


@pytest.mark.parametrize(
    ("inactive", "loss"),
    [(0, 2.349), (0.5, 2.275), (0.75, 2.214), (0.9, 2.150), (0.95, 2.110), (0.98, 2.066)],
)
def test_moe_law_at_fixed_active(inactive: float, loss: float) -> None:
    assert laws.moe_loss(1e9 / (1 - inactive), 100e9, inactive) == pytest.approx(loss, abs=5e-4)


@pytest.mark.parametrize(("scheme", "loss"), [("w4a4", 0.057), ("w4a16", 0.021), ("w16a4", 0.040)])
def test_quantisation_aware_training_law(scheme: str, loss: float) -> None:
    assert laws.qat_loss(scheme, 595e6, 100e9, 128) == pytest.approx(loss, abs=5e-4)


def test_window_band_is_the_ratio_of_printed_perplexities() -> None:
    band = laws.window_loss_nats(0.5, 1024)
    assert band.central == pytest.approx(math.log(1.64 / 1.63))
    assert band.high == pytest.approx(math.log(1.645 / 1.625))
    assert laws.window_loss_nats(0.5, 4096).central == 0


@pytest.mark.parametrize(("share", "tokens"), [(0.51, 4096), (0.5, 1023)])
def test_window_law_says_nothing_outside_the_measurement(share: float, tokens: int) -> None:
    assert all(math.isnan(end) for end in laws.window_loss_nats(share, tokens))


def test_sparsity_law_ends_where_the_fit_ends() -> None:
    dense = laws.Size(1e9, 1e9, 1e8, None)
    assert all(math.isfinite(end) for end in laws.sparsity_loss_nats(dense, 0.875))
    assert all(math.isnan(end) for end in laws.sparsity_loss_nats(dense, 0.9))


def test_other_dense_fits_change_as_besiroglu_does() -> None:
    """The evidence for leaving Hoffmann's and Muennighoff's fits out of the band."""
    c = laws.coefficients()["dense"]["besiroglu"]
    for size in (135e6, 1e9, 8e9, 70e9, 671e9):
        mine = c["A"] * ((size / 2) ** -c["alpha"] - size ** -c["alpha"])
        for a, alpha in ((406.4, 0.34), (521, 0.353)):
            other = a * ((size / 2) ** -alpha - size**-alpha)
            assert other == pytest.approx(mine, rel=0.05)


def test_every_law_names_its_source_and_status() -> None:
    def walk(node: object) -> list[dict[str, object]]:
        if not isinstance(node, dict):
            return []
        found = [node] if "source" in node else []
        return found + [n for child in node.values() for n in walk(child)]

    evidence = walk(laws.coefficients())
    assert len(evidence) >= 9
    for entry in evidence:
        assert len(str(entry["source"])) > 40
        assert entry["status"] in {"verified", "secondary", "read", "measured", "estimate"}
