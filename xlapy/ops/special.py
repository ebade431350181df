"""Elementwise operations of CHLO: special functions, inverse functions, tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from xlapy.errors import NotDifferentiableError
from xlapy.specs import TensorSpec, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import Op

from . import elementwise_kernels as kernels
from .accuracy import accuracy, check_accuracy, plain_hlo
from .comparison import eq, le
from .elementwise import add, div, max, min, mul, neg, sub
from .elementwise_unary import abs, exp, rsqrt, sign
from .families import FLOAT, INEXACT, binary, document, meet, unary
from .rules import constant_like, elementwise, linear, zero
from .selection import select


def _check_width(x: TensorSpec) -> None:
    """X1: floats that XLA's own compositions of these functions hold in every step."""
    if x.dtype.kind == "float" and (x.dtype.bits < 8 or x.dtype.name == "f8e8m0fnu"):
        what = (
            "the operand must be of a float type with a sign, infinities or nan; convert it first"
        )
        require_dtype(False, "X1", what, x)


def _check_16_bits(x: TensorSpec) -> None:
    """X1: floats that XLA has a composition for."""
    if x.dtype.bits < 16:
        require_dtype(
            False, "X1", "the operand must be a float of 16 bits or more; convert it first", x
        )


def _one(x: Any) -> Any:
    return constant_like(x, 1)


def _over_root(x: Any) -> Any:
    """1 / sqrt(1 - x^2), exact near 1."""
    return mul(rsqrt(sub(_one(x), x)), rsqrt(add(_one(x), x)))


def _bell(x: Any, factor: float) -> Any:
    return mul(constant_like(x, factor), exp(neg(mul(x, x))))


# exp(-x) I0(x) on [0, 8] in x / 4 - 1, and times sqrt(x) beyond in 16 / x - 1, lowest power first:
# interpolated at Chebyshev points, to 1e-13 of the value.
_I0E_NEAR: Final = (
    0.2070019212239862, -0.11300432688593195, 0.09451562854000099, -0.0890434413892093,
    0.08734341617742727, -0.0849633800401137, 0.07927522577907792, -0.0695412081193609,
    0.056777034345307884, -0.04298584966440552, 0.030177890996794063, -0.019683146235841057,
    0.0119601899954087, -0.006790821877785335, 0.003616745915738246, -0.0018152798203644816,
    0.0008571688030936258, -0.00037798761072837454, 0.00016112777099151982, -7.02204517059307e-05,
    2.6458695155505147e-05, -6.413337648551488e-06, 2.460085990679066e-06, -2.033638467378939e-06,
    6.225994483867166e-07,
)  # fmt: skip
_I0E_FAR: Final = (
    0.4021765094450084, 0.0033605519774711485, 0.00013621607293071812, 1.1143210444017137e-05,
    1.4838906654246759e-06, 2.958822843684083e-07, 8.832590927086735e-08, 4.4830007076433895e-08,
    2.328436446272198e-08, -3.1291781301417865e-09, -1.1080506389450471e-08, -1.7947571660575622e-09,
    1.4396264442778592e-09,
)  # fmt: skip


def _polynomial(coefficients: Sequence[float], s: Any) -> Any:
    total = constant_like(s, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = add(mul(total, s), constant_like(s, c))
    return total


def _bessel_i0e(x: Any) -> Any:
    """The Bessel function of order 0, times e^-|x|: CHLO has it not."""
    size, bound = abs(x), constant_like(x, 8)
    near = _polynomial(
        _I0E_NEAR, sub(mul(min(size, bound), constant_like(x, 0.25)), constant_like(x, 1))
    )
    wide = max(size, bound)
    far = _polynomial(_I0E_FAR, sub(div(constant_like(x, 16), wide), constant_like(x, 1)))
    return select(le(size, bound), near, mul(far, rsqrt(wide)))


def _slope_of_bessel_i1e(x: Any, y: Any) -> Any:
    # I1' = I0 - I1 / x, and the factor e^-|x| takes sign(x) I1 away; at 0 it is I1 / x = 1/2.
    still = eq(x, constant_like(x, 0))
    inverse = div(constant_like(x, 1), select(still, constant_like(x, 1), x))
    slope = sub(_bessel_i0e(x), mul(y, add(sign(x), inverse)))
    return select(still, constant_like(x, 0.5), slope)


sinh_op: Op = unary(
    "sinh", "chlo.sinh", section="CHLO", dtypes=INEXACT, kernel=kernels.sinh,
    check_operand=_check_width, derivative=lambda x, y: cosh(x),
)  # fmt: skip


def sinh(operand: Any) -> Tensor:
    """The hyperbolic sine.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.sinh(ops.constant([0.0, 1.0]))
    Tensor([0.       , 1.1752012], f32[2])
    """
    result: Tensor = bind(sinh_op, operand)
    return result


cosh_op: Op = unary(
    "cosh", plain_hlo("cosh", "chlo.cosh"), section="Cosh", dtypes=INEXACT, kernel=kernels.cosh,
    check_operand=_check_width, derivative=lambda x, y: sinh(x), check=check_accuracy,
)  # fmt: skip


def cosh(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The hyperbolic cosine.

    CHLO has no place for `result_accuracy`: other than the default it is good for the interpreter only.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.cosh(ops.constant([0.0, 1.0]))
    Tensor([1.       , 1.5430806], f32[2])
    """
    result: Tensor = bind(cosh_op, operand, **accuracy(result_accuracy, "cosh"))
    return result


asin_op: Op = unary(
    "asin", "chlo.asin", section="CHLO", dtypes=INEXACT, kernel=kernels.asin,
    check_operand=_check_width, derivative=lambda x, y: _over_root(x),
)  # fmt: skip


def asin(operand: Any) -> Tensor:
    """The arc sine in radians; nan outside [-1, 1].

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.asin(ops.constant([0.0, 1.0]))
    Tensor([0.       , 1.5707964], f32[2])
    """
    result: Tensor = bind(asin_op, operand)
    return result


acos_op: Op = unary(
    "acos", "chlo.acos", section="CHLO", dtypes=INEXACT, kernel=kernels.acos,
    check_operand=_check_width, derivative=lambda x, y: neg(_over_root(x)),
)  # fmt: skip


def acos(operand: Any) -> Tensor:
    """The arc cosine in radians; nan outside [-1, 1].

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.acos(ops.constant([0.0, 1.0]))
    Tensor([1.5707964, 0.       ], f32[2])
    """
    result: Tensor = bind(acos_op, operand)
    return result


atan_op: Op = unary(
    "atan", "chlo.atan", section="CHLO", dtypes=INEXACT, kernel=kernels.atan,
    check_operand=_check_width, ad=elementwise(lambda g, x, y: div(g, add(_one(x), mul(x, x)))),
)  # fmt: skip


def atan(operand: Any) -> Tensor:
    """The arc tangent in radians.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.atan(ops.constant([0.0, 1.0]))
    Tensor([0.       , 0.7853981], f32[2])
    """
    result: Tensor = bind(atan_op, operand)
    return result


asinh_op: Op = unary(
    "asinh", "chlo.asinh", section="CHLO", dtypes=INEXACT, kernel=kernels.asinh,
    check_operand=_check_width, derivative=lambda x, y: rsqrt(add(_one(x), mul(x, x))),
)  # fmt: skip


def asinh(operand: Any) -> Tensor:
    """The inverse hyperbolic sine.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.asinh(ops.constant([0.0, 1.0]))
    Tensor([0.        , 0.88137364], f32[2])
    """
    result: Tensor = bind(asinh_op, operand)
    return result


acosh_op: Op = unary(
    "acosh", "chlo.acosh", section="CHLO", dtypes=INEXACT, kernel=kernels.acosh,
    check_operand=_check_width, derivative=lambda x, y: mul(rsqrt(sub(x, _one(x))), rsqrt(add(x, _one(x)))),
)  # fmt: skip


def acosh(operand: Any) -> Tensor:
    """The inverse hyperbolic cosine; nan below 1.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.acosh(ops.constant([1.0, 2.0]))
    Tensor([0.      , 1.316958], f32[2])
    """
    result: Tensor = bind(acosh_op, operand)
    return result


atanh_op: Op = unary(
    "atanh", "chlo.atanh", section="CHLO", dtypes=INEXACT, kernel=kernels.atanh,
    check_operand=_check_width, ad=elementwise(lambda g, x, y: div(g, mul(sub(_one(x), x), add(_one(x), x)))),
)  # fmt: skip


def atanh(operand: Any) -> Tensor:
    """The inverse hyperbolic tangent; nan outside [-1, 1].

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.atanh(ops.constant([0.0, 1.0]))
    Tensor([ 0., inf], f32[2])
    """
    result: Tensor = bind(atanh_op, operand)
    return result


erf_op: Op = unary(
    "erf", plain_hlo("erf", "chlo.erf", 16), section="Erf", dtypes=FLOAT, kernel=kernels.erf,
    check_operand=_check_width, derivative=lambda x, y: _bell(x, 2 / math.sqrt(math.pi)), check=check_accuracy,
)  # fmt: skip


def erf(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The error function.

    CHLO has no place for `result_accuracy`: other than the default it is good for the interpreter only.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.erf(ops.constant([0.0, 1.0]))
    Tensor([0.        , 0.84270084], f32[2])
    """
    result: Tensor = bind(erf_op, operand, **accuracy(result_accuracy, "erf"))
    return result


erfc_op: Op = unary(
    "erfc", "chlo.erfc", section="CHLO", dtypes=FLOAT, kernel=kernels.erfc,
    check_operand=_check_16_bits, derivative=lambda x, y: _bell(x, -2 / math.sqrt(math.pi)),
)  # fmt: skip


def erfc(operand: Any) -> Tensor:
    """One less the error function, exact where that is near 1.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.erfc(ops.constant([0.0, 5.0]))
    Tensor([1.0000000e+00, 1.5374597e-12], f32[2])
    """
    result: Tensor = bind(erfc_op, operand)
    return result


erf_inv_op: Op = unary(
    "erf_inv", "chlo.erf_inv", section="CHLO", dtypes=FLOAT, kernel=kernels.erf_inv,
    check_operand=_check_width, derivative=lambda x, y: mul(constant_like(y, math.sqrt(math.pi) / 2), exp(mul(y, y))),
)  # fmt: skip


def erf_inv(operand: Any) -> Tensor:
    """The inverse of the error function; nan outside [-1, 1].

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.erf_inv(ops.constant([0.0, 0.5]))
    Tensor([0.        , 0.47693628], f32[2])
    """
    result: Tensor = bind(erf_inv_op, operand)
    return result


lgamma_op: Op = unary(
    "lgamma", "chlo.lgamma", section="CHLO", dtypes=FLOAT, kernel=kernels.lgamma,
    check_operand=_check_width, derivative=lambda x, y: digamma(x),
)  # fmt: skip


def lgamma(operand: Any) -> Tensor:
    """The logarithm of the gamma function's absolute value.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.lgamma(ops.constant([1.0, 10.0]))
    Tensor([4.7683716e-07, 1.2801830e+01], f32[2])
    """
    result: Tensor = bind(lgamma_op, operand)
    return result


digamma_op: Op = unary(
    "digamma", "chlo.digamma", section="CHLO", dtypes=FLOAT, kernel=kernels.digamma,
    check_operand=_check_width, derivative=lambda x, y: polygamma(_one(x), x),
)  # fmt: skip


def digamma(operand: Any) -> Tensor:
    """The derivative of `lgamma`.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.digamma(ops.constant([1.0, 10.0]))
    Tensor([-0.5772154,  2.2517526], f32[2])
    """
    result: Tensor = bind(digamma_op, operand)
    return result


bessel_i1e_op: Op = unary(
    "bessel_i1e", "chlo.bessel_i1e", section="CHLO", dtypes=FLOAT, kernel=kernels.bessel_i1e,
    check_operand=_check_16_bits, derivative=_slope_of_bessel_i1e,
)  # fmt: skip


def bessel_i1e(operand: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1, times e^-abs(x).

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.bessel_i1e(ops.constant([0.0, 1.0]))
    Tensor([0.        , 0.20791042], f32[2])
    """
    result: Tensor = bind(bessel_i1e_op, operand)
    return result


square_op: Op = unary(
    "square", "chlo.square", section="CHLO", dtypes=INEXACT, kernel=kernels.square,
    derivative=lambda x, y: add(x, x),
)  # fmt: skip


def square(operand: Any) -> Tensor:
    """The operand times itself.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.square(ops.constant([3.0, -2.0]))
    Tensor([9., 4.], f32[2])
    """
    result: Tensor = bind(square_op, operand)
    return result


conj_op: Op = unary(
    "conj", "chlo.conj", section="CHLO", dtypes=INEXACT, kernel=kernels.conj,
    ad=linear(lambda g, x: conj(g)),
)  # fmt: skip


def conj(operand: Any) -> Tensor:
    """The complex conjugate; a real operand itself.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.conj(ops.constant([1 + 2j]))
    Tensor([1.-2.j], c64[1])
    """
    result: Tensor = bind(conj_op, operand)
    return result


is_inf_op: Op = unary(
    "is_inf", "chlo.is_inf", section="CHLO", dtypes=FLOAT, kernel=kernels.is_inf,
    check_operand=_check_width, ad=zero, result=lambda d: "pred",
)  # fmt: skip


def is_inf(operand: Any) -> Tensor:
    """Whether the operand is infinite.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.is_inf(ops.constant([1.0, float("inf")]))
    Tensor([False,  True], pred[2])
    """
    result: Tensor = bind(is_inf_op, operand)
    return result


is_pos_inf_op: Op = unary(
    "is_pos_inf", "chlo.is_pos_inf", section="CHLO", dtypes=FLOAT, kernel=kernels.is_pos_inf,
    check_operand=_check_width, ad=zero, result=lambda d: "pred",
)  # fmt: skip


def is_pos_inf(operand: Any) -> Tensor:
    """Whether the operand is +inf.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.is_pos_inf(ops.constant([float("-inf"), float("inf")]))
    Tensor([False,  True], pred[2])
    """
    result: Tensor = bind(is_pos_inf_op, operand)
    return result


is_neg_inf_op: Op = unary(
    "is_neg_inf", "chlo.is_neg_inf", section="CHLO", dtypes=FLOAT, kernel=kernels.is_neg_inf,
    check_operand=_check_width, ad=zero, result=lambda d: "pred",
)  # fmt: skip


def is_neg_inf(operand: Any) -> Tensor:
    """Whether the operand is -inf.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.is_neg_inf(ops.constant([float("-inf"), float("inf")]))
    Tensor([ True, False], pred[2])
    """
    result: Tensor = bind(is_neg_inf_op, operand)
    return result


# --- two operands ---------------------------------------------------------------------------------


@final
class SecondOnly:
    """Elementwise, with a derivative with respect to the second operand only."""

    kind: Final = "elementwise"
    __slots__ = ("pull", "what")

    def __init__(self, what: str, pull: Callable[..., Any]) -> None:
        self.what = what
        self.pull = pull

    def _refuse(self, op: Op) -> NotDifferentiableError:
        return NotDifferentiableError(
            f"{op.name}: a derivative must have a closed form; got one with respect to {self.what} [X4]"
        )

    def jvp(
        self,
        op: Op,
        operands: Sequence[Any],
        tangents: Sequence[Any],
        outs: Sequence[Any],
        params: Any,
    ) -> Sequence[Any]:
        """The second operand's tangent times the derivative."""
        if tangents[0] is not None:
            raise self._refuse(op)
        return (self.pull(tangents[1], *operands, outs[0]),)

    def vjp(
        self, op: Op, operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], params: Any,
        needed: Sequence[bool],
    ) -> Sequence[Any]:  # fmt: skip
        """The cotangent times the derivative, for the second operand."""
        if needed[0]:
            raise self._refuse(op)
        return (None, self.pull(cotangents[0], *operands, outs[0]))


polygamma_op: Op = binary(
    "polygamma", "chlo.polygamma", section="CHLO", dtypes=FLOAT, kernel=kernels.polygamma,
    check_operand=_check_width, ad=SecondOnly(
        "the order of polygamma", lambda g, n, x, y: mul(g, polygamma(add(n, _one(n)), x))
    ),
)  # fmt: skip


def polygamma(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The derivative of order `lhs` of `digamma` at `rhs`.

    nan for an order that is negative or no whole number. There is no derivative with respect to the order.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.polygamma(ops.constant([0.0, 1.0]), ops.constant([1.0, 1.0]))
    Tensor([-0.5772154,  1.644934 ], f32[2])
    """
    x, y = meet("polygamma", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(polygamma_op, x, y)
    return result


zeta_op: Op = binary(
    "zeta", "chlo.zeta", section="CHLO", dtypes=FLOAT, kernel=kernels.zeta,
    check_operand=_check_width, ad=SecondOnly(
        "the exponent of zeta",
        lambda g, x, q, y: neg(mul(mul(g, x), zeta(add(x, _one(x)), q))),
    ),
)  # fmt: skip


def zeta(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of (rhs + k)^-lhs over k = 0, 1, 2, ...

    nan for an exponent below 1. There is no derivative with respect to the exponent.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.zeta(ops.constant([2.0]), ops.constant([1.0]))
    Tensor([1.644934], f32[1])
    """
    x, y = meet("zeta", lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(zeta_op, x, y)
    return result


document(
    sinh,
    cosh,
    asin,
    acos,
    atan,
    asinh,
    acosh,
    atanh,
    erf,
    erfc,
    erf_inv,
    lgamma,
    digamma,
    bessel_i1e,
    square,
    conj,
    is_inf,
    is_pos_inf,
    is_neg_inf,
    polygamma,
    zeta,
)
