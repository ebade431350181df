"""Operations on arrays of varying size that XLA gets wrong, done on whole arrays.

Of a slice it takes the size to reach beyond the limit. A comparison of integers with themselves it makes a constant of,
and dies of the constant's size; it has no barriers and no total order for such arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.sizes import sized_like, whole

__all__ = ["on_whole_arrays"]


def on_whole_arrays(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same; None for other operations, and where all sizes are known."""
    name = instruction.op.name
    if name not in ("compare", "optimization_barrier", "slice"):
        return None
    specs = [v.spec for v in instruction.operands]
    if all(type(s) is not TensorSpec or s.is_static for s in specs):
        return None
    if name == "slice":
        return _slice
    if name == "optimization_barrier":
        return _barrier
    total = instruction.params.get("compare_type") == "TOTALORDER"
    return _compare if total or not specs[0].dtype.inexact else None  # type: ignore[union-attr]


def _compare(x: Any, y: Any, **params: Any) -> Any:
    return sized_like(bind(lookup("compare"), whole(x), whole(y), **params), x)


def _slice(
    x: Any, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Sequence[int]
) -> Any:
    """As many elements as lie before the limit, which XLA does not ask for."""
    made = bind(
        lookup("slice"), whole(x), start_indices=start_indices, limit_indices=limit_indices, strides=strides
    )  # fmt: skip

    def number(value: int) -> Any:
        return bind(lookup("constant"), value=np.array(value, np.int32))

    for d in x.spec.dynamic:
        start, limit, stride = start_indices[d], limit_indices[d], strides[d]
        size = bind(lookup("get_dimension_size"), x, dimension=d)
        size = bind(lookup("clamp"), number(start), size, number(max(start, limit)))
        # ceil((size - start) / stride)
        size = bind(lookup("add"), size, number(stride - 1 - start))
        size = bind(lookup("div"), size, number(stride))
        made = bind(lookup("set_dimension_size"), made, size, dimension=d, varies=True)
    return made


def _barrier(*xs: Any) -> Any:
    """One for the arrays whose sizes are known, and for what is no array."""
    held = [not _varies(x) for x in xs]
    if not any(held):
        return xs
    kept: Sequence[Any] = bind(
        lookup("optimization_barrier"), *[x for x, h in zip(xs, held, strict=True) if h]
    )
    rest = iter(kept if type(kept) is tuple else (kept,))
    return tuple([next(rest) if h else x for x, h in zip(xs, held, strict=True)])


def _varies(x: Any) -> bool:
    return type(x.spec) is TensorSpec and not x.spec.is_static
