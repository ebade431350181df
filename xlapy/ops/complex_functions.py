"""Complex elementary functions, accurate to a few ulp and right on the branch cuts.

complex64 is computed in complex128 and rounded once: numpy's own complex64 loops lose digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def in_complex128(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` computed in complex128 and rounded to the dtype of its operand."""

    def wrapped(*operands: Array) -> Array:
        dtype = operands[0].dtype
        wide = function(*(np.asarray(x, np.complex128) for x in operands))
        return np.asarray(wide).astype(dtype, copy=False)

    wrapped.__name__ = function.__name__
    wrapped.__doc__ = f"``{function.__name__}`` of complex numbers, rounded once."
    return wrapped


def compose(real: Array, imag: Array) -> Array:
    """``real + i imag`` without arithmetic, so that signs of zero, inf and nan survive."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    result.real = real
    result.imag = imag
    return result


exp = in_complex128(np.exp)
log = in_complex128(np.log)
sqrt = in_complex128(np.sqrt)
sin = in_complex128(np.sin)
cos = in_complex128(np.cos)
tan = in_complex128(np.tan)
sinh = in_complex128(np.sinh)
cosh = in_complex128(np.cosh)
tanh = in_complex128(np.tanh)
asin = in_complex128(np.arcsin)
acos = in_complex128(np.arccos)
atan = in_complex128(np.arctan)
asinh = in_complex128(np.arcsinh)
acosh = in_complex128(np.arccosh)
atanh = in_complex128(np.arctanh)


@in_complex128
def expm1(z: Array) -> Array:
    """``e^z - 1 = expm1(x) cos(y) - 2 sin(y/2)^2 + i e^x sin(y)``."""
    x, y = z.real, z.imag
    half = np.sin(y / 2)
    real = np.expm1(x) * np.cos(y) - 2 * half * half
    imag = np.where(y == 0, y, np.exp(x) * np.sin(y))
    return compose(real, imag)


def _exact_square(x: Array) -> tuple[Array, Array]:
    """``x^2`` as a float and its rounding error (Dekker), for moderate ``x``."""
    high = x * 134217729.0  # 2^27 + 1: high gets the upper half of the bits of x
    high = high - (high - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2 * high * low) + low * low


def _exact_sum(x: Array, y: Array) -> tuple[Array, Array]:
    """``x + y`` as a float and its rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@in_complex128
def log1p(z: Array) -> Array:
    """``log(1 + z)``: near 0 the real part is ``log1p(2x + x^2 + y^2) / 2``."""
    x, y = z.real, z.imag
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.9)
    # The three terms cancel on the circle |1 + z| = 1, so they are summed with their errors.
    a, b = np.where(near, x, 0.0), np.where(near, y, 0.0)
    square, error = _exact_square(b)
    square_a, error_a = _exact_square(a)
    total, error_1 = _exact_sum(2 * a, square)
    total, error_2 = _exact_sum(total, square_a)
    grown = total + (error + error_a + error_1 + error_2)
    far = np.log(1 + z)
    return compose(np.where(near, np.log1p(grown) / 2, far.real), np.arctan2(y, 1 + x))


def _reciprocal(z: Array) -> Array:
    """``1 / z``; 0 for every infinite ``z``, inf + i nan for 0."""
    size = np.hypot(z.real, z.imag)
    real, imag = z.real / size / size, -z.imag / size / size
    zero = np.isinf(size)
    real = np.where(zero, np.copysign(0.0, z.real), np.where(size == 0, np.inf, real))
    imag = np.where(zero, np.copysign(0.0, -z.imag), imag)
    return compose(real, imag)


@in_complex128
def rsqrt(z: Array) -> Array:
    """``1 / sqrt(z)``."""
    return _reciprocal(np.sqrt(z))


@in_complex128
def logistic(z: Array) -> Array:
    """``1 / (1 + e^-z)``."""
    e = np.exp(-z)
    return _reciprocal(compose(1 + e.real, e.imag))  # 1 + e would lose an imaginary -0


@in_complex128
def sign(z: Array) -> Array:
    """``z / |z|``; 0 stays 0."""
    size = np.abs(z)
    return np.where(size == 0, z, compose(z.real / size, z.imag / size))


@in_complex128
def cbrt(z: Array) -> Array:
    """The principal cube root, ``e^(log(z) / 3)``."""
    root, angle = np.cbrt(np.abs(z)), np.angle(z) / 3
    return compose(root * np.cos(angle), root * np.sin(angle))


@in_complex128
def power(x: Array, y: Array) -> Array:
    """``e^(y log x)``."""
    return np.asarray(np.power(x, y))


@in_complex128
def atan2(y: Array, x: Array) -> Array:
    """``-i log((x + i y) / sqrt(x^2 + y^2))``."""
    angle = compose(x.real - y.imag, x.imag + y.real) / np.sqrt(x * x + y * y)
    logarithm = np.log(angle)
    return compose(logarithm.imag, -logarithm.real)


def divide(x: Array, y: Array) -> Array:
    """``x / y`` with the infinities and zeros of C's Annex G."""
    result = np.divide(x, y)
    if np.isfinite(result).all():
        return result
    a, b, c, d = x.real, x.imag, y.real, y.imag

    def unit(v: Array, infinite: Array) -> Array:
        """The direction of an infinite operand: ±1 for an infinite part, ±0 for the other."""
        return np.where(infinite, np.copysign(np.where(np.isinf(v), 1, 0).astype(v.dtype), v), v)

    infinite_x, infinite_y = np.isinf(a) | np.isinf(b), np.isinf(c) | np.isinf(d)
    zero_y = (c == 0) & (d == 0)
    finite_x, finite_y = np.isfinite(a) & np.isfinite(b), np.isfinite(c) & np.isfinite(d)
    scale = np.where(infinite_x, np.inf, 0.0).astype(a.dtype)
    p, q = unit(a, infinite_x), unit(b, infinite_x)
    r, s = unit(c, infinite_y), unit(d, infinite_y)
    real, imag = scale * (p * r + q * s), scale * (q * r - p * s)
    pole = np.copysign(np.asarray(np.inf, a.dtype), c)
    undefined = np.isnan(result.real) & np.isnan(result.imag)
    repair = undefined & ((infinite_x & finite_y) | (infinite_y & finite_x)) & ~zero_y
    return compose(
        np.where(zero_y, pole * a, np.where(repair, real, result.real)),
        np.where(zero_y, pole * b, np.where(repair, imag, result.imag)),
    )
