"""Random numbers from explicit keys.

A key is an array ``u32[2]``. The same key gives the same bits on every backend, under `compile`, in `vmap` and eagerly,
for they are computed with plain integer operations. There is no hidden state: draw from a key once, and derive others
with `split` or `fold_in`.

The algorithm is threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), a
bijection E(key, c0, c1) of pairs of 32-bit words for each key. What is drawn from a key ``k``:

- the stream of words: words ``2j`` and ``2j+1`` are ``E(k, j mod 2**32, j div 2**32)``, so that a shorter draw is the
  beginning of a longer one;
- `split`: the keys are ``E(k, i, 2**31)``;
- `fold_in`: ``E(k, data, 2**31 + 1)``.

The second words differ, so keys derived from a key have nothing in common with numbers drawn from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ConstraintError, DTypeError, ShapeError
from xlapy.numpy.creation import asarray, static_shape
from xlapy.numpy.promotion import as_tensor, broadcast_to_shape, call, convert, filled, inexact
from xlapy.specs import TensorSpec, as_axis, as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor

__all__ = [
    "bernoulli",
    "bits",
    "categorical",
    "choice",
    "exponential",
    "fold_in",
    "gumbel",
    "key",
    "normal",
    "permutation",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]

_U8, _U16, _U32, _U64, _S32, _F32, _F64, _PRED = (
    as_dtype(n) for n in ("u8", "u16", "u32", "u64", "s32", "f32", "f64", "pred")
)
_KEY: Final = TensorSpec((2,), _U32)
_SPLIT, _FOLD = 1 << 31, (1 << 31) + 1
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


# --- the bijection ------------------------------------------------------------------------------------------------


def _rotated(x: Tensor, by: int) -> Tensor:
    up = call("shift_left", x, filled(x, by))
    return call("or", up, call("shift_right_logical", x, filled(x, 32 - by)))


def _threefry(k: Tensor, c0: Tensor, c1: Tensor) -> tuple[Tensor, Tensor]:
    """E(k, c0, c1), element by element."""
    first, second = (call("reshape", _word(k, i), shape=()) for i in (0, 1))
    third = call("xor", call("xor", first, second), filled(first, 0x1BD11BDA))
    schedule = [broadcast_to_shape(w, c0.shape) for w in (first, second, third)]
    x, y = call("add", c0, schedule[0]), call("add", c1, schedule[1])
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x = call("add", x, y)
            y = call("xor", _rotated(y, by), x)
        x = call("add", x, schedule[(group + 1) % 3])
        y = call("add", y, call("add", schedule[(group + 2) % 3], filled(y, group + 1)))
    return x, y


def _word(k: Tensor, i: int) -> Tensor:
    return call("slice", k, start_indices=(i,), limit_indices=(i + 1,), strides=(1,))


def _checked_key(k: Any) -> Tensor:
    found = as_tensor(k)
    if found.spec is not _KEY:
        raise DTypeError(
            f"a key must be u32[2], as xlapy.random.key makes it; got {found.spec} [X1]\n"
            "  use vmap for several keys"
        )
    return found


def _words(k: Any, count: int) -> Tensor:
    """The first words of a key's stream."""
    k = _checked_key(k)
    blocks = -(-count // 2)
    if blocks <= 1 << 32:
        low = call("iota", shape=(blocks,), dtype=_U32, iota_dimension=0)
        high = filled(low, 0)
    else:
        wide = call("iota", shape=(blocks,), dtype=_U64, iota_dimension=0)
        low = convert(call("and", wide, filled(wide, (1 << 32) - 1)), _U32)
        high = convert(call("shift_right_logical", wide, filled(wide, 32)), _U32)
    pair = [call("reshape", w, shape=(blocks, 1)) for w in _threefry(k, low, high)]
    words = call("reshape", call("concatenate", *pair, dimension=1), shape=(2 * blocks,))
    if count == 2 * blocks:
        return words
    return call("slice", words, start_indices=(0,), limit_indices=(count,), strides=(1,))


def _bits(k: Any, shape: tuple[int, ...], width: int) -> Tensor:
    """Random unsigned integers of 8, 16, 32 or 64 bits: narrow ones are the top bits of a word each."""
    size = math.prod(shape)
    if width == 64:
        words = call("reshape", _words(k, 2 * size), shape=(size, 2))
        columns = [
            convert(
                call(
                    "slice",
                    words,
                    start_indices=(0, i),
                    limit_indices=(size, i + 1),
                    strides=(1, 1),
                ),
                _U64,
            )
            for i in (0, 1)
        ]
        high = call("shift_left", columns[1], filled(columns[1], 32))
        return call("reshape", call("or", columns[0], high), shape=shape)
    words = call("reshape", _words(k, size), shape=shape)
    if width == 32:
        return words
    top = call("shift_right_logical", words, filled(words, 32 - width))
    return convert(top, as_dtype(f"u{width}"))


# --- keys ---------------------------------------------------------------------------------------------------------


def key(seed: Any, /) -> Tensor:
    """The key of a seed.

    Parameters
    ----------
    seed : int or Tensor
        Any integer, taken modulo 2**64; or an integer scalar, which may be traced.

    Returns
    -------
    Tensor
        ``u32[2]``: the high and the low word of the seed.

    Examples
    --------
    >>> xlapy.random.key(42)
    Tensor([ 0, 42], u32[2])
    """
    if type(seed) is not Tensor:
        number = as_int(seed, "seed") % (1 << 64)
        return asarray(np.asarray([number >> 32, number & 0xFFFFFFFF], np.uint32))
    return _key_of(seed)


@composite(arrays=1, name="key")
def _key_of(seed: Any) -> Tensor:
    if not seed.dtype.integer or seed.ndim:
        raise DTypeError(f"a seed must be an integer scalar; got {seed.spec} [X1]")
    wide = convert(seed, _U64)
    words = [call("shift_right_logical", wide, filled(wide, 32)), wide]
    low = [convert(call("and", w, filled(w, 0xFFFFFFFF)), _U32) for w in words]
    return call("concatenate", *[call("reshape", w, shape=(1,)) for w in low], dimension=0)


def split(key: Any, num: int | Sequence[int] = 2, /) -> Tensor:
    """New keys from a key.

    Parameters
    ----------
    key : Tensor
    num : int or sequence of int
        How many, or the shape in which they are arranged.

    Returns
    -------
    Tensor
        ``u32[..., 2]``; iterate over it to get the keys.

    Examples
    --------
    >>> first, second = xlapy.random.split(xlapy.random.key(0))
    >>> first
    Tensor([..., ...], u32[2])
    """
    return _split(key, static_shape(num))


@composite(arrays=1)
def _split(k: Any, shape: tuple[int, ...]) -> Tensor:
    count = math.prod(shape)
    i = call("iota", shape=(count,), dtype=_U32, iota_dimension=0)
    pair = _threefry(_checked_key(k), i, filled(i, _SPLIT))
    columns = [call("reshape", w, shape=(count, 1)) for w in pair]
    return call("reshape", call("concatenate", *columns, dimension=1), shape=(*shape, 2))


def fold_in(key: Any, data: Any, /) -> Tensor:
    """A new key from a key and an integer, such as the number of a step or of a device.

    Parameters
    ----------
    key : Tensor
    data : int or Tensor
        An integer scalar, taken modulo 2**32.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.fold_in(xlapy.random.key(0), 7)
    Tensor([..., ...], u32[2])
    """
    if type(data) is not Tensor:
        data = np.asarray(as_int(data, "data") % (1 << 32), np.uint32)
    return _fold_in(key, data)


@composite(arrays=2)
def _fold_in(k: Any, data: Any, /) -> Tensor:
    data = as_tensor(data)
    if not data.dtype.integer or data.ndim:
        raise DTypeError(f"data must be an integer scalar; got {data.spec} [X1]")
    word = call("reshape", convert(data, _U32), shape=(1,))
    return call("concatenate", *_threefry(_checked_key(k), word, filled(word, _FOLD)), dimension=0)


# --- draws --------------------------------------------------------------------------------------------------------


def bits(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "u32") -> Tensor:
    """Uniform bits.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    dtype : dtype
        ``u8``, ``u16``, ``u32`` or ``u64``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.bits(xlapy.random.key(0), 2)
    Tensor([1797259609, 2579123966], u32[2])
    """
    kind = as_dtype(dtype)
    if kind not in (_U8, _U16, _U32, _U64):
        raise DTypeError(f"bits: dtype must be u8, u16, u32 or u64; got {kind} [X1]")
    return _draw_bits(key, static_shape(shape), kind.bits)


@composite(arrays=1, name="bits")
def _draw_bits(k: Any, shape: tuple[int, ...], width: int) -> Tensor:
    return _bits(k, shape, width)


def _float(dtype: Any, name: str) -> DType:
    kind = as_dtype(dtype)
    if kind.kind != "float" or kind.bits < 16:
        raise DTypeError(f"{name}: dtype must be f16, bf16, f32 or f64; got {kind} [X1]")
    return kind


def _fraction(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Multiples of 2**-p in [0, 1), p being the bits of the significand."""
    significant = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[dtype.name]
    words = _bits(k, shape, 64 if dtype is _F64 else 32)
    top = call("shift_right_logical", words, filled(words, words.dtype.bits - significant))
    fraction = convert(top, dtype)
    return call("mul", fraction, filled(fraction, 2.0**-significant))


def uniform(
    key: Any,
    /,
    shape: int | Sequence[int] = (),
    dtype: Any = "f32",
    minval: Any = 0.0,
    maxval: Any = 1.0,
) -> Tensor:
    """Numbers uniform in ``[minval, maxval)``.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    dtype : dtype
        f16, bf16, f32 or f64.
    minval, maxval : array-like
        They broadcast to the shape.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.uniform(xlapy.random.key(0), 3).shape
    (3,)
    """
    kind = _float(dtype, "uniform")
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return _unit(key, static_shape(shape), kind)
    return _uniform(key, minval, maxval, static_shape(shape), kind)


@composite(arrays=1, name="uniform")
def _unit(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return _fraction(k, shape, dtype)


@composite(arrays=3)
def _uniform(k: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    fraction = _fraction(k, shape, dtype)
    low, high = (_bound(b, shape, dtype) for b in (low, high))
    found = call("add", call("mul", fraction, call("sub", high, low)), low)
    # Rounding may have reached the end, which is excluded.
    return call("select", _less(found, high), found, low)


def _less(x: Tensor, y: Tensor) -> Tensor:
    return call("compare", x, y, comparison_direction="LT")


def _bound(x: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    x = inexact(x)
    if x.dtype.kind == "complex":
        raise DTypeError(f"a bound must be real; got {x.spec} [X1]")
    return broadcast_to_shape(convert(x, dtype), shape)


def _open_fraction(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Odd multiples of 2**-p in (-1, 1): symmetric, and never 0 or at an end."""
    width = 64 if dtype is _F64 else 32
    places = 52 if dtype is _F64 else 23
    words = _bits(k, shape, width)
    top = call("shift_right_logical", words, filled(words, width - places))
    odd = call("or", call("shift_left", top, filled(top, 1)), filled(top, 1))
    scaled = convert(odd, dtype)
    return call("sub", call("mul", scaled, filled(scaled, 2.0**-places)), filled(scaled, 1))


def _wide(dtype: DType) -> DType:
    return _F64 if dtype.bits == 64 else _F32


def normal(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the standard normal distribution.

    The inverse of the distribution function is taken of a uniform number. Complex numbers have variance 1 together.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    dtype : dtype
        f16, bf16, f32, f64, c64 or c128.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.normal(xlapy.random.key(0), (2, 3)).shape
    (2, 3)
    """
    kind = as_dtype(dtype)
    if kind.kind == "complex":
        return _complex_normal(key, static_shape(shape), kind)
    return _normal(key, static_shape(shape), _float(dtype, "normal"))


@composite(arrays=1)
def _normal(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    fraction = _open_fraction(k, shape, _wide(dtype))
    found = call("mul", call("erf_inv", fraction), filled(fraction, math.sqrt(2)))
    return convert(found, dtype)


@composite(arrays=1, name="normal")
def _complex_normal(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    kind = dtype.real_part
    fraction = _open_fraction(k, (2, *shape), kind)
    found = call("erf_inv", fraction)
    parts = [
        call(
            "slice", found, start_indices=(i, *[0] * len(shape)), limit_indices=(i + 1, *shape),
            strides=(1,) * (len(shape) + 1),
        )
        for i in (0, 1)
    ]  # fmt: skip
    return call("complex", *[call("reshape", p, shape=shape) for p in parts])


def truncated_normal(
    key: Any,
    /,
    lower: Any = -2.0,
    upper: Any = 2.0,
    shape: int | Sequence[int] = (),
    dtype: Any = "f32",
) -> Tensor:
    """Numbers of the standard normal distribution restricted to ``[lower, upper]``.

    Examples
    --------
    >>> x = xlapy.random.truncated_normal(xlapy.random.key(0), -1, 1, 100)
    >>> bool(xlapy.all(abs(x) <= 1))
    True
    """
    return _truncated(key, lower, upper, static_shape(shape), _float(dtype, "truncated_normal"))


@composite(arrays=3, name="truncated_normal")
def _truncated(k: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    kind = _wide(dtype)
    low, high = (_bound(b, shape, kind) for b in (lower, upper))
    root = filled(low, math.sqrt(2))
    start, end = (call("erf", call("div", b, root)) for b in (low, high))
    half = call(
        "mul", call("add", _open_fraction(k, shape, kind), filled(low, 1)), filled(low, 0.5)
    )
    level = call("add", start, call("mul", half, call("sub", end, start)))
    found = call("mul", call("erf_inv", level), root)
    return convert(call("clamp", low, found, high), dtype)


def exponential(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the exponential distribution of mean 1.

    Examples
    --------
    >>> bool(xlapy.all(xlapy.random.exponential(xlapy.random.key(0), 10) > 0))
    True
    """
    return _exponential(key, static_shape(shape), _float(dtype, "exponential"))


def _positive_exponential(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    u = _open_fraction(k, shape, dtype)
    half = call("mul", call("add", u, filled(u, 1)), filled(u, 0.5))
    return call("neg", call("log", half))


@composite(arrays=1)
def _exponential(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return convert(_positive_exponential(k, shape, _wide(dtype)), dtype)


def gumbel(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the standard Gumbel distribution.

    Examples
    --------
    >>> xlapy.random.gumbel(xlapy.random.key(0), 3).shape
    (3,)
    """
    return _gumbel(key, static_shape(shape), _float(dtype, "gumbel"))


@composite(arrays=1)
def _gumbel(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return convert(_gumbel_noise(k, shape, _wide(dtype)), dtype)


def _gumbel_noise(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return call("neg", call("log", _positive_exponential(k, shape, dtype)))


def bernoulli(key: Any, /, p: Any = 0.5, shape: int | Sequence[int] | None = None) -> Tensor:
    """Truth values that are true with a probability.

    Parameters
    ----------
    key : Tensor
    p : array-like
    shape : int or sequence of int, optional
        By default that of `p`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.bernoulli(xlapy.random.key(0), 0.5, 4).dtype
    pred
    """
    return _bernoulli(key, p, None if shape is None else static_shape(shape))


@composite(arrays=2)
def _bernoulli(k: Any, p: Any, shape: tuple[int, ...] | None) -> Tensor:
    p = inexact(p)
    if p.dtype.kind != "float":
        raise DTypeError(f"a probability must be real; got {p.spec} [X1]")
    kind = _wide(p.dtype)
    sizes = p.shape if shape is None else shape
    return _less(_fraction(k, sizes, kind), broadcast_to_shape(convert(p, kind), sizes))


def randint(
    key: Any, /, shape: int | Sequence[int], minval: Any, maxval: Any, dtype: Any = "s32"
) -> Tensor:
    """Integers uniform in ``[minval, maxval)``.

    Twice the bits of the type are drawn for each, so that no number is more likely than another by more than 2**-32
    (2**-64 for 64-bit types) of its share.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    minval, maxval : int or Tensor
        They broadcast to the shape. Where tensors are such that no number lies between them, the result is `minval`.
    dtype : dtype

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        If no integer lies between the bounds.

    Examples
    --------
    >>> x = xlapy.random.randint(xlapy.random.key(0), 100, 1, 7)
    >>> int(xlapy.min(x)), int(xlapy.max(x))
    (1, 6)
    """
    kind = as_dtype(dtype)
    if not kind.integer or kind.bits < 8:
        raise DTypeError(
            f"randint: dtype must be an integer type of 8 bits or more; got {kind} [X1]"
        )
    sizes = static_shape(shape)
    if type(minval) is not Tensor and type(maxval) is not Tensor:
        low, high = as_int(minval, "minval"), as_int(maxval, "maxval")
        floor = -(1 << (kind.bits - 1)) if kind.kind == "int" else 0
        ceiling = floor + (1 << kind.bits)
        if not floor <= low < high <= ceiling:
            raise ConstraintError(
                f"randint: the bounds must be in order and within {kind}; got [{low}, {high}) [X1]"
            )
        span = np.asarray((high - low) % (1 << 64), np.uint64)
        return _randint(key, np.asarray(low, kind.numpy), span, sizes, kind)
    return _randint_between(key, minval, maxval, sizes, kind)


@composite(arrays=3)
def _randint(k: Any, low: Any, span: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return _offset(k, as_tensor(low), as_tensor(span), shape, dtype)


@composite(arrays=3, name="randint")
def _randint_between(k: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    from xlapy.numpy.promotion import meet

    low, high = meet(as_tensor(low), as_tensor(high))
    if not low.dtype.integer:
        raise DTypeError(f"bounds must be integers; got {low.spec} [X1]")
    distance = call("sub", convert(high, _U64), convert(low, _U64))
    one = filled(distance, 1)
    span = call("select", _less(low, high), distance, one)
    return _offset(k, convert(low, dtype), span, shape, dtype)


def _offset(k: Any, low: Tensor, span: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Low + floor(r * span) for r uniform in [0, 1); a span of 0 stands for 2**64."""
    low, span = broadcast_to_shape(low, shape), broadcast_to_shape(span, shape)
    if dtype.bits == 64:
        drawn = _bits(k, (2, *shape), 64)
        halves = [
            call(
                "reshape",
                call("slice", drawn, start_indices=(i, *[0] * len(shape)), limit_indices=(i + 1, *shape),
                     strides=(1,) * (len(shape) + 1)),
                shape=shape,
            )
            for i in (0, 1)
        ]  # fmt: skip
        # The upper 64 of the 192 bits of (high, low) * span.
        high = _upper_product(halves[0], span)
        middle = call("mul", halves[0], span)
        total = call("add", middle, _upper_product(halves[1], span))
        carry = convert(_less(total, middle), _U64)
        number = call("add", high, carry)
        whole = call("compare", span, filled(span, 0), comparison_direction="EQ")
        number = call("select", whole, halves[0], number)
    else:
        drawn = _bits(k, shape, 64)
        mask = filled(drawn, 0xFFFFFFFF)
        lower = call("mul", call("and", drawn, mask), span)
        upper = call("mul", _shifted(drawn), span)
        number = _shifted(call("add", upper, _shifted(lower)))
    return call("add", low, convert(number, dtype))


def _shifted(x: Tensor) -> Tensor:
    return call("shift_right_logical", x, filled(x, 32))


def _upper_product(x: Tensor, y: Tensor) -> Tensor:
    """The upper 64 of the 128 bits of x * y."""
    mask = filled(x, 0xFFFFFFFF)
    a, b = _shifted(x), call("and", x, mask)
    c, d = _shifted(y), call("and", y, mask)
    low = _shifted(call("mul", b, d))
    first = call("add", call("mul", a, d), low)
    second = call("add", call("mul", b, c), call("and", first, mask))
    return call("add", call("add", call("mul", a, c), _shifted(first)), _shifted(second))


def permutation(key: Any, x: Any, /, *, axis: int = 0) -> Tensor:
    """The slices of an array, or the integers below a number, in random order.

    Parameters
    ----------
    key : Tensor
    x : int or array-like
    axis : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.sort(xlapy.random.permutation(xlapy.random.key(0), 5))
    Tensor([0, 1, 2, 3, 4], s32[5])
    """
    if type(x) is int:
        if x < 0:
            raise ConstraintError(f"permutation: the number must not be negative; got {x} [X1]")
        return _permutation(key, x)
    return _permuted(key, x, as_int(axis, "axis"))


@composite(arrays=1)
def _permutation(k: Any, size: int) -> Tensor:
    return _random_order(k, size)


@composite(arrays=2, name="permutation")
def _permuted(k: Any, x: Any, axis: int) -> Tensor:
    from xlapy.numpy.indexing import take

    x = as_tensor(x)
    place = as_axis(axis, x.ndim)
    return take(x, _random_order(k, x.shape[place]), axis=place)


def _random_order(k: Any, size: int) -> Tensor:
    """Places sorted by 64 random bits each."""
    from xlapy.numpy.sorting import sorted_together

    places = call("iota", shape=(size,), dtype=_S32, iota_dimension=0)
    return sorted_together(_bits(k, (size,), 64), places, axis=0)[1]


def categorical(
    key: Any, logits: Any, /, *, axis: int = -1, shape: int | Sequence[int] | None = None
) -> Tensor:
    """Places along an axis, drawn with probabilities proportional to ``exp(logits)``.

    Parameters
    ----------
    key : Tensor
    logits : array-like
    axis : int
    shape : int or sequence of int, optional
        Of the result; the shape of `logits` without the axis broadcasts to it, which it is by default.

    Returns
    -------
    Tensor
        s32.

    Examples
    --------
    >>> xlapy.random.categorical(xlapy.random.key(0), xlapy.asarray([0.0, 100.0]), shape=3)
    Tensor([1, 1, 1], s32[3])
    """
    return _categorical(
        key, logits, as_int(axis, "axis"), None if shape is None else static_shape(shape)
    )


@composite(arrays=2)
def _categorical(k: Any, logits: Any, axis: int, shape: tuple[int, ...] | None) -> Tensor:
    from xlapy.numpy.reductions import argmax
    from xlapy.numpy.shaping import permuted

    logits = inexact(logits)
    if logits.dtype.kind != "float":
        raise DTypeError(f"logits must be real; got {logits.spec} [X1]")
    place = as_axis(axis, logits.ndim)
    order = (*[i for i in range(logits.ndim) if i != place], place)
    moved = permuted(logits, order)
    sizes = moved.shape[:-1] if shape is None else shape
    moved = convert(broadcast_to_shape(moved, (*sizes, moved.shape[-1])), _wide(logits.dtype))
    return argmax(call("add", moved, _gumbel_noise(k, moved.shape, moved.dtype)), axis=-1)


def choice(
    key: Any,
    x: Any,
    /,
    shape: int | Sequence[int] = (),
    *,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
) -> Tensor:
    """Slices of an array, or integers below a number, picked at random.

    Parameters
    ----------
    key : Tensor
    x : int or array-like
    shape : int or sequence of int
    replace : bool
        Whether one may be picked several times.
    p : array-like, optional
        The probability of each; by default all are equal.
    axis : int

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        If there are not enough to pick from.

    Examples
    --------
    >>> xlapy.sort(xlapy.random.choice(xlapy.random.key(0), 3, 3, replace=False))
    Tensor([0, 1, 2], s32[3])
    """
    from xlapy.numpy.indexing import take
    from xlapy.numpy.shaping import reshape

    sizes = static_shape(shape)
    if type(x) is not int:
        x = x if type(x) is Tensor else asarray(x)
        place = as_axis(axis, x.ndim)
        size = x.shape[place]
    else:
        size = x
    count = math.prod(sizes)
    if (count and size < 1) or (not replace and count > size):
        raise ShapeError(f"choice: there must be enough to pick {count} from; got {size} [X1]")
    if p is not None:
        p = p if type(p) is Tensor else asarray(p)
        if p.shape != (size,):
            raise ShapeError(
                f"choice: p must have a probability for each of {size}; got {p.spec} [X1]"
            )
        places = _weighted(key, p, count, replace)
    elif replace:
        places = randint(key, count, 0, max(size, 1))
    else:
        places = permutation(key, size)[:count]
    places = reshape(places, sizes)
    return places if type(x) is int else take(x, places, axis=place)


@composite(arrays=2, name="choice")
def _weighted(k: Any, p: Any, count: int, replace: bool) -> Tensor:
    from xlapy.numpy.reductions import argmax
    from xlapy.numpy.sorting import argsort

    logits = call("log", inexact(p))
    kind = _wide(logits.dtype)
    shape = (count, *p.shape) if replace else p.shape
    noisy = call(
        "add", broadcast_to_shape(convert(logits, kind), shape), _gumbel_noise(k, shape, kind)
    )
    if replace:
        return argmax(noisy, axis=-1)
    order = argsort(noisy, descending=True)
    return call("slice", order, start_indices=(0,), limit_indices=(count,), strides=(1,))
