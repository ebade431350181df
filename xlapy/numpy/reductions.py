"""Sums, extremes, means and the like over axes; running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import DTypeError, ShapeError
from xlapy.ops import reduction
from xlapy.specs import as_axes, as_axis, as_flag, as_int, as_ints, as_real
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.sizes import count_of, iota_like

from .comparison import compared, truth
from .docstrings import REDUCED, document
from .promotion import (
    as_tensor,
    broadcast_to_shape,
    call,
    convert,
    filled,
    inexact,
    require_complex_kept,
    spread,
)

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "average",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]

_S32, _U32, _F32 = (as_dtype(n) for n in ("s32", "u32", "f32"))
Axis = int | Sequence[int] | None


def _axis(axis: Axis) -> int | tuple[int, ...] | None:
    """An axis argument that can be part of a key."""
    if axis is None or type(axis) is int:
        return axis
    return as_ints(axis, "axis")


def _keep(x: Tensor, axes: tuple[int, ...], result: Tensor, keepdims: bool) -> Tensor:
    if not keepdims:
        return result
    return call(
        "reshape", result, shape=tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    )


# --- sums and products --------------------------------------------------------------------------------------------


def sum(x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
        By default all.
    dtype : dtype, optional
        To sum in, and of the result. By default that of `x`, but s32 or u32 for truth values and integers of fewer
        bits. Floats of 16 bits and fewer are summed in f32.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there is no such axis.

    Examples
    --------
    >>> xlapy.sum(xlapy.asarray([[1, 2], [3, 4]]), axis=0)
    Tensor([4, 6], s32[2])
    """
    return _sum(
        x, _axis(axis), None if dtype is None else as_dtype(dtype), as_flag(keepdims, "keepdims")
    )


@composite(arrays=1)
def _sum(x: Any, axis: Any, dtype: DType | None, keepdims: bool) -> Tensor:
    return _folded(x, axis, dtype, keepdims, reduction.reduce_sum)


def prod(x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes; the parameters are those of `sum`.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
        By default all.
    dtype : dtype, optional
        To multiply in, and of the result; as in `sum` by default.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.prod(xlapy.asarray([[1, 2], [3, 4]]), axis=0)
    Tensor([3, 8], s32[2])
    """
    return _prod(
        x, _axis(axis), None if dtype is None else as_dtype(dtype), as_flag(keepdims, "keepdims")
    )


@composite(arrays=1)
def _prod(x: Any, axis: Any, dtype: DType | None, keepdims: bool) -> Tensor:
    return _folded(x, axis, dtype, keepdims, reduction.reduce_prod)


def _folded(
    x: Any, axis: Any, dtype: DType | None, keepdims: bool, fold: Callable[..., Any]
) -> Tensor:
    x = as_tensor(x)
    kind = dtype or summing_dtype(x.dtype)
    axes = as_axes(axis, x.ndim)
    if kind.kind == "bool":
        raise DTypeError("a sum or product must not be of truth values; got dtype pred [X1]")
    x = real_or_own(x, kind)
    wide = convert(x, wide_dtype(kind))
    return convert(_keep(x, axes, fold(wide, axes), keepdims), kind)


def real_or_own(x: Tensor, dtype: DType) -> Tensor:
    """The array in another type; a complex one keeps its imaginary part or is refused."""
    require_complex_kept(x.dtype.kind == "complex", dtype)
    return convert(x, dtype)


def summing_dtype(dtype: DType) -> DType:
    """The element type of a sum: small integers and truth values would soon overflow."""
    if dtype.kind == "bool" or (dtype.kind == "int" and dtype.bits < 32):
        return _S32
    if dtype.kind == "uint" and dtype.bits < 32:
        return _U32
    return dtype


def wide_dtype(dtype: DType) -> DType:
    """The element type to add up in."""
    return _F32 if dtype.kind == "float" and dtype.bits <= 16 else dtype


# --- extremes -----------------------------------------------------------------------------------------------------


def max(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The largest element over axes; nan where there is one.

    Raises
    ------
    ShapeError
        If there are no elements.

    Examples
    --------
    >>> xlapy.max(xlapy.asarray([[1, 4], [3, 2]]), axis=1)
    Tensor([4, 3], s32[2])
    """
    return _max(x, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _max(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return _extreme(x, axis, keepdims, reduction.reduce_max)


def min(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The smallest element over axes; nan where there is one.

    Examples
    --------
    >>> xlapy.min(xlapy.asarray([[1, 4], [3, 2]]), axis=1)
    Tensor([1, 2], s32[2])
    """
    return _min(x, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _min(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return _extreme(x, axis, keepdims, reduction.reduce_min)


def _extreme(x: Any, axis: Any, keepdims: bool, fold: Callable[..., Any]) -> Tensor:
    x = as_tensor(x)
    axes = as_axes(axis, x.ndim)
    _require_elements(x, axes)
    if x.dtype.kind == "complex":
        raise DTypeError(
            f"the operand must be real, for complex numbers have no order; got {x.spec} [X1]"
        )
    return _keep(x, axes, fold(x, axes) if axes else x, keepdims)


def _require_elements(x: Tensor, axes: tuple[int, ...]) -> None:
    for a in axes:
        if not x.shape[a]:
            raise ShapeError(
                f"there must be at least one element to take an extreme of; got {x.spec} along axis {a} [X1]"
            )


def ptp(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """The distance between the largest and the smallest element.

    Examples
    --------
    >>> xlapy.ptp(xlapy.asarray([3, 1, 7]))
    Tensor(6, s32[])
    """
    return _ptp(x, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _ptp(x: Any, axis: Any, keepdims: bool) -> Tensor:
    high = _extreme(x, axis, keepdims, reduction.reduce_max)
    return call("sub", high, _extreme(x, axis, keepdims, reduction.reduce_min))


def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the largest element stands; the first of several, and the first nan if there is one.

    Parameters
    ----------
    x : array-like
    axis : int, optional
        By default the elements are counted as if they stood in one dimension.
    keepdims : bool

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.argmax(xlapy.asarray([[1, 4], [3, 2]]), axis=1)
    Tensor([1, 0], s32[2])
    """
    return _argmax(x, None if axis is None else as_int(axis, "axis"), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _argmax(x: Any, axis: int | None, keepdims: bool) -> Tensor:
    return _position(x, axis, keepdims, reduction.reduce_max)


def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Where the smallest element stands; the first of several, and the first nan if there is one.

    Parameters
    ----------
    x : array-like
    axis : int, optional
        By default the elements are counted as if they stood in one dimension.
    keepdims : bool

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.argmin(xlapy.asarray([[1, 4], [3, 2]]), axis=1)
    Tensor([0, 1], s32[2])
    """
    return _argmin(x, None if axis is None else as_int(axis, "axis"), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _argmin(x: Any, axis: int | None, keepdims: bool) -> Tensor:
    return _position(x, axis, keepdims, reduction.reduce_min)


def _position(x: Any, axis: int | None, keepdims: bool, fold: Callable[..., Any]) -> Tensor:
    """The first place at which the extreme stands."""
    x = as_tensor(x)
    rank = x.ndim
    if x.dtype.kind == "complex":
        raise DTypeError(
            f"the operand must be real, for complex numbers have no order; got {x.spec} [X1]"
        )
    if axis is None:
        x = call("reshape", x, shape=(x.size,))
        axis = 0
        kept = (1,) * rank
    else:
        axis = as_axis(axis, rank)
        kept = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
    _require_elements(x, (axis,))
    dims = tuple(i for i in range(x.ndim) if i != axis)
    extreme = spread(fold(x, (axis,)), x.shape, dims, (x,))
    found = compared(x, extreme, "EQ")
    if x.dtype.inexact:
        # An extreme of nan equals nothing: it stands at the first nan.
        found = call("or", found, compared(x, x, "NE"))
    place = iota_like(x, axis)
    nowhere = filled(place, 2**31 - 1)
    first: Tensor = reduction.reduce_min(call("select", found, place, nowhere), (axis,))
    return call("reshape", first, shape=kept) if keepdims else first


# --- truth --------------------------------------------------------------------------------------------------------


def any(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether at least one element is true; numbers are where they are not 0.

    Examples
    --------
    >>> xlapy.any(xlapy.asarray([[0, 1], [0, 0]]), axis=1)
    Tensor([ True, False], pred[2])
    """
    return _any(x, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _any(x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = truth(x)
    axes = as_axes(axis, x.ndim)
    return _keep(x, axes, reduction.reduce_or(x, axes), keepdims)


def all(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """Whether every element is true; numbers are where they are not 0.

    Examples
    --------
    >>> xlapy.all(xlapy.asarray([[2, 1], [0, 1]]), axis=1)
    Tensor([ True, False], pred[2])
    """
    return _all(x, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _all(x: Any, axis: Any, keepdims: bool) -> Tensor:
    x = truth(x)
    axes = as_axes(axis, x.ndim)
    return _keep(x, axes, reduction.reduce_and(x, axes), keepdims)


def count_nonzero(x: Any, /, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
    """How many elements are not 0.

    Examples
    --------
    >>> xlapy.count_nonzero(xlapy.asarray([[0, 1], [2, 3]]))
    Tensor(3, s32[])
    """
    return _count_nonzero(x, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _count_nonzero(x: Any, axis: Any, keepdims: bool) -> Tensor:
    return _folded(truth(x), axis, _S32, keepdims, reduction.reduce_sum)


# --- moments ------------------------------------------------------------------------------------------------------


def mean(x: Any, /, axis: Axis = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The arithmetic mean over axes: of integers a float, f64 for 64-bit ones and f32 otherwise.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
        By default all.
    dtype : dtype, optional
        Of the result.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.mean(xlapy.asarray([[1, 2], [3, 4]]), axis=0)
    Tensor([2., 3.], f32[2])
    """
    return _mean(
        x, _axis(axis), None if dtype is None else as_dtype(dtype), as_flag(keepdims, "keepdims")
    )


@composite(arrays=1)
def _mean(x: Any, axis: Any, dtype: DType | None, keepdims: bool) -> Tensor:
    x = inexact(x)
    kind = dtype or x.dtype
    if not kind.inexact:
        raise DTypeError(f"a mean must be of a floating-point type; got dtype {kind} [X1]")
    x = real_or_own(x, kind)
    axes = as_axes(axis, x.ndim)
    return convert(_keep(x, axes, _mean_of(convert(x, wide_dtype(kind)), axes), keepdims), kind)


def _counts(x: Tensor, axes: tuple[int, ...], like: Tensor, correction: float = 0.0) -> Tensor:
    """How many elements axes have, less a correction, but at least 0: as often as another tensor has elements."""
    found: int | Tensor = count_of(x, axes)
    if not isinstance(found, Tensor):
        return filled(like, found - correction if found > correction else 0.0)
    count = convert(found, like.dtype)
    if correction:
        count = call("sub", count, filled(count, correction))
        count = call("max", count, filled(count, 0.0))
    return broadcast_to_shape(count, like.shape, (like,))


def _mean_of(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    total: Tensor = reduction.reduce_sum(x, axes)
    return call("div", total, _counts(x, axes, total))


def average(x: Any, /, axis: Axis = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    """The mean, of elements with weights.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
    weights : array-like, optional
        Of the shape of `x`, or of one dimension and the length of the axis.
    keepdims : bool

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.average(xlapy.asarray([1.0, 3.0]), weights=[3, 1])
    Tensor(1.5, f32[])
    """
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    return _average(x, weights, _axis(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=2)
def _average(x: Any, weights: Any, axis: Any, keepdims: bool) -> Tensor:
    from .arithmetic import divide, multiply

    x, weights = inexact(x), as_tensor(weights)
    axes = as_axes(axis, x.ndim)
    if weights.shape != x.shape:
        if weights.ndim != 1 or len(axes) != 1 or weights.shape[0] != x.shape[axes[0]]:
            raise ShapeError(
                f"weights must be of the shape of the array or axis; got {weights.spec} [X1]"
            )
        sizes = tuple(n if i == axes[0] else 1 for i, n in enumerate(x.shape))
        weights = broadcast_to_shape(call("reshape", weights, shape=sizes), x.shape)
    total = _folded(weights, axes, None, keepdims, reduction.reduce_sum)
    return divide(_folded(multiply(x, weights), axes, None, keepdims, reduction.reduce_sum), total)


def var(
    x: Any, /, axis: Axis = None, *, dtype: Any = None, correction: float = 0.0, keepdims: bool = False,
    ddof: float | None = None,
) -> Tensor:  # fmt: skip
    """The variance over axes.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
    dtype : dtype, optional
        By default that of `x`; for integers as in `mean`.
    correction : float
        The divisor is the number of elements less this.
    keepdims : bool
    ddof : float, optional
        numpy's name of `correction`.

    Returns
    -------
    Tensor
        Real.

    Examples
    --------
    >>> xlapy.var(xlapy.asarray([1.0, 2.0, 3.0])), xlapy.var(xlapy.asarray([1.0, 2.0, 3.0]), correction=1)
    (Tensor(0.6666667, f32[]), Tensor(1., f32[]))
    """
    kind = None if dtype is None else as_dtype(dtype)
    return _var(
        x,
        _axis(axis),
        kind,
        as_real(correction if ddof is None else ddof, "correction"),
        as_flag(keepdims, "keepdims"),
    )


@composite(arrays=1)
def _var(x: Any, axis: Any, dtype: DType | None, correction: float, keepdims: bool) -> Tensor:
    result, kind = _variance(x, axis, dtype, correction, keepdims)
    return convert(result, kind)


def _variance(
    x: Any, axis: Any, dtype: DType | None, correction: float, keepdims: bool
) -> tuple[Tensor, DType]:
    """The variance in the type that sums are taken in, and the type it is to have."""
    x = inexact(x)
    kind = dtype or x.dtype
    if not kind.inexact:
        raise DTypeError(f"a variance must be of a floating-point type; got dtype {kind} [X1]")
    x = convert(real_or_own(x, kind), wide_dtype(kind))
    axes = as_axes(axis, x.ndim)
    dims = tuple(i for i in range(x.ndim) if i not in axes)
    center = spread(_mean_of(x, axes), x.shape, dims, (x,))
    distance = call("sub", x, center)
    if kind.kind == "complex":
        parts = [call(part, distance) for part in ("real", "imag")]
        squares = call("add", *[call("mul", p, p) for p in parts])
    else:
        squares = call("mul", distance, distance)
    total: Tensor = reduction.reduce_sum(squares, axes)
    found = call("div", total, _counts(x, axes, total, correction))
    return _keep(x, axes, found, keepdims), kind.real_part


def std(
    x: Any, /, axis: Axis = None, *, dtype: Any = None, correction: float = 0.0, keepdims: bool = False,
    ddof: float | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation over axes: the square root of `var`.

    Parameters
    ----------
    x : array-like
    axis : int or sequence of int, optional
        By default all.
    dtype : dtype, optional
        Of the result.
    correction, ddof : float
        What is taken off the number of elements; `ddof` is numpy's name for it.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.std(xlapy.asarray([1.0, 3.0]))
    Tensor(1., f32[])
    """
    kind = None if dtype is None else as_dtype(dtype)
    return _std(
        x,
        _axis(axis),
        kind,
        as_real(correction if ddof is None else ddof, "correction"),
        as_flag(keepdims, "keepdims"),
    )


@composite(arrays=1)
def _std(x: Any, axis: Any, dtype: DType | None, correction: float, keepdims: bool) -> Tensor:
    result, kind = _variance(x, axis, dtype, correction, keepdims)
    return convert(call("sqrt", result), kind)


document(REDUCED, max, min, ptp, any, all, count_nonzero)
