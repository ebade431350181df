"""Running sums and products, and differences of neighbours."""

from __future__ import annotations

from typing import Any

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import DTypeError, ShapeError
from xlapy.specs import TensorSpec, as_axis, as_flag, as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.zeros import constant_of

from .promotion import as_tensor, call, convert
from .reductions import real_or_own, summing_dtype, wide_dtype
from .shaping import ravel, sliced

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff"]


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sum of the elements up to each one.

    Parameters
    ----------
    x : array-like
    axis : int, optional
        May be left out for one dimension only.
    dtype : dtype, optional
        As for `sum`.
    include_initial : bool
        Whether the result begins with a 0.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.cumulative_sum(xlapy.asarray([1, 2, 3]))
    Tensor([1, 3, 6], s32[3])
    """
    return _cumulative_sum(x, *_options(axis, dtype, include_initial))


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The product of the elements up to each one; as `cumulative_sum`.

    Parameters
    ----------
    x : array-like
    axis : int, optional
        It may be left out where there is only one.
    dtype : dtype, optional
        Of the result; as in `cumulative_sum` by default.
    include_initial : bool
        Whether a 1 comes first.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.cumulative_prod(xlapy.asarray([1, 2, 3]))
    Tensor([1, 2, 6], s32[3])
    """
    return _cumulative_prod(x, *_options(axis, dtype, include_initial))


def _options(axis: Any, dtype: Any, initial: Any) -> tuple[int | None, DType | None, bool]:
    return (
        None if axis is None else as_int(axis, "axis"),
        None if dtype is None else as_dtype(dtype),
        as_flag(initial, "include_initial"),
    )


@composite(arrays=1)
def _cumulative_sum(x: Any, axis: int | None, dtype: DType | None, initial: bool) -> Tensor:
    return _cumulative(as_tensor(x), axis, dtype, initial, "add")


@composite(arrays=1)
def _cumulative_prod(x: Any, axis: int | None, dtype: DType | None, initial: bool) -> Tensor:
    return _cumulative(as_tensor(x), axis, dtype, initial, "mul")


def _cumulative(
    x: Tensor, axis: int | None, dtype: DType | None, initial: bool, name: str
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(
                f"an axis must be given unless there is one dimension; got {x.spec} [X1]"
            )
        axis = 0
    place = as_axis(axis, x.ndim)
    kind = dtype or summing_dtype(x.dtype)
    if kind.kind == "bool":
        raise DTypeError("a sum or product must not be of truth values; got dtype pred [X1]")
    found = _scanned(convert(real_or_own(x, kind), wide_dtype(kind)), place, name)
    if initial:
        shape = (*x.shape[:place], 1, *x.shape[place + 1 :])
        first = constant_of(TensorSpec(shape, found.dtype), 0 if name == "add" else 1)
        found = call("concatenate", first, found, dimension=place)
    return convert(found, kind)


def _scanned(x: Tensor, axis: int, name: str) -> Tensor:
    """Running results by halves: of all pairs first, then of the elements between them. Work linear in the size."""
    size = x.shape[axis]
    if size < 2:
        return x
    even, odd = sliced(x, axis, 0, size - 1, 2), sliced(x, axis, 1, size, 2)
    upto_odd = _scanned(call(name, even, odd), axis, name)
    pairs = size // 2
    before = upto_odd if size % 2 else sliced(upto_odd, axis, 0, pairs - 1)
    later = sliced(x, axis, 2, size, 2) if size > 2 else None
    first = sliced(x, axis, 0, 1)
    upto_even = first
    if later is not None:
        upto_even = call("concatenate", first, call(name, before, later), dimension=axis)
    # Taken in turns.
    tail = None
    if size % 2:
        tail = sliced(upto_even, axis, pairs, pairs + 1)
        upto_even = sliced(upto_even, axis, 0, pairs)
    shape = x.shape
    single = (*shape[:axis], pairs, 1, *shape[axis + 1 :])
    both = call(
        "concatenate", call("reshape", upto_even, shape=single), call("reshape", upto_odd, shape=single),
        dimension=axis + 1,
    )  # fmt: skip
    merged = call("reshape", both, shape=(*shape[:axis], 2 * pairs, *shape[axis + 1 :]))
    return merged if tail is None else call("concatenate", merged, tail, dimension=axis)


def cumsum(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumulative_sum` by numpy's name; without an axis the elements are taken in one dimension.

    Parameters
    ----------
    x : array-like
    axis : int, optional
    dtype : dtype, optional
        Of the result; as in `cumulative_sum` by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.cumsum(xlapy.asarray([[1, 2], [3, 4]]))
    Tensor([ 1,  3,  6, 10], s32[4])
    """
    if axis is None:
        x, axis = ravel(x), 0
    return cumulative_sum(x, axis=axis, dtype=dtype)


def cumprod(x: Any, /, axis: int | None = None, *, dtype: Any = None) -> Tensor:
    """`cumulative_prod` by numpy's name; without an axis the elements are taken in one dimension.

    Parameters
    ----------
    x : array-like
    axis : int, optional
    dtype : dtype, optional
        Of the result; as in `cumulative_sum` by default.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.cumprod(xlapy.asarray([1, 2, 3]))
    Tensor([1, 2, 6], s32[3])
    """
    if axis is None:
        x, axis = ravel(x), 0
    return cumulative_prod(x, axis=axis, dtype=dtype)


def diff(x: Any, /, *, n: int = 1, axis: int = -1) -> Tensor:
    """The differences of neighbours along an axis, taken `n` times.

    Parameters
    ----------
    x : array-like
    n : int
        Each time the axis becomes shorter by one.
    axis : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.diff(xlapy.asarray([1, 4, 9]))
    Tensor([3, 5], s32[2])
    """
    return _diff(x, as_int(n, "n"), as_int(axis, "axis"))


@composite(arrays=1)
def _diff(x: Any, n: int, axis: int) -> Tensor:
    x = as_tensor(x)
    place = as_axis(axis, x.ndim)
    if n < 0:
        raise ShapeError(f"n must not be negative; got {n} [X1]")
    for _ in range(min(n, x.shape[place])):  # nothing is left then
        size = x.shape[place]
        start = sliced(x, place, min(1, size), size)
        end = sliced(x, place, 0, max(size - 1, 0))
        x = call("xor" if x.dtype.kind == "bool" else "sub", start, end)
    same: Tensor = x
    return same
