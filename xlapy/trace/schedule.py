"""The order in which instructions run where one of them waits for another device."""

from __future__ import annotations

from xlapy.trace.computation import Computation, Instruction, Value

__all__ = ["receive_last"]


def receive_last(computation: Computation) -> Computation:
    """Let each instruction that waits for what another device sends come after all that does not depend on it.

    What a program receives is often asked for before what it sends is sent: in HLO a receive comes in two halves, and
    StableHLO orders by data and tokens alone. Devices that send around a ring would wait for each other otherwise.

    Parameters
    ----------
    computation : Computation

    Returns
    -------
    Computation
        Of the same instructions; the same object if nothing waits.
    """
    rest = computation.instructions
    if not any(map(_waits, rest)):
        return computation
    ordered: list[Instruction] = []
    while rest:
        late: set[Value] = set()
        left: list[Instruction] = []
        for instruction in rest:
            if _waits(instruction) or not late.isdisjoint(instruction.operands):
                late.update(instruction.results)
                left.append(instruction)
            else:
                ordered.append(instruction)
        # The first one that is left waits, and depends on no other that does.
        ordered.extend(left[:1])
        rest = left[1:]
    return Computation(
        computation.parameters,
        ordered,
        computation.results,
        computation.name,
        computation.parameter_names,
    )


def _waits(instruction: Instruction) -> bool:
    return instruction.op.name == "recv" and not instruction.params["is_host_transfer"]
