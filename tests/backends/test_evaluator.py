"""Computations as functions of arrays."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from xlapy import ops
from xlapy.backends.evaluator import evaluator
from xlapy.errors import DTypeError
from xlapy.specs import parse_spec
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation


def computation(function: Any, *specs: str) -> Computation:
    return trace(function, [parse_spec(s) for s in specs]).computation


def test_parameters_and_constants_may_be_results() -> None:
    five = np.full(3, 5, np.float32)
    found = computation(
        lambda x, y: (y, ops.constant(five), x, y, ops.constant(five)), "f32[2]", "s32[]"
    )
    x, y = np.ones(2, np.float32), np.array(7, np.int32)
    results = evaluator(found)(x, y)
    assert [type(r) for r in results] == [np.ndarray] * 5
    assert results[0] is results[3] is y
    assert results[2] is x
    np.testing.assert_array_equal(results[1], five)
    assert evaluator(found) is evaluator(found)
    assert evaluator(computation(lambda: ()))() == ()


def test_operations_of_several_results_and_nested_ones() -> None:
    def function(x: Any, y: Any) -> Any:
        keys, values = ops.sort((x, y), 0)
        _, doubled = ops.while_(
            lambda i, z: ops.lt(i, 2), lambda i, z: (ops.add(i, 1), ops.add(z, z)), (0, values)
        )
        return doubled, keys

    x, y = np.array([3, 1, 2], np.int32), np.array([1.0, 2, 3], np.float32)
    doubled, keys = evaluator(computation(function, "s32[3]", "f32[3]"))(x, y)
    assert keys.tolist() == [1, 2, 3]
    assert doubled.tolist() == [8, 12, 4]


def test_another_number_of_arrays_is_refused() -> None:
    run = evaluator(computation(lambda x, y: ops.add(x, ops.mul(y, 2.0)), "f32[]", "f32[]"))
    one = np.float32(1)
    assert run(one, one) == (3,)
    for count in (0, 1, 3):
        with pytest.raises(DTypeError, match=f"there must be 2 arrays; got {count}"):
            run(*[one] * count)


def test_what_nothing_reads_any_more_is_forgotten() -> None:
    size = 1 << 20

    def chain(x: Any) -> Any:
        for _ in range(30):
            x = ops.neg(x)
        return x

    run = evaluator(computation(chain, f"u8[{size}]"))
    x = np.ones(size, np.uint8)
    tracemalloc.start()
    try:
        run(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size < peak < 4 * size
