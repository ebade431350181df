"""Checking a computation: what must hold of every program before a backend sees it."""

from __future__ import annotations

from xlapy.errors import TracingError, XlapyError
from xlapy.trace.computation import DEEPEST, Computation, Value, subcomputations, too_deep
from xlapy.trace.mode import annotate

__all__ = ["verify"]


def verify(computation: Computation) -> None:
    """Check single assignment, definition before use, and each instruction's results against `infer`.

    Parameters
    ----------
    computation : Computation

    Raises
    ------
    TracingError
        If a value is defined twice, used before its definition, or of another spec than its operation gives.
    XlapyError
        If an operation refuses its operands or parameters.
    """
    _verify(computation, {}, 1)


def _verify(computation: Computation, heights: dict[int, int], level: int) -> int:
    """Check a computation that lies at a level; gives how many lie in each other from it on."""
    found = heights.get(id(computation))
    if found is not None:
        return found
    if level > DEEPEST:
        raise too_deep(level, "X7")
    height = 1
    defined: set[Value] = set()
    for value in computation.parameters:
        if value in defined:
            raise TracingError(
                f"parameters must be distinct values; got {value} twice in {computation.name!r} [X7]"
            )
        defined.add(value)
    for instruction in computation.instructions:
        specs = [v.spec for v in instruction.operands]
        try:
            for value in instruction.operands:
                if value not in defined:
                    raise TracingError(
                        f"operands must be defined before they are used; got {value} [X7]"
                    )
            for inner in subcomputations(instruction.params):
                height = max(height, 1 + _verify(inner, heights, level + 1))
            found = instruction.op.infer(*specs, **instruction.params)
            inferred = found if type(found) is tuple else (found,)
            actual = tuple(v.spec for v in instruction.results)
            if inferred != actual:
                raise TracingError(
                    f"results must be of the inferred specs {inferred}; got {actual} [X7]"
                )
            for value in instruction.results:
                if value in defined:
                    raise TracingError(f"a value must be defined once; got {value} again [X7]")
                defined.add(value)
        except XlapyError as error:
            raise annotate(error, instruction.op.name, specs, instruction.source) from None
        except TypeError as error:
            wrong = TracingError(
                f"operands and parameters must be the operation's own; got {error} [X7]"
            )
            raise annotate(wrong, instruction.op.name, specs, instruction.source) from None
    for value in computation.results:
        if value not in defined:
            raise TracingError(f"results must be defined; got {value} in {computation.name!r} [X7]")
    if level + height - 1 > DEEPEST:
        raise too_deep(level + height - 1, "X7")
    heights[id(computation)] = height
    return height
