"""How operands of numpy-like functions meet: element types promote, shapes broadcast.

These functions run inside a trace (see `xlapy.staging.composite`), so everything here is recorded.
"""

from __future__ import annotations

from typing import Any

from xlapy.dtypes import DType, promote, weak_dtype
from xlapy.errors import DTypeError
from xlapy.specs import TensorSpec, broadcast_shapes
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.computation import Value
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.zeros import constant_of

__all__ = [
    "as_tensor",
    "broadcast_to_shape",
    "convert",
    "is_weak",
    "meet",
    "meet_all",
    "promoted",
    "weak_value",
]

_SCALARS = (bool, int, float, complex)


def is_weak(x: Tensor) -> bool:
    """Whether a traced tensor stands for a Python scalar, and so takes the type of what it meets."""
    value = x.payload
    return type(value) is Value and value.scope is not None and value in value.scope.builder.weak


def weak_value(x: Tensor) -> Any:
    """A Python scalar of the kind, sign and width of a weak tensor."""
    stand_in = x.payload.scope.builder.stand_ins.get(x.payload)
    if stand_in is not None:
        return stand_in
    return {"bool": True, "int": 1, "uint": 1, "float": 0.5, "complex": 0.5j}[x.dtype.kind]


def as_tensor(x: Any) -> Tensor:
    """An operand as a tensor; a weak one becomes one of its kind's default type."""
    if type(x) is not Tensor:
        return lift(x)
    if type(x.placed.spec) is not TensorSpec:
        raise DTypeError(f"an operand must be an array; got {x.placed.spec} [X1]")
    if is_weak(x) and x.dtype.bits == (128 if x.dtype.kind == "complex" else 64):
        from xlapy.dtypes import as_dtype

        return convert(
            x,
            as_dtype({"int": "s32", "uint": "u64", "float": "f32", "complex": "c64"}[x.dtype.kind]),
        )
    return x


def convert(x: Tensor, dtype: DType) -> Tensor:
    """The tensor with another element type; itself where it has it already."""
    if x.placed.spec.dtype is dtype:
        return x
    result: Tensor = bind(lookup("convert_element_type"), x, dtype=dtype)
    return result


def broadcast_to_shape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The tensor repeated to a shape by numpy's rules; itself where it has it already."""
    own = x.placed.spec.shape
    if own == shape:
        return x
    offset = len(shape) - len(own)
    result: Tensor = bind(
        lookup("broadcast_in_dim"),
        x,
        shape=shape,
        broadcast_dimensions=tuple(range(offset, len(shape))),
    )
    return result


def meet(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands of one element type and shape."""
    if type(x) is Tensor:
        if type(y) is Tensor:
            if x.placed is y.placed and not is_weak(x):
                return x, y
        elif type(y) in _SCALARS and not is_weak(x):
            x = as_tensor(x)
            dtype = weak_dtype(y, x.dtype)
            return convert(x, dtype), constant_of(TensorSpec(x.shape, dtype), y)
    elif type(x) in _SCALARS and type(y) is Tensor and not is_weak(y):
        y = as_tensor(y)
        dtype = weak_dtype(x, y.dtype)
        return constant_of(TensorSpec(y.shape, dtype), x), convert(y, dtype)
    x, y = promoted(x, y)
    shape = broadcast_shapes(x.shape, y.shape)
    return broadcast_to_shape(x, shape), broadcast_to_shape(y, shape)


def meet_all(*xs: Any) -> list[Tensor]:
    """Any number of operands of one element type and shape."""
    tensors = promoted(*xs)
    shape = broadcast_shapes(*[t.shape for t in tensors])
    return [broadcast_to_shape(t, shape) for t in tensors]


def result_dtype(*xs: Any) -> DType:
    """The element type on which operands meet; Python scalars and weak tensors adapt to the others."""
    strong: DType | None = None
    weak: list[Any] = []
    for x in xs:
        if isinstance(x, DType):
            strong = x if strong is None else promote(strong, x)
        elif type(x) in _SCALARS:
            weak.append(x)
        else:
            t = x if type(x) is Tensor else lift(x)
            if is_weak(t):
                weak.append(weak_value(t))
            else:
                strong = t.dtype if strong is None else promote(strong, t.dtype)
    if strong is None:
        kinds = (bool, int, float, complex)
        highest = max((type(w) for w in weak), key=kinds.index)
        from xlapy.dtypes import as_dtype

        return as_dtype(highest)
    for w in weak:
        strong = weak_dtype(w, strong)
    return strong


def promoted(*xs: Any) -> list[Tensor]:
    """Operands of one element type, each of its own shape."""
    lifted = [x if type(x) is Tensor or type(x) in _SCALARS else lift(x) for x in xs]
    dtype = result_dtype(*lifted)
    return [
        constant_of(TensorSpec((), dtype), x)
        if type(x) in _SCALARS
        else convert(_checked(x), dtype)
        for x in lifted
    ]


def _checked(x: Tensor) -> Tensor:
    if type(x.placed.spec) is not TensorSpec:
        raise DTypeError(f"an operand must be an array; got {x.placed.spec} [X1]")
    return x
