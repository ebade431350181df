"""Operations on floats of several precisions, which XLA's verifier refuses where it applies a computation to them.

All of them are converted to the widest precision, which holds them exactly, and back within the computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec
from xlapy.trace.builder import as_computation
from xlapy.trace.computation import Computation, Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline

__all__ = ["in_one_precision", "retyped"]

#: the operations, and the parameter that is the computation
_BODIES: Final[Mapping[str, str]] = {
    "map": "computation", "reduce": "body", "scatter": "update_computation"
}  # fmt: skip


def in_one_precision(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same in one precision; None if it is one already, or the operation takes several."""
    op = instruction.op
    key = _BODIES.get(op.name)
    if key is None:
        return None
    specs: list[Any] = [v.spec for v in instruction.operands]
    floats = {s.dtype for s in specs if s.dtype.kind == "float"}
    if len(floats) < 2:
        return None
    wide = max(floats, key=lambda d: d.bits)
    if any(d is not wide and d.bits == wide.bits for d in floats):
        wide = as_dtype("f32")  # bf16 and f16, or floats of 8 bits

    def widened(*operands: Any, **params: Any) -> Any:
        given = [_converted(x, wide) for x in operands]
        # What a map gives may be of any type.
        body = retyped(
            params[key], lambda d: wide if d.kind == "float" else d, results=op.name != "map"
        )
        found = bind(op, *given, **{**params, key: body})
        if type(found) is not tuple:
            return found
        results = instruction.results
        return tuple([_converted(y, v.spec.dtype) for y, v in zip(found, results, strict=True)])  # type: ignore[union-attr]

    return widened


def _converted(x: Any, dtype: DType) -> Any:
    own = x.spec.dtype
    if own is dtype or own.kind != "float":
        return x
    return bind(lookup("convert_element_type"), x, dtype=dtype)


def retyped(body: Computation, change: Callable[[DType], DType], *, results: bool) -> Computation:
    """A computation that takes scalars of other types, converts them and does the same; and back, if `results`."""
    specs: list[Any] = list(body.parameter_specs)
    convert = lookup("convert_element_type")

    def run(*scalars: Any) -> list[Any]:
        found = inline(body, [bind(convert, x, dtype=s.dtype) for x, s in zip(scalars, specs)])
        return [bind(convert, y, dtype=change(y.spec.dtype)) for y in found] if results else found

    return as_computation(run, [TensorSpec((), change(s.dtype)) for s in specs], name=body.name)
