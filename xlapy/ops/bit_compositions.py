"""Bits read as another element type, composed of what XLA computes as the StableHLO specification has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.trace.builder import as_computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

from .forms import part, reshaped

__all__ = ["bits_of_parts", "from_bits", "to_bits"]


# --- complex numbers ----------------------------------------------------------------------------------------------


def bits_of_parts(x: Any, dtype: DType) -> Any:
    """A complex array as complex numbers of another width, by the bits of real and imaginary parts."""
    # Side by side, as the parts of numbers of either type lie in memory.
    parts = _stacked([bind(lookup("real"), x), bind(lookup("imag"), x)])
    words = _bitcast(parts, dtype.real_part)
    return bind(lookup("complex"), *_unstacked(words))


def _stacked(parts: Sequence[Any]) -> Any:
    """Arrays along a new last dimension."""
    shape = (*parts[0].spec.shape, 1)
    raised = [reshaped(p, shape) for p in parts]
    return bind(lookup("concatenate"), *raised, dimension=len(shape) - 1)


def _unstacked(x: Any) -> list[Any]:
    """The arrays along the last dimension."""
    *shape, count = x.spec.shape
    return [reshaped(part(x, i, -1), shape) for i in range(count)]


def _bitcast(x: Any, dtype: DType) -> Any:
    if x.spec.dtype is dtype:
        return x
    return bind(lookup("bitcast_convert_type"), x, dtype=dtype)


# --- truth values, which are one bit each -------------------------------------------------------------------------


def to_bits(x: Any, dtype: DType) -> Any:
    """The bits of each element along a new last dimension, the lowest first, as truth values."""
    count = x.spec.dtype.bits
    words = _widened(_bitcast(x, as_dtype(f"u{count}")))
    shape = (*x.spec.shape, count)
    words = bind(
        lookup("broadcast_in_dim"),
        words,
        shape=shape,
        broadcast_dimensions=tuple(range(x.spec.rank)),
    )
    bits = bind(lookup("shift_right_logical"), words, _positions(words.spec))
    one, zero = _splat(bits.spec, 1), _splat(bits.spec, 0)
    bits = bind(lookup("and"), bits, one)
    return bind(lookup("compare"), bits, zero, comparison_direction="NE", compare_type="UNSIGNED")


def from_bits(x: Any, dtype: DType) -> Any:
    """Elements from truth values along the last dimension, the lowest bit first."""
    word = as_dtype(f"u{max(dtype.bits, 8)}")
    bits = bind(lookup("convert_element_type"), x, dtype=word)
    bits = bind(lookup("shift_left"), bits, _positions(bits.spec))
    zero = bind(lookup("constant"), value=np.zeros((), word.numpy))
    scalar = zero.spec
    either = as_computation(lambda a, b: bind(lookup("or"), a, b), [scalar, scalar], name="either")
    (words,) = bind(lookup("reduce"), bits, zero, body=either, dimensions=(x.spec.rank - 1,))
    narrow = as_dtype(f"u{dtype.bits}")
    if narrow is not word:
        words = bind(lookup("convert_element_type"), words, dtype=narrow)
    return _bitcast(words, dtype)


def _widened(x: Any) -> Any:
    """Words of at least a byte, in which XLA shifts."""
    if x.spec.dtype.bits >= 8:
        return x
    return bind(lookup("convert_element_type"), x, dtype=as_dtype("u8"))


def _positions(spec: Any) -> Any:
    return bind(lookup("iota"), shape=spec.shape, dtype=spec.dtype, iota_dimension=spec.rank - 1)


def _splat(spec: Any, value: int) -> Any:
    return bind(lookup("constant"), value=np.broadcast_to(spec.dtype.numpy.type(value), spec.shape))
