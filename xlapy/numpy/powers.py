"""Powers."""

from __future__ import annotations

from typing import Any, Final

from xlapy.errors import ConstraintError
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .arithmetic import as_numbers
from .comparison import compared
from .docstrings import MATCHED, document
from .promotion import (
    at_dtype,
    call,
    filled,
    is_weak,
    meet,
    operand,
    result_dtype,
    use_as_exponent,
    weak_value,
)

__all__ = ["pow", "power"]


def pow(x: Any, y: Any, /) -> Tensor:
    """``x ** y``, of the operands' common type. Integers wrap.

    A small whole Python number as exponent becomes multiplications. An integer to a power that is negative in an array
    is 0, unless it is 1 or -1.

    Raises
    ------
    ConstraintError
        For an integer to the power of a negative Python integer: convert it to a float.

    Examples
    --------
    >>> xlapy.pow(xlapy.asarray([1.0, 2.0, 3.0]), 2)
    Tensor([1., 4., 9.], f32[3])
    >>> xlapy.pow(2, xlapy.asarray([0.0, 3.0]))
    Tensor([1., 8.], f32[2])
    """
    if (type(y) is int or (type(y) is float and y.is_integer())) and -_FEW <= y <= _FEW:
        return _whole_power(x, int(y), type(y) is float)
    return _power(x, y)


power = pow
# Up to this exponent a power is written as products.
_FEW: Final = 16


@composite(arrays=1, name="pow")
def _whole_power(x: Any, n: int, is_float: bool) -> Tensor:
    x = operand(x)
    x = at_dtype(x, result_dtype(x, float(n) if is_float else n))
    if x.dtype.inexact:
        return _inverse_power(x, -n) if n < 0 else _product_power(x, n)
    _refuse_negative(n)
    return _product_power(x, n)


def _inverse_power(x: Tensor, n: int) -> Tensor:
    """One over x to the n.

    It is made of quotients, for the derivative of ``1 / x^n`` has the square of this, which may overflow, or vanish
    beside something infinite.
    """
    inverse = call("div", filled(x, 1), x)
    if n == 1:
        return inverse
    found = _product_power(call("div", inverse, x), n // 2)
    return call("div", found, x) if n % 2 else found


def _product_power(x: Tensor, n: int) -> Tensor:
    """X to the n by squaring."""
    if n == 0:
        return filled(x, 1)
    found: Tensor | None = None
    while True:
        if n & 1:
            found = x if found is None else call("mul", found, x)
        n >>= 1
        if not n:
            assert found is not None
            return found
        x = call("mul", x, x)


@composite(arrays=2, name="pow")
def _power(x: Any, y: Any, /) -> Tensor:
    given, exponent = y, weak_value(y) if type(y) is Tensor and is_weak(y) else y
    x, y = (as_numbers(t) for t in meet(x, y))
    if x.dtype.integer and type(exponent) is int:
        _refuse_negative(exponent)
        use_as_exponent(given)
    if x.dtype.integer and x.dtype.bits > _DIGIT:
        return _integer_power(x, y)
    return call("pow", x, y)


# Of an integer exponent the operation takes these low bits.
_DIGIT: Final = 6


def _integer_power(x: Tensor, y: Tensor) -> Tensor:
    """X to the y by the digits of y to the base 64."""
    bits = x.dtype.bits
    found: Tensor | None = None
    base = x
    for place in range(0, bits, _DIGIT):
        digit = call("shift_right_logical", y, filled(y, place)) if place else y
        factor = call("pow", base, call("and", digit, filled(y, (1 << _DIGIT) - 1)))
        found = factor if found is None else call("mul", found, factor)
        if place + _DIGIT < bits:
            root = call("pow", base, filled(base, 1 << (_DIGIT - 1)))
            base = call("mul", root, root)
    assert found is not None
    if x.dtype.kind == "uint":
        return found
    negative = compared(y, filled(y, 0), "LT")
    return call("select", negative, call("pow", x, y), found)


def _refuse_negative(exponent: int) -> None:
    if exponent < 0:
        raise ConstraintError(
            f"an integer must not be raised to a negative power; got {exponent} [X1]\n"
            "  convert the base to a float"
        )


document(MATCHED, pow)
