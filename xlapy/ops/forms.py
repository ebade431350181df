"""A value in another form: the small steps that derivatives and compositions of operations are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.dtypes import DType
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

__all__ = ["converted", "part", "permuted", "reshaped"]


def converted(x: Any, dtype: DType) -> Any:
    """A value in an element type; itself if it has that."""
    return x if x.spec.dtype is dtype else bind(lookup("convert_element_type"), x, dtype=dtype)


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """A value in another shape."""
    return bind(lookup("reshape"), x, shape=tuple(shape))


def permuted(x: Any, order: Sequence[int]) -> Any:
    """A value whose dimensions are those of `x` in an order; itself if that is theirs."""
    order = tuple(order)
    if order == tuple(range(len(order))):
        return x
    return bind(lookup("transpose"), x, permutation=order)


def part(x: Any, index: int, axis: int = 0, size: int = 1) -> Any:
    """A piece of a value along an axis."""
    starts, limits = [0] * x.spec.rank, list(x.spec.shape)
    axis %= len(limits)
    starts[axis], limits[axis] = index, index + size
    return bind(
        lookup("slice"), x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=(1,) * x.spec.rank
    )  # fmt: skip
