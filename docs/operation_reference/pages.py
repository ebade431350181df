"""The pages of the reference: an index with the coverage of the operation semantics, and one page for each family."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from operation_reference import records, sections
from operation_reference.constraints import Constraint, constraints_of, device_constraints_of
from operation_reference.docstrings import Docstring, first_sentence, signature_of
from operation_reference.records import Family, families, public_functions
from xlapy.backends.region_limits import ACROSS_DEVICES, REDUCTIONS, SCALAR_REGIONS
from xlapy.dtypes import TABLE
from xlapy.errors import DTypeError
from xlapy.trace.op import Op, registry

__all__ = ["pages"]

_NOTICE = "<!-- Written by docs/generate.py from the records of the operations: change those, and run `make docs`. -->"


def pages() -> dict[str, str]:
    """The text of every page, by its path in `docs`.

    Returns
    -------
    dict of str
    """
    found = {"operations.md": _text(_index())}
    for family in families():
        found[f"operations/{family.name}.md"] = _text(_page(family))
    return found


def _text(lines: Iterator[str]) -> str:
    """Lines as a page: none ends with blanks, and no two empty ones follow each other."""
    text = "\n".join(line.rstrip() for line in lines)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


# --- the page of a family ---------------------------------------------------------------------------------------------


def _page(family: Family) -> Iterator[str]:
    yield from (_NOTICE, "", f"# {family.title}", "", *family.intro.split("\n"), "")
    yield "Back to [all operations](../operations.md)."
    shown: set[str] = set()
    for op in family.ops:
        name = _function_of(op)
        if name is not None:
            shown.add(name)
        yield from ("", f"## {name or op.name}", "")
        if name is not None:
            yield from _documentation(name, family.functions[name])
        else:
            yield from _hidden(op, family)
        yield from _record(op)
    for name, function in family.functions.items():
        if name not in shown:
            yield from ("", f"## {name}", "")
            yield from _documentation(name, function)


def _function_of(op: Op) -> str | None:
    """The public function that has an operation's name."""
    for name in (op.name, f"{op.name}_"):
        if name in public_functions():
            return name
    return None


def _documentation(name: str, function: Callable[..., Any]) -> Iterator[str]:
    docstring = Docstring.of(function)
    yield from ("```python fragment", signature_of(f"ops.{name}", function), "```", "")
    yield from (*docstring.summary.split("\n"), "", *docstring.markdown())


def _hidden(op: Op, family: Family) -> Iterator[str]:
    """An operation that no function has the name of."""
    users = [n for n, f in family.functions.items() if op in records.ops_used(f)]
    if users:
        named = ", ".join(f"[{n}](#{n})" for n in users)
        yield from (f"The record of {named}.", "")
    else:
        yield from ("It appears in programs that are read, and no function records it.", "")


def _record(op: Op) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for key, value in _rows(op):
        yield f"| {key} | {_cell(value)} |"
    for title, constraints in (
        ("Constraints", constraints_of(op)),
        ("Constraints on the devices of a program", device_constraints_of(op)),
    ):
        if constraints:
            yield from ("", f"**{title}**", "")
            for c in _distinct(constraints):
                yield f"- **{c.label}** {c.sentence.markdown}: `{c.error.__name__}`"
    yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _distinct(constraints: tuple[Constraint, ...]) -> list[Constraint]:
    """Each label with each sentence once, whatever stands in the sentence's holes."""
    found: dict[Any, Constraint] = {}
    for c in constraints:
        words = tuple(p if isinstance(p, str) else None for p in c.sentence.parts)
        found.setdefault((c.label, words, c.error), c)
    return list(found.values())


_OF_TYPES = re.compile(r"\b(kind|types?|integers?|complex|order|truth values|float)\b")


def _rows(op: Op) -> Iterator[tuple[str, str]]:
    yield "Section", op.section
    yield "MLIR", records.spelling_of(op)
    attributes = records.attributes_of(op)
    if attributes:
        yield "Attributes and regions", "; ".join(attributes)
    opcode = hlo_opcode(op)
    yield "HLO", {"": "several instructions", "-": "none"}.get(opcode, f"`{opcode}`")
    types = [
        f"{c.label}: {c.sentence.markdown}"
        for c in _distinct(constraints_of(op))
        if c.error is DTypeError
        and _OF_TYPES.search(c.sentence.markdown)
        and "tuples of" not in c.sentence.markdown
    ]
    yield "Element types", "; ".join(types) or "all"
    decomposition = records.decomposition_of(op)
    if decomposition is not None:
        yield "Decomposition", decomposition
    yield "Portable artifacts", records.portability_of(op)
    yield "Derivative", records.derivative_of(op)
    yield "Batching", records.batching_of(op)
    yield "Backends", "; ".join(("`interpreter`", *_on_xla(op)))


def hlo_opcode(op: Op) -> str:
    """The opcode of the instruction that the operation becomes in HLO: empty for several, a hyphen for none."""
    default = op.hlo.name.rsplit(".", 1)[-1].replace("_", "-")
    return sections.opcodes().get(op.name, default)


def _on_xla(op: Op) -> Iterator[str]:
    missing, _ = records.missing_on_xla()
    composed = op.hlo.decomposition is not None
    lacking = {p: ops[op.name] for p, ops in missing.items() if op.name in ops}
    if "*" in lacking:
        yield f"`pjrt`: {'as its decomposition, or ' if composed else ''}not: {lacking['*']}"
        return
    yield "`pjrt`" + (" of the other platforms" if lacking else "")
    for platform, instead in lacking.items():
        yield f"`pjrt:{platform}`: {'as its decomposition' if composed else 'not: ' + instead}"
    if op.name in SCALAR_REGIONS:
        inner = ", ".join(f"`{n}`" for n in sorted(SCALAR_REGIONS[op.name]))
        holds = "only arithmetic on scalars" + (f" and {inner}" if inner else "")
        yield f"there its computation holds {holds}; {'composed' if composed else 'refused'} otherwise"
    if op.name in ACROSS_DEVICES:
        names = ", ".join(f"`{n}`" for n in REDUCTIONS["*"])
        yield f"there its computation is one of {names} and its elements are some that XLA reduces; composed otherwise"


# --- the index --------------------------------------------------------------------------------------------------------


@functools.cache
def _addresses() -> Mapping[str, str]:
    """Where each public function and each operation stands."""
    found = {}
    for family in families():
        for op in family.ops:
            name = _function_of(op) or op.name
            found[op.name] = found[name] = f"operations/{family.name}.md#{name}"
        for name in family.functions:
            found[name] = f"operations/{family.name}.md#{name}"
    return found


def _link(name: str) -> str:
    return f"[{name}]({_addresses()[name]})"


def _index() -> Iterator[str]:
    claims = sections.claims()
    yield from (_NOTICE, "", "# Operations", "")
    yield "The functions of `xlapy.ops`, one for each operation of XLA, and the records behind them. They never"
    yield "promote element types and broadcast scalars only; the functions of `xlapy` itself, which are like numpy's,"
    yield "are made of them. Every operation runs in the interpreter, which defines what it means."
    yield from ("", "## The sections of the operation semantics", "")
    yield "What each section of [XLA's operation semantics](https://openxla.org/xla/operation_semantics) is here."
    yield from ("", "| section | here |", "|---|---|")
    for name in sections.section_names():
        links = ", ".join(map(_link, claims.get(name, ())))
        yield f"| {name} | {links or _cell(sections.unclaimed().get(name, '**nothing yet**'))} |"
    yield from ("", "## Beyond the operation semantics", "")
    yield from ("| | what | |", "|---|---|---|")
    known = set(sections.section_names())
    for op in registry.values():
        if op.section not in known:
            yield f"| {_link(_function_of(op) or op.name)} | {_cell(_summary(op))} | `{op.hlo.name or '-'}` |"
    yield from ("", "Functions composed of these operations:", "", "| | what |", "|---|---|")
    claimed = {name for names in claims.values() for name in names}
    for name, function in public_functions().items():
        if name in _addresses() and name not in claimed and name.rstrip("_") not in registry:
            yield f"| {_link(name)} | {_cell(first_sentence(function))} |"
    yield from ("", "## Families", "")
    for family in families():
        links = ", ".join(_link(_function_of(op) or op.name) for op in family.ops)
        yield f"- [{family.title}](operations/{family.name}.md): {links}"
    yield from ("", "## What holds everywhere", "")
    yield "An array has at most 128 dimensions, none of them negative, and fewer than 2**62 bits (X1). A label `C..` or"
    yield "`I..` is that of StableHLO's specification, `X..` stands for what only XLA or xlapy asks for."
    yield from ("", "Element types: " + ", ".join(f"`{d.name}`" for d in TABLE) + ".")
    _, dtypes = records.missing_on_xla()
    yield f"The backend `pjrt` lacks {', '.join(f'`{d}`' for d in sorted(dtypes))}; the interpreter has all."


def _summary(op: Op) -> str:
    name = _function_of(op)
    return first_sentence(public_functions()[name]) if name is not None else ""
