"""Nothing is left out: sections of the operation semantics, error cases of checks, sections of docstrings."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
from case_checks import error_cases
from cases import ErrorCase
from operation_reference import sections
from operation_reference.constraints import Constraint, constraints_of
from operation_reference.records import families

import xlapy
from xlapy.errors import XlapyError
from xlapy.specs import parse_spec
from xlapy.trace.op import registry

# --- sections -----------------------------------------------------------------------------------------------------


def test_every_section_of_the_operation_semantics_is_claimed_or_has_a_reason() -> None:
    claimed, reasons = sections.claims(), sections.unclaimed()
    missing = [n for n in sections.section_names() if n not in claimed and not reasons.get(n)]
    assert missing == []


def test_no_claimed_section_has_a_reason_for_not_being_claimed() -> None:
    assert sorted(set(sections.claims()) & set(sections.unclaimed())) == []


# What a record's section may be besides a name of the operation semantics.
ELSEWHERE = ("CHLO", "StableHLO", "HLO")


def test_every_operation_says_where_it_is_specified() -> None:
    known = set(sections.section_names())
    wrong = [
        o
        for o in registry.values()
        if o.section not in known and not o.section.startswith(ELSEWHERE)
    ]
    assert wrong == []


# --- checks -------------------------------------------------------------------------------------------------------

# Checks of a function that an operation shares with others, which none of its operands and parameters can violate.
UNREACHABLE: Mapping[tuple[str, str], str] = {
    ("dynamic_broadcast_in_dim", "X1"): "sizes that are not known count as 1",
    ("dynamic_gather", "C9"): "the sizes of dropped dimensions are known when it runs only",
    ("dynamic_gather", "C12"): "the sizes of dropped dimensions are known when it runs only",
    ("dynamic_gather", "X1"): "a slice of no elements has a result of none",
    ("scaled_dot", "C21"): "it has no algorithm",
}


@functools.cache
def constraints() -> dict[str, tuple[Constraint, ...]]:
    return {name: constraints_of(op) for name, op in registry.items()}


def sites_of(error: BaseException) -> Iterator[tuple[str, int]]:
    """The module and line of every call on the way to an error."""
    step = error.__traceback__
    while step is not None:
        frame: FrameType = step.tb_frame
        yield frame.f_globals["__name__"], step.tb_lineno
        step = step.tb_next


def violated(case: ErrorCase) -> list[Constraint]:
    """The constraints that an error case violates, by the line that raised and the text of the error."""
    try:
        registry[case.op].infer(*map(parse_spec, case.operands), **case.params)
    except XlapyError as error:
        text, label, sites = str(error), error.label, set(sites_of(error))
        return [
            c
            for c in constraints()[case.op]
            if c.label == label
            and c.sentence.pattern.match(text)
            and any(c.site.startswith(f"{module}.") and c.line == line for module, line in sites)
        ]
    return []


@functools.cache
def violations() -> dict[str, set[Constraint]]:
    """The constraints of each operation that an error case violates."""
    found: dict[str, set[Constraint]] = {name: set() for name in registry}
    for _, case in error_cases():
        found[case.op].update(violated(case))
    return found


def test_every_error_case_violates_a_constraint_that_the_reference_lists() -> None:
    unlisted = [
        (case.op, case.label, case.match) for _, case in error_cases() if not violated(case)
    ]
    assert unlisted == []


def checks_of_infer_functions() -> Iterator[tuple[str, int]]:
    """Where a function of an operation's module whose name begins with infer calls require, by the syntax alone."""
    for module in {f"xlapy.ops.{family.name}" for family in families()}:
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and function.name.startswith("infer"):
                for node in ast.walk(function):
                    name = node.func if isinstance(node, ast.Call) else None
                    if isinstance(name, ast.Name) and name.id in REQUIRE:
                        yield module, node.lineno


REQUIRE = ("require", "require_shape", "require_dtype")


def test_the_reference_lists_every_check_that_an_infer_function_makes() -> None:
    found = {
        (c.site.rsplit(".", 1)[0], c.line) for listed in constraints().values() for c in listed
    }
    assert sorted(set(checks_of_infer_functions()) - found) == []


@pytest.mark.parametrize("family", families(), ids=lambda f: f.name)
def test_every_check_has_an_error_case(family: Any) -> None:
    """Of each operation's own checks every one; of those in shared functions one operation's of the family."""
    users: dict[str, set[str]] = {}
    for name, found in constraints().items():
        for c in found:
            users.setdefault(c.site, set()).add(name)
    by_family = {(c.site, c.line, c.label) for op in family.ops for c in violations()[op.name]}
    missing = []
    for op in family.ops:
        labels = {c.label for c in violations()[op.name]}
        for c in constraints()[op.name]:
            if c in violations()[op.name] or (op.name, c.label) in UNREACHABLE:
                continue
            shared = len(users[c.site]) > 1
            if shared and ((c.site, c.line, c.label) in by_family or c.label in labels):
                continue
            missing.append(f"{op.name} [{c.label}] {c.sentence.markdown}: {c.site}, line {c.line}")
    assert not missing, "\n".join(missing)


def test_what_is_called_unreachable_is_a_check_that_no_case_reaches() -> None:
    stale = [
        (name, label)
        for name, label in UNREACHABLE
        if label not in {c.label for c in constraints()[name]}
        or label in {c.label for c in violations()[name]}
    ]
    assert stale == []


# --- docstrings ---------------------------------------------------------------------------------------------------


def public_functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, member in sorted(vars(module).items()):
        own = inspect.isfunction(member) and member.__module__.startswith("xlapy.")
        if own and not name.startswith("_"):
            yield name, member


def namespaces() -> list[ModuleType]:
    """What users call functions of: the package and its packages of functions."""
    inner = [m for n, m in vars(xlapy).items() if inspect.ismodule(m) and not n.startswith("_")]
    homes = ("ops", "numpy", "random", "linalg", "fft")
    return [xlapy, *[m for m in inner if m.__name__ in {f"xlapy.{h}" for h in homes}]]


def lacks(function: Any) -> list[str]:
    """The parts of a numpydoc docstring that a function's lacks."""
    text = inspect.getdoc(function) or ""
    signature = inspect.signature(function)
    gives = signature.return_annotation not in (None, "None")
    wanted = {
        "an example": ">>> " in text,
        "Parameters": not signature.parameters or "Parameters\n----------\n" in text,
        "Returns": not gives or "Returns\n-------\n" in text or "Yields\n------\n" in text,
    }
    return [part for part, there in wanted.items() if not there]


@pytest.mark.parametrize("module", namespaces(), ids=lambda m: m.__name__)
def test_docstrings_have_an_example_parameters_and_returns(module: ModuleType) -> None:
    found = {name: lacks(function) for name, function in public_functions(module)}
    assert {name: parts for name, parts in found.items() if parts} == {}


def test_the_sections_are_those_of_the_document() -> None:
    """Where the operation semantics lie beside the checkout."""
    document = (
        Path(__file__).resolve().parents[3] / "shared" / "reference" / "operation_semantics.md"
    )
    if not document.is_file():
        pytest.skip("the document is not here")
    headings = [
        line.lstrip("#").strip()
        for line in document.read_text().splitlines()
        if line.startswith(("## ", "### "))
    ]
    names = list(sections.section_names())
    found = [n for h in headings if (n := section_of(h, names)) is not None]
    assert found == names


# Headings of parts of a section.
PARTS = (
    "General Semantics", "Informal Description", "Examples", "Variadic Reduce", "Scheduling of channel",
    "Bitcast-converting",
)  # fmt: skip


def section_of(heading: str, names: list[str]) -> str | None:
    """The section that a heading begins, or None for a part of one."""
    if " - Example" in heading or heading.startswith(PARTS):
        return None
    if heading in names:
        return heading
    name = heading.split()[0]
    assert name in names, heading
    return name
