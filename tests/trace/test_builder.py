"""`XlaBuilder` and `trace`: the explicit way to a computation, and what it refuses."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import ConstraintError, DTypeError, ShapeError, TracingError
from xlapy.trace.builder import as_computation, lift, trace
from xlapy.trace.mode import current_builder

F3 = xlapy.TensorSpec((3,), "f32")


def test_a_program_built_by_hand() -> None:
    b = xlapy.XlaBuilder("axpy")
    y = b.parameter(1, "f32[3]", "y")
    x = b.parameter(0, F3, "x")
    built = b.build(ops.add(ops.mul(x, 2.0), y), x)
    assert built.name == "axpy"
    assert list(built.parameter_names) == ["x", "y"]
    assert [i.op.name for i in built.instructions] == ["constant", "mul", "add"]
    assert [str(s) for s in built.result_specs] == ["f32[3]", "f32[3]"]


def test_without_a_root_the_last_instruction_is_it() -> None:
    b = xlapy.XlaBuilder("negative")
    ops.neg(b.parameter(0, "f32[3]"))
    assert [str(s) for s in b.build().result_specs] == ["f32[3]"]
    with refused(ConstraintError, "there must be an instruction"):
        xlapy.XlaBuilder("empty").build()


def test_within_the_builder_everything_is_recorded() -> None:
    b = xlapy.XlaBuilder("counting")
    with b:
        assert current_builder() is b
        with xlapy.XlaBuilder("inner") as inner:
            assert current_builder() is inner
        root = ops.iota("s32", 4)
    assert current_builder() is None
    assert [i.op.name for i in b.build(root).instructions] == ["iota"]


def test_the_numpy_like_functions_work_on_its_values() -> None:
    b = xlapy.XlaBuilder("softmax")
    x = b.parameter(0, "f32[2,3]")
    built = b.build(xlapy.softmax(x, axis=1) + x[0] * x.T[0, 0])
    assert str(built.result_specs[0]) == "f32[2,3]"


def test_what_it_refuses() -> None:
    for name in (3, None, b"main"):
        with refused(DTypeError, "name must be a text"):
            xlapy.XlaBuilder(name)  # type: ignore[arg-type]
    b = xlapy.XlaBuilder("refusing")
    x = b.parameter(0, "f32[3]")
    for roots in ([x, x], (x,), {"x": x}):
        with refused(DTypeError, "a root must be a tensor; hand over several one by one"):
            b.build(roots)
    with refused(ConstraintError, "declared once"):
        b.parameter(0, "f32[3]")
    for number in (-1, 1.0, "1", None, True):
        with refused(ConstraintError, "position from 0"):
            b.parameter(number, "f32[3]")  # type: ignore[arg-type]
    for spec in ("f32", "float", "f32[3", 3, None):
        with refused():
            b.parameter(7, spec)  # type: ignore[arg-type]
    with refused(ShapeError):
        ops.add(x, np.ones(4, np.float32))
    other = xlapy.XlaBuilder("other")
    y = other.parameter(0, "f32[3]")
    with refused(TracingError, "within its trace, 'refusing', not in 'other'"):
        ops.add(y, x)
    with refused(TracingError, "must be used within its trace"):
        other.build(x)
    b.build(x)
    for attempt in (
        lambda: b.build(x),
        lambda: b.parameter(1, "f32[3]"),
        lambda: ops.neg(x),
        lambda: x + 1,
    ):
        with refused(TracingError, r"after"):
            attempt()


def test_parameters_without_a_gap() -> None:
    b = xlapy.XlaBuilder("gap")
    x = b.parameter(1, "f32[3]")
    with refused(ConstraintError, "without a gap"):
        b.build(x)


def test_concrete_tensors_become_hidden_parameters() -> None:
    w = xlapy.ones(3)
    found = trace(lambda x: (x * w + w, w), [F3])
    assert len(found.computation.parameters) == 2
    assert found.captured[0].tolist() == [1, 1, 1]
    assert len(found.captured) == 1  # once, however often it is used
    closed = as_computation(lambda x: x * w, [F3])
    assert len(closed.parameters) == 1
    assert "constant" in [i.op.name for i in closed.instructions]


def test_bodies_may_not_use_the_enclosing_trace() -> None:
    def f(x: Any) -> Any:
        return ops.reduce(x, 0.0, lambda a, b: a + b + x[0], (0,))

    with refused(TracingError, "must not use traced values"):
        xlapy.compile(f)(np.ones(3, np.float32))
    for body in (3, "add", None):
        with refused(DTypeError, "must be a function or a Computation"):
            as_computation(body, [F3])
    with refused(DTypeError, "must take f32"):
        as_computation(as_computation(lambda x: x, [xlapy.TensorSpec((), "s32")]), [F3])


def test_lifting_numbers() -> None:
    like = xlapy.asarray(np.ones(2, np.float16))
    assert str(lift(2.5, [like]).spec) == "f16[]"
    assert str(lift(2).spec) == "s32[]"
    assert str(lift([1.0, 2.0]).spec) == "f32[2]"
    assert str(lift(np.float64(1)).spec) == "f64[]"
    with refused(DTypeError, "must fit"):
        lift(2.5, [xlapy.asarray(1)])
    with refused(DTypeError, "must fit"):
        lift(300, [xlapy.asarray(np.uint8(1))])


def test_shared_constants_are_recorded_once() -> None:
    counted = xlapy.compile(lambda x: xlapy.relu(x) + xlapy.relu(x * x)).trace(
        np.ones(3, np.float32)
    )
    constants = [i for i in counted.instructions if i.op.name == "constant"]
    assert len(constants) == 1


@pytest.mark.parametrize("count", [10, 1000])
def test_recording_is_one_instruction_a_call(count: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(count):
            x = ops.sin(x)
        return x

    assert len(trace(chain, [F3]).computation.instructions) == count


def test_a_builder_is_left_once_for_each_time_it_was_entered() -> None:
    b = xlapy.XlaBuilder("left")
    with b:
        pass
    with pytest.raises(TracingError, match="must be entered"):
        b.__exit__(None, None, None)
