"""Operations on floats of several precisions, which XLA's verifier refuses where it applies a computation to them.

All but the widest are taken as the integers that their bits are, and as floats again within the computation.
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

__all__ = ["converted", "in_one_precision", "retyped"]

#: the operations, and the parameter that is the computation
_BODIES: Final[Mapping[str, str]] = {
    "map": "computation", "reduce": "body", "scatter": "update_computation"
}  # fmt: skip


def in_one_precision(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same with floats of one type; None if it is so already, or the operation takes several."""
    op = instruction.op
    key = _BODIES.get(op.name)
    if key is None:
        return None
    specs: list[Any] = [v.spec for v in instruction.operands]
    floats = {s.dtype for s in specs if s.dtype.kind == "float"}
    if len(floats) < 2:
        return None
    # Which one of several equally wide is not left to the order of a set, for programs are kept by their text.
    kept = max(floats, key=lambda d: (d.bits, d.name))

    def carried(dtype: DType) -> DType:
        # No float holds all others: not f16 what f8e8m0fnu has, nor any that counts few exponents as zeros.
        return as_dtype(f"u{dtype.bits}") if dtype in floats and dtype is not kept else dtype

    def as_bits(*operands: Any, **params: Any) -> Any:
        given = [converted(x, carried(x.spec.dtype)) for x in operands]
        # What a map gives may be of any type.
        body = retyped(params[key], carried, results=op.name != "map")
        found = bind(op, *given, **{**params, key: body})
        if type(found) is not tuple:
            return found
        results = instruction.results
        return tuple([converted(y, v.spec.dtype) for y, v in zip(found, results, strict=True)])  # type: ignore[union-attr]

    return as_bits


def converted(x: Any, dtype: DType) -> Any:
    """Of another type: by its value, or if one of the types is a float by the bits of that."""
    own = x.spec.dtype
    if own is dtype:
        return x
    convert, bits = lookup("convert_element_type"), lookup("bitcast_convert_type")
    if (own.kind == "float") is (dtype.kind == "float"):
        return bind(convert, x, dtype=dtype)
    pattern = as_dtype(f"u{own.bits if own.kind == 'float' else dtype.bits}")
    for op, kind in (
        ((bits, pattern), (convert, dtype))
        if own.kind == "float"
        else ((convert, pattern), (bits, dtype))
    ):
        if x.spec.dtype is not kind:
            x = bind(op, x, dtype=kind)
    return x


def retyped(body: Computation, change: Callable[[DType], DType], *, results: bool) -> Computation:
    """A computation that takes scalars of other types, converts them and does the same; and back, if `results`."""
    specs: list[Any] = list(body.parameter_specs)

    def run(*scalars: Any) -> list[Any]:
        given = [converted(x, s.dtype) for x, s in zip(scalars, specs, strict=True)]
        found = inline(body, given)
        return [converted(y, change(y.spec.dtype)) for y in found] if results else list(found)

    return as_computation(run, [TensorSpec((), change(s.dtype)) for s in specs], name=body.name)
