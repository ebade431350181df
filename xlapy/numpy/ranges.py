"""Arrays by rule: ranges, diagonals, triangles, grids."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from xlapy import rounding
from xlapy.backends.eager import put
from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ConstraintError, DTypeError, ShapeError, shown
from xlapy.specs import as_flag, as_int
from xlapy.staging import composite
from xlapy.tensor import Placed, Tensor
from xlapy.trace.mode import current_builder

from .creation import as_array, host_shape, placement_of, require_fit, static_shape
from .promotion import (
    as_tensor,
    at_dtype,
    broadcast_to_shape,
    call,
    convert,
    filled,
    meet_inexact,
    promoted,
    require_complex_kept,
)

__all__ = ["arange", "eye", "identity", "linspace", "meshgrid", "tri", "tril", "triu"]

_SCALARS = (bool, int, float, complex)
_S32, _F32 = as_dtype("s32"), as_dtype("f32")


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Numbers at equal distances, from `start` and before `stop`.

    Parameters
    ----------
    start, stop, step : int or float
        With one of them, it is the end and the start is 0.
    dtype : dtype, optional
        By default s32, or f32 where one of the numbers is a float.
    device : str or Backend or Device, optional

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        If the step is 0, or the count is not known before the program runs.

    Examples
    --------
    >>> xlapy.arange(4), xlapy.arange(1, 2, 0.25)
    (Tensor([0, 1, 2, 3], s32[4]), Tensor([1.  , 1.25, 1.5 , 1.75], f32[4]))
    """
    if stop is None:
        start, stop = 0, start
    numbers = [_number(v, "arange: start, stop and step") for v in (start, stop, step)]
    if dtype is None:
        kind = _F32 if any(type(v) is float for v in numbers) else _S32
    else:
        kind = as_dtype(dtype)
    first, end, stride = numbers
    if stride == 0:
        raise ConstraintError("arange: the step must not be 0; got 0 [X1]")
    try:
        if float in (type(first), type(end), type(stride)):
            count = max(0, math.ceil((end - first) / stride))
        else:
            count = max(0, -int((first - end) // stride))
    except (OverflowError, ValueError):
        raise ConstraintError(f"arange: the range must be finite; got {numbers} [X1]") from None
    return _ramp(kind, count, first, stride, device)


def _number(x: Any, what: str) -> int | float:
    if type(x) in (int, float):
        number: int | float = x
        return number
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0):
        x = x.item()
    elif type(x) is Tensor:
        if type(x.placed) is not Placed:
            x._refuse("what a shape depends on")
        x = x.item()
    if isinstance(x, bool) or not isinstance(x, int | float):
        raise DTypeError(f"{what} must be real numbers; got {shown(x)} [X1]")
    return x


def _ramp(dtype: DType, count: int, first: int | float, stride: int | float, device: Any) -> Tensor:
    """First + i * stride, i from 0."""
    if dtype.kind in ("bool", "complex") or dtype.narrow:
        raise DTypeError(f"arange: the element type must be of real numbers; got {dtype} [X1]")
    if count < 2:
        first, stride = first if count else 0, 0  # nothing comes after the first
    whole = dtype.integer or (type(first) is int and type(stride) is int)
    if dtype.integer:
        first, stride = int(first), int(stride)
        require_fit(np.asarray([first, first + max(count - 1, 0) * stride], object), dtype)
    if current_builder() is not None and device is None:
        return _recorded_ramp(dtype, count, first, stride, whole)
    return put(_host_ramp(dtype, count, first, stride), placement_of(device))


def _host_ramp(
    dtype: DType, count: int, first: int | float, stride: int | float
) -> np.ndarray[Any, Any]:
    exact = dtype.bits == 64 and dtype.integer
    steps = np.arange(*host_shape((count,), dtype), dtype=object if exact else None)
    try:
        return rounding.astype(np.asarray(first + steps * stride), dtype.numpy)
    except OverflowError:
        raise ConstraintError(
            f"arange: the numbers must fit a float; got {[first, stride]} [X1]"
        ) from None


# Constants of at most so many elements stand in programs as they are.
_FEW: Final = 1 << 14


def _recorded_ramp(
    dtype: DType, count: int, first: int | float, stride: int | float, whole: bool
) -> Tensor:
    """The same numbers as on the host, to the bit."""
    last = first + max(count - 1, 0) * stride
    if not whole or not -(1 << 63) <= min(first, last) <= max(first, last) < 1 << 64:
        if count <= _FEW:
            return call("constant", value=_host_ramp(dtype, count, first, stride))
        kind = as_dtype("f64")
    else:
        kind = dtype if dtype.integer else as_dtype("s64")
        if not dtype.integer and -(1 << 31) <= min(first, last) <= max(first, last) < 1 << 31:
            kind = _S32
    i = call("iota", shape=(count,), dtype=kind, iota_dimension=0)
    if stride != 1:
        i = call("mul", i, filled(i, _wrapped(stride, kind)))
    if first != 0:
        i = call("add", i, filled(i, _wrapped(first, kind)))
    return convert(i, dtype)


def _wrapped(x: int | float, dtype: DType) -> int | float:
    """What stands for a number in the arithmetic of an integer type."""
    if not dtype.integer:
        return x
    x = int(x) % (1 << dtype.bits)
    return x - (1 << dtype.bits) if dtype.kind == "int" and x >> (dtype.bits - 1) else x


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """So many numbers at equal distances, from `start` to `stop`.

    Parameters
    ----------
    start, stop : number or Tensor
        Scalars; they may be traced.
    num : int
    endpoint : bool
        Whether the last number is `stop`; otherwise the numbers end one distance before it.
    dtype : dtype, optional
        f32 by default. Integers are rounded down.
    device : str or Backend or Device, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.linspace(0, 1, 5)
    Tensor([0.  , 0.25, 0.5 , 0.75, 1.  ], f32[5])
    """
    count = as_int(num, "num")
    if count < 0:
        raise ConstraintError(f"linspace: num must not be negative; got {count} [X1]")
    ends = as_flag(endpoint, "endpoint")
    kind = None if dtype is None else as_dtype(dtype)
    if not all(type(v) in _SCALARS for v in (start, stop)):
        return _linspace(start, stop, count, ends, kind)
    is_complex = complex in (type(start), type(stop))
    kind = kind or as_dtype("c64" if is_complex else "f32")
    require_complex_kept(is_complex, kind)
    try:
        # As floats, for numpy makes objects of large integers.
        start, stop = [v if type(v) is complex else float(v) for v in (start, stop)]
    except OverflowError:
        bits = max(v.bit_length() for v in (start, stop) if type(v) is int)
        raise ConstraintError(
            f"start and stop must fit a float; got an integer of {bits} bits [X1]"
        ) from None
    if current_builder() is not None and device is None and count > _FEW:
        wide = as_dtype("c128" if is_complex else "f64")
        return _linspace(at_dtype(start, wide), at_dtype(stop, wide), count, ends, kind)
    host_shape((count,), kind)
    with np.errstate(all="ignore"):
        found = np.linspace(start, stop, count, endpoint=ends)
        if kind.integer:
            found = np.floor(found)
            require_whole(start, stop, found, kind)
        found = rounding.astype(found, kind.numpy)
    if current_builder() is not None and device is None:
        return call("constant", value=found)
    return put(found, placement_of(device))


def require_whole(start: Any, stop: Any, found: np.ndarray[Any, Any], dtype: DType) -> None:
    """The ends of a range must be integers that fit."""
    if not (math.isfinite(start) and math.isfinite(stop)):
        raise ConstraintError(f"start and stop must be finite; got {(start, stop)} [X1]")
    require_fit(np.asarray([int(v) for v in (*found[:1], *found[-1:])], object), dtype)


@composite(arrays=2)
def _linspace(start: Any, stop: Any, count: int, endpoint: bool, dtype: DType | None) -> Tensor:
    first, last = meet_inexact(start, stop)
    if first.ndim:
        raise ShapeError(f"start and stop must be scalars; got {first.spec} [X1]")
    steps = max(count - 1, 1) if endpoint else max(count, 1)
    i = call("iota", shape=(count,), dtype=first.dtype, iota_dimension=0)
    distance = call("div", call("sub", last, first), filled(last, steps))
    first, last, distance = (broadcast_to_shape(t, (count,)) for t in (first, last, distance))
    found = call("add", first, call("mul", i, distance))
    if endpoint and count > 1:
        at_end = call("compare", i, filled(i, count - 1), comparison_direction="EQ")
        found = call("select", at_end, last, found)
    if dtype is None:
        return found
    require_complex_kept(found.dtype.kind == "complex", dtype)
    return convert(call("floor", found) if dtype.integer else found, dtype)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Tensor:
    """Ones on a diagonal, zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        As many columns as rows by default.
    k : int
        Which diagonal: above the main one where positive.
    dtype : dtype, optional
        f32 by default.
    device : str or Backend or Device, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.eye(2), xlapy.eye(2, 3, k=1)
    (Tensor([[1., 0.],
            [0., 1.]], f32[2,2]), Tensor([[0., 1., 0.],
            [0., 0., 1.]], f32[2,3]))
    """
    shape = static_shape((n_rows, n_rows if n_cols is None else n_cols))
    return _by_diagonal(shape, as_int(k, "k"), "EQ", dtype, device)


def identity(n: int, dtype: Any = None) -> Tensor:
    """The identity matrix.

    Parameters
    ----------
    n : int
        How many rows and columns.
    dtype : dtype, optional
        By default f32.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.identity(2)
    Tensor([[1., 0.],
            [0., 1.]], f32[2,2])
    """
    return eye(n, dtype=dtype)


def tri(n_rows: int, n_cols: int | None = None, k: int = 0, *, dtype: Any = None) -> Tensor:
    """Ones on and below a diagonal, zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        By default as many columns as rows.
    k : int
        Which diagonal: 0 is the main one, positive numbers are above it.
    dtype : dtype, optional
        By default f32.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.tri(2, 3)
    Tensor([[1., 0., 0.],
            [1., 1., 0.]], f32[2,3])
    """
    shape = static_shape((n_rows, n_rows if n_cols is None else n_cols))
    return _by_diagonal(shape, as_int(k, "k"), "GE", dtype, None)


def _by_diagonal(shape: tuple[int, ...], k: int, direction: str, dtype: Any, device: Any) -> Tensor:
    """Ones where row + k is equal to the column, or not below it."""
    kind = _F32 if dtype is None else as_dtype(dtype)
    k = max(-max(shape) - 1, min(max(shape) + 1, k))  # beyond all diagonals one is like the other
    if current_builder() is None or device is not None:
        rows, columns = np.indices(host_shape(shape, kind), sparse=True)
        found = rows + k == columns if direction == "EQ" else rows + k >= columns
        return put(found.astype(kind.numpy), placement_of(device))
    return convert(_diagonal_mask(shape, k, direction), kind)


def _diagonal_mask(shape: tuple[int, ...], k: int, direction: str) -> Tensor:
    rank = len(shape)
    rows = call("iota", shape=shape, dtype=_S32, iota_dimension=rank - 2)
    columns = call("iota", shape=shape, dtype=_S32, iota_dimension=rank - 1)
    if k:
        limit = max(shape[-2:], default=0)
        k = max(-limit - 1, min(limit + 1, k))
        rows = call("add", rows, filled(rows, k))
    return call("compare", rows, columns, comparison_direction=direction)


def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros above a diagonal.

    Parameters
    ----------
    x : array-like
        The matrices are the last two dimensions.
    k : int
        Which diagonal: 0 is the main one, positive numbers are above it.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.tril(xlapy.ones((2, 3)))
    Tensor([[1., 0., 0.],
            [1., 1., 0.]], f32[2,3])
    """
    return _lower_triangle(x, as_int(k, "k"))


def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """The matrices with zeros below a diagonal.

    Parameters
    ----------
    x : array-like
        The matrices are the last two dimensions.
    k : int
        Which diagonal: 0 is the main one, positive numbers are above it.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.triu(xlapy.ones((2, 3)))
    Tensor([[1., 1., 1.],
            [0., 1., 1.]], f32[2,3])
    """
    return _upper_triangle(x, as_int(k, "k"))


@composite(arrays=1, name="tril")
def _lower_triangle(x: Any, k: int) -> Tensor:
    return _triangle(x, k, "GE")


@composite(arrays=1, name="triu")
def _upper_triangle(x: Any, k: int) -> Tensor:
    return _triangle(x, k, "LE")


def _triangle(x: Any, k: int, direction: str) -> Tensor:
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"a matrix must have at least two dimensions; got {x.spec} [X1]")
    return call("select", _diagonal_mask(x.shape, k, direction), x, filled(x, 0))


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Coordinate arrays of a grid.

    Parameters
    ----------
    *arrays : array-like
        Of one dimension each, or scalars.
    indexing : str
        ``"ij"``: the axes in the order of the arrays; ``"xy"``: the first two exchanged.

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> xlapy.meshgrid(xlapy.arange(2), xlapy.arange(3), indexing="ij")[1]
    Tensor([[0, 1, 2],
            [0, 1, 2]], s32[2,3])
    """
    if not isinstance(indexing, str) or indexing not in ("xy", "ij"):
        raise ConstraintError(
            f"meshgrid: indexing must be 'xy' or 'ij'; got {shown(indexing)} [X1]"
        )
    return _meshgrid([as_array(x) for x in arrays], indexing) if arrays else []


@composite(arrays=1, nested=True)
def _meshgrid(arrays: list[Any], indexing: str) -> list[Tensor]:
    tensors = promoted(*arrays)
    for t in tensors:
        if t.ndim > 1:
            raise ShapeError(f"arrays must have one dimension; got {t.spec} [X1]")
    sizes = [t.size for t in tensors]
    order = list(range(len(sizes)))
    if indexing == "xy" and len(sizes) > 1:
        order[:2] = [1, 0]
    shape = tuple(sizes[i] for i in order)
    return [
        call("broadcast_in_dim", call("reshape", t, shape=(t.size,)), shape=shape,
             broadcast_dimensions=(order.index(i),))
        for i, t in enumerate(tensors)
    ]  # fmt: skip
