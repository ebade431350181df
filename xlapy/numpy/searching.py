"""Choosing, finding and ordering elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.backends.eager import put
from xlapy.tensor import Placed, Tensor

from .comparison import where_elements
from .creation import asarray

__all__ = ["argwhere", "flatnonzero", "nonzero", "where"]


def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    """Elements of `x` where a condition is true, and of `y` elsewhere.

    Parameters
    ----------
    condition : array-like
        Numbers count as true where they are not 0.
    x, y : array-like, optional
        All three are broadcast; `x` and `y` meet on one element type. Without them the result is that of `nonzero`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> x = xlapy.asarray([-1.0, 2.0])
    >>> xlapy.where(x > 0, x, 0)
    Tensor([0., 2.], f32[2])
    """
    if x is None and y is None:
        return nonzero(condition)
    return where_elements(condition, x, y)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """Where the elements are that are not 0: an array of places for each axis.

    How many there are is not known in a trace, so it is an error there.

    Examples
    --------
    >>> xlapy.nonzero(xlapy.asarray([[0, 3], [5, 0]]))
    (Tensor([0, 1], s32[2]), Tensor([1, 0], s32[2]))
    """
    x = x if type(x) is Tensor else asarray(x)
    array = on_host(x, "nonzero")
    placed = x.placed
    placement = placed.placement if type(placed) is Placed else None
    return tuple([put(i.astype(np.int32), placement) for i in np.atleast_1d(array).nonzero()])


def on_host(x: Tensor, name: str) -> np.ndarray[Any, Any]:
    """The values, for what has as many results as they say."""
    if type(x.placed) is not Placed:
        x._refuse(f"{name}, whose result's size depends on it, cannot be taken")
    return x.numpy()


def argwhere(x: Any, /) -> Tensor:
    """The places of the elements that are not 0, one in each row.

    Examples
    --------
    >>> xlapy.argwhere(xlapy.asarray([[0, 3], [5, 0]]))
    Tensor([[0, 1],
            [1, 0]], s32[2,2])
    """
    from .joining import stack

    return stack(nonzero(x), axis=1)


def flatnonzero(x: Any, /) -> Tensor:
    """The places of the elements that are not 0, counted in one dimension.

    Examples
    --------
    >>> xlapy.flatnonzero(xlapy.asarray([[0, 3], [5, 0]]))
    Tensor([1, 2], s32[2])
    """
    from .shaping import ravel

    return nonzero(ravel(x))[0]
