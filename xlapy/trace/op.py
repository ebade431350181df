"""What an operation is: one record, one place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias, final

from xlapy.errors import XlapyError, shown

__all__ = [
    "AdKind",
    "Codec",
    "FusedAdKind",
    "Hlo",
    "Op",
    "by_hlo_name",
    "lookup",
    "register",
    "registry",
]

Specs: TypeAlias = Any  # one spec, or a tuple of them for an operation with several results


class AdKind(Protocol):
    """How an operation is differentiated; see `xlapy.ops.rules` for the kinds.

    `operands`, `outs`, `tangents` and `cotangents` are lists of tensors; None is a symbolic zero.
    """

    @property
    def kind(self) -> str:
        """One word for documentation: elementwise, linear, bilinear, zero, none, rules, fused."""
        ...

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Mapping[str, Any],
    ) -> Sequence[Any]:
        """The tangent of each result."""
        ...

    def vjp(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        outs: Sequence[Any],
        params: Mapping[str, Any],
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The cotangent of each operand; those that are not `needed` may be None."""
        ...


class FusedAdKind(AdKind, Protocol):
    """For control flow, whose derivative runs together with the operation: the instruction is replaced.

    An instance is told from an `AdKind` by having `forward`.
    """

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Run the operation with its tangents: (results, their tangents)."""
        ...

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Any]:
        """Run the operation and keep what the way back needs: (results, residuals)."""
        ...

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Mapping[str, Any],
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The cotangent of each operand, from the residuals."""
        ...


class Codec(Protocol):
    """A parameter's spelling as an MLIR attribute, in both directions."""

    def print(self, value: Any) -> str | None:
        """The attribute's text; None leaves it out."""
        ...

    def parse(self, attribute: Any) -> Any:
        """The parameter from an MLIR attribute; None stands for one that is absent."""
        ...


@final
@dataclass(eq=False, repr=False, slots=True)
class Hlo:
    """How an operation is written as StableHLO (or CHLO, MHLO): a declaration from which text goes out and in.

    Attributes
    ----------
    name : str
        ``"stablehlo.add"``; empty for an operation that exists only as its decomposition.
    attrs : mapping
        From each parameter to its codec; the attribute has the parameter's name.
    regions : sequence of str
        The parameters that are computations, in the order of the regions.
    decomposition : callable, optional
        ``f(*operands, **params)`` that computes the same by calling other operations: for backends and
        formats that lack this one.
    write, read : callable, optional
        For the few that do not fit the declaration: ``write(writer, instruction)`` and
        ``read(reader, operation)``; see `xlapy.trace.stablehlo`.
    is_portable : callable, optional
        ``is_portable(params)``: whether it may stand in a portable artifact as it is written; by default unless it is
        of MHLO.
    """

    name: str
    attrs: Mapping[str, Codec] = field(default_factory=dict)
    regions: tuple[str, ...] = ()
    decomposition: Callable[..., Any] | None = None
    write: Callable[..., Any] | None = None
    read: Callable[..., Any] | None = None
    is_portable: Callable[[Mapping[str, Any]], bool] | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """Everything there is to know of an operation; all fields are required.

    Attributes
    ----------
    name : str
        The public name, ``xlapy.ops.NAME``.
    section : str
        The section of XLA's operation semantics, or ``"CHLO"`` / ``"StableHLO"`` / ``"HLO"`` with a name.
    infer : callable
        ``infer(*specs, **params)``: checks everything, and gives the result's spec (a tuple of specs for an
        operation of several results).
    hlo : Hlo
    kernel : callable
        ``kernel(*arrays, out, **params)``: numpy; `out` is what `infer` gave. Gives one array, or a tuple
        where `infer` gives a tuple. Computations among the parameters arrive as callables on whole arrays.
    ad : AdKind
    batch : callable
        ``batch(op, args, is_batched, size, **params)``: the batched results, as bare result or tuple like
        the operation's own; axis 0 of every batched operand and of every result is the new axis.
    """

    name: str
    section: str
    infer: Callable[..., Specs]
    hlo: Hlo
    kernel: Callable[..., Any]
    ad: AdKind
    batch: Callable[..., Any]

    def __repr__(self) -> str:
        return f"Op({self.name})"


class _Registry:
    def __init__(self) -> None:
        self.ops: dict[str, Op] = {}
        self.hlo_names: dict[str, Op] = {}
        self.readers: dict[str, Callable[..., Any]] = {}


_registry: Final = _Registry()
#: every operation by name
registry: Final[Mapping[str, Op]] = MappingProxyType(_registry.ops)


def register(op: Op) -> Op:
    """Add an operation to the registry; a second one of the same name is an error."""
    for table, name in ((_registry.ops, op.name), (_registry.hlo_names, op.hlo.name)):
        if name and name in table:
            raise XlapyError(
                f"operation names must be unique; got {shown(name)} from {op.infer.__module__} and from"
                f" {table[name].infer.__module__} [X1]"
            )
    _registry.ops[op.name] = op
    if op.hlo.name:
        _registry.hlo_names[op.hlo.name] = op
    return op


def lookup(name: str) -> Op:
    """The operation of a name; for the layers below the operations, which may not import them."""
    return _registry.ops[name]


def by_hlo_name(name: str) -> Op | None:
    """The operation that an MLIR name such as ``"stablehlo.add"`` stands for."""
    return _registry.hlo_names.get(name)


def register_reader(mlir_name: str, read: Callable[..., Any]) -> None:
    """Say how an MLIR operation is read that is another spelling of operations here, such as ``"stablehlo.if"``.

    Parameters
    ----------
    mlir_name : str
    read : callable
        ``read(reader, operation)``, as in `Hlo`.
    """
    if mlir_name in _registry.readers or mlir_name in _registry.hlo_names:
        raise XlapyError(
            f"an MLIR name must be read in one way; got {shown(mlir_name)} from {read.__module__} too [X1]"
        )
    _registry.readers[mlir_name] = read


def reader_of(mlir_name: str) -> Callable[..., Any] | None:
    """How the MLIR operation of a name is read, where it is another spelling."""
    return _registry.readers.get(mlir_name)
