"""Arrays with a size that is known only when the program runs, perhaps with a bound: reshaping and slicing them."""

from __future__ import annotations

import math
from typing import Any

from xlapy.errors import ShapeError, shown
from xlapy.specs import DYNAMIC
from xlapy.tensor import Tensor
from xlapy.trace.sizes import as_vector, size_of

from .index_forms import part, width
from .promotion import call, filled

__all__ = ["any_shape", "cut", "require_known_size"]


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


def require_known_size(x: Tensor, axis: int, what: str) -> None:
    """Refuse to count along an axis whose size varies up to a bound: the bound is not its size."""
    if axis in x.spec.dynamic:
        raise ShapeError(
            f"{what} must be along an axis of known size; got axis {axis} of {x.spec} [X2]"
        )


def cut(x: Tensor, index: Any) -> tuple[Tensor, Any]:
    """The slices and integers of an index taken along axes of unknown size; the rest of the index is for the result.

    What an integer picks must be there when the program runs; slices end where the array does, as numpy's do.
    """
    varying = [d for d in range(x.ndim) if x.shape[d] is DYNAMIC or d in x.spec.dynamic]
    parts = [part(p) for p in (index if type(index) is tuple else (index,))]
    starts: list[Any] = [0] * x.ndim
    limits: list[Any] = [size_of(x, d) for d in range(x.ndim)]
    steps = [1] * x.ndim
    shape: list[int] = list(x.shape)
    kept = set(x.spec.dynamic)
    is_cut = False
    axis = 0
    for place, p in enumerate(parts):
        if p is Ellipsis:
            axis += x.ndim - sum(map(width, parts))
            continue
        if type(p) not in (int, slice, type(None)) and axis in x.spec.dynamic:
            require_known_size(x, axis, "arrays as index")
        if type(p) in (int, slice) and axis in varying and not _turns(p, x, axis):
            size = limits[axis]
            is_cut |= p != slice(None)
            if type(p) is int:
                starts[axis] = call("add", size, filled(size, p)) if p < 0 else p
                limits[axis] = call("add", size, filled(size, p + 1)) if p < 0 else p + 1
                parts[place], shape[axis] = 0, 1
                kept.discard(axis)
            elif p != slice(None):
                starts[axis], limits[axis], steps[axis] = _bounds(p, size)
                parts[place] = slice(None)
                if shape[axis] is not DYNAMIC:
                    shape[axis] = _most(p, shape[axis])
        axis += width(p)
    if not is_cut:
        return x, tuple(parts)
    vectors = [as_vector(v) for v in (starts, limits, steps)]
    spec = x.spec.with_shape(shape, [d for d in x.spec.dynamic if d in kept])
    return call("real_dynamic_slice", x, *vectors, result=spec), tuple(parts)


def _turns(p: int | slice, x: Tensor, axis: int) -> bool:
    """Whether a part of an index turns round an axis whose size varies up to a bound, which `rev` does."""
    return p == slice(None, None, -1) and axis in x.spec.dynamic


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


def _most(p: slice, bound: int) -> int:
    """How many elements a slice may take of as many as a bound."""
    ends = [n or 0 for n in (p.start, p.stop)]
    if (ends[0] < 0) != (ends[1] < 0):
        return bound
    return len(range(*p.indices(bound)))


def _clamped(n: int, size: Tensor) -> Any:
    """A place counted from either end, brought between them."""
    if n == 0:
        return 0
    if n > 0:
        return call("min", size, filled(size, n))
    return call("max", call("add", size, filled(size, n)), filled(size, 0))
