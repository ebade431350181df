"""`replay`: one loop for evaluating, inlining and counting; and how a mode decides what a call means."""

import contextvars
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import ops
from xlapy.trace.computation import Instruction, subcomputations, with_params
from xlapy.trace.mode import bind, current_builder, using
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline, last_uses, replay

X = np.arange(3, dtype=np.float32)


def f(x: Any, y: Any) -> Any:
    return xlapy.sin(x) * y + 2.0, x


COMPUTATION = xlapy.compile(f).trace(X, X)


def numpy_kernels(instruction: Instruction, operands: list[Any]) -> list[Any]:
    specs = tuple(v.spec for v in instruction.results)
    return [instruction.op.kernel(*operands, **instruction.params, out=specs[0])]


def test_replaying_with_kernels_evaluates() -> None:
    expected = np.sin(X) * X + 2
    for free in (None, last_uses(COMPUTATION)):
        value, same = replay(COMPUTATION, [X, X], numpy_kernels, free)
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        assert same is X


def test_replaying_with_anything_else() -> None:
    depths = replay(COMPUTATION, [0, 0], lambda i, found: [1 + max(found, default=0)])
    assert depths == [3, 0]
    with pytest.raises(ValueError, match=r"zip\(\)"):
        replay(COMPUTATION, [X], numpy_kernels)


def test_values_are_forgotten_after_their_last_use() -> None:
    dead = last_uses(COMPUTATION)
    assert len(dead) == len(COMPUTATION.instructions)
    gone = [v for values in dead for v in values]
    assert len(gone) == len(set(gone))
    assert not set(gone) & set(COMPUTATION.results)
    used = {v for i in COMPUTATION.instructions for v in (*i.operands, *i.results)}
    assert set(gone) == used - set(COMPUTATION.results)


def test_an_instruction_on_other_operands_is_otherwise_the_same() -> None:
    first, second = COMPUTATION.instructions[:2]
    moved = second.with_operands((first.results[0], first.results[0]))
    assert moved.operands == (first.results[0],) * 2
    assert (moved.op, moved.params, moved.results) == (second.op, second.params, second.results)
    assert moved.source == second.source
    assert second.with_operands(second.operands, {"a": 1}).params == {"a": 1}


def test_inlining_is_eager_outside_a_trace_and_recorded_within() -> None:
    value, _ = inline(COMPUTATION, [xlapy.asarray(X), xlapy.asarray(X)])
    np.testing.assert_allclose(value.numpy(), np.sin(X) * X + 2, rtol=1e-6)
    again = xlapy.compile(lambda x: inline(COMPUTATION, [x, x])[0]).trace(X)
    assert [i.op for i in again.instructions] == [i.op for i in COMPUTATION.instructions]
    # Each keeps the line that it was written in.
    assert [i.source for i in again.instructions] == [i.source for i in COMPUTATION.instructions]


def test_the_mode_is_that_of_the_context() -> None:
    outside = contextvars.copy_context()
    b = xlapy.XlaBuilder("mode")
    with b:
        assert current_builder() is b
        assert outside.run(current_builder) is None
        assert outside.run(lambda: ops.add(1.0, 2.0)).item() == 3
        with using(None):
            assert ops.add(1.0, 2.0).item() == 3
        recorded = bind(lookup("add"), 1.0, 2.0)
    assert repr(recorded) == "Tensor(traced f32[])"
    assert current_builder() is None


def test_bodies_are_found_and_parameters_replaced() -> None:
    reduce = xlapy.compile(lambda x: ops.reduce(x, 0.0, ops.add, (0,))).trace(X)
    (instruction,) = [i for i in reduce.instructions if i.op.name == "reduce"]
    (body,) = subcomputations(instruction.params)
    assert [i.op.name for i in body.instructions] == ["add"]
    changed = with_params(
        reduce, lambda i: {**i.params, "dimensions": (-1,)} if i.op.name == "reduce" else i.params
    )
    assert [i.params["dimensions"] for i in changed.instructions if i.op.name == "reduce"] == [
        (-1,)
    ]
    assert instruction.params["dimensions"] == (0,)
    assert with_params(reduce, lambda i: i.params) is reduce
