"""What the documents state about the code, held against the code."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text("utf-8")
    links = [target for target in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in target]
    for target in links:
        assert (document.parent / target).exists(), target
    named = re.findall(
        r"`((?:dse|hwmodel|models|search_spaces|docs|tests|benchmarks)/[\w/.]*)`", text
    )
    for path in set(named) - {"dse/example_studies"}:  # only in an installed package
        assert (ROOT / path).exists(), path


def test_counts_of_constants_and_models() -> None:
    from hwmodel.theta import constants
    from models.huggingface import catalog_names

    kinds = Counter(constant.kind for constant in constants().values())
    readme, model = (
        " ".join(path.read_text("utf-8").split())
        for path in (ROOT / "README.md", ROOT / "docs" / "model.md")
    )
    stated = (
        f"f {kinds.total()} constants {kinds['published']} are published, {kinds['fitted']} fitted"
    )
    assert stated in readme and stated in model
    assert f"and {kinds['estimate']} estimates" in readme
    assert f"{len(catalog_names())} real model configurations" in readme


def test_the_example_study_is_valid(tmp_path: Path) -> None:
    from dse.spec import load

    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "studies.md").read_text(), re.DOTALL)
    path = tmp_path / "example.yaml"
    path.write_text(blocks[0], "utf-8")
    study = load(path)
    assert study.assignments[0].solve is not None and len(study.objectives) == 3


def test_every_search_default_is_stated() -> None:
    from dse.spec.schema import SearchPart

    text = (ROOT / "docs" / "studies.md").read_text("utf-8")
    for name, field in SearchPart.model_fields.items():
        assert re.search(rf"\| `{name}` \| `?{field.default}`? \|", text), name


def test_every_benchmark_is_listed() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert f"`{path.name}`" in text
