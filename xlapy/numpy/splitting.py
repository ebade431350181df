"""Taking arrays apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import ConstraintError, ShapeError
from xlapy.specs import as_axis, as_int, as_ints
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .promotion import as_tensor, call
from .shaping import sliced

__all__ = ["array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"]


@composite(arrays=1)
def _unstack(x: Any, axis: int) -> tuple[Tensor, ...]:
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError(f"an array must have at least one dimension; got {x.spec} [X1]")
    place = as_axis(axis, x.ndim)
    shape = (*x.shape[:place], *x.shape[place + 1 :])
    parts = [sliced(x, place, i, i + 1) for i in range(x.shape[place])]
    return tuple([call("reshape", p, shape=shape) for p in parts])


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without it.

    Parameters
    ----------
    x : array-like
    axis : int

    Returns
    -------
    tuple of Tensor

    Examples
    --------
    >>> xlapy.unstack(xlapy.asarray([[1, 2], [3, 4]]))
    (Tensor([1, 2], s32[2]), Tensor([3, 4], s32[2]))
    """
    return _unstack(x, as_int(axis, "axis"))


def split(x: Any, indices_or_sections: int | Sequence[int], /, axis: int = 0) -> list[Tensor]:
    """An array cut along an axis.

    Parameters
    ----------
    x : array-like
    indices_or_sections : int or sequence of int
        Into how many equal parts, or where to cut.
    axis : int

    Returns
    -------
    list of Tensor

    Raises
    ------
    ShapeError
        If the parts would not be equal; see `array_split`.

    Examples
    --------
    >>> xlapy.split(xlapy.arange(5), [2])
    [Tensor([0, 1], s32[2]), Tensor([2, 3, 4], s32[3])]
    """
    return _split_by(x, indices_or_sections, as_int(axis, "axis"), equal=True)


def array_split(x: Any, indices_or_sections: int | Sequence[int], /, axis: int = 0) -> list[Tensor]:
    """As `split`, but the first parts may be longer by one.

    Parameters
    ----------
    x : array-like
    indices_or_sections : int or sequence of int
        How many parts, or where to cut.
    axis : int

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> xlapy.array_split(xlapy.arange(5), 2)
    [Tensor([0, 1, 2], s32[3]), Tensor([3, 4], s32[2])]
    """
    return _split_by(x, indices_or_sections, as_int(axis, "axis"), equal=False)


# More parts than this are more than a program can give.
_MOST: Final = 1 << 16


def _split_by(
    x: Any, where: Any, axis: int | None, *, equal: bool = True, rank: int = 1
) -> list[Tensor]:
    what = "indices_or_sections"
    several = isinstance(where, list | tuple) or getattr(where, "ndim", 0) == 1
    return _split(x, as_ints(where, what) if several else as_int(where, what), axis, equal, rank)


@composite(arrays=1)
def _split(
    x: Any, where: int | tuple[int, ...], axis: int | None, equal: bool, rank: int
) -> list[Tensor]:
    x = as_tensor(x)
    if x.ndim < rank:
        raise ShapeError(f"there must be at least {rank} dimensions; got {x.spec} [X1]")
    place = min(1, x.ndim - 1) if axis is None else as_axis(axis, x.ndim)
    size = x.shape[place]
    if isinstance(where, int):
        if not 1 <= where <= _MOST:
            raise ConstraintError(
                f"the number of parts must be positive, and {_MOST} at most; got {where} [X1]"
            )
        if equal and size % where:
            raise ShapeError(
                f"a size of {size} must divide into equal parts; got {where} of them [X1]"
            )
        longer = size % where
        lengths = [size // where + (i < longer) for i in range(where)]
        ends = np.cumsum([0, *lengths]).tolist()
        bounds = list(itertools.pairwise(ends))
    else:
        edges = [0, *where, size]
        bounds = []
        for a, b in itertools.pairwise(edges):
            start, end, _ = slice(a, b).indices(size)
            bounds.append((start, max(start, end)))
    return [sliced(x, place, a, b) for a, b in bounds]


def vsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> list[Tensor]:
    """`split` along the first axis.

    Parameters
    ----------
    x : array-like
    indices_or_sections : int or sequence of int
        How many parts of equal size, or where to cut.

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> len(xlapy.vsplit(xlapy.zeros((4, 2)), 2))
    2
    """
    return _split_by(x, indices_or_sections, 0, rank=2)


def hsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> list[Tensor]:
    """`split` along the second axis, or the first where there is only one.

    Parameters
    ----------
    x : array-like
    indices_or_sections : int or sequence of int
        How many parts of equal size, or where to cut.

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> len(xlapy.hsplit(xlapy.zeros((4, 2)), 2))
    2
    """
    return _split_by(x, indices_or_sections, None)


def dsplit(x: Any, indices_or_sections: int | Sequence[int], /) -> list[Tensor]:
    """`split` along the third axis.

    Parameters
    ----------
    x : array-like
    indices_or_sections : int or sequence of int
        How many parts of equal size, or where to cut.

    Returns
    -------
    list of Tensor

    Examples
    --------
    >>> len(xlapy.dsplit(xlapy.zeros((4, 2, 2)), 2))
    2
    """
    return _split_by(x, indices_or_sections, 2, rank=3)
