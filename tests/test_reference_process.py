"""The process of the reference interpreter: what it gives, and what it survives."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from reference_process import EvaluationError, ReferenceInterpreter

NEGATED = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.negate %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
ENDLESS = """
func.func @main(%x: tensor<3xi32>) -> tensor<3xi32> {
  %0 = stablehlo.while(%y = %x) : tensor<3xi32>
    cond {
      %c = stablehlo.constant dense<true> : tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      stablehlo.return %y : tensor<3xi32>
    }
  return %0 : tensor<3xi32>
}"""
SQUARED = """
func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = chlo.square %x : tensor<3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
X = np.array([1.0, -2.0, np.inf], np.float32)


@pytest.fixture
def interpreter() -> Iterator[ReferenceInterpreter]:
    made = ReferenceInterpreter(limit=20.0)
    yield made
    made.close()


def test_one_process_evaluates_many_programs(interpreter: ReferenceInterpreter) -> None:
    (found,) = interpreter.evaluate(NEGATED, [X])
    process = interpreter._process
    np.testing.assert_array_equal(found, -X)
    (found,) = interpreter.evaluate(NEGATED, [found])
    np.testing.assert_array_equal(found, X)
    assert interpreter._process is process


def test_passes_run_first(interpreter: ReferenceInterpreter) -> None:
    (found,) = interpreter.evaluate(SQUARED, [X], "func.func(chlo-legalize-to-stablehlo)")
    np.testing.assert_array_equal(found, X * X)


def test_a_program_that_is_refused_gives_the_reason(interpreter: ReferenceInterpreter) -> None:
    with pytest.raises(EvaluationError, match="valid StableHLO"):
        interpreter.evaluate("nonsense", [])
    (found,) = interpreter.evaluate(NEGATED, [X])
    np.testing.assert_array_equal(found, -X)


def test_another_process_follows_one_that_died(interpreter: ReferenceInterpreter) -> None:
    interpreter.evaluate(NEGATED, [X])
    with pytest.raises(EvaluationError, match=r"SIGABRT\): LLVM ERROR: .*chlo.square"):
        interpreter.evaluate(SQUARED, [X])
    (found,) = interpreter.evaluate(NEGATED, [X])
    np.testing.assert_array_equal(found, -X)


def test_a_program_that_takes_too_long_is_ended() -> None:
    interpreter = ReferenceInterpreter(limit=20.0)
    try:
        interpreter.evaluate(NEGATED, [X])
        interpreter._limit = 0.5
        with pytest.raises(EvaluationError, match=r"more than 0\.5 s"):
            interpreter.evaluate(ENDLESS, [np.ones(3, np.int32)])
        assert interpreter._process is None
    finally:
        interpreter.close()
