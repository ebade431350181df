"""How operands of numpy-like functions meet: element types promote, shapes broadcast.

These functions run inside a trace (see `xlapy.staging.composite`), so everything here is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from xlapy.dtypes import DType, as_dtype, promote, python_scalar, weak_dtype
from xlapy.errors import DTypeError, shown
from xlapy.specs import TensorSpec, broadcast_shapes, has_unknown
from xlapy.tensor import Tensor, operators
from xlapy.trace.builder import lift
from xlapy.trace.computation import Value
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.sizes import broadcast_any, filled_like, size_of
from xlapy.trace.zeros import constant_of

__all__ = [
    "as_tensor",
    "at_dtype",
    "broadcast_to_shape",
    "broadcast_together",
    "call",
    "convert",
    "filled",
    "inexact",
    "inexact_dtype",
    "is_weak",
    "meet",
    "meet_all",
    "meet_inexact",
    "named",
    "operand",
    "promoted",
    "require_complex_kept",
    "result_dtype",
    "spread",
    "use_as_exponent",
    "weak_source",
    "weak_value",
]

_SCALARS: Final = (bool, int, float, complex)
_S32, _U64, _F32, _F64, _C64 = (as_dtype(n) for n in ("s32", "u64", "f32", "f64", "c64"))
# The types of the hidden parameters that stand for Python scalars, and what these count as alone.
_DEFAULTS: Final = {"int": _S32, "uint": _U64, "float": _F32, "complex": _C64}


# --- Python scalars -----------------------------------------------------------------------------------------------


def is_weak(x: Tensor) -> bool:
    """Whether a traced tensor stands for a Python scalar, and so takes the type of what it meets."""
    value = x.payload
    return type(value) is Value and value.scope is not None and value in value.scope.builder.weak


def weak_source(x: Tensor, dtype: DType) -> Tensor:
    """What of a weak tensor to convert to an element type."""
    source: Tensor = x.payload.scope.builder.weak_source(x, dtype)
    return source


def weak_value(x: Tensor) -> Any:
    """A Python scalar of the kind, sign and width of a weak tensor."""
    stand_in = x.payload.scope.builder.stand_ins.get(x.payload)
    if stand_in is not None:
        return stand_in
    return {"bool": True, "int": 1, "uint": 1, "float": 0.5, "complex": 0.5j}[x.dtype.kind]


def named(x: Any) -> Any:
    """What an error says of an operand: a Python scalar itself, or an array's spec."""
    if type(x) is Tensor and not is_weak(x):
        return x.spec
    return shown(weak_value(x) if type(x) is Tensor else x)


def use_as_exponent(x: Any) -> None:
    """Say that an integer is raised to what stands for one, which must not be negative then."""
    use = (
        x.payload.scope.builder.scalars.get(x.payload) if type(x) is Tensor and is_weak(x) else None
    )
    if use is not None:
        use.is_exponent = True


# --- one operand --------------------------------------------------------------------------------------------------


def as_tensor(x: Any) -> Tensor:
    """An operand as a tensor; a Python scalar, or a weak tensor, becomes one of its kind's default type."""
    if type(x) is not Tensor:
        return _lifted(x)
    spec = x.placed.spec
    if type(spec) is not TensorSpec:
        raise DTypeError(f"an operand must be an array; got {spec} [X1]")
    if not spec.rank and is_weak(x):
        default = _DEFAULTS.get(spec.dtype.kind, spec.dtype)
        if default.integer and default is not _U64:
            weak_dtype(weak_value(x), default)  # must fit
        return _settled(convert(weak_source(x, default), default))
    return x


def _settled(x: Tensor) -> Tensor:
    """What a Python scalar became of a type: an array from now on, as it is outside a trace."""
    return call("reshape", x, shape=()) if is_weak(x) else x


def _lifted(x: Any) -> Tensor:
    if isinstance(x, list | tuple):
        made: Tensor = operators["asarray"](x)  # tensors may be among the elements
        return made
    return lift(x)


def inexact_dtype(dtype: DType) -> DType:
    """The floating-point type that stands for an integer or boolean one; an inexact type itself."""
    if dtype.inexact:
        return dtype
    return _F64 if dtype.bits == 64 else _F32


def inexact(x: Any) -> Tensor:
    """An operand as a tensor of floats or complex numbers: 64-bit integers become f64, other ones f32."""
    if type(x) is Tensor:
        spec = x.placed.spec
        if type(spec) is TensorSpec:
            if spec.rank or not is_weak(x):
                return x if spec.dtype.inexact else convert(x, inexact_dtype(spec.dtype))
            weak_dtype(weak_value(x), _F32)  # must fit
            dtype = _C64 if spec.dtype.kind == "complex" else _F32
            return _settled(convert(weak_source(x, dtype), dtype))
    elif isinstance(x, int):
        weak_dtype(x, _F32)
        x = float(x)
    x = as_tensor(x)
    return convert(x, inexact_dtype(x.dtype))


def require_complex_kept(is_complex: bool, dtype: DType) -> None:
    """A conversion must not drop imaginary parts silently."""
    if is_complex and dtype.kind != "complex":
        raise DTypeError(
            f"complex numbers must not become real ones: take real() first; got the element type {dtype} [X1]"
        )


def convert(x: Tensor, dtype: DType) -> Tensor:
    """The tensor with another element type; itself where it has it already."""
    if x.spec.dtype is dtype:
        return x
    result: Tensor = bind(lookup("convert_element_type"), x, dtype=dtype)
    return result


def call(name: str, *operands: Any, **params: Any) -> Tensor:
    """Call an operation of one result by its name."""
    result: Tensor = bind(lookup(name), *operands, **params)
    return result


def filled(like: Tensor, value: bool | int | float | complex) -> Tensor:
    """A constant of a tensor's shape and element type."""
    spec = like.spec
    static = spec.is_static
    made: Tensor = constant_of(spec, value) if static else filled_like(like, value, spec.dtype)
    return made


def broadcast_to_shape(x: Tensor, shape: tuple[int, ...], like: Sequence[Tensor] = ()) -> Tensor:
    """The tensor repeated to a shape by numpy's rules; itself where it has it already.

    Sizes that are not known before the program runs are those of the tensors `like`.
    """
    own: tuple[int, ...] = x.spec.shape
    if own == shape:
        return x
    return spread(x, shape, tuple(range(len(shape) - len(own), len(shape))), like)


def spread(
    x: Tensor, shape: tuple[int, ...], dimensions: tuple[int, ...], like: Sequence[Tensor] = ()
) -> Tensor:
    """The tensor along some dimensions of a shape, repeated along the others; `like` as for `broadcast_to_shape`."""
    result: Tensor
    varying = [y for y in (x, *like) if not y.spec.is_static]
    if varying and has_unknown(shape):
        result = broadcast_any(x, shape, dimensions, like)
        return result
    result = bind(lookup("broadcast_in_dim"), x, shape=shape, broadcast_dimensions=dimensions)
    for y in varying:
        if y.shape == shape:
            result = _sized(result, [y])
    return result


# --- several operands ---------------------------------------------------------------------------------------------


def meet(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands of one element type and shape."""
    if type(x) is Tensor:
        if type(y) is Tensor:
            spec = x.placed.spec
            if (
                spec is y.placed.spec
                and type(spec) is TensorSpec
                and (spec.rank or not (is_weak(x) or is_weak(y)))
            ):
                return x, y
        elif type(y) in _SCALARS and type(x.placed.spec) is TensorSpec:
            spec = x.placed.spec
            if spec.rank or not is_weak(x):
                dtype = weak_dtype(y, spec.dtype)
                return convert(x, dtype), filled_like(x, y, dtype)
    elif type(x) in _SCALARS and type(y) is Tensor and type(y.placed.spec) is TensorSpec:
        spec = y.placed.spec
        if spec.rank or not is_weak(y):
            dtype = weak_dtype(x, spec.dtype)
            return filled_like(y, x, dtype), convert(y, dtype)
    x, y = promoted(x, y)
    return _together(x, y)


def meet_inexact(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands of one shape and one floating-point or complex type."""
    if type(x) is Tensor and type(y) is Tensor:
        spec = x.placed.spec
        if spec is y.placed.spec and type(spec) is TensorSpec and spec.rank and spec.dtype.inexact:
            return x, y
    lifted = [operand(v) for v in (x, y)]
    dtype = inexact_dtype(result_dtype(*lifted))
    x, y = (at_dtype(v, dtype) for v in lifted)
    return _together(x, y)


def _together(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two tensors repeated to one shape."""
    a, b = x.spec, y.spec
    if not (a.is_static and b.is_static):
        x, y = broadcast_together(x, y)
        return x, y
    if a.shape == b.shape:
        return x, y
    shape = broadcast_shapes(a.shape, b.shape)
    return broadcast_to_shape(x, shape), broadcast_to_shape(y, shape)


def meet_all(*xs: Any) -> list[Tensor]:
    """Any number of operands of one element type and shape."""
    return broadcast_together(*promoted(*xs))


def broadcast_together(*tensors: Tensor) -> list[Tensor]:
    """Tensors repeated to the shape on which they meet by numpy's rules."""
    specs: list[Any] = [t.placed.spec for t in tensors]
    shape = broadcast_shapes(*[s.shape for s in specs])
    found = [
        t if s.shape == shape else broadcast_to_shape(t, shape, tensors)
        for t, s in zip(tensors, specs, strict=True)
    ]
    for s in specs:
        if s.dynamic:
            return [_sized(t, found) for t in found]
    return found


def _sized(x: Tensor, others: Sequence[Tensor]) -> Tensor:
    """A tensor cut along the axes whose size varies in others of its shape."""
    for d in range(x.ndim):
        like = next((t for t in others if d in t.spec.dynamic), None)
        if like is not None and d not in x.spec.dynamic:
            x = call("set_dimension_size", x, size_of(like, d), dimension=d, varies=True)
    return x


def result_dtype(*xs: Any) -> DType:
    """The element type on which operands meet; Python scalars and weak tensors adapt to the others."""
    strong: DType | None = None
    weak: list[Any] = []
    arguments: list[Tensor] = []
    for x in xs:
        if isinstance(x, DType):
            strong = x if strong is None else promote(strong, x)
        elif type(x) in _SCALARS:
            weak.append(x)
        elif type(x) is not Tensor and python_scalar(x) is not None:
            weak.append(python_scalar(x))
        else:
            t = x if type(x) is Tensor else _lifted(x)
            if is_weak(t):
                weak.append(weak_value(t))
                arguments.append(t)
            else:
                strong = t.dtype if strong is None else promote(strong, t.dtype)
    if strong is None:
        return as_dtype(max((type(w) for w in weak), key=_SCALARS.index))
    # The highest kind first: it says whether integers have to fit an integer type.
    for w in sorted(weak, key=lambda w: _SCALARS.index(type(w)), reverse=True):
        strong = weak_dtype(w, strong)
    if strong.integer:
        for t in arguments:
            weak_source(t, strong)  # those of each call must fit
    return strong


def promoted(*xs: Any) -> list[Tensor]:
    """Operands of one element type, each of its own shape."""
    lifted = [operand(x) for x in xs]
    dtype = result_dtype(*lifted)
    return [at_dtype(x, dtype) for x in lifted]


def operand(x: Any) -> Any:
    """A tensor or a Python scalar, which is left to adapt."""
    if type(x) is Tensor:
        if type(x.placed.spec) is not TensorSpec:
            raise DTypeError(f"an operand must be an array; got {x.placed.spec} [X1]")
        return x
    if type(x) in _SCALARS:
        return x
    number = python_scalar(x)
    return _lifted(x) if number is None else number


def at_dtype(x: Any, dtype: DType) -> Tensor:
    """What `operand` gave, as a tensor of an element type."""
    if type(x) is Tensor:
        if not x.spec.rank and is_weak(x):
            weak_dtype(weak_value(x), dtype)  # must fit
            return _settled(convert(weak_source(x, dtype), dtype))
        return convert(x, dtype)
    if dtype.integer or type(x) is int:
        weak_dtype(x, dtype)  # must fit
    result: Tensor = constant_of(TensorSpec((), dtype), x)
    return result
