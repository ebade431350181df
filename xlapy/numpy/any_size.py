"""Arrays with a size that is known only when the program runs: reshaping and slicing them."""

from __future__ import annotations

import math
from typing import Any

from xlapy.errors import ShapeError, shown
from xlapy.specs import DYNAMIC
from xlapy.tensor import Tensor
from xlapy.trace.sizes import as_vector, size_of

from .index_forms import part, width
from .promotion import call, filled

__all__ = ["any_shape", "cut"]


def any_shape(x: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape for an array with a size that is not known: that size, or -1, stands for what the others leave."""
    own, given = (math.prod([n for n in s if n != DYNAMIC]) for s in (x.shape, shape))
    unknown = [n for n in shape if n is DYNAMIC]
    rest = shape.count(DYNAMIC) - len(unknown)
    # One that is the array's own leaves a number to -1; alone, it must leave nothing.
    fits = rest < 2 and given > 0 and len(unknown) + rest > 0 and len(unknown) < 2
    if fits and unknown:
        fits = own % given == 0 if rest else own == given
    if not fits or x.shape.count(DYNAMIC) > 1:
        raise ShapeError(f"the shape must have the elements of {x.spec}; got {shape} [C2]")
    if unknown and rest:
        return tuple([n if n is DYNAMIC or n != -1 else own // given for n in shape])
    return tuple([DYNAMIC if n == -1 else n for n in shape])


def cut(x: Tensor, index: Any) -> tuple[Tensor, Any]:
    """The slices and integers of an index taken along axes of unknown size; the rest of the index is for the result.

    What an integer picks must be there when the program runs; slices end where the array does, as numpy's do.
    """
    parts = [part(p) for p in (index if type(index) is tuple else (index,))]
    starts: list[Any] = [0] * x.ndim
    limits: list[Any] = [size_of(x, d) for d in range(x.ndim)]
    steps = [1] * x.ndim
    shape: list[int] = list(x.shape)
    is_cut = False
    axis = 0
    for place, p in enumerate(parts):
        if p is Ellipsis:
            axis += x.ndim - sum(map(width, parts))
            continue
        if type(p) in (int, slice) and axis < x.ndim and shape[axis] == DYNAMIC:
            size = limits[axis]
            is_cut |= p != slice(None)
            if type(p) is int:
                starts[axis] = call("add", size, filled(size, p)) if p < 0 else p
                limits[axis] = call("add", size, filled(size, p + 1)) if p < 0 else p + 1
                parts[place], shape[axis] = 0, 1
            elif p != slice(None):
                starts[axis], limits[axis], steps[axis] = _bounds(p, size)
                parts[place] = slice(None)
        axis += width(p)
    if not is_cut:
        return x, tuple(parts)
    vectors = [as_vector(v) for v in (starts, limits, steps)]
    spec = x.spec.with_shape(shape)
    return call("real_dynamic_slice", x, *vectors, result=spec), tuple(parts)


def _bounds(p: slice, size: Tensor) -> tuple[Any, Any, int]:
    """Where a slice begins and ends along an axis of a size that is not known."""
    step = 1 if p.step is None else p.step
    if any(v is not None and type(v) is not int for v in (p.start, p.stop, step)) or step < 1:
        raise ShapeError(
            f"a slice along an axis of unknown size must be of integers, and go forward; got {shown(p)} [X2]"
        )
    start = _clamped(0 if p.start is None else p.start, size)
    stop = size if p.stop is None else _clamped(p.stop, size)
    return start, call("max", stop, start) if type(start) is Tensor else stop, step


def _clamped(n: int, size: Tensor) -> Any:
    """A place counted from either end, brought between them."""
    if n == 0:
        return 0
    if n > 0:
        return call("min", size, filled(size, n))
    return call("max", call("add", size, filled(size, n)), filled(size, 0))
