"""What a program looks like to people."""

from typing import Any

import numpy as np

import xlapy
from xlapy import ops

X = np.ones((2, 3), np.float32)


def test_one_line_an_instruction() -> None:
    def f(x: Any, y: Any) -> Any:
        return ops.add(ops.mul(x, 2.0), y), x

    assert repr(xlapy.compile(f).trace(X, X)) == (
        "f(x: f32[2,3], y: f32[2,3]) -> f32[2,3], f32[2,3] {\n"
        "  %0: f32[2,3] = constant(value=[[2., 2., 2.], [2., 2., 2.]])\n"
        "  %1: f32[2,3] = mul(x, %0)\n"
        "  %2: f32[2,3] = add(%1, y)\n"
        "  return %2, x\n"
        "}"
    )


def test_bodies_are_indented() -> None:
    text = repr(xlapy.compile(lambda x: ops.reduce(x, 0.0, ops.add, (1,))).trace(X))
    lines = text.split("\n")
    (start,) = [i for i, line in enumerate(lines) if "body = " in line]
    assert " = reduce(" in lines[start - 1]
    assert "dimensions=(1,)" in lines[start - 1]
    assert lines[start + 1].lstrip().startswith("%0: f32[] = add(")
    assert len(lines[start + 1]) - len(lines[start + 1].lstrip()) == 6


def test_names_of_containers_and_of_hidden_parameters() -> None:
    w = xlapy.asarray(X)
    text = repr(xlapy.compile(lambda p, n: p["w"][0] * n + w).trace({"w": [X]}, 2.0))
    head = text.split("\n")[0]
    assert "p['w'][0]: f32[2,3]" in head
    assert "n: f32[]" in head
    assert "arg2: f32[2,3]" in head


def test_large_constants_are_not_written_out() -> None:
    large = repr(xlapy.compile(lambda: ops.constant(np.arange(1000))).trace())
    assert "<1000 elements>" in large
    splat = repr(xlapy.compile(lambda: xlapy.zeros(1000)).trace())
    assert "0.0, ..." in splat
    assert "-> () {" in repr(xlapy.compile(lambda: None).trace())
