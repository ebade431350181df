"""The operation reference: what its generator reads, that its links lead somewhere, and that it is current."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import case_checks
import pytest
from operation_reference import records, sections
from operation_reference.constraints import constraints_of
from operation_reference.docstrings import Docstring, signature_of
from operation_reference.pages import hlo_opcode, pages

from xlapy import _jaxlib, ops
from xlapy.backends import pjrt
from xlapy.errors import ConstraintError, DTypeError, ShapeError
from xlapy.specs import TensorSpec, require, require_dtype, require_shape
from xlapy.trace.op import Hlo, Op, registry
from xlapy.trace.stablehlo import to_stablehlo

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = pages()


# --- constraints --------------------------------------------------------------------------------------------------

_LABELS = {"sizes": ("C1", "C2"), "strides": ("C3", "C4")}


def require_positive(values: Any, what: str, label: str) -> None:
    require(all(v > 0 for v in values), label, f"{what} must be positive", values)


def infer_example(x: TensorSpec, *, mode: str = "plain", **params: Any) -> TensorSpec:
    rank = x.rank
    for name, (length, positive) in _LABELS.items():
        values = params[name]
        require(len(values) == rank, length, f"{name} must have {rank} entries", values)
        require_positive(values, name, positive)
    label = "X2"
    if mode == "fast":
        label = "X3"
    if rank > 4:
        require_shape(False, label, f"{mode} mode must not have {x.rank - 4} more dimensions", x)
    require(True, "X9", "what cannot fail is no constraint")
    if x.dtype.kind != "float":
        raise DTypeError(f"the operand must be a float; got {x} [X4]")
    return x


def example(infer: Callable[..., Any]) -> Op:
    nothing: Any = None
    return Op("example", "Example", infer, Hlo("stablehlo.example"), nothing, nothing, nothing)


def listed(infer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    # What is followed are functions of the package; these count as such here.
    from operation_reference import partial_evaluation

    monkeypatch.setattr(partial_evaluation, "is_followed", lambda f: f.__module__ == __name__)
    return [(c.label, c.sentence.markdown, c.error) for c in constraints_of(example(infer))]


def test_constraints_are_read_through_tables_loops_calls_and_branches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert listed(infer_example, monkeypatch) == [
        ("C1", "sizes must have `x.rank` entries", ConstraintError),
        ("C2", "sizes must be positive", ConstraintError),
        ("C3", "strides must have `x.rank` entries", ConstraintError),
        ("C4", "strides must be positive", ConstraintError),
        ("X2", "`mode` mode must not have `x.rank - 4` more dimensions", ShapeError),
        ("X3", "`mode` mode must not have `x.rank - 4` more dimensions", ShapeError),
        ("X4", "the operand must be a float; got `x`", DTypeError),
    ]


def test_constraints_are_read_from_closures(monkeypatch: pytest.MonkeyPatch) -> None:
    def infer_of(kinds: str, check: Callable[..., None] | None) -> Callable[..., Any]:
        def infer(x: TensorSpec, **params: Any) -> TensorSpec:
            require_dtype(x.dtype.kind in kinds, "I1", f"the operand must be of kind {kinds}", x)
            if check is None:
                require(not params, "X1", "there must be no parameters", params)
            else:
                check(**params)
            return x

        return infer

    def check_count(*, count: int = 1) -> None:
        require(count > 0, "C1", "count must be positive", count)

    kind = ("I1", "the operand must be of kind int", DTypeError)
    assert listed(infer_of("int", None), monkeypatch) == [
        kind,
        ("X1", "there must be no parameters", ConstraintError),
    ]
    assert listed(infer_of("int", check_count), monkeypatch) == [
        kind,
        ("C1", "count must be positive", ConstraintError),
    ]


def test_a_label_that_cannot_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def infer(x: TensorSpec, *, label: str) -> TensorSpec:
        require(x.rank > 0, label, "there must be a dimension", x)
        return x

    with pytest.raises(ValueError, match="label of a check must be readable"):
        listed(infer, monkeypatch)


# --- records and docstrings ---------------------------------------------------------------------------------------


def test_a_docstring_is_taken_apart() -> None:
    docstring = Docstring.of(ops.reshape)
    assert docstring.summary == "The elements, in the same order, in another shape."
    assert list(docstring.parts) == ["Parameters", "Returns", "Raises", "Notes", "Examples"]
    assert docstring.sections == ("Reshape", "Reshape (explicit)")
    assert Docstring.of(ops.eq).sections == ("Compare", "Eq")


def test_a_signature_has_names_and_defaults() -> None:
    assert signature_of("ops.iota", ops.iota) == "ops.iota(dtype, shape, iota_dimension=0)"
    assert signature_of("f", lambda x, /, *rest, y=1: None) == "f(x, *rest, y=1)"
    assert signature_of("f", lambda x, *, y=1, **z: None) == "f(x, *, y=1, **z)"


def test_each_operation_has_one_home() -> None:
    homes = [op.name for family in records.families() for op in family.ops]
    assert sorted(homes) == sorted(registry)


def test_each_function_of_ops_that_records_an_operation_has_a_page() -> None:
    homes = [name for family in records.families() for name in family.functions]
    assert sorted(homes) == sorted(records.public_functions())


def test_what_xla_lacks_is_read_as_the_backend_has_it() -> None:
    assert records.missing_on_xla() == (pjrt.MISSING_OPS, pjrt.MISSING_DTYPES)


def test_opcodes_are_of_operations() -> None:
    assert sorted(set(sections.opcodes()) - set(registry)) == []


# What XLA's translation to HLO folds away, or what only a compiler puts into programs.
NOT_IN_HLO = {
    "after_all", "async_done", "async_start", "async_update", "add_dependency", "bitcast", "copy", "domain",
    "dynamic_reshape", "fusion", "get_dimension_size", "get_tuple_element", "python_callback", "recv_done", "send_done",
    "rng_get_and_update_state", "tuple", "create_token",
}  # fmt: skip


def opcodes_of(name: str) -> set[str]:
    """The opcodes in the HLO of an operation's cases, as far as needed to find the one that is expected."""
    found: set[str] = set()
    for _, case in case_checks.op_cases():
        if case.op == name:
            text = to_stablehlo(case_checks.computation_of(case), locations=False)
            hlo = _jaxlib.to_hlo(_jaxlib.parse(text))
            found |= set(re.findall(r"= (?:\([^=]*?\)|\S+) ([\w-]+)\(", hlo))
            if hlo_opcode(registry[name]) in found:
                break
    return found


def test_opcodes_are_those_of_xla() -> None:
    wrong = {}
    for name, op in registry.items():
        opcode = hlo_opcode(op)
        if opcode not in ("", "-") and name not in NOT_IN_HLO:
            found = opcodes_of(name)
            if opcode not in found:
                wrong[name] = (opcode, sorted(found))
    assert wrong == {}


# --- pages --------------------------------------------------------------------------------------------------------

LINK = re.compile(r"\[[^\]]*\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")


@pytest.mark.parametrize("name", sorted(PAGES))
def test_links_lead_somewhere(name: str) -> None:
    lost = []
    for target, anchor in LINK.findall(re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)):
        path = (Path("/") / name).parent.joinpath(target).resolve() if target else Path("/") / name
        page = PAGES.get(str(path.relative_to("/")))
        headings = re.findall(r"^#+ (.+)$", page or "", re.MULTILINE)
        if page is None or (anchor and anchor not in headings):
            lost.append(f"{target}#{anchor}")
    assert lost == []


def test_pages_are_those_that_the_records_make() -> None:
    written = {str(p.relative_to(DOCS)): p.read_text() for p in DOCS.rglob("*.md")}
    stale = sorted(n for n in {*written, *PAGES} if written.get(n) != PAGES.get(n))
    assert stale == [], (
        "the operation reference is not current: run make docs, or python docs/generate.py"
    )
