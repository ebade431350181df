"""Families of elementwise operations: factories that make a whole record from what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from xlapy.dtypes import DType
from xlapy.specs import TensorSpec, as_ints, require, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register

from .rules import batch_elementwise, elementwise

ANY: Final = frozenset(("bool", "int", "uint", "float", "complex"))
NUMBER: Final = frozenset(("int", "uint", "float", "complex"))
REAL: Final = frozenset(("int", "uint", "float"))
INTEGER: Final = frozenset(("int", "uint"))
LOGICAL: Final = frozenset(("bool", "int", "uint"))
FLOAT: Final = frozenset(("float",))
INEXACT: Final = frozenset(("float", "complex"))
SIGNED: Final = frozenset(("int", "float", "complex"))


# --- families -----------------------------------------------------------------------------------------------------


def _kinds(kinds: frozenset[str]) -> str:
    order = ("bool", "int", "uint", "float", "complex")
    return ", ".join(k for k in order if k in kinds)


def unary(
    name: str,
    hlo: str,
    *,
    section: str,
    dtypes: frozenset[str],
    kernel: Callable[[Any], Any],
    derivative: Callable[[Any, Any], Any] | None = None,
    ad: Any = None,
    result: Callable[[DType], Any] | None = None,
    attrs: dict[str, Any] | None = None,
) -> Op:
    """Register an operation on one array, element by element.

    Parameters
    ----------
    name, hlo, section : str
    dtypes : set of kinds
        Of the operand.
    kernel : callable
        ``kernel(x, **params)``.
    derivative : callable, optional
        ``derivative(x, y)``: dy/dx, where y is the result.
    ad : AdKind, optional
        Where there is no such derivative.
    result : callable, optional
        From the operand's element type to the result's; by default the same.
    attrs : dict, optional
        Codecs of the parameters.
    """

    def infer(x: TensorSpec, **params: Any) -> TensorSpec:
        if type(x) is not TensorSpec or x.dtype.kind not in dtypes:
            require_dtype(False, "I1", f"the operand must be an array of kind {_kinds(dtypes)}", x)
        return x if result is None else x.with_dtype(result(x.dtype))

    if derivative is not None:
        given = derivative

        def pull(g: Any, x: Any, y: Any) -> Any:
            return bind(lookup("mul"), g, given(x, y))

        ad = elementwise(pull)
    return register(Op(
        name=name, section=section, infer=infer, hlo=Hlo(hlo, attrs or {}),
        kernel=lambda x, *, out, **params: kernel(x, **params), ad=ad, batch=batch_elementwise,
    ))  # fmt: skip


def binary(
    name: str,
    hlo: str,
    *,
    section: str,
    dtypes: frozenset[str],
    kernel: Callable[..., Any],
    ad: Any,
    result: Callable[[DType], Any] | None = None,
    attrs: dict[str, Any] | None = None,
) -> Op:
    """Register an operation on two arrays of one spec, element by element; as `unary`."""

    def infer(x: TensorSpec, y: TensorSpec, **params: Any) -> TensorSpec:
        if x is not y:
            _require_equal(x, y)
        if type(x) is not TensorSpec or x.dtype.kind not in dtypes:
            require_dtype(False, "I1", f"the operands must be arrays of kind {_kinds(dtypes)}", x)
        return x if result is None else x.with_dtype(result(x.dtype))

    return register(Op(
        name=name, section=section, infer=infer, hlo=Hlo(hlo, attrs or {}),
        kernel=lambda x, y, *, out, **params: kernel(x, y, **params), ad=ad, batch=batch_elementwise,
    ))  # fmt: skip


def _require_equal(x: Any, y: Any) -> None:
    """C1: operands of one element type and shape."""
    require_dtype(type(x) is TensorSpec and type(y) is TensorSpec, "I1", "the operands must be arrays", (x, y))
    require_dtype(x.dtype is y.dtype, "C1", "the operands must be of one element type", (x.dtype, y.dtype))
    require_shape(x.shape == y.shape, "C1", "the operands must be of one shape", (x.shape, y.shape))
    require_shape(x.dynamic == y.dynamic, "C1", "the operands must have the same dynamic dimensions", (x, y))


# --- how public functions meet their operands ---------------------------------------------------------------------


def meet(x: Any, y: Any, broadcast_dimensions: Sequence[int] | None = None) -> tuple[Any, Any]:
    """Two operands of one shape: scalars are broadcast, and the lower rank goes where `broadcast_dimensions` says."""
    if type(x) is not Tensor:
        x = lift(x, (y,))
    if type(y) is not Tensor:
        y = lift(y, (x,))
    a, b = x.placed.spec, y.placed.spec
    if a is b or type(a) is not TensorSpec or type(b) is not TensorSpec:
        return x, y
    if broadcast_dimensions is not None and a.rank != b.rank:
        dims = as_ints(broadcast_dimensions, "broadcast_dimensions", "X1")
        low, high = (a, b) if a.rank < b.rank else (b, a)
        require(
            len(dims) == low.rank and all(0 <= d < high.rank for d in dims) and list(dims) == sorted(set(dims)),
            "X1", f"broadcast_dimensions must name a dimension of {high} for each of {low}, in order", dims,
        )  # fmt: skip
        if a.rank < b.rank:
            return _broadcast(x, b.shape, dims), y
        return x, _broadcast(y, a.shape, dims)
    if a.shape != b.shape:
        if not a.rank:
            return _broadcast(x, b.shape, ()), y
        if not b.rank:
            return x, _broadcast(y, a.shape, ())
    return x, y


def _broadcast(x: Tensor, shape: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    return bind(lookup("broadcast_in_dim"), x, shape=shape, broadcast_dimensions=dims)
