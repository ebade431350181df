"""Numpy kernels of the elementwise ops: ``kernel(x[, y]) -> array`` of the operands' dtype.

Operands have one dtype and broadcast as in numpy. Values at the edges (division by zero,
overflow, nan, signed zeros) are those of XLA on CPU. Numpy's floating-point warnings are expected
to be off: the interpreter wraps a whole run in one ``np.errstate(all="ignore")``, because doing it
here would cost more than a small operation. For the same reason the hot kernels are the bare
numpy ufuncs; results of rank 0 may be numpy scalars.

Floats narrower than 32 bits are computed in float32 and rounded once.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import ml_dtypes
import numpy as np

from xlapy import rounding
from xlapy.ops import complex_functions, special_functions
from xlapy.ops.bit_kernels import (
    NARROW_INT_BITS,
    bit_width,
    bitcast_convert,
    bits_of,
    count_leading_zeros,
    is_signed,
    mulhi,
    next_after,
    popcnt,
    reduce_precision,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    total_order_key,
    widened,
)

__all__ = [
    "abs_", "acos", "acosh", "add", "and_", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i1e", "bitcast_convert", "cbrt", "ceil", "clamp", "compare", "complex_", "conj",
    "convert", "cosh", "cosine", "count_leading_zeros", "digamma", "divide", "erf", "erf_inv",
    "erfc", "exponential", "exponential_minus_one", "floor", "imag", "is_finite", "is_inf",
    "is_neg_inf", "is_pos_inf", "lgamma", "log", "log_plus_one", "logistic", "maximum",
    "minimum", "mulhi", "multiply", "negate", "next_after", "not_", "or_", "polygamma", "popcnt",
    "power", "real", "reduce_precision", "remainder", "round_nearest_afz", "round_nearest_even",
    "rsqrt", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign",
    "sine", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "xor", "zeta",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Direction = Literal["EQ", "NE", "LT", "LE", "GT", "GE"]


def _in_float32(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A formula of several steps, which narrower floats take in float32."""

    def kernel(x: Array) -> Array:
        if x.dtype.itemsize < 4:
            return function(x.astype(np.float32)).astype(x.dtype)
        return function(x)

    return kernel


# --- two operands ------------------------------------------------------------------------------

add = np.add  # on bools: or
multiply = np.multiply  # on bools: and


def subtract(x: Array, y: Array) -> Array:
    """``x - y``."""
    if x.dtype.kind == "b":
        return np.not_equal(x, y)
    return np.subtract(x, y)


def _by_float32(ufunc: Any, x: Array, y: Array) -> Array:
    """A ufunc on floats of 16 bits and fewer: numpy's float32 loops are the fast ones."""
    return np.asarray(ufunc(x.astype(np.float32), y.astype(np.float32))).astype(x.dtype)


def divide(x: Array, y: Array) -> Array:
    """``x / y``; integers truncate, ``x / 0`` is all ones, ``MIN / -1`` is ``MIN``."""
    kind = x.dtype.kind
    if kind == "f":
        return np.divide(x, y)
    if kind in "iu" or x.dtype in NARROW_INT_BITS:
        return _integer_divide(x, y)
    if kind == "c":
        return complex_functions.divide(x, y)
    return _by_float32(np.divide, x, y)


def _integer_divide(x: Array, y: Array) -> Array:
    dtype = x.dtype
    x, y = widened(x), widened(y)
    zero = y == 0
    if np.count_nonzero(zero):
        quotient = _integer_divide(x, np.where(zero, y.dtype.type(1), y))
        quotient = np.where(zero, np.invert(y.dtype.type(0)), quotient)
    else:
        quotient = np.floor_divide(x, y)
        if is_signed(x.dtype) and (x.min(initial=0) < 0 or y.min(initial=0) < 0):
            # floor -> truncate: one more where the division is inexact and the signs differ
            quotient = quotient + ((quotient * y != x) & ((x < 0) != (y < 0)))
    return np.asarray(quotient).astype(dtype, copy=False)


def remainder(x: Array, y: Array) -> Array:
    """The rest of truncating division, with the sign of ``x``; ``x % 0`` is ``x`` on integers."""
    if x.dtype.kind in "iu" or x.dtype in NARROW_INT_BITS:
        a, b = widened(x), widened(y)
        zero = b == 0
        rest = np.fmod(a, np.where(zero, b.dtype.type(1), b))
        return np.where(zero, a, rest).astype(x.dtype)
    return _by_float32(np.fmod, x, y) if x.dtype.kind == "V" else np.fmod(x, y)


def power(x: Array, y: Array) -> Array:
    """``x ** y``; a negative exponent of an integer gives 0 unless ``x`` is 1 or -1."""
    kind = x.dtype.kind
    if kind == "f":
        return _float_power(x, y)
    if kind == "c":
        return complex_functions.power(x, y)
    if kind in "iu" or x.dtype in NARROW_INT_BITS:
        return _integer_power(x, y)
    return _by_float32(_float_power, x, y)


def _float_power(x: Array, y: Array) -> Array:
    """``x ** y``; for one exponent of 1/2 numpy takes a square root, which is another function of -inf and -0."""
    result: Array = np.power(x, y)
    apart = (y == 0.5) & ((x == 0) | (x == -np.inf))
    return np.where(apart, np.abs(x), result) if apart.any() else result


def _integer_power(x: Array, y: Array) -> Array:
    dtype = x.dtype
    base, exponent = np.broadcast_arrays(widened(x), bits_of(y))
    first, one, zero = base, base.dtype.type(1), base.dtype.type(0)
    result = np.full(base.shape, one)
    for bit in range(6):  # as XLA: only the low 6 bits of the exponent count
        odd = (exponent >> exponent.dtype.type(bit)) & exponent.dtype.type(1)
        result = np.where(odd != 0, result * base, result)
        base = base * base
    # As XLA, an exponent with the top bit set is negative in the unsigned types of whole bytes too.
    if is_signed(dtype) or dtype not in NARROW_INT_BITS:
        negative = exponent >= exponent.dtype.type(1 << (bit_width(dtype) - 1))
    else:
        negative = np.zeros(exponent.shape, bool)
    odd = exponent & exponent.dtype.type(1)
    minus_one = np.invert(zero)
    alternating = np.where(odd != 0, minus_one, one)
    inverse = np.where(first == one, one, np.where(first == minus_one, alternating, zero))
    return np.where(negative, inverse, result).astype(dtype)


def maximum(x: Array, y: Array) -> Array:
    """The larger; nan if either is nan; +0.0 is larger than -0.0."""
    kind = x.dtype.kind
    if kind in "biu":
        return np.maximum(x, y)
    if x.dtype in NARROW_INT_BITS:
        return np.maximum(widened(x), widened(y)).astype(x.dtype)
    if kind == "V":
        return _by_float32(maximum, x, y)
    result = np.maximum(x, y)
    if kind != "c":
        tie = np.equal(x, y)
        if np.count_nonzero(tie):
            tie = tie & np.equal(result, 0)
            if np.count_nonzero(tie):  # numpy takes either zero; (-0) + (+0) = +0
                result = np.where(tie, x + y, result)
    return result


def minimum(x: Array, y: Array) -> Array:
    """The smaller; nan if either is nan; -0.0 is smaller than +0.0."""
    kind = x.dtype.kind
    if kind in "biu":
        return np.minimum(x, y)
    if x.dtype in NARROW_INT_BITS:
        return np.minimum(widened(x), widened(y)).astype(x.dtype)
    if kind == "V":
        return _by_float32(minimum, x, y)
    result = np.minimum(x, y)
    if kind != "c":
        tie = np.equal(x, y)
        if np.count_nonzero(tie):
            tie = tie & np.equal(result, 0)
            if np.count_nonzero(tie):  # numpy takes either zero; -(-(+0) - (-0)) = -0
                result = np.where(tie, -(-x - y), result)
    return result


def atan2(y: Array, x: Array) -> Array:
    """The angle of ``x + i y``."""
    if x.dtype.kind == "c":
        return complex_functions.atan2(y, x)
    return _by_float32(np.arctan2, y, x) if x.dtype.kind == "V" else np.arctan2(y, x)


def complex_(x: Array, y: Array) -> Array:
    """``x + i y``."""
    return complex_functions.compose(x, y)


def _bitwise(ufunc: np.ufunc) -> Callable[[Array, Array], Array]:
    def kernel(x: Array, y: Array) -> Array:
        if x.dtype in NARROW_INT_BITS:
            return np.asarray(ufunc(widened(x), widened(y))).astype(x.dtype)
        return ufunc(x, y)  # type: ignore[no-any-return]

    return kernel


and_ = _bitwise(np.bitwise_and)
or_ = _bitwise(np.bitwise_or)
xor = _bitwise(np.bitwise_xor)

_COMPARISONS: dict[str, np.ufunc] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def compare(
    x: Array, y: Array, *, direction: Direction, compare_type: str | None = None
) -> np.ndarray[Any, np.dtype[np.bool]]:
    """A comparison; TOTALORDER has -nan < -inf < -0 < +0 < inf < nan."""
    if compare_type == "TOTALORDER":
        x, y = total_order_key(x), total_order_key(y)
    elif x.dtype.kind == "V" and x.dtype not in NARROW_INT_BITS:
        x, y = x.astype(np.float32), y.astype(np.float32)
    return _COMPARISONS[direction](x, y)  # type: ignore[no-any-return]


#: arrays of fewer elements are not worth a detour
_SMALL: Final = 1 << 12

# --- three operands ----------------------------------------------------------------------------


def clamp(lo: Array, x: Array, hi: Array) -> Array:
    """``min(max(lo, x), hi)``."""
    return minimum(maximum(lo, x), hi)


def select(pred: np.ndarray[Any, np.dtype[np.bool]], a: Array, b: Array) -> Array:
    """``a`` where ``pred`` holds, else ``b``."""
    if a.size < _SMALL or a.itemsize > 4 or pred.shape != a.shape:
        return np.where(pred, a, b)
    # The same without branches, which cost most where their outcome is random: b ^ ((a ^ b) & mask).
    kind = np.dtype(f"i{a.itemsize}")
    mask = np.negative(pred.view(np.int8)).astype(kind, copy=False)
    old = b.view(kind)
    bits: Array = np.bitwise_xor(a.view(kind), old)
    bits &= mask
    bits ^= old
    return bits.view(a.dtype)


# --- one operand: arithmetic -------------------------------------------------------------------


def negate(x: Array) -> Array:
    """``-x``."""
    if x.dtype in NARROW_INT_BITS:
        return np.negative(widened(x)).astype(x.dtype)
    return np.negative(x)


def abs_(x: Array) -> Array:
    """``|x|``, real for complex operands; the minimum of a signed integer stays itself."""
    if x.dtype in NARROW_INT_BITS:
        return np.absolute(widened(x)).astype(x.dtype)
    return np.absolute(x)


def sign(x: Array) -> Array:
    """-1, 0 or 1; keeps -0.0 and nan; ``z / |z|`` for complex operands."""
    if x.dtype.kind == "c":
        return complex_functions.sign(x)
    if x.dtype in NARROW_INT_BITS:
        return np.sign(widened(x)).astype(x.dtype)
    if x.dtype.kind in "iu":
        return np.sign(x)
    return _real_sign(x)


@_in_float32
def _real_sign(x: Array) -> Array:
    return np.copysign(np.sign(x), x)


def not_(x: Array) -> Array:
    """Every bit inverted; logical not for bools."""
    if x.dtype in NARROW_INT_BITS:
        return np.invert(widened(x)).astype(x.dtype)
    return np.invert(x)


def square(x: Array) -> Array:
    """``x * x``."""
    return np.multiply(x, x)


def conj(x: Array) -> Array:
    """The complex conjugate."""
    return np.conjugate(x)


def real(x: Array) -> Array:
    """The real part; a real operand itself."""
    return np.asarray(x.real) if x.dtype.kind == "c" else x


def imag(x: Array) -> Array:
    """The imaginary part; 0 for a real operand, nan where the type has no zero."""
    return np.asarray(x.imag) if x.dtype.kind == "c" else np.zeros(x.shape).astype(x.dtype)


# --- one operand: rounding and tests -----------------------------------------------------------

is_finite = np.isfinite
is_inf = np.isinf


@_in_float32
def round_nearest_afz(x: Array) -> Array:
    """The nearest integer, ties away from zero."""
    whole = np.asarray(np.trunc(x))
    up = np.abs(x - whole) >= 0.5
    np.abs(whole, out=whole)
    np.add(whole, up, out=whole)
    return np.asarray(np.copysign(whole, x))


def is_pos_inf(x: Array) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Whether ``x`` is +inf."""
    return np.isinf(x) & ~np.signbit(x)


def is_neg_inf(x: Array) -> np.ndarray[Any, np.dtype[np.bool]]:
    """Whether ``x`` is -inf."""
    return np.isinf(x) & np.signbit(x)


# --- one operand: elementary functions ---------------------------------------------------------


def _elementary(
    function: Callable[[Array], Array], complex_function: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """``function``, a numpy ufunc, on floats of every width, and the complex one beside it."""

    def kernel(x: Array) -> Array:
        kind = x.dtype.kind
        if kind == "f":
            return function(x)
        if kind == "c":
            return complex_function(x)
        return np.asarray(function(x.astype(np.float32))).astype(x.dtype)

    return kernel


@_in_float32
def _rsqrt(x: Array) -> Array:
    root = np.asarray(np.sqrt(x))
    np.reciprocal(root, out=root)
    return root


@_in_float32
def _logistic(x: Array) -> Array:
    """``1 / (1 + e^-x)``."""
    result = np.asarray(np.negative(x))
    np.exp(result, out=result)
    result += 1
    np.reciprocal(result, out=result)
    return result


floor = _elementary(np.floor, np.floor)
ceil = _elementary(np.ceil, np.ceil)
round_nearest_even = _elementary(np.rint, np.rint)
exponential = _elementary(np.exp, complex_functions.exp)
exponential_minus_one = _elementary(np.expm1, complex_functions.expm1)
log = _elementary(np.log, complex_functions.log)
log_plus_one = _elementary(np.log1p, complex_functions.log1p)
sqrt = _elementary(np.sqrt, complex_functions.sqrt)
rsqrt = _elementary(_rsqrt, complex_functions.rsqrt)
cbrt = _elementary(np.cbrt, complex_functions.cbrt)
logistic = _elementary(_logistic, complex_functions.logistic)
sine = _elementary(np.sin, complex_functions.sin)
cosine = _elementary(np.cos, complex_functions.cos)
tan = _elementary(np.tan, complex_functions.tan)
tanh = _elementary(np.tanh, complex_functions.tanh)
sinh = _elementary(np.sinh, complex_functions.sinh)
cosh = _elementary(np.cosh, complex_functions.cosh)
asin = _elementary(np.arcsin, complex_functions.asin)
acos = _elementary(np.arccos, complex_functions.acos)
atan = _elementary(np.arctan, complex_functions.atan)
asinh = _elementary(np.arcsinh, complex_functions.asinh)
acosh = _elementary(np.arccosh, complex_functions.acosh)
atanh = _elementary(np.arctanh, complex_functions.atanh)

# --- special functions: computed in float64, or in float32 where that is enough -----------------

_BLOCK = 1 << 14  # elements at a time: the many passes of a formula then stay in the cache


def _special(
    function: Callable[..., Array], single: Callable[..., Array] | None = None
) -> Callable[..., Array]:
    def compute(dtype: np.dtype[Any], *operands: Array) -> Array:
        if single is not None and dtype.itemsize <= 4:
            result = single(*(x.astype(np.float32, copy=False) for x in operands))
        else:
            result = function(*(x.astype(np.float64, copy=False) for x in operands))
        return np.asarray(result).astype(dtype, copy=False)

    def kernel(*operands: Array) -> Array:
        dtype = operands[0].dtype
        if operands[0].size <= _BLOCK:
            return compute(dtype, *operands)
        operands = np.broadcast_arrays(*operands)
        flat = [x.reshape(-1) for x in operands]
        result = np.empty(flat[0].shape, dtype)
        for start in range(0, result.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            result[block] = compute(dtype, *(x[block] for x in flat))
        return result.reshape(operands[0].shape)

    return kernel


erf = _special(special_functions.erf, special_functions.erf_float32)
erfc = _special(special_functions.erfc)
erf_inv = _special(special_functions.erf_inv)
lgamma = _special(special_functions.lgamma)
digamma = _special(special_functions.digamma)
polygamma = _special(special_functions.polygamma)
zeta = _special(special_functions.zeta)
bessel_i1e = _special(special_functions.bessel_i1e)

# --- conversion --------------------------------------------------------------------------------


def convert(x: Array, dtype: Any) -> Array:
    """``x`` in another type.

    Floats to integers truncate and saturate, nan gives 0; a complex source loses its imaginary
    part; integers to narrower ones wrap; to bool is ``x != 0``.
    """
    x, target = np.asarray(x), np.dtype(dtype)
    if x.dtype == target:
        return x
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    if target.kind == "b":
        return np.asarray(x != x.dtype.type(0))
    if x.dtype in NARROW_INT_BITS:
        return widened(x).astype(target)
    if (target.kind in "iu" or target in NARROW_INT_BITS) and x.dtype.kind not in "biu":
        return _float_to_integer(x, target)
    if target in _FROM_FLOAT32 or x.dtype in _FROM_FLOAT32:
        return _convert_rare(x, target)
    return rounding.astype(x, target)


def _float_to_integer(x: Array, target: np.dtype[Any]) -> Array:
    low, high = _INTEGER_RANGES[target]
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    if x.size and low <= x.min() and x.max() < high:  # false if there is a nan
        return x.astype(target)
    x = np.where(np.isnan(x), 0.0, x.astype(np.float64))
    # 2^63 - 1 and 2^64 - 1 are no float64, so the upper end is put in as an integer.
    wide: Any = np.dtype(np.uint64 if low == 0 else np.int64)
    above = x >= float(high)
    inside = np.where(above, 0.0, np.maximum(x, float(low))).astype(wide)
    return np.where(above, wide.type(high), inside).astype(target)


_iinfo: Any = ml_dtypes.iinfo
_INTEGER_RANGES: dict[np.dtype[Any], tuple[int, int]] = {
    dtype: (int(_iinfo(dtype).min), int(_iinfo(dtype).max))
    for dtype in (
        *NARROW_INT_BITS,
        *(np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)),
    )
}
_FLOAT4 = np.dtype(ml_dtypes.float4_e2m1fn)
_FROM_FLOAT32 = {_FLOAT4, np.dtype(ml_dtypes.float8_e8m0fnu)}


def _convert_rare(x: Array, target: np.dtype[Any]) -> Array:
    """To or from float4 and float8_e8m0fnu, which lack casts to the other narrow floats."""
    if x.dtype.kind not in "biu" and x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    result = rounding.astype(x, target)
    if target == _FLOAT4 and x.dtype.kind == "f":  # it has no nan: XLA gives -0
        return np.where(np.isnan(x), target.type(-0.0), result)
    return result
