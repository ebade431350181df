"""What loops made by rules consist of: counters, stacks with a row for each round, and the loop itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from xlapy.errors import NotDifferentiableError
from xlapy.specs import Spec, TensorSpec
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.zeros import zeros_of

from .forms import reshaped

__all__ = [
    "counter", "empty_stack", "holds", "looped", "reckoned", "require_known_array", "row_at", "unchanged", "with_row",
]  # fmt: skip

Step: TypeAlias = Callable[..., Sequence[Any]]

# --- arithmetic of counters -----------------------------------------------------------------------------------------


def counter(value: int) -> Any:
    """An s32 constant."""
    return bind(lookup("constant"), value=np.int32(value))


def reckoned(name: str, *operands: Any) -> Any:
    """An operation on counters; Python integers are s32."""
    return bind(lookup(name), *[counter(x) if type(x) is int else x for x in operands])


def holds(x: Any, direction: str, y: Any) -> Any:
    """A comparison of counters; Python integers are s32."""
    x, y = [counter(v) if type(v) is int else v for v in (x, y)]
    return bind(lookup("compare"), x, y, comparison_direction=direction, compare_type="SIGNED")


def looped(state: Sequence[Any], goes_on: Callable[..., Any], step: Step) -> Sequence[Any]:
    """A loop; the functions are given the whole state and use nothing else of outside."""
    specs = [x.spec for x in state]
    cond = trace(lambda *s: goes_on(*s), specs, name="cond").computation
    body = trace(lambda *s: list(step(*s)), specs, name="body").computation
    outs: Sequence[Any] = bind(lookup("while"), *state, cond=cond, body=body)
    return outs


# --- stacks ---------------------------------------------------------------------------------------------------------


def require_known_array(spec: Spec) -> TensorSpec:
    """What is kept for the way back must have a size that is known when the program is made."""
    if type(spec) is not TensorSpec or not spec.is_static:
        raise NotDifferentiableError(
            f"what a loop keeps for the way back must be arrays of known shape; got {spec} [X4]"
        )
    return spec


def empty_stack(spec: Spec, length: int) -> Any:
    """Room for so many values."""
    spec = require_known_array(spec)
    return zeros_of(TensorSpec((length, *spec.shape), spec.dtype))


def with_row(stack: Any, at: Any, x: Any) -> Any:
    """The stack with a value written at a place."""
    shape = x.spec.shape
    row = reshaped(x, (1, *shape))
    return bind(lookup("dynamic_update_slice"), stack, row, at, *[counter(0) for _ in shape])


def row_at(stack: Any, at: Any) -> Any:
    """The value at a place."""
    shape = stack.spec.shape[1:]
    row = bind(
        lookup("dynamic_slice"), stack, at, *[counter(0) for _ in shape], slice_sizes=(1, *shape)
    )
    return reshaped(row, shape)


# --- the state ---------------------------------------------------------------------------------------------------


def unchanged(body: Computation) -> list[bool]:
    """Which entries of the state every round hands through."""
    return [r is p for r, p in zip(body.results, body.parameters, strict=True)]
