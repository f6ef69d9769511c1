"""Imports point one way, and what only reads data does not load JAX, Ray, Optuna or pandas."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ORDER = ("hwmodel", "models", "search_spaces", "dse")  # each may import those before it
HEAVY = ("jax", "ray", "optuna", "pandas", "torch", "scipy", "pyarrow", "moocore")


def _imported(path: Path) -> set[str]:
    """First parts of all module names that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("package", ORDER)
def test_imports_point_one_way(package: str) -> None:
    later = set(ORDER[ORDER.index(package) + 1 :])
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    wrong = {
        str(path.relative_to(ROOT)): sorted(_imported(path) & later)
        for path in files
        if _imported(path) & later
    }
    assert not wrong


@pytest.mark.parametrize("package", ORDER)
def test_no_package_imports_the_tests(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        assert not _imported(path) & {"tests", "pytest", "hypothesis"}, path


def _loaded(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(m for m in sys.modules if '.' not in m))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import hwmodel.presets; hwmodel.presets.load('v6e')",
        "import models.architecture",
        "import models.huggingface as h; h.load('Meta-Llama-3.1-70B')",
        "import models.variants; models.variants.catalogue()",
        "import search_spaces.presets; search_spaces.presets.presets()",
        "import dse.cli.app",
        "import dse.spec",
    ],
)
def test_reading_data_loads_nothing_heavy(statement: str) -> None:
    assert not _loaded(statement) & set(HEAVY)


def test_the_check_sees_heavy_modules() -> None:
    assert "jax" in _loaded("import hwmodel.step")
