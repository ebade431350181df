"""Ordering elements and searching in what is ordered."""

from __future__ import annotations

from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.errors import ConstraintError, ShapeError, shown
from xlapy.specs import TensorSpec, as_axis, as_flag, as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.builder import as_computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.sizes import iota_like

from .creation import as_list
from .promotion import as_tensor, broadcast_to_shape, call, filled, promoted

__all__ = ["argsort", "lexsort", "searchsorted", "sort", "sorted_together"]

_S32 = as_dtype("s32")


def _before(x: Tensor, y: Tensor) -> Tensor:
    """Whether x comes before y: nan comes last, and complex numbers are compared by their real parts first."""
    if x.dtype.kind == "complex":
        parts = [[call(part, t) for t in (x, y)] for part in ("real", "imag")]
        (a, b), (c, d) = parts
        same = call("not", call("or", _before(a, b), _before(b, a)))
        return call("or", _before(a, b), call("and", same, _before(c, d)))
    less = call("compare", x, y, comparison_direction="LT")
    if x.dtype.kind != "float":
        return less
    last = call("compare", y, y, comparison_direction="NE")
    number = call("compare", x, x, comparison_direction="EQ")
    return call("or", less, call("and", last, number))


def ascending(x: Tensor, y: Tensor, *rest: Tensor) -> Tensor:
    """The comparator by the first operand."""
    del rest
    return _before(x, y)


def descending_order(x: Tensor, y: Tensor, *rest: Tensor) -> Tensor:
    """The comparator by the first operand, the other way round."""
    del rest
    return _before(y, x)


def sorted_together(
    *operands: Tensor, axis: int, descending: bool = False, stable: bool = True
) -> tuple[Tensor, ...]:
    """Arrays of one shape in the order of the first one."""
    scalars = [TensorSpec((), x.dtype) for x in operands for _ in range(2)]
    comparator = as_computation(descending_order if descending else ascending, scalars)
    found: tuple[Tensor, ...] = bind(
        lookup("sort"), *operands, dimension=axis, is_stable=stable, comparator=comparator
    )
    return found


def sort(
    x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The elements in order along an axis.

    Nan counts as the greatest. Complex numbers are ordered by their real parts, then by their imaginary ones.

    Parameters
    ----------
    x : array-like
    axis : int or None
        None for all elements in one dimension.
    descending : bool
    stable : bool
        Whether equal elements keep their order, which shows for zeros of different sign only.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.sort(xlapy.asarray([3, 1, 2])), xlapy.sort(xlapy.asarray([3, 1, 2]), descending=True)
    (Tensor([1, 2, 3], s32[3]), Tensor([3, 2, 1], s32[3]))
    """
    return _sort(x, None if axis is None else as_int(axis, "axis"), *_order(descending, stable))


def _order(descending: Any, stable: Any) -> tuple[bool, bool]:
    return as_flag(descending, "descending"), as_flag(stable, "stable")


@composite(arrays=1)
def _sort(x: Any, axis: int | None, descending: bool, stable: bool) -> Tensor:
    x, place = _line(x, axis)
    return sorted_together(x, axis=place, descending=descending, stable=stable)[0]


def _line(x: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(x)
    if axis is None:
        return call("reshape", x, shape=(x.size,)), 0
    if not x.ndim:
        raise ShapeError(f"an array must have at least one dimension; got {x.spec} [X1]")
    return x, as_axis(axis, x.ndim)


def argsort(
    x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Tensor:
    """The places of the elements in order along an axis: of the smallest first.

    Parameters
    ----------
    x, axis, descending
        As for `sort`.
    stable : bool
        Whether equal elements keep their order.

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.argsort(xlapy.asarray([3, 1, 2]))
    Tensor([1, 2, 0], s32[3])
    """
    return _argsort(x, None if axis is None else as_int(axis, "axis"), *_order(descending, stable))


@composite(arrays=1)
def _argsort(x: Any, axis: int | None, descending: bool, stable: bool) -> Tensor:
    x, place = _line(x, axis)
    places = iota_like(x, place)
    return sorted_together(x, places, axis=place, descending=descending, stable=stable)[1]


def lexsort(keys: Any, /, *, axis: int = -1) -> Tensor:
    """The places in the order of several keys, of which the last one counts most.

    Parameters
    ----------
    keys : sequence of array-like
        Of one shape.
    axis : int

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.lexsort([xlapy.asarray([1, 0, 2]), xlapy.asarray([0, 0, -1])])
    Tensor([2, 1, 0], s32[3])
    """
    return _lexsort(as_list(keys, "keys"), as_int(axis, "axis"))


@composite(arrays=1, nested=True)
def _lexsort(keys: list[Any], axis: int) -> Tensor:
    from .indexing import take_along_axis

    tensors = [as_tensor(k) for k in keys]
    order: Tensor | None = None
    for k in tensors:
        if k.shape != tensors[0].shape:
            raise ShapeError(f"keys must be of one shape; got {[t.shape for t in tensors]} [X1]")
        if order is None:
            order = argsort(k, axis)
        else:
            later = argsort(take_along_axis(k, order, axis=axis), axis)
            order = take_along_axis(order, later, axis=axis)
    assert order is not None
    return order


def searchsorted(x: Any, values: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """Where values would have to be inserted in an ascending array to keep it so.

    Parameters
    ----------
    x : array-like
        Of one dimension.
    values : array-like
    side : str
        ``"left"``: before equal elements; ``"right"``: after them.
    sorter : array-like of int, optional
        The places of `x` in order, where it is not.

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.searchsorted(xlapy.asarray([1, 3, 3, 5]), xlapy.asarray([3, 4]))
    Tensor([1, 3], s32[2])
    """
    if not isinstance(side, str) or side not in ("left", "right"):
        raise ConstraintError(
            f"searchsorted: side must be 'left' or 'right'; got {shown(side)} [X1]"
        )
    if sorter is not None:
        from .indexing import take

        x = take(x, sorter, axis=0)
    return _searchsorted(x, values, side)


@composite(arrays=2)
def _searchsorted(x: Any, values: Any, side: str) -> Tensor:
    from .indexing import take

    x, values = promoted(x, values)
    if x.ndim != 1:
        raise ShapeError(f"the ordered array must have one dimension; got {x.spec} [X1]")
    size = x.shape[0]
    low = filled(call("convert_element_type", filled(values, 0), dtype=_S32), 0)
    if not size:
        return low
    # low is where the values belong among the elements looked at so far: steps of powers of two, the largest first.
    step = 1 << (size.bit_length() - 1)
    while step:
        last = call("add", low, filled(low, step - 1))
        inside = call("compare", last, filled(low, size), comparison_direction="LT")
        element = take(x, call("min", last, filled(low, size - 1)), axis=0)
        element = broadcast_to_shape(element, values.shape)
        if side == "left":
            passed = _before(element, values)
        else:
            passed = call("not", _before(values, element))
        ahead = call("add", low, filled(low, step))
        low = call("select", call("and", inside, passed), ahead, low)
        step //= 2
    return low
