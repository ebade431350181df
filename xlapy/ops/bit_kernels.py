"""Numpy kernels that work on the bits of their operands: shifts, counts, casts, neighbours.

Like every kernel here they take arrays (or numpy scalars), keep the dtype, and assume that numpy's
floating-point warnings are off (the interpreter wraps a whole run in one ``np.errstate``).
"""

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

# The integers narrower than a byte: one per byte in memory, computed in 8 bits and wrapped back.
NARROW_INT_BITS = {
    np.dtype(ml_dtypes.int2): 2,
    np.dtype(ml_dtypes.uint2): 2,
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
}
_SIGNED_NARROW = {np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.int4)}
_NARROW_FLOAT_BITS = {
    np.dtype(ml_dtypes.float4_e2m1fn): 4,
    np.dtype(ml_dtypes.float6_e2m3fn): 6,
    np.dtype(ml_dtypes.float6_e3m2fn): 6,
}
_FLOAT8_E8M0FNU = np.dtype(ml_dtypes.float8_e8m0fnu)
_FNUZ = {
    np.dtype(ml_dtypes.float8_e4m3fnuz),
    np.dtype(ml_dtypes.float8_e5m2fnuz),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}
_finfo: Any = ml_dtypes.finfo
# By bytes. Any: the checker joins the members of such a table to `object`.
_UNSIGNED: dict[int, Any] = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}
_SIGNED: dict[int, Any] = {n: np.dtype(f"i{n}") for n in (1, 2, 4, 8)}


def bit_width(dtype: np.dtype[Any]) -> int:
    """The bits of one element as XLA counts them (a bool has 8 in memory, 1 here)."""
    if dtype.kind == "b":
        return 1
    return NARROW_INT_BITS.get(dtype) or _NARROW_FLOAT_BITS.get(dtype) or 8 * dtype.itemsize


def is_signed(dtype: np.dtype[Any]) -> bool:
    """Whether an integer dtype is signed."""
    return dtype.kind == "i" or dtype in _SIGNED_NARROW


def widened(x: Array) -> Array:
    """``x`` in 8 bits if it is a sub-byte integer, else ``x``."""
    if x.dtype in NARROW_INT_BITS:
        return x.astype(np.int8 if x.dtype in _SIGNED_NARROW else np.uint8)
    return x


def bits_of(x: Array) -> Array:
    """The bits of each element, zero-extended, as an unsigned integer of its size in memory."""
    x = np.asarray(x)
    width = bit_width(x.dtype)
    if x.dtype in NARROW_INT_BITS:
        return widened(x).view(np.uint8) & np.uint8((1 << width) - 1)
    return x.view(_UNSIGNED[x.dtype.itemsize])


def from_bits(bits: Array, dtype: np.dtype[Any]) -> Array:
    """The inverse of `bits_of`."""
    if dtype in NARROW_INT_BITS:
        return bits.astype(dtype)
    return bits.view(dtype)


def shift_left(x: Array, y: Array) -> Array:
    """``x << y`` on the bits; 0 where ``y`` is outside [0, width)."""
    return _shift(x, y, np.left_shift, signed=False)


def shift_right_logical(x: Array, y: Array) -> Array:
    """``x >> y`` filling with zeros; 0 where ``y`` is outside [0, width)."""
    return _shift(x, y, np.right_shift, signed=False)


def shift_right_arithmetic(x: Array, y: Array) -> Array:
    """``x >> y`` filling with the sign bit, unsigned types too; all sign where ``y`` >= width."""
    return _shift(x, y, np.right_shift, signed=True)


def _shift(x: Array, y: Array, shift: np.ufunc, *, signed: bool) -> Array:
    dtype, width = x.dtype, bit_width(x.dtype)
    count = bits_of(y)  # as unsigned, so a negative count is a large one
    bits = bits_of(x)
    top = count.dtype.type(width - 1)
    if signed:
        extra = 8 * bits.dtype.itemsize - width  # unused high bits of a sub-byte element
        signed_type = _SIGNED[bits.dtype.itemsize]
        value = (bits << bits.dtype.type(extra)).view(signed_type) >> signed_type.type(extra)
        moved = np.asarray(shift(value, np.minimum(count, top).astype(signed_type)))
        return from_bits(moved.view(bits.dtype), dtype)
    moved = np.asarray(shift(bits, np.minimum(count, top)))
    return from_bits(np.where(count > top, bits.dtype.type(0), moved), dtype)


def popcnt(x: Array) -> Array:
    """The number of bits that are 1."""
    return np.bitwise_count(bits_of(x)).astype(x.dtype)


def count_leading_zeros(x: Array) -> Array:
    """The number of zero bits above the highest 1; the width for 0."""
    bits = bits_of(x)
    # Smearing the highest 1 downwards leaves width - clz ones.
    for step in (1, 2, 4, 8, 16, 32):
        if step < 8 * bits.dtype.itemsize:
            bits = bits | (bits >> bits.dtype.type(step))
    return (bit_width(x.dtype) - np.bitwise_count(bits)).astype(x.dtype)


def mulhi(x: Array, y: Array) -> Array:
    """The upper half of the product of double width."""
    dtype, width = x.dtype, bit_width(x.dtype)
    signed = is_signed(dtype)
    if width < 64:
        wide = np.int64 if signed else np.uint64
        product = np.multiply(x.astype(wide), y.astype(wide))
        return np.asarray(product >> wide(width)).astype(dtype)
    # 64 bits: schoolbook with 32-bit halves. No sum below overflows: (2^32-1)^2 + 2(2^32-1) < 2^64.
    a, b = bits_of(x), bits_of(y)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    carry = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> half) + (carry >> half)
    if signed:  # each negative factor was read as itself + 2^64
        zero = np.uint64(0)
        high = high - np.where(x < 0, b, zero) - np.where(y < 0, a, zero)
    return np.asarray(high).view(dtype)


def next_after(x: Array, y: Array) -> Array:
    """The neighbour of ``x`` in the direction of ``y``; ``y`` if they are equal."""
    # numpy's float16 loop gives x, which differs for zeros of different sign.
    return np.where(x == y, y, np.nextafter(x, y))


def total_order_key(x: Array) -> Array:
    """Integers in the order -nan < -inf < -0 < +0 < inf < nan."""
    x = np.asarray(x)
    if x.dtype == _FLOAT8_E8M0FNU:  # no sign; nan is the largest pattern
        return x.view(np.uint8)
    signed: Any = _SIGNED[x.dtype.itemsize]
    bits = x.view(signed)
    if x.dtype in _NARROW_FLOAT_BITS:  # the sign to the top of the byte
        bits = bits << signed.type(8 - bit_width(x.dtype))
    # Negative floats order the other way round: flip all bits but the sign.
    most = signed.type(np.iinfo(signed).max)
    key: Array = np.where(bits < 0, bits ^ most, bits)
    if x.dtype in _FNUZ:  # the only nan has the bits of -0, and orders as -nan: below them all
        key = np.where(bits == ~most, np.int16(-129), key.astype(np.int16))
    return key


def reduce_precision(x: Array, *, exponent_bits: int, mantissa_bits: int) -> Array:
    """``x`` rounded to a float format of these sizes and back (nearest even, overflow to inf)."""
    x = np.asarray(x)
    dtype: Any = x.dtype
    if dtype.itemsize == 1:  # as XLA, in float16; float8_e8m0fnu has more range than that
        wider = np.float32 if dtype == _FLOAT8_E8M0FNU else np.float16
        wide = reduce_precision(
            x.astype(wider), exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
        )
        return wide.astype(dtype)
    info: Any = _finfo(dtype)
    unsigned: Any = _UNSIGNED[dtype.itemsize].type
    width, nmant = 8 * dtype.itemsize, int(info.nmant)
    nexp = width - 1 - nmant
    bits = x.view(unsigned)
    sign = unsigned(1 << (width - 1))
    exponent_mask = unsigned(((1 << nexp) - 1) << nmant)
    if mantissa_bits < nmant:
        dropped = nmant - mantissa_bits
        last = (bits >> unsigned(dropped)) & unsigned(1)
        bits = bits + (unsigned((1 << (dropped - 1)) - 1) + last)
        bits = bits & unsigned(~((1 << dropped) - 1) & ((1 << width) - 1))
    if exponent_bits < nexp:
        bias, reduced_bias = (1 << (nexp - 1)) - 1, (1 << (exponent_bits - 1)) - 1
        exponent = bits & exponent_mask
        too_large = exponent > unsigned((bias + reduced_bias) << nmant)
        too_small = exponent <= unsigned((bias - reduced_bias) << nmant)
        signs = bits & sign
        bits = np.where(too_large, signs | exponent_mask, bits)
        bits = np.where(too_small, signs, bits)
    # The rounding may carry a nan into inf; XLA keeps it, whatever mantissa_bits is.
    return np.where(np.isnan(x), x, np.asarray(bits).view(dtype))


def bitcast_convert(x: Array, dtype: Any) -> Array:
    """The same bits as another type; between widths the last dimension appears or goes.

    The first element of the narrower type holds the low bits.
    """
    x, target = np.ascontiguousarray(x).reshape(np.shape(x)), np.dtype(dtype)
    shape: tuple[int, ...] = x.shape
    old, new = bit_width(x.dtype), bit_width(target)
    if old == new:
        if x.dtype in NARROW_INT_BITS or target in NARROW_INT_BITS:
            return _from_nibbles(_to_nibbles(x), target)
        return x.view(target)
    if old >= 8 and new >= 8:
        return x[..., None].view(target) if old > new else x.view(target)[..., 0]
    if old > new:  # unpack bytes (or nibbles) into smaller pieces
        pieces = _to_nibbles(x) if old < 8 else x[..., None].view(np.uint8)
        per = min(old, 8) // new
        shifts = np.arange(per, dtype=np.uint8) * np.uint8(new)
        split = (pieces[..., None] >> shifts) & np.uint8((1 << new) - 1)
        return _from_nibbles(split.reshape(*shape, old // new), target)
    pieces = _to_nibbles(x)
    per = min(new, 8) // old
    shifts = np.arange(per, dtype=np.uint8) * np.uint8(old)
    grouped = pieces.reshape(*shape[:-1], shape[-1] // per, per)
    packed = np.asarray(np.bitwise_or.reduce(grouped << shifts, axis=-1))
    if new < 8:
        return _from_nibbles(packed[..., 0], target)
    values: Array = np.ascontiguousarray(packed).view(target)[..., 0]
    return values


def _to_nibbles(x: Array) -> Array:
    if x.dtype in NARROW_INT_BITS:
        return bits_of(x)
    return x.view(np.uint8) & np.uint8((1 << bit_width(x.dtype)) - 1)


def _from_nibbles(bits: Array, dtype: np.dtype[Any]) -> Array:
    if dtype in NARROW_INT_BITS:
        return bits.astype(dtype)
    return bits.view(dtype)
