"""Families of elementwise operations: factories that make a whole record from what differs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from xlapy.dtypes import DType, python_scalar, weak_dtype
from xlapy.errors import ShapeError, XlapyError
from xlapy.specs import TensorSpec, as_ints, require, require_dtype, require_shape
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift, scalar_array
from xlapy.trace.computation import Value
from xlapy.trace.mode import annotate, bind, current_builder
from xlapy.trace.op import Hlo, Op, lookup, register

from .rules import batch_elementwise, elementwise

ANY: Final = frozenset(("bool", "int", "uint", "float", "complex"))
NUMBER: Final = frozenset(("int", "uint", "float", "complex"))
REAL: Final = frozenset(("int", "uint", "float"))
INTEGER: Final = frozenset(("int", "uint"))
LOGICAL: Final = frozenset(("bool", "int", "uint"))
FLOAT: Final = frozenset(("float",))
INEXACT: Final = frozenset(("float", "complex"))
SIGNED: Final = frozenset(("int", "float", "complex"))

_ORDER: Final = ("bool", "int", "uint", "float", "complex")


def kinds_text(kinds: frozenset[str]) -> str:
    """Kinds of element types as a list in words."""
    return ", ".join(k for k in _ORDER if k in kinds)


# --- families -------------------------------------------------------------------------------------


def unary(
    name: str,
    hlo: str | Hlo,
    *,
    section: str,
    dtypes: frozenset[str],
    kernel: Callable[[Any], Any],
    derivative: Callable[[Any, Any], Any] | None = None,
    ad: Any = None,
    result: Callable[[DType], Any] | None = None,
    check: Callable[..., None] | None = None,
    check_operand: Callable[[TensorSpec], None] | None = None,
) -> Op:
    """Register an operation on one array, element by element.

    Parameters
    ----------
    name : str
    hlo : str or Hlo
        The MLIR name, or the whole declaration.
    section : str
    dtypes : set of kinds
        Of the operand.
    kernel : callable
        ``kernel(x)``; parameters are for the lowering alone.
    derivative : callable, optional
        ``derivative(x, y)``: dy/dx, where y is the result.
    ad : AdKind, optional
        Where there is no such derivative.
    result : callable, optional
        From the operand's element type to the result's; by default the same.
    check : callable, optional
        ``check(**params)``: the constraints on the parameters; without it there are none.
    check_operand : callable, optional
        ``check_operand(x)``: what must hold of the operand besides its kind.
    """
    kinds = kinds_text(dtypes)
    form = _UNARY_PARAMETERS if check is None else _ACCURATE_PARAMETERS
    _parameters[name] = form.format(kinds=kinds)

    def infer(x: TensorSpec, **params: Any) -> TensorSpec:
        if type(x) is not TensorSpec or x.dtype.kind not in dtypes:
            require_dtype(False, "I1", f"the operand must be an array of kind {kinds}", x)
        if params:
            if check is None:
                require(False, "X1", f"{name} must have no parameters", params)
            else:
                check(**params)
        if check_operand is not None:
            check_operand(x)
        return x if result is None else x.with_dtype(result(x.dtype))

    if derivative is not None:
        given = derivative

        def pull(g: Any, x: Any, y: Any) -> Any:
            return bind(lookup("mul"), g, given(x, y))

        ad = elementwise(pull)
    return register(Op(
        name=name, section=section, infer=infer, hlo=hlo if isinstance(hlo, Hlo) else Hlo(hlo),
        kernel=lambda x, *, out, **params: kernel(x), ad=ad, batch=batch_elementwise,
    ))  # fmt: skip


def binary(
    name: str,
    hlo: str | Hlo,
    *,
    section: str,
    dtypes: frozenset[str],
    kernel: Callable[..., Any],
    ad: Any,
    result: Callable[[DType], Any] | None = None,
    check_operand: Callable[[TensorSpec], None] | None = None,
) -> Op:
    """Register an operation on two arrays of one spec, element by element; as `unary`."""
    kinds = kinds_text(dtypes)
    _parameters[name] = binary_parameters(kinds)

    def infer(x: TensorSpec, y: TensorSpec) -> TensorSpec:
        if x is not y:
            require_equal(x, y)
        if type(x) is not TensorSpec or x.dtype.kind not in dtypes:
            require_dtype(False, "I1", f"the operands must be arrays of kind {kinds}", x)
        if check_operand is not None:
            check_operand(x)
        return x if result is None else x.with_dtype(result(x.dtype))

    return register(Op(
        name=name, section=section, infer=infer, hlo=hlo if isinstance(hlo, Hlo) else Hlo(hlo),
        kernel=lambda x, y, *, out: kernel(x, y), ad=ad, batch=batch_elementwise,
    ))  # fmt: skip


def require_equal(
    x: Any,
    y: Any,
    dtype_label: str = "C1",
    shape_label: str = "C1",
    labels: tuple[str, str] = ("I1", "I2"),
) -> None:
    """Operands of one element type and shape; `labels` are those of the operands themselves."""
    if type(x) is not TensorSpec:
        require_dtype(False, labels[0], "the operands must be arrays", (x, y))
    if type(y) is not TensorSpec:
        require_dtype(False, labels[1], "the operands must be arrays", (x, y))
    if x.dtype is not y.dtype:
        require_dtype(
            False, dtype_label, "the operands must be of one element type", (x.dtype, y.dtype)
        )
    if x.shape != y.shape:
        require_shape(False, shape_label, "the operands must be of one shape", (x.shape, y.shape))
    if x.dynamic != y.dynamic:
        require_shape(
            False, shape_label, "the operands must have the same dynamic dimensions", (x, y)
        )


# --- how public functions meet their operands -----------------------------------------------------


def meet(
    name: str, x: Any, y: Any, broadcast_dimensions: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Two operands of one shape, for the operation `name`.

    Scalars are broadcast, and dimensions of size 1 beside larger ones; the dimensions of the operand of lower
    rank go where `broadcast_dimensions` says. Tensors of one spec come back as they are.
    """
    try:
        x, y = _as_tensors(x, y)
        a, b = x.placed.spec, y.placed.spec
        if a is b or type(a) is not TensorSpec or type(b) is not TensorSpec:
            return x, y
        if a.dtype is not b.dtype:
            x, y = settle_weak(x, y)
        return (x, y) if a.shape == b.shape else _spread(x, y, a, b, broadcast_dimensions)
    except XlapyError as error:
        raise annotate(error, name, [v.spec for v in (x, y) if type(v) is Tensor]) from None


def _as_tensors(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    # What has an element type of its own goes first: Python scalars take that.
    if type(x) is not Tensor and type(y) is not Tensor:
        if python_scalar(x) is not None:
            y = lift(y, ())
        else:
            x = lift(x, ())
    if type(x) is not Tensor:
        x = beside(x, y)
    if type(y) is not Tensor:
        y = beside(y, x)
    return x, y


def _spread(
    x: Tensor, y: Tensor, a: TensorSpec, b: TensorSpec, given: Sequence[int] | None
) -> tuple[Tensor, Tensor]:
    """Operands of different shapes broadcast to one, where the rules of XLA's builder allow it."""
    if a.rank > b.rank:
        y, x = _spread(y, x, b, a, given)
        return x, y
    if a.rank == b.rank:
        dims = tuple(range(a.rank))
    elif not a.rank and given is None:
        dims = ()
    elif given is None:
        return x, y  # infer refuses them
    else:
        dims = as_ints(given, "broadcast_dimensions", "X1")
        require(
            len(dims) == a.rank
            and all(0 <= d < b.rank for d in dims)
            and list(dims) == sorted(set(dims)),
            "X1",
            f"broadcast_dimensions must name a dimension of {b} for each of {a}, in order",
            dims,
        )
    shape = list(b.shape)
    for size, d in zip(a.shape, dims, strict=True):
        if shape[d] == 1:
            shape[d] = size
        elif size not in (1, shape[d]):
            require_shape(
                a.rank == b.rank, "X1", f"the sizes of {a} must be those of {b} at {dims}", a.shape
            )
            return x, y
    like = TensorSpec(tuple(shape), a.dtype, b.dynamic)
    if a.shape != like.shape:
        x = broadcast_to(x, like, dims)
    if b.shape != like.shape:
        y = broadcast_to(y, like, tuple(range(b.rank)))
    return x, y


def beside(x: Any, other: Tensor) -> Tensor:
    """An operand that is no tensor, for an operation with `other`.

    A Python scalar takes the element type of `other`. In a program being recorded it becomes one
    constant of the whole shape; at once it stays a scalar, so that no array of that size is made.
    """
    spec = other.placed.spec
    number = python_scalar(x)
    if type(spec) is TensorSpec and number is not None:
        builder = _builder_of(other)
        if builder is not None and not spec.dynamic and spec.rank and min(spec.shape) >= 0:
            # 0.0 == -0.0 and True == 1 == 1.0: the sign and the type are parts of the key.
            array = _splat(spec, number, _kind_of(number))
            made: Tensor = builder.record(lookup("constant"), (), {"value": array})
            return made
    return lift(x, (other,))


def predicate(x: Any, other: Tensor) -> Tensor:
    """A truth value, or an array of them, for an operation with `other`."""
    builder = _builder_of(other) if isinstance(x, bool) else None
    if builder is None:
        return lift(x, ())
    made: Tensor = builder.record(lookup("constant"), (), {"value": np.asarray(x)})
    return made


def _builder_of(x: Tensor) -> Any:
    """What records operations on `x`; None if they run at once."""
    builder = current_builder()
    if builder is None and type(x.payload) is Value:
        # A builder that was not entered: its values say where the constant belongs.
        scope = x.payload.scope
        return scope.builder if scope is not None and scope.open else None
    return builder


def _kind_of(x: bool | int | float | complex) -> str:
    return type(x).__name__ if isinstance(x, int) else repr(x)


@functools.lru_cache(maxsize=4096)
def _splat(spec: TensorSpec, x: Any, kind: str) -> Any:
    del kind
    return np.broadcast_to(scalar_array(x, spec.dtype), spec.shape)


def settle_weak(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """A parameter that stands for a Python scalar takes the element type of what it meets."""
    if is_weak(x) and not is_weak(y):
        return _converted(x, y.dtype), y
    if is_weak(y) and not is_weak(x):
        return x, _converted(y, x.dtype)
    return x, y


def is_weak(x: Tensor) -> bool:
    """Whether a traced tensor stands for a Python scalar."""
    value: Any = x.payload
    return type(value) is Value and value.scope is not None and value in value.scope.builder.weak


def _converted(x: Tensor, dtype: DType) -> Tensor:
    value: Any = x.payload
    stand_in = value.scope.builder.stand_ins.get(value)
    example = stand_in if stand_in is not None else _EXAMPLES[x.dtype.kind]
    if weak_dtype(example, dtype) is not dtype:
        return x  # a float does not become an integer
    source = value.scope.builder.weak_source(x, dtype)
    if source.dtype is dtype:
        return source  # type: ignore[no-any-return]
    made: Tensor = bind(lookup("convert_element_type"), source, dtype=dtype)
    return made


_EXAMPLES: Final[dict[str, Any]] = {"bool": True, "int": 0, "uint": 0, "float": 0.0, "complex": 0j}


def broadcast_to(x: Tensor, like: TensorSpec, dims: tuple[int, ...]) -> Tensor:
    """`x` with the shape of `like`, its dimensions going to `dims`."""
    if like.is_static:
        made: Tensor = bind(
            lookup("broadcast_in_dim"), x, shape=like.shape, broadcast_dimensions=dims
        )
        return made
    raise ShapeError(
        f"an operand beside one of varying shape must have that shape; got {x.spec} [X1]"
    )


# --- documentation --------------------------------------------------------------------------------

_BINARY_PARAMETERS: Final = """\
Parameters
----------
lhs, rhs : Tensor or array-like or scalar
    Of one element type ({kinds}) and shape; scalars are broadcast, and dimensions of size 1
    beside larger ones. A Python scalar takes the other operand's element type.
broadcast_dimensions : sequence of int, optional
    For operands of different rank: the dimension of the result for each dimension of the
    operand of lower rank, in increasing order.

Returns
-------
Tensor

Raises
------
DTypeError
    [I1] If an operand is of another kind; [C1] if the element types differ.
ShapeError
    [C1] If the shapes differ.
ConstraintError
    [X1] If `broadcast_dimensions` does not fit the operands."""

_UNARY_PARAMETERS: Final = """\
Parameters
----------
operand : Tensor or array-like or scalar
    Of kind {kinds}.

Returns
-------
Tensor

Raises
------
DTypeError
    [I1] If the operand is of another kind."""

_ACCURATE_PARAMETERS: Final = """\
Parameters
----------
operand : Tensor or array-like or scalar
    Of kind {kinds}.
result_accuracy : str or ResultAccuracy or tuple, optional
    ``"default"``, ``"highest"``, or tolerances as `ResultAccuracy` takes them. What a backend
    has no implementation for it refuses when it compiles.

Returns
-------
Tensor

Raises
------
DTypeError
    [I1] If the operand is of another kind.
ConstraintError
    [X1] If `result_accuracy` is none of these."""


#: the sections of the docstring that belong to each operation's public function
_parameters: Final[dict[str, str]] = {}


def binary_parameters(kinds: str) -> str:
    """The sections Parameters, Returns and Raises of an operation on two arrays."""
    return _BINARY_PARAMETERS.format(kinds=kinds)


def document(*functions: Callable[..., Any]) -> None:
    """Complete the docstrings of public functions with what their records know.

    A function belongs to the operation of its name, less a trailing underscore.
    """
    for function in functions:
        op = lookup(function.__name__.rstrip("_"))
        complete_docstring(function, _parameters[op.name], op.section, op)


def complete_docstring(function: Callable[..., Any], parameters: str, section: str, op: Op) -> None:
    """Put the sections of a docstring that come from a record before its examples."""
    text = inspect.cleandoc(function.__doc__ or "")
    head, marker, examples = text.partition("Examples\n--------\n")
    source = f"``{op.hlo.name}``"
    if section != "CHLO":
        source = f"Section {section} of the operation semantics; {source}"
    parts = [head.strip(), parameters, f"Notes\n-----\n{source}."]
    if marker:
        parts.append(marker + examples)
    function.__doc__ = "\n\n".join(parts) + "\n"
