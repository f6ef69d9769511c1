"""What changed between two texts of a study."""

from __future__ import annotations

from dse.spec import difference
from spec_examples import STUDY, edited, line_of


def test_changed_value_with_its_line() -> None:
    text = edited("seed: 1", "seed: 2")
    line = line_of("search:", text)
    assert difference(STUDY, text, "a.yaml") == [f"a.yaml:{line}: search.seed: was 1, is 2"]


def test_added_and_removed_keys() -> None:
    text = edited("mesh_order: default", "context: [1, 2]")
    found = difference(STUDY, text, "a.yaml")
    gone = line_of("    torus", text) - 1
    assert found == [
        f'a.yaml:{gone}: deployment.knobs.mesh_order: was "default", is gone',
        f"a.yaml:{line_of('context', text)}: deployment.knobs.context: is new: [1, 2]",
    ]


def test_list_items_one_by_one_and_whole_lists() -> None:
    assert difference("a: [1, 2]", "a: [1, 3]", "f") == ["f:1: a[1]: was 2, is 3"]
    assert difference("a: [1, 2]", "a: [1]", "f") == ["f:1: a: was [1, 2], is [1]"]


def test_what_does_not_matter_is_left_out() -> None:
    text = edited("trials: 100", "trials: 200", edited("does it load", "well", STUDY))
    (only,) = difference(STUDY, text, "a.yaml")
    assert only == "a.yaml: the text says the same, but a preset or the catalog has changed"


def test_sparsity_is_not_a_number_of_minutes() -> None:
    assert difference("a: 2:4", "a: 124", "f") == ['f:1: a: was "2:4", is 124']


def test_long_values_are_cut() -> None:
    (line,) = difference("a: x", f"a: {'y' * 500}", "f")
    assert len(line) < 200


def test_a_text_that_is_no_yaml() -> None:
    assert "not valid YAML" in difference("a: [1", "a: 1", "f")[0]
