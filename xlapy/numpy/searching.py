"""Choosing and finding elements, and the sets that they make."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xlapy.backends.eager import put
from xlapy.errors import ShapeError
from xlapy.specs import as_flag
from xlapy.staging import composite
from xlapy.tensor import Placed, Tensor

from .comparison import where_elements
from .creation import asarray
from .promotion import call, promoted

__all__ = [
    "UniqueAll",
    "UniqueCounts",
    "UniqueInverse",
    "argwhere",
    "flatnonzero",
    "isin",
    "nonzero",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


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

    Parameters
    ----------
    x : array-like
        A concrete one: how many places there are says its values.

    Returns
    -------
    tuple of Tensor
        s32.

    Examples
    --------
    >>> xlapy.nonzero(xlapy.asarray([[0, 3], [5, 0]]))
    (Tensor([0, 1], s32[2]), Tensor([1, 0], s32[2]))
    """
    x = x if type(x) is Tensor else asarray(x)
    array = on_host(x, "nonzero")
    placed = x.placed
    placement = placed.placement if type(placed) is Placed else None
    if not array.ndim:
        raise ShapeError(
            f"nonzero: there must be at least one dimension; got {x.spec} [X1]\n"
            "  use flatnonzero, or x != 0"
        )
    return tuple([put(i.astype(np.int32), placement) for i in array.nonzero()])


def on_host(x: Tensor, name: str) -> np.ndarray[Any, Any]:
    """The values, for what has as many results as they say."""
    if type(x.placed) is not Placed:
        x._refuse(f"given to {name}(), whose result's size depends on it")
    return x.numpy()


def argwhere(x: Any, /) -> Tensor:
    """The places of the elements that are not 0, one in each row.

    Parameters
    ----------
    x : array-like
        A concrete one.

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.argwhere(xlapy.asarray([[0, 3], [5, 0]]))
    Tensor([[0, 1],
            [1, 0]], s32[2,2])
    """
    from .joining import stack
    from .shaping import ravel

    x = x if type(x) is Tensor else asarray(x)
    if not x.ndim:
        return stack(nonzero(ravel(x)), axis=1)[:, :0]  # a place of no numbers
    return stack(nonzero(x), axis=1)


def flatnonzero(x: Any, /) -> Tensor:
    """The places of the elements that are not 0, counted in one dimension.

    Parameters
    ----------
    x : array-like
        A concrete one.

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.flatnonzero(xlapy.asarray([[0, 3], [5, 0]]))
    Tensor([1, 2], s32[2])
    """
    from .shaping import ravel

    return nonzero(ravel(x))[0]


# --- sets ---------------------------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Any, /) -> UniqueAll:
    """The different elements in order, where each one comes first, which one each element is, and how many there are.

    How many are different is not known in a trace, so it is an error there. Each nan is different from every other.

    Parameters
    ----------
    x : array-like
        A concrete one: how many elements there are say its values.

    Returns
    -------
    UniqueAll
        A named tuple of ``values``, ``indices``, ``inverse_indices`` and ``counts``.

    Examples
    --------
    >>> found = xlapy.unique_all(xlapy.asarray([3, 1, 3]))
    >>> found.values, found.indices, found.inverse_indices, found.counts
    (Tensor([1, 3], s32[2]), Tensor([1, 0], s32[2]), Tensor([1, 0, 1], s32[3]), Tensor([1, 2], s32[2]))
    """
    x = x if type(x) is Tensor else asarray(x)
    array = on_host(x, "unique")
    placed = x.placed
    placement = placed.placement if type(placed) is Placed else None
    wide = array.astype(np.float32) if x.dtype.kind == "float" and x.dtype.bits < 32 else array
    values, first, inverse, counts = np.unique(
        wide, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    places = [i.astype(np.int32) for i in (first, inverse.reshape(array.shape), counts)]
    return UniqueAll(
        put(values.astype(array.dtype), placement), *[put(i, placement) for i in places]
    )


def unique_counts(x: Any, /) -> UniqueCounts:
    """The different elements in order, and how often each one occurs; as `unique_all`.

    Parameters
    ----------
    x : array-like
        A concrete one.

    Returns
    -------
    UniqueCounts
        A named tuple of ``values`` and ``counts``.

    Examples
    --------
    >>> xlapy.unique_counts(xlapy.asarray([3, 1, 3])).counts
    Tensor([1, 2], s32[2])
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """The different elements in order, and which one each element is; as `unique_all`.

    Parameters
    ----------
    x : array-like
        A concrete one.

    Returns
    -------
    UniqueInverse
        A named tuple of ``values`` and ``inverse_indices``.

    Examples
    --------
    >>> xlapy.unique_inverse(xlapy.asarray([3, 1, 3])).inverse_indices
    Tensor([1, 0, 1], s32[3])
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """The different elements in order; as `unique_all`.

    Parameters
    ----------
    x : array-like
        A concrete one.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.unique_values(xlapy.asarray([3, 1, 3]))
    Tensor([1, 3], s32[2])
    """
    return unique_all(x).values


def isin(x: Any, values: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element is among some values.

    Parameters
    ----------
    x, values : array-like
    invert : bool
        Whether to tell which are not among them.

    Returns
    -------
    Tensor
        Of truth values, of the shape of `x`.

    Examples
    --------
    >>> xlapy.isin(xlapy.asarray([1, 2, 3]), [1, 3])
    Tensor([ True, False,  True], pred[3])
    """
    return _isin(x, values, as_flag(invert, "invert"))


@composite(arrays=2)
def _isin(x: Any, values: Any, invert: bool) -> Tensor:
    from .comparison import equal, logical_not
    from .reductions import any

    x, values = promoted(x, values)
    lines = call("reshape", x, shape=(*x.shape, 1))
    found = any(equal(lines, call("reshape", values, shape=(values.size,))), axis=-1)
    return logical_not(found) if invert else found
