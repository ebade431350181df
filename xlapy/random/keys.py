"""Keys, and the stream of bits that belongs to each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError
from xlapy.numpy.creation import asarray, static_shape
from xlapy.numpy.promotion import as_tensor, broadcast_to_shape, call, convert, filled
from xlapy.specs import TensorSpec, as_int
from xlapy.staging import composite
from xlapy.tensor import Tensor

__all__ = ["bits", "fold_in", "key", "split", "stream_bits", "threefry"]

_U8, _U16, _U32, _U64 = (as_dtype(n) for n in ("u8", "u16", "u32", "u64"))
_KEY: Final = TensorSpec((2,), _U32)
_SPLIT, _FOLD = 1 << 31, (1 << 31) + 1
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


# --- the bijection ------------------------------------------------------------------------------------------------


def _rotated(x: Tensor, by: int) -> Tensor:
    up = call("shift_left", x, filled(x, by))
    return call("or", up, call("shift_right_logical", x, filled(x, 32 - by)))


def threefry(k: Tensor, c0: Tensor, c1: Tensor) -> tuple[Tensor, Tensor]:
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
    pair = [call("reshape", w, shape=(blocks, 1)) for w in threefry(k, low, high)]
    words = call("reshape", call("concatenate", *pair, dimension=1), shape=(2 * blocks,))
    if count == 2 * blocks:
        return words
    return call("slice", words, start_indices=(0,), limit_indices=(count,), strides=(1,))


def stream_bits(k: Any, shape: tuple[int, ...], width: int) -> Tensor:
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
        given = as_int(seed, "seed")
        if not -(1 << 63) <= given < 1 << 64:
            raise DTypeError(f"a seed must fit 64 bits; got {given} [X3]")
        number = given % (1 << 64)
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
    pair = threefry(_checked_key(k), i, filled(i, _SPLIT))
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
    return call("concatenate", *threefry(_checked_key(k), word, filled(word, _FOLD)), dimension=0)


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
    return stream_bits(k, shape, width)
