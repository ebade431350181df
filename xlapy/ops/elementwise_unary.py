"""Elementwise operations of StableHLO on one operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup

from . import elementwise_kernels as kernels
from .accuracy import accuracy, accurate_hlo, check_accuracy
from .comparison import compare
from .elementwise import add, div, mul, neg, sub
from .families import FLOAT, INEXACT, INTEGER, LOGICAL, SIGNED, document, unary
from .rules import Rules, constant_like, elementwise, zero
from .selection import select

# --- rounding and tests --------------------------------------------------------------------------

ceil_op: Op = unary(
    "ceil", "stablehlo.ceil", section="Ceil", dtypes=FLOAT,
    kernel=kernels.ceil, ad=zero,
)  # fmt: skip


def ceil(operand: Any) -> Tensor:
    """The least whole number that is not below the operand.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.ceil(ops.constant([1.5, -1.5]))
    Tensor([ 2., -1.], f32[2])
    """
    result: Tensor = bind(ceil_op, operand)
    return result


floor_op: Op = unary(
    "floor", "stablehlo.floor", section="Floor", dtypes=FLOAT,
    kernel=kernels.floor, ad=zero,
)  # fmt: skip


def floor(operand: Any) -> Tensor:
    """The greatest whole number that is not above the operand.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.floor(ops.constant([1.5, -1.5]))
    Tensor([ 1., -2.], f32[2])
    """
    result: Tensor = bind(floor_op, operand)
    return result


round_nearest_afz_op: Op = unary(
    "round_nearest_afz", "stablehlo.round_nearest_afz", section="RoundNearestAfz", dtypes=FLOAT,
    kernel=kernels.round_nearest_afz, ad=zero,
)  # fmt: skip


def round_nearest_afz(operand: Any) -> Tensor:
    """The nearest whole number; halves go away from zero.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.round_nearest_afz(ops.constant([0.5, 1.5, -2.5]))
    Tensor([ 1.,  2., -3.], f32[3])
    """
    result: Tensor = bind(round_nearest_afz_op, operand)
    return result


def round(operand: Any) -> Tensor:
    """The nearest whole number; halves go away from zero: `round_nearest_afz` under the name of its section.

    Parameters
    ----------
    operand : Tensor or array-like or scalar
        Of kind float.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [I1] If the operand is of another kind.

    Notes
    -----
    Section Round of the operation semantics; ``stablehlo.round_nearest_afz``.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.round(ops.constant([0.5, 1.5, -2.5]))
    Tensor([ 1.,  2., -3.], f32[3])
    """
    result: Tensor = bind(round_nearest_afz_op, operand)
    return result


round_nearest_even_op: Op = unary(
    "round_nearest_even", "stablehlo.round_nearest_even", section="RoundNearestEven", dtypes=FLOAT,
    kernel=kernels.round_nearest_even, ad=zero,
)  # fmt: skip


def round_nearest_even(operand: Any) -> Tensor:
    """The nearest whole number; halves go to the even one.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.round_nearest_even(ops.constant([0.5, 1.5, -2.5]))
    Tensor([ 0.,  2., -2.], f32[3])
    """
    result: Tensor = bind(round_nearest_even_op, operand)
    return result


not_op: Op = unary(
    "not", "stablehlo.not", section="Not", dtypes=LOGICAL,
    kernel=kernels.not_, ad=zero,
)  # fmt: skip


def not_(operand: Any) -> Tensor:
    """Every bit inverted; of truth values the opposite.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.not_(ops.constant([True, False]))
    Tensor([False,  True], pred[2])
    """
    result: Tensor = bind(not_op, operand)
    return result


def _population_of_signed_nibbles(x: Any) -> Any:
    bits = bind(lookup("bitcast_convert_type"), x, dtype=as_dtype("u4"))
    return bind(lookup("bitcast_convert_type"), bind(population_count_op, bits), dtype=x.dtype)


def _write_population_count(writer: Any, instruction: Any) -> None:
    # XLA on the CPU counts the extended sign of an s4 along.
    if instruction.results[0].spec.dtype.name == "s4":
        writer.composed(instruction, _population_of_signed_nibbles)
    else:
        writer.line("stablehlo.popcnt", instruction)


population_count_op: Op = unary(
    "population_count", Hlo("stablehlo.popcnt", write=_write_population_count),
    section="PopulationCount", dtypes=INTEGER, kernel=kernels.popcnt, ad=zero,
)  # fmt: skip


def population_count(operand: Any) -> Tensor:
    """The number of bits that are 1.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.population_count(ops.constant([0, 7, -1]))
    Tensor([ 0,  3, 32], s32[3])
    """
    result: Tensor = bind(population_count_op, operand)
    return result


clz_op: Op = unary(
    "clz", "stablehlo.count_leading_zeros", section="Clz", dtypes=INTEGER,
    kernel=kernels.count_leading_zeros, ad=zero,
)  # fmt: skip


def clz(operand: Any) -> Tensor:
    """The number of zero bits above the highest 1; the width for 0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.clz(ops.constant([0, 1, -1]))
    Tensor([32, 31,  0], s32[3])
    """
    result: Tensor = bind(clz_op, operand)
    return result


is_finite_op: Op = unary(
    "is_finite", "stablehlo.is_finite", section="IsFinite", dtypes=FLOAT,
    kernel=kernels.is_finite, ad=zero, result=lambda d: "pred",
)  # fmt: skip


def is_finite(operand: Any) -> Tensor:
    """Whether the operand is neither infinite nor nan.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.is_finite(ops.constant([1.0, float("inf")]))
    Tensor([ True, False], pred[2])
    """
    result: Tensor = bind(is_finite_op, operand)
    return result


# --- elementary functions ------------------------------------------------------------------------

exp_op: Op = unary(
    "exp", accurate_hlo("exp", "stablehlo.exponential"), section="Exp", dtypes=INEXACT,
    kernel=kernels.exponential, derivative=lambda x, y: y, check=check_accuracy,
)  # fmt: skip


def exp(operand: Any, result_accuracy: Any = None) -> Tensor:
    """Euler's number to the power of the operand.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.exp(ops.constant([0.0, 1.0]))
    Tensor([1.       , 2.7182817], f32[2])
    """
    result: Tensor = bind(exp_op, operand, **accuracy(result_accuracy, "exp"))
    return result


expm1_op: Op = unary(
    "expm1", accurate_hlo("expm1", "stablehlo.exponential_minus_one"), section="Expm1", dtypes=INEXACT,
    kernel=kernels.exponential_minus_one, derivative=lambda x, y: exp(x), check=check_accuracy,
)  # fmt: skip


def expm1(operand: Any, result_accuracy: Any = None) -> Tensor:
    """Euler's number to the power of the operand, less 1, exact near 0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.expm1(ops.constant([0.0, 1e-6]))
    Tensor([0.0000000e+00, 1.0000005e-06], f32[2])
    """
    result: Tensor = bind(expm1_op, operand, **accuracy(result_accuracy, "expm1"))
    return result


log_op: Op = unary(
    "log", accurate_hlo("log", "stablehlo.log"), section="Log", dtypes=INEXACT,
    kernel=kernels.log, ad=elementwise(lambda g, x, y: div(g, x)), check=check_accuracy,
)  # fmt: skip


def log(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The natural logarithm: -inf for 0, nan for negative reals.

    On the CPU XLA takes subnormal numbers for zeros here.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.log(ops.constant([1.0, 0.0, -1.0]))
    Tensor([  0., -inf,  nan], f32[3])
    """
    result: Tensor = bind(log_op, operand, **accuracy(result_accuracy, "log"))
    return result


log1p_op: Op = unary(
    "log1p", accurate_hlo("log1p", "stablehlo.log_plus_one"), section="Log1p", dtypes=INEXACT,
    kernel=kernels.log_plus_one,
    ad=elementwise(lambda g, x, y: div(g, add(x, constant_like(x, 1)))), check=check_accuracy,
)  # fmt: skip


def log1p(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The natural logarithm of 1 more than the operand, exact near 0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.log1p(ops.constant([0.0, 1e-6]))
    Tensor([0.000000e+00, 9.999995e-07], f32[2])
    """
    result: Tensor = bind(log1p_op, operand, **accuracy(result_accuracy, "log1p"))
    return result


logistic_op: Op = unary(
    "logistic", accurate_hlo("logistic", "stablehlo.logistic"), section="Logistic", dtypes=INEXACT,
    kernel=kernels.logistic, derivative=lambda x, y: mul(y, sub(constant_like(y, 1), y)), check=check_accuracy,
)  # fmt: skip


def logistic(operand: Any, result_accuracy: Any = None) -> Tensor:
    """1 / (1 + e^-x).

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.logistic(ops.constant([0.0, 100.0]))
    Tensor([0.5, 1. ], f32[2])
    """
    result: Tensor = bind(logistic_op, operand, **accuracy(result_accuracy, "logistic"))
    return result


rsqrt_op: Op = unary(
    "rsqrt", accurate_hlo("rsqrt", "stablehlo.rsqrt"), section="Rsqrt", dtypes=INEXACT,
    kernel=kernels.rsqrt, derivative=lambda x, y: div(mul(constant_like(y, -0.5), y), x), check=check_accuracy,
)  # fmt: skip


def rsqrt(operand: Any, result_accuracy: Any = None) -> Tensor:
    """One over the square root.

    On the CPU XLA takes subnormal numbers for zeros here.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.rsqrt(ops.constant([4.0, 0.0]))
    Tensor([0.5, inf], f32[2])
    """
    result: Tensor = bind(rsqrt_op, operand, **accuracy(result_accuracy, "rsqrt"))
    return result


sqrt_op: Op = unary(
    "sqrt", accurate_hlo("sqrt", "stablehlo.sqrt"), section="Sqrt", dtypes=INEXACT,
    kernel=kernels.sqrt, ad=elementwise(lambda g, x, y: div(mul(g, constant_like(y, 0.5)), y)), check=check_accuracy,
)  # fmt: skip


def sqrt(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The square root; nan for negative reals, the principal root of complex numbers.

    On the CPU XLA takes subnormal numbers for zeros here.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.sqrt(ops.constant([4.0, -1.0]))
    Tensor([ 2., nan], f32[2])
    """
    result: Tensor = bind(sqrt_op, operand, **accuracy(result_accuracy, "sqrt"))
    return result


def _complex_cbrt(z: Any) -> Any:
    """The principal cube root, in polar form."""
    x, y = bind(lookup("real"), z), bind(lookup("imag"), z)
    size = bind(cbrt_op, abs(z))
    angle = div(bind(lookup("atan2"), y, x), constant_like(x, 3))
    return bind(lookup("complex"), mul(size, cos(angle)), mul(size, sin(angle)))


cbrt_op: Op = unary(
    "cbrt", accurate_hlo("cbrt", "stablehlo.cbrt", _complex_cbrt), section="Cbrt", dtypes=INEXACT,
    kernel=kernels.cbrt,
    # No square is divided by, whose own derivative would be 0 times infinity at 0.
    ad=elementwise(lambda g, x, y: div(div(g, y), mul(constant_like(y, 3), y))), check=check_accuracy,
)  # fmt: skip


def cbrt(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The cube root; of complex numbers the principal one.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.cbrt(ops.constant([8.0, -8.0]))
    Tensor([ 2., -2.], f32[2])
    """
    result: Tensor = bind(cbrt_op, operand, **accuracy(result_accuracy, "cbrt"))
    return result


sin_op: Op = unary(
    "sin", accurate_hlo("sin", "stablehlo.sine"), section="Sin", dtypes=INEXACT,
    kernel=kernels.sine, derivative=lambda x, y: cos(x), check=check_accuracy,
)  # fmt: skip


def sin(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The sine of an angle in radians.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.sin(ops.constant([0.0, 1.0]))
    Tensor([0.        , 0.84147096], f32[2])
    """
    result: Tensor = bind(sin_op, operand, **accuracy(result_accuracy, "sin"))
    return result


cos_op: Op = unary(
    "cos", accurate_hlo("cos", "stablehlo.cosine"), section="Cos", dtypes=INEXACT,
    kernel=kernels.cosine, derivative=lambda x, y: neg(sin(x)), check=check_accuracy,
)  # fmt: skip


def cos(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The cosine of an angle in radians.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.cos(ops.constant([0.0, 1.0]))
    Tensor([1.       , 0.5403023], f32[2])
    """
    result: Tensor = bind(cos_op, operand, **accuracy(result_accuracy, "cos"))
    return result


tan_op: Op = unary(
    "tan", accurate_hlo("tan", "stablehlo.tan"), section="Tan", dtypes=INEXACT,
    kernel=kernels.tan, derivative=lambda x, y: add(constant_like(y, 1), mul(y, y)), check=check_accuracy,
)  # fmt: skip


def tan(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The tangent of an angle in radians.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.tan(ops.constant([0.0, 1.0]))
    Tensor([0.       , 1.5574077], f32[2])
    """
    result: Tensor = bind(tan_op, operand, **accuracy(result_accuracy, "tan"))
    return result


tanh_op: Op = unary(
    "tanh", accurate_hlo("tanh", "stablehlo.tanh"), section="Tanh", dtypes=INEXACT,
    kernel=kernels.tanh, derivative=lambda x, y: sub(constant_like(y, 1), mul(y, y)), check=check_accuracy,
)  # fmt: skip


def tanh(operand: Any, result_accuracy: Any = None) -> Tensor:
    """The hyperbolic tangent.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.tanh(ops.constant([0.0, 1.0]))
    Tensor([0.       , 0.7615942], f32[2])
    """
    result: Tensor = bind(tanh_op, operand, **accuracy(result_accuracy, "tanh"))
    return result


# --- size and sign --------------------------------------------------------------------------------


def _conj(z: Any) -> Any:
    return bind(lookup("conj"), z)


def _jvp_abs(operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    (x,), (t,) = operands, tangents
    if t is None:
        return (None,)
    slope = mul(t, _conj(sign(x)))  # d|z| = re(conj(z / |z|) dz)
    return (bind(lookup("real"), slope) if x.dtype.kind == "complex" else slope,)


def _vjp_abs(operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    (x,), (g,) = operands, cotangents
    return (mul(_widened(g, x), _conj(sign(x))),)


def _widened(g: Any, x: Any) -> Any:
    """A real cotangent as a complex one."""
    return g if g.dtype is x.dtype else bind(lookup("complex"), g, constant_like(g, 0))


abs_op: Op = unary(
    "abs", "stablehlo.abs", section="Abs", dtypes=SIGNED, kernel=kernels.abs_,
    ad=Rules(_jvp_abs, _vjp_abs), result=lambda d: d.real_part,
)  # fmt: skip


def abs(operand: Any) -> Tensor:
    """The absolute value; of complex numbers the modulus, a real number. The least integer stays itself.

    The derivative at 0 is 0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.abs(ops.constant([-1.5, 2.0]))
    Tensor([1.5, 2. ], f32[2])
    >>> ops.abs(ops.constant([3 + 4j]))
    Tensor([5.], f32[1])
    """
    result: Tensor = bind(abs_op, operand)
    return result


def _turning(x: Any, y: Any) -> Any:
    """1 / |z|, and 0 at 0, as a complex number: how fast the direction turns."""
    size = abs(x)
    still = compare(size, constant_like(size, 0), "EQ")
    inverse = div(constant_like(size, 1), select(still, constant_like(size, 1), size))
    return _widened(select(still, constant_like(size, 0), inverse), x)


def _jvp_sign(operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    (x,), (t,), (y,) = operands, tangents, outs
    if t is None or x.dtype.kind != "complex":
        return (None,)
    # d(z / |z|) = i s im(conj(s) dz) / |z| with s = z / |z|
    across = bind(lookup("imag"), mul(_conj(y), t))
    turn = bind(lookup("complex"), constant_like(across, 0), across)
    return (mul(mul(y, turn), _turning(x, y)),)


def _vjp_sign(operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any]) -> Any:
    (x,), (g,), (y,) = operands, cotangents, outs
    if x.dtype.kind != "complex":
        return (None,)
    across = bind(lookup("imag"), mul(g, y))
    turn = bind(lookup("complex"), constant_like(across, 0), across)
    return (mul(mul(_conj(y), turn), _turning(x, y)),)


sign_op: Op = unary(
    "sign", "stablehlo.sign", section="Sign", dtypes=SIGNED, kernel=kernels.sign,
    ad=Rules(_jvp_sign, _vjp_sign),
)  # fmt: skip


def sign(operand: Any) -> Tensor:
    """-1, 0 or 1; zeros keep their sign and nan stays nan. Of complex numbers z / abs(z), and 0 of 0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.sign(ops.constant([-1.5, -0.0, 2.0]))
    Tensor([-1., -0.,  1.], f32[3])
    """
    result: Tensor = bind(sign_op, operand)
    return result


document(
    ceil,
    floor,
    round_nearest_afz,
    round_nearest_even,
    not_,
    population_count,
    clz,
    is_finite,
    exp,
    expm1,
    log,
    log1p,
    logistic,
    rsqrt,
    sqrt,
    cbrt,
    sin,
    cos,
    tan,
    tanh,
    abs,
    sign,
)
