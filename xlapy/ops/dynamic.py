"""GetDimensionSize, SetDimensionSize and DynamicReshape: arrays whose sizes are computed.

An array whose size varies up to a bound has the bound in its spec; the interpreter holds it in its actual size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.errors import UnsupportedOpError
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_axis,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import sized_like
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .rules import broadcast_leading, linear, zero, zeros_of
from .varying import (
    SIZE,
    checked,
    known_shape,
    known_values,
    lift_sizes,
    read_result,
    require_sizes,
    result_of,
    within_bound,
    write_with_result,
)

Array = np.ndarray[Any, Any]

# --- GetDimensionSize -----------------------------------------------------------------------------


def infer_get_dimension_size(x: TensorSpec, *, dimension: int) -> TensorSpec:
    """C1."""
    require_array(x, "I1")
    require(0 <= dimension < x.rank, "C1", f"dimension must be in [0, {x.rank})", dimension)
    return TensorSpec((), SIZE)


def batch_get_dimension_size(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, dimension: int
) -> Any:
    """Every row has the same size."""
    return broadcast_leading(bind(op, args[0], dimension=dimension + 1), size)


get_dimension_size_op = register(Op(
    name="get_dimension_size",
    section="GetDimensionSize",
    infer=infer_get_dimension_size,
    hlo=Hlo("stablehlo.get_dimension_size", {"dimension": I64}),
    kernel=lambda x, *, dimension, out: np.int32(x.shape[dimension]),
    ad=zero,
    batch=batch_get_dimension_size,
))  # fmt: skip


def get_dimension_size(operand: Any, dimension: int) -> Tensor:
    """The size of a dimension at run time.

    Parameters
    ----------
    operand : array
    dimension : int

    Returns
    -------
    Tensor
        An s32 scalar.

    Raises
    ------
    ShapeError
        [C1] If there is no such dimension.

    Notes
    -----
    Section GetDimensionSize of the operation semantics.

    Examples
    --------
    >>> get_dimension_size([[1, 2, 3]], 1)
    Tensor(3, s32[])
    """
    x = lift(operand)
    result: Tensor = bind(get_dimension_size_op, x, dimension=as_axis(dimension, x.ndim, "C1"))
    return result


# --- SetDimensionSize -----------------------------------------------------------------------------


def infer_set_dimension_size(
    x: TensorSpec, size: TensorSpec, *, dimension: int, varies: bool
) -> TensorSpec:
    """X1 to X4; the StableHLO specification leaves it out.

    The size has to be within the bound: `set_dimension_size` and the reader see to it. XLA takes any size for true, so
    that a larger one would be what `get_dimension_size` gives and what a concatenation goes by.
    """
    require_array(x, "I1")
    require_array(size, "I2", "the size")
    require_dtype(size.dtype is SIZE, "X1", "the size must be of type s32", size)
    require_shape(size.rank == 0, "X2", "the size must be a scalar", size)
    require(0 <= dimension < x.rank, "X3", f"dimension must be in [0, {x.rank})", dimension)
    require_shape(x.shape[dimension] is not DYNAMIC, "X4", "the dimension must have a bound", x)
    others = set(x.dynamic) - {dimension}
    return x.with_shape(x.shape, sorted({*others, dimension} if varies else others))


def kernel_set_dimension_size(
    x: Array, size: Array, *, dimension: int, varies: bool, out: TensorSpec
) -> Array:
    """The first elements along the dimension; zeros take the places of those that are not held."""
    bound = out.shape[dimension]
    wanted = min(max(int(size), 0), bound) if varies else bound
    held = x.shape[dimension]
    if wanted <= held:
        return x[(np.s_[:],) * dimension + (np.s_[:wanted],)]
    missing = list(x.shape)
    missing[dimension] = wanted - held
    return np.concatenate([x, np.zeros(missing, x.dtype)], dimension)


def transpose_set_dimension_size(g: Any, x: Any, size: Any, *, dimension: int, varies: bool) -> Any:
    """Zeros for the elements beyond the size."""
    spec = x.spec
    if not varies:
        if dimension not in spec.dynamic:
            return g
        length = _length(x, dimension)
        return bind(set_dimension_size_op, g, length, dimension=dimension, varies=True)
    whole = bind(lookup("constant"), value=np.array(spec.shape[dimension], np.int32))
    full = bind(set_dimension_size_op, g, whole, dimension=dimension, varies=False)
    numbers = bind(lookup("iota"), shape=(spec.shape[dimension],), dtype=SIZE, iota_dimension=0)
    sizes = bind(
        lookup("broadcast_in_dim"), size, shape=numbers.spec.shape, broadcast_dimensions=()
    )
    held = bind(lookup("compare"), numbers, sizes, comparison_direction="LT", compare_type="SIGNED")
    mask = bind(
        lookup("broadcast_in_dim"), held, shape=spec.shape, broadcast_dimensions=(dimension,)
    )
    zeros = zeros_of(full.spec.with_shape(full.spec.shape))
    kept = bind(lookup("select"), sized_like(mask, full), full, sized_like(zeros, full))
    if dimension in spec.dynamic:
        kept = bind(
            set_dimension_size_op, kept, _length(x, dimension), dimension=dimension, varies=True
        )
    return kept


def _length(x: Any, dimension: int) -> Any:
    return bind(get_dimension_size_op, x, dimension=dimension)


def batch_set_dimension_size(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    dimension: int,
    varies: bool,
) -> Any:
    """One size for all rows."""
    x, length = args
    if is_batched[1]:
        if varies:
            raise UnsupportedOpError(
                f"{op.name}: the rows of a batch must have one size, for an array has no ragged dimensions; got sizes"
                f" {length.spec} [X5]"
            )
        bound = x.spec.shape[dimension + is_batched[0]]
        length = bind(lookup("constant"), value=np.array(bound, np.int32))
    if not is_batched[0]:
        x = broadcast_leading(x, size)
    return bind(op, x, length, dimension=dimension + 1, varies=varies)


def _safe(size: Any, bound: int, varies: bool) -> Any:
    """A size that XLA does not fail on: within the bound, or, if it does not vary, the bound itself."""
    if varies:
        return within_bound(size, bound)
    return size if known_values(size) == [bound] else lift(np.int32(bound), (size,))


def read_set_dimension_size(reader: Reader, operation: Any) -> Any:
    """Whether the size varies stands in the result's type."""
    dimension = I64.parse(reader.attribute(operation, "dimension"))
    declared = read_result(reader, operation)
    varies = dimension in declared.dynamic or declared.shape[dimension] is DYNAMIC
    x, size = reader.operands(operation)
    infer_set_dimension_size(x.spec, size.spec, dimension=dimension, varies=varies)
    size = _safe(size, x.spec.shape[dimension], varies)
    return bind(set_dimension_size_op, x, size, dimension=dimension, varies=varies)


def write_set_dimension_size(writer: Writer, instruction: Any) -> None:
    """Whether the size varies stands in the result's type."""
    dimension = I64.print(instruction.params["dimension"])
    writer.line("stablehlo.set_dimension_size", instruction, f"dimension = {dimension}")


set_dimension_size_op = register(Op(
    name="set_dimension_size",
    section="SetDimensionSize",
    infer=infer_set_dimension_size,
    hlo=Hlo(
        "stablehlo.set_dimension_size", write=write_set_dimension_size, read=read_set_dimension_size
    ),
    kernel=kernel_set_dimension_size,
    ad=linear(transpose_set_dimension_size),
    batch=batch_set_dimension_size,
))  # fmt: skip


def set_dimension_size(operand: Any, val: Any, dimension: int) -> Tensor:
    """The operand with fewer elements along a dimension, as many as is computed.

    Parameters
    ----------
    operand : array
    val : s32 scalar
        The size, at most that of the operand; larger ones count as that, negative ones as 0. A Python integer that is
        the operand's whole size makes the dimension static again.
    dimension : int

    Returns
    -------
    Tensor
        Its spec has the operand's size as the bound of the dimension: ``f32[<=8]``. Only inside a program: XLA passes
        no arrays of varying size in or out.

    Raises
    ------
    DTypeError
        [X1] If `val` is no s32.
    ShapeError
        [X2] If it is no scalar; [X3] if there is no such dimension.

    Notes
    -----
    Section SetDimensionSize of the operation semantics. Reductions ignore the elements beyond the size. Where the size
    grows again, what the new elements hold is not defined: zeros in the interpreter.

    Examples
    --------
    >>> import xlapy
    >>> b = xlapy.XlaBuilder("sum_of_first")
    >>> x, n = b.parameter(0, "f32[8]"), b.parameter(1, "s32[]")
    >>> set_dimension_size(x, n, 0).spec
    f32[<=8]
    """
    x = lift(operand)
    axis = as_axis(dimension, x.ndim, "X3")
    whole = type(val) is int and val == x.shape[axis]
    size = lift(val, (x,)) if not isinstance(val, int) else lift(np.int32(val), (x,))
    infer_set_dimension_size(x.spec, size.spec, dimension=axis, varies=not whole)
    size = _safe(size, x.shape[axis], not whole)
    result: Tensor = bind(set_dimension_size_op, x, size, dimension=axis, varies=not whole)
    return result


# --- DynamicReshape -------------------------------------------------------------------------------


def infer_dynamic_reshape(
    x: TensorSpec, output_shape: TensorSpec, *, result: TensorSpec
) -> TensorSpec:
    """C1, C2 and C4; C3 is of quantised types."""
    require_array(x, "I1")
    require_sizes(output_shape, "I2", "output_shape", result.rank, "C4")
    require_dtype(
        x.dtype is result.dtype, "C1", "the result must have the operand's type", result.dtype
    )
    require_shape(
        not (x.is_static and result.is_static) or x.size == result.size,
        "C2",
        f"the result must have the operand's {x.size} elements",
        result,
    )
    return result


def kernel_dynamic_reshape(
    x: Array, output_shape: Array, *, result: TensorSpec, out: TensorSpec
) -> Array:
    """The same elements in the same order."""
    sizes = checked(output_shape, out)
    require_shape(
        math.prod(sizes) == x.size, "C2", f"output_shape must have {x.size} elements", sizes
    )
    return x.reshape(sizes)


def transpose_dynamic_reshape(g: Any, x: Any, output_shape: Any, *, result: TensorSpec) -> Any:
    """Reshape back to the sizes that the operand has."""
    if x.spec.is_static and g.spec.is_static:
        return bind(lookup("reshape"), g, shape=x.spec.shape)
    sizes = [bind(lookup("reshape"), _length(x, d), shape=(1,)) for d in range(x.spec.rank)]
    if sizes:
        shape = bind(lookup("concatenate"), *sizes, dimension=0)
    else:
        shape = bind(lookup("constant"), value=np.zeros(0, np.int32))
    return bind(dynamic_reshape_op, g, shape, result=x.spec)


def batch_dynamic_reshape(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, result: TensorSpec
) -> Any:
    """The new axis stays in front."""
    x, output_shape = args
    if not is_batched[0]:
        x = broadcast_leading(x, size)
    if is_batched[1]:
        if not (result.is_static and x.spec.is_static):
            raise UnsupportedOpError(
                f"{op.name}: the rows of a batch must have one shape, for an array has no ragged dimensions; got shapes"
                f" {output_shape.spec} [X5]"
            )
        return bind(lookup("reshape"), x, shape=(size, *result.shape))
    first = bind(lookup("constant"), value=np.array([size], output_shape.spec.dtype.numpy))
    return bind(
        op,
        x,
        bind(lookup("concatenate"), first, output_shape, dimension=0),
        result=result.with_shape((size, *result.shape), tuple(d + 1 for d in result.dynamic)),
    )


def read_dynamic_reshape(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    x, output_shape = reader.operands(operation)
    result = read_result(reader, operation)
    shape = known_shape(reader, output_shape, result) if x.spec.is_static else None
    if shape is not None:
        return bind(lookup("reshape"), x, shape=shape)
    return bind(dynamic_reshape_op, x, output_shape, result=result)


dynamic_reshape_op: Op = register(Op(
    name="dynamic_reshape",
    section="DynamicReshape",
    infer=infer_dynamic_reshape,
    hlo=Hlo(
        "stablehlo.dynamic_reshape",
        write=write_with_result("stablehlo.dynamic_reshape"),
        read=read_dynamic_reshape,
    ),
    kernel=kernel_dynamic_reshape,
    ad=linear(transpose_dynamic_reshape),
    batch=batch_dynamic_reshape,
))  # fmt: skip


def dynamic_reshape(
    operand: Any,
    dim_sizes: Any,
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
) -> Tensor:
    """The elements, in the same order, in a shape that is computed.

    Parameters
    ----------
    operand : array
    dim_sizes : sequence of integer scalars, or an array of integers
        The sizes of the result.
    new_size_bounds : sequence of int
        The largest that each may be.
    dims_are_dynamic : sequence of bool, optional
        Which of them vary; the others are as large as their bound. None by default.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        [C2] If the number of elements differs; [C3] unless there is a size for each dimension.

    Notes
    -----
    Section DynamicReshape of the operation semantics.

    Examples
    --------
    >>> dynamic_reshape([1, 2, 3, 4], [2, 2], (2, 2))
    Tensor([[1, 2],
            [3, 4]], s32[2,2])
    """
    x = lift(operand)
    result = result_of(x.dtype, new_size_bounds, dims_are_dynamic)
    made: Tensor = bind(dynamic_reshape_op, x, lift_sizes(dim_sizes), result=result)
    return made
