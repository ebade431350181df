"""Operations on arrays of varying size that XLA gets wrong, done on whole arrays.

A comparison of integers with themselves it makes a constant of, and dies of the constant's size; it has no barriers
and no total order for such arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy.specs import TensorSpec
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.sizes import sized_like, whole

__all__ = ["on_whole_arrays"]


def on_whole_arrays(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same; None for other operations, and where all sizes are known."""
    name = instruction.op.name
    if name not in ("compare", "optimization_barrier"):
        return None
    specs = [v.spec for v in instruction.operands]
    if all(type(s) is not TensorSpec or s.is_static for s in specs):
        return None
    if name == "optimization_barrier":
        return _barrier
    total = instruction.params.get("compare_type") == "TOTALORDER"
    return _compare if total or not specs[0].dtype.inexact else None  # type: ignore[union-attr]


def _compare(x: Any, y: Any, **params: Any) -> Any:
    return sized_like(bind(lookup("compare"), whole(x), whole(y), **params), x)


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
