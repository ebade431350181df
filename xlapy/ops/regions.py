"""Computations as parameters: what they must take, and how the outer values that they use become operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.errors import DTypeError, TracingError
from xlapy.specs import Spec, require_dtype
from xlapy.tensor import Tensor
from xlapy.trace.builder import XlaBuilder, trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import current_builder, using
from xlapy.trace.replay import inline

__all__ = [
    "Captures",
    "as_list",
    "bare",
    "listed",
    "rearranged",
    "require_computation",
    "traced_with_captures",
]


def require_computation(
    computation: Any, specs: Sequence[Spec], label: str, closed: str, what: str
) -> None:
    """A parameter must be a computation of the given parameters.

    `label` is that of the parameter itself and `closed` that of its type.
    """
    require_dtype(
        type(computation) is Computation,
        label,
        f"{what} must be a Computation",
        type(computation).__name__,
    )
    if computation.parameter_specs != tuple(specs):
        require_dtype(
            False,
            closed,
            f"{what} must take the operands, {listed(specs)}",
            listed(computation.parameter_specs),
        )


def listed(specs: Sequence[Spec]) -> str:
    """Specs for a message."""
    return f"({', '.join(map(str, specs))})"


def rearranged(
    computation: Computation,
    specs: Sequence[Spec],
    taken: Sequence[int],
    handed: Sequence[int] = (),
) -> Computation:
    """The computation with other parameters: those at `taken` are its own, those at `handed` follow its results."""
    if tuple(taken) == tuple(range(len(specs))) and not handed:
        return computation
    outer = current_builder()
    builder = XlaBuilder(computation.name, outer.scope if outer is not None else None)
    arguments = [builder.parameter(i, s) for i, s in enumerate(specs)]
    with using(builder):
        results = inline(computation, [arguments[i] for i in taken])
    return builder.finish([builder.value(r) for r in (*results, *[arguments[i] for i in handed])])


class Captures:
    """Outer values that regions use, in the order in which they are first met."""

    def __init__(self, operands: Sequence[Tensor] = ()) -> None:
        self.tensors: list[Tensor] = list(operands)
        self._positions = {id(t.payload): i for i, t in reversed(list(enumerate(self.tensors)))}

    def positions(self, captured: Sequence[Tensor], start: int = 0) -> list[int]:
        """Where each of them stands from `start` on; new ones are added."""
        found = []
        for tensor in captured:
            at = self._positions.get(id(tensor.payload), -1)
            if at < start:
                at = self._positions[id(tensor.payload)] = len(self.tensors)
                self.tensors.append(tensor)
            found.append(at)
        return found


def traced_with_captures(
    functions: Sequence[tuple[Any, Sequence[Spec], str]],
) -> tuple[list[tuple[Computation, list[int]]], list[Tensor]]:
    """Computations from functions, each with the positions in one list of outer tensors that it uses."""
    captures = Captures()
    found: list[tuple[Computation, list[int]]] = []
    for function, specs, what in functions:
        if type(function) is Computation:
            require_computation(function, specs, "X1", "X1", what)
            found.append((function, []))
            continue
        if not callable(function):
            raise DTypeError(
                f"{what} must be a function or a Computation; got {type(function).__name__} [X1]"
            )
        traced = trace(function, specs, name=what.split()[0], roots=_roots)
        found.append((traced.computation, captures.positions(traced.captured)))
    return found, captures.tensors


def _roots(output: Any) -> Sequence[Any]:
    if output is None:
        raise TracingError("a function that is traced must return tensors; got None [X1]")
    return output if isinstance(output, list | tuple) else (output,)


def as_list(values: Any) -> list[Any]:
    """A sequence as a list, and anything else as one of length 1."""
    return list(values) if isinstance(values, list | tuple) else [values]


def bare(outs: tuple[Any, ...], computation: Computation) -> Any:
    """One tensor for one result, as the operation semantics have it."""
    return outs[0] if len(computation.results) == 1 else outs
