"""Vectorising computations: only what varies gets the new axis."""

from typing import Any

import numpy as np

import xlapy
from xlapy import ops
from xlapy.trace.batching import batch_computation, batched_spec, broadcast_leading
from xlapy.trace.builder import trace
from xlapy.trace.replay import inline

M = np.arange(6, dtype=np.float32).reshape(2, 3)
F3 = xlapy.TensorSpec((3,), "f32")


def f(x: Any, y: Any) -> Any:
    return ops.sin(x), ops.add(ops.cos(y), y)


def test_specs_get_a_new_axis_0() -> None:
    assert str(batched_spec(F3, 5)) == "f32[5,3]"
    assert str(batched_spec(xlapy.TensorSpec((3, 4), "f32", (1,)), 5)) == "f32[5,3,<=4]"


def test_only_what_varies_gets_it() -> None:
    computation = trace(f, [F3, F3]).computation
    found, batched = batch_computation(computation, [True, False], 2)
    assert batched == [True, False]
    assert [str(s) for s in found.parameter_specs] == ["f32[2,3]", "f32[3]"]
    assert [str(s) for s in found.result_specs] == ["f32[2,3]", "f32[3]"]
    sine, other = inline(found, [xlapy.asarray(M), xlapy.asarray(M[0])])
    np.testing.assert_allclose(sine.numpy(), np.sin(M), rtol=1e-6)
    np.testing.assert_allclose(other.numpy(), np.cos(M[0]) + M[0], rtol=1e-6)


def test_results_that_have_to_have_it() -> None:
    computation = trace(f, [F3, F3]).computation
    found, batched = batch_computation(computation, [True, False], 2, [True, True])
    assert batched == [True, True]
    assert [str(s) for s in found.result_specs] == ["f32[2,3]", "f32[2,3]"]


def test_nothing_varies() -> None:
    computation = trace(f, [F3, F3]).computation
    found, batched = batch_computation(computation, [False, False], 2)
    assert batched == [False, False]
    assert found.result_specs == computation.result_specs


def test_broadcasting_in_front() -> None:
    assert broadcast_leading(xlapy.asarray(M), 4).shape == (4, 2, 3)
    assert broadcast_leading(xlapy.asarray(1.0), 0).shape == (0,)


def test_the_users_line_goes_with_it() -> None:
    def g(x: Any) -> Any:
        return ops.sin(x)

    computation = xlapy.compile(xlapy.vmap(g)).trace(M)
    (sine,) = [i for i in computation.instructions if i.op.name == "sin"]
    code, _ = sine.source
    assert code is g.__code__
