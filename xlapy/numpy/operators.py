"""Composed functions as the operators of `Tensor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from xlapy.tensor import OPERANDS, Tensor
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Value
from xlapy.trace.mode import current_builder
from xlapy.trace.scalars import derived

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
        return function(x, y) if builder is None or not builder.weak else _beside(x, y, builder)

    def reflected(x: Any, y: Any, /) -> Any:
        if not isinstance(y, OPERANDS):
            return NotImplemented
        builder = current_builder()
        return function(y, x) if builder is None or not builder.weak else _beside(y, x, builder)

    def _beside(x: Any, y: Any, builder: XlaBuilder) -> Any:
        """Where operands may stand for Python numbers."""
        result = derived(function.__name__, x, y)
        if result is None:
            result = function(x, y)
            _keep_weak(builder, result, x, y)
        return result

    for made in (forward, reflected):
        made.__name__ = made.__qualname__ = function.__name__
        made.__doc__ = function.__doc__
    return forward, reflected


def unary_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array as an operator of `Tensor`."""

    def operator(x: Any, /) -> Any:
        builder = current_builder()
        if builder is None or not builder.weak:
            return function(x)
        result = derived(function.__name__, x)
        if result is None:
            result = function(x)
            _keep_weak(builder, result, x)
        return result

    operator.__name__ = operator.__qualname__ = function.__name__
    operator.__doc__ = function.__doc__
    return operator


def _keep_weak(builder: XlaBuilder, result: Any, *operands: Any) -> None:
    """What a composed function makes with operators of what stands for Python scalars counts as one too."""
    weak = builder.weak
    for x in operands:
        if type(x) is not Tensor:
            if type(x) not in _SCALARS:
                return
        elif type(x.payload) is not Value or x.payload not in weak:
            return
    for x in result if type(result) is tuple else (result,):
        weak.add(x.payload)
