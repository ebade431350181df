"""Integers that a program computes of constants and of the sizes of arrays: what computed shapes come to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, final

import numpy as np

from xlapy.errors import XlapyError
from xlapy.specs import DYNAMIC, TensorSpec
from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations
from xlapy.trace.process_grid import is_communicating

__all__ = ["KnownIntegers", "as_sizes"]

Array = np.ndarray[Any, Any]

#: shapes, and the padding of windows, have few entries
_LARGEST: Final = 128
#: kinds of operations, and others, whose results follow from their operands
_PURE: Final = frozenset({"elementwise", "linear", "bilinear", "zero"})
_ALSO_PURE: Final = frozenset({"abs", "clamp", "sign"})
_DRAWN: Final = frozenset({"rng_get_and_update_state", "rng_normal", "rng_uniform"})


@final
class KnownIntegers:
    """The integers that are known while a program is read, computed when they are asked for.

    They are followed through calls, and into regions that use outer values.
    """

    def __init__(self) -> None:
        self._found: dict[Value, Array | None] = {}
        self._makers: dict[Value, Instruction] = {}
        #: parameters of functions and regions, and what they are given
        self._given: dict[Value, Value] = {}
        #: how many of the instructions of a builder are among the makers
        self._seen: dict[XlaBuilder, int] = {}

    def let(self, parameter: Value, given: Any) -> None:
        """Say that a parameter is always the value of a traced tensor."""
        if type(given.payload) is Value and may_be_known(parameter):
            self._given[parameter] = given.payload

    def of(self, tensor: Any) -> Array | None:
        """The integers in a traced tensor; None if they depend on more than constants and sizes."""
        value = tensor.payload
        return self._of(value) if type(value) is Value else None

    def _of(self, value: Value) -> Array | None:
        if value not in self._found:
            self._found[value] = self._find(value)
        return self._found[value]

    def _find(self, value: Value) -> Array | None:
        if not may_be_known(value):
            return None
        if value.scope is not None and value.scope.builder is not None:
            self._look_through(value.scope.builder)
        given = self._given.get(value)
        if given is not None:
            return self._of(given)
        maker = self._makers.get(value)
        return None if maker is None else _result(maker, value, self._of)

    def _look_through(self, builder: XlaBuilder) -> None:
        """Note who makes what among the instructions that are new."""
        instructions = builder.instructions
        for instruction in instructions[self._seen.get(builder, 0) :]:
            for value in instruction.results:
                self._makers[value] = instruction
        self._seen[builder] = len(instructions)
        for outer, hidden in builder.captured.values():
            self.let(hidden, outer)


def may_be_known(value: Value) -> bool:
    """Whether a value is a small array of integers."""
    spec = value.spec
    return (
        type(spec) is TensorSpec
        and (spec.dtype.integer or spec.dtype.kind == "bool")
        and spec.is_static
        and spec.size <= _LARGEST
    )


def _result(
    maker: Instruction, value: Value, known: Callable[[Value], Array | None]
) -> Array | None:
    """One result of an instruction from what is known of its operands."""
    op, params = maker.op, maker.params
    if op.name == "get_dimension_size":
        spec = maker.operands[0].spec
        dimension = params["dimension"]
        if type(spec) is not TensorSpec or dimension in spec.dynamic:
            return None
        size = spec.shape[dimension]
        return None if size is DYNAMIC else np.array(size, np.int32)
    if op.name == "call":
        number = maker.results.index(value)
        return _called(params["computation"], number, lambda n: known(maker.operands[n]))
    if (
        (op.ad.kind not in _PURE and op.name not in _ALSO_PURE)
        or op.name in _DRAWN
        or is_communicating(op.kernel)
        or len(maker.results) != 1
        or any(subcomputations(params))
    ):
        return None
    arrays = []
    for operand in maker.operands:
        found = known(operand)
        if found is None:
            return None
        arrays.append(found)
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.kernel(*arrays, out=value.spec, **params))
    except XlapyError:  # which it is for the run to say
        return None


def _called(
    computation: Computation, number: int, given: Callable[[int], Array | None]
) -> Array | None:
    """A result of a function."""
    makers = {v: i for i in computation.instructions for v in i.results}
    positions = {v: n for n, v in enumerate(computation.parameters)}
    found: dict[Value, Array | None] = {}

    def known(value: Value) -> Array | None:
        if value not in found:
            found[value] = None
            if may_be_known(value):
                maker = makers.get(value)
                found[value] = (
                    given(positions[value]) if maker is None else _result(maker, value, known)
                )
        return found[value]

    return known(computation.results[number])


def as_sizes(found: Array | None) -> tuple[int, ...] | None:
    """As the entries of a shape."""
    return None if found is None else tuple(int(n) for n in found.reshape(-1))
