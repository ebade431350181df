"""The process of the reference interpreter: what it gives, and what it survives."""

from __future__ import annotations

import os
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
SUMMED = """
func.func @main(%a: tensor<2xcomplex<f32>>) -> (tensor<2xcomplex<f32>>, tensor<ui32>) {
  %0 = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%x: tensor<complex<f32>>, %y: tensor<complex<f32>>):
      %s = stablehlo.add %x, %y : tensor<complex<f32>>
      stablehlo.return %s : tensor<complex<f32>>
  }) : (tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>>
  %1 = stablehlo.partition_id : tensor<ui32>
  return %0, %1 : tensor<2xcomplex<f32>>, tensor<ui32>
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


@pytest.mark.parametrize("num_partitions", [1, 2])
def test_devices_communicate(interpreter: ReferenceInterpreter, num_partitions: int) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("the interpreter runs no more devices at once than there are processors")
    groups = "[[0, 1]]" if num_partitions == 1 else "[[0]]"
    shape = "1x2" if num_partitions == 1 else "1x1"
    program = SUMMED.replace("[[0, 1]]", groups).replace("1x2", shape)
    found = interpreter.evaluate_grid(
        program, [[np.array([i, 1j], np.complex64)] for i in (3, 4)], num_partitions
    )
    expected = [[[7, 2j], 0]] * 2 if num_partitions == 1 else [[[3, 1j], 0], [[4, 1j], 1]]
    assert [[a.tolist() for a in device] for device in found] == expected
    assert [a.dtype for a in found[0]] == [np.complex64, np.uint32]


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
