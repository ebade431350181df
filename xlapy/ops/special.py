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
from .comparison import le
from .elementwise import add, div, max, min, mul, neg, sub
from .elementwise_unary import abs, exp, rsqrt
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


# The derivative of exp(-x) I1(x) on [0, 8] in x / 4 - 1, and times sqrt(x)^3 beyond in 16 / x - 1, lowest power first:
# interpolated at Chebyshev points, to 2e-13.
_NEAR_SLOPE: Final = (
    -0.016436628154054393, 0.013866523759689794, -0.0012750188899788646, -0.018860809969388572,
    0.04243682248979631, -0.06363279965076186, 0.07702251843568841, -0.07988270814634318,
    0.07303238381654277, -0.05987347506023125, 0.044543240114955404, -0.03034563702724877,
    0.019069962543021245, -0.011121193811711063, 0.006048831153592414, -0.0030837174486457643,
    0.001481344682081887, -0.0006701359301392791, 0.00028365754951131334, -0.00011586614819219137,
    4.822050089327419e-05, -1.7563237533459164e-05, 4.215115804484725e-06, -1.5229394405460557e-06,
    1.1890934248605817e-06, -3.559387704862953e-07,
)  # fmt: skip
_FAR_SLOPE: Final = (
    -0.18494965231967944, 0.01506283731747311, 0.0005932050477567838, 5.997456364143411e-05,
    9.999118692174682e-06, 2.5159820875446893e-06, 9.509338505803673e-07, 5.12774506012608e-07,
    2.806449534004649e-07, -3.0547454437907805e-11, -2.4634533128036323e-07,
    -1.9218591451543308e-07, 7.248914410705434e-08, 1.3215256082118528e-07, -1.0229698283212447e-08,
    -4.9210612050203774e-08, 2.3264004722514837e-10, 8.40988435485682e-09,
)  # fmt: skip


def _polynomial(coefficients: Sequence[float], s: Any) -> Any:
    total = constant_like(s, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = add(mul(total, s), constant_like(s, c))
    return total


def _slope_of_bessel_i1e(x: Any) -> Any:
    size, bound, one = abs(x), constant_like(x, 8), _one(x)
    near = _polynomial(_NEAR_SLOPE, sub(mul(min(size, bound), constant_like(x, 0.25)), one))
    wide = max(size, bound)
    far = _polynomial(_FAR_SLOPE, sub(div(constant_like(x, 16), wide), one))
    return select(le(size, bound), near, div(mul(far, rsqrt(wide)), wide))


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
    check_operand=_check_16_bits, derivative=lambda x, y: _slope_of_bessel_i1e(x),
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
