"""The passes make a program smaller and change no value."""

from typing import Any

import numpy as np

import xlapy
from xlapy import ops
from xlapy.trace.replay import inline
from xlapy.trace.simplify import (
    eliminate_common,
    eliminate_dead,
    expand,
    fold_constants,
    has_side_effect,
    simplify,
)

X = np.arange(3, dtype=np.float32)


def names(computation: Any) -> list[str]:
    return [i.op.name for i in computation.instructions]


def value(computation: Any, *args: Any) -> Any:
    return [r.numpy().tolist() for r in inline(computation, [xlapy.asarray(a) for a in args])]


def test_dead_code_goes_and_parameters_stay() -> None:
    def f(x: Any, y: Any) -> Any:
        ops.exp(ops.sin(y))
        return ops.neg(x)

    before = xlapy.compile(f).trace(X, X)
    after = eliminate_dead(before)
    assert names(before) == ["sin", "exp", "neg"]
    assert names(after) == ["neg"]
    assert after.parameter_specs == before.parameter_specs
    assert value(after, X, X) == value(before, X, X)


def test_effects_are_kept() -> None:
    def f(x: Any) -> Any:
        ops.outfeed(x, token=ops.create_token())
        return x + 1

    after = eliminate_dead(xlapy.compile(f).trace(X))
    assert "outfeed" in names(after)
    assert [has_side_effect(i) for i in after.instructions if i.op.name == "outfeed"] == [True]


def test_common_expressions_are_computed_once() -> None:
    def f(x: Any) -> Any:
        return ops.add(ops.sin(x), ops.mul(ops.sin(x), ops.sin(ops.neg(x))))

    before = xlapy.compile(f).trace(X)
    after = eliminate_common(before)
    assert names(after).count("sin") == 2
    assert value(after, X) == value(before, X)


def test_constants_are_folded_up_to_a_size() -> None:
    def f(x: Any) -> Any:
        small = ops.add(ops.constant(np.ones(3, np.float32)), ops.constant(X))
        return ops.add(x, small)

    before = xlapy.compile(f).trace(X)
    after = eliminate_dead(fold_constants(before))
    assert names(after) == ["constant", "add"]
    assert value(after, X) == value(before, X) == [[1, 3, 5]]
    large = xlapy.compile(lambda: ops.neg(ops.constant(np.ones(1 << 16, np.float32)))).trace()
    assert names(eliminate_dead(fold_constants(large))) == ["constant", "neg"]


def test_special_values_are_folded_as_they_are() -> None:
    special = np.array([np.nan, -0.0, np.inf], np.float32)
    computation = xlapy.compile(lambda: ops.neg(ops.constant(special))).trace()
    (folded,) = [
        i.params["value"] for i in eliminate_dead(fold_constants(computation)).instructions
    ]
    np.testing.assert_array_equal(folded, -special)
    assert not np.signbit(folded[1])


def test_simplify_is_idempotent() -> None:
    def f(x: Any) -> Any:
        two = ops.add(ops.constant(np.float32(1)), ops.constant(np.float32(1)))
        return ops.mul(x, ops.broadcast(two, (3,))), ops.mul(x, ops.broadcast(two, (3,)))

    once = simplify(xlapy.compile(f).trace(X))
    assert names(simplify(once)) == names(once)
    assert names(once).count("mul") == 1
    assert value(once, X) == [(2 * X).tolist()] * 2


def test_expand_replaces_what_it_is_told_to_in_bodies_too() -> None:
    def f(x: Any) -> Any:
        return xlapy.fori_loop(0, 2, lambda i, c: ops.tan(c), x) + ops.tan(x)

    def with_sines(instruction: Any) -> Any:
        if instruction.op.name == "tan":
            return lambda x, **_: ops.div(ops.sin(x), ops.cos(x))
        return None

    before = xlapy.compile(f).trace(X)
    after = expand(before, with_sines)
    assert "tan" in repr(before)
    assert " tan(" not in repr(after)
    np.testing.assert_allclose(value(after, X)[0], value(before, X)[0], rtol=1e-5)
