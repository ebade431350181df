"""Making a failing program smaller: fewer results, instructions and operands, smaller arrays, plainer numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xlapy.specs import TensorSpec
from xlapy.trace.builder import XlaBuilder, recording
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations
from xlapy.trace.replay import inline, replay
from xlapy.trace.simplify import eliminate_dead

from .evaluation import values_of
from .programs import Program
from .values import Array

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, seconds: float = 60.0) -> Program:
    """The smallest program found that still fails, in a limited time."""
    end = time.monotonic() + seconds
    current = tidy(program)
    if not fails(current):
        return program
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidates in (
            _alone,
            _fewer_results,
            _inlined,
            _cuts,
            _smaller_bodies,
            _smaller_sizes,
            _plainer,
        ):
            for candidate in candidates(current):
                if time.monotonic() > end:
                    return current
                if _weight(candidate) < _weight(current) and fails(candidate):
                    current = candidate
                    progress = True
                    break
    return current


def _weight(program: Program) -> tuple[float, ...]:
    """What is to become less: instructions first, then elements, then how odd the numbers are."""
    size = _size(program.computation)
    elements = sum(a.size for a in program.arrays) + sum(
        v.spec.size for v in program.computation.results if type(v.spec) is TensorSpec
    )
    return size, elements, sum(_oddity(a) for a in program.arrays)


def _size(computation: Computation) -> float:
    total: float = 0.1 * len(computation.parameters) + 0.1 * len(computation.results)
    for i in computation.instructions:
        total += 0.5 if i.op.name == "constant" else 1
        for inner in subcomputations(i.params):
            total += 0.5 * _size(inner)
    return total


def _oddity(array: Array) -> float:
    """How far numbers are from being zero."""
    try:
        with np.errstate(all="ignore"):
            wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
            return float(np.sum(wide != 0) + np.sum(wide != np.rint(wide.real)))
    except (TypeError, ValueError):
        return 0.0


def _with(program: Program, computation: Computation, arrays: Sequence[Array]) -> Program:
    return Program(computation, list(arrays), program.mood, program.seed, program.suspects)


def tidy(program: Program) -> Program:
    """Without instructions and parameters that nothing reads."""
    computation = eliminate_dead(program.computation)
    used = {v for i in computation.instructions for v in i.operands} | set(computation.results)
    kept = [i for i, v in enumerate(computation.parameters) if v in used]
    made = Computation(
        [computation.parameters[i] for i in kept],
        computation.instructions,
        computation.results,
        computation.name,
    )
    return _with(program, made, [program.arrays[i] for i in kept])


def _fewer_results(program: Program) -> Iterator[Program]:
    c = program.computation
    if len(c.results) < 2:
        return
    for chosen in [[v] for v in c.results] + [
        [w for j, w in enumerate(c.results) if j != i] for i in range(len(c.results))
    ]:
        made = Computation(c.parameters, c.instructions, chosen, c.name)
        yield tidy(_with(program, made, program.arrays))


def _alone(program: Program) -> Iterator[Program]:
    """One instruction on what it had."""
    c = program.computation
    try:
        env = values_of(c, program.arrays)
    except Exception:
        return
    for last in sorted(c.instructions, key=lambda i: i.op.name not in program.suspects):
        if last.op.name == "constant":
            continue
        if all(
            type(v.spec) is TensorSpec and v.spec.is_static for v in (*last.operands, *last.results)
        ):
            parameters = list(dict.fromkeys(last.operands))
            made = Computation(parameters, [last], last.results, c.name)
            yield tidy(_with(program, made, [np.asarray(env[v]) for v in parameters]))


def _cuts(program: Program) -> Iterator[Program]:
    """Instructions replaced by parameters that hold what they gave, or by their operands."""
    c = program.computation
    try:
        env = values_of(c, program.arrays)
    except Exception:
        env = {}
    arrays = [
        v
        for i in c.instructions
        for v in i.results
        if type(v.spec) is TensorSpec and v.spec.is_static
    ]
    for value in reversed(arrays):
        if value in env:
            owner = next(i for i in c.instructions if value in i.results)
            if owner.op.name == "constant":
                continue
            rest = [i for i in c.instructions if i is not owner]
            new = list(owner.results)
            if not all(v in env and type(v.spec) is TensorSpec for v in new):
                continue
            made = Computation([*c.parameters, *new], rest, c.results, c.name)
            yield tidy(_with(program, made, [*program.arrays, *[np.asarray(env[v]) for v in new]]))
    for value in reversed(arrays):
        owner = next(i for i in c.instructions if value in i.results)
        for operand in owner.operands:
            if operand.spec == value.spec:
                yield tidy(_with(program, _renamed(c, owner, {value: operand}), program.arrays))


#: operations that run a computation on their operands, from the position at which these begin
_RUNS = {"call": 0, "composite_call": 0, "fusion": 0, "case": 1, "while": 0}


def _inlined(program: Program) -> Iterator[Program]:
    """Computations of calls and branches, and a single step of loops, in the place of the operations."""
    c = program.computation
    for target in c.instructions:
        start = _RUNS.get(target.op.name)
        if start is None:
            continue
        for body in subcomputations(target.params):
            if len(body.results) != len(target.results):
                continue
            builder = XlaBuilder(c.name)
            given = [builder.parameter(i, s) for i, s in enumerate(c.parameter_specs)]

            def apply(i: Instruction, xs: list[Any], body: Computation = body, target: Instruction = target,
                      start: int = start, builder: XlaBuilder = builder) -> Any:  # fmt: skip
                if i is target:
                    return inline(body, xs[start:])
                outs = builder.record(i.op, xs, dict(i.params))
                return outs if type(outs) is tuple else (outs,)

            try:
                with recording(builder):
                    results = [builder.value(t) for t in replay(c, given, apply)]
                made = builder.finish(results)
            except Exception:
                continue
            yield tidy(_with(program, made, program.arrays))


def _renamed(c: Computation, without: Instruction, names: dict[Value, Value]) -> Computation:
    instructions = [
        i.with_operands(tuple(names.get(v, v) for v in i.operands))
        for i in c.instructions
        if i is not without or len(i.results) > len(names)
    ]
    return Computation(c.parameters, instructions, [names.get(v, v) for v in c.results], c.name)


def _smaller_bodies(program: Program) -> Iterator[Program]:
    """Computations within, less what nothing reads, or with an instruction replaced."""
    c = program.computation
    for n, instruction in enumerate(c.instructions):
        for key, value in instruction.params.items():
            several = type(value) is tuple
            inner = value if several else (value,)
            for k, body in enumerate(inner):
                if type(body) is not Computation:
                    continue
                for smaller in _bodies(body):
                    new: Any = tuple(smaller if j == k else b for j, b in enumerate(inner))
                    params = {**instruction.params, key: new if several else new[0]}
                    changed = instruction.with_operands(instruction.operands, params)
                    made = Computation(
                        c.parameters,
                        [*c.instructions[:n], changed, *c.instructions[n + 1 :]],
                        c.results,
                        c.name,
                    )
                    yield tidy(_with(program, made, program.arrays))


def _bodies(body: Computation) -> Iterator[Computation]:
    clean = eliminate_dead(body)
    if clean is not body:
        yield clean
    from xlapy.trace.op import registry

    for instruction in reversed(clean.instructions):
        for value in instruction.results:
            for other in (*clean.parameters, *instruction.operands):
                if other.spec == value.spec and other is not value:
                    yield eliminate_dead(_renamed(clean, instruction, {value: other}))
        if (
            len(instruction.results) == 1
            and instruction.op.name != "constant"
            and type(instruction.results[0].spec) is TensorSpec
            and instruction.results[0].spec.is_static
        ):
            spec = instruction.results[0].spec
            zeros = np.zeros(spec.shape, spec.dtype.numpy)
            constant = Instruction(registry["constant"], (), {"value": zeros}, instruction.results)
            yield eliminate_dead(
                Computation(
                    clean.parameters,
                    [constant if i is instruction else i for i in clean.instructions],
                    clean.results,
                    clean.name,
                )
            )
    for n, instruction in enumerate(clean.instructions):
        for key, value in instruction.params.items():
            if type(value) is Computation:
                for smaller in _bodies(value):
                    changed = instruction.with_operands(
                        instruction.operands, {**instruction.params, key: smaller}
                    )
                    yield Computation(
                        clean.parameters, [*clean.instructions[:n], changed, *clean.instructions[n + 1 :]],
                        clean.results, clean.name,
                    )  # fmt: skip


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """All dimensions of one size made smaller, where the operations take that."""
    c = program.computation
    specs = [s for s in c.parameter_specs if type(s) is TensorSpec]
    for size in sorted({n for s in specs for n in s.shape if n > 0}, reverse=True):
        for smaller in sorted({1, 2, size // 2, size - 1}):
            if not 0 < smaller < size:
                continue
            for last in (False, True):

                def cut(
                    a: Array, size: int = size, smaller: int = smaller, last: bool = last
                ) -> Array:
                    for d, n in enumerate(a.shape):
                        if n == size:
                            part = slice(size - smaller, None) if last else slice(0, smaller)
                            a = a[(slice(None),) * d + (part,)]
                    return a

                yield from _replayed(
                    program, [np.ascontiguousarray(cut(a)) for a in program.arrays]
                )
    for at, array in enumerate(program.arrays):
        for d, n in enumerate(array.shape):
            for part in (slice(0, n // 2), slice(n // 2, n), slice(0, n - 1), slice(1, n)):
                if n > 1:
                    new = list(program.arrays)
                    new[at] = np.ascontiguousarray(array[(slice(None),) * d + (part,)])
                    yield from _replayed(program, new)


def _replayed(program: Program, arrays: Sequence[Array]) -> Iterator[Program]:
    """The same operations on other arrays, if they take them."""
    c = program.computation
    builder = XlaBuilder(c.name)
    given = [
        builder.parameter(i, TensorSpec(a.shape, s.dtype))  # type: ignore[union-attr]
        for i, (a, s) in enumerate(zip(arrays, c.parameter_specs, strict=True))
    ]
    try:
        with recording(builder):
            results = [builder.value(t) for t in inline(c, given)]
        made = builder.finish(results)
    except Exception:
        return
    yield _with(program, made, [np.asarray(a).reshape(a.shape) for a in arrays])


def _plainer(program: Program) -> Iterator[Program]:
    """Numbers replaced by zeros, ones and rounded ones."""
    for at, array in enumerate(program.arrays):
        if not array.size:
            continue
        options = [np.zeros_like(array), np.ones_like(array)]
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):
                options.append(
                    np.where(np.isfinite(array), np.rint(array), array).astype(array.dtype)
                )
        if array.ndim and array.size <= 16:
            for i in range(array.size):
                one = array.copy().reshape(-1)
                one[i] = np.zeros((), array.dtype)
                options.append(one.reshape(array.shape))
        for new in options:
            if new.tobytes() != array.tobytes():
                yield _with(
                    program,
                    program.computation,
                    [*program.arrays[:at], new, *program.arrays[at + 1 :]],
                )
