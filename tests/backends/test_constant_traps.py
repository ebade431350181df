"""What XLA computes while it compiles: operations on constants, and what it finds to be constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from case_checks import arrays_of, assert_all_same, function_of, op_cases, run
from cases import OpCase

import xlapy
from xlapy import ops
from xlapy.backends.constant_traps import without_traps
from xlapy.backends.eager import compile_checked
from xlapy.backends.registry import get_backend
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import registry
from xlapy.trace.verify import verify

BACKENDS = ("interpreter", "pjrt:cpu")
# Their results are no functions of their operands alone, or they have a table of their own for programs.
ELSEWHERE = ("callbacks", "channels", "collectives", "custom", "rng", "tokens")
EDGES = ("div", "rem", "clz", "compare", "clamp", "convolution", "pow", "reduce", "scatter", "add")


def _cases() -> list[Any]:
    """One case of each operation, and all edges of those that XLA computes wrong."""
    found: dict[str, list[OpCase]] = {}
    for table, case in op_cases():
        if table in ELSEWHERE or "pjrt" in case.skip or "pjrt" in case.xfail:
            continue
        kept = found.setdefault(case.op, [])
        edge = case.op in EDGES and any(
            w in case.name for w in ("edges", "whole_range", "TOTALORDER", "zeros", "pred")
        )
        if not kept or edge:
            kept.append(case)
    return [pytest.param(c, id=c.id) for cases in found.values() for c in cases]


@pytest.mark.parametrize("case", _cases())
def test_constants_give_what_arguments_give(case: OpCase) -> None:
    arrays, call = arrays_of(case), function_of(case)
    constant = registry["constant"]
    program = trace(lambda: call(*[bind(constant, value=a) for a in arrays]), []).computation
    backend = get_backend("pjrt:cpu")
    executable = compile_checked(program, backend.placement)
    found = [np.array(backend.get(p)) for p in executable.execute([])]
    assert_all_same(found, run(case, "interpreter"), case.tol)


DIVISIONS: dict[str, Callable[[Any], Any]] = {
    "difference": lambda y: ops.div(5, ops.sub(y, y)),
    "rest": lambda y: ops.rem(ops.constant(np.int32(7)), ops.xor(y, y)),
    "least": lambda y: ops.div(ops.constant(np.int32(-(2**31))), ops.sub(ops.sub(y, y), 1)),
    "array": lambda y: ops.div(ops.constant([1, -2, 3]), ops.constant([0, 1, 0])),
    "unsigned": lambda y: ops.div(ops.constant(np.uint8(7)), ops.convert(ops.sub(y, y), "u8")),
    "no_constant": lambda y: ops.div(y, ops.sub(y, y)),
    "by_two": lambda y: ops.div(ops.neg(y), 2),
    "branch": lambda y: xlapy.cond(ops.gt(y, 0), lambda z: ops.div(9, ops.sub(z, z)), lambda z: z, y),
    "loop": lambda y: xlapy.fori_loop(0, 3, lambda i, z: ops.add(z, ops.rem(9, ops.sub(i, i))), y),
    "map": lambda y: ops.map(ops.broadcast(y, (3,)), lambda a: ops.rem(8, ops.sub(a, a))),
    "call": lambda y: ops.call(lambda z: ops.div(4, ops.mul(z, 0)), y),
}  # fmt: skip


@pytest.mark.parametrize("name", DIVISIONS)
def test_division_by_what_is_found_to_be_zero(name: str) -> None:
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            found.append(np.asarray(xlapy.compile(DIVISIONS[name])(np.int32(3))))
    np.testing.assert_array_equal(*found)


POWERS: dict[str, Callable[[Any], Any]] = {
    "minus_one": lambda x: ops.pow(x, -1),
    "computed": lambda x: ops.pow(x, ops.neg(ops.constant(np.int32(1)))),
    "minus_three": lambda x: ops.pow(x, -3),
    "two": lambda x: ops.pow(x, 2),
    "of_constants": lambda x: ops.pow(
        ops.neg(ops.broadcast(ops.constant(np.int32(1)), (3000,))), ops.constant(np.int32(-1))
    ),
    "of_folded_constants": lambda x: (lambda y: ops.pow(y, y))(
        ops.reduce(ops.constant([-1, 0, 3]), ops.constant(-1), ops.and_, ())
    ),
}


@pytest.mark.parametrize("name", POWERS)
def test_negative_powers_of_integers(name: str) -> None:
    x = np.array([3, -5, -1, 0, 1, 2], np.int32)
    found = [np.asarray(xlapy.compile(POWERS[name], backend=b)(x)) for b in BACKENDS]
    np.testing.assert_array_equal(*found)


LARGE = np.resize(np.array([0.0, -0.0, 1.0, -1.0, np.nan, np.inf], np.float32), 3000)
BYTES = np.resize(np.arange(-128, 128, dtype=np.int8), 3000)


@pytest.mark.parametrize(
    "program",
    [
        lambda: ops.compare(ops.constant(LARGE), ops.constant(LARGE[::-1].copy()), "LT", "TOTALORDER"),
        lambda: ops.clz(ops.constant(BYTES)),
        lambda: ops.clz(ops.broadcast(ops.constant(BYTES[:2]), (3000,))),
        lambda: ops.clz(ops.neg(ops.iota("s32", 3000))),
        lambda: ops.convert(ops.bitcast_convert_type(ops.constant(BYTES), "s4"), "s8"),
        lambda: ops.conv(ops.constant(BYTES[None, None]), ops.constant(BYTES[None, None, :5].copy()), (1,), "SAME"),
        lambda: ops.div(ops.constant(BYTES), ops.sub(ops.constant(BYTES), ops.constant(BYTES))),
    ],
)  # fmt: skip
def test_constants_that_are_too_large_to_be_computed_before(program: Callable[[], Any]) -> None:
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            found.append(np.asarray(xlapy.compile(program)()))
    np.testing.assert_array_equal(*found)


def test_sizes_that_vary_are_kept() -> None:
    def program(x: Any, n: Any) -> Any:
        cut = ops.set_dimension_size(x, n, 0)
        return ops.set_dimension_size(ops.div(cut, ops.not_(ops.neg(cut))), 4, 0)

    x = np.arange(4, dtype=np.int32)
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            found = np.asarray(xlapy.compile(program)(x, np.int32(3)))
            assert found[:3].tolist() == [0, -1, 2]


def test_programs_stay_well_formed_and_their_own() -> None:
    traced = trace(lambda x, y: (ops.div(x, y), ops.rem(x, 3)), [x_spec(), x_spec()]).computation
    made = without_traps(traced)
    verify(made)
    assert made.parameters == traced.parameters
    assert made.result_specs == traced.result_specs
    names = [i.op.name for i in made.instructions]
    assert names.count("div") == 1
    assert names.count("select") == 2
    plain = trace(lambda x: ops.div(x, 3), [x_spec()]).computation
    assert without_traps(plain) is plain


def x_spec() -> Any:
    return xlapy.TensorSpec((4,), "s32")


def test_computations_within_are_changed_once() -> None:
    body = trace(lambda x: ops.div(x, x), [x_spec()]).computation
    program = trace(lambda x: (ops.call(body, x), ops.call(body, x)), [x_spec()]).computation
    made = without_traps(program)
    verify(made)
    inner = [i.params["computation"] for i in made.instructions]
    assert inner[0] is inner[1]
    assert isinstance(inner[0], Computation)
    assert inner[0] is not body


def test_calls_without_results() -> None:
    """Derivatives call computations of which nothing is kept."""
    inner = trace(lambda y: (), ["f32[3]"]).computation

    def program(x: Any) -> Any:
        bind(registry["call"], x, computation=inner)
        return ops.neg(x)

    computation = trace(program, ["f32[3]"]).computation
    assert without_traps(computation) is computation
