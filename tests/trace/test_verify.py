"""`verify`: a program that is not well formed reaches no backend."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.backends.eager import compile_checked
from xlapy.backends.registry import get_backend
from xlapy.errors import ShapeError, XlapyError
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.op import lookup
from xlapy.trace.verify import verify

F3 = xlapy.TensorSpec((3,), "f32")
F4 = xlapy.TensorSpec((4,), "f32")
ADD, NEG, REDUCE, CONSTANT = (lookup(n) for n in ("add", "neg", "reduce", "constant"))


def well_formed() -> Computation:
    found: Computation = xlapy.compile(
        lambda x: xlapy.cond(x[0] > 0, lambda: ops.reduce(x, 0.0, ops.add, (0,)), lambda: x[1])
    ).trace(F3)
    return found


def one(op: Any, operands: tuple[Value, ...], result: Value, **params: Any) -> Instruction:
    return Instruction(op, operands, params, (result,))


def _body(*instructions: Instruction, parameters: list[Value], results: list[Value]) -> Computation:
    return Computation(parameters, list(instructions), results, "body")


def defined_twice() -> Computation:
    x, y = Value(F3), Value(F3)
    return _body(one(NEG, (x,), y), one(NEG, (y,), y), parameters=[x], results=[y])


def parameter_defined_again() -> Computation:
    x = Value(F3)
    return _body(one(NEG, (x,), x), parameters=[x], results=[x])


def same_parameter_twice() -> Computation:
    x = Value(F3)
    return _body(parameters=[x, x], results=[x])


def used_before_defined() -> Computation:
    x, y, z = Value(F3), Value(F3), Value(F3)
    return _body(one(ADD, (x, z), y), one(NEG, (x,), z), parameters=[x], results=[y])


def result_not_defined() -> Computation:
    return _body(parameters=[Value(F3)], results=[Value(F3)])


def wrong_spec() -> Computation:
    x, y = Value(F3), Value(F4)
    return _body(one(NEG, (x,), y), parameters=[x], results=[y])


def too_many_results() -> Computation:
    x = Value(F3)
    made = Instruction(NEG, (x,), {}, (Value(F3), Value(F3)))
    return _body(made, parameters=[x], results=[made.results[0]])


def too_few_operands() -> Computation:
    x, y = Value(F3), Value(F3)
    return _body(one(ADD, (x,), y), parameters=[x], results=[y])


def unknown_parameter() -> Computation:
    x, y = Value(F3), Value(F3)
    return _body(one(ADD, (x, x), y, speed=3), parameters=[x], results=[y])


def wrong_inside_a_body() -> Computation:
    scalar = xlapy.TensorSpec((), "f32")
    a, b, c = Value(scalar), Value(scalar), Value(scalar)
    inner = _body(one(ADD, (a, c), c), parameters=[a, b], results=[c])
    x, zero, y = Value(F3), Value(scalar), Value(scalar)
    return _body(
        one(CONSTANT, (), zero, value=np.zeros((), np.float32)),
        Instruction(REDUCE, (x, zero), {"body": inner, "dimensions": (0,)}, (y,)),
        parameters=[x],
        results=[y],
    )


MALFORMED: list[Callable[[], Computation]] = [
    defined_twice, parameter_defined_again, same_parameter_twice, used_before_defined, result_not_defined,
    wrong_spec, too_many_results, too_few_operands, unknown_parameter, wrong_inside_a_body,
]  # fmt: skip


def test_a_well_formed_program_passes() -> None:
    verify(well_formed())


@pytest.mark.parametrize("make", MALFORMED)
def test_a_malformed_program_is_refused(make: Callable[[], Computation]) -> None:
    with pytest.raises(XlapyError, match=r"X[17]"):
        verify(make())
    for backend in ("pjrt:cpu", "interpreter"):
        with pytest.raises(XlapyError, match=r"X[17]"):
            compile_checked(make(), get_backend(backend).placement)
    with pytest.raises(XlapyError, match=r"X[17]"):
        xlapy.export(make())


def test_what_the_operation_refuses_keeps_its_label() -> None:
    x, y, z = Value(F3), Value(F4), Value(F3)
    with refused(ShapeError, r"add: .*\[C1\]"):
        verify(_body(one(ADD, (x, y), z), parameters=[x, y], results=[z]))
