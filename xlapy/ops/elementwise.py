"""Elementwise operations on two and three operands.

Nothing is promoted here, and shapes must be equal; a scalar operand is broadcast, and `broadcast_dimensions` says
where the dimensions of an operand of lower rank go, as in the operation semantics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup

from . import elementwise_kernels as kernels
from .comparison import eq, gt, lt, ne
from .custom import register_target_reader
from .families import (
    ANY,
    FLOAT,
    INEXACT,
    INTEGER,
    LOGICAL,
    NUMBER,
    REAL,
    binary,
    document,
    meet,
    unary,
)
from .rules import bilinear, constant_like, elementwise, linear, zero
from .selection import select

# --- arithmetic -----------------------------------------------------------------------------------

add_op: Op = binary(
    "add", "stablehlo.add", section="Add", dtypes=ANY, kernel=kernels.add,
    ad=elementwise(lambda g, x, y, out: g, lambda g, x, y, out: g),
)  # fmt: skip


def add(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The sum; of truth values the disjunction. Integers wrap.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.add(ops.constant([1, 2]), 3)
    Tensor([4, 5], s32[2])
    >>> ops.add(ops.constant([[1, 2], [3, 4]]), ops.constant([10, 20]), broadcast_dimensions=[0])
    Tensor([[11, 12],
            [23, 24]], s32[2,2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("add", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(add_op, lhs, rhs)
    return result


sub_op: Op = binary(
    "sub", "stablehlo.subtract", section="Sub", dtypes=NUMBER, kernel=kernels.subtract,
    ad=elementwise(lambda g, x, y, out: g, lambda g, x, y, out: neg(g)),
)  # fmt: skip


def sub(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The difference. Integers wrap.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.sub(ops.constant([1, 2]), 3)
    Tensor([-2, -1], s32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("sub", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(sub_op, lhs, rhs)
    return result


mul_op: Op = binary(
    "mul", "stablehlo.multiply", section="Mul", dtypes=ANY, kernel=kernels.multiply,
    ad=bilinear(lambda g, x, y: mul(g, y), lambda g, x, y: mul(g, x)),
)  # fmt: skip


def mul(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The product; of truth values the conjunction. Integers wrap.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.mul(ops.constant([1, 2]), 3)
    Tensor([3, 6], s32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("mul", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(mul_op, lhs, rhs)
    return result


div_op: Op = binary(
    "div", "stablehlo.divide", section="Div", dtypes=NUMBER, kernel=kernels.divide,
    ad=elementwise(
        lambda g, x, y, out: div(g, y), lambda g, x, y, out: neg(div(mul(g, out), y))
    ),
)  # fmt: skip


def div(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The quotient; of integers it is cut towards zero.

    An integer divided by 0 gives all bits 1 (so -1 where there are signs), and the least integer divided by -1
    itself, as in XLA.

    On the CPU XLA takes subnormal numbers for zeros here. By what is broadcast it divides as a product with the
    inverse, which is then 0 for divisors above 2^126 in f32 and bf16, and above 2^1022 in f64.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.div(ops.constant([7, -7, 7]), ops.constant([2, 2, 0]))
    Tensor([ 3, -3, -1], s32[3])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("div", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(div_op, lhs, rhs)
    return result


def _pull_rem_rhs(g: Any, x: Any, y: Any, out: Any) -> Any:
    # x = y * n + out with a whole n, which does not vary.
    return neg(mul(g, bind(lookup("round_nearest_even"), div(sub(x, out), y))))


rem_op: Op = binary(
    "rem", "stablehlo.remainder", section="Rem", dtypes=REAL, kernel=kernels.remainder,
    ad=elementwise(lambda g, x, y, out: g, _pull_rem_rhs),
)  # fmt: skip


def rem(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The rest of the division that is cut towards zero: it has the sign of `lhs`.

    An integer's rest by 0 is the integer itself, as in XLA; that of a float is nan.

    On the CPU XLA takes subnormal numbers for zeros here.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.rem(ops.constant([7, -7, 7]), ops.constant([3, 3, 0]))
    Tensor([ 1, -1,  7], s32[3])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("rem", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(rem_op, lhs, rhs)
    return result


def _pull_pow_lhs(g: Any, x: Any, y: Any, out: Any) -> Any:
    # y x^(y-1); of 0^0 the exponent is replaced, for 0 * 0^-1 would be nan, here and in the next derivative.
    one, nothing = constant_like(y, 1), constant_like(y, 0)
    both = bind(lookup("and"), eq(x, nothing), eq(y, nothing))
    exponent = select(both, one, sub(y, one))
    return mul(g, mul(y, bind(pow_op, x, exponent)))


def _pull_pow_rhs(g: Any, x: Any, y: Any, out: Any) -> Any:
    # x^y log x, which is 0 where x is 0 (and y > 0).
    base = select(eq(x, constant_like(x, 0)), constant_like(x, 1), x)
    return mul(g, mul(out, bind(lookup("log"), base)))


pow_op: Op = binary(
    "pow", "stablehlo.power", section="Pow", dtypes=NUMBER, kernel=kernels.power,
    ad=elementwise(_pull_pow_lhs, _pull_pow_rhs),
)  # fmt: skip


def pow(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """`lhs` to the power of `rhs`.

    Anything to the power of 0 is 1. An integer to a negative power is 0, except for 1 and -1, and of its
    exponent only the low 6 bits count, as in XLA. A negative float to a power that is not whole is nan.

    On the CPU XLA takes subnormal numbers for zeros here.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.pow(ops.constant([2, -1, 2]), ops.constant([5, 3, -1]))
    Tensor([32, -1,  0], s32[3])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("pow", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(pow_op, lhs, rhs)
    return result


def _wins(x: Any, y: Any, out: Any, relation: Any) -> Any:
    """Where x alone is the result; complex numbers have no order to ask for."""
    if x.dtype.kind != "complex":
        return relation(x, y)
    return bind(lookup("and"), eq(out, x), ne(x, y))


def _share(g: Any, wins: Any, x: Any, y: Any) -> Any:
    """`g` where x alone is the result, half of it at a tie."""
    half = mul(g, constant_like(g, 0.5))
    return select(wins, g, select(eq(x, y), half, constant_like(g, 0)))


def _extremum(hlo: str, relation: Any) -> tuple[Hlo, Any]:
    """The declaration and the derivative of max or min."""

    def of_complex(x: Any, y: Any) -> Any:
        # By real parts, then by imaginary parts; nan first of all.
        real, imag, both, either = (lookup(n) for n in ("real", "imag", "and", "or"))
        rx, ry = bind(real, x), bind(real, y)
        closer = bind(both, eq(rx, ry), relation(bind(imag, x), bind(imag, y)))
        wins = bind(either, relation(rx, ry), closer)
        chosen = select(wins, x, y)
        return select(ne(x, x), x, select(ne(y, y), y, chosen))

    def write(writer: Any, instruction: Any) -> None:
        # XLA on the CPU compares the real parts only.
        if instruction.results[0].spec.dtype.kind == "complex":
            writer.composed(instruction, of_complex)
        else:
            writer.line(hlo, instruction)

    ad = elementwise(
        lambda g, x, y, out: _share(g, _wins(x, y, out, relation), x, y),
        lambda g, x, y, out: _share(g, _wins(y, x, out, relation), x, y),
    )
    return Hlo(hlo, write=write), ad


_max_hlo, _max_ad = _extremum("stablehlo.maximum", gt)
_min_hlo, _min_ad = _extremum("stablehlo.minimum", lt)

max_op: Op = binary("max", _max_hlo, section="Max", dtypes=ANY, kernel=kernels.maximum, ad=_max_ad)


def max(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The larger of two; of truth values the disjunction.

    The result is nan if either is; +0 is larger than -0; complex numbers are ordered by their real parts, then by
    their imaginary parts. At a tie the derivative is shared equally.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.max(ops.constant([1.0, 5.0]), 3.0)
    Tensor([3., 5.], f32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("max", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(max_op, lhs, rhs)
    return result


min_op: Op = binary("min", _min_hlo, section="Min", dtypes=ANY, kernel=kernels.minimum, ad=_min_ad)


def min(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The smaller of two; of truth values the conjunction.

    The result is nan if either is; -0 is smaller than +0; complex numbers are ordered by their real parts, then by
    their imaginary parts. At a tie the derivative is shared equally.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.min(ops.constant([1.0, 5.0]), 3.0)
    Tensor([1., 3.], f32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("min", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(min_op, lhs, rhs)
    return result


def _pull_atan2(g: Any, along: Any, x: Any, y: Any) -> Any:
    return div(mul(g, along), add(mul(x, x), mul(y, y)))


atan2_op: Op = binary(
    "atan2", "stablehlo.atan2", section="Atan2", dtypes=INEXACT, kernel=kernels.atan2,
    ad=elementwise(
        lambda g, y, x, out: _pull_atan2(g, x, x, y), lambda g, y, x, out: neg(_pull_atan2(g, y, x, y))
    ),
)  # fmt: skip


def atan2(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The angle of the point whose ordinate is `lhs` and whose abscissa is `rhs`, in radians in [-pi, pi].

    On the CPU XLA takes subnormal numbers for zeros here.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.atan2(ops.constant([0.0, 1.0]), ops.constant([-1.0, 0.0]))
    Tensor([3.1415927, 1.5707964], f32[2])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("atan2", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(atan2_op, lhs, rhs)
    return result


def _check_part(x: TensorSpec) -> None:
    if x.dtype.bits < 32:
        require_dtype(False, "I1", "the operands must be of type f32 or f64", x)


complex_op: Op = binary(
    "complex", "stablehlo.complex", section="Complex", dtypes=FLOAT, kernel=kernels.complex_,
    ad=linear(lambda g, x, y: (bind(lookup("real"), g), neg(bind(lookup("imag"), g))), wrt=None),
    result=lambda d: "c64" if d.bits == 32 else "c128", check_operand=_check_part,
)  # fmt: skip


def complex(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The complex numbers with real part `lhs` and imaginary part `rhs`, both f32 or both f64.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.complex(ops.constant([1.0]), ops.constant([2.0]))
    Tensor([1.+2.j], c64[1])
    """
    if type(lhs) is not Tensor or type(rhs) is not Tensor or lhs.placed is not rhs.placed:
        lhs, rhs = meet("complex", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(complex_op, lhs, rhs)
    return result


def _mulhi_of_signed(x: Any, y: Any) -> Any:
    """By that of unsigned integers, which take a negative number for one larger by 2^bits."""
    convert, pattern = lookup("bitcast_convert_type"), as_dtype(f"u{x.dtype.bits}")
    a, b = (bind(convert, v, dtype=pattern) for v in (x, y))
    nothing = constant_like(x, 0)
    high = bind(convert, bind(mulhi_op, a, b), dtype=x.dtype)
    return sub(sub(high, select(lt(x, nothing), y, nothing)), select(lt(y, nothing), x, nothing))


def _mulhi_of_narrow(x: Any, y: Any) -> Any:
    """By the whole product, for which there is room in 8 bits."""
    convert, dtype = lookup("convert_element_type"), x.dtype
    wide = as_dtype("s8" if dtype.kind == "int" else "u8")
    shift = lookup("shift_right_arithmetic" if dtype.kind == "int" else "shift_right_logical")
    product = mul(*[bind(convert, v, dtype=wide) for v in (x, y)])
    return bind(convert, bind(shift, product, constant_like(product, dtype.bits)), dtype=dtype)


def _write_mulhi(writer: Any, instruction: Any) -> None:
    """XLA on the CPU makes an operation of the signed one in single elements that it has no code for.

    Of fewer than 8 bits its composition is wrong.
    """
    dtype = instruction.results[0].spec.dtype
    if dtype.bits < 8:
        writer.composed(instruction, _mulhi_of_narrow)
    elif dtype.kind == "int":
        writer.composed(instruction, _mulhi_of_signed)
    else:
        writer.line("chlo.mulhi", instruction)


mulhi_op: Op = binary(
    "mulhi", Hlo("chlo.mulhi", write=_write_mulhi), section="CHLO", dtypes=INTEGER, kernel=kernels.mulhi, ad=zero,
)  # fmt: skip
# Of HLO, for whose operation XLA's conversion to StableHLO has none.
register_target_reader(
    "xlapy.mulhi", lambda reader, operation: bind(mulhi_op, *reader.operands(operation))
)


def mulhi(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The upper half of the product of twice the width.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.mulhi(ops.constant([2**30, -1]), 8)
    Tensor([ 2, -1], s32[2])
    """
    x, y = meet("mulhi", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(mulhi_op, x, y)
    return result


def _check_signed(x: TensorSpec) -> None:
    """X1: XLA's composition of next_after takes the top bit for a sign."""
    if x.dtype.name == "f8e8m0fnu":
        require_dtype(False, "X1", "the operands must be of a float type with a sign", x)


next_after_op: Op = binary(
    "next_after", "chlo.next_after", section="CHLO", dtypes=FLOAT, kernel=kernels.next_after,
    check_operand=_check_signed,
    ad=elementwise(lambda g, x, y, out: g, None),
)  # fmt: skip


def next_after(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The neighbour of `lhs` among the numbers of its type, in the direction of `rhs`; `rhs` where they are equal.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.next_after(ops.constant([1.0, 1.0]), ops.constant([2.0, 1.0]))
    Tensor([1.0000001, 1.       ], f32[2])
    """
    x, y = meet("next_after", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(next_after_op, x, y)
    return result


neg_op: Op = unary(
    "neg", "stablehlo.negate", section="Neg", dtypes=NUMBER, kernel=kernels.negate,
    ad=linear(lambda g, x: neg(g)),
)  # fmt: skip


def neg(operand: Any) -> Tensor:
    """The negative. Integers wrap, so the least one stays itself.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.neg(ops.constant([1.0, -2.0]))
    Tensor([-1.,  2.], f32[2])
    """
    result: Tensor = bind(neg_op, operand)
    return result


# --- bits -----------------------------------------------------------------------------------------

and_op: Op = binary(
    "and", "stablehlo.and", section="And", dtypes=LOGICAL, kernel=kernels.and_, ad=zero
)
or_op: Op = binary("or", "stablehlo.or", section="Or", dtypes=LOGICAL, kernel=kernels.or_, ad=zero)
xor_op: Op = binary(
    "xor", "stablehlo.xor", section="Xor", dtypes=LOGICAL, kernel=kernels.xor, ad=zero
)
shift_left_op: Op = binary(
    "shift_left", "stablehlo.shift_left", section="ShiftLeft", dtypes=INTEGER,
    kernel=kernels.shift_left, ad=zero,
)  # fmt: skip
shift_right_arithmetic_op: Op = binary(
    "shift_right_arithmetic", "stablehlo.shift_right_arithmetic", section="ShiftRightArithmetic",
    dtypes=INTEGER, kernel=kernels.shift_right_arithmetic, ad=zero,
)  # fmt: skip
shift_right_logical_op: Op = binary(
    "shift_right_logical", "stablehlo.shift_right_logical", section="ShiftRightLogical",
    dtypes=INTEGER, kernel=kernels.shift_right_logical, ad=zero,
)  # fmt: skip


def and_(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Bit by bit and; of truth values the conjunction.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.and_(ops.constant([6, 5]), 3)
    Tensor([2, 1], s32[2])
    """
    x, y = meet("and", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(and_op, x, y)
    return result


def or_(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Bit by bit or; of truth values the disjunction.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.or_(ops.constant([6, 5]), 3)
    Tensor([7, 7], s32[2])
    """
    x, y = meet("or", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(or_op, x, y)
    return result


def xor(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Bit by bit exclusive or; of truth values whether they differ.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.xor(ops.constant([6, 5]), 3)
    Tensor([5, 6], s32[2])
    """
    x, y = meet("xor", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(xor_op, x, y)
    return result


def shift_left(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The bits of `lhs` moved up by `rhs` places; 0 if `rhs` is negative or not less than the width.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.shift_left(ops.constant([1, 3, 1]), ops.constant([4, 1, 32]))
    Tensor([16,  6,  0], s32[3])
    """
    x, y = meet("shift_left", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(shift_left_op, x, y)
    return result


def shift_right_arithmetic(
    lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None
) -> Tensor:
    """The bits of `lhs` moved down by `rhs` places, the top bit filling in, of types without a sign as well.

    If `rhs` is negative or not less than the width, only the top bit is left: 0 or all ones.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.shift_right_arithmetic(ops.constant([-8, 8, -8]), ops.constant([1, 1, 32]))
    Tensor([-4,  4, -1], s32[3])
    """
    x, y = meet("shift_right_arithmetic", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(shift_right_arithmetic_op, x, y)
    return result


def shift_right_logical(
    lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None
) -> Tensor:
    """The bits of `lhs` moved down by `rhs` places, zeros filling in.

    0 if `rhs` is negative or not less than the width.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.shift_right_logical(ops.constant([-8, 8, -8]), ops.constant([1, 1, 32]))
    Tensor([2147483644,          4,          0], s32[3])
    """
    x, y = meet("shift_right_logical", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(shift_right_logical_op, x, y)
    return result


document(
    add,
    sub,
    mul,
    div,
    rem,
    pow,
    max,
    min,
    atan2,
    complex,
    mulhi,
    next_after,
    neg,
    and_,
    or_,
    xor,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
