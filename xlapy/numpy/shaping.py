"""Rearranging an array's elements: shapes, axes, order, repetition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.errors import ConstraintError, ShapeError, shown
from xlapy.specs import as_axes, as_axis, as_int, as_ints
from xlapy.specs import broadcast_shapes as broadcast_of_shapes
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.mode import current_builder

from .any_size import any_shape, require_known_size
from .creation import as_array, static_shape
from .docstrings import ARRAY, document
from .promotion import as_tensor, broadcast_to_shape, broadcast_together, call, filled

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "diagonal",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "rot90",
    "squeeze",
    "swapaxes",
    "transpose",
]


def reshape(
    x: Any, /, shape: int | Sequence[int], *, copy: bool | None = None, order: str = "C"
) -> Tensor:
    """The elements, in row-major order, in another shape.

    Parameters
    ----------
    x : array-like
    shape : int or sequence of int
        One size may be -1: it follows from the others.
    copy : bool, optional
        Of the Array API; a result is always as good as a copy.
    order : str
        ``"C"`` only.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the number of elements would change.

    Examples
    --------
    >>> xlapy.reshape(xlapy.arange(6), (2, -1))
    Tensor([[0, 1, 2],
            [3, 4, 5]], s32[2,3])
    """
    if not isinstance(order, str) or order != "C":
        raise ConstraintError(f"reshape: order must be 'C'; got {shown(order)} [X1]")
    return _reshape(x, as_ints(shape, "shape"))


@composite(arrays=1)
def _reshape(x: Any, shape: tuple[int, ...]) -> Tensor:
    x = as_tensor(x)
    if type(x.size) is not int:
        shape = any_shape(x, shape)
    elif -1 in shape:
        known = 1
        for n in shape:
            known *= 1 if n == -1 else n
        if shape.count(-1) > 1 or known <= 0 or x.size % known:
            raise ShapeError(
                f"the shape must have the operand's {x.size} elements; got {shape} [C2]"
            )
        shape = static_shape([x.size // known if n == -1 else n for n in shape])
    else:
        shape = static_shape(shape)
    return x if shape == x.shape else call("reshape", x, shape=shape)


@composite(arrays=1)
def ravel(x: Any, /) -> Tensor:
    """The elements, in row-major order, in one dimension.

    Examples
    --------
    >>> xlapy.ravel(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor([1, 2, 3, 4], s32[4])
    """
    x = as_tensor(x)
    return x if x.ndim == 1 else call("reshape", x, shape=(x.size,))


def permute_dims(x: Any, /, axes: Sequence[int] | None = None) -> Tensor:
    """The axes in another order.

    Parameters
    ----------
    x : array-like
    axes : sequence of int, optional
        For each axis of the result the one of `x` that it is; by default all reversed.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.permute_dims(xlapy.zeros((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    return _permute(x, None if axes is None else as_ints(axes, "axes"))


transpose = permute_dims


@composite(arrays=1, name="permute_dims")
def _permute(x: Any, axes: tuple[int, ...] | None = None) -> Tensor:
    x = as_tensor(x)
    if axes is None:
        order = tuple(range(x.ndim))[::-1]
    else:
        order = as_axes(axes, x.ndim, "C2")
        if len(order) != x.ndim:
            raise ShapeError(f"axes must name each of the {x.ndim} dimensions; got {axes} [C2]")
    return permuted(x, order)


def permuted(x: Tensor, order: tuple[int, ...]) -> Tensor:
    """The axes in an order; the tensor itself where nothing changes."""
    if order == tuple(range(len(order))):
        return x
    return call("transpose", x, permutation=order)


@composite(arrays=1)
def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes exchanged.

    Examples
    --------
    >>> xlapy.matrix_transpose(xlapy.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"a matrix must have at least two dimensions; got {x.spec} [X1]")
    n = x.ndim
    return call("transpose", x, permutation=(*range(n - 2), n - 1, n - 2))


def swapaxes(x: Any, axis1: int, axis2: int, /) -> Tensor:
    """Two axes exchanged.

    Parameters
    ----------
    x : array-like
    axis1, axis2 : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.swapaxes(xlapy.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    return _swapaxes(x, as_int(axis1, "axis1"), as_int(axis2, "axis2"))


@composite(arrays=1)
def _swapaxes(x: Any, axis1: int, axis2: int) -> Tensor:
    x = as_tensor(x)
    order = list(range(x.ndim))
    a, b = as_axis(axis1, x.ndim), as_axis(axis2, x.ndim)
    order[a], order[b] = order[b], order[a]
    return permuted(x, tuple(order))


def moveaxis(x: Any, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
    """Axes moved to other positions; the others keep their order.

    Parameters
    ----------
    x : array-like
    source, destination : int or sequence of int
        As many of one as of the other.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.moveaxis(xlapy.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    return _moveaxis(x, as_ints(source, "source"), as_ints(destination, "destination"))


@composite(arrays=1)
def _moveaxis(x: Any, source: tuple[int, ...], destination: tuple[int, ...]) -> Tensor:
    x = as_tensor(x)
    start, end = as_axes(source, x.ndim), as_axes(destination, x.ndim)
    if len(start) != len(end):
        raise ConstraintError(
            f"source and destination must be of one length; got {source} and {destination} [X1]"
        )
    order = [i for i in range(x.ndim) if i not in start]
    for d, s in sorted(zip(end, start, strict=True)):
        order.insert(d, s)
    return permuted(x, tuple(order))


def squeeze(x: Any, /, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without dimensions of size 1.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
        Which; by default all of size 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If one of them is of another size.

    Examples
    --------
    >>> xlapy.squeeze(xlapy.zeros((1, 3, 1)), 0).shape
    (3, 1)
    """
    return _squeeze(x, None if axis is None else as_ints(axis, "axis"))


@composite(arrays=1)
def _squeeze(x: Any, axis: tuple[int, ...] | None = None) -> Tensor:
    x = as_tensor(x)
    shape = x.shape
    if axis is None:
        axes = tuple(i for i, n in enumerate(shape) if n == 1)
    else:
        axes = as_axes(axis, x.ndim)
        if any(shape[a] != 1 for a in axes):
            raise ShapeError(
                f"a dimension that is left out must be of size 1; got {axis} of {shape} [X1]"
            )
    return call("reshape", x, shape=tuple(n for i, n in enumerate(shape) if i not in axes))


def expand_dims(x: Any, /, axis: int | Sequence[int] = 0) -> Tensor:
    """With new dimensions of size 1, at these places of the result.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.expand_dims(xlapy.zeros(3), 0).shape, xlapy.expand_dims(xlapy.zeros(3), (0, 2)).shape
    ((1, 3), (1, 3, 1))
    """
    return _expand(x, as_ints(axis, "axis"))


@composite(arrays=1, name="expand_dims")
def _expand(x: Any, axis: tuple[int, ...]) -> Tensor:
    x = as_tensor(x)
    axes = as_axes(axis, x.ndim + len(axis))
    sizes = iter(x.shape)
    shape = tuple(1 if i in axes else next(sizes) for i in range(x.ndim + len(axes)))
    return call("reshape", x, shape=shape)


def broadcast_to(x: Any, /, shape: int | Sequence[int]) -> Tensor:
    """The elements repeated to a shape.

    Raises
    ------
    ShapeError
        If a size is neither 1 nor that of the shape.

    Parameters
    ----------
    x : array-like
    shape : int or sequence of int
        Its last sizes are those of `x`, where that has not 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.broadcast_to(xlapy.asarray([1, 2]), (2, 2))
    Tensor([[1, 2],
            [1, 2]], s32[2,2])
    """
    return _broadcast_to(x, static_shape(shape))


@composite(arrays=1)
def _broadcast_to(x: Any, shape: tuple[int, ...]) -> Tensor:
    x = as_tensor(x)
    if broadcast_of_shapes(x.shape, shape) != shape:
        raise ShapeError(f"{x.spec} must broadcast to the shape; got {shape} [X1]")
    return broadcast_to_shape(x, shape)


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """Arrays repeated to their common shape.

    Parameters
    ----------
    *arrays : array-like

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> [a.shape for a in xlapy.broadcast_arrays(xlapy.zeros((3, 1)), xlapy.zeros(2))]
    [(3, 2), (3, 2)]
    """
    return _broadcast_arrays([as_array(x) for x in arrays]) if arrays else []


@composite(arrays=1, nested=True)
def _broadcast_arrays(arrays: list[Any]) -> list[Tensor]:
    tensors = [as_tensor(x) for x in arrays]
    return [Tensor(t.placed, t.payload) for t in broadcast_together(*tensors)]


def flip(x: Any, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """The elements in the opposite order along axes; by default along all.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.flip(xlapy.asarray([[1, 2], [3, 4]]), axis=1)
    Tensor([[2, 1],
            [4, 3]], s32[2,2])
    """
    return _flip(x, None if axis is None else as_ints(axis, "axis"))


@composite(arrays=1)
def _flip(x: Any, axis: tuple[int, ...] | None = None) -> Tensor:
    x = as_tensor(x)
    axes = as_axes(axis, x.ndim)
    return call("rev", x, dimensions=axes) if axes else x


def flipud(x: Any, /) -> Tensor:
    """The rows in the opposite order.

    Examples
    --------
    >>> xlapy.flipud(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor([[3, 4],
            [1, 2]], s32[2,2])
    """
    return _flip(x, (0,))


def fliplr(x: Any, /) -> Tensor:
    """The columns in the opposite order.

    Examples
    --------
    >>> xlapy.fliplr(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor([[2, 1],
            [4, 3]], s32[2,2])
    """
    return _flip(x, (1,))


def rot90(x: Any, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> Tensor:
    """A plane turned by a right angle, from the first axis towards the second, `k` times.

    Parameters
    ----------
    x : array-like
    k : int
        How many times; negative the other way round.
    axes : (int, int)

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.rot90(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor([[2, 4],
            [1, 3]], s32[2,2])
    """
    return _rot90(x, as_int(k, "k") % 4, as_ints(axes, "axes"))


@composite(arrays=1)
def _rot90(x: Any, k: int, axes: tuple[int, ...]) -> Tensor:
    x = as_tensor(x)
    plane = as_axes(axes, x.ndim)
    if len(plane) != 2:
        raise ConstraintError(f"axes must name two dimensions; got {axes} [X1]")
    first, second = plane
    if k == 2:
        return call("rev", x, dimensions=plane)
    if k == 0:
        same: Tensor = x
        return same
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    if k == 1:
        return permuted(call("rev", x, dimensions=(second,)), tuple(order))
    return call("rev", permuted(x, tuple(order)), dimensions=(second,))


def roll(
    x: Any, /, shift: int | Sequence[int] | Tensor, *, axis: int | Sequence[int] | None = None
) -> Tensor:
    """The elements moved along axes; those that fall off the end come in at the front.

    Parameters
    ----------
    x : array-like
    shift : int or sequence of int or Tensor
        How far, for each axis. A tensor is an integer scalar.
    axis : int or sequence of int, optional
        By default the elements are moved as if they stood in one dimension.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.roll(xlapy.arange(5), 2)
    Tensor([3, 4, 0, 1, 2], s32[5])
    """
    axes = None if axis is None else as_ints(axis, "axis")
    shifts = list(shift) if isinstance(shift, tuple | list) else [shift]
    steps: list[Any] = [s if type(s) is Tensor else as_int(s, "shift") for s in shifts]
    if current_builder() is None:
        # One program for all distances.
        if not all(type(s) is Tensor or -(1 << 31) <= s < 1 << 31 for s in steps):
            whole = x.size if type(x) is Tensor else np.size(x)  # a multiple of every axis's size
            steps = [s if type(s) is Tensor else s % max(whole, 1) for s in steps]
        steps = [s if type(s) is Tensor else _place(s) for s in steps]
    return _roll(x, steps, axes)


def _place(s: int) -> np.ndarray[Any, Any]:
    return np.asarray(s, np.int32 if -(1 << 31) <= s < 1 << 31 else np.int64)


@composite(arrays=2, nested=True)
def _roll(x: Any, shifts: list[Any], axis: tuple[int, ...] | None) -> Tensor:
    x = as_tensor(x)
    if axis is None:
        if len(shifts) != 1:
            raise ConstraintError(
                f"without an axis there must be one shift; got {len(shifts)} [X1]"
            )
        flat = _roll_along(call("reshape", x, shape=(x.size,)), shifts[0], 0)
        return call("reshape", flat, shape=x.shape)
    if len(shifts) != len(axis):
        if 1 not in (len(shifts), len(axis)) or not shifts or not axis:
            raise ConstraintError(
                f"there must be a shift for each axis; got {len(shifts)} for {axis} [X1]"
            )
        count = max(len(shifts), len(axis))
        shifts, axis = shifts * (count // len(shifts)), axis * (count // len(axis))
    for s, a in zip(shifts, axis, strict=True):
        x = _roll_along(x, s, as_axis(a, x.ndim))
    same: Tensor = x
    return same


def _roll_along(x: Tensor, shift: Any, axis: int) -> Tensor:
    size = x.shape[axis]
    if not size:
        return x
    if type(shift) is int:
        cut = -shift % size
        if not cut:
            return x
        parts = [sliced(x, axis, cut, size), sliced(x, axis, 0, cut)]
        return call("concatenate", *parts, dimension=axis)
    from .arithmetic import negative, remainder
    from .indexing import index_scalar

    require_known_size(x, axis, "a roll")
    start = remainder(negative(index_scalar(shift)), size)
    zero = filled(start, 0)
    starts = [start if i == axis else zero for i in range(x.ndim)]
    double = call("concatenate", x, x, dimension=axis)
    return call("dynamic_slice", double, *starts, slice_sizes=x.shape)


def sliced(x: Tensor, axis: int, start: int, end: int, step: int = 1) -> Tensor:
    """A slice along one axis."""
    if (start, end, step) != (0, x.shape[axis], 1):
        require_known_size(x, axis, "what is taken by place")
    low, high, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    low[axis], high[axis], strides[axis] = start, end, step
    return call(
        "slice",
        x,
        start_indices=tuple(low),
        limit_indices=tuple(high),
        strides=tuple(strides),
    )


def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of matrices, as the last axis.

    Parameters
    ----------
    x : array-like
        The matrices are the last two dimensions.
    offset : int
        Which diagonal: 0 is the main one, positive numbers are above it.
    axis1, axis2 : int
        The axes of the rows and the columns.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.diagonal(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor([1, 4], s32[2])
    """
    return _diagonal(x, as_int(offset, "offset"), as_int(axis1, "axis1"), as_int(axis2, "axis2"))


@composite(arrays=1)
def _diagonal(x: Any, offset: int, axis1: int, axis2: int) -> Tensor:
    x = as_tensor(x)
    a, b = as_axis(axis1, x.ndim), as_axis(axis2, x.ndim)
    if a == b:
        raise ConstraintError(f"the axes of a matrix must differ; got {axis1} and {axis2} [X1]")
    x = permuted(x, (*[i for i in range(x.ndim) if i not in (a, b)], a, b))
    rows, columns = x.shape[-2:]
    low, high = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - low, columns - high))
    if not count:
        return call("reshape", sliced(sliced(x, x.ndim - 2, 0, 0), x.ndim - 1, 0, min(1, columns)),
                    shape=(*x.shape[:-2], 0))  # fmt: skip
    # Row after row in one dimension, a diagonal is what is columns + 1 apart.
    flat = call("reshape", x, shape=(*x.shape[:-2], rows * columns))
    first = low * columns + high
    last = first + (count - 1) * (columns + 1) + 1
    return sliced(flat, flat.ndim - 1, first, last, columns + 1)


document(ARRAY, matrix_transpose, ravel, flipud, fliplr)
