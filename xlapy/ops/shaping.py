"""Broadcast, BroadcastInDim, Reshape, Collapse, Transpose and Rev: elements moved, none changed."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_axes,
    as_axis,
    as_ints,
    as_shape,
    has_unknown,
    parse_spec,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import as_vector, broadcast_any, count_of
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader
from xlapy.trace.zeros import constant_of

from .reduction import reduce_sum
from .rules import linear

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- BroadcastInDim -------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def infer_broadcast_in_dim(x: TensorSpec, *, shape: Ints, broadcast_dimensions: Ints) -> TensorSpec:
    """C2 to C5."""
    require_array(x, "I1")
    dims = broadcast_dimensions
    rank = len(shape)
    require(len(dims) == x.rank, "C2", f"broadcast_dimensions must have {x.rank} entries", dims)
    for d in dims:
        if not 0 <= d < rank:
            require(False, "C3", f"broadcast_dimensions must be in [0, {rank})", dims)
    require(len(set(dims)) == len(dims), "C4", "broadcast_dimensions must be unique", dims)
    for n, d in zip(x.shape, dims):
        if n != 1 and n != shape[d]:
            require_shape(
                False,
                "C5",
                f"each size must be 1 or that of its result dimension in {shape}",
                x.shape,
            )
    if x.is_static:
        result = x.with_shape(shape)
        require_shape(result.is_static, "X1", "the sizes of new dimensions must be known", shape)
        return result
    # A dimension that varies is that of the result.
    require_shape(
        all(n != DYNAMIC or d in dims for d, n in enumerate(shape)),
        "X1",
        "the sizes of new dimensions must be known",
        shape,
    )
    return x.with_shape(shape, sorted(dims[i] for i in x.dynamic))


def kernel_broadcast_in_dim(
    x: Array, *, shape: Ints, broadcast_dimensions: Ints, out: TensorSpec
) -> Array:
    """result[..., i_d, ...] = operand[..., i_d or 0, ...]."""
    sizes = [1] * len(shape)
    order = sorted(range(x.ndim), key=broadcast_dimensions.__getitem__)
    for n, d in zip(x.shape, broadcast_dimensions, strict=True):
        sizes[d] = n
    if not out.is_static:
        shape = tuple(
            n if d in out.dynamic or m == DYNAMIC else m
            for d, (n, m) in enumerate(zip(sizes, shape))
        )
    return np.broadcast_to(x.transpose(order).reshape(sizes), shape)


def transpose_broadcast_in_dim(g: Any, x: Any, *, shape: Ints, broadcast_dimensions: Ints) -> Any:
    """Sum over what was repeated."""
    summed, inverse, stretched = _repeated(x.spec.shape, shape, broadcast_dimensions)
    if summed:
        g = reduce_sum(g, summed)
    if inverse:
        g = bind(transpose_op, g, permutation=inverse)
    return bind(reshape_op, g, shape=x.spec.shape) if stretched else g


@functools.lru_cache(maxsize=512)
def _repeated(own: Ints, shape: Ints, broadcast_dimensions: Ints) -> tuple[Ints, Ints, bool]:
    """The dimensions along which an array was repeated, how to put the others in order, whether any had size 1."""
    stretched = [
        d for n, d in zip(own, broadcast_dimensions, strict=True) if n == 1 and shape[d] != 1
    ]
    summed = [d for d in range(len(shape)) if d not in broadcast_dimensions or d in stretched]
    kept = [d for d in broadcast_dimensions if d not in stretched]
    order = tuple(sorted(range(len(kept)), key=kept.__getitem__))
    ordered = order == tuple(range(len(kept)))
    inverse = () if ordered else tuple(order.index(i) for i in range(len(kept)))
    return tuple(summed), inverse, bool(stretched)


def batch_broadcast_in_dim(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    shape: Ints,
    broadcast_dimensions: Ints,
) -> Any:
    """The new axis stays in front."""
    dims = (0, *[d + 1 for d in broadcast_dimensions])
    return bind(op, args[0], shape=(size, *shape), broadcast_dimensions=dims)


def write_broadcast_in_dim(writer: Writer, instruction: Any) -> None:
    """The shape stands in the result's type; a size that is not known must be asked for."""
    shape, dims = instruction.params["shape"], instruction.params["broadcast_dimensions"]
    if not instruction.results[0].spec.is_static and has_unknown(shape):
        writer.composed(instruction, lambda x: broadcast_any(x, shape, dims))
    else:
        attribute = f"broadcast_dimensions = {I64_ARRAY.print(dims)}"
        writer.line("stablehlo.broadcast_in_dim", instruction, attribute)


def read_broadcast_in_dim(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    dims = I64_ARRAY.parse(reader.attribute(operation, "broadcast_dimensions"))
    return bind(
        broadcast_in_dim_op,
        *reader.operands(operation),
        shape=_result_shape(reader, operation),
        broadcast_dimensions=dims,
    )


def _result_shape(reader: Reader, operation: Any) -> Ints:
    """The shape of an operation's declared result."""
    spec = reader.result_specs(operation)[0]
    require_array(spec, "C1", "the result")
    assert type(spec) is TensorSpec
    return spec.shape


broadcast_in_dim_op = register(Op(
    name="broadcast_in_dim",
    section="BroadcastInDim",
    infer=infer_broadcast_in_dim,
    hlo=Hlo(
        "stablehlo.broadcast_in_dim", write=write_broadcast_in_dim, read=read_broadcast_in_dim
    ),
    kernel=kernel_broadcast_in_dim,
    ad=linear(transpose_broadcast_in_dim),
    batch=batch_broadcast_in_dim,
))  # fmt: skip


def broadcast_in_dim(
    operand: Any, out_dim_size: int | Sequence[int], broadcast_dimensions: int | Sequence[int]
) -> Tensor:
    """An array repeated to a shape.

    Parameters
    ----------
    operand : array
    out_dim_size : sequence of int
        The shape of the result.
    broadcast_dimensions : sequence of int
        The result's dimension of each dimension of the operand, in any order; along it the operand has the same size,
        or the size 1 and is repeated. Along the other dimensions it is repeated too.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        [C2], [C3], [C4] Unless `broadcast_dimensions` names a dimension of the result for each of the operand's.
    ShapeError
        [C5] If a size is neither 1 nor that of the result.

    Notes
    -----
    Section BroadcastInDim of the operation semantics.

    Examples
    --------
    >>> broadcast_in_dim([1, 2], (2, 3), [0])
    Tensor([[1, 1, 1],
            [2, 2, 2]], s32[2,3])
    """
    result: Tensor = bind(
        broadcast_in_dim_op,
        lift(operand),
        shape=as_shape(out_dim_size),
        broadcast_dimensions=as_ints(broadcast_dimensions, "broadcast_dimensions", "C2"),
    )
    return result


def broadcast(operand: Any, broadcast_sizes: int | Sequence[int]) -> Tensor:
    """An array repeated along new dimensions in front.

    Parameters
    ----------
    operand : array
    broadcast_sizes : sequence of int
        The sizes of the new dimensions.

    Returns
    -------
    Tensor
        Of shape ``(*broadcast_sizes, *operand.shape)``.

    Raises
    ------
    ShapeError
        [X1] For a negative size.

    Notes
    -----
    Section Broadcast of the operation semantics.

    Examples
    --------
    >>> broadcast([1, 2], (2,))
    Tensor([[1, 2],
            [1, 2]], s32[2,2])
    """
    x = lift(operand)
    sizes = as_shape(broadcast_sizes)
    own = x.shape
    result: Tensor = bind(
        broadcast_in_dim_op,
        x,
        shape=(*sizes, *own),
        broadcast_dimensions=tuple(range(len(sizes), len(sizes) + len(own))),
    )
    return result


# --- Reshape --------------------------------------------------------------------------------------


def infer_reshape(x: TensorSpec, *, shape: Ints) -> TensorSpec:
    """C2: the same number of elements."""
    require_array(x, "I1")
    if not x.is_static:
        return _infer_varying(x, shape)
    result = x.with_shape(shape)
    if not result.is_static:
        return _infer_varying(x, shape)
    if result.size != x.size:
        require_shape(False, "C2", f"the shape must have the operand's {x.size} elements", shape)
    return result


def _infer_varying(x: TensorSpec, shape: Ints) -> TensorSpec:
    """C2 where one size varies: it goes into one dimension of the result, alone or multiplied by others."""
    varying = [i for i, n in enumerate(x.shape) if i in x.dynamic or n is DYNAMIC]
    require_shape(
        len(varying) <= 1, "X2", "at most one dimension must vary in size (move the others away)", x
    )
    if has_unknown(x.shape) or has_unknown(shape):
        require_shape(
            shape.count(DYNAMIC) <= 1 and has_unknown(x.shape),
            "X2",
            "a size that is not known must come from one that is not known",
            shape,
        )
        return x.with_shape(shape)
    (axis,) = varying
    require_shape(
        math.prod(shape) == x.size,
        "C2",
        f"the shape must have the operand's {x.size} elements",
        shape,
    )
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    candidates = []
    for i, n in enumerate(shape):
        first, last = math.prod(shape[:i]), math.prod(shape[i + 1 :])
        divides = first and last and before % first == 0 and after % last == 0
        if divides and n == before // first * x.shape[axis] * (after // last):
            candidates.append(i)
    require_shape(
        bool(candidates), "X2", f"the varying dimension {axis} must not be split", (x, shape)
    )
    found = next((i for i in candidates if shape[i] != 1), candidates[0])
    return x.with_shape(shape, (found,))


def kernel_reshape(x: Array, *, shape: Ints, out: TensorSpec) -> Array:
    """The same elements in the same order."""
    if not out.is_static:
        (axis,) = out.dynamic or (shape.index(DYNAMIC),)
        others = math.prod(n for i, n in enumerate(shape) if i != axis)
        shape = (*shape[:axis], x.size // others if others else 0, *shape[axis + 1 :])
    return x.reshape(shape)


def write_reshape(writer: Writer, instruction: Any) -> None:
    """The shape stands in the result's type; a size that is not known must be computed."""
    shape = instruction.params["shape"]
    if not instruction.results[0].spec.is_static and has_unknown(shape):
        writer.composed(instruction, lambda x: _reshape_any(x, shape))
    else:
        writer.line("stablehlo.reshape", instruction)


def _reshape_any(x: Any, shape: Ints) -> Any:
    """By dynamic_reshape: the size that is not known is what the others leave."""
    count = count_of(x, range(x.spec.rank))
    others = math.prod(n for n in shape if n != DYNAMIC)
    if others > 1:
        count = bind(lookup("div"), count, constant_of(count.spec, others))
    sizes = as_vector([count if n == DYNAMIC else n for n in shape])
    return bind(lookup("dynamic_reshape"), x, sizes, result=x.spec.with_shape(shape))


def read_reshape(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    return bind(reshape_op, *reader.operands(operation), shape=_result_shape(reader, operation))


reshape_op: Op = register(Op(
    name="reshape",
    section="Reshape",
    infer=infer_reshape,
    hlo=Hlo("stablehlo.reshape", write=write_reshape, read=read_reshape),
    kernel=kernel_reshape,
    ad=linear(lambda g, x, *, shape: bind(reshape_op, g, shape=x.spec.shape)),
    batch=lambda op, args, is_batched, size, *, shape: bind(op, args[0], shape=(size, *shape)),
))  # fmt: skip


def reshape(operand: Any, dimensions: Any) -> Tensor:
    """The elements, in the same order, in another shape.

    Parameters
    ----------
    operand : array
    dimensions : sequence of int, or a spec
        The sizes of the result. In the explicit form, ``reshape(shape, operand)``, the spec of the result comes first;
        it must have the operand's element type.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        [C2] Unless the number of elements is the same.
    DTypeError
        [C1] If a spec has another element type.

    Notes
    -----
    Sections Reshape and Reshape (explicit) of the operation semantics. The last dimension varies fastest. A dimension
    of varying size (see `set_dimension_size`) may be multiplied by others but not split, and there may be one.

    Examples
    --------
    >>> reshape([1, 2, 3, 4], (2, 2))
    Tensor([[1, 2],
            [3, 4]], s32[2,2])
    >>> reshape("s32[2,1]", [1, 2])
    Tensor([[1],
            [2]], s32[2,1])
    """
    if isinstance(operand, str | TensorSpec):
        spec = parse_spec(operand)
        x = lift(dimensions)
        require_dtype(
            type(spec) is TensorSpec and spec.dtype is x.dtype,
            "C1",
            f"the shape must be of the operand's type {x.dtype}",
            spec,
        )
        assert type(spec) is TensorSpec
        result: Tensor = bind(reshape_op, x, shape=spec.shape)
        return result
    result = bind(reshape_op, lift(operand), shape=as_shape(dimensions))
    return result


def collapse(operand: Any, dimensions: int | Sequence[int]) -> Tensor:
    """Some consecutive dimensions made one.

    Parameters
    ----------
    operand : array
    dimensions : sequence of int
        In order and consecutive; with fewer than two the operand stays as it is.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        [X1] Unless they are in order and consecutive.

    Notes
    -----
    Section Collapse of the operation semantics.

    Examples
    --------
    >>> collapse([[1, 2], [3, 4]], [0, 1])
    Tensor([1, 2, 3, 4], s32[4])
    """
    x = lift(operand)
    shape = x.shape
    dims = tuple(as_axis(d, len(shape)) for d in as_ints(dimensions, "dimensions"))
    require(
        dims == tuple(range(dims[0], dims[0] + len(dims))) if dims else True,
        "X1",
        "dimensions must be in order and consecutive",
        dims,
    )
    if len(dims) < 2:
        return Tensor(x.placed, x.payload)  # assigning to its elements must not change the operand
    merged = math.prod(shape[d] for d in dims)
    result: Tensor = bind(reshape_op, x, shape=(*shape[: dims[0]], merged, *shape[dims[-1] + 1 :]))
    return result


# --- Transpose ------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def infer_transpose(x: TensorSpec, *, permutation: Ints) -> TensorSpec:
    """C2: a permutation of the dimensions."""
    require_array(x, "I1")
    require(
        sorted(permutation) == list(range(x.rank)),
        "C2",
        f"permutation must be one of {x.rank} dimensions",
        permutation,
    )
    shape = [x.shape[p] for p in permutation]
    if not x.dynamic:
        return x.with_shape(shape)
    return x.with_shape(shape, [i for i, p in enumerate(permutation) if p in x.dynamic])


def transpose_transpose(g: Any, x: Any, *, permutation: Ints) -> Any:
    """The inverse permutation."""
    inverse = tuple(permutation.index(i) for i in range(len(permutation)))
    return bind(transpose_op, g, permutation=inverse)


transpose_op = register(Op(
    name="transpose",
    section="Transpose",
    infer=infer_transpose,
    hlo=Hlo("stablehlo.transpose", {"permutation": I64_ARRAY}),
    kernel=lambda x, *, permutation, out: x.transpose(permutation),
    ad=linear(transpose_transpose),
    batch=lambda op, args, is_batched, size, *, permutation: bind(
        op, args[0], permutation=(0, *[p + 1 for p in permutation])
    ),
))  # fmt: skip


def transpose(operand: Any, permutation: Sequence[int]) -> Tensor:
    """The dimensions in another order.

    Parameters
    ----------
    operand : array
    permutation : sequence of int
        For each dimension of the result that of the operand.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        [C2] Unless it names each dimension once.

    Notes
    -----
    Section Transpose of the operation semantics.

    Examples
    --------
    >>> transpose([[1, 2], [3, 4]], (1, 0))
    Tensor([[1, 3],
            [2, 4]], s32[2,2])
    """
    x = lift(operand)
    result: Tensor = bind(transpose_op, x, permutation=as_ints(permutation, "permutation", "C2"))
    return result


# --- Rev ----------------------------------------------------------------------------------------------------------


def infer_rev(x: TensorSpec, *, dimensions: tuple[int, ...]) -> TensorSpec:
    """C2, C3."""
    require_array(x, "I1")
    require(len(set(dimensions)) == len(dimensions), "C2", "dimensions must be unique", dimensions)
    require(
        all(0 <= d < x.rank for d in dimensions),
        "C3",
        f"dimensions must be in [0, {x.rank})",
        dimensions,
    )
    return x


rev_op: Op = register(Op(
    name="rev",
    section="Rev",
    infer=infer_rev,
    hlo=Hlo("stablehlo.reverse", {"dimensions": I64_ARRAY}),
    kernel=lambda x, *, dimensions, out: np.flip(x, dimensions),
    ad=linear(lambda g, x, *, dimensions: bind(rev_op, g, dimensions=dimensions)),
    batch=lambda op, args, is_batched, size, *, dimensions: bind(
        op, args[0], dimensions=tuple(d + 1 for d in dimensions)
    ),
))  # fmt: skip


def rev(operand: Any, dimensions: int | Sequence[int]) -> Tensor:
    """The elements in the opposite order along some dimensions.

    Parameters
    ----------
    operand : array
    dimensions : sequence of int
        Each once; negative ones count from the back.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        [C2], [C3] For a dimension that there is not, or that is named twice.

    Notes
    -----
    Section Rev of the operation semantics.

    Examples
    --------
    >>> rev([1, 2, 3], [0])
    Tensor([3, 2, 1], s32[3])
    """
    x = lift(operand)
    result: Tensor = bind(rev_op, x, dimensions=as_axes(dimensions, x.ndim, "C3"))
    return result
