"""Elementwise operations of CHLO: special functions, inverse functions, tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from xlapy.errors import NotDifferentiableError
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import Op

from . import elementwise_kernels as kernels
from .elementwise import add, div, mul, neg, sub
from .elementwise_unary import exp, rsqrt
from .families import FLOAT, INEXACT, NUMBER, binary, documented, meet, unary
from .rules import constant_like, elementwise, linear, zero


def _one(x: Any) -> Any:
    return constant_like(x, 1)


def _over_root(x: Any) -> Any:
    """1 / sqrt(1 - x^2), exact near 1."""
    return mul(rsqrt(sub(_one(x), x)), rsqrt(add(_one(x), x)))


def _bell(x: Any, factor: float) -> Any:
    return mul(constant_like(x, factor), exp(neg(mul(x, x))))


def _slope_of_bessel_i1e(x: Any, y: Any) -> Any:
    raise NotImplementedError


sinh_op = unary(
    "sinh", "chlo.sinh", section="CHLO", dtypes=INEXACT, kernel=kernels.sinh,
    derivative=lambda x, y: cosh(x),
)  # fmt: skip


@documented(sinh_op, INEXACT, "unary")
def sinh(operand: Any) -> Tensor:
    """The hyperbolic sine.

    Examples
    --------
    >>> sinh(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(sinh_op, operand)
    return result


cosh_op = unary(
    "cosh", "chlo.cosh", section="Cosh", dtypes=INEXACT, kernel=kernels.cosh,
    derivative=lambda x, y: sinh(x),
)  # fmt: skip


@documented(cosh_op, INEXACT, "unary")
def cosh(operand: Any) -> Tensor:
    """The hyperbolic cosine.

    Examples
    --------
    >>> cosh(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(cosh_op, operand)
    return result


asin_op = unary(
    "asin", "chlo.asin", section="CHLO", dtypes=INEXACT, kernel=kernels.asin,
    derivative=lambda x, y: _over_root(x),
)  # fmt: skip


@documented(asin_op, INEXACT, "unary")
def asin(operand: Any) -> Tensor:
    """The arc sine in radians; nan outside [-1, 1].

    Examples
    --------
    >>> asin(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(asin_op, operand)
    return result


acos_op = unary(
    "acos", "chlo.acos", section="CHLO", dtypes=INEXACT, kernel=kernels.acos,
    derivative=lambda x, y: neg(_over_root(x)),
)  # fmt: skip


@documented(acos_op, INEXACT, "unary")
def acos(operand: Any) -> Tensor:
    """The arc cosine in radians; nan outside [-1, 1].

    Examples
    --------
    >>> acos(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(acos_op, operand)
    return result


atan_op = unary(
    "atan", "chlo.atan", section="CHLO", dtypes=INEXACT, kernel=kernels.atan,
    ad=elementwise(lambda g, x, y: div(g, add(_one(x), mul(x, x)))),
)  # fmt: skip


@documented(atan_op, INEXACT, "unary")
def atan(operand: Any) -> Tensor:
    """The arc tangent in radians.

    Examples
    --------
    >>> atan(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(atan_op, operand)
    return result


asinh_op = unary(
    "asinh", "chlo.asinh", section="CHLO", dtypes=INEXACT, kernel=kernels.asinh,
    derivative=lambda x, y: rsqrt(add(_one(x), mul(x, x))),
)  # fmt: skip


@documented(asinh_op, INEXACT, "unary")
def asinh(operand: Any) -> Tensor:
    """The inverse hyperbolic sine.

    Examples
    --------
    >>> asinh(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(asinh_op, operand)
    return result


acosh_op = unary(
    "acosh", "chlo.acosh", section="CHLO", dtypes=INEXACT, kernel=kernels.acosh,
    derivative=lambda x, y: mul(rsqrt(sub(x, _one(x))), rsqrt(add(x, _one(x)))),
)  # fmt: skip


@documented(acosh_op, INEXACT, "unary")
def acosh(operand: Any) -> Tensor:
    """The inverse hyperbolic cosine; nan below 1.

    Examples
    --------
    >>> acosh(constant([1.0, 2.0]))
    Tensor(?)
    """
    result: Tensor = bind(acosh_op, operand)
    return result


atanh_op = unary(
    "atanh", "chlo.atanh", section="CHLO", dtypes=INEXACT, kernel=kernels.atanh,
    ad=elementwise(lambda g, x, y: div(g, mul(sub(_one(x), x), add(_one(x), x)))),
)  # fmt: skip


@documented(atanh_op, INEXACT, "unary")
def atanh(operand: Any) -> Tensor:
    """The inverse hyperbolic tangent; nan outside [-1, 1].

    Examples
    --------
    >>> atanh(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(atanh_op, operand)
    return result


erf_op = unary(
    "erf", "chlo.erf", section="Erf", dtypes=FLOAT, kernel=kernels.erf,
    derivative=lambda x, y: _bell(x, 2 / math.sqrt(math.pi)),
)  # fmt: skip


@documented(erf_op, FLOAT, "unary")
def erf(operand: Any) -> Tensor:
    """The error function.

    Examples
    --------
    >>> erf(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(erf_op, operand)
    return result


erfc_op = unary(
    "erfc", "chlo.erfc", section="CHLO", dtypes=FLOAT, kernel=kernels.erfc,
    derivative=lambda x, y: _bell(x, -2 / math.sqrt(math.pi)),
)  # fmt: skip


@documented(erfc_op, FLOAT, "unary")
def erfc(operand: Any) -> Tensor:
    """One less the error function, exact where that is near 1.

    Examples
    --------
    >>> erfc(constant([0.0, 5.0]))
    Tensor(?)
    """
    result: Tensor = bind(erfc_op, operand)
    return result


erf_inv_op = unary(
    "erf_inv", "chlo.erf_inv", section="CHLO", dtypes=FLOAT, kernel=kernels.erf_inv,
    derivative=lambda x, y: mul(constant_like(y, math.sqrt(math.pi) / 2), exp(mul(y, y))),
)  # fmt: skip


@documented(erf_inv_op, FLOAT, "unary")
def erf_inv(operand: Any) -> Tensor:
    """The inverse of the error function; nan outside [-1, 1].

    Examples
    --------
    >>> erf_inv(constant([0.0, 0.5]))
    Tensor(?)
    """
    result: Tensor = bind(erf_inv_op, operand)
    return result


lgamma_op = unary(
    "lgamma", "chlo.lgamma", section="CHLO", dtypes=FLOAT, kernel=kernels.lgamma,
    derivative=lambda x, y: digamma(x),
)  # fmt: skip


@documented(lgamma_op, FLOAT, "unary")
def lgamma(operand: Any) -> Tensor:
    """The logarithm of the gamma function's absolute value.

    Examples
    --------
    >>> lgamma(constant([1.0, 10.0]))
    Tensor(?)
    """
    result: Tensor = bind(lgamma_op, operand)
    return result


digamma_op = unary(
    "digamma", "chlo.digamma", section="CHLO", dtypes=FLOAT, kernel=kernels.digamma,
    derivative=lambda x, y: polygamma(_one(x), x),
)  # fmt: skip


@documented(digamma_op, FLOAT, "unary")
def digamma(operand: Any) -> Tensor:
    """The derivative of `lgamma`.

    Examples
    --------
    >>> digamma(constant([1.0, 10.0]))
    Tensor(?)
    """
    result: Tensor = bind(digamma_op, operand)
    return result


bessel_i1e_op = unary(
    "bessel_i1e", "chlo.bessel_i1e", section="CHLO", dtypes=FLOAT, kernel=kernels.bessel_i1e,
    derivative=_slope_of_bessel_i1e,
)  # fmt: skip


@documented(bessel_i1e_op, FLOAT, "unary")
def bessel_i1e(operand: Any) -> Tensor:
    """The modified Bessel function of the first kind of order 1, times e^-abs(x).

    Examples
    --------
    >>> bessel_i1e(constant([0.0, 1.0]))
    Tensor(?)
    """
    result: Tensor = bind(bessel_i1e_op, operand)
    return result


square_op = unary(
    "square", "chlo.square", section="CHLO", dtypes=NUMBER, kernel=kernels.square,
    derivative=lambda x, y: add(x, x),
)  # fmt: skip


@documented(square_op, NUMBER, "unary")
def square(operand: Any) -> Tensor:
    """The operand times itself.

    Examples
    --------
    >>> square(constant([3.0, -2.0]))
    Tensor(?)
    """
    result: Tensor = bind(square_op, operand)
    return result


conj_op = unary(
    "conj", "chlo.conj", section="CHLO", dtypes=INEXACT, kernel=kernels.conj,
    ad=linear(lambda g, x: conj(g)),
)  # fmt: skip


@documented(conj_op, INEXACT, "unary")
def conj(operand: Any) -> Tensor:
    """The complex conjugate; a real operand itself.

    Examples
    --------
    >>> conj(constant([1 + 2j]))
    Tensor(?)
    """
    result: Tensor = bind(conj_op, operand)
    return result


is_inf_op = unary(
    "is_inf", "chlo.is_inf", section="CHLO", dtypes=FLOAT, kernel=kernels.is_inf,
    ad=zero, result=lambda d: "pred",
)  # fmt: skip


@documented(is_inf_op, FLOAT, "unary")
def is_inf(operand: Any) -> Tensor:
    """Whether the operand is infinite.

    Examples
    --------
    >>> is_inf(constant([1.0, float("inf")]))
    Tensor(?)
    """
    result: Tensor = bind(is_inf_op, operand)
    return result


is_pos_inf_op = unary(
    "is_pos_inf", "chlo.is_pos_inf", section="CHLO", dtypes=FLOAT, kernel=kernels.is_pos_inf,
    ad=zero, result=lambda d: "pred",
)  # fmt: skip


@documented(is_pos_inf_op, FLOAT, "unary")
def is_pos_inf(operand: Any) -> Tensor:
    """Whether the operand is +inf.

    Examples
    --------
    >>> is_pos_inf(constant([float("-inf"), float("inf")]))
    Tensor(?)
    """
    result: Tensor = bind(is_pos_inf_op, operand)
    return result


is_neg_inf_op = unary(
    "is_neg_inf", "chlo.is_neg_inf", section="CHLO", dtypes=FLOAT, kernel=kernels.is_neg_inf,
    ad=zero, result=lambda d: "pred",
)  # fmt: skip


@documented(is_neg_inf_op, FLOAT, "unary")
def is_neg_inf(operand: Any) -> Tensor:
    """Whether the operand is -inf.

    Examples
    --------
    >>> is_neg_inf(constant([float("-inf"), float("inf")]))
    Tensor(?)
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
            f"{op.name}: must not be differentiated with respect to {self.what}: it has no closed form [X4]"
        )

    def jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], params: Any
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


polygamma_op = binary(
    "polygamma", "chlo.polygamma", section="CHLO", dtypes=FLOAT, kernel=kernels.polygamma,
    ad=SecondOnly(
        "the order of polygamma", lambda g, n, x, y: mul(g, polygamma(add(n, _one(n)), x))
    ),
)  # fmt: skip


@documented(polygamma_op, FLOAT, "binary")
def polygamma(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """The derivative of order `lhs` of `digamma` at `rhs`.

    nan for an order that is negative or no whole number. There is no derivative with respect to the order.

    Examples
    --------
    >>> polygamma(constant([0.0, 1.0]), constant([1.0, 1.0]))
    Tensor(?)
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(polygamma_op, x, y)
    return result


zeta_op = binary(
    "zeta", "chlo.zeta", section="CHLO", dtypes=FLOAT, kernel=kernels.zeta,
    ad=SecondOnly(
        "the exponent of zeta",
        lambda g, x, q, y: neg(mul(mul(g, x), zeta(add(x, _one(x)), q))),
    ),
)  # fmt: skip


@documented(zeta_op, FLOAT, "binary")
def zeta(lhs: Any, rhs: Any, broadcast_dimensions: Sequence[int] | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of (rhs + k)^-lhs over k = 0, 1, 2, ...

    nan for an exponent below 1. There is no derivative with respect to the exponent.

    Examples
    --------
    >>> zeta(constant([2.0]), constant([1.0]))
    Tensor(?)
    """
    x, y = meet(lhs, rhs, broadcast_dimensions)
    result: Tensor = bind(zeta_op, x, y)
    return result
