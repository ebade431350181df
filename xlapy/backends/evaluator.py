"""A computation as a function of arrays, by its operations' numpy kernels."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, TypeAlias, final

from xlapy.errors import BackendError, DTypeError, XlapyError
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import annotate
from xlapy.trace.process_grid import is_communicating
from xlapy.trace.replay import last_uses
from xlapy.trace.schedule import receive_last

__all__ = ["Evaluator", "evaluator"]

#: kernel, its operands out of the list of values, its keywords, whether it gives a tuple, and the places to empty then
_Step: TypeAlias = tuple[
    Callable[..., Any], Callable[[list[Any]], Any], dict[str, Any], bool, tuple[int, ...]
]


def evaluator(computation: Computation) -> Evaluator:
    """A computation as a function of arrays: what kernels get for the computations among their parameters."""
    found = computation.cache.get("evaluator")
    if found is None:
        found = computation.cache["evaluator"] = Evaluator(computation)
    made: Evaluator = found
    return made


@final
class Evaluator:
    """A computation as a function of arrays, giving a tuple of them.

    Attributes
    ----------
    computation : Computation
        For kernels that are faster when it is one that they know.
    """

    __slots__ = ("_constants", "_count", "_instructions", "_results", "_steps", "computation")

    def __init__(self, computation: Computation) -> None:
        self.computation = computation
        ordered = receive_last(computation)
        # Every value has a place in one list: the parameters, then the constants, then what is computed.
        places: dict[Value, int] = {}
        for value in ordered.parameters:
            places[value] = len(places)
        self._count = len(places)
        constants = [i for i in ordered.instructions if i.op.name == "constant"]
        for instruction in constants:
            places[instruction.results[0]] = len(places)
        self._constants = [i.params["value"] for i in constants]
        self._instructions = [i for i in ordered.instructions if i.op.name != "constant"]
        self._steps: list[_Step] = []
        for instruction, dead in zip(ordered.instructions, last_uses(ordered), strict=True):
            if instruction.op.name != "constant":
                for value in instruction.results:
                    places[value] = len(places)
                self._steps.append(_step(instruction, places, dead))
        self._results = _picking([places[v] for v in ordered.results])

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        """Run the kernels."""
        if len(arrays) != self._count:
            raise DTypeError(f"there must be {self._count} arrays; got {len(arrays)} [X1]")
        values = [*arrays, *self._constants]
        append = values.append
        try:
            for kernel, operands, keywords, several, dead in self._steps:
                if several:
                    values += kernel(*operands(values), **keywords)
                else:
                    append(kernel(*operands(values), **keywords))
                for place in dead:
                    values[place] = None
        except XlapyError as error:
            self._annotate(error, len(values))
            raise
        except MemoryError as lacking:
            refused = BackendError(f"a result must fit the memory; got {lacking} [X5]")
            self._annotate(refused, len(values))
            raise refused from None
        return tuple(self._results(values))

    def _annotate(self, error: XlapyError, place: int) -> None:
        """Say which instruction an error is of: the one whose results would stand from this place on."""
        start = self._count + len(self._constants)
        for instruction in self._instructions:
            if start == place and (instruction.results or instruction.op.name in str(error)):
                name = instruction.op.name
                known = str(error).startswith(name)
                specs = [v.spec for v in instruction.operands]
                annotate(error, "" if known else name, specs, instruction.source)
                return
            start += len(instruction.results)


def _step(instruction: Instruction, places: dict[Value, int], dead: list[Value]) -> _Step:
    found = instruction.op.infer(*[v.spec for v in instruction.operands], **instruction.params)
    several = type(found) is tuple
    specs = tuple(v.spec for v in instruction.results)
    keywords = {k: _callable(v) for k, v in instruction.params.items()}
    keywords["out"] = specs if several else specs[0]
    if is_communicating(instruction.op.kernel):
        keywords["site"] = instruction
    operands = _picking([places[v] for v in instruction.operands])
    return instruction.op.kernel, operands, keywords, several, tuple(places[v] for v in dead)


def _picking(places: list[int]) -> Callable[[list[Any]], Any]:
    """A function from a list to the sequence of what stands in these places."""
    if len(places) > 1:
        return itemgetter(*places)
    start = places[0] if places else 0
    return itemgetter(slice(start, start + len(places)))


def _callable(value: Any) -> Any:
    if type(value) is Computation:
        return evaluator(value)
    if type(value) is tuple and value and type(value[0]) is Computation:
        return tuple(evaluator(v) for v in value)
    return value
