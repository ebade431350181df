"""Reduce and what is built on it."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Final

import ml_dtypes
import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_axes,
    as_axis,
    as_ints,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import iota_like
from xlapy.trace.stablehlo_reader import Reader
from xlapy.trace.zeros import constant_of, shared_constant

from .bit_kernels import NARROW_INT_BITS
from .forms import converted
from .reduction_rules import batch_reduce, reduce_derivatives, tree
from .rules import body_name
from .scalar_bodies import in_types_of, on_arrays, require_fold, scalar_body, scalar_operation

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- the record -----------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def infer_reduce(
    *operands: TensorSpec, body: Computation, dimensions: Ints
) -> tuple[TensorSpec, ...]:
    """C1 to C6."""
    inputs, _ = split_operands(operands, "C3")
    x = inputs[0]
    require(
        all(0 <= d < x.rank for d in dimensions),
        "C4",
        f"dimensions must be in [0, {x.rank})",
        dimensions,
    )
    require(len(set(dimensions)) == len(dimensions), "C5", "dimensions must be unique", dimensions)
    require_fold(body, [i.dtype for i in inputs], "I4", "C6")
    kept = [d for d in range(x.rank) if d not in dimensions]
    shape = tuple([x.shape[d] for d in kept])
    dynamic = tuple([i for i, d in enumerate(kept) if d in x.dynamic])
    return tuple([TensorSpec(shape, i.dtype, dynamic) for i in inputs])


def split_operands(
    operands: Sequence[Any], label: str, shapes: str = "C1", types: str = "C2"
) -> tuple[Sequence[TensorSpec], Sequence[TensorSpec]]:
    """Inputs of one shape, and as many scalars of the same types."""
    count = len(operands) // 2
    require(
        count > 0 and len(operands) == 2 * count,
        label,
        "there must be as many init_values as inputs, at least one",
        len(operands),
    )
    inputs, inits = operands[:count], operands[count:]
    for x in inputs:
        require_array(x, "I1", "each input")
    for i in inits:
        require_array(i, "I2", "each init_value")
        require_shape(i.rank == 0, "I2", "each init_value must be a scalar", i)
    first = inputs[0]
    for x in inputs[1:]:
        require_shape(
            x.shape == first.shape and x.dynamic == first.dynamic,
            shapes,
            "the inputs must be of one shape",
            tuple(inputs),
        )
    for x, i in zip(inputs, inits, strict=True):
        require_dtype(
            x.dtype is i.dtype, types, "each init_value must have the type of its input", (x, i)
        )
    return inputs, inits


#: bodies that are one operation -> numpy's reduction; of truth values + is or, and * is and
UFUNCS: Final = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_SEQUENTIAL_LENGTH: Final = 64
_SEQUENTIAL_SIZE: Final = 1 << 12


def kernel_reduce(*arrays: Array, body: Any, dimensions: Ints, out: Any) -> tuple[Array, ...]:
    """result[kept] = body(... body(init, x[kept, 0]) ..., x[kept, K - 1]), in some order."""
    count = len(arrays) // 2
    axes = tuple(sorted(dimensions))
    if count == 1:
        name = body_name(body.computation)
        x, init = arrays
        if name in UFUNCS and is_exact(name, x.dtype):
            return (fold(name, x, init, axes),)
    return _fold_by_body(arrays[:count], arrays[count:], body, axes)


def is_exact(name: str, dtype: np.dtype[Any]) -> bool:
    """Whether numpy's ufunc does what the operation's kernel does, signs of zeros apart."""
    if dtype in NARROW_INT_BITS:
        return False
    return dtype.kind != "c" or name in ("add", "mul")


def fold(name: str, x: Array, init: Array, axes: Ints) -> Array:
    """A reduction by numpy; floats narrower than 32 bits are accumulated in float32, as XLA does."""
    ufunc, dtype = UFUNCS[name], x.dtype
    if dtype.itemsize < 4 and dtype.kind not in "biu":
        wide = np.float32
        found = ufunc.reduce(x.astype(wide), axis=axes, initial=init.astype(wide), dtype=wide)
        result = np.asarray(found).astype(dtype)
    else:
        result = np.asarray(ufunc.reduce(x, axis=axes, dtype=dtype, initial=init[()]))
    if name in ("max", "min") and dtype.kind not in "biu":
        result = _signed_zeros(name, x, init, axes, result)
    return result


def _signed_zeros(name: str, x: Array, init: Array, axes: Ints, result: Array) -> Array:
    """+0 is larger than -0, but numpy takes either."""
    if not np.count_nonzero(result == 0):
        return result
    positive = name == "max"
    sign = np.signbit(x.astype(np.float32) if x.dtype.kind == "V" else x)
    wanted = (x == 0) & (~sign if positive else sign)
    has = np.logical_or.reduce(wanted, axis=axes)
    if init == 0:
        has = has | (bool(np.signbit(np.float32(init))) is not positive)
    zero = np.asarray(0.0 if positive else -0.0, result.dtype)
    return np.where((result == 0) & has, zero, np.where(result == 0, -zero, result))


def _fold_by_body(
    xs: Sequence[Array], inits: Sequence[Array], body: Any, axes: Ints
) -> tuple[Array, ...]:
    """One element after the other as XLA on CPU; long rows of few elements by halves, in their order."""
    kept = tuple(d for d in range(xs[0].ndim) if d not in axes)
    shape = tuple(xs[0].shape[d] for d in kept)
    length = math.prod(xs[0].shape[d] for d in axes)
    rows = [x.transpose(axes + kept).reshape((length, *shape)) for x in xs]
    totals = tuple(np.broadcast_to(i, shape) for i in inits)
    if length <= _SEQUENTIAL_LENGTH or math.prod(shape) >= _SEQUENTIAL_SIZE:
        for k in range(length):
            totals = on_arrays(body, [*totals, *[r[k] for r in rows]])
        return totals
    while length > 1:
        even = length // 2 * 2
        pairs = on_arrays(body, [r[i:even:2] for i in (0, 1) for r in rows])
        if even < length:
            pairs = tuple(np.concatenate([p, r[even:]]) for p, r in zip(pairs, rows, strict=True))
        rows = list(pairs)
        length = length - length // 2
    return on_arrays(body, [*totals, *[r[0] for r in rows]])


def read_reduce(reader: Reader, operation: Any) -> Any:
    """Read it with the types of the body."""
    return _bind_reduce(reader.operands(operation), **reader.params(operation, reduce_op))


def _bind_reduce(operands: Sequence[Any], body: Any, dimensions: Ints) -> Any:
    count = len(operands) // 2
    inputs = in_types_of(body, operands[:count], "C6")
    inits = in_types_of(body, operands[count:], "C6")
    return bind(reduce_op, *inputs, *inits, body=body, dimensions=dimensions)


reduce_op = register(Op(
    name="reduce",
    section="Reduce",
    infer=infer_reduce,
    hlo=Hlo(
        "stablehlo.reduce",
        {"dimensions": I64_ARRAY},
        regions=("body",),
        decomposition=lambda *xs, body, dimensions: tuple(tree(xs, body, dimensions)),
        read=read_reduce,
    ),
    kernel=kernel_reduce,
    ad=reduce_derivatives,
    batch=batch_reduce,
))  # fmt: skip


def reduce(
    operands: Any, init_values: Any, computation: Any, dimensions_to_reduce: Any = None
) -> Any:
    """Dimensions of arrays folded away by a computation.

    Parameters
    ----------
    operands : array or sequence of N arrays of one shape
    init_values : scalar or sequence of N scalars
        Together the identity of `computation`; they may enter any number of times.
    computation : function or Computation
        From N accumulated scalars and then N elements to N scalars: `xlapy.ops.add`, or any function that is
        associative. It may take and give wider types of the same kind than the operands'.
    dimensions_to_reduce : int or sequence of int, optional
        By default all.

    Returns
    -------
    Tensor or tuple of Tensor
        Without those dimensions; a tuple where `operands` is a sequence.

    Raises
    ------
    ShapeError, DTypeError, ConstraintError
        [C1] to [C6] If operands, scalars, dimensions and computation do not fit together.

    Notes
    -----
    Section Reduce of the operation semantics. The order in which elements meet is the backend's choice. Reducing
    nothing gives the init values. Floats of 16 bits and fewer are added in f32 by the interpreter and by XLA on CPU.

    `init_values` have no derivative. At a maximum or minimum that several elements share, the derivative is shared
    equally; that of a product is right with zeros among the factors. Any other computation is differentiated by its
    own derivative: its tangents are reduced beside its values, and the way back goes through a tree of it.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce(ops.constant([[1, 2], [3, 4]]), 0, ops.add, [1])
    Tensor([3, 7], s32[2])
    """
    inputs, inits, several = together(operands, init_values)
    body = scalar_body(computation, inputs, "computation")
    rank = inputs[0].spec.rank if type(inputs[0].spec) is TensorSpec else 0
    dims = (
        tuple(range(rank))
        if dimensions_to_reduce is None
        else as_ints(dimensions_to_reduce, "dimensions_to_reduce", "C4")
    )
    results = _bind_reduce([*inputs, *inits], body, dims)
    return results if several else results[0]


def together(operands: Any, init_values: Any) -> tuple[list[Tensor], list[Any], bool]:
    """Operands and init values as lists of tensors, and whether they came as sequences."""
    several = isinstance(operands, list | tuple) and any(
        isinstance(e, Tensor | np.ndarray) for e in operands
    )
    given = list(operands) if several else [operands]
    inits = list(init_values) if isinstance(init_values, list | tuple) else [init_values]
    inputs = [lift(x) for x in given]
    require(
        len(inits) == len(inputs),
        "C3",
        "there must be as many init_values as operands",
        len(inits),
    )
    return inputs, [lift(i, (x,)) for i, x in zip(inits, inputs, strict=True)], several


# --- reductions by one operation ------------------------------------------------------------------


def _iinfo(dtype: DType) -> Any:
    return ml_dtypes.iinfo(dtype.numpy)  # type: ignore[no-untyped-call]


def _finfo(dtype: DType) -> Any:
    return ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]


def lowest(dtype: DType) -> Any:
    """The identity of the maximum."""
    if dtype.kind == "bool":
        return False
    if dtype.integer:
        return np.asarray(_iinfo(dtype).min)
    if dtype.kind == "complex":
        return complex(-math.inf, -math.inf)
    infinite = np.asarray(-math.inf).astype(dtype.numpy)
    return -math.inf if np.isneginf(infinite.astype(np.float64)) else _finfo(dtype).min


def highest(dtype: DType) -> Any:
    """The identity of the minimum."""
    if dtype.kind == "bool":
        return True
    if dtype.integer:
        return np.asarray(_iinfo(dtype).max)
    if dtype.kind == "complex":
        return complex(math.inf, math.inf)
    infinite = np.asarray(math.inf).astype(dtype.numpy)
    return math.inf if np.isposinf(infinite.astype(np.float64)) else _finfo(dtype).max


def identity_of(name: str, dtype: DType) -> Any:
    """The identity of an operation, as a number that can be cast to the element type."""
    if name == "max":
        return lowest(dtype)
    if name == "min":
        return highest(dtype)
    if name == "and":
        return np.asarray(-1 if dtype.kind == "int" else highest(dtype))
    return 1 if name == "mul" else 0


def identity(name: str, dtype: DType) -> Any:
    """The identity of an operation as a scalar constant."""
    found = _identities.get((name, dtype))
    if found is None:
        value = np.asarray(identity_of(name, dtype)).astype(dtype.numpy)
        found = _identities[name, dtype] = value
    return shared_constant(found)


_identities: dict[tuple[str, DType], Array] = {}


def _reduce_by(name: str, x: Any, axes: Any) -> Tensor:
    if type(x) is not Tensor:
        x = lift(x)
    spec = x.spec
    require_array(spec, "I1")
    dims = as_axes(axes, spec.rank, "C4")
    if not dims:
        result: Tensor = x
        return result
    dtype = spec.dtype
    if name == "add" and dtype.name == "f8e8m0fnu":  # it has no zero to begin with
        narrow: Tensor = converted(_reduce_by(name, converted(x, as_dtype("f32")), dims), dtype)
        return narrow
    results = bind(
        reduce_op, x, identity(name, dtype), body=scalar_operation(name, dtype), dimensions=dims
    )
    found: Tensor = results[0]
    return found


def reduce_sum(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """The sum over axes (None: over all); of truth values the disjunction.

    Parameters
    ----------
    x : array
    axes : int or sequence of int, optional
        By default all of them.

    Returns
    -------
    Tensor
        Without the axes.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_sum(ops.constant([[1, 2], [3, 4]]), 0)
    Tensor([4, 6], s32[2])
    """
    return _reduce_by("add", x, axes)


def reduce_prod(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """The product over axes (None: over all); of truth values the conjunction.

    Parameters
    ----------
    x : array
    axes : int or sequence of int, optional
        By default all of them.

    Returns
    -------
    Tensor
        Without the axes.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_prod(ops.constant([[1, 2], [3, 4]]), 0)
    Tensor([3, 8], s32[2])
    """
    return _reduce_by("mul", x, axes)


def reduce_max(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """The maximum over axes (None: over all), nan if there is one; the least value of the type if there is nothing.

    Parameters
    ----------
    x : array
    axes : int or sequence of int, optional
        By default all of them.

    Returns
    -------
    Tensor
        Without the axes.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_max(ops.constant([[1, 2], [3, 4]]), 0)
    Tensor([3, 4], s32[2])
    """
    return _reduce_by("max", x, axes)


def reduce_min(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """The minimum over axes (None: over all), nan if there is one; the greatest value of the type if there is nothing.

    Parameters
    ----------
    x : array
    axes : int or sequence of int, optional
        By default all of them.

    Returns
    -------
    Tensor
        Without the axes.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_min(ops.constant([[1, 2], [3, 4]]), 0)
    Tensor([1, 2], s32[2])
    """
    return _reduce_by("min", x, axes)


def reduce_and(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """Whether all are set, over axes (None: over all); of integers bit by bit.

    Parameters
    ----------
    x : array of truth values or integers
    axes : int or sequence of int, optional
        By default all of them.

    Returns
    -------
    Tensor
        Without the axes.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_and(ops.constant([[True, True], [True, False]]), 0)
    Tensor([ True, False], pred[2])
    """
    return _reduce_by("and", x, axes)


def reduce_or(x: Any, axes: int | Sequence[int] | None = None) -> Tensor:
    """Whether any is set, over axes (None: over all); of integers bit by bit.

    Parameters
    ----------
    x : array of truth values or integers
    axes : int or sequence of int, optional
        By default all of them.

    Returns
    -------
    Tensor
        Without the axes.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.reduce_or(ops.constant([[True, False], [True, False]]), 0)
    Tensor([ True, False], pred[2])
    """
    return _reduce_by("or", x, axes)


# --- positions ------------------------------------------------------------------------------------


def _position_body(direction: str, dtype: DType, index: DType) -> Computation:
    """The better of two pairs of a value and its position: nan is best, then the value, then the lower position."""
    compare, select, both, either = map(lookup, ("compare", "select", "and", "or"))

    def is_(way: str, a: Any, b: Any) -> Any:
        return bind(compare, a, b, comparison_direction=way, compare_type=None)

    def better(x: Any, i: Any, y: Any, j: Any) -> Any:
        first, tie = is_(direction, x, y), is_("EQ", x, y)
        if dtype.kind == "float":
            x_nan, y_nan = is_("NE", x, x), is_("NE", y, y)
            first = bind(either, first, bind(both, x_nan, is_("EQ", y, y)))
            tie = bind(either, tie, bind(both, x_nan, y_nan))
        first = bind(either, first, bind(both, tie, is_("LT", i, j)))
        return bind(select, first, x, y), bind(select, first, i, j)

    specs = [TensorSpec((), dtype), TensorSpec((), index)]
    name = "argmax" if direction == "GT" else "argmin"
    return as_computation(better, specs * 2, name=name, shared=True)


_position_bodies: dict[Any, Computation] = {}


def _position(direction: str, operand: Any, output_type: Any, axis: int) -> Tensor:
    x = lift(operand)
    spec = x.spec
    require_array(spec, "I1")
    require_dtype(spec.dtype.kind != "complex", "I1", "the operand must have an order", spec)
    index = as_dtype(output_type)
    require_dtype(index.integer, "X1", "output_type must be an integer type", index)
    dim = as_axis(axis, spec.rank, "C4")
    size = spec.shape[dim]
    if size is not DYNAMIC:
        require_shape(size > 0, "X1", f"axis {dim} must not be empty", spec)
        room = _iinfo(index).max
        require_dtype(size - 1 <= room, "X1", f"output_type must hold {size - 1}", index)
    body = _position_bodies.get((direction, spec.dtype, index))
    if body is None:
        body = _position_body(direction, spec.dtype, index)
        _position_bodies[direction, spec.dtype, index] = body
    places = iota_like(x, dim, index)
    name = "max" if direction == "GT" else "min"
    # A row that holds nothing but the identity ties with it: its lowest position is 0 as well.
    inits = identity(name, spec.dtype), constant_of(TensorSpec((), index), 0)
    found: Tensor = bind(reduce_op, x, places, *inits, body=body, dimensions=(dim,))[1]
    return found


def argmax(operand: Any, output_type: Any = "s32", axis: int = -1) -> Tensor:
    """The position of the maximum along an axis: the first nan, if there is one, else the lowest of ties.

    Parameters
    ----------
    operand : array
    output_type : dtype
        Of the position: an integer type that holds it.
    axis : int

    Returns
    -------
    Tensor
        Without the axis.

    Raises
    ------
    ShapeError, DTypeError
        If there is no such axis, if it is empty, or if the type does not hold its positions.

    Notes
    -----
    A variadic Reduce, as in the operation semantics. It has no derivative.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.argmax(ops.constant([[1.0, 5.0, 5.0], [7.0, 2.0, 3.0]]))
    Tensor([1, 0], s32[2])
    """
    return _position("GT", operand, output_type, axis)


def argmin(operand: Any, output_type: Any = "s32", axis: int = -1) -> Tensor:
    """The position of the minimum along an axis; as `argmax`.

    Parameters
    ----------
    operand : array
    output_type : dtype
        Of the position: an integer type that holds it.
    axis : int

    Returns
    -------
    Tensor
        Without the axis.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.argmin(ops.constant([[1.0, 5.0, 5.0], [7.0, 2.0, 3.0]]))
    Tensor([0, 1], s32[2])
    """
    return _position("LT", operand, output_type, axis)
