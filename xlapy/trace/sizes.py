"""Sizes that are known only when a program runs, as operands of what needs them.

Of an array of any size, ``f32[?,4]``, a program can ask how large it is. Constants, repetitions and numberings of such
sizes are StableHLO's dynamic operations on the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import DYNAMIC, TensorSpec, has_unknown, require_shape
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.zeros import constant_of, zeros_of

__all__ = [
    "as_vector", "broadcast_any", "broadcast_rows", "constant_like", "count_of", "filled_like", "iota_like", "size_of",
    "sized_like", "sizes_of", "whole", "zeros_like",
]  # fmt: skip

_S32 = as_dtype("s32")


def size_of(x: Any, dimension: int) -> Any:
    """The size of one dimension: an int where it is known, or an s32 scalar."""
    size = x.spec.shape[dimension]
    if size is DYNAMIC or dimension in x.spec.dynamic:
        return bind(lookup("get_dimension_size"), x, dimension=dimension)
    return size


def sizes_of(x: Any) -> Any:
    """All sizes as an array of s32."""
    return as_vector([size_of(x, d) for d in range(x.spec.rank)])


def as_vector(sizes: Sequence[Any]) -> Any:
    """Ints and s32 scalars as one array."""
    if all(isinstance(n, int) for n in sizes):
        return bind(lookup("constant"), value=np.array(sizes, np.int32))
    parts = [
        bind(lookup("constant"), value=np.array([n], np.int32))
        if isinstance(n, int)
        else bind(lookup("reshape"), n, shape=(1,))
        for n in sizes
    ]
    return parts[0] if len(parts) == 1 else bind(lookup("concatenate"), *parts, dimension=0)


def count_of(x: Any, dimensions: Sequence[int]) -> Any:
    """How many elements there are along some dimensions: an int where it is known, or an s32 scalar."""
    known, total = 1, None
    for d in dimensions:
        size = size_of(x, d)
        if isinstance(size, int):
            known *= size
        else:
            total = size if total is None else bind(lookup("mul"), total, size)
    if total is None or known == 1:
        return known if total is None else total
    return bind(lookup("mul"), total, constant_of(total.spec, known))


def sized_like(full: Any, x: Any) -> Any:
    """An array at the bounds cut to the sizes that a tensor has at run time; of a spec alone nothing is known."""
    if type(x) is TensorSpec:
        return full
    for d in getattr(x.spec, "dynamic", ()):
        if d not in full.spec.dynamic:
            full = _cut(full, size_of(x, d), d)
    return full


def _cut(x: Any, size: Any, dimension: int) -> Any:
    return bind(lookup("set_dimension_size"), x, size, dimension=dimension, varies=True)


def whole(x: Any) -> Any:
    """An array at its bounds; what is in the places that it does not hold is open."""
    for d in x.spec.dynamic:
        bound = bind(lookup("constant"), value=np.array(x.spec.shape[d], np.int32))
        x = bind(lookup("set_dimension_size"), x, bound, dimension=d, varies=False)
    return x


def constant_like(x: Any, value: bool | int | float | complex) -> Any:
    """A constant of the spec of `x` (a tensor or a spec), every element being `value`; of its sizes too."""
    return constant_of(x, value) if type(x) is TensorSpec else filled_like(x, value, x.spec.dtype)


def filled_like(x: Any, value: bool | int | float | complex, dtype: DType) -> Any:
    """A constant of the shape of a tensor, and of its sizes, with an element type of its own."""
    spec: TensorSpec = x.spec
    if spec.dtype is dtype and not spec.dynamic and type(spec.size) is int:
        return constant_of(spec, value)
    if type(spec.size) is int:
        made = constant_of(TensorSpec(spec.shape, dtype), value)
        return sized_like(made, x) if spec.dynamic else made
    return _repeated(constant_of(TensorSpec((), dtype), value), sizes_of(x), (), spec.shape)


def zeros_like(x: Any) -> Any:
    """Zeros of the spec of a tensor, and of its sizes."""
    return constant_like(x, 0) if type(x.spec) is TensorSpec else zeros_of(x.spec)


def iota_like(x: Any, dimension: int, dtype: DType = _S32) -> Any:
    """Numbers counted along one dimension, of the shape of a tensor."""
    spec: TensorSpec = x.spec
    if type(spec.size) is int:
        made = bind(lookup("iota"), shape=spec.shape, dtype=dtype, iota_dimension=dimension)
        return sized_like(made, x)
    result = TensorSpec(spec.shape, dtype)
    return bind(lookup("dynamic_iota"), sizes_of(x), iota_dimension=dimension, result=result)


def broadcast_any(
    x: Any, shape: tuple[int, ...], dimensions: tuple[int, ...], like: Sequence[Any] = ()
) -> Any:
    """An array repeated to a shape with sizes that are not known, which others have that end in the same dimensions.

    Parameters
    ----------
    x : Tensor
    shape : tuple of int
    dimensions : tuple of int
        Those of the result that are the operand's.
    like : sequence of Tensor
        Arrays that have these sizes as their last ones.
    """
    sizes: list[Any] = []
    for d, n in enumerate(shape):
        found: Any = n if n is not DYNAMIC else None
        if found is None and d in dimensions and x.spec.shape[dimensions.index(d)] is DYNAMIC:
            found = size_of(x, dimensions.index(d))
        for y in like if found is None else ():
            own = d - len(shape) + y.spec.rank
            if own >= 0 and y.spec.shape[own] is DYNAMIC:
                found = size_of(y, own)
                break
        require_shape(found is not None, "X1", "the sizes of new dimensions must be known", shape)
        sizes.append(found)
    return _repeated(x, as_vector(sizes), dimensions, shape)


def broadcast_rows(x: Any, like: Any) -> Any:
    """An array repeated along a new first axis, as long as the first axis of another tensor."""
    shape = (like.spec.shape[0], *x.spec.shape)
    if not has_unknown(shape):
        dimensions = tuple(range(1, len(shape)))
        x = bind(lookup("broadcast_in_dim"), x, shape=shape, broadcast_dimensions=dimensions)
        return _cut(x, size_of(like, 0), 0) if 0 in like.spec.dynamic else x
    sizes = as_vector([size_of(like, 0), *[size_of(x, d) for d in range(x.spec.rank)]])
    return _repeated(x, sizes, tuple(range(1, len(shape))), shape)


def _repeated(x: Any, sizes: Any, dimensions: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    own: tuple[int, ...] = x.spec.shape
    kept = tuple([i for i, d in enumerate(dimensions) if own[i] == shape[d]])
    return bind(
        lookup("dynamic_broadcast_in_dim"),
        x,
        sizes,
        broadcast_dimensions=dimensions,
        known_expanding_dimensions=(),
        known_nonexpanding_dimensions=kept,
        result=TensorSpec(shape, x.spec.dtype),
    )
