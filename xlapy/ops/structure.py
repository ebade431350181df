"""Tuple, GetTupleElement, OptimizationBarrier and Copy: values handed on as they are."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import Spec, TensorSpec, TupleSpec, as_int, as_items, require, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.autodiff import has_tangent
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I32
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register
from xlapy.trace.stablehlo import Writer

from .rules import Rules, broadcast_leading, linear, zeros_like, zeros_of

Array = np.ndarray[Any, Any]

# --- Tuple --------------------------------------------------------------------------------------


def infer_tuple(*xs: Spec) -> TupleSpec:
    """C1: the operands' types."""
    return TupleSpec(xs)


def jvp_tuple(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any]
) -> Sequence[Any]:
    """The tuple of tangents."""
    parts = [zeros_like(x) if t is None else t for x, t in zip(operands, tangents, strict=True)]
    return (bind(tuple_op, *parts),)


def vjp_tuple(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any]
) -> Sequence[Any]:
    """The cotangent's elements."""
    g = cotangents[0]
    return [
        bind(get_tuple_element_op, g, index=i) if has_tangent(x.spec) else None
        for i, x in enumerate(operands)
    ]


def with_new_axis(x: Any, size: int) -> Any:
    """A value of any spec repeated along a new axis 0; a token stays one."""
    if type(x.spec) is TensorSpec:
        return broadcast_leading(x, size)
    if type(x.spec) is TupleSpec:
        parts = [bind(get_tuple_element_op, x, index=i) for i in range(len(x.spec.elements))]
        return bind(tuple_op, *[with_new_axis(p, size) for p in parts])
    return x


def batch_tuple(op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int) -> Any:
    """Every element gets the new axis."""
    parts = [a if b else with_new_axis(a, size) for a, b in zip(args, is_batched, strict=True)]
    return bind(op, *parts)


tuple_op = register(Op(
    name="tuple",
    section="Tuple",
    infer=infer_tuple,
    hlo=Hlo("stablehlo.tuple"),
    kernel=lambda *xs, out: xs,
    ad=Rules(jvp_tuple, vjp_tuple),
    batch=batch_tuple,
))  # fmt: skip


def tuple(elements: Sequence[Any]) -> Tensor:
    """Several values as one.

    Parameters
    ----------
    elements : sequence of arrays, tuples and tokens

    Returns
    -------
    Tensor
        Of a `TupleSpec`; only inside a program.

    Notes
    -----
    Section Tuple of the operation semantics.

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("pair")
    >>> x = b.parameter(0, "f32[2]")
    >>> pair = tuple([x, x])
    >>> pair.spec
    (f32[2], f32[2])
    """
    result: Tensor = bind(tuple_op, *[lift(e) for e in as_items(elements, "elements")])
    return result


# --- GetTupleElement ----------------------------------------------------------------------------


def infer_get_tuple_element(x: TupleSpec, *, index: int) -> Spec:
    """C1, C2."""
    require_dtype(type(x) is TupleSpec, "I1", "the operand must be a tuple", x)
    require(0 <= index < len(x.elements), "C1", f"index must be in [0, {len(x.elements)})", index)
    return x.elements[index]


def transpose_get_tuple_element(g: Any, x: Any, *, index: int) -> Any:
    """Zeros for the other elements."""
    parts = [g if i == index else _zeros(x, i) for i in range(len(x.spec.elements))]
    return bind(tuple_op, *parts)


def _zeros(x: Any, index: int) -> Any:
    """Zeros like an element of a tuple, of which the size may be known to the element alone."""
    spec = x.spec.elements[index]
    if type(spec) is TensorSpec and spec.dynamic:
        return zeros_like(bind(get_tuple_element_op, x, index=index))
    return zeros_of(spec)


get_tuple_element_op = register(Op(
    name="get_tuple_element",
    section="GetTupleElement",
    infer=infer_get_tuple_element,
    hlo=Hlo("stablehlo.get_tuple_element", {"index": I32}),
    kernel=lambda x, *, index, out: x[index],
    ad=linear(transpose_get_tuple_element),
    batch=lambda op, args, is_batched, size, *, index: bind(op, args[0], index=index),
))  # fmt: skip


def get_tuple_element(tuple_data: Any, index: int) -> Tensor:
    """One element of a tuple.

    Parameters
    ----------
    tuple_data : tuple
    index : int

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [I1] If the operand is no tuple.
    ConstraintError
        [C1] If there is no such element.

    Notes
    -----
    Section GetTupleElement of the operation semantics.

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("first")
    >>> t = b.parameter(0, "(f32[2], s32[])")
    >>> get_tuple_element(t, 1).spec
    s32[]
    """
    result: Tensor = bind(get_tuple_element_op, tuple_data, index=as_int(index, "index", "C1"))
    return result


# --- OptimizationBarrier ------------------------------------------------------------------------


def infer_optimization_barrier(*xs: Spec) -> Any:
    """C1: the operands' types."""
    return xs


def _through_barrier(xs: Sequence[Any]) -> Sequence[Any]:
    """A barrier for those that are there."""
    found = iter(bind(optimization_barrier_op, *[x for x in xs if x is not None]))
    return [None if x is None else next(found) for x in xs]


optimization_barrier_op = register(Op(
    name="optimization_barrier",
    section="OptimizationBarrier",
    infer=infer_optimization_barrier,
    hlo=Hlo("stablehlo.optimization_barrier"),
    kernel=lambda *xs, out: xs,
    ad=Rules(
        lambda operands, tangents, outs: _through_barrier(tangents),
        lambda operands, cotangents, outs: _through_barrier(cotangents),
    ),
    batch=lambda op, args, is_batched, size: bind(
        op, *[a if b else with_new_axis(a, size) for a, b in zip(args, is_batched, strict=True)]
    ),
))  # fmt: skip


def optimization_barrier(*operands: Any) -> Any:
    """Hand values on so that the compiler moves no computation across.

    Parameters
    ----------
    *operands : arrays or tokens
        Or a single sequence of them.

    Returns
    -------
    Tensor or tuple of Tensor
        One for a single operand that is no sequence.

    Notes
    -----
    Section OptimizationBarrier of the operation semantics. All results wait for all operands.

    Examples
    --------
    >>> import xlapy
    >>> optimization_barrier(xlapy.ops.constant(2.0))
    Tensor(2., f32[])
    """
    single = len(operands) == 1 and not isinstance(operands[0], list | builtins.tuple)
    given = operands[0] if len(operands) == 1 and not single else operands
    results = bind(optimization_barrier_op, *[lift(x) for x in given])
    return results[0] if single else results


# --- Copy ---------------------------------------------------------------------------------------


def write_copy(writer: Writer, instruction: Any) -> None:
    """StableHLO has no copies: values do not change."""
    writer.alias(instruction)


copy_op = register(Op(
    name="copy",
    section="Copy",
    infer=lambda x: x,
    hlo=Hlo("mhlo.copy", write=write_copy, decomposition=lambda x: x),
    kernel=lambda x, *, out: x,
    ad=linear(lambda g, x: g),
    batch=lambda op, args, is_batched, size: bind(op, args[0]),
))  # fmt: skip


def copy(operand: Any) -> Tensor:
    """The operand itself: in HLO, a copy in another place or layout.

    Parameters
    ----------
    operand : array, tuple or token

    Returns
    -------
    Tensor

    Notes
    -----
    Section Copy of the operation semantics. It is left out of StableHLO, whose values have no place.

    Examples
    --------
    >>> copy([1, 2])
    Tensor([1, 2], s32[2])
    """
    result: Tensor = bind(copy_op, lift(operand))
    return result
