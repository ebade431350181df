"""Whether every device of a program comes to each collective in it, and to its end.

Devices wait in a collective until all of their group are there. One that takes another branch of a conditional, or
leaves a loop earlier, would never come; XLA then ends the process, or waits for ever. So a collective may stand under
control flow only if what decides there is the same on all devices, as far as the program shows it.

A Python function that fails must not keep its device from the next collective: the program goes on without what the
function would have given. So no loop may wait for that to reach some value.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from xlapy.backends.region_limits import MEETINGS
from xlapy.errors import UnsupportedOpError
from xlapy.trace.computation import Computation, Instruction, subcomputations
from xlapy.trace.mode import annotate

__all__ = ["calls_python", "may_fail", "require_meetings"]

#: those that give all of their group the same
_SHARED: Final = frozenset({"all_gather", "all_reduce", "collective_broadcast"})
#: what may give each device something else, whatever it is given
_OWN: Final = frozenset(
    {
        "infeed", "python_callback", "recv", "recv_done", "rng_get_and_update_state", "rng_normal", "rng_uniform",
    }
)  # fmt: skip
_CALLBACK: Final = frozenset({"python_callback"})
_FOREIGN: Final = frozenset({"custom_call", "python_callback"})
#: what runs a computation on its operands, once
_CALLS: Final = frozenset({"async_start", "call", "composite_call", "fusion"})


def require_meetings(computation: Computation, num_replicas: int, num_partitions: int) -> None:
    """Refuse a program of which a device might not come to a collective that others wait in.

    Parameters
    ----------
    computation : Computation
        With its groups settled.
    num_replicas, num_partitions : int

    Raises
    ------
    UnsupportedOpError
        At the collective, or the loop.
    """
    if num_replicas * num_partitions == 1:
        return
    if calls_python(computation):
        _FreeOfPython().results(computation, [True] * len(computation.parameters), None)
    if _meets_under_control(computation):
        same = _Sameness(num_replicas, num_partitions)
        same.results(computation, [False] * len(computation.parameters), None)


def calls_python(computation: Computation) -> bool:
    """Whether a program calls Python functions."""
    return _holds(computation, _CALLBACK)


def may_fail(computation: Computation) -> bool:
    """Whether a program runs what others wrote, and so may give no results."""
    return _holds(computation, _FOREIGN)


def _meets_under_control(computation: Computation) -> bool:
    for instruction in computation.instructions:
        for inner in subcomputations(instruction.params):
            if _meets_under_control(inner) or (
                instruction.op.name in ("case", "while") and _holds(inner, MEETINGS)
            ):
                return True
    return False


def _holds(computation: Computation, names: frozenset[str]) -> bool:
    """Whether there is one of some operations in a computation, or in what belongs to it."""
    return any(
        i.op.name in names or any(_holds(c, names) for c in subcomputations(i.params))
        for i in computation.instructions
    )


class _Flow(abc.ABC):
    """For which values something holds: those made of nothing but such values, wherever they go."""

    def results(
        self,
        computation: Computation,
        parameters: Sequence[bool],
        decides: Instruction | None,
        check: bool = True,
    ) -> list[bool]:
        """For which results it holds, for parameters for which it does or does not.

        Parameters
        ----------
        computation : Computation
        parameters : sequence of bool
        decides : Instruction, optional
            The control flow around this that is decided by a value for which it does not hold.
        check : bool
            Whether to refuse what must not be.
        """
        holds = dict(zip(computation.parameters, parameters, strict=True))
        for instruction in computation.instructions:
            if check and decides is not None:
                self.refuse_under(instruction, decides)
            operands = [holds[v] for v in instruction.operands]
            found = self._step(instruction, operands, decides, check)
            holds.update(zip(instruction.results, found, strict=True))
        return [holds[v] for v in computation.results]

    @abc.abstractmethod
    def known(self, instruction: Instruction) -> bool | None:
        """Whether it holds for the results whatever the operands; None if it depends on them."""

    def refuse_under(self, instruction: Instruction, decides: Instruction) -> None:
        """Refuse an instruction that must not stand under the control flow."""
        return

    def refuse_loop(self, instruction: Instruction) -> None:
        """Refuse a loop whose condition is a value for which it does not hold."""
        return

    def _step(
        self,
        instruction: Instruction,
        operands: list[bool],
        decides: Instruction | None,
        check: bool,
    ) -> list[bool]:
        name, params = instruction.op.name, instruction.params
        count = len(instruction.results)
        if name == "while":
            return self._loop(instruction, operands, decides, check)
        if name == "case":
            inner = decides if operands[0] else instruction
            found = [self.results(b, operands[1:], inner, check) for b in params["branches"]]
            return [operands[0] and all(column) for column in zip(*found, strict=True)]
        answer = self.known(instruction)
        if answer is not None:
            return [answer] * count
        answer = all(operands)
        for inner_computation in subcomputations(params):
            if name in _CALLS:
                found_here = self.results(inner_computation, operands, decides, check)
                if len(found_here) == count:
                    return found_here
            else:
                given = [answer] * len(inner_computation.parameters)
                found_here = self.results(inner_computation, given, decides, check)
            answer = answer and all(found_here)
        return [answer] * count

    def _loop(
        self,
        instruction: Instruction,
        operands: list[bool],
        decides: Instruction | None,
        check: bool,
    ) -> list[bool]:
        """A loop of which each round may make more of the state differ."""
        cond, body = instruction.params["cond"], instruction.params["body"]
        state = operands
        while True:
            goes_on = self.results(cond, state, None, check=False)[0]
            after = self.results(body, state, None, check=False)
            new = [goes_on and a and b for a, b in zip(state, after, strict=True)]
            if new == state:
                break
            state = new
        if check:
            if not goes_on:
                self.refuse_loop(instruction)
            inner = decides if goes_on else instruction
            self.results(cond, state, inner)
            self.results(body, state, inner)
        return state


@final
class _Sameness(_Flow):
    """Which values are the same on all devices: true for those that are for sure."""

    def __init__(self, num_replicas: int, num_partitions: int) -> None:
        self._replicas = num_replicas
        self._partitions = num_partitions

    def known(self, instruction: Instruction) -> bool | None:
        """Collectives give the same, or not; some operations give each device something of its own."""
        name, params = instruction.op.name, instruction.params
        if name in MEETINGS:
            return self._is_shared(name, params)
        if name in _OWN or params.get("has_side_effect"):
            return False
        if name == "replica_id":
            return self._replicas == 1
        return self._partitions == 1 if name == "partition_id" else None

    def _is_shared(self, name: str, params: Mapping[str, Any]) -> bool:
        """Whether all devices are in one group, and get the same from it."""
        if name not in _SHARED:
            return False
        groups = params["replica_groups"]
        return len(groups) == 1 and len(groups[0]) == self._replicas * self._partitions

    def refuse_under(self, instruction: Instruction, decides: Instruction) -> None:
        """No collective: a device might not come."""
        if instruction.op.name not in MEETINGS:
            return
        what = "loop's condition" if decides.op.name == "while" else "conditional's index"
        error = UnsupportedOpError(
            f"{instruction.op.name}: the {what} above it must be the same on all devices, or some would wait for ever;"
            f" got one that may differ [X5]\n"
            "  compute it from constants or from an all_reduce over all devices, or use the interpreter"
        )
        specs = [v.spec for v in instruction.operands]
        raise annotate(error, "", specs, instruction.source)


@final
class _FreeOfPython(_Flow):
    """Which values do not depend on what Python functions give."""

    def known(self, instruction: Instruction) -> bool | None:
        """The functions' own results do."""
        return False if instruction.op.name in _CALLBACK else None

    def refuse_loop(self, instruction: Instruction) -> None:
        """It might go on for ever without what a function that failed would have given."""
        error = UnsupportedOpError(
            "while: on several devices the condition must not depend on what a Python function gives, for none is"
            " given when it fails; got one that may [X5]\n"
            "  use the interpreter, or run the function outside the program"
        )
        raise annotate(error, "", [v.spec for v in instruction.operands], instruction.source)
