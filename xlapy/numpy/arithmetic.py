"""Sums, products, quotients, powers and rounding, element by element."""

from __future__ import annotations

from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

from .comparison import compared
from .docstrings import ARRAY, ARRAY_AS_FLOAT, ARRAY_TO_TRUTH, MATCHED, MATCHED_AS_FLOAT, document
from .promotion import (
    as_tensor,
    call,
    convert,
    filled,
    inexact,
    meet,
    meet_all,
    meet_inexact,
)

__all__ = [
    "abs",
    "absolute",
    "add",
    "as_numbers",
    "clip",
    "conj",
    "copysign",
    "divide",
    "divided",
    "divmod",
    "floor_divide",
    "fmod",
    "hypot",
    "imag",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "nextafter",
    "positive",
    "real",
    "reciprocal",
    "remainder",
    "sign",
    "signbit",
    "square",
    "subtract",
    "true_divide",
]

_PRED, _S32, _F32 = (as_dtype(n) for n in ("pred", "s32", "f32"))


def as_numbers(x: Tensor) -> Tensor:
    """Truth values as integers, for what is not defined on them."""
    return convert(x, _S32) if x.dtype.kind == "bool" else x


# --- two operands -------------------------------------------------------------------------------------------------


@composite(arrays=2)
def add(x: Any, y: Any, /) -> Tensor:
    """The sum; of truth values the disjunction. Integers wrap.

    Parameters
    ----------
    x, y : array-like
        They are broadcast, and meet on one element type.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If the shapes do not broadcast together.
    DTypeError
        If no element type holds both, or one holds no numbers.

    Examples
    --------
    >>> xlapy.add(xlapy.asarray([1, 2]), 0.5)
    Tensor([1.5, 2.5], f32[2])
    """
    x, y = meet(x, y)
    result: Tensor = bind(lookup("add"), x, y)
    return result


@composite(arrays=2)
def subtract(x: Any, y: Any, /) -> Tensor:
    """The difference ``x - y``. Integers wrap.

    Examples
    --------
    >>> xlapy.subtract(xlapy.asarray([3, 2]), [1, 2])
    Tensor([2, 0], s32[2])
    """
    x, y = meet(x, y)
    result: Tensor = bind(lookup("sub"), x, y)
    return result


@composite(arrays=2)
def multiply(x: Any, y: Any, /) -> Tensor:
    """The product; of truth values the conjunction. Integers wrap.

    Examples
    --------
    >>> xlapy.multiply(xlapy.asarray([3.0, 2.0]), 2)
    Tensor([6., 4.], f32[2])
    """
    x, y = meet(x, y)
    result: Tensor = bind(lookup("mul"), x, y)
    return result


@composite(arrays=2)
def divide(x: Any, y: Any, /) -> Tensor:
    """The quotient ``x / y``: of integers a float, f64 for 64-bit ones and f32 otherwise.

    Examples
    --------
    >>> xlapy.divide(xlapy.asarray([3, 2]), 2)
    Tensor([1.5, 1. ], f32[2])
    """
    x, y = meet_inexact(x, y)
    result: Tensor = bind(lookup("div"), x, y)
    return result


true_divide = divide


def _signs_differ(r: Tensor, y: Tensor) -> Tensor:
    """Where a remainder that is not 0 has the other sign than the divisor."""
    zero = filled(r, 0)
    nonzero = compared(r, zero, "NE")
    return call("and", nonzero, call("xor", compared(r, zero, "LT"), compared(y, zero, "LT")))


@composite(arrays=2)
def floor_divide(x: Any, y: Any, /) -> Tensor:
    """The largest whole number that is not above ``x / y``, of the operands' common type.

    Division of an integer by 0 gives an unspecified number, as in XLA, and no error.

    Examples
    --------
    >>> xlapy.floor_divide(xlapy.asarray([7, -7]), 2), xlapy.floor_divide(xlapy.asarray([-7.5]), 2)
    (Tensor([ 3, -4], s32[2]), Tensor([-4.], f32[1]))
    """
    return divided(x, y)[0]


@composite(arrays=2)
def remainder(x: Any, y: Any, /) -> Tensor:
    """What `floor_divide` leaves: it has the divisor's sign.

    Examples
    --------
    >>> xlapy.remainder(xlapy.asarray([7, -7]), 3)
    Tensor([1, 2], s32[2])
    """
    return divided(x, y)[1]


mod = remainder


@composite(arrays=2)
def divmod(x: Any, y: Any, /) -> tuple[Tensor, Tensor]:
    """`floor_divide` and `remainder` in one.

    Parameters
    ----------
    x, y : array-like
        They are broadcast, and meet on one element type.

    Returns
    -------
    tuple of Tensor

    Examples
    --------
    >>> xlapy.divmod(xlapy.asarray(-7), 3)
    (Tensor(-3, s32[]), Tensor(2, s32[]))
    """
    return divided(x, y)


def divided(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """The quotient rounded down, and the remainder."""
    x, y = (as_numbers(t) for t in meet(x, y))
    kind = x.dtype.kind
    if kind == "complex":
        raise DTypeError(f"the operands of a floor division must be real; got {x.spec} [X1]")
    r = call("rem", x, y)
    if kind == "uint":
        return call("div", x, y), r
    wrong = _signs_differ(r, y)
    if kind == "int":
        q = call("div", x, y)
        fixed = call("sub", q, filled(q, 1))
        return call("select", wrong, fixed, q), call("select", wrong, call("add", r, y), r)
    # As numpy does: x - r is a multiple of y up to rounding, so the quotient is next to a whole number.
    q = call("div", call("sub", x, r), y)
    q = call("select", wrong, call("sub", q, filled(q, 1)), q)
    whole = call("floor", q)
    off = compared(call("sub", q, whole), filled(q, 0.5), "GT")
    whole = call("select", off, call("add", whole, filled(q, 1)), whole)
    ratio = call("div", x, y)
    zero = compared(y, filled(y, 0), "EQ")
    none = compared(r, filled(r, 0), "EQ")
    whole = call("select", compared(q, filled(q, 0), "EQ"), _signed_zero(ratio), whole)
    # A zero with the sign of the divisor, and the derivative that the remainder has: |r| is 0 and has none there.
    zero_of_r = call("abs", r)
    above, below = call("add", r, zero_of_r), call("neg", call("add", call("neg", r), zero_of_r))
    signed = call("select", _signbit(y), below, above)
    r = call("select", wrong, call("add", r, y), call("select", none, signed, r))
    return call("select", zero, ratio, whole), r


def _signed_zero(like: Tensor) -> Tensor:
    return call("select", _signbit(like), filled(like, -0.0), filled(like, 0.0))


@composite(arrays=2)
def fmod(x: Any, y: Any, /) -> Tensor:
    """The remainder with the sign of `x`, as in C.

    Examples
    --------
    >>> xlapy.fmod(xlapy.asarray([7, -7]), 3)
    Tensor([ 1, -1], s32[2])
    """
    x, y = meet(x, y)
    return call("rem", as_numbers(x), as_numbers(y))


@composite(arrays=2)
def maximum(x: Any, y: Any, /) -> Tensor:
    """The larger one of each two elements; nan where one is nan.

    Examples
    --------
    >>> xlapy.maximum(xlapy.asarray([1.0, -2.0]), 0)
    Tensor([1., 0.], f32[2])
    """
    x, y = meet(x, y)
    return call("max", x, y)


@composite(arrays=2)
def minimum(x: Any, y: Any, /) -> Tensor:
    """The smaller one of each two elements; nan where one is nan.

    Examples
    --------
    >>> xlapy.minimum(xlapy.asarray([1.0, -2.0]), 0)
    Tensor([ 0., -2.], f32[2])
    """
    x, y = meet(x, y)
    return call("min", x, y)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements, those below `min` raised to it and those above `max` lowered to it.

    Parameters
    ----------
    x : array-like
    min, max : array-like, optional
        None for no bound. Where ``min > max`` the result is `max`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.clip(xlapy.asarray([-1.0, 0.5, 2.0]), 0, 1)
    Tensor([0. , 0.5, 1. ], f32[3])
    """
    return _clip(x, min, max)


@composite(arrays=3)
def _clip(x: Any, low: Any, high: Any) -> Tensor:
    if low is None and high is None:
        return as_tensor(x)
    if high is None:
        return call("max", *meet(x, low))
    if low is None:
        return call("min", *meet(x, high))
    x, low, high = meet_all(x, low, high)
    if x.dtype.kind in ("bool", "complex"):
        return call("min", call("max", x, low), high)
    return call("clamp", low, x, high)


@composite(arrays=2)
def hypot(x: Any, y: Any, /) -> Tensor:
    """The length of the hypotenuse ``sqrt(x*x + y*y)``, without overflow on the way.

    Examples
    --------
    >>> xlapy.hypot(xlapy.asarray([3e30]), 4e30)
    Tensor([5.e+30], f32[1])
    """
    x, y = meet_inexact(x, y)
    if x.dtype.kind == "complex":
        raise DTypeError(f"the sides must be real; got {x.spec} [X1]")
    size, other = call("abs", x), call("abs", y)
    # The sides themselves: derivatives of sizes and of their maximum stop where these are 0 and where they meet.
    below = compared(size, other, "LT")
    larger, smaller = call("select", below, y, x), call("select", below, x, y)
    zero, infinity = filled(x, 0), filled(x, float("inf"))
    infinite = call("or", compared(size, infinity, "EQ"), compared(other, infinity, "EQ"))
    # Divided by 1 where the ratio is not used, so that its derivative is no nan there.
    degenerate = call("or", infinite, compared(call("add", size, other), zero, "EQ"))
    ratio = call("div", smaller, call("select", degenerate, filled(x, 1), larger))
    ratio = call("select", degenerate, zero, ratio)
    root = call("sqrt", call("add", call("mul", ratio, ratio), filled(x, 1)))
    return call("select", infinite, infinity, call("mul", call("abs", larger), root))


@composite(arrays=2)
def copysign(x: Any, y: Any, /) -> Tensor:
    """The magnitude of `x` with the sign of `y`.

    Examples
    --------
    >>> xlapy.copysign(xlapy.asarray([1.0, 2.0]), xlapy.asarray([-0.0, 3.0]))
    Tensor([-1.,  2.], f32[2])
    """
    x, y = meet_inexact(x, y)
    size = call("abs", x)
    return call("select", _signbit(y), call("neg", size), size)


@composite(arrays=2)
def nextafter(x: Any, y: Any, /) -> Tensor:
    """The number next to `x` on the way to `y`.

    Examples
    --------
    >>> xlapy.nextafter(xlapy.asarray([1.0]), 2.0)
    Tensor([1.0000001], f32[1])
    """
    return call("next_after", *meet_inexact(x, y))


# --- one operand --------------------------------------------------------------------------------------------------


@composite(arrays=1)
def negative(x: Any, /) -> Tensor:
    """The elements with the opposite sign.

    Examples
    --------
    >>> xlapy.negative(xlapy.asarray([1, -2]))
    Tensor([-1,  2], s32[2])
    """
    return call("neg", as_tensor(x))


@composite(arrays=1)
def positive(x: Any, /) -> Tensor:
    """The elements as they are.

    Examples
    --------
    >>> xlapy.positive(xlapy.asarray([1, -2]))
    Tensor([ 1, -2], s32[2])
    """
    return as_tensor(x)


@composite(arrays=1)
def abs(x: Any, /) -> Tensor:
    """The magnitude: a real number of a complex one too.

    Examples
    --------
    >>> xlapy.abs(xlapy.asarray([-1, 2])), xlapy.abs(3 + 4j)
    (Tensor([1, 2], s32[2]), Tensor(5., f32[]))
    """
    x = as_tensor(x)
    return x if x.dtype.kind in ("bool", "uint") else call("abs", x)


absolute = abs


@composite(arrays=1)
def sign(x: Any, /) -> Tensor:
    """-1, 0 or 1; of a complex number the one of its direction with magnitude 1. Of nan it is nan.

    Examples
    --------
    >>> xlapy.sign(xlapy.asarray([-3.0, 0.0, 2.0]))
    Tensor([-1.,  0.,  1.], f32[3])
    """
    x = as_tensor(x)
    return call("min", x, filled(x, 1)) if x.dtype.kind == "uint" else call("sign", x)


@composite(arrays=1)
def signbit(x: Any, /) -> Tensor:
    """Whether the sign is negative, also that of zeros and nans.

    Examples
    --------
    >>> xlapy.signbit(xlapy.asarray([-1.0, -0.0, 0.0]))
    Tensor([ True,  True, False], pred[3])
    """
    return _signbit(as_tensor(x))


def _signbit(x: Tensor) -> Tensor:
    kind = x.dtype.kind
    if kind == "float":
        if x.dtype.bits < 16:
            x = convert(x, _F32)
        x = call("bitcast_convert_type", x, dtype=as_dtype(f"s{x.dtype.bits}"))
    elif kind != "int":
        if kind == "complex":
            raise DTypeError(f"a complex number must not be asked for its sign; got {x.spec} [X1]")
        return convert(filled(x, 0), _PRED)
    return compared(x, filled(x, 0), "LT")


@composite(arrays=1)
def square(x: Any, /) -> Tensor:
    """``x * x``.

    Examples
    --------
    >>> xlapy.square(xlapy.asarray([2.0, -3.0]))
    Tensor([4., 9.], f32[2])
    """
    x = as_tensor(x)
    return call("mul", x, x)


@composite(arrays=1)
def reciprocal(x: Any, /) -> Tensor:
    """``1 / x``, a float.

    Examples
    --------
    >>> xlapy.reciprocal(xlapy.asarray([2.0, 4.0]))
    Tensor([0.5 , 0.25], f32[2])
    """
    x = inexact(x)
    return call("div", filled(x, 1), x)


@composite(arrays=1)
def real(x: Any, /) -> Tensor:
    """The real part; a real number itself.

    Examples
    --------
    >>> xlapy.real(xlapy.asarray([1 + 2j]))
    Tensor([1.], f32[1])
    """
    x = as_tensor(x)
    return call("real", x) if x.dtype.kind == "complex" else x


@composite(arrays=1)
def imag(x: Any, /) -> Tensor:
    """The imaginary part; 0 for real numbers.

    Examples
    --------
    >>> xlapy.imag(xlapy.asarray([1 + 2j]))
    Tensor([2.], f32[1])
    """
    x = as_tensor(x)
    return call("imag", x) if x.dtype.kind == "complex" else filled(x, 0)


@composite(arrays=1)
def conj(x: Any, /) -> Tensor:
    """The complex conjugate; a real number itself.

    Examples
    --------
    >>> xlapy.conj(xlapy.asarray([1 + 2j]))
    Tensor([1.-2.j], c64[1])
    """
    x = as_tensor(x)
    if x.dtype.kind != "complex":
        same: Tensor = x
        return same
    return call("complex", call("real", x), call("neg", call("imag", x)))


document(ARRAY, abs, conj, imag, negative, positive, real, sign, square)
document(ARRAY_AS_FLOAT, reciprocal)
document(ARRAY_TO_TRUTH, signbit)
document(MATCHED, floor_divide, fmod, maximum, minimum, multiply, remainder, subtract)
document(MATCHED_AS_FLOAT, divide, hypot, copysign, nextafter)
