"""Counter-based generators of random bits, threefry2x32 and philox4x32, and how XLA lays their words out.

Both turn a key and a counter into words that look random (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011). XLA numbers the blocks of a result from the state's counter on, and gives back the counter after the last one.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

__all__ = ["philox_bits", "philox4x32", "split_dimension", "three_fry_bits", "threefry2x32"]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

_U32, _U64 = np.uint32, np.uint64
_HALF: Final = _U64(32)


def _low(x: Array) -> Array:
    return x.astype(_U32)


def _high(x: Array) -> Array:
    return (x >> _HALF).astype(_U32)


def _joined(low: Array, high: Array) -> Array:
    """Pairs of words as numbers of 64 bits."""
    return low.astype(_U64) | (high.astype(_U64) << _HALF)


# --- threefry -----------------------------------------------------------------------------------------------------

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = _U32(0x1BD11BDA)


def threefry2x32(key: Array, counter: Array) -> tuple[Array, Array]:
    """The two words of each counter, in 20 rounds.

    Parameters
    ----------
    key : u64[1]
    counter : u64[n]

    Returns
    -------
    tuple of two u32[n]
    """
    first, second = _low(key), _high(key)
    schedule = (first, second, first ^ second ^ _PARITY)
    x, y = _low(counter) + first, _high(counter) + second
    for group in range(5):
        for by in _ROTATIONS[group % 2]:
            x += y
            turned = y << _U32(by)
            y >>= _U32(32 - by)
            y |= turned
            y ^= x
        x += schedule[(group + 1) % 3]
        y += schedule[(group + 2) % 3] + _U32(group + 1)
    return x, y


def split_dimension(shape: Ints) -> int:
    """The dimension along which the first and second words of the blocks alternate.

    XLA halves one of even size, the first there is, else the largest one.
    """
    even = (d for d, n in enumerate(shape) if n % 2 == 0)
    return next(even, shape.index(max(shape)))


def three_fry_bits(state: Array, shape: Ints, bits: int) -> tuple[Array, Array]:
    """The state u64[2] of key and counter after it gave a word for each element of a shape, and the words.

    Numbers of 64 bits take a block each. Narrower ones take half of one, of which all 32 bits are given.
    """
    key, first = state[:1], state[1:]
    place = split_dimension(shape) if shape else 0
    before, after = math.prod(shape[:place]), math.prod(shape[place + 1 :])
    half = -(-shape[place] // 2) if shape else 1
    blocks = math.prod(shape) if bits == 64 else before * half * after
    x, y = threefry2x32(key, first + np.arange(blocks, dtype=_U64))
    if bits == 64:
        words = _joined(x, y)
    elif shape:
        pairs = np.stack([w.reshape((before, half, after)) for w in (x, y)], axis=2)
        words = pairs.reshape((before, 2 * half, after))[:, : shape[place]]
    else:  # a scalar has no place for the second word
        words = x
    return np.concatenate([key, first + _U64(blocks)]), words.reshape(shape)


# --- philox -------------------------------------------------------------------------------------------------------

_MULTIPLIERS: Final = (_U64(0xD2511F53), _U64(0xCD9E8D57))
_WEYL: Final = (_U32(0x9E3779B9), _U32(0xBB67AE85))


def philox4x32(key: Array, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    """The four words of each counter, in 10 rounds.

    Parameters
    ----------
    key : u64[1]
    low, high : u64[n]
        The halves of the counters.

    Returns
    -------
    tuple of four u32[n]
    """
    first, second = _low(key), _high(key)
    a, b, c, d = _low(low), _high(low), _low(high), _high(high)
    for _ in range(10):
        left, right = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a, c = _high(right) ^ b ^ first, _high(left) ^ d ^ second
        b, d = _low(right), _low(left)
        first, second = first + _WEYL[0], second + _WEYL[1]
    return a, b, c, d


def philox_bits(state: Array, shape: Ints, bits: int) -> tuple[Array, Array]:
    """The state after it gave a word for each element of a shape in order, and the words.

    The state is u64[3], a key and the two halves of a counter, or u64[2], where the key is the higher half too.
    Numbers of 64 bits take half a block each. Narrower ones take a quarter, of which all 32 bits are given.
    """
    key, first = state[:1], state[1:2]
    second = state[2:] if len(state) == 3 else key
    count = math.prod(shape)
    blocks = -(-count // (2 if bits == 64 else 4))
    low = first + np.arange(blocks, dtype=_U64)
    a, b, c, d = philox4x32(key, low, second + (low < first))
    words = [_joined(a, b), _joined(c, d)] if bits == 64 else [a, b, c, d]
    end = first + _U64(blocks)
    after = np.concatenate([key, end, second + (end < first)])[: len(state)]
    return after, np.stack(words, axis=-1).reshape(-1)[:count].reshape(shape)
