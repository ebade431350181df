"""Orders and choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import ConstraintError, DTypeError, ShapeError
from xlapy.numpy.creation import asarray, static_shape
from xlapy.numpy.promotion import as_tensor, broadcast_to_shape, call, convert, inexact
from xlapy.specs import as_axis, as_flag, as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.builder import host_array

from .distributions import gumbel_noise, spread, wide_dtype
from .integers import randint
from .keys import stream_bits

__all__ = ["categorical", "choice", "permutation"]

_S32 = as_dtype("s32")


def permutation(key: Any, x: Any, /, *, axis: int = 0) -> Tensor:
    """The slices of an array, or the integers below a number, in random order.

    Parameters
    ----------
    key : Tensor
    x : int or array-like
    axis : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.sort(xlapy.random.permutation(xlapy.random.key(0), 5))
    Tensor([0, 1, 2, 3, 4], s32[5])
    """
    if _is_number(x):
        x = int(x)
        if x < 0:
            raise ConstraintError(f"permutation: the number must not be negative; got {x} [X1]")
        return _permutation(key, x)
    return _permuted(key, x, as_int(axis, "axis"))


@composite(arrays=1)
def _permutation(k: Any, size: int) -> Tensor:
    return _random_order(k, size)


@composite(arrays=2, name="permutation")
def _permuted(k: Any, x: Any, axis: int) -> Tensor:
    from xlapy.numpy.indexing import take

    x = as_tensor(x)
    place = as_axis(axis, x.ndim)
    return take(x, _random_order(k, x.shape[place]), axis=place)


def _random_order(k: Any, size: int) -> Tensor:
    """Places sorted by 64 random bits each."""
    from xlapy.numpy.sorting import sorted_together

    places = call("iota", shape=(size,), dtype=_S32, iota_dimension=0)
    return sorted_together(stream_bits(k, (size,), 64), places, axis=0)[1]


def _is_number(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _require_shares(p: np.ndarray[Any, Any], least: int) -> None:
    """Refuse shares of which no picks can be made; the values of tensors are not looked at."""
    if p.dtype.kind not in "biuf" and as_dtype(p.dtype).kind != "float":
        raise DTypeError(f"choice: p must be real; got numpy {p.dtype} [X1]")
    wide = p.astype(np.float64)
    wrong = wide[~(np.isfinite(wide) & (wide >= 0))]
    if wrong.size:
        raise ConstraintError(f"choice: p must be finite and not negative; got {wrong[0]} [X1]")
    if np.count_nonzero(wide) < least:
        raise ConstraintError(
            f"choice: p must be positive for {least} or more; got {np.count_nonzero(wide)} that are [X1]"
        )


def categorical(
    key: Any, logits: Any, /, *, axis: int = -1, shape: int | Sequence[int] | None = None
) -> Tensor:
    """Places along an axis, drawn with probabilities proportional to ``exp(logits)``.

    Parameters
    ----------
    key : Tensor
    logits : array-like
    axis : int
    shape : int or sequence of int, optional
        Of the result; the shape of `logits` without the axis broadcasts to it, which it is by default.

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.random.categorical(xlapy.random.key(0), xlapy.asarray([0.0, 100.0]), shape=3)
    Tensor([1, 1, 1], s32[3])
    """
    return _categorical(
        key, logits, as_int(axis, "axis"), None if shape is None else static_shape(shape)
    )


@composite(arrays=2)
def _categorical(k: Any, logits: Any, axis: int, shape: tuple[int, ...] | None) -> Tensor:
    from xlapy.numpy.reductions import argmax
    from xlapy.numpy.shaping import permuted

    logits = inexact(logits)
    if logits.dtype.kind != "float":
        raise DTypeError(f"logits must be real; got {logits.spec} [X1]")
    place = as_axis(axis, logits.ndim)
    order = (*[i for i in range(logits.ndim) if i != place], place)
    moved = permuted(logits, order)
    sizes = moved.shape[:-1] if shape is None else shape
    if not moved.shape[-1]:
        raise ShapeError(f"there must be at least one place to draw; got {logits.spec} [X1]")
    moved = spread(moved, (*sizes, moved.shape[-1]), "logits")
    moved = convert(moved, wide_dtype(logits.dtype))
    return argmax(call("add", moved, gumbel_noise(k, moved.shape, moved.dtype)), axis=-1)


def choice(
    key: Any,
    x: Any,
    /,
    shape: int | Sequence[int] = (),
    *,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
) -> Tensor:
    """Slices of an array, or integers below a number, picked at random.

    Parameters
    ----------
    key : Tensor
    x : int or array-like
    shape : int or sequence of int
    replace : bool
        Whether one may be picked several times.
    p : array-like, optional
        The probability of each, up to a common factor; by default all are equal. The values of a tensor are not
        looked at.
    axis : int

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are not enough to pick from.

    Examples
    --------
    >>> xlapy.sort(xlapy.random.choice(xlapy.random.key(0), 3, 3, replace=False))
    Tensor([0, 1, 2], s32[3])
    """
    from xlapy.numpy.indexing import take
    from xlapy.numpy.shaping import reshape

    sizes = static_shape(shape)
    replace = as_flag(replace, "replace")
    from_range = _is_number(x)
    if from_range:
        size = int(x)
    else:
        x = x if type(x) is Tensor else asarray(x)
        place = as_axis(axis, x.ndim)
        size = x.shape[place]
    count = math.prod(sizes)
    if (count and size < 1) or (not replace and count > size):
        raise ShapeError(f"choice: there must be enough to pick {count} from; got {size} [X1]")
    if p is not None:
        if type(p) is not Tensor:
            _require_shares(host_array(p), 1 if replace else count)
            p = asarray(p)
        if p.shape != (size,):
            raise ShapeError(
                f"choice: p must have a probability for each of {size}; got {p.spec} [X1]"
            )
        places = _weighted(key, p, count, replace)
    elif replace:
        places = randint(key, count, 0, max(size, 1))
    else:
        places = permutation(key, size)[:count]
    places = reshape(places, sizes)
    return places if from_range else take(x, places, axis=place)


@composite(arrays=2, name="choice")
def _weighted(k: Any, p: Any, count: int, replace: bool) -> Tensor:
    from xlapy.numpy.reductions import argmax
    from xlapy.numpy.sorting import argsort

    logits = call("log", inexact(p))
    kind = wide_dtype(logits.dtype)
    shape = (count, *p.shape) if replace else p.shape
    noisy = call(
        "add", broadcast_to_shape(convert(logits, kind), shape), gumbel_noise(k, shape, kind)
    )
    if replace:
        return argmax(noisy, axis=-1)
    order = argsort(noisy, descending=True)
    return call("slice", order, start_indices=(0,), limit_indices=(count,), strides=(1,))
