"""Whether every device of a program comes to each collective in it.

Devices wait in a collective until all of their group are there. One that takes another branch of a conditional, or
leaves a loop earlier, would never come; XLA then ends the process, or waits for ever. So a collective may stand under
control flow only if what decides there is the same on all devices, as far as the program shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, final

from xlapy.errors import UnsupportedOpError
from xlapy.trace.computation import Computation, Instruction, subcomputations
from xlapy.trace.mode import annotate

__all__ = ["require_meetings"]

MEETINGS: Final = frozenset(
    {
        "all_gather", "all_reduce", "all_to_all", "collective_broadcast", "collective_permute", "ragged_all_to_all",
        "reduce_scatter",
    }
)  # fmt: skip
#: those that give all of their group the same
_SHARED: Final = frozenset({"all_gather", "all_reduce", "collective_broadcast"})
#: what may give each device something else, whatever it is given
_OWN: Final = frozenset(
    {
        "infeed", "python_callback", "recv", "recv_done", "rng_get_and_update_state", "rng_normal", "rng_uniform",
    }
)  # fmt: skip
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
        At the collective.
    """
    if num_replicas * num_partitions == 1 or not _meets(computation):
        return
    _refuse_callbacks_in_loops(computation, in_loop=False)
    if _meets_under_control(computation):
        checker = _Checker(num_replicas, num_partitions)
        checker.results(computation, [False] * len(computation.parameters), None)


def _refuse_callbacks_in_loops(computation: Computation, in_loop: bool) -> None:
    """A function that fails must not change how a loop ends.

    Its device has to come to the next collective all the same, so the program goes on
    without what the function would have given.
    """
    for instruction in computation.instructions:
        name = instruction.op.name
        if in_loop and name == "python_callback" and instruction.results:
            error = UnsupportedOpError(
                f"{name}: beside collectives, in a loop, a Python function must give no results on several devices; got"
                f" {len(instruction.results)} [X5]\n  use the interpreter, or run the function outside the program"
            )
            specs = [v.spec for v in instruction.operands]
            raise annotate(error, "", specs, instruction.source)
        for inner in subcomputations(instruction.params):
            _refuse_callbacks_in_loops(inner, in_loop or name == "while")


def _meets_under_control(computation: Computation) -> bool:
    for instruction in computation.instructions:
        for inner in subcomputations(instruction.params):
            if _meets_under_control(inner) or (
                instruction.op.name in ("case", "while") and _meets(inner)
            ):
                return True
    return False


def _meets(computation: Computation) -> bool:
    """Whether there is a collective in a computation, or something that belongs to one in what it calls."""
    return any(
        i.op.name in MEETINGS or any(map(_meets, subcomputations(i.params)))
        for i in computation.instructions
    )


@final
class _Checker:
    """Which values are the same on all devices: true for those that are for sure."""

    def __init__(self, num_replicas: int, num_partitions: int) -> None:
        self._replicas = num_replicas
        self._partitions = num_partitions

    def results(
        self,
        computation: Computation,
        parameters: Sequence[bool],
        decides: Instruction | None,
        check: bool = True,
    ) -> list[bool]:
        """Which results are the same on all devices, for parameters that are or are not.

        Parameters
        ----------
        computation : Computation
        parameters : sequence of bool
        decides : Instruction, optional
            The control flow by which some devices may not run this at all.
        check : bool
            Whether to refuse collectives then.
        """
        same = dict(zip(computation.parameters, parameters, strict=True))
        for instruction in computation.instructions:
            if check and decides is not None and instruction.op.name in MEETINGS:
                raise self._refusal(instruction, decides)
            operands = [same[v] for v in instruction.operands]
            found = self._step(instruction, operands, decides, check)
            same.update(zip(instruction.results, found, strict=True))
        return [same[v] for v in computation.results]

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
        if name in MEETINGS:
            return [self._is_shared(name, params)] * count
        if name in _OWN or params.get("has_side_effect"):
            return [False] * count
        if name == "replica_id":
            return [self._replicas == 1]
        if name == "partition_id":
            return [self._partitions == 1]
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
            inner = decides if goes_on else instruction
            self.results(cond, state, inner)
            self.results(body, state, inner)
        return state

    def _is_shared(self, name: str, params: Mapping[str, Any]) -> bool:
        """Whether all devices are in one group, and get the same from it."""
        if name not in _SHARED:
            return False
        groups = params["replica_groups"]
        return len(groups) == 1 and len(groups[0]) == self._replicas * self._partitions

    def _refusal(self, instruction: Instruction, decides: Instruction) -> Exception:
        what = "loop's condition" if decides.op.name == "while" else "conditional's index"
        error = UnsupportedOpError(
            f"{instruction.op.name}: the {what} above it must be the same on all devices, or some would wait for ever;"
            f" got one that may differ [X5]\n"
            "  compute it from constants or from an all_reduce over all devices, or use the interpreter"
        )
        specs = [v.spec for v in instruction.operands]
        return annotate(error, "", specs, instruction.source)
