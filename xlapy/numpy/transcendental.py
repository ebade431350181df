"""Exponentials, logarithms, roots, trigonometry: functions to floats, element by element.

Integers and truth values become f32 first, 64-bit integers f64.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .comparison import compared
from .docstrings import ARRAY_AS_FLOAT, MATCHED_AS_FLOAT, document
from .promotion import call, convert, filled, inexact, meet_inexact

# ml_dtypes knows numpy's floats and the narrow ones.
_finfo: Any = ml_dtypes.finfo

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh",
    "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "log", "log10",
    "log1p", "log2", "logaddexp", "logistic", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip


_F32 = as_dtype("f32")


@composite(arrays=1)
def exp(x: Any, /) -> Tensor:
    """E to the power of each element.

    Examples
    --------
    >>> xlapy.exp(xlapy.asarray([0.0, 1.0]))
    Tensor([1.       , 2.7182817], f32[2])
    """
    return call("exp", inexact(x))


@composite(arrays=1)
def expm1(x: Any, /) -> Tensor:
    """``exp(x) - 1``, exact for small x.

    Examples
    --------
    >>> xlapy.expm1(xlapy.asarray([0.0, 1e-6]))
    Tensor([0.0000000e+00, 1.0000005e-06], f32[2])
    """
    return call("expm1", inexact(x))


@composite(arrays=1)
def exp2(x: Any, /) -> Tensor:
    """2 to the power of each element.

    Examples
    --------
    >>> xlapy.exp2(xlapy.asarray([0.0, 3.0]))
    Tensor([1., 8.], f32[2])
    """
    x = inexact(x)
    return call("pow", filled(x, 2), x)


@composite(arrays=1)
def log(x: Any, /) -> Tensor:
    """The natural logarithm; nan below 0.

    Examples
    --------
    >>> xlapy.log(xlapy.asarray([1.0, 10.0]))
    Tensor([0.       , 2.3025851], f32[2])
    """
    return call("log", inexact(x))


@composite(arrays=1)
def log1p(x: Any, /) -> Tensor:
    """``log(1 + x)``, exact for small x.

    Examples
    --------
    >>> xlapy.log1p(xlapy.asarray([0.0, 1e-6]))
    Tensor([0.000000e+00, 9.999995e-07], f32[2])
    """
    return call("log1p", inexact(x))


@composite(arrays=1)
def log2(x: Any, /) -> Tensor:
    """The logarithm to base 2.

    Examples
    --------
    >>> xlapy.log2(xlapy.asarray([1.0, 8.0]))
    Tensor([0., 3.], f32[2])
    """
    return _log_to_base(inexact(x), 2)


@composite(arrays=1)
def log10(x: Any, /) -> Tensor:
    """The logarithm to base 10.

    Examples
    --------
    >>> xlapy.log10(xlapy.asarray([1.0, 1000.0]))
    Tensor([0., 3.], f32[2])
    """
    return _log_to_base(inexact(x), 10)


@composite(arrays=1)
def sqrt(x: Any, /) -> Tensor:
    """The square root; nan below 0.

    Examples
    --------
    >>> xlapy.sqrt(xlapy.asarray([4.0, 9.0]))
    Tensor([2., 3.], f32[2])
    """
    return call("sqrt", inexact(x))


@composite(arrays=1)
def rsqrt(x: Any, /) -> Tensor:
    """The reciprocal of the square root.

    Examples
    --------
    >>> xlapy.rsqrt(xlapy.asarray([4.0, 16.0]))
    Tensor([0.5 , 0.25], f32[2])
    """
    return call("rsqrt", inexact(x))


@composite(arrays=1)
def cbrt(x: Any, /) -> Tensor:
    """The cube root.

    Examples
    --------
    >>> xlapy.cbrt(xlapy.asarray([8.0, -27.0]))
    Tensor([ 2., -3.], f32[2])
    """
    return call("cbrt", inexact(x))


@composite(arrays=1)
def sin(x: Any, /) -> Tensor:
    """The sine.

    Examples
    --------
    >>> xlapy.sin(xlapy.asarray([0.0, 1.0]))
    Tensor([0.        , 0.84147096], f32[2])
    """
    return call("sin", inexact(x))


@composite(arrays=1)
def cos(x: Any, /) -> Tensor:
    """The cosine.

    Examples
    --------
    >>> xlapy.cos(xlapy.asarray([0.0, 1.0]))
    Tensor([1.       , 0.5403023], f32[2])
    """
    return call("cos", inexact(x))


@composite(arrays=1)
def tan(x: Any, /) -> Tensor:
    """The tangent.

    Examples
    --------
    >>> xlapy.tan(xlapy.asarray([0.0, 1.0]))
    Tensor([0.       , 1.5574077], f32[2])
    """
    return call("tan", inexact(x))


@composite(arrays=1)
def asin(x: Any, /) -> Tensor:
    """The arc sine, in [-pi/2, pi/2]; nan outside [-1, 1].

    Examples
    --------
    >>> xlapy.asin(xlapy.asarray([0.0, 1.0]))
    Tensor([0.       , 1.5707964], f32[2])
    """
    return call("asin", inexact(x))


@composite(arrays=1)
def acos(x: Any, /) -> Tensor:
    """The arc cosine, in [0, pi]; nan outside [-1, 1].

    Examples
    --------
    >>> xlapy.acos(xlapy.asarray([1.0, 0.0]))
    Tensor([0.       , 1.5707964], f32[2])
    """
    return call("acos", inexact(x))


@composite(arrays=1)
def atan(x: Any, /) -> Tensor:
    """The arc tangent, in [-pi/2, pi/2].

    Examples
    --------
    >>> xlapy.atan(xlapy.asarray([0.0, 1.0]))
    Tensor([0.       , 0.7853981], f32[2])
    """
    return call("atan", inexact(x))


@composite(arrays=1)
def sinh(x: Any, /) -> Tensor:
    """The hyperbolic sine.

    Examples
    --------
    >>> xlapy.sinh(xlapy.asarray([0.0, 1.0]))
    Tensor([0.       , 1.1752012], f32[2])
    """
    return call("sinh", inexact(x))


@composite(arrays=1)
def cosh(x: Any, /) -> Tensor:
    """The hyperbolic cosine.

    Examples
    --------
    >>> xlapy.cosh(xlapy.asarray([0.0, 1.0]))
    Tensor([1.       , 1.5430806], f32[2])
    """
    return call("cosh", inexact(x))


@composite(arrays=1)
def tanh(x: Any, /) -> Tensor:
    """The hyperbolic tangent.

    Examples
    --------
    >>> xlapy.tanh(xlapy.asarray([0.0, 1.0]))
    Tensor([0.       , 0.7615942], f32[2])
    """
    return call("tanh", inexact(x))


@composite(arrays=1)
def asinh(x: Any, /) -> Tensor:
    """The inverse of the hyperbolic sine.

    Examples
    --------
    >>> xlapy.asinh(xlapy.asarray([0.0, 1.0]))
    Tensor([0.        , 0.88137364], f32[2])
    """
    return call("asinh", inexact(x))


@composite(arrays=1)
def acosh(x: Any, /) -> Tensor:
    """The inverse of the hyperbolic cosine; nan below 1.

    Examples
    --------
    >>> xlapy.acosh(xlapy.asarray([1.0, 2.0]))
    Tensor([0.      , 1.316958], f32[2])
    """
    return call("acosh", inexact(x))


@composite(arrays=1)
def atanh(x: Any, /) -> Tensor:
    """The inverse of the hyperbolic tangent; nan outside [-1, 1].

    Examples
    --------
    >>> xlapy.atanh(xlapy.asarray([0.0, 0.5]))
    Tensor([0.        , 0.54930615], f32[2])
    """
    return call("atanh", inexact(x))


@composite(arrays=1)
def erf(x: Any, /) -> Tensor:
    """The error function.

    Examples
    --------
    >>> xlapy.erf(xlapy.asarray([0.0, 1.0]))
    Tensor([0.        , 0.84270084], f32[2])
    """
    return call("erf", inexact(x))


@composite(arrays=1)
def erfc(x: Any, /) -> Tensor:
    """``1 - erf(x)``, exact where that is small.

    Examples
    --------
    >>> xlapy.erfc(xlapy.asarray([0.0, 4.0]))
    Tensor([1.0000000e+00, 1.5417259e-08], f32[2])
    """
    return call("erfc", inexact(x))


@composite(arrays=1)
def sigmoid(x: Any, /) -> Tensor:
    """``1 / (1 + exp(-x))``.

    Examples
    --------
    >>> xlapy.sigmoid(xlapy.asarray([0.0, 2.0]))
    Tensor([0.5     , 0.880797], f32[2])
    """
    return call("logistic", inexact(x))


def _log_to_base(x: Tensor, base: int) -> Tensor:
    """log(x) / log(base), exact where x is a power of the base."""
    y = call("log", x)
    if x.dtype.kind == "complex":
        # Part by part: as a quotient of complex numbers an infinite part would make the other one a nan.
        parts = [call("real", y), call("imag", y)]
        return call("complex", *[call("div", p, filled(p, math.log(base))) for p in parts])
    y = call("div", y, filled(y, math.log(base)))
    whole = call("round_nearest_even", y)
    power = call("pow", filled(x, base), whole)
    exact = call("compare", power, x, comparison_direction="EQ")
    exact = call("and", exact, call("is_finite", y))
    error = call("select", exact, call("sub", whole, y), filled(y, 0))
    # The derivative is that of the quotient, in artifacts too: the error is a multiple of half the distance of 1 to the
    # next number, so that rounding it in these units leaves it as it is, and no derivative of it.
    unit = float(_finfo(x.dtype.numpy).eps) / 2
    units = call("round_nearest_even", call("div", error, filled(y, unit)))
    return call("add", y, call("mul", units, filled(y, unit)))


@composite(arrays=2)
def atan2(y: Any, x: Any, /) -> Tensor:
    """The angle of the point (x, y), in [-pi, pi].

    Examples
    --------
    >>> xlapy.atan2(xlapy.asarray([1.0, 0.0]), xlapy.asarray([1.0, -1.0]))
    Tensor([0.7853982, 3.1415927], f32[2])
    """
    return call("atan2", *meet_inexact(y, x))


@composite(arrays=2)
def logaddexp(x: Any, y: Any, /) -> Tensor:
    """``log(exp(x) + exp(y))``, without overflow on the way.

    Examples
    --------
    >>> xlapy.logaddexp(xlapy.asarray([1000.0]), 1000.0)
    Tensor([1000.6932], f32[1])
    """
    x, y = meet_inexact(x, y)
    kind = x.dtype
    if kind.kind != "float":
        raise DTypeError(
            f"the operands must be real, for complex numbers have no order; got {x.spec} [X1]"
        )
    if kind.bits <= 16:
        x, y = convert(x, _F32), convert(y, _F32)
    # Chosen rather than computed, for the derivatives of a maximum and of a size stop where the operands are equal.
    above = compared(x, y, "GE")
    larger, smaller = call("select", above, x, y), call("select", above, y, x)
    difference = call("sub", smaller, larger)
    # Of two infinities of one sign the difference is nan, and the sum is the result.
    equal = compared(difference, difference, "NE")
    away = call("select", equal, filled(x, 0), difference)
    result = call("add", larger, call("log1p", call("exp", away)))
    return convert(call("select", equal, call("add", x, y), result), kind)


logistic = sigmoid
arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh


document(
    ARRAY_AS_FLOAT,
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atanh,
    cbrt,
    cos,
    cosh,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    log,
    log10,
    log1p,
    log2,
    sigmoid,
    rsqrt,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
document(MATCHED_AS_FLOAT, atan2, logaddexp)
