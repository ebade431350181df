"""Comparisons, logic, bits and choices, element by element."""

from __future__ import annotations

from typing import Any

from xlapy.dtypes import DType, as_dtype, promote
from xlapy.errors import DTypeError
from xlapy.specs import as_flag
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .docstrings import ARRAY, ARRAY_TO_TRUTH, MATCHED, MATCHED_TO_TRUTH, document
from .promotion import (
    as_tensor,
    broadcast_to_shape,
    broadcast_together,
    call,
    convert,
    filled,
    inexact,
    is_weak,
    meet,
    promoted,
    weak_value,
)

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "compared", "equal", "greater", "greater_equal", "invert", "isclose", "isfinite", "isinf",
    "isnan", "left_shift", "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor",
    "not_equal", "right_shift", "selected", "truth", "where_elements",
]  # fmt: skip

_PRED, _S32, _U64 = (as_dtype(n) for n in ("pred", "s32", "u64"))


# --- comparisons --------------------------------------------------------------------------------------------------


def compared(x: Tensor, y: Tensor, direction: str) -> Tensor:
    """A comparison of two tensors of one spec."""
    return call("compare", x, y, comparison_direction=direction)


def _related(x: Any, y: Any, direction: str) -> Tensor:
    for scalar, other, flip in ((y, x, False), (x, y, True)):
        verdict = _beyond(scalar, other)
        if verdict:
            return _decided(as_tensor(other), -verdict if flip else verdict, direction)
        if _is_integer_argument(scalar) and type(other) is Tensor and other.dtype.integer:
            found = _related_argument(scalar, other, direction, flip)
            if found is not None:
                return found
    return compared(*meet(x, y), direction)


def _is_integer_argument(x: Any) -> bool:
    """Whether a tensor stands for a Python integer that is given anew in each call."""
    return (
        type(x) is Tensor
        and is_weak(x)
        and x.dtype.integer
        and x.payload in x.payload.scope.builder.scalars
    )


def _related_argument(scalar: Tensor, other: Tensor, direction: str, flip: bool) -> Tensor | None:
    """The comparison with a Python integer that need not fit the array's type; None where it does anyhow."""
    if is_weak(other) or scalar.dtype is other.dtype:
        return None
    if other.dtype is not _U64:
        wide = promote(scalar.dtype, other.dtype) if scalar.dtype is not _U64 else None
        if wide is None:
            return None
        pair = (
            convert(other, wide),
            broadcast_to_shape(convert(scalar, wide), other.shape, (other,)),
        )
        return _in_order(*pair, direction, flip)
    wide_scalar = broadcast_to_shape(scalar, other.shape, (other,))
    pair = other, convert(wide_scalar, _U64)
    within = _in_order(*pair, direction, flip)
    below = compared(wide_scalar, filled(wide_scalar, 0), "LT")
    return call("select", below, _decided(other, 1 if flip else -1, direction), within)


def _in_order(x: Tensor, y: Tensor, direction: str, flip: bool) -> Tensor:
    return compared(y, x, direction) if flip else compared(x, y, direction)


def _beyond(scalar: Any, other: Any) -> int:
    """1 or -1 where a Python integer is above or below all that an integer array can hold; else 0."""
    if type(other) is not Tensor or not other.dtype.integer or is_weak(other):
        return 0
    if type(scalar) is Tensor:
        if scalar.ndim or not is_weak(scalar):
            return 0
        scalar = weak_value(scalar)
    if type(scalar) is not int:
        return 0
    low, high = _limits(other.dtype)
    return 1 if scalar > high else -1 if scalar < low else 0


def _limits(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, (1 << dtype.bits) - 1
    return -(1 << (dtype.bits - 1)), (1 << (dtype.bits - 1)) - 1


def _decided(x: Tensor, verdict: int, direction: str) -> Tensor:
    """``x op scalar`` for a scalar that is above (1) or below (-1) everything."""
    truths = ("LT", "LE", "NE") if verdict > 0 else ("GT", "GE", "NE")
    return filled(convert(x, _PRED), direction in truths)


@composite(arrays=2)
def equal(x: Any, y: Any, /) -> Tensor:
    """Whether ``x == y``. Nan equals nothing.

    Examples
    --------
    >>> xlapy.equal(xlapy.asarray([1, 2, 3]), 2)
    Tensor([False,  True, False], pred[3])
    """
    return _related(x, y, "EQ")


@composite(arrays=2)
def not_equal(x: Any, y: Any, /) -> Tensor:
    """Whether ``x != y``.

    Examples
    --------
    >>> xlapy.not_equal(xlapy.asarray([1, 2, 3]), 2)
    Tensor([ True, False,  True], pred[3])
    """
    return _related(x, y, "NE")


@composite(arrays=2)
def less(x: Any, y: Any, /) -> Tensor:
    """Whether ``x < y``. Of complex numbers there is no order.

    Examples
    --------
    >>> xlapy.less(xlapy.asarray([1, 2, 3]), 2)
    Tensor([ True, False, False], pred[3])
    """
    return _related(x, y, "LT")


@composite(arrays=2)
def less_equal(x: Any, y: Any, /) -> Tensor:
    """Whether ``x <= y``. Of complex numbers there is no order.

    Examples
    --------
    >>> xlapy.less_equal(xlapy.asarray([1, 2, 3]), 2)
    Tensor([ True,  True, False], pred[3])
    """
    return _related(x, y, "LE")


@composite(arrays=2)
def greater(x: Any, y: Any, /) -> Tensor:
    """Whether ``x > y``. Of complex numbers there is no order.

    Examples
    --------
    >>> xlapy.greater(xlapy.asarray([1, 2, 3]), 2)
    Tensor([False, False,  True], pred[3])
    """
    return _related(x, y, "GT")


@composite(arrays=2)
def greater_equal(x: Any, y: Any, /) -> Tensor:
    """Whether ``x >= y``. Of complex numbers there is no order.

    Examples
    --------
    >>> xlapy.greater_equal(xlapy.asarray([1, 2, 3]), 2)
    Tensor([False,  True,  True], pred[3])
    """
    return _related(x, y, "GE")


@composite(arrays=1)
def isnan(x: Any, /) -> Tensor:
    """Whether each element is not a number; a complex one if either part is.

    Examples
    --------
    >>> xlapy.isnan(xlapy.asarray([1.0, float("nan")]))
    Tensor([False,  True], pred[2])
    """
    x = as_tensor(x)
    return compared(x, x, "NE") if x.dtype.inexact else _all_false(x)


@composite(arrays=1)
def isinf(x: Any, /) -> Tensor:
    """Whether each element is infinite; a complex one if either part is.

    Examples
    --------
    >>> xlapy.isinf(xlapy.asarray([1.0, -float("inf")]))
    Tensor([False,  True], pred[2])
    """
    x = as_tensor(x)
    if not x.dtype.inexact:
        return _all_false(x)
    return _of_parts(x, _infinite, "or")


def _infinite(x: Tensor) -> Tensor:
    size = call("abs", x)
    return compared(size, filled(size, float("inf")), "EQ")


@composite(arrays=1)
def isfinite(x: Any, /) -> Tensor:
    """Whether each element is neither infinite nor nan; a complex one if both parts are.

    Examples
    --------
    >>> xlapy.isfinite(xlapy.asarray([1.0, float("inf"), float("nan")]))
    Tensor([ True, False, False], pred[3])
    """
    x = as_tensor(x)
    if not x.dtype.inexact:
        return call("not", _all_false(x))
    return _of_parts(x, lambda part: call("is_finite", part), "and")


def _of_parts(x: Tensor, test: Any, join: str) -> Tensor:
    if x.dtype.kind != "complex":
        result: Tensor = test(x)
        return result
    return call(join, test(call("real", x)), test(call("imag", x)))


def _all_false(x: Tensor) -> Tensor:
    return filled(convert(x, _PRED), False)


def isclose(
    x: Any, y: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Whether ``abs(x - y) <= atol + rtol * abs(y)``; equal infinities are close.

    Parameters
    ----------
    x, y : array-like
        They are broadcast, and meet on one element type.
    rtol, atol : float
    equal_nan : bool
        Whether nan is close to nan.

    Returns
    -------
    Tensor
        Of truth values.

    Examples
    --------
    >>> xlapy.isclose(xlapy.asarray([1.0, 2.0]), xlapy.asarray([1.000001, 2.1]))
    Tensor([ True, False], pred[2])
    """
    return _isclose(x, y, rtol, atol, as_flag(equal_nan, "equal_nan"))


@composite(arrays=4)
def _isclose(x: Any, y: Any, rtol: Any, atol: Any, equal_nan: bool) -> Tensor:
    from .arithmetic import abs, add, multiply, subtract

    x, y = meet(x, y)
    if x.dtype.kind == "bool":
        x, y = convert(x, _S32), convert(y, _S32)
    if x.dtype.integer:
        # The distance may be too large for the type, but not for the unsigned one of its width.
        distance = call("sub", call("max", x, y), call("min", x, y))
        unsigned = as_dtype(f"u{x.dtype.bits}")
        if distance.dtype is not unsigned:
            distance = call("bitcast_convert_type", distance, dtype=unsigned)
        distance, size = inexact(distance), abs(inexact(y))
    else:
        distance, size = abs(subtract(x, y)), abs(y)
    near = less_equal(distance, add(atol, multiply(rtol, size)))
    close = logical_or(equal(x, y), logical_and(near, isfinite(y)))
    return logical_or(close, logical_and(isnan(x), isnan(y))) if equal_nan else close


# --- logic --------------------------------------------------------------------------------------------------------


def truth(x: Any) -> Tensor:
    """Which elements count as true: those that are not 0."""
    x = as_tensor(x)
    if x.dtype is _PRED:
        same: Tensor = x
        return same
    return compared(x, filled(x, 0), "NE")


def _truths(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    return meet(truth(x), truth(y))


@composite(arrays=2)
def logical_and(x: Any, y: Any, /) -> Tensor:
    """Whether both elements are true; numbers are where they are not 0.

    Examples
    --------
    >>> xlapy.logical_and(xlapy.asarray([True, True]), xlapy.asarray([0, 2]))
    Tensor([False,  True], pred[2])
    """
    return call("and", *_truths(x, y))


@composite(arrays=2)
def logical_or(x: Any, y: Any, /) -> Tensor:
    """Whether at least one of both elements is true.

    Examples
    --------
    >>> xlapy.logical_or(xlapy.asarray([True, False]), False)
    Tensor([ True, False], pred[2])
    """
    return call("or", *_truths(x, y))


@composite(arrays=2)
def logical_xor(x: Any, y: Any, /) -> Tensor:
    """Whether exactly one of both elements is true.

    Examples
    --------
    >>> xlapy.logical_xor(xlapy.asarray([True, False]), True)
    Tensor([False,  True], pred[2])
    """
    return call("xor", *_truths(x, y))


@composite(arrays=1)
def logical_not(x: Any, /) -> Tensor:
    """Whether each element is false.

    Examples
    --------
    >>> xlapy.logical_not(xlapy.asarray([0, 2]))
    Tensor([ True, False], pred[2])
    """
    return call("not", truth(x))


# --- bits ---------------------------------------------------------------------------------------------------------


def _bits(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = meet(x, y)
    if x.dtype.inexact:
        raise DTypeError(
            f"the operands of a bitwise operation must be integers or truth values; got {x.spec} [X1]"
        )
    return x, y


@composite(arrays=2)
def bitwise_and(x: Any, y: Any, /) -> Tensor:
    """The conjunction bit by bit, of integers or truth values.

    Examples
    --------
    >>> xlapy.bitwise_and(xlapy.asarray([6, 5]), 3)
    Tensor([2, 1], s32[2])
    """
    return call("and", *_bits(x, y))


@composite(arrays=2)
def bitwise_or(x: Any, y: Any, /) -> Tensor:
    """The disjunction bit by bit, of integers or truth values.

    Examples
    --------
    >>> xlapy.bitwise_or(xlapy.asarray([6, 5]), 3)
    Tensor([7, 7], s32[2])
    """
    return call("or", *_bits(x, y))


@composite(arrays=2)
def bitwise_xor(x: Any, y: Any, /) -> Tensor:
    """The exclusive disjunction bit by bit, of integers or truth values.

    Examples
    --------
    >>> xlapy.bitwise_xor(xlapy.asarray([6, 5]), 3)
    Tensor([5, 6], s32[2])
    """
    return call("xor", *_bits(x, y))


@composite(arrays=1)
def bitwise_invert(x: Any, /) -> Tensor:
    """Every bit flipped; of truth values the negation.

    Examples
    --------
    >>> xlapy.bitwise_invert(xlapy.asarray([0, 5]))
    Tensor([-1, -6], s32[2])
    """
    return call("not", as_tensor(x))


def _shifted(x: Any, y: Any, name: str) -> Tensor:
    x, y = _bits(x, y)
    if x.dtype.kind == "bool":
        x, y = convert(x, _S32), convert(y, _S32)
    return call(name, x, y)


@composite(arrays=2)
def bitwise_left_shift(x: Any, y: Any, /) -> Tensor:
    """The bits of `x` moved up by `y`; 0 where that is the width or more.

    Examples
    --------
    >>> xlapy.bitwise_left_shift(xlapy.asarray([1, 2]), 3)
    Tensor([ 8, 16], s32[2])
    """
    return _shifted(x, y, "shift_left")


@composite(arrays=2)
def bitwise_right_shift(x: Any, y: Any, /) -> Tensor:
    """The bits of `x` moved down by `y`; the sign stays.

    Examples
    --------
    >>> xlapy.bitwise_right_shift(xlapy.asarray([16, -16]), 2)
    Tensor([ 4, -4], s32[2])
    """
    x, y = _bits(x, y)
    unsigned = x.dtype.kind == "uint"
    return _shifted(x, y, "shift_right_logical" if unsigned else "shift_right_arithmetic")


bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift


# --- choices ------------------------------------------------------------------------------------------------------


@composite(arrays=3, name="where")
def where_elements(condition: Any, x: Any, y: Any, /) -> Tensor:
    """Elements of `x` where `condition` is true, and of `y` elsewhere; see `xlapy.where`."""
    condition = truth(condition)
    x, y = promoted(x, y)
    return selected(condition, x, y)


def selected(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """As `where_elements`, of tensors of one element type."""
    return call("select", *broadcast_together(condition, x, y))


document(ARRAY, bitwise_invert)
document(ARRAY_TO_TRUTH, isfinite, isinf, isnan, logical_not)
document(MATCHED, bitwise_and, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor)
document(
    MATCHED_TO_TRUTH,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_and,
    logical_or,
    logical_xor,
    not_equal,
)
