"""Matrix products in numpy for every element type, through BLAS wherever it gives the exact result."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import ml_dtypes
import numpy as np

from xlapy.dtypes import DType, as_dtype

from .bit_kernels import NARROW_INT_BITS
from .elementwise_kernels import convert

__all__ = ["compute_dtype", "product", "product_dtype"]

Array = np.ndarray[Any, Any]

#: below so many multiplications numpy's own integer loop is the fastest
_SMALL: Final = 1 << 15
_EXACT: Final = 1 << 53  # integers up to this size are exact in float64
_HALF: Final = 16
#: so many multiplications BLAS does in one thread
_ONE_THREAD: Final = 1 << 19
#: matrices are thin where the two smaller of their three sizes have at most this product
_THIN: Final = 1 << 13


@functools.cache
def _precedence(dtype: DType) -> tuple[Any, ...]:
    part = dtype.real_part
    finfo: Any = ml_dtypes.finfo
    limits = finfo(part.numpy) if part.real else None
    return (
        dtype.kind == "complex",
        limits.maxexp if limits is not None else -math.inf,
        limits.nmant if limits is not None else -math.inf,
        dtype.bits,
        dtype.kind == "int",
    )


@functools.cache
def product_dtype(lhs: DType, rhs: DType) -> DType:
    """The element type in which XLA multiplies two: complex before real, the larger range, the wider, signed."""
    return max(lhs, rhs, key=_precedence)


@functools.cache
def compute_dtype(lhs: DType, rhs: DType, preferred: DType) -> DType:
    """The element type of the sums: a wider one than the result's stays until the end."""
    return product_dtype(product_dtype(lhs, rhs), preferred)


# --- products ------------------------------------------------------------------------------------


def product(x: Array, y: Array, dtype: DType) -> Array:
    """``x @ y`` computed in an element type; the last two dimensions are those of matrices.

    Parameters
    ----------
    x, y : array
        [..., m, k] and [..., k, n], of types that `dtype` holds.
    dtype : DType
        Floats of 16 bits and fewer are summed in float32.

    Returns
    -------
    array
        Of `dtype`, rounded once; integers modulo 2 to the number of bits.
    """
    if dtype.integer:
        return _of_integers(x, y, dtype)
    if dtype.kind == "bool":
        # Any product that is true; float32 counts exactly enough to be nonzero.
        counts: Array = _matmul(x.astype(np.float32), y.astype(np.float32))
        return counts > 0
    wide: Any = np.dtype(np.float32) if dtype.real and dtype.bits < 32 else dtype.numpy
    found = _matmul(convert(x, wide), convert(y, wide))
    return found if found.dtype == dtype.numpy else convert(found, dtype.numpy)


def _matmul(x: Array, y: Array) -> Array:
    """``x @ y`` of floats, that of long thin matrices in pieces.

    BLAS divides it among threads, which wait for each other several times; where other programs use the processors too,
    that can take a hundred times as long as the product. One thread is not slower where it does piece after piece.
    """
    (m, k), n = x.shape[-2:], y.shape[-1]
    longest = max(m, k, n)
    thickness = m * k * n // max(longest, 1)
    if thickness > _THIN or thickness * longest <= 2 * _ONE_THREAD:
        found: Array = np.matmul(x, y)
        return found
    size = _ONE_THREAD // thickness
    whole = longest - longest % size
    if longest == k:
        rest = np.matmul(x[..., whole:], y[..., whole:, :])
        pieces = np.matmul(_columns(x, whole, size), _rows(y, whole, size))
        total: Array = np.add.reduce(pieces, axis=-3)
        return np.add(total, rest, out=total)
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    made = np.empty((*lead, m, n), np.result_type(x, y))
    if longest == m:
        np.matmul(_rows(x, whole, size), y[..., None, :, :], out=_rows(made, whole, size))
        np.matmul(x[..., whole:, :], y, out=made[..., whole:, :])
    else:
        np.matmul(x[..., None, :, :], _columns(y, whole, size), out=_columns(made, whole, size))
        np.matmul(x, y[..., whole:], out=made[..., whole:])
    return made


def _rows(x: Array, count: int, size: int) -> Array:
    """The first rows of matrices as a stack of pieces, in place."""
    return x[..., :count, :].reshape((*x.shape[:-2], count // size, size, x.shape[-1]))


def _columns(x: Array, count: int, size: int) -> Array:
    """The first columns of matrices as a stack of pieces, in place."""
    return x[..., :count].reshape((*x.shape[:-1], count // size, size)).swapaxes(-3, -2)


def _of_integers(x: Array, y: Array, dtype: DType) -> Array:
    """Exact sums: in float64 where they fit its 53 bits, otherwise from 16-bit halves or in integers."""
    size, target = x.shape[-1], dtype.numpy
    bits = _bits(x), _bits(y)
    small = x.size * y.shape[-1] < _SMALL
    if not small and size << sum(bits) < _EXACT:
        return _wrapped(_matmul(x.astype(np.float64), y.astype(np.float64)), dtype)
    wide = np.dtype(np.int64)
    a, b = convert(x, wide), convert(y, wide)
    if not small and dtype.bits <= 32 and size << (2 * _HALF) < _EXACT:
        low_a, low_b = a & 0xFFFF, b & 0xFFFF
        # Only the lowest 32 bits of the sum count, so the halves need no sign.
        high_a, high_b = (a >> _HALF) & 0xFFFF, (b >> _HALF) & 0xFFFF
        fa, fb = low_a.astype(np.float64), low_b.astype(np.float64)
        low = _matmul(fa, fb).astype(np.int64)
        middle = _matmul(high_a.astype(np.float64), fb).astype(np.int64)
        middle += _matmul(fa, high_b.astype(np.float64)).astype(np.int64)
        return _wrapped_integers(low + (middle << _HALF), dtype)
    if small or dtype.bits == 64:
        return _wrapped_integers(np.matmul(a, b), dtype)
    summed: Array = np.matmul(a.astype(target), b.astype(target))
    return summed


def _bits(x: Array) -> int:
    return as_dtype(x.dtype).bits


def _wrapped(x: Array, dtype: DType) -> Array:
    return _wrapped_integers(x.astype(np.int64), dtype)


def _wrapped_integers(x: Array, dtype: DType) -> Array:
    if dtype.numpy in NARROW_INT_BITS:
        return convert(x, dtype.numpy)
    return x.astype(dtype.numpy)
