"""Putting arrays together, repeating and padding them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import ConstraintError, DTypeError, ShapeError, shown
from xlapy.memory import require_memory
from xlapy.specs import TensorSpec, as_axis, as_int, as_ints
from xlapy.staging import composite
from xlapy.tensor import Placed, Tensor

from .comparison import compared
from .creation import as_list
from .promotion import as_tensor, at_dtype, call, filled, named, operand, promoted, result_dtype
from .shaping import sliced

__all__ = [
    "append",
    "atleast_1d",
    "atleast_2d",
    "concat",
    "concatenate",
    "hstack",
    "pad",
    "repeat",
    "stack",
    "tile",
    "vstack",
]


def concatenate(arrays: Any, /, axis: int | None = 0, *, dtype: Any = None) -> Tensor:
    """Arrays one after the other along an axis that they have.

    Parameters
    ----------
    arrays : sequence of array-like
        Equal in shape but for that axis; they meet on one element type.
    axis : int or None
        None flattens them first.
    dtype : dtype, optional
        Of the result.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If their shapes do not fit.

    Examples
    --------
    >>> xlapy.concatenate([xlapy.asarray([1, 2]), xlapy.asarray([3.0])])
    Tensor([1., 2., 3.], f32[3])
    """
    found = _concatenate(as_list(arrays, "arrays"), None if axis is None else as_int(axis, "axis"))
    if dtype is None:
        return found
    from .datatypes import astype

    return astype(found, dtype)


concat = concatenate


@composite(arrays=1, nested=True)
def _concatenate(arrays: list[Any], axis: int | None) -> Tensor:
    tensors = promoted(*arrays)
    if axis is None:
        tensors = [call("reshape", t, shape=(t.size,)) for t in tensors]
        axis = 0
    for t in tensors:
        if not t.ndim:
            raise ShapeError(f"arrays must have at least one dimension; got {t.spec} [X1]")
    place = as_axis(axis, tensors[0].ndim)
    return call("concatenate", *tensors, dimension=place)


def stack(arrays: Any, /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis.

    Parameters
    ----------
    arrays : sequence of array-like
        Of one shape; they meet on one element type.
    axis : int
        Where the new axis stands in the result.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.stack([xlapy.asarray([1, 2]), xlapy.asarray([3, 4])], axis=1)
    Tensor([[1, 3],
            [2, 4]], s32[2,2])
    """
    return _stack(as_list(arrays, "arrays"), as_int(axis, "axis"))


@composite(arrays=1, nested=True)
def _stack(arrays: list[Any], axis: int) -> Tensor:
    tensors = promoted(*arrays)
    shape = tensors[0].shape
    for t in tensors:
        if t.shape != shape:
            raise ShapeError(f"arrays must be of one shape; got {[t.shape for t in tensors]} [X1]")
    place = as_axis(axis, len(shape) + 1)
    single = (*shape[:place], 1, *shape[place:])
    parts = [call("reshape", t, shape=single) for t in tensors]
    return call("concatenate", *parts, dimension=place)


def vstack(arrays: Any, /) -> Tensor:
    """Arrays below each other: along the first axis, those of one dimension as rows.

    Parameters
    ----------
    arrays : sequence of array-like
        They meet on one element type.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.vstack([xlapy.asarray([1, 2]), xlapy.asarray([3, 4])])
    Tensor([[1, 2],
            [3, 4]], s32[2,2])
    """
    return _vstack(as_list(arrays, "arrays"))


@composite(arrays=1, nested=True)
def _vstack(arrays: list[Any]) -> Tensor:
    tensors = [_at_least_2d(x) for x in promoted(*arrays)]
    return call("concatenate", *tensors, dimension=0)


def hstack(arrays: Any, /) -> Tensor:
    """Arrays beside each other: along the second axis, or the first where there is only one.

    Parameters
    ----------
    arrays : sequence of array-like
        They meet on one element type.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.hstack([xlapy.asarray([1, 2]), xlapy.asarray([3, 4])])
    Tensor([1, 2, 3, 4], s32[4])
    """
    return _hstack(as_list(arrays, "arrays"))


@composite(arrays=1, nested=True)
def _hstack(arrays: list[Any]) -> Tensor:
    tensors = [_at_least_1d(x) for x in promoted(*arrays)]
    return call("concatenate", *tensors, dimension=0 if tensors[0].ndim == 1 else 1)


def append(x: Any, values: Any, /, axis: int | None = None) -> Tensor:
    """`concatenate` of two arrays; flattened without an axis.

    Parameters
    ----------
    x, values : array-like
    axis : int, optional

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.append(xlapy.asarray([1, 2]), [3])
    Tensor([1, 2, 3], s32[3])
    """
    return concatenate([x, values], axis=axis)


def _at_least_1d(x: Tensor) -> Tensor:
    return x if x.ndim else call("reshape", x, shape=(1,))


def _at_least_2d(x: Tensor) -> Tensor:
    return x if x.ndim > 1 else call("reshape", x, shape=(1, x.size))


@composite(arrays=1)
def atleast_1d(x: Any, /) -> Tensor:
    """With at least one dimension.

    Parameters
    ----------
    x : array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.atleast_1d(3)
    Tensor([3], s32[1])
    """
    return _at_least_1d(as_tensor(x))


@composite(arrays=1)
def atleast_2d(x: Any, /) -> Tensor:
    """With at least two dimensions; one becomes a row.

    Parameters
    ----------
    x : array-like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.atleast_2d(xlapy.asarray([1, 2]))
    Tensor([[1, 2]], s32[1,2])
    """
    return _at_least_2d(as_tensor(x))


# --- repeating ----------------------------------------------------------------------------------------------------


def tile(x: Any, repetitions: int | Sequence[int], /) -> Tensor:
    """The array so many times along each axis.

    Parameters
    ----------
    x : array-like
    repetitions : int or sequence of int
        For each axis, from the last one on; more of them add axes in front.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.tile(xlapy.asarray([1, 2]), (2, 2))
    Tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]], s32[2,4])
    """
    return _tile(x, as_ints(repetitions, "repetitions"))


@composite(arrays=1)
def _tile(x: Any, counts: tuple[int, ...]) -> Tensor:
    x = as_tensor(x)
    if any(c < 0 for c in counts):
        raise ConstraintError(f"repetitions must not be negative; got {counts} [X1]")
    rank = max(x.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    # A new axis beside each old one, repeated and merged with it.
    wide = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    dims = tuple(range(2 * (rank - x.ndim) + 1, 2 * rank, 2))
    spread = call("broadcast_in_dim", x, shape=wide, broadcast_dimensions=dims)
    merged = tuple(n if c == 1 else c * n for c, n in zip(counts, shape, strict=True))
    return call("reshape", spread, shape=merged)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element, or slice, so many times in a row.

    Parameters
    ----------
    x : array-like
    repeats : int or sequence of int
        One number, or one for each slice; they must be known before the program runs.
    axis : int, optional
        By default the elements are taken as if they stood in one dimension.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.repeat(xlapy.asarray([1, 2]), 2), xlapy.repeat(xlapy.asarray([1, 2]), [1, 3])
    (Tensor([1, 1, 2, 2], s32[4]), Tensor([1, 2, 2, 2], s32[4]))
    """
    place = None if axis is None else as_int(axis, "axis")
    if isinstance(repeats, int):
        return _repeat(x, as_int(repeats), place)
    counts = _known(repeats, "repeats")
    if counts.dtype.kind not in "iu" or counts.ndim > 1:
        raise DTypeError(f"repeat: repeats must be integers; got {shown(repeats)} [X1]")
    if counts.ndim == 0 or counts.size == 1:
        return _repeat(x, int(counts.reshape(())), place)
    if (counts < 0).any():
        raise ConstraintError(f"repeat: repeats must not be negative; got {counts.min()} [X1]")
    require_memory("an array", [TensorSpec((sum(counts.tolist()),), "s64")])
    from .indexing import take

    x = x if type(x) is Tensor else as_tensor(x)
    if place is None:
        from .shaping import ravel

        x, place = ravel(x), 0
    size = x.shape[as_axis(place, x.ndim)]
    if counts.size != size:
        raise ShapeError(
            f"repeat: there must be a number for each of {size}; got {counts.size} [X1]"
        )
    kind = np.int32 if size <= 1 << 31 else np.int64
    return take(x, np.repeat(np.arange(size, dtype=kind), counts.astype(np.int64)), axis=place)


@composite(arrays=1)
def _repeat(x: Any, count: int, axis: int | None) -> Tensor:
    x = as_tensor(x)
    if count < 0:
        raise ConstraintError(f"repeats must not be negative; got {count} [X1]")
    if axis is None:
        x, axis = call("reshape", x, shape=(x.size,)), 0
    place = as_axis(axis, x.ndim)
    shape = x.shape
    wide = (*shape[: place + 1], count, *shape[place + 1 :])
    dims = (*range(place + 1), *range(place + 2, x.ndim + 1))
    spread = call("broadcast_in_dim", x, shape=wide, broadcast_dimensions=dims)
    return call(
        "reshape", spread, shape=(*shape[:place], shape[place] * count, *shape[place + 1 :])
    )


def _known(values: Any, what: str) -> np.ndarray[Any, Any]:
    """Numbers that a shape depends on."""
    if type(values) is Tensor and type(values.placed) is not Placed:
        values._refuse("what a shape depends on")
    try:
        return np.asarray(values)
    except ValueError:
        raise DTypeError(
            f"{what} must be integers in lists of equal lengths; got {shown(values)} [X1]"
        ) from None


# --- padding ------------------------------------------------------------------------------------------------------

_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


def pad(x: Any, pad_width: Any, /, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    """The array with more elements before and after it.

    Parameters
    ----------
    x : array-like
    pad_width : int, pair of int, or sequence of pairs
        How many before and after, on every axis or on each.
    mode : str
        ``"constant"``, ``"edge"`` (the outermost element), ``"reflect"`` (mirrored at it), ``"symmetric"``
        (mirrored beside it) or ``"wrap"`` (from the other end).
    constant_values : array-like
        The scalar for ``"constant"``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.pad(xlapy.asarray([1, 2, 3]), (1, 2), "reflect")
    Tensor([2, 1, 2, 3, 2, 1], s32[6])
    """
    if not isinstance(mode, str) or mode not in _MODES:
        raise ConstraintError(
            f"pad: mode must be one of {', '.join(_MODES)}; got {shown(mode)} [X1]"
        )
    width = _known(pad_width, "pad_width")
    if width.dtype.kind not in "iu" or (
        width.shape not in ((), (1,), (2,)) and width.shape[-1:] not in ((1,), (2,))
    ):
        raise DTypeError(f"pad: pad_width must be integers, in pairs; got {shown(pad_width)} [X1]")
    if (width < 0).any():
        raise ConstraintError(f"pad: pad_width must not be negative; got {shown(pad_width)} [X1]")
    pairs = tuple(map(tuple, width.reshape(-1, width.shape[-1] if width.ndim else 1).tolist()))
    return _pad(x, constant_values, pairs, mode)


@composite(arrays=2)
def _pad(x: Any, value: Any, pairs: tuple[tuple[int, ...], ...], mode: str) -> Tensor:
    x = as_tensor(x)
    if len(pairs) not in (1, x.ndim):
        raise ShapeError(
            f"pad_width must have a pair for each of {x.ndim} dimensions; got {pairs} [X1]"
        )
    widths = [(p[0], p[-1]) for p in (pairs * x.ndim if len(pairs) == 1 else pairs)]
    if type(x.size) is int:
        sizes = [n + before + after for n, (before, after) in zip(x.shape, widths, strict=True)]
        require_memory("an array", [x.spec.with_shape(sizes)])
    if mode == "constant":
        value = operand(value)
        if result_dtype(x, value) is not x.dtype:
            got = named(value)
            raise DTypeError(f"constant_values must fit the element type {x.dtype}; got {got} [X3]")
        value = at_dtype(value, x.dtype)
        if value.ndim:
            raise ShapeError(f"constant_values must be a scalar; got {value.spec} [X1]")
        return padded(x, value, [a for a, _ in widths], [b for _, b in widths])
    for axis, (before, after) in enumerate(widths):
        x = _extend(x, axis, before, after, mode)
    same: Tensor = x
    return same


def padded(x: Tensor, value: Tensor, low: Sequence[int], high: Sequence[int]) -> Tensor:
    """The pad operation without interior padding."""
    return call(
        "pad", x, value, edge_padding_low=tuple(low), edge_padding_high=tuple(high),
        interior_padding=(0,) * x.ndim,
    )  # fmt: skip


def _extend(x: Tensor, axis: int, before: int, after: int, mode: str) -> Tensor:
    size = x.shape[axis]
    if not before and not after:
        return x
    if not size:
        raise ShapeError(
            f"an axis to pad with its own elements must not be empty; got {x.spec} [X1]"
        )
    if mode == "edge":
        parts = [x]
        for count, at in ((before, 0), (after, size - 1)):
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            edge = call(
                "broadcast_in_dim", sliced(x, axis, at, at + 1), shape=shape,
                broadcast_dimensions=tuple(range(x.ndim)),
            )  # fmt: skip
            parts = [edge, *parts] if at == 0 and len(parts) == 1 else [*parts, edge]
        return call("concatenate", *parts, dimension=axis)
    # Blocks of so many elements, every other one of them backwards where it is mirrored. The elements at the ends are
    # mirrored at themselves in "reflect", and so belong to one block each.
    reach = max(size - 1, 1) if mode == "reflect" else size
    first, last = -before // reach, (size + after - 1) // reach
    if last - first >= _BLOCKS:
        return _from_places(x, axis, before, after, reach, mirrored=mode != "wrap")
    parts = []
    for k in range(first, last + 1):
        start, end = max(-before - k * reach, 0), min(size + after - k * reach, reach)
        if mode != "wrap" and k % 2:
            part = sliced(x, axis, size - end, size - start)
            parts.append(call("rev", part, dimensions=(axis,)))
        else:
            parts.append(sliced(x, axis, start, end))
    return call("concatenate", *parts, dimension=axis)


# More blocks than this are picked element by element.
_BLOCKS: Final = 8


def _from_places(
    x: Tensor, axis: int, before: int, after: int, reach: int, *, mirrored: bool
) -> Tensor:
    from .arithmetic import divided
    from .indexing import take

    count = before + x.shape[axis] + after
    dtype = as_dtype("s32" if count <= 1 << 31 else "s64")
    place = call("iota", shape=(count,), dtype=dtype, iota_dimension=0)
    block, source = divided(call("sub", place, filled(place, before)), filled(place, reach))
    if mirrored:
        odd = compared(call("and", block, filled(block, 1)), filled(block, 0), "NE")
        back = call("sub", filled(source, x.shape[axis] - 1), source)
        source = call("select", odd, back, source)
    return take(x, source, axis=axis)
