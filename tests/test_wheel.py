"""The wheel holds the packages with all their data, and nothing of the tests."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("dse", "hwmodel", "models", "search_spaces")


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_packages_is_in_the_wheel(contents: set[str]) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in {".py", ".yaml", ".json", ".csv", ".gz", ".css"}
    }
    assert len(files) > 300  # 201 model configurations among them
    assert files <= contents


def test_example_studies_are_in_the_wheel(contents: set[str]) -> None:
    names = {path.name for path in (ROOT / "studies").glob("*.yaml")}
    assert names and {f"dse/example_studies/{name}" for name in names} <= contents


def test_nothing_else_is_in_the_wheel(contents: set[str]) -> None:
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert not [name for name in contents if "__pycache__" in name or "/results/" in name]
