"""Zeros and splat constants of a spec, recorded in the current mode."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from xlapy import rounding
from xlapy.errors import ShapeError
from xlapy.specs import TensorSpec, TupleSpec, has_unknown
from xlapy.trace.host_arrays import as_array
from xlapy.trace.mode import bind, current_builder
from xlapy.trace.op import lookup

__all__ = ["constant_of", "is_splat", "shared_constant", "zeros_of"]


@functools.lru_cache(maxsize=4096)
def _splat(spec: TensorSpec, value: Any, sign: Any = 1.0) -> np.ndarray[Any, Any]:
    if not spec.is_static and has_unknown(spec.shape):
        raise ShapeError(f"a constant must have a known shape; got {spec} [X1]")
    with np.errstate(all="ignore"):
        return np.broadcast_to(rounding.astype(as_array(value), spec.dtype.numpy), spec.shape)


def constant_of(spec: TensorSpec, value: bool | int | float | complex) -> Any:
    """A constant of a spec, every element being `value`; it takes no memory of its own."""
    # 0.0 == -0.0, so the sign is a part of the key.
    sign: Any = 1.0
    if isinstance(value, float):
        sign = math.copysign(1.0, value)
    elif isinstance(value, complex):
        sign = repr(value)
    return shared_constant(_splat(spec, value, sign))


def shared_constant(array: np.ndarray[Any, Any]) -> Any:
    """A constant of an array that lives on; one trace records it once."""
    builder = current_builder()
    # A scalar among weak ones may become weak itself, which must not befall others.
    if builder is None or (builder.weak and not array.ndim):
        return bind(lookup("constant"), value=array)
    return builder.shared_constant(array)


def zeros_of(spec: Any) -> Any:
    """Zeros of a spec: of a tuple's too, and a fresh token for a token."""
    if type(spec) is TensorSpec:
        return shared_constant(_splat(spec, 0))
    if type(spec) is TupleSpec:
        return bind(lookup("tuple"), *[zeros_of(e) for e in spec.elements])
    return bind(lookup("after_all"))


def is_splat(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is one element repeated, as its strides tell; an array of one element is."""
    steps = zip(array.strides, array.shape, strict=True)
    return array.size > 0 and not any(stride for stride, size in steps if size > 1)
