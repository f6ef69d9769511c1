"""YAML with line numbers, read by the YAML 1.2 core rules (without infinities).

PyYAML's own rules are those of YAML 1.1, which read `2:4` as 124, `off` as false and `15e12` as
text; a study means a sparsity, the word and a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

Path = tuple[str | int, ...]

_LONGEST_INT = 18  # digits; beyond it a number is a float, which may be infinite and is refused
_TAG = "tag:yaml.org,2002:"


class YamlError(Exception):
    """Text that is not usable YAML; `line` counts from 1, None where it is not known."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Document:
    """A parsed file: plain `data` (mapping keys are strings) and the line of each value's key."""

    file: str
    text: str
    data: Any
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """Line of the longest part of `path` that is in the file."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def parse(text: str, file: str) -> Document:
    """Parse one YAML document. Raises YamlError: bad syntax, a key given twice, an unknown tag, a
    value that contains itself."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(_sentence(error), mark.line + 1 if mark else None) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise YamlError(f"character {error.character!r} is not allowed in YAML", line) from None
    except RecursionError:
        raise YamlError("the file is nested too deeply", None) from None
    lines: dict[Path, int] = {}
    data = None if root is None else _value(root, (), lines, ())
    return Document(file, text, data, lines)


def _sentence(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.context, error.problem) if part]
    return "this is not valid YAML: " + ", ".join(parts)


def _value(node: yaml.Node, path: Path, lines: dict[Path, int], open_nodes: tuple[int, ...]) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)  # a mapping value is listed at the line of its key, already there
    if id(node) in open_nodes:
        raise YamlError("a value contains itself through an alias", line)
    inside = (*open_nodes, id(node))
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines, inside)
    if isinstance(node, yaml.SequenceNode):
        return [_value(v, (*path, i), lines, inside) for i, v in enumerate(node.value)]
    return _scalar(node)


def _mapping(
    node: yaml.MappingNode, path: Path, lines: dict[Path, int], inside: tuple[int, ...]
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlError("a key must be a word or a number", line)
        key = str(key_node.value)
        if key in found:
            first = lines[(*path, key)]
            raise YamlError(f"key {key!r} is given twice, first on line {first}", line)
        lines[(*path, key)] = line
        found[key] = _value(value_node, (*path, key), lines, inside)
    return found


def _scalar(node: yaml.Node) -> Any:
    text: str = node.value
    kind = node.tag.removeprefix(_TAG)
    try:
        if kind == "int":
            return int(text) if len(text) <= _LONGEST_INT else float(text)
        if kind == "float":
            return float(text)
    except ValueError:
        raise YamlError(f"{text!r} is not a number", node.start_mark.line + 1) from None
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "str":
        return text
    raise YamlError(f"unknown tag {node.tag!r}", node.start_mark.line + 1)


class _Loader(yaml.SafeLoader):
    """Composes nodes with the implicit types of YAML 1.2's core schema."""


_Loader.yaml_implicit_resolvers = {}
_IMPLICIT = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": (r"[-+]?[0-9]+", "-+0123456789"),
    "float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
}
for _kind, (_pattern, _first) in _IMPLICIT.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"^(?:{_pattern})$"), list(_first))
