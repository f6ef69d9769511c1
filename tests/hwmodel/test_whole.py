"""Whole-number division is exact whatever XLA does with the quotient, and is the only one used."""

from __future__ import annotations

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from hwmodel import whole
from hwmodel.whole import ceil_div, ceil_times, divides, floor_div, round_up, up

ROOT = Path(__file__).resolve().parents[2]
DIVISORS = (1, 3, 7, 10, 12, 49, 100, 300, 1000, 1023, 4096, 16384, 128_256)


def _pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers of all magnitudes below 2**50 and divisors from 1 to 2**20, as int64."""
    rng = np.random.default_rng(seed)
    a = np.floor(2.0 ** rng.uniform(0, 50, count)).astype(np.int64)
    b = np.floor(2.0 ** rng.uniform(0, 20, count)).astype(np.int64)
    near = rng.integers(-1, 2, count)  # half of them on, just below or just above a multiple
    close = np.clip(a // b * b + near, 0, 2**50 - 1)
    return np.where(rng.random(count) < 0.5, a, close), b


def test_the_trap_exists() -> None:
    """Why the module exists: under jit the ceiling of a float quotient by a constant is wrong."""
    multiples = 300.0 * np.arange(1, 20_000)
    with jax.enable_x64(True):
        naive = jax.jit(lambda a: jnp.ceil(a / 300))(multiples)
    assert np.any(np.asarray(naive) != np.arange(1, 20_000))


@pytest.mark.parametrize("divisor", DIVISORS)
def test_exact_multiples_with_a_constant_divisor_under_jit(divisor: int) -> None:
    quotients = np.arange(1, 20_000, dtype=np.int64)
    a = (quotients * divisor).astype(float)
    with jax.enable_x64(True):
        assert np.array_equal(jax.jit(lambda x: ceil_div(x, divisor))(a), quotients)
        assert np.array_equal(jax.jit(lambda x: floor_div(x, divisor))(a), quotients)
        assert np.array_equal(jax.jit(lambda x: ceil_div(x, divisor))(a + 1), quotients + 1)
        if divisor > 1:
            assert np.array_equal(jax.jit(lambda x: floor_div(x, divisor))(a - 1), quotients - 1)


@pytest.mark.parametrize("seed", [0, 1])
def test_whole_numbers_of_all_magnitudes_with_traced_divisors(seed: int) -> None:
    a, b = _pairs(200_000, seed)
    with jax.enable_x64(True):
        up_, down = jax.jit(lambda x, y: (ceil_div(x, y), floor_div(x, y)))(
            a.astype(float), b.astype(float)
        )
    assert np.array_equal(np.asarray(up_).astype(np.int64), -(-a // b))
    assert np.array_equal(np.asarray(down).astype(np.int64), a // b)


def test_a_divisor_that_is_the_same_for_the_whole_batch() -> None:
    a, b = _pairs(20_000, 2)
    batched = jax.jit(jax.vmap(ceil_div, in_axes=(0, None)))
    with jax.enable_x64(True):
        for divisor in b[:20]:
            found = np.asarray(batched(a.astype(float), float(divisor)))
            assert np.array_equal(found.astype(np.int64), -(-a // divisor))


def test_numpy_and_python_agree_with_integers() -> None:
    a, b = _pairs(2_000, 3)
    with jax.enable_x64(True):
        assert np.array_equal(np.asarray(ceil_div(a.astype(float), b.astype(float))), -(-a // b))
        assert np.array_equal(np.asarray(floor_div(a.astype(float), b.astype(float))), a // b)
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        assert ceil_div(x, y) == -(-x // y) == ceil_div(float(x), float(y))
        assert floor_div(x, y) == x // y


def test_helpers() -> None:
    assert round_up(130, 128) == 256 and round_up(128, 128) == 128
    assert bool(divides(4, 12)) and not bool(divides(5, 12)) and bool(divides(1, 0))
    assert float(up(2.0)) == 2 and float(up(2.25)) == 3


def _rounds_a_quotient(node: ast.AST) -> bool:
    """`ceil(...)`, `floor(...)` and the like of an expression with a true division."""
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in ("ceil", "floor", "round", "rint", "trunc"):
            inside = [n for argument in node.args for n in ast.walk(argument)]
            return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div) for n in inside)
    return False


def test_the_source_check_can_fail() -> None:
    for text in ("jnp.ceil(a / b)", "math.ceil(2 * (a / b) + 1)", "floor(x / 300)"):
        assert any(_rounds_a_quotient(n) for n in ast.walk(ast.parse(text)))
    assert not any(_rounds_a_quotient(n) for n in ast.walk(ast.parse("ceil_div(a, b) + up(c)")))


def test_no_other_module_rounds_a_quotient() -> None:
    found = []
    for package in ("hwmodel", "models"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if path == Path(whole.__file__).resolve() or {"huggingface", "tilesim"} & {*path.parts}:
                continue  # Python and NumPy numbers, divided exactly: nothing there is traced
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if _rounds_a_quotient(node):
                    found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found, f"use hwmodel.whole for {found}"


@pytest.mark.parametrize("seed", [0, 1])
def test_the_reciprocal_form_is_exact_too(seed: int) -> None:
    a, b = _pairs(200_000, seed)
    a = a // 2  # one more rounding than ceil_div: exact below 2**49
    with jax.enable_x64(True):
        got = jax.jit(lambda x, y: ceil_times(x, 1 / y))(a.astype(float), b.astype(float))
    assert np.array_equal(np.asarray(got).astype(np.int64), -(-a // b))
