"""What the records of the operations and the functions beside them say."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import xlapy.ops
from operation_reference.docstrings import first_sentence
from xlapy.ops import rules
from xlapy.trace import codecs
from xlapy.trace.op import Op, registry

__all__ = [
    "Family",
    "attributes_of",
    "batching_of",
    "decomposition_of",
    "derivative_of",
    "families",
    "missing_on_xla",
    "portability_of",
    "public_functions",
    "spelling_of",
]


# --- families ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """The operations of one module.

    Attributes
    ----------
    name : str
        The module's.
    intro : str
        Its docstring.
    ops : tuple of Op
        In the order in which they stand in the module.
    functions : mapping
        The public functions that record them, by name.
    """

    name: str
    intro: str
    ops: tuple[Op, ...]
    functions: Mapping[str, Callable[..., Any]]

    @property
    def title(self) -> str:
        """The module's name in words."""
        return self.name.replace("_", " ").capitalize()


@functools.cache
def public_functions() -> Mapping[str, Callable[..., Any]]:
    """The functions of `xlapy.ops`."""
    return {
        n: f
        for n, f in sorted(vars(xlapy.ops).items())
        if inspect.isfunction(f) and not n.startswith("_")
    }


@functools.cache
def families() -> tuple[Family, ...]:
    """Every module with operations, by name."""
    homes: dict[str, list[Op]] = {}
    names = [m.name for m in pkgutil.iter_modules(xlapy.ops.__path__)]
    for module in [f"xlapy.ops.{n}" for n in names if f"xlapy.ops.{n}" in _loaded()]:
        ops = list(_ops_of(importlib.import_module(module)))
        if ops:
            homes[module] = ops
    family_of = {op: module for module, ops in homes.items() for op in ops}
    assert set(family_of) == set(registry.values())
    functions: dict[str, dict[str, Callable[..., Any]]] = {module: {} for module in homes}
    for name, function in public_functions().items():
        home = function.__module__
        if home not in homes:
            home = next((family_of[op] for op in ops_used(function)), "")
        if home:
            functions[home][name] = function
    return tuple(
        Family(
            m.rsplit(".", 1)[-1],
            inspect.getdoc(importlib.import_module(m)) or "",
            tuple(ops),
            functions[m],
        )
        for m, ops in sorted(homes.items())
    )


def _loaded() -> set[str]:
    return {op.kernel.__module__ for op in registry.values()} | set(_module_names())


def _module_names() -> Iterator[str]:
    import sys

    yield from (name for name in sys.modules if name.startswith("xlapy.ops."))


def _ops_of(module: types.ModuleType) -> Iterator[Op]:
    """The operations that a module assigns to names of its own."""
    for node in ast.parse(inspect.getsource(module)).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            found = vars(module).get(target.id) if isinstance(target, ast.Name) else None
            if isinstance(found, Op):
                yield found


def ops_used(function: Callable[..., Any]) -> Iterator[Op]:
    """The operations that a function names, itself or through others of `xlapy.ops`, nearest first."""
    seen: set[Any] = set()
    queue = [inspect.unwrap(function)]
    while queue:
        found = queue.pop(0)
        if found in seen or not found.__module__.startswith("xlapy.ops"):
            continue
        seen.add(found)
        for code in _codes(found.__code__):
            for name in code.co_names:
                value = found.__globals__.get(name)
                if isinstance(value, Op):
                    yield value
                elif inspect.isfunction(value):
                    queue.append(inspect.unwrap(value))
            if "lookup" in code.co_names:
                yield from (
                    registry[c] for c in code.co_consts if isinstance(c, str) and c in registry
                )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


# --- spelling ---------------------------------------------------------------------------------------------------------


def spelling_of(op: Op) -> str:
    """How the operation is written in MLIR."""
    name, write = op.hlo.name, op.hlo.write
    text = f"`{name}`" if name else "none of its own"
    if not name and write is None and op.hlo.decomposition is not None:
        text += "; written as its decomposition"
    if write is not None:
        said = first_sentence(write)
        text += f"; written {'so: ' + said if said else 'as its element type needs it'}"
    return text


def attributes_of(op: Op) -> list[str]:
    """Each attribute with its form, and each region."""
    found = [f"`{key}` ({_form(codec)})" for key, codec in op.hlo.attrs.items()]
    return found + [f"region `{name}`" for name in op.hlo.regions]


_SIMPLE: Final = {
    id(value): name for name, value in vars(codecs).items() if isinstance(value, codecs.Simple)
}


def _form(codec: Any) -> str:
    if id(codec) in _SIMPLE:
        kind, _, container = _SIMPLE[id(codec)].lower().partition("_")
        return f"{container} of {kind}" if container else kind
    if isinstance(codec, codecs.Optional):
        return f"{_form(codec.codec)}, may be left out"
    if isinstance(codec, codecs.Enum):
        return f"`#{codec.dialect}<{codec.name} ...>`"
    if isinstance(codec, codecs.EnumList):
        return f"list of `#stablehlo<{codec.name} ...>`"
    if isinstance(codec, codecs.Struct):
        return f"`#{codec.name}<...>` of {', '.join(f'`{f}`' for f in codec.fields)}"
    if isinstance(codec, codecs.Group):
        inner = (
            f"`#{codec.codec.name}<...>`"
            if isinstance(codec.codec, codecs.Struct)
            else _form(codec.codec)
        )
        return f"{inner} of {', '.join(f'`{p}`' for p in codec.params)}"
    if isinstance(codec, codecs.Simple):
        return "a text of its own"
    return first_sentence(type(codec)).replace("``", "`") or type(codec).__name__.strip("_").lower()


def decomposition_of(op: Op) -> str | None:
    """What computes the same where a backend or a format lacks the operation."""
    function = op.hlo.decomposition
    if function is None:
        return None
    if function.__name__ != "<lambda>":
        return first_sentence(function) or "other operations"
    called = [function.__globals__.get(name) for name in function.__code__.co_names]
    said = [
        first_sentence(f)
        for f in called
        if inspect.isfunction(f) and f.__module__.startswith("xlapy.ops")
    ]
    used = [f"`{op.name}`" for op in dict.fromkeys(ops_used(function))]
    return next((s for s in said if s), ", ".join(used) or "the operand itself")


def portability_of(op: Op) -> str:
    """What becomes of the operation in a portable artifact."""
    hlo = op.hlo
    other = "as its decomposition" if hlo.decomposition is not None else "refused"
    if hlo.is_portable is not None:
        return f"as it is, or {other}: {first_sentence(hlo.is_portable) or 'it depends on the parameters'}"
    return "as it is" if (hlo.name or hlo.write) and not hlo.name.startswith("mhlo.") else other


# --- derivative and batching ------------------------------------------------------------------------------------------


def derivative_of(op: Op) -> str:
    """The kind of the derivative, and what it says of itself."""
    ad = op.ad
    own = type(ad).__module__ != rules.__name__
    if isinstance(ad, rules.Elementwise) and None in ad.pull:
        none = [str(i) for i, pull in enumerate(ad.pull) if pull is None]
        return f"elementwise; none with respect to operand {', '.join(none)}"
    if isinstance(ad, rules.Linear) and ad.wrt is not None:
        which = (ad.wrt,) if isinstance(ad.wrt, int) else ad.wrt
        return f"linear in operand {', '.join(map(str, which))}"
    if isinstance(ad, rules.NotDifferentiable):
        return f"none: {ad.why}"
    if isinstance(ad, rules.ByBody):
        known = ", ".join(f"`{k}`" for k in ad.kinds)
        return (
            f"by the computation in `{ad.region}`: {known}{', and any other' if ad.generic else ''}"
        )
    if isinstance(ad, rules.Zero):
        return "zero"
    kind = {"rules": "rules of its own", "fused": "computed together with the operation"}.get(
        ad.kind, ad.kind
    )
    said = first_sentence(type(ad)) if own else ""
    return f"{kind}{': ' + said if said else ''}"


def batching_of(op: Op) -> str:
    """How the operation is vectorised, or why it is not."""
    batch = op.batch
    if batch is rules.batch_elementwise:
        return "elementwise"
    closure = inspect.getclosurevars(batch).nonlocals if inspect.isfunction(batch) else {}
    if "why" in closure:
        return f"unsupported: {closure['why']}"
    return first_sentence(batch) or "a rule of its own"


# --- backends ---------------------------------------------------------------------------------------------------------


@functools.cache
def missing_on_xla() -> tuple[Mapping[str, Mapping[str, str]], frozenset[str]]:
    """What XLA does not run, by platform, and the element types that it lacks.

    Read from the program text, for the module itself needs jaxlib.
    """
    path = Path(inspect.getfile(xlapy.ops)).parent.parent / "backends" / "pjrt.py"
    namespace: dict[str, Any] = {}
    for node in ast.parse(path.read_text()).body:
        target = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(target, ast.Name) and node.value is not None:
            # A constant that needs more than the constants before it is none of these.
            try:
                namespace[target.id] = eval(
                    compile(ast.Expression(node.value), str(path), "eval"), namespace
                )
            except NameError:
                continue
    return namespace["MISSING_OPS"], namespace["MISSING_DTYPES"]
