"""Elementwise operations on two and three operands.

Nothing is promoted here, and shapes must be equal; a scalar operand is broadcast, and `broadcast_dimensions` says
where the dimensions of an operand of lower rank go, as in the operation semantics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

from . import elementwise_kernels as kernels
from .comparison import clamp, compare, eq, gt, lt, select
from .families import (
    ANY,
    FLOAT,
    INEXACT,
    INTEGER,
    LOGICAL,
    NUMBER,
    binary,
    documented,
    meet,
    unary,
)
from .rules import bilinear, constant_like, elementwise, linear, zero

# --- arithmetic -----------------------------------------------------------------------------------

add_op = binary(
    "add", "stablehlo.add", section="Add", dtypes=ANY, kernel=kernels.add,
    ad=elementwise(lambda g, x, y, out: g, lambda g, x, y, out: g),
)  # fmt: skip


@documented(add_op, ANY, "binary")
def add(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The sum; of truth values the disjunction. Integers wrap.

    Examples
    --------
    >>> add(constant([1, 2]), 3)
    Tensor([4, 5], s32[2])
    >>> add(constant([[1, 2], [3, 4]]), constant([10, 20]), broadcast_dimensions=[0])
    Tensor([[11, 12],
            [23, 24]], s32[2,2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(add_op, lhs, rhs)
    return result


sub_op = binary(
    "sub", "stablehlo.subtract", section="Sub", dtypes=NUMBER, kernel=kernels.subtract,
    ad=elementwise(lambda g, x, y, out: g, lambda g, x, y, out: neg(g)),
)  # fmt: skip


@documented(sub_op, NUMBER, "binary")
def sub(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The difference. Integers wrap.

    Examples
    --------
    >>> sub(constant([1, 2]), 3)
    Tensor([-2, -1], s32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(sub_op, lhs, rhs)
    return result


mul_op = binary(
    "mul", "stablehlo.multiply", section="Mul", dtypes=ANY, kernel=kernels.multiply,
    ad=bilinear(lambda g, x, y: mul(g, y), lambda g, x, y: mul(g, x)),
)  # fmt: skip


@documented(mul_op, ANY, "binary")
def mul(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The product; of truth values the conjunction. Integers wrap.

    Examples
    --------
    >>> mul(constant([1, 2]), 3)
    Tensor([3, 6], s32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(mul_op, lhs, rhs)
    return result


div_op = binary(
    "div", "stablehlo.divide", section="Div", dtypes=NUMBER, kernel=kernels.divide,
    ad=elementwise(
        lambda g, x, y, out: div(g, y), lambda g, x, y, out: neg(div(mul(g, out), y))
    ),
)  # fmt: skip


@documented(div_op, NUMBER, "binary")
def div(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The quotient; of integers it is cut towards zero.

    An integer divided by 0 gives all bits 1 (so -1 where there are signs), and the least integer divided by -1
    itself, as in XLA.

    Examples
    --------
    >>> div(constant([7, -7, 7]), constant([2, 2, 0]))
    Tensor([ 3, -3, -1], s32[3])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(div_op, lhs, rhs)
    return result


def _pull_rem_rhs(g: Any, x: Any, y: Any, out: Any) -> Any:
    # x = y * n + out with a whole n, which does not vary.
    return neg(mul(g, bind(lookup("round_nearest_even"), div(sub(x, out), y))))


rem_op = binary(
    "rem", "stablehlo.remainder", section="Rem", dtypes=NUMBER, kernel=kernels.remainder,
    ad=elementwise(lambda g, x, y, out: g, _pull_rem_rhs),
)  # fmt: skip


@documented(rem_op, NUMBER, "binary")
def rem(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The rest of the division that is cut towards zero: it has the sign of `lhs`.

    An integer's rest by 0 is the integer itself, as in XLA; that of a float is nan.

    Examples
    --------
    >>> rem(constant([7, -7, 7]), constant([3, 3, 0]))
    Tensor([ 1, -1,  7], s32[3])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(rem_op, lhs, rhs)
    return result


def _pull_pow_lhs(g: Any, x: Any, y: Any, out: Any) -> Any:
    # y x^(y-1); where y is 0 the exponent is replaced, for 0 * 0^-1 would be nan, here and in the next derivative.
    one = constant_like(y, 1)
    exponent = select(eq(y, constant_like(y, 0)), one, sub(y, one))
    return mul(g, mul(y, bind(pow_op, x, exponent)))


def _pull_pow_rhs(g: Any, x: Any, y: Any, out: Any) -> Any:
    # x^y log x, which is 0 where x is 0 (and y > 0).
    base = select(eq(x, constant_like(x, 0)), constant_like(x, 1), x)
    return mul(g, mul(out, bind(lookup("log"), base)))


pow_op = binary(
    "pow", "stablehlo.power", section="Pow", dtypes=NUMBER, kernel=kernels.power,
    ad=elementwise(_pull_pow_lhs, _pull_pow_rhs),
)  # fmt: skip


@documented(pow_op, NUMBER, "binary")
def pow(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """`lhs` to the power of `rhs`.

    Anything to the power of 0 is 1. An integer to a negative power is 0, except for 1 and -1. A negative float to a
    power that is not whole is nan.

    Examples
    --------
    >>> pow(constant([2, -1, 2]), constant([5, 3, -1]))
    Tensor([32, -1,  0], s32[3])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(pow_op, lhs, rhs)
    return result


def _share(g: Any, wins: Any, x: Any, y: Any) -> Any:
    """`g` where x alone is the result, half of it at a tie."""
    half = mul(g, constant_like(g, 0.5))
    return select(wins, g, select(eq(x, y), half, constant_like(g, 0)))


max_op = binary(
    "max", "stablehlo.maximum", section="Max", dtypes=ANY, kernel=kernels.maximum,
    ad=elementwise(
        lambda g, x, y, out: _share(g, gt(x, y), x, y), lambda g, x, y, out: _share(g, gt(y, x), x, y)
    ),
)  # fmt: skip


@documented(max_op, ANY, "binary")
def max(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The larger of two; of truth values the disjunction.

    nan if either is nan; +0 is larger than -0. At a tie the derivative is shared equally.

    Examples
    --------
    >>> max(constant([1.0, 5.0]), 3.0)
    Tensor([3., 5.], f32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(max_op, lhs, rhs)
    return result


min_op = binary(
    "min", "stablehlo.minimum", section="Min", dtypes=ANY, kernel=kernels.minimum,
    ad=elementwise(
        lambda g, x, y, out: _share(g, lt(x, y), x, y), lambda g, x, y, out: _share(g, lt(y, x), x, y)
    ),
)  # fmt: skip


@documented(min_op, ANY, "binary")
def min(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The smaller of two; of truth values the conjunction.

    nan if either is nan; -0 is smaller than +0. At a tie the derivative is shared equally.

    Examples
    --------
    >>> min(constant([1.0, 5.0]), 3.0)
    Tensor([1., 3.], f32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(min_op, lhs, rhs)
    return result


def _pull_atan2(g: Any, along: Any, x: Any, y: Any) -> Any:
    return div(mul(g, along), add(mul(x, x), mul(y, y)))


atan2_op = binary(
    "atan2", "stablehlo.atan2", section="Atan2", dtypes=INEXACT, kernel=kernels.atan2,
    ad=elementwise(
        lambda g, y, x, out: _pull_atan2(g, x, x, y), lambda g, y, x, out: neg(_pull_atan2(g, y, x, y))
    ),
)  # fmt: skip


@documented(atan2_op, INEXACT, "binary")
def atan2(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The angle of the point whose ordinate is `lhs` and whose abscissa is `rhs`, in radians in [-pi, pi].

    Examples
    --------
    >>> atan2(constant([0.0, 1.0]), constant([-1.0, 0.0]))
    Tensor([3.1415927, 1.5707964], f32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(atan2_op, lhs, rhs)
    return result


complex_op = binary(
    "complex", "stablehlo.complex", section="Complex", dtypes=FLOAT, kernel=kernels.complex_,
    ad=linear(lambda g, x, y: (bind(lookup("real"), g), neg(bind(lookup("imag"), g))), wrt=None),
    result=lambda d: "c64" if d.bits == 32 else "c128",
)  # fmt: skip


@documented(complex_op, FLOAT, "binary")
def complex(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The complex numbers with real part `lhs` and imaginary part `rhs`, both f32 or both f64.

    Examples
    --------
    >>> complex(constant([1.0]), constant([2.0]))
    Tensor([1.+2.j], c64[1])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(complex_op, lhs, rhs)
    return result


mulhi_op = binary(
    "mulhi", "chlo.mulhi", section="CHLO", dtypes=INTEGER, kernel=kernels.mulhi, ad=zero
)


@documented(mulhi_op, INTEGER, "binary")
def mulhi(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The upper half of the product of twice the width.

    Examples
    --------
    >>> mulhi(constant([2**30, -1]), 8)
    Tensor([ 2, -1], s32[2])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(mulhi_op, x, y)
    return result


next_after_op = binary(
    "next_after", "chlo.next_after", section="CHLO", dtypes=FLOAT, kernel=kernels.next_after,
    ad=elementwise(lambda g, x, y, out: g, None),
)  # fmt: skip


@documented(next_after_op, FLOAT, "binary")
def next_after(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The neighbour of `lhs` among the numbers of its type, in the direction of `rhs`; `rhs` where they are equal.

    Examples
    --------
    >>> next_after(constant([1.0, 1.0]), constant([2.0, 1.0]))
    Tensor([1.0000001, 1.       ], f32[2])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(next_after_op, x, y)
    return result


neg_op = unary(
    "neg", "stablehlo.negate", section="Neg", dtypes=NUMBER, kernel=kernels.negate,
    ad=linear(lambda g, x: neg(g)),
)  # fmt: skip


@documented(neg_op, NUMBER, "unary")
def neg(operand: Any) -> Tensor:
    """The negative. Integers wrap, so the least one stays itself.

    Examples
    --------
    >>> neg(constant([1.0, -2.0]))
    Tensor([-1.,  2.], f32[2])
    """
    result: Tensor = bind(neg_op, operand)
    return result


# --- bits -----------------------------------------------------------------------------------------

and_op = binary(
    "and", "stablehlo.and", section="And", dtypes=LOGICAL, kernel=kernels.and_, ad=zero
)
or_op = binary("or", "stablehlo.or", section="Or", dtypes=LOGICAL, kernel=kernels.or_, ad=zero)
xor_op = binary(
    "xor", "stablehlo.xor", section="Xor", dtypes=LOGICAL, kernel=kernels.xor, ad=zero
)
shift_left_op = binary(
    "shift_left", "stablehlo.shift_left", section="ShiftLeft", dtypes=INTEGER,
    kernel=kernels.shift_left, ad=zero,
)  # fmt: skip
shift_right_arithmetic_op = binary(
    "shift_right_arithmetic", "stablehlo.shift_right_arithmetic", section="ShiftRightArithmetic",
    dtypes=INTEGER, kernel=kernels.shift_right_arithmetic, ad=zero,
)  # fmt: skip
shift_right_logical_op = binary(
    "shift_right_logical", "stablehlo.shift_right_logical", section="ShiftRightLogical",
    dtypes=INTEGER, kernel=kernels.shift_right_logical, ad=zero,
)  # fmt: skip


@documented(and_op, LOGICAL, "binary")
def and_(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Bit by bit and; of truth values the conjunction.

    Examples
    --------
    >>> and_(constant([6, 5]), 3)
    Tensor([2, 1], s32[2])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(and_op, x, y)
    return result


@documented(or_op, LOGICAL, "binary")
def or_(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Bit by bit or; of truth values the disjunction.

    Examples
    --------
    >>> or_(constant([6, 5]), 3)
    Tensor([7, 7], s32[2])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(or_op, x, y)
    return result


@documented(xor_op, LOGICAL, "binary")
def xor(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Bit by bit exclusive or; of truth values whether they differ.

    Examples
    --------
    >>> xor(constant([6, 5]), 3)
    Tensor([5, 6], s32[2])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(xor_op, x, y)
    return result


@documented(shift_left_op, INTEGER, "binary")
def shift_left(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The bits of `lhs` moved up by `rhs` places; 0 if `rhs` is negative or not less than the width.

    Examples
    --------
    >>> shift_left(constant([1, 3, 1]), constant([4, 1, 32]))
    Tensor([16,  6,  0], s32[3])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(shift_left_op, x, y)
    return result


@documented(shift_right_arithmetic_op, INTEGER, "binary")
def shift_right_arithmetic(
    lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None
) -> Tensor:
    """The bits of `lhs` moved down by `rhs` places, the top bit filling in, of types without a sign as well.

    If `rhs` is negative or not less than the width, only the top bit is left: 0 or all ones.

    Examples
    --------
    >>> shift_right_arithmetic(constant([-8, 8, -8]), constant([1, 1, 32]))
    Tensor([-4,  4, -1], s32[3])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(shift_right_arithmetic_op, x, y)
    return result


@documented(shift_right_logical_op, INTEGER, "binary")
def shift_right_logical(
    lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None
) -> Tensor:
    """The bits of `lhs` moved down by `rhs` places, zeros filling in.

    0 if `rhs` is negative or not less than the width.

    Examples
    --------
    >>> shift_right_logical(constant([-8, 8, -8]), constant([1, 1, 32]))
    Tensor([2147483644,          4,          0], s32[3])
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(shift_right_logical_op, x, y)
    return result
