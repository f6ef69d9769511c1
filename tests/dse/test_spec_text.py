"""YAML with line numbers."""

from __future__ import annotations

import pytest

from dse.spec.text import YamlError, parse


def test_core_schema_values() -> None:
    data = parse(
        "a: [2:4, off, on, yes, 15e12, 1e-3, 4, 4.5, -1, .5, true, null, ~, 4x4, 1_000, '4']", "f"
    ).data
    assert data["a"] == [
        "2:4", "off", "on", "yes", 15e12, 1e-3, 4, 4.5, -1, 0.5, True, None, None, "4x4", "1_000",
        "4",
    ]  # fmt: skip
    assert [type(v) for v in data["a"][4:9]] == [float, float, int, float, int]
    assert parse("[.inf, .nan]", "f").data == [".inf", ".nan"]


def test_keys_are_text() -> None:
    assert parse("head_dim: {256: 1}", "f").data == {"head_dim": {"256": 1}}


def test_lines_are_those_of_keys_and_items() -> None:
    document = parse("a: 1\nb:\n  - x\n  - c: |\n      long\n      text\n    d: 2\n", "f")
    assert document.line(("a",)) == 1
    assert document.line(("b",)) == 2
    assert document.line(("b", 0)) == 3
    assert document.line(("b", 1)) == 4
    assert document.line(("b", 1, "c")) == 4
    assert document.line(("b", 1, "d")) == 7
    assert document.line(("b", 1, "missing", "deeper")) == 4
    assert document.line(("elsewhere",)) == 1


def test_aliases_are_read() -> None:
    assert parse("a: &x {b: 1}\nc: *x\n", "f").data == {"a": {"b": 1}, "c": {"b": 1}}


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3, "not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: 2\na: 3\n", 3, "key 'a' is given twice, first on line 1"),
        ("x:\n  a: 1\n  'a': 2\n", 3, "key 'a' is given twice, first on line 2"),
        ("a: &x\n  b: *x\n", 1, "contains itself"),
        ("a: !!python/name:os.system x\n", 1, "unknown tag"),
        ("a: !!int many\n", 1, "'many' is not a number"),
        ("? [1, 2]\n: 3\n", 1, "a key must be a word or a number"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        ("a: 1\nb: \x01\n", 2, "is not allowed in YAML"),
    ],
)
def test_refused_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(YamlError, match=message) as error:
        parse(text, "f")
    assert error.value.line == line


def test_nesting_too_deep() -> None:
    with pytest.raises(YamlError, match="nested too deeply"):
        parse("[" * 5000, "f")


def test_long_numbers_are_floats() -> None:
    assert parse(f"[{'9' * 400}]", "f").data == [float("inf")]


def test_empty_text() -> None:
    assert parse("# nothing\n", "f").data is None
