"""Complex elementary functions, accurate to a few ulp and right on the branch cuts.

complex64 is computed in complex128 and rounded once: numpy's own complex64 loops lose digits.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def in_complex128(function: Callable[..., Array]) -> Callable[..., Array]:
    """``function`` computed in complex128 and rounded to the dtype of its operand."""

    def wrapped(*operands: Array) -> Array:
        dtype = operands[0].dtype
        wide = function(*(np.asarray(x, np.complex128) for x in operands))
        return np.asarray(wide, dtype)

    wrapped.__name__ = function.__name__
    wrapped.__doc__ = function.__doc__
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


@in_complex128
def log1p(z: Array) -> Array:
    """``log(1 + z)``: the real part is ``log1p(x (x + 2) + y^2) / 2``."""
    x, y = z.real, z.imag
    near = (np.abs(x) < 0.5) & (np.abs(y) < 0.5)
    real = np.where(near, np.log1p(x * (x + 2) + y * y) / 2, np.log(np.hypot(1 + x, y)))
    return compose(real, np.arctan2(y, 1 + x))


@in_complex128
def rsqrt(z: Array) -> Array:
    """``1 / sqrt(z)``."""
    return 1 / np.sqrt(z)


@in_complex128
def logistic(z: Array) -> Array:
    """``1 / (1 + e^-z)``."""
    return 1 / (1 + np.exp(-z))


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
    return -1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y))
