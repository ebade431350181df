"""Subnormal numbers on a CPU that takes them for zeros; what each operation gives of them is in the tables of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import BACKENDS
from cases.values import subnormals

import xlapy
from xlapy import ops
from xlapy.backends.subnormals import with_subnormals
from xlapy.trace.builder import trace
from xlapy.trace.computation import subcomputations

NEAR = subnormals("f32")


def largest(x: Any) -> Any:
    """The place of the largest, by a reduction's own comparisons."""

    def later(a: Any, i: Any, b: Any, j: Any) -> Any:
        wins = ops.gt(b, a)
        return ops.select(wins, b, a), ops.select(wins, j, i)

    places = ops.iota("s32", x.shape, 0)
    return ops.reduce([x, places], [np.float32(-np.inf), np.int32(-1)], later, [0])[1]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "constants": lambda x: (x > 0, x >= 0, x < 0, x <= 0, x == 0, x != 0, x > 0, x <= 0, x == 0),
    "normal_constants": lambda x: (x > 0.5, x <= -1.0, x == 1e-30, np.float32(1e-30) < x),
    "subnormal_constants": lambda x: (x > np.float32(1e-40), np.float32(-1e-45) >= x),
    "selected": lambda x: xlapy.where(x > x[::-1], 1.0, -1.0),
    "reduced": largest,
    "counted_in_a_loop": lambda x: xlapy.fori_loop(
        0, x.shape[0], lambda i, n: n + xlapy.where(x[i] > 0, 1, 0), 0
    ),
    "branch": lambda x: xlapy.cond(x[0] > 0, lambda y: y + 1.0, lambda y: y - 1.0, x),
    "nan": lambda x: (xlapy.isnan(x), x != x, x == x),
    "truth": lambda x: (xlapy.any(x[:4]), xlapy.astype(x, "bool"), xlapy.count_nonzero(x)),
    "steps": lambda x: (xlapy.floor(x), xlapy.ceil(x), xlapy.sign(x)),
    "sorted": lambda x: (xlapy.argsort(x), xlapy.sort(x, descending=True)),
    "searched": lambda x: xlapy.searchsorted(xlapy.sort(x), x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    """Eagerly and compiled the backends agree to the bit."""
    function = FUNCTIONS[name]
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            for run in (function, xlapy.compile(function)):
                outs = run(xlapy.asarray(NEAR))
                found.append([o.numpy() for o in (outs if isinstance(outs, tuple) else (outs,))])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            # Sums flush their results, which are off by less than the least normal number.
            np.testing.assert_allclose(a, b, rtol=0, atol=1.2e-38)


def names(computation: Any) -> list[str]:
    """The operations of a program, those of inner computations too."""
    inner = [n for i in computation.instructions for c in subcomputations(i.params) for n in names(c)]  # fmt: skip
    return [i.op.name for i in computation.instructions] + inner


UNCHANGED: dict[str, Callable[[Any], Any]] = {
    "normal_constant": lambda x: ops.lt(x, ops.constant(np.full(19, 0.5, np.float32))),
    "itself": lambda x: ops.ne(x, x),
    "total_order": lambda x: ops.lt_total_order(x, ops.exp(x)),
    "half": lambda x: ops.floor(ops.convert(x, "f16")),
    "integers": lambda x: ops.lt(ops.convert(x, "s32"), ops.constant(np.zeros(19, np.int32))),
    "comparator": lambda x: ops.sort(x, 0, ops.lt),
    "other_conversion": lambda x: ops.convert(x, "f64"),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_needs_no_care_is_left_as_it_is(name: str) -> None:
    computation = trace(UNCHANGED[name], [xlapy.TensorSpec((19,), "f32")]).computation
    assert with_subnormals(computation) is computation


def test_a_comparison_with_zero_is_one_of_integers() -> None:
    """Where zero is a constant, nothing of the float comparison is left."""
    program = trace(
        lambda x: ops.gt(x, ops.broadcast(ops.constant(np.float32(0)), (19,))),
        [xlapy.TensorSpec((19,), "f32")],
    ).computation
    found = with_subnormals(program)
    compared = [i for i in found.instructions if i.op.name == "compare"]
    assert [str(i.operands[0].spec.dtype) for i in compared] == ["u32"]
    assert "select" not in names(found)


def test_other_backends_are_given_the_program_as_it_is() -> None:
    for backend, flushes in zip(BACKENDS, (True, False), strict=True):
        with xlapy.use_backend(backend):
            placement = xlapy.asarray(NEAR).placement
        assert placement.backend.capabilities.flushes_subnormals == flushes
