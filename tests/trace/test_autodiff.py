"""Derivatives of computations: what is recorded for them, and that zeros cost nothing."""

from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import NotDifferentiableError
from xlapy.trace.autodiff import add_cotangents, has_tangent, jvp_computation, vjp_computation
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead

X = np.array([0.5, -1.5, 2.0], np.float32)


def names(f: Any, *args: Any) -> list[str]:
    return [i.op.name for i in eliminate_dead(xlapy.compile(f).trace(*args)).instructions]


def test_what_has_a_tangent() -> None:
    assert all(has_tangent(xlapy.TensorSpec((2,), d)) for d in ("f32", "bf16", "c64", "f8e4m3fn"))
    assert not any(has_tangent(xlapy.TensorSpec((), d)) for d in ("s32", "u8", "pred"))


def test_none_is_a_zero() -> None:
    x = xlapy.asarray(X)
    assert add_cotangents(None, None) is None
    assert add_cotangents(x, None) is x
    assert add_cotangents(None, x) is x
    assert add_cotangents(x, x).tolist() == (2 * X).tolist()


def test_what_does_not_depend_is_not_differentiated() -> None:
    def f(x: Any, y: Any) -> Any:
        return xlapy.sum(xlapy.sin(x) + xlapy.cos(xlapy.exp(y)))

    only_x = names(xlapy.grad(f), X, X)
    assert only_x.count("cos") == 1
    assert "exp" not in only_x
    assert "sin" not in only_x  # the value is not asked for
    assert "sin" in names(xlapy.grad(f, argnums=1), X, X)


def test_a_derivative_is_recorded_once() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return xlapy.sum(x * x)

    xlapy.grad(xlapy.grad(lambda x: xlapy.grad(lambda x: f(x) * x[0])(x)[1]))  # nothing yet
    assert not calls
    xlapy.hessian(f)(X)
    assert len(calls) == 1


@pytest.mark.parametrize("depth", [1, 4, 8])
def test_the_work_grows_with_the_program_not_with_its_square(depth: int) -> None:
    def chain(x: Any) -> Any:
        for _ in range(depth):
            x = ops.tanh(x)
        return xlapy.sum(x)

    assert len(names(xlapy.grad(chain), X)) <= 8 * depth + 8


def test_derivatives_of_computations() -> None:
    f = xlapy.compile(lambda x, y, n: (x * y, n)).trace(X, X, 3)
    pushed, has = jvp_computation(f, [True, False, False])
    assert list(has) == [True, False]
    found = inline(pushed, [xlapy.asarray(v) for v in (X, 2 * X, 3, np.ones_like(X))])
    assert found[-1].tolist() == (2 * X).tolist()
    assert callable(vjp_computation)


def test_no_silent_zeros() -> None:
    x = np.float32(2.0)

    def accumulated(x: Any) -> Any:
        # The initial value may enter any number of times, so it has no derivative.
        return ops.reduce_window(xlapy.ones(4), x, ops.add, (2,))[0]

    with refused(NotDifferentiableError):
        xlapy.grad(accumulated)(x)


def test_the_users_line_goes_with_the_derivative() -> None:
    def f(x: Any) -> Any:
        return xlapy.sum(ops.sin(x))

    computation = xlapy.compile(xlapy.grad(f)).trace(X)
    (cosine,) = [i for i in computation.instructions if i.op.name == "cos"]
    code, _ = cosine.source
    assert code is f.__code__
