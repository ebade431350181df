"""Running a program by its kernels, with every value kept, and with rounding errors put in on purpose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.process_grid import is_communicating

Array = np.ndarray[Any, Any]
#: what is done to an instruction: (instruction, its kernel as a function of arrays, operands) -> results
Step = Callable[[Instruction, Callable[..., tuple[Any, ...]], list[Any]], Sequence[Any]]


class Counter:
    """Counts the operations that are run, those of each turn of a loop as well.

    Attributes
    ----------
    count : int
    """

    def __init__(self) -> None:
        self.count = 0


#: of this process
executed = Counter()


class KernelError(Exception):
    """A kernel that raised, or whose results are not of the inferred specs."""


class Body:
    """A computation as a function of arrays, for kernels; what `xlapy.backends.evaluator.Evaluator` is there."""

    def __init__(self, computation: Computation, step: Step | None = None) -> None:
        # What kernels keep with the computation is made for this class of bodies: it gets a copy of its own.
        self.computation = Computation(
            computation.parameters, computation.instructions, computation.results, computation.name
        )
        self.step = step
        self._kernels: list[Callable[..., tuple[Any, ...]]] = []

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        computation = self.computation
        # Loops call this often: what is called in turn is made once.
        if not self._kernels:
            self._kernels = [kernel_of(i, self.step) for i in computation.instructions]
        env: dict[Value, Any] = dict(zip(computation.parameters, arrays, strict=True))
        for instruction, kernel in zip(computation.instructions, self._kernels, strict=True):
            _run(instruction, kernel, env, self.step, check=False)
        return tuple(env[v] for v in computation.results)


def kernel_of(instruction: Instruction, step: Step | None = None) -> Callable[..., tuple[Any, ...]]:
    """An instruction's kernel as a function of arrays that gives a tuple."""
    specs = [v.spec for v in instruction.operands]
    given: Mapping[str, Any] = instruction.params
    settle = getattr(instruction.op.kernel, "settle", None)
    if settle is not None:  # on one device
        given = settle(specs, given, 1, 1)
    params = {k: _callable(v, step) for k, v in given.items()}
    found = instruction.op.infer(*specs, **given)
    if is_communicating(instruction.op.kernel):
        params["site"] = instruction

    def run(*arrays: Any) -> tuple[Any, ...]:
        result = instruction.op.kernel(*arrays, out=found, **params)
        return result if type(found) is tuple else (result,)

    return run


def _callable(value: Any, step: Step | None) -> Any:
    if type(value) is Computation:
        # Kernels wrap the computation's vectorised form in a body of the same class: that one has the same steps.
        return _with_step(step)(value)
    if type(value) is tuple and value and type(value[0]) is Computation:
        return tuple(_callable(v, step) for v in value)
    return value


_classes: dict[Any, type] = {}


def _with_step(step: Step | None) -> type:
    if step is None:
        return Body

    class Stepping(Body):
        def __init__(self, computation: Computation) -> None:
            super().__init__(computation, step)

    return Stepping


def values_of(
    computation: Computation,
    arrays: Sequence[Any],
    step: Step | None = None,
    *,
    check: bool = True,
) -> dict[Value, Any]:
    """Every value of a program; `step` may change what an instruction gives."""
    env: dict[Value, Any] = dict(zip(computation.parameters, arrays, strict=True))
    with np.errstate(all="ignore"):
        for instruction in computation.instructions:
            evaluate(instruction, env, step, check=check)
    return env


def evaluate(
    instruction: Instruction,
    env: Mapping[Value, Any],
    step: Step | None = None,
    *,
    check: bool = True,
) -> None:
    """Add the results of an instruction to the values."""
    _run(instruction, kernel_of(instruction, step), env, step, check=check)


def _run(
    instruction: Instruction,
    kernel: Callable[..., tuple[Any, ...]],
    env: Mapping[Value, Any],
    step: Step | None,
    *,
    check: bool,
) -> None:
    executed.count += 1
    operands = [env[v] for v in instruction.operands]
    if step is not None:
        outs = step(instruction, kernel, operands)
    elif not check:
        outs = kernel(*operands)
    else:
        outs = _checked(instruction, kernel, operands)
    for value, out in zip(instruction.results, outs, strict=True):
        env[value] = out  # type: ignore[index]


def _checked(instruction: Instruction, kernel: Any, operands: Sequence[Any]) -> list[Any]:
    try:
        outs = kernel(*operands)
    except Exception as error:
        raise KernelError(f"{instruction.op.name}: {type(error).__name__}: {error}") from error
    found: list[Any] = []
    for value, out in zip(instruction.results, outs, strict=True):
        spec: Any = value.spec
        if hasattr(spec, "dtype") and spec.is_static:
            array = np.asarray(out)
            if (array.shape, array.dtype) != (spec.shape, spec.dtype.numpy):
                raise KernelError(
                    f"{instruction.op.name}: the kernel gives {array.dtype}{list(array.shape)} for {spec}"
                )
            out = array
        found.append(out)
    return found
