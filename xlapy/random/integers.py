"""Uniform integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ConstraintError, DTypeError
from xlapy.numpy.creation import static_shape
from xlapy.numpy.datatypes import iinfo
from xlapy.numpy.promotion import as_tensor, call, convert, filled, meet
from xlapy.specs import as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .distributions import less, spread
from .keys import stream_bits

__all__ = ["randint"]

_U64 = as_dtype("u64")


def randint(
    key: Any, /, shape: int | Sequence[int], minval: Any, maxval: Any, dtype: Any = "s32"
) -> Tensor:
    """Integers uniform in ``[minval, maxval)``.

    Twice the bits of the type are drawn for each, so that no number is more likely than another by more than 2**-32
    (2**-64 for 64-bit types) of its share.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    minval, maxval : int or array-like of int
        They broadcast to the shape. In tensors, whose values are not looked at, bounds beyond the type stand for its
        limits, and where no number lies between two the result is `minval`.
    dtype : dtype

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        If no integer lies between the bounds.

    Examples
    --------
    >>> x = xlapy.random.randint(xlapy.random.key(0), 100, 1, 7)
    >>> int(xlapy.min(x)), int(xlapy.max(x))
    (1, 6)
    """
    kind = as_dtype(dtype)
    if not kind.integer or kind.bits < 8:
        raise DTypeError(
            f"randint: dtype must be an integer type of 8 bits or more; got {kind} [X1]"
        )
    sizes = static_shape(shape)
    if not any(
        isinstance(b, Tensor | list | tuple) or getattr(b, "ndim", 0) for b in (minval, maxval)
    ):
        low, high = as_int(minval, "minval"), as_int(maxval, "maxval")
        floor = -(1 << (kind.bits - 1)) if kind.kind == "int" else 0
        ceiling = floor + (1 << kind.bits)
        if not floor <= low < high <= ceiling:
            raise ConstraintError(
                f"randint: the bounds must be in order and within {kind}; got [{low}, {high}) [X1]"
            )
        span = np.asarray((high - low) % (1 << 64), np.uint64)
        return _randint(key, np.asarray(low, kind.numpy), span, sizes, kind)
    return _randint_between(key, minval, maxval, sizes, kind)


@composite(arrays=3)
def _randint(k: Any, low: Any, span: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return _offset(k, as_tensor(low), as_tensor(span), shape, dtype)


@composite(arrays=3, name="randint")
def _randint_between(k: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    low, high = meet(low, high)
    if not low.dtype.integer:
        raise DTypeError(f"bounds must be integers; got {low.spec} [X1]")
    limits, own = iinfo(dtype), iinfo(low.dtype)
    least = max(limits.min, own.min)
    low = call("max", call("min", low, filled(low, min(limits.max, own.max))), filled(low, least))
    high = call(
        "max", call("min", high, filled(high, min(limits.max + 1, own.max))), filled(high, least)
    )
    distance = call("sub", convert(high, _U64), convert(low, _U64))
    one = filled(distance, 1)
    span = call("select", less(low, high), distance, one)
    return _offset(k, convert(low, dtype), span, shape, dtype)


def _offset(k: Any, low: Tensor, span: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Low + floor(r * span) for r uniform in [0, 1); a span of 0 stands for 2**64."""
    low, span = spread(low, shape, "a bound"), spread(span, shape, "a bound")
    if dtype.bits == 64:
        drawn = stream_bits(k, (2, *shape), 64)
        halves = [
            call(
                "reshape",
                call("slice", drawn, start_indices=(i, *[0] * len(shape)), limit_indices=(i + 1, *shape),
                     strides=(1,) * (len(shape) + 1)),
                shape=shape,
            )
            for i in (0, 1)
        ]  # fmt: skip
        # The upper 64 of the 192 bits of (high, low) * span.
        high = _upper_product(halves[0], span)
        middle = call("mul", halves[0], span)
        total = call("add", middle, _upper_product(halves[1], span))
        carry = convert(less(total, middle), _U64)
        number = call("add", high, carry)
        whole = call("compare", span, filled(span, 0), comparison_direction="EQ")
        number = call("select", whole, halves[0], number)
    else:
        drawn = stream_bits(k, shape, 64)
        mask = filled(drawn, 0xFFFFFFFF)
        lower = call("mul", call("and", drawn, mask), span)
        upper = call("mul", _shifted(drawn), span)
        number = _shifted(call("add", upper, _shifted(lower)))
    return call("add", low, convert(number, dtype))


def _shifted(x: Tensor) -> Tensor:
    return call("shift_right_logical", x, filled(x, 32))


def _upper_product(x: Tensor, y: Tensor) -> Tensor:
    """The upper 64 of the 128 bits of x * y."""
    mask = filled(x, 0xFFFFFFFF)
    a, b = _shifted(x), call("and", x, mask)
    c, d = _shifted(y), call("and", y, mask)
    low = _shifted(call("mul", b, d))
    first = call("add", call("mul", a, d), low)
    second = call("add", call("mul", b, c), call("and", first, mask))
    return call("add", call("add", call("mul", a, c), _shifted(first)), _shifted(second))
