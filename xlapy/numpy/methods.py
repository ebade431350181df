"""The operators, methods and properties of `Tensor`, filled in."""

from __future__ import annotations

import functools
from typing import Any

from xlapy import tensor
from xlapy.errors import ConstraintError
from xlapy.trace.scalars import derived

from . import arithmetic, comparison, powers, rounding
from .operators import binary_operator, unary_operator

_BINARY = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.divide,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "divmod": arithmetic.divmod,
    "pow": powers.pow,
    "and": comparison.bitwise_and,
    "or": comparison.bitwise_or,
    "xor": comparison.bitwise_xor,
    "lshift": comparison.bitwise_left_shift,
    "rshift": comparison.bitwise_right_shift,
}
_COMPARISONS = {
    "lt": comparison.less,
    "le": comparison.less_equal,
    "gt": comparison.greater,
    "ge": comparison.greater_equal,
    "eq": comparison.equal,
    "ne": comparison.not_equal,
}


# `numpy.sum(x)` and its like call the method of x, with `out`.
_NUMPY_PASSES_OUT = (
    "all",
    "any",
    "argmax",
    "argmin",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
)


def _without_out(function: Any) -> Any:
    """The function as a method that takes ``out=None`` as well."""

    @functools.wraps(function)
    def method(x: Any, /, *args: Any, out: None = None, **kwargs: Any) -> Any:
        if out is not None:
            raise ConstraintError(
                f"{function.__name__}: out must be None, for tensors are not written to; got"
                f" {type(out).__name__} [X1]"
            )
        return function(x, *args, **kwargs)

    return method


def _operators() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, function in _BINARY.items():
        found[f"__{name}__"], found[f"__r{name}__"] = binary_operator(function)
    for name, function in _COMPARISONS.items():
        found[f"__{name}__"], _ = binary_operator(function)
    return found


def _install() -> None:
    from . import (
        contraction,
        creation,
        cumulative,
        datatypes,
        indexing,
        joining,
        namespace,
        reductions,
        shaping,
        sorting,
        updates,
    )

    attributes: dict[str, Any] = _operators()
    attributes["__matmul__"], attributes["__rmatmul__"] = binary_operator(contraction.matmul)
    attributes |= {
        "__neg__": unary_operator(arithmetic.negative),
        "__pos__": unary_operator(arithmetic.positive),
        "__abs__": unary_operator(arithmetic.abs),
        "__invert__": unary_operator(comparison.bitwise_invert),
        "__round__": _round,
        "__getitem__": indexing.getitem,
        "__setitem__": updates.setitem,
        "reshape": _reshape,
        "transpose": _transpose,
        "astype": datatypes.astype,
        "copy": creation.copy,
        "flatten": shaping.ravel,
    }
    for module, names in (
        (cumulative, "cumprod cumsum"),
        (reductions, "all any argmax argmin max mean min prod std sum var"),
        (arithmetic, "clip conj"),
        (rounding, "round"),
        (shaping, "ravel squeeze swapaxes"),
        (contraction, "dot"),
        (joining, "repeat"),
        (indexing, "take"),
        (sorting, "argsort sort"),
    ):
        for name in names.split():
            found = getattr(module, name)
            attributes[name] = _without_out(found) if name in _NUMPY_PASSES_OUT else found
    functions: dict[str, Any] = {
        "transpose": shaping.permute_dims,
        "matrix_transpose": shaping.matrix_transpose,
        "__array_namespace__": namespace.namespace_of,
        "at": updates.at,
        "real": arithmetic.real,
        "imag": arithmetic.imag,
        "to": creation.to,
        "asarray": creation.asarray,
        "any": reductions.any,
        "equal": comparison.equal,
    }
    tensor.install(functions, attributes)


def _round(x: Any, digits: int | None = None) -> Any:
    """As Python rounds its own numbers, where `x` stands for one."""
    made = derived("round", x) if digits is None else derived("round", x, digits)
    return rounding.round(x, 0 if digits is None else digits) if made is None else made


def _reshape(x: Any, /, *shape: Any) -> Any:
    """As `xlapy.reshape`; the sizes may also be arguments of their own."""
    from .shaping import reshape

    return reshape(x, shape[0] if len(shape) == 1 else shape)


def _transpose(x: Any, /, *axes: Any) -> Any:
    """As `xlapy.permute_dims`; the axes may also be arguments of their own."""
    from .shaping import permute_dims

    if not axes:
        return permute_dims(x)
    return permute_dims(x, axes[0] if len(axes) == 1 else axes)


_install()
