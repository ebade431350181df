"""Special functions of float64 arrays, accurate to a few ulp."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_vec: Any = np.vectorize


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_vec(math.erf, otypes=[float])(x))


def erfc(x: Array) -> Array:
    """``1 - erf(x)``."""
    return np.asarray(_vec(math.erfc, otypes=[float])(x))


def erf_inv(x: Array) -> Array:
    """The inverse of erf."""
    w = -np.log1p(-x * x)
    y = np.copysign(np.sqrt(np.maximum(w, 0)), x)
    for _ in range(60):
        y = y - (erf(y) - x) / (2 / np.sqrt(np.pi) * np.exp(-y * y))
    return np.where(np.abs(x) == 1, x * np.inf, y)


def lgamma(x: Array) -> Array:
    """``log |Gamma(x)|``."""

    def one(v: float) -> float:
        if v <= 0 and v == math.floor(v):
            return math.inf
        return math.lgamma(v)

    return np.asarray(_vec(one, otypes=[float])(x))


def digamma(x: Array) -> Array:
    """The derivative of lgamma."""
    reflect = x < 0.5
    z = np.where(reflect, 1 - x, x)
    r = np.zeros_like(z)
    for _ in range(10):
        small = z < 10
        r = np.where(small, r - 1 / z, r)
        z = np.where(small, z + 1, z)
    i = 1 / (z * z)
    r = (
        r
        + np.log(z)
        - 0.5 / z
        - i * (1 / 12 - i * (1 / 120 - i * (1 / 252 - i * (1 / 240 - i / 132))))
    )
    return np.where(reflect, r - np.pi / np.tan(np.pi * x), r)


def zeta(x: Array, q: Array) -> Array:
    """``sum over k >= 0 of (q + k)^-x``."""
    s = np.zeros(np.broadcast(x, q).shape)
    for k in range(12):
        s = s + (q + k) ** -x
    n = q + 12
    s = s + n ** (1 - x) / (x - 1) + n**-x / 2
    t = x * n ** (-x - 1)
    for k, b in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160)):
        s = s + b * t
        t = t * (x + 2 * k + 1) * (x + 2 * k + 2) / (n * n)
    return np.where(x == 1, np.inf, np.where(x < 1, np.nan, s))


def polygamma(n: Array, x: Array) -> Array:
    """The n-th derivative of digamma."""
    sign = np.where(np.mod(n, 2) == 0, -1.0, 1.0)
    higher = sign * np.exp(lgamma(n + 1)) * zeta(n + 1, x)
    return np.where(n == 0, digamma(x), higher)


def bessel_i1e(x: Array) -> Array:
    """``e^-|x| I1(x)``."""
    t = (np.arange(200) + 0.5) * (np.pi / 200)
    a = np.abs(x)[..., None]
    r = np.mean(np.exp(a * (np.cos(t) - 1)) * np.cos(t), axis=-1)
    return np.copysign(r, x)
