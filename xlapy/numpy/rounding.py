"""Rounding to whole numbers, and to decimals."""

from __future__ import annotations

import math
from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.specs import as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

from .arithmetic import divided
from .comparison import compared
from .datatypes import finfo, iinfo
from .docstrings import ARRAY, document
from .promotion import as_tensor, call, convert, filled

__all__ = ["ceil", "floor", "round", "trunc"]


def round(x: Any, /, decimals: int = 0) -> Tensor:
    """The nearest number of so many decimals; halves go to the even one.

    Parameters
    ----------
    x : array-like
    decimals : int
        Negative for tens, hundreds, ...

    Returns
    -------
    Tensor
        Of the element type of `x`.

    Examples
    --------
    >>> xlapy.round(xlapy.asarray([0.5, 1.5, 2.6])), xlapy.round(xlapy.asarray(1.23), 1)
    (Tensor([0., 2., 3.], f32[3]), Tensor(1.2, f32[]))
    """
    return _round(x, as_int(decimals, "decimals"))


@composite(arrays=1)
def _round(x: Any, decimals: int) -> Tensor:
    x = as_tensor(x)
    kind = x.dtype.kind
    if kind == "complex":
        parts = [_round_real(call(part, x), decimals) for part in ("real", "imag")]
        return call("complex", *parts)
    if kind == "float":
        return _round_real(x, decimals)
    if kind == "bool" or decimals >= 0:
        same: Tensor = x
        return same
    unit = 10 ** min(-decimals, x.dtype.bits)
    if unit > iinfo(x.dtype).max:
        return filled(x, 0)
    # Exact for integers of any width, where a quotient in floats would not be.
    ten = filled(x, unit)
    q, r = divided(x, ten)
    twice = call("sub", r, call("sub", ten, r))
    odd = compared(call("and", q, filled(q, 1)), filled(q, 0), "NE")
    zero = filled(x, 0)
    below = compared(call("sub", ten, r), r, "LT")
    up = call("or", below, call("and", compared(twice, zero, "EQ"), odd))
    return call("mul", call("add", q, convert(up, x.dtype)), ten)


def _round_real(x: Tensor, decimals: int) -> Tensor:
    if decimals == 0:
        return call("round_nearest_even", x)
    kind = x.dtype
    if kind.bits <= 16:
        x = convert(x, as_dtype("f32"))  # powers of ten are soon too large for these
    most = math.floor(math.log10(finfo(x.dtype).max))
    if decimals > most:
        return convert(x, kind)  # it has no such places
    if decimals < -most:
        return convert(call("select", call("is_finite", x), call("mul", x, filled(x, 0)), x), kind)
    scale = filled(x, 10.0 ** (decimals if decimals > 0 else -decimals))
    # By a known number XLA divides by multiplying by its reciprocal, which is not exact.
    (scale,) = bind(lookup("optimization_barrier"), scale)
    if decimals < 0:
        rounded = call("mul", call("round_nearest_even", call("div", x, scale)), scale)
        return convert(rounded, kind)
    places = call("mul", x, scale)
    rounded = call("div", call("round_nearest_even", places), scale)
    # Beyond this size every number is whole, and soon too large.
    limit = filled(x, 1 / finfo(x.dtype).eps)
    fine = compared(call("abs", places), limit, "LT")
    return convert(call("select", fine, rounded, x), kind)


@composite(arrays=1)
def floor(x: Any, /) -> Tensor:
    """The largest whole number that is not above; integers stay.

    Examples
    --------
    >>> xlapy.floor(xlapy.asarray([1.5, -1.5]))
    Tensor([ 1., -2.], f32[2])
    """
    x = as_tensor(x)
    return call("floor", x) if x.dtype.inexact else x


@composite(arrays=1)
def ceil(x: Any, /) -> Tensor:
    """The smallest whole number that is not below; integers stay.

    Examples
    --------
    >>> xlapy.ceil(xlapy.asarray([1.5, -1.5]))
    Tensor([ 2., -1.], f32[2])
    """
    x = as_tensor(x)
    return call("ceil", x) if x.dtype.inexact else x


@composite(arrays=1)
def trunc(x: Any, /) -> Tensor:
    """The whole number next to it on the way to 0; integers stay.

    Examples
    --------
    >>> xlapy.trunc(xlapy.asarray([1.5, -1.5]))
    Tensor([ 1., -1.], f32[2])
    """
    x = as_tensor(x)
    if not x.dtype.inexact:
        same: Tensor = x
        return same
    negative = compared(x, filled(x, 0), "LT")
    return call("select", negative, call("ceil", x), call("floor", x))


document(ARRAY, ceil, floor, trunc)
