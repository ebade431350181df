"""Functions of complex numbers that XLA takes as differences of exponentials, which lose a small part.

``sin(1 + 1e-20i)`` is real there. Here they are made of functions of the two parts, each as exact as these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup

__all__ = ["by_parts"]


def by_parts(instruction: Instruction) -> Callable[..., Any] | None:
    """What computes the same of the parts of a complex number; None for all other operations."""
    found = _BY_PARTS.get(instruction.op.name)
    if found is None:
        return None
    spec = instruction.operands[0].spec
    if type(spec) is not TensorSpec or spec.dtype.kind != "complex":
        return None
    return found


def _call(name: str, *xs: Any, **params: Any) -> Any:
    return bind(lookup(name), *xs, **params)


def _parts(z: Any) -> tuple[Any, Any]:
    return _call("real", z), _call("imag", z)


def _number(like: Any, value: float) -> Any:
    one = _call("constant", value=np.array(value, like.spec.dtype.numpy))
    shape = like.spec.shape
    return _call("broadcast_in_dim", one, shape=shape, broadcast_dimensions=()) if shape else one


def _unless_zero(x: Any, otherwise: Any, product: Any) -> Any:
    """A product with an infinite or overflowing factor, which is nothing where the other one is."""
    zero = _call("compare", x, _number(x, 0.0), comparison_direction="EQ", compare_type="FLOAT")
    return _call("select", zero, otherwise, product)


def _odd(x: Any, y: Any, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """The parts of ``sinh(x + iy)``."""
    real = _call("mul", _call("sinh", x), _call("cos", y, **params))
    imag = _call("mul", _call("cosh", x), _call("sin", y, **params))
    return _unless_zero(x, x, real), _unless_zero(y, y, imag)


def _even(x: Any, y: Any, params: Mapping[str, Any]) -> tuple[Any, Any]:
    """The parts of ``cosh(x + iy)``."""
    real = _call("mul", _call("cosh", x), _call("cos", y, **params))
    imag = _call("mul", _call("sinh", x), _call("sin", y, **params))
    nothing = _call("mul", _call("sign", x), y)
    return real, _unless_zero(y, nothing, imag)


def _sinh(z: Any, **params: Any) -> Any:
    return _call("complex", *_odd(*_parts(z), params))


def _cosh(z: Any, **params: Any) -> Any:
    return _call("complex", *_even(*_parts(z), params))


def _sin(z: Any, **params: Any) -> Any:
    x, y = _parts(z)
    imag, real = _odd(y, x, params)
    return _call("complex", real, imag)


def _cos(z: Any, **params: Any) -> Any:
    x, y = _parts(z)
    real, imag = _even(y, x, params)
    return _call("complex", real, _call("neg", imag))


def _expm1(z: Any, **params: Any) -> Any:
    """``expm1(x) cos(y) - 2 sin(y/2)^2 + i e^x sin(y)``."""
    x, y = _parts(z)
    half = _call("sin", _call("mul", y, _number(y, 0.5)))
    grown = _call("mul", _call("expm1", x, **params), _call("cos", y))
    real = _call("sub", grown, _call("mul", _number(y, 2.0), _call("mul", half, half)))
    imag = _call("mul", _call("exp", x, **params), _call("sin", y))
    return _call("complex", real, _unless_zero(y, y, imag))


_BY_PARTS: Final[Mapping[str, Callable[..., Any]]] = {
    "sin": _sin, "cos": _cos, "sinh": _sinh, "cosh": _cosh, "expm1": _expm1,
}  # fmt: skip
