"""The study file: `load` turns YAML into a checked StudySpec or one readable SpecError."""

from __future__ import annotations

from dse.spec.diff import difference
from dse.spec.expressions import Constraint, Objective
from dse.spec.load import load, read_text
from dse.spec.problems import Problem, SpecError
from dse.spec.study import AssignmentSpec, SearchSpec, SolveSpec, StudySpec

__all__ = [
    "AssignmentSpec",
    "Constraint",
    "Objective",
    "Problem",
    "SearchSpec",
    "SolveSpec",
    "SpecError",
    "StudySpec",
    "difference",
    "load",
    "read_text",
]
