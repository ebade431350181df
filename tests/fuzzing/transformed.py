"""Checks of what transformations make of a program: derivatives and vectorised forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import xlapy
from xlapy.specs import TensorSpec
from xlapy.trace.autodiff import has_tangent
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation, Value
from xlapy.trace.replay import inline
from xlapy.trace.verify import verify

from .evaluation import values_of
from .known_differences import wide
from .programs import Program, all_instructions
from .rounding import FACTOR, expectation, samples_of
from .setting import Fault, Setting, compare, expected_results, generator, run_on
from .values import Array, draw

#: operations whose derivative is not the limit of differences, by intention
_NOT_A_LIMIT = frozenset(
    {"stop_gradient", "reduce_precision", "bitcast_convert_type", "python_callback"}
)

#: operations whose further operands are sizes
_SIZED = frozenset({
    "dynamic_broadcast_in_dim", "dynamic_conv", "dynamic_gather", "dynamic_iota", "dynamic_pad", "dynamic_reshape",
    "real_dynamic_slice",
})  # fmt: skip


def _inexact(program: Program) -> list[int]:
    return [
        i
        for i, s in enumerate(program.computation.parameter_specs)
        if type(s) is TensorSpec and s.dtype.inexact
    ]


def _program(function: Any, arrays: Sequence[Array], program: Program, name: str) -> Program:
    specs = [TensorSpec(a.shape, a.dtype) for a in arrays]
    made = trace(function, specs, name=name).computation
    verify(made)
    return Program(made, list(arrays), program.mood, program.seed)


def derivative_programs(program: Program) -> tuple[Program, Program, list[int], list[int]]:
    """The derivative along random directions in forward mode, and pulled back in reverse mode.

    Returns
    -------
    forward, backward : Program
        They give the tangents of the results, and the cotangents of the parameters.
    chosen, kept : list of int
        The parameters and the results that vary.
    """
    computation, arrays = program.computation, program.arrays
    chosen = _inexact(program)
    kept = [i for i, s in enumerate(computation.result_specs) if has_tangent(s)]
    rng = generator(program, 1)
    count = len(arrays)
    mood = "integral" if program.mood == "integral" else "tame"
    directions = [draw(rng, TensorSpec(arrays[i].shape, arrays[i].dtype), mood) for i in chosen]
    specs: list[Any] = [computation.result_specs[i] for i in kept]
    cotangents = [draw(rng, s, mood) for s in specs]

    def of_chosen(given: Sequence[Any]) -> Any:
        def function(*xs: Any) -> tuple[Any, ...]:
            full = list(given)
            for i, x in zip(chosen, xs, strict=True):
                full[i] = x
            results = inline(computation, full)
            return tuple(results[i] for i in kept)

        return function

    def forward(*all_arguments: Any) -> Any:
        given, along = all_arguments[:count], all_arguments[count:]
        primals = tuple(given[i] for i in chosen)
        return list(xlapy.jvp(of_chosen(given), primals, tuple(along))[1])

    def backward(*all_arguments: Any) -> Any:
        given, back = all_arguments[:count], all_arguments[count:]
        _, pull = xlapy.vjp(of_chosen(given), *[given[i] for i in chosen])
        return list(pull(tuple(back)))

    return (
        _program(forward, [*arrays, *directions], program, "jvp"),
        _program(backward, [*arrays, *cotangents], program, "vjp"),
        chosen,
        kept,
    )


def _paired(env: Any, values: Sequence[Any], others: Sequence[Array]) -> tuple[float, float]:
    """The real inner product of results with arrays, and the sum of the terms' magnitudes."""
    total, size = 0.0, 0.0
    for value, other in zip(values, others, strict=True):
        with np.errstate(all="ignore"):
            terms = np.asarray(wide(np.asarray(env[value])) * wide(other)).real
        total += float(np.sum(terms))
        size += float(np.sum(np.abs(terms)))
    return total, size


def check_derivatives(setting: Setting, program: Program, order: int = 1) -> None:
    """The reverse mode agrees with the forward mode, that with differences, and XLA with the kernels on both."""
    if not _inexact(program) or not any(map(has_tangent, program.computation.result_specs)):
        setting.counts["not done: derivatives: nothing varies"] += 1
        return
    forward, backward, chosen, kept = derivative_programs(program)
    count = len(program.arrays)
    directions, cotangents = forward.arrays[count:], backward.arrays[count:]
    names = program.op_names | {s.dtype.name for s in forward.computation.parameter_specs}  # type: ignore[union-attr]
    # What rounds is taken for linear; and f4e2m1fn ends at 6.
    if not names & {"reduce_precision", "f4e2m1fn"}:
        _check_modes(setting, forward, backward, directions, cotangents)
    if program.mood == "tame" and order == 1:
        _check_differences(setting, program, chosen, kept)
    rng = generator(program, 2)
    for made, often in ((backward, 0.7), (forward, 0.2)):
        if rng.random() < often:
            found = run_on(setting, setting.tested, made.computation, made.arrays)
            compare(
                setting,
                made.computation.name,
                made,
                found,
                expected_results(made.computation, made.arrays),
            )
    if order == 1 and rng.random() < 0.1 and len(backward.computation.instructions) < 60:
        setting.counts["check vmap of a derivative"] += 1
        check_vmap(setting, backward if rng.random() < 0.6 else forward, nested=True)
    if order == 1 and rng.random() < 0.15 and len(backward.computation.instructions) < 60:
        setting.counts["check second derivatives"] += 1
        check_derivatives(setting, backward if rng.random() < 0.7 else forward, 2)


def _check_modes(
    setting: Setting,
    forward: Program,
    backward: Program,
    directions: Sequence[Array],
    cotangents: Sequence[Array],
) -> None:
    pairs: list[list[float]] = []
    sizes: list[float] = []
    for made, others in ((forward, cotangents), (backward, directions)):
        c = made.computation
        exact = values_of(c, made.arrays)
        total, size = _paired(exact, c.results, others)
        samples = [_paired(s, c.results, others)[0] for s in samples_of(c, made.arrays, 2)]
        pairs.append([total, *samples])
        sizes.append(size)
    found = np.array(pairs)
    if not np.isfinite(found).all():
        setting.counts["not compared: derivatives that are not finite"] += 1
        return
    spread = float(np.sum(np.max(np.abs(found - found[:, :1]), axis=1)))
    tolerance = FACTOR * spread + 1e-9 * max(sizes)
    if abs(found[0, 0] - found[1, 0]) > tolerance:
        raise Fault(
            "modes", f"forward {found[0, 0]!r}, reverse {found[1, 0]!r}, within {tolerance:.3g}"
        )


def _check_differences(
    setting: Setting, program: Program, chosen: Sequence[int], kept: Sequence[int]
) -> None:
    """Where differences of two steps agree with one another, the derivative agrees with them."""
    computation = program.computation
    names = program.op_names
    if names & _NOT_A_LIMIT or not _is_double(computation):
        return
    rng = generator(program, 3)
    arrays = list(program.arrays)
    for i in chosen:
        # Away from ties.
        arrays[i] = np.asarray(arrays[i] + _random_like(rng, arrays[i]) * 1e-3)
    moved = Program(computation, arrays, program.mood, program.seed)
    forward = derivative_programs(moved)[0]
    directions = forward.arrays[len(arrays) :]
    exact = values_of(forward.computation, forward.arrays)
    slopes = [np.asarray(exact[v]) for v in forward.computation.results]

    def at(step: float) -> list[Array]:
        given = list(arrays)
        for i, d in zip(chosen, directions, strict=True):
            given[i] = np.asarray(given[i] + step * d)
        env = values_of(computation, given)
        return [wide(np.asarray(env[computation.results[i]])) for i in kept]

    quotients = []
    for step in (1e-4, 5e-5):
        with np.errstate(all="ignore"):
            high, low = at(step), at(-step)
            quotients.append([(h - l) / (2 * step) for h, l in zip(high, low, strict=True)])
    setting.counts["check differences"] += 1
    for k, slope in enumerate(slopes):
        one, two = quotients[0][k], quotients[1][k]
        with np.errstate(all="ignore"):
            scale = 1 + np.abs(two)
            settled = np.isfinite(one) & np.isfinite(two) & (np.abs(one - two) <= 1e-5 * scale)
            bad = settled & ~(np.abs(wide(slope) - two) <= 1e-3 * scale)
        if bad.any():
            index = tuple(int(i[0]) for i in np.nonzero(bad))
            raise Fault(
                "differences",
                f"result {kept[k]} at {index}: {slope[index]!r} for {two[index]!r}",
            )


def _is_double(computation: Computation) -> bool:
    """Whether all floats are of double precision, so that differences are exact enough."""
    values = [*computation.parameters]
    for instruction in all_instructions(computation):
        values += [*instruction.operands, *instruction.results]
    specs: list[Any] = [v.spec for v in values]
    return not any(
        type(s) is TensorSpec and s.dtype.inexact and s.dtype.real_part.bits < 64 for s in specs
    )


def _random_like(rng: np.random.Generator, array: Array) -> Any:
    values: Any = rng.normal(size=array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.normal(size=array.shape)
    return np.asarray(values).astype(array.dtype)


def check_vmap(setting: Setting, program: Program, *, nested: bool = False) -> None:
    """Vectorised over some of its parameters it gives what a loop gives; now and then twice, and derived."""
    computation, arrays = program.computation, program.arrays
    if not arrays:
        return
    rng = generator(program, 4)
    sizes = _sizes(computation)
    free = [i for i, v in enumerate(computation.parameters) if v not in sizes]
    if not free:
        setting.counts["not done: vmap: rows have sizes of their own"] += 1
        return
    flags = [bool(rng.random() < 0.6) and i in free for i in range(len(arrays))]
    if not any(flags):
        flags[free[int(rng.integers(len(free)))]] = True
    size = int(rng.integers(1, 4))
    given = [
        np.stack([_shuffled(rng, a, i) for i in range(size)]) if b else a
        for a, b in zip(arrays, flags, strict=True)
    ]

    def function(*tensors: Any) -> Any:
        return list(
            xlapy.vmap(
                lambda *single: tuple(inline(computation, single)),
                in_axes=tuple(0 if b else None for b in flags),
            )(*tensors)
        )

    made = _program(function, given, program, "vmap")
    rows = []
    for i in range(size):
        row = [np.array(a[i]) if b else a for a, b in zip(given, flags, strict=True)]
        rows.append((values_of(computation, row), samples_of(computation, row, 5 + i)))
    expected = []
    for value in computation.results:
        exact = np.stack([np.asarray(env[value]) for env, _ in rows])
        samples = [
            np.stack([np.asarray(s[k][value]) for _, s in rows]) for k in range(len(rows[0][1]))
        ]
        expected.append(expectation(exact, samples))
    env = values_of(made.computation, made.arrays)
    compare(
        setting, "vmap", program, [np.asarray(env[v]) for v in made.computation.results], expected
    )
    if rng.random() < 0.3:
        found = run_on(setting, setting.tested, made.computation, made.arrays)
        compare(
            setting,
            "vmap on the backend",
            made,
            found,
            expected_results(made.computation, made.arrays),
        )
    if nested or len(made.computation.instructions) > 60:
        return
    if rng.random() < 0.1:
        setting.counts["check vmap of a vmap"] += 1
        check_vmap(setting, made, nested=True)
    if rng.random() < 0.1:
        setting.counts["check derivatives of a vmap"] += 1
        check_derivatives(setting, made, 2)


def _sizes(computation: Computation) -> set[Value]:
    """What operations take for the sizes of their results: the result has these sizes, and other rows would not."""
    found: set[Value] = set()
    for instruction in computation.instructions:
        if instruction.op.name in _SIZED:
            found.update(instruction.operands[0 if instruction.op.name == "dynamic_iota" else 1 :])
    return found


def _shuffled(rng: np.random.Generator, array: Array, number: int) -> Array:
    """A row of a batch: the array itself, then its elements in other orders."""
    if not number:
        return array
    flat = array.reshape(-1)
    return np.ascontiguousarray(np.roll(flat, number)).reshape(array.shape)
