"""Nearest names."""

from __future__ import annotations

from search_spaces.nearest import nearest, suggestion


def test_similar_name_whatever_the_case() -> None:
    assert nearest("Clok_GHz", ["clock_ghz", "cores"]) == "clock_ghz"


def test_part_of_a_name() -> None:
    assert nearest("70b", ["llama3__Meta-Llama-3.1-70B", "qwen3"]) == "llama3__Meta-Llama-3.1-70B"


def test_nothing_similar_lists_the_names() -> None:
    assert nearest("zzz", ["clock_ghz"]) is None
    assert suggestion("zzz", ["b", "a"]) == "valid names: a, b"
    assert suggestion("zzz", [f"n{i}" for i in range(20)]).endswith("and 8 more")
    assert suggestion("zzz", []) == "there is none to choose from"


def test_suggestion_asks() -> None:
    assert suggestion("corez", ["cores"]) == "did you mean 'cores'?"
