"""What is checked of each program.

A check raises `Fault`; `check_all` runs all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import xlapy
from xlapy.errors import (
    ArtifactError,
    BackendError,
    NotDifferentiableError,
    ShapeError,
    UnsupportedOpError,
)
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.op import registry
from xlapy.trace.simplify import eliminate_common, eliminate_dead, fold_constants, simplify
from xlapy.trace.stablehlo import to_stablehlo
from xlapy.trace.verify import verify

from .evaluation import evaluate, values_of
from .known_differences import NOT_COMPILED, NOT_IN_HLO, is_written_otherwise
from .programs import Program, names_in
from .rounding import (
    EXACT,
    ROUNDED,
    differing,
    expectation,
    flush_step,
    has_denormals,
    noise_of,
)
from .setting import (
    Fault,
    Setting,
    compare,
    count_elements,
    expected_results,
    generator,
    lowered_on,
    run_compiled,
    run_eagerly,
    run_on,
    same_bits,
    show,
)
from .transformed import check_derivatives, check_vmap
from .values import Array

#: without it each operation is a kernel of its own, and sees the values it is given; a way of compiling that has faults
#: of its own, which are of no interest
SEPARATE = (("xla_disable_hlo_passes", "fusion"),)


def check_verify(setting: Setting, program: Program) -> None:
    """The program is well formed."""
    verify(program.computation)


def check_interpreter(setting: Setting, program: Program) -> None:
    """The interpreter gives what its kernels give one by one, as a builder's program and compiled."""
    computation, arrays = program.computation, program.arrays
    env = values_of(computation, arrays)
    for how, found in (
        ("built", run_on(setting, "interpreter", computation, arrays)),
        ("compiled", run_compiled("interpreter", computation, arrays)),
    ):
        for i, (a, v) in enumerate(zip(found, computation.results, strict=True)):
            if not same_bits(a, np.asarray(env[v])):
                raise Fault("interpreter", f"{how}: result {i} is {a!r} for {env[v]!r}")


def check_simplify(setting: Setting, program: Program) -> None:
    """The passes change no value."""
    computation, arrays = program.computation, program.arrays
    expected = values_of(computation, arrays)
    for transform in (eliminate_dead, eliminate_common, fold_constants, simplify):
        made = transform(computation)
        verify(made)
        found = values_of(made, arrays)
        for i, (a, b) in enumerate(zip(made.results, computation.results, strict=True)):
            if not same_bits(np.asarray(found[a]), np.asarray(expected[b])):
                raise Fault(
                    f"simplify {transform.__name__}",
                    f"result {i}: {found[a]!r} for {expected[b]!r}",
                )


def check_roundtrip(setting: Setting, program: Program) -> None:
    """Written and read again it is the same text, and gives the same."""
    computation, arrays = program.computation, program.arrays
    if "python_callback" in names_in(computation):
        return
    text = to_stablehlo(computation, locations=False)
    read, again = _read_and_written(text, computation.name)
    if again != text:
        if not is_written_otherwise(program):
            raise Fault("roundtrip", "the text differs:\n" + _first_difference(text, again))
        settled = _read_and_written(again, computation.name)[1]
        if settled != again:
            raise Fault(
                "roundtrip", "the text differs again:\n" + _first_difference(again, settled)
            )
    env, found = values_of(computation, arrays), values_of(read, arrays)
    for a, b in zip(read.results, computation.results, strict=True):
        if not same_bits(np.asarray(found[a]), np.asarray(env[b])):
            # Some operations are written as what they are made of, which rounds otherwise.
            actual = [np.asarray(found[v]) for v in read.results]
            compare(setting, "roundtrip", program, actual, expected_results(computation, arrays))
            return


def _read_and_written(text: str, name: str) -> tuple[Computation, str]:
    read = xlapy.from_stablehlo(text).computation
    return read, to_stablehlo(read, locations=False, module_name=name)


def _first_difference(a: str, b: str) -> str:
    for x, y in zip(a.splitlines(), b.splitlines(), strict=False):
        if x != y:
            return f"- {x}\n+ {y}"
    return "one is longer"


def check_artifact(setting: Setting, program: Program) -> None:
    """What is loaded from a portable artifact gives the same."""
    computation, arrays = program.computation, program.arrays
    if "python_callback" in names_in(computation):
        return
    try:
        artifact = xlapy.export(computation)
        read = xlapy.from_stablehlo(artifact.serialize()).computation
    except UnsupportedOpError:
        setting.counts["not done: artifact of an operation without portable form"] += 1
        return
    found = values_of(read, arrays)
    compare(
        setting, "artifact", program, [np.asarray(found[v]) for v in read.results],
        expected_results(computation, arrays),
    )  # fmt: skip


def check_hlo(setting: Setting, program: Program) -> None:
    """What is read of the program's HLO, before and after XLA optimises it, gives the same by the kernels."""
    if "python_callback" in program.op_names:
        return
    if generator(program, 6).random() > 0.35:  # it takes as long as all the others
        setting.counts["not done: hlo: not in each program"] += 1
        return
    lowered = lowered_on(setting.tested, program.computation, program.arrays)
    expected = expected_results(program.computation, program.arrays)
    for check, text_of in (
        ("hlo", lambda: lowered.hlo_text),
        ("optimised hlo", lambda: lowered.compile().optimized_hlo_text),
    ):
        try:
            text = text_of()
            if not text.startswith("HloModule"):
                return  # a backend without HLO
            read = xlapy.from_hlo(text)
            found = read(*program.arrays, backend="interpreter")
        except ArtifactError as error:
            if not any(reason in str(error) for reason in NOT_IN_HLO):
                raise Fault(check, str(error), _head(error)[:80]) from error
            setting.counts[f"not done: {check}: {_head(error)}"] += 1
            continue
        except UnsupportedOpError as error:
            setting.counts[f"not done: {check}: {_head(error)}"] += 1
            continue
        outs = found if isinstance(found, tuple) else (found,)
        compare(setting, check, program, [o.numpy() for o in outs], expected)


def check_eager(setting: Setting, program: Program) -> None:
    """Run operation by operation it gives the same."""
    computation = program.computation
    if len(computation.instructions) > 25 or generator(program, 7).random() > 0.2:
        setting.counts["not done: eager: not in each program"] += 1
        return
    found = run_eagerly(setting.tested, computation, program.arrays)
    compare(setting, "eager", program, found, expected_results(computation, program.arrays))


def stepwise(computation: Computation) -> tuple[Computation, list[Value]]:
    """The program with every array that it computes as a result, and the values that these are.

    Between the operations stand barriers, so that none is simplified for what its operands come from.
    """
    names: dict[Value, Value] = {}
    values: list[Value] = []
    instructions: list[Instruction] = []
    barrier = registry["optimization_barrier"]
    # A size that is known to be the whole has to be seen to be.
    sizes = {i.operands[1] for i in computation.instructions if i.op.name == "set_dimension_size"}
    for i in computation.instructions:
        operands = tuple(names.get(v, v) for v in i.operands)
        instructions.append(i.with_operands(operands))
        arrays = [v for v in i.results if type(v.spec) is TensorSpec and v.spec.is_static]
        for v in arrays:
            behind = Value(v.spec, v.scope)
            instructions.append(Instruction(barrier, (v,), {}, (behind,)))
            if i.op.name != "constant" or v not in sizes:
                names[v] = behind
        if i.op.name != "constant":
            values += arrays
    kept = [names.get(v, v) for v in values]
    return Computation(computation.parameters, instructions, kept, computation.name), values


def check_steps(setting: Setting, program: Program) -> None:
    """Each operation gives what its kernel gives for the operands that it had there."""
    computation, arrays = program.computation, program.arrays
    whole, values = stepwise(computation)
    if not values:
        return
    try:
        outs = run_on(setting, setting.tested, whole, arrays, SEPARATE)
    except BackendError:
        setting.counts["not done: steps: does not compile in steps"] += 1
        return
    found = dict(zip(values, outs, strict=True))
    env: dict[Value, Any] = dict(zip(computation.parameters, arrays, strict=True))
    for number, instruction in enumerate(computation.instructions):
        given = [env[v] for v in instruction.operands]
        with np.errstate(all="ignore"):
            evaluate(instruction, env)
            exact = [env[v] for v in instruction.results]
            samples = []
            for i in range(4):
                scratch = dict(zip(instruction.operands, given, strict=True))
                evaluate(instruction, scratch, noise_of(i, number, fused=False))
                samples.append([scratch[v] for v in instruction.results])
            others = []
            if has_denormals([*given, *exact]):
                scratch = dict(zip(instruction.operands, given, strict=True))
                evaluate(instruction, scratch, flush_step)
                others.append([scratch[v] for v in instruction.results])
        for k, value in enumerate(instruction.results):
            if value not in found:
                continue
            actual = found[value]
            expected = expectation(
                np.asarray(exact[k]),
                [np.asarray(s[k]) for s in samples],
                [np.asarray(o[k]) for o in others],
            )
            count_elements(setting, [expected])
            if (actual.shape, actual.dtype) != (expected.array.shape, expected.array.dtype):
                raise Fault(
                    "steps", f"{actual.dtype}{actual.shape} for {value.spec}", instruction.op.name
                )
            signs = _has_signs(instruction)
            bad = differing(actual, expected, signs=signs)
            if bad.any():
                # As a program of its own, compiled as usual.
                alone = _alone(setting, instruction, given, k)
                if alone is not None:
                    again = differing(alone, expected, signs=signs)
                    if not again.any():
                        setting.counts[
                            f"wrong only when compiled in steps: {instruction.op.name}"
                        ] += 1
                    actual, bad = alone, again
            if bad.any():
                raise Fault(
                    "steps",
                    f"{instruction.op.name}: result {k}: {show(actual, expected, bad)}",
                    instruction.op.name,
                )
            env[value] = actual


def _alone(
    setting: Setting, instruction: Instruction, operands: Sequence[Any], result: int
) -> Array | None:
    """A result of an operation as a program of its own; None if its operands are none that a program takes."""
    if not all(type(v.spec) is TensorSpec and v.spec.is_static for v in instruction.operands):
        return None
    given = dict(zip(instruction.operands, operands, strict=True))
    alone = Computation(list(given), [instruction], [instruction.results[result]], "alone")
    (found,) = run_on(setting, setting.tested, alone, [np.asarray(a) for a in given.values()])
    return found


def _has_signs(instruction: Instruction) -> bool:
    """Whether zeros must have the right sign: where nothing is computed but what is rounded correctly."""
    specs: list[Any] = [v.spec for v in instruction.results]
    if any(type(s) is TensorSpec and s.dtype.name == "f4e2m1fn" for s in specs):
        return False  # nan is a zero there, of any sign
    if instruction.op.name in EXACT:
        return True
    return instruction.op.name in ROUNDED and all(
        type(s) is TensorSpec and s.dtype.kind != "complex" for s in specs
    )


def check_whole(setting: Setting, program: Program) -> None:
    """The optimised program gives what the kernels give; compiled as a function it gives the same."""
    computation, arrays = program.computation, program.arrays
    expected = expected_results(computation, arrays)
    found = run_on(setting, setting.tested, computation, arrays)
    compare(setting, "whole", program, found, expected)
    compiled = run_compiled(setting.tested, computation, arrays)
    for i, (a, b) in enumerate(zip(compiled, found, strict=True)):
        if not same_bits(a, b):
            raise Fault("compiled", f"result {i}: {a!r} for {b!r}")


CHECKS: dict[str, Callable[[Setting, Program], None]] = {
    "verify": check_verify,
    "interpreter": check_interpreter,
    "simplify": check_simplify,
    "roundtrip": check_roundtrip,
    "artifact": check_artifact,
    "steps": check_steps,
    "whole": check_whole,
    "hlo": check_hlo,
    "eager": check_eager,
    "derivatives": check_derivatives,
    "vmap": check_vmap,
}


def run_check(setting: Setting, name: str, program: Program) -> None:
    """One check; whatever it raises is a fault, but for what a backend lacks."""
    setting.began(name)
    setting.counts[f"check {name}"] += 1
    try:
        with np.errstate(all="ignore"):
            CHECKS[name](setting, program)
    except Fault:
        raise
    except UnsupportedOpError as error:
        setting.counts[f"not done: {name}: {_head(error)}"] += 1
    except NotDifferentiableError as error:
        setting.counts[f"not done: {name}: {_head(error)}"] += 1
    except ShapeError as error:
        if "sizes must be known" not in str(error):
            raise Fault(name, str(error), _head(error)[:60]) from error
        setting.counts[f"not done: {name}: {_head(error)}"] += 1
    except BackendError as error:
        if any(reason in str(error) for reason in NOT_COMPILED):
            setting.counts[f"not done: {name}: {_head(error)}"] += 1
            return
        raise Fault(name, f"{type(error).__name__}: {error}", _head(error)[:60]) from error
    except Exception as error:
        raise Fault(
            name, f"{type(error).__name__}: {error}", f"{type(error).__name__} {_head(error)[:40]}"
        ) from error


def check_all(
    setting: Setting, program: Program, skip: frozenset[str] = frozenset()
) -> Iterator[Fault]:
    """Every check; the faults that were found."""
    for name in CHECKS:
        if name in skip:
            continue
        try:
            run_check(setting, name, program)
        except Fault as fault:
            yield fault


def _head(error: Exception) -> str:
    return str(error).split(";")[0].split("\n")[0][:100]
