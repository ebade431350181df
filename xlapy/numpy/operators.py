"""Composed functions as the operators of `Tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from xlapy.tensor import OPERANDS, Tensor
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Value
from xlapy.trace.mode import current_builder

__all__ = ["binary_operator", "unary_operator"]

_SCALARS: Final = (bool, int, float, complex)


def binary_operator(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of two arrays as an operator of `Tensor` and as the reflected one.

    Operands that are no arrays get NotImplemented, and so what the other class says, or Python's TypeError.
    """
    table = getattr(function, "table", {})

    def forward(x: Any, y: Any, /) -> Any:
        builder = current_builder()
        if builder is None:
            try:
                execute, placed = table[x.placed, y.placed]
            except (AttributeError, KeyError):
                pass
            else:
                return Tensor(placed, execute((x.payload, y.payload))[0])
        if not isinstance(y, OPERANDS):
            return NotImplemented
        result = function(x, y)
        if builder is not None and builder.weak:
            _keep_weak(builder, result, x, y)
        return result

    def reflected(x: Any, y: Any, /) -> Any:
        if not isinstance(y, OPERANDS):
            return NotImplemented
        result = function(y, x)
        builder = current_builder()
        if builder is not None and builder.weak:
            _keep_weak(builder, result, x, y)
        return result

    for made in (forward, reflected):
        made.__name__ = made.__qualname__ = function.__name__
        made.__doc__ = function.__doc__
    return forward, reflected


def unary_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array as an operator of `Tensor`."""

    def operator(x: Any, /) -> Any:
        result = function(x)
        builder = current_builder()
        if builder is not None and builder.weak:
            _keep_weak(builder, result, x)
        return result

    operator.__name__ = operator.__qualname__ = function.__name__
    operator.__doc__ = function.__doc__
    return operator


def _keep_weak(builder: XlaBuilder, result: Any, *operands: Any) -> None:
    """What operators make of Python scalars is a Python scalar outside a trace, and so counts as one within it."""
    weak = builder.weak
    for x in operands:
        if type(x) is not Tensor:
            if type(x) not in _SCALARS:
                return
        elif type(x.payload) is not Value or x.payload not in weak:
            return
    for x in result if type(result) is tuple else (result,):
        weak.add(x.payload)
