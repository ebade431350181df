"""What is checked of every case in the tables of `tests/cases`; see `cases.OpCase`."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import cases
import numpy as np
import pytest
from cases import ErrorCase, OpCase
from reference_process import reference_interpreter
from reference_programs import IncomparableError, reference_program

import xlapy
from xlapy.backends.eager import common_placement, compile_checked, put
from xlapy.specs import TensorSpec, TokenSpec, TupleSpec, parse_spec
from xlapy.tensor import Tensor
from xlapy.trace.autodiff import has_tangent
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import registry
from xlapy.trace.stablehlo import to_stablehlo
from xlapy.trace.verify import verify

Array = np.ndarray[Any, Any]
_MODULES = {
    m.name: importlib.import_module(f"cases.{m.name}") for m in pkgutil.iter_modules(cases.__path__)
}
#: the tables, by name; the other modules hold what tables share
TABLES = {
    name: module
    for name, module in _MODULES.items()
    if hasattr(module, "CASES") or hasattr(module, "ERRORS")
}


def op_cases() -> Iterator[tuple[str, OpCase]]:
    """Every case, with the name of its table."""
    for name, table in TABLES.items():
        for case in getattr(table, "CASES", ()):
            yield name, case


def error_cases() -> Iterator[tuple[str, ErrorCase]]:
    """Every error case, with the name of its table."""
    for name, table in TABLES.items():
        for case in getattr(table, "ERRORS", ()):
            yield name, case


# --- running a case -----------------------------------------------------------------------------------------------


def arrays_of(case: OpCase) -> list[Array]:
    """The operands; those given as specs are drawn by a generator that the case seeds."""
    return [a for i, o in enumerate(case.operands) for a in _leaves(o, case, str(i))]


def _leaves(operand: Any, case: OpCase, position: str) -> list[Array]:
    """The arrays that an operand is made of: several for a tuple, none for a token."""
    spec = parse_spec(operand) if isinstance(operand, str) else operand
    if isinstance(spec, TokenSpec):
        return []
    if isinstance(spec, TupleSpec):
        return [a for i, e in enumerate(spec.elements) for a in _leaves(e, case, f"{position}.{i}")]
    return [_draw(spec, case, position) if isinstance(spec, TensorSpec) else np.asarray(spec)]


def _assemble(spec: Any, leaves: Iterator[Any]) -> Any:
    """An operand from its arrays."""
    if isinstance(spec, TupleSpec):
        return bind(registry["tuple"], *[_assemble(e, leaves) for e in spec.elements])
    # StableHLO's reference interpreter knows no create_token.
    return bind(registry["after_all"]) if isinstance(spec, TokenSpec) else next(leaves)


def _draw(spec: TensorSpec, case: OpCase, position: str) -> Array:
    dtype = spec.dtype
    rng = np.random.default_rng(zlib.crc32(f"{case.id}{position}".encode()))
    low, high = case.domain
    if dtype.kind == "bool":
        return rng.integers(0, 2, spec.shape).astype(np.bool_)
    if dtype.integer:
        return rng.integers(
            -2 if dtype.kind == "int" and dtype.bits > 2 else 0, 2, spec.shape
        ).astype(dtype.numpy)
    values: Any = rng.uniform(low, high, spec.shape)
    if dtype.kind == "complex":
        values = values + 1j * rng.uniform(low, high, spec.shape)
    return np.asarray(values).astype(dtype.numpy)


def function_of(case: OpCase) -> Callable[..., tuple[Any, ...]]:
    """The operation with the case's parameters, giving a tuple."""
    op = registry[case.op]
    specs = [parse_spec(o) if isinstance(o, str) else None for o in case.operands]

    def call(*xs: Any) -> tuple[Any, ...]:
        leaves = iter(xs)
        outs = bind(op, *[_assemble(s, leaves) for s in specs], **case.params)
        return tuple(_flat(outs))

    return call


def _flat(x: Any) -> Iterator[Any]:
    """The arrays of a result: HLO tuples are taken apart, and tokens stay inside."""
    if type(x) is tuple:
        for part in x:
            yield from _flat(part)
    elif isinstance(x.spec, TupleSpec):
        for i in range(len(x.spec.elements)):
            yield from _flat(bind(registry["get_tuple_element"], x, index=i))
    elif not isinstance(x.spec, TokenSpec):
        yield x


def computation_of(case: OpCase) -> Computation:
    """The program of the operation alone."""
    specs = [TensorSpec(a.shape, a.dtype) for a in arrays_of(case)]
    computation = trace(function_of(case), specs, name="case").computation
    verify(computation)
    return computation


def run(case: OpCase, backend: str) -> list[Array]:
    """The results on a backend."""
    with xlapy.use_backend(backend):
        tensors = [put(a) for a in arrays_of(case)]
        executable = compile_checked(computation_of(case), common_placement(tensors))
        results = executable.execute([t.payload for t in tensors])
        return [Tensor(p, r).numpy() for p, r in zip(executable.placed, results, strict=True)]


def assert_same(actual: Array, expected: Array, tolerance: float) -> None:
    """Equal types and shapes, and values within a tolerance; 0 is equality, nan with nan."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if actual.dtype.kind in "biu" or actual.dtype.name in ("int2", "int4", "uint2", "uint4"):
        np.testing.assert_array_equal(actual.astype(np.int64), expected.astype(np.int64))
        return
    wide = np.complex128 if actual.dtype.kind == "c" else np.float64
    a, b = actual.astype(wide), expected.astype(wide)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    if tolerance == 0 and wide is np.float64:
        zero = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a)[zero], np.signbit(b)[zero])


def assert_all_same(actual: Any, expected: Any, tolerance: float) -> None:
    """As `assert_same`, for each result."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert_same(np.asarray(a), np.asarray(e), tolerance)


# --- the checks ---------------------------------------------------------------------------------------------------


def check_kernel(case: OpCase) -> None:
    """The kernel's results have the inferred specs."""
    specs = computation_of(case).result_specs
    for array, spec in zip(run(case, "interpreter"), specs, strict=True):
        if type(spec) is TensorSpec and spec.is_static:
            assert (array.shape, array.dtype) == (spec.shape, spec.dtype.numpy)


def check_pjrt(case: OpCase) -> None:
    """XLA gives what the kernel gives."""
    assert_all_same(run(case, "pjrt:cpu"), run(case, "interpreter"), case.tol)


def check_reference(case: OpCase) -> None:
    """StableHLO's reference interpreter gives what the kernel gives, where it knows the operations."""
    try:
        program = reference_program(computation_of(case))
    except IncomparableError as error:
        assert "reference" not in case.xfail, "a case that is not compared cannot fail"
        pytest.skip(str(error))
    interpreter, arrays = reference_interpreter(), arrays_of(case)
    if program.communicates:
        (found,) = interpreter.evaluate_grid(program.text, [arrays], passes=program.passes)
    else:
        found = interpreter.evaluate(program.text, arrays, program.passes)
    assert_all_same(run(case, "interpreter"), found, case.tol)


def check_roundtrip(case: OpCase) -> None:
    """What was written and read again is written as the same text."""
    text = to_stablehlo(computation_of(case), locations=False)
    again = xlapy.from_stablehlo(text).computation
    assert to_stablehlo(again, locations=False, module_name="case") == text


def check_vmap(case: OpCase) -> None:
    """Vectorised over any of the operands it gives what a loop gives."""
    arrays = arrays_of(case)
    call = function_of(case)
    with xlapy.use_backend("interpreter"):
        for flags in itertools.product((False, True), repeat=len(arrays)):
            # Many operands have too many choices: each alone, and all together, are enough then.
            if not any(flags) or (len(flags) > 3 and sum(flags) not in (1, len(flags))):
                continue
            given = [
                np.stack([a, np.roll(a, 1)]) if b else a for a, b in zip(arrays, flags, strict=True)
            ]
            axes = tuple(0 if b else None for b in flags)
            found = xlapy.vmap(call, in_axes=axes)(*[put(a) for a in given])
            rows = [
                [
                    t.numpy()
                    for t in call(
                        *[
                            put(np.array(a[i]) if b else a)
                            for a, b in zip(given, flags, strict=True)
                        ]
                    )
                ]
                for i in range(2)
            ]
            expected = [np.stack(column) for column in zip(*rows, strict=True)]
            assert_all_same([t.numpy() for t in found], expected, max(case.tol, 1e-6))


def check_derivatives(case: OpCase) -> None:
    """The forward mode agrees with differences, the reverse mode with the forward mode; again of the derivative."""
    arrays = arrays_of(case)
    chosen = [i for i, a in enumerate(arrays) if TensorSpec(a.shape, a.dtype).dtype.inexact]
    if case.wrt is not None:
        chosen = [i for i in chosen if i in case.wrt]
    call = function_of(case)
    kept = [i for i, s in enumerate(computation_of(case).result_specs) if has_tangent(s)]

    def of_chosen(*xs: Any) -> tuple[Any, ...]:
        given: dict[int, Any] = dict(zip(chosen, xs, strict=True))
        outs = call(
            *[given.get(i, put(a)) if i in given else _constant(a) for i, a in enumerate(arrays)]
        )
        return tuple(outs[i] for i in kept)

    with xlapy.use_backend("interpreter"):
        _check_derivative(of_chosen, [arrays[i] for i in chosen], case.order)


def _constant(array: Array) -> Any:
    return bind(registry["constant"], value=array)


def _direction(array: Array, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    values: Any = rng.normal(size=array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.normal(size=array.shape)
    return np.asarray(values).astype(array.dtype)


def _pair(a: Array, b: Array) -> float:
    return float(np.sum(np.asarray(a, np.complex128) * np.asarray(b, np.complex128)).real)


def _check_derivative(
    function: Callable[..., tuple[Any, ...]], primals: list[Array], order: int
) -> None:
    tangents = [_direction(p, i) for i, p in enumerate(primals)]
    xs = tuple(put(p) for p in primals)
    outs, out_tangents = xlapy.jvp(function, xs, tuple(put(t) for t in tangents))
    step = 1e-6
    higher, lower = (
        function(*[put(np.asarray(p + s * t)) for p, t in zip(primals, tangents, strict=True)])
        for s in (step, -step)
    )
    for tangent, high, low in zip(out_tangents, higher, lower, strict=True):
        np.testing.assert_allclose(
            tangent.numpy(), (high.numpy() - low.numpy()) / (2 * step), rtol=1e-4, atol=1e-4
        )
    cotangents = [_direction(o.numpy(), 100 + i) for i, o in enumerate(outs)]
    _, pull = xlapy.vjp(function, *xs)
    found = pull(tuple(put(c) for c in cotangents))
    forward = sum(_pair(c, t.numpy()) for c, t in zip(cotangents, out_tangents, strict=True))
    backward = sum(_pair(t, c.numpy()) for t, c in zip(tangents, found, strict=True))
    np.testing.assert_allclose(backward, forward, rtol=1e-6, atol=1e-6)
    if order > 1:

        def pulled(*ys: Tensor) -> tuple[Any, ...]:
            return tuple(xlapy.vjp(function, *ys)[1](tuple(_constant(c) for c in cotangents)))

        _check_derivative(pulled, primals, order - 1)


def has_derivative_check(case: OpCase) -> bool:
    """Whether differences are exact enough: the case is in double precision."""
    if not case.order:
        return False
    wide = [
        a.dtype in (np.float64, np.complex128)
        for i, a in enumerate(arrays_of(case))
        if TensorSpec(a.shape, a.dtype).dtype.inexact and (case.wrt is None or i in case.wrt)
    ]
    return bool(wide) and all(wide)
