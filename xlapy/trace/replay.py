"""The one loop over a computation; evaluating, inlining and transforming are what is done at each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy.tensor import Tensor
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import bind, current_builder

__all__ = ["inline", "last_uses", "replay"]


def replay(
    computation: Computation,
    arguments: Sequence[Any],
    apply: Callable[[Instruction, list[Any]], Sequence[Any]],
    free: Sequence[Sequence[Value]] | None = None,
) -> list[Any]:
    """Go through a computation, with `apply` saying what each instruction does.

    Parameters
    ----------
    computation : Computation
    arguments : sequence
        One for each parameter: arrays, tensors, pairs of primal and tangent, whatever `apply` works on.
    apply : callable
        ``apply(instruction, operands)`` gives the sequence of results.
    free : sequence of sequences of values, optional
        The values to forget after each instruction, from `last_uses`; so memory is given back early.

    Returns
    -------
    list
        One entry for each result.
    """
    env: dict[Value, Any] = dict(zip(computation.parameters, arguments, strict=True))
    if free is None:
        for instruction in computation.instructions:
            outs = apply(instruction, [env[v] for v in instruction.operands])
            for value, out in zip(instruction.results, outs, strict=True):
                env[value] = out
    else:
        for instruction, dead in zip(computation.instructions, free, strict=True):
            outs = apply(instruction, [env[v] for v in instruction.operands])
            for value, out in zip(instruction.results, outs, strict=True):
                env[value] = out
            for value in dead:
                del env[value]
    return [env[v] for v in computation.results]


def last_uses(computation: Computation) -> list[list[Value]]:
    """For each instruction the values that nothing after it reads."""
    seen = set(computation.results)
    dead: list[list[Value]] = []
    for instruction in reversed(computation.instructions):
        gone: list[Value] = []
        for value in (*instruction.operands, *instruction.results):
            if value not in seen:
                seen.add(value)
                gone.append(value)
        dead.append(gone)
    dead.reverse()
    return dead


def inline(computation: Computation, arguments: Sequence[Tensor]) -> list[Tensor]:
    """Call every operation of a computation again in the current mode, each for its own source line."""
    builder = current_builder()

    def apply(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
        if builder is None:
            outs = bind(instruction.op, *operands, **instruction.params)
        else:
            sources, source = builder._sources, instruction.source
            if source is not None:
                sources.append(source)
            try:
                outs = builder.record(instruction.op, operands, dict(instruction.params))
            finally:
                if source is not None:
                    sources.pop()
        return outs if type(outs) is tuple else (outs,)

    return replay(computation, arguments, apply)
