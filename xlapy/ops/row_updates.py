"""Ways back through single rows of arrays: changing rows where they lie, in time that does not grow with the array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.trace.builder import XlaBuilder
from xlapy.trace.computation import Computation, Instruction, Value
from xlapy.trace.mode import bind, using
from xlapy.trace.op import lookup
from xlapy.trace.replay import replay
from xlapy.trace.simplify import eliminate_dead

from .rules import body_name
from .trip_count import values_by_round

__all__ = ["without_clearing", "work_in_place"]

Producers = Mapping[Value, Instruction]


def _uses(computation: Computation) -> dict[Value, int]:
    uses: dict[Value, int] = {}
    for values in (computation.results, *[i.operands for i in computation.instructions]):
        for value in values:
            uses[value] = uses.get(value, 0) + 1
    return uses


# --- adding to a part -----------------------------------------------------------------------------------------------


def work_in_place(computation: Computation) -> Computation:
    """Let cotangents that are zero but for a part be added to that part alone.

    The way back through ``x[i]`` makes zeros of the shape of x, puts a part in, and adds that to what it has. Here the
    part is added where it belongs.
    """
    producers = {v: i for i in computation.instructions for v in i.results}
    uses = _uses(computation)
    added: dict[Instruction, tuple[Instruction, Value]] = {}
    for instruction in computation.instructions:
        if instruction.op.name == "add":
            left, right = instruction.operands
            for part, whole in ((right, left), (left, right)):
                producer = producers.get(part)
                if producer is not None and uses[part] == 1 and _adds_part(producer, producers):
                    added[instruction] = producer, whole
                    break
    if not added:
        return computation
    skipped = {producer for producer, _ in added.values()}
    builder = XlaBuilder(computation.name)
    arguments = [builder.parameter(i, s) for i, s in enumerate(computation.parameter_specs)]
    environment = dict(zip(computation.parameters, arguments, strict=True))

    def apply(instruction: Instruction, operands: list[Any]) -> Sequence[Any]:
        outs: Any
        with builder.at_source(instruction.source):
            if instruction in skipped:
                outs = tuple([None for _ in instruction.results])
            elif instruction in added:
                producer, whole = added[instruction]
                given = [environment.get(v) for v in producer.operands]
                outs = _PARTS[producer.op.name][1](environment[whole], given, producer.params)
            else:
                outs = bind(instruction.op, *operands, **instruction.params)
        results: tuple[Any, ...] = outs if type(outs) is tuple else (outs,)
        environment.update(zip(instruction.results, results, strict=True))
        return results

    with using(builder):
        results = replay(computation, arguments, apply)
        return eliminate_dead(builder.finish([builder.value(r) for r in results]))


def _adds_part(instruction: Instruction, producers: Producers) -> bool:
    rule = _PARTS.get(instruction.op.name)
    return rule is not None and rule[0](instruction, producers)


def _is_zero(value: Value, producers: Producers) -> bool:
    producer = producers.get(value)
    if producer is None:
        return False
    if producer.op.name == "broadcast_in_dim":
        return _is_zero(producer.operands[0], producers)
    if producer.op.name != "constant":
        return False
    array = producer.params["value"]
    flat = array[(0,) * array.ndim] if array.size and not any(array.strides) else array
    return bool(np.all(flat == 0))


def _is_update_of_zeros(instruction: Instruction, producers: Producers) -> bool:
    return _is_zero(instruction.operands[0], producers)


def _add_update(whole: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Whole + dynamic_update_slice(0, part, *starts)."""
    _, part, *starts = operands
    before = bind(lookup("dynamic_slice"), whole, *starts, slice_sizes=part.spec.shape)
    return bind(lookup("dynamic_update_slice"), whole, bind(lookup("add"), before, part), *starts)


def _is_scatter_into_zeros(instruction: Instruction, producers: Producers) -> bool:
    body = next((v for v in instruction.params.values() if type(v) is Computation), None)
    return (
        len(instruction.operands) == 3
        and body is not None
        and body_name(body) == "add"
        and _is_zero(instruction.operands[0], producers)
    )


def _add_scatter(whole: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Whole + scatter(0, indices, updates), where the scatter adds."""
    _, indices, updates = operands
    out = bind(lookup("scatter"), whole, indices, updates, **params)
    return out[0] if type(out) is tuple else out


_PARTS: Final[dict[str, tuple[Callable[..., bool], Callable[..., Any]]]] = {
    "dynamic_update_slice": (_is_update_of_zeros, _add_update),
    "scatter": (_is_scatter_into_zeros, _add_scatter),
}


# --- clearing rows once for all -------------------------------------------------------------------------------------


def without_clearing(
    computation: Computation,
    handed_on: Mapping[int, int],
    counting: Mapping[int, tuple[int, int]],
    rounds: int,
) -> tuple[Computation, dict[int, np.ndarray[Any, Any]]]:
    """Let rows that each round overwrites stay, where no other round reads them.

    The way back through ``x[i] = y`` reads row i and clears it, for which XLA copies the whole array in each round. If
    every round has a row of its own, all of them can be cleared after the last one.

    Parameters
    ----------
    computation : Computation
        The way back through one round.
    handed_on : mapping
        From the parameters that hold what is handed from round to round to the result that replaces them.
    counting : mapping
        Start and step of the parameters that count.
    rounds : int

    Returns
    -------
    computation : Computation
        With some of those parameters as the results that replace them.
    cleared : dict
        For each of these parameters, as a mask of its shape (or one that broadcasts to it), what to clear in the end.
    """
    producers = {v: i for i in computation.instructions for v in i.results}
    uses = _uses(computation)
    results = list(computation.results)
    cleared: dict[int, np.ndarray[Any, Any]] = {}
    for position, place in handed_on.items():
        whole, new = computation.parameters[position], computation.results[place]
        clearing = producers.get(new)
        if (
            clearing is None
            or clearing.op.name != "dynamic_update_slice"
            or clearing.operands[0] is not whole
            or uses[new] != 1
            or not _is_zero(clearing.operands[1], producers)
        ):
            continue
        reads = [
            i
            for i in computation.instructions
            if i.op.name == "dynamic_slice"
            and i.operands[0] is whole
            and i.operands[1:] == clearing.operands[2:]
            and i.params["slice_sizes"] == clearing.operands[1].spec.shape  # type: ignore[union-attr]
        ]
        if uses[whole] != 1 + len(reads):
            continue
        mask = _distinct_rows(computation, clearing, counting, rounds)
        if mask is not None:
            results[place] = whole
            cleared[position] = mask
    if not cleared:
        return computation, cleared
    kept = Computation(computation.parameters, computation.instructions, results, computation.name)
    return eliminate_dead(kept), cleared


def _distinct_rows(
    computation: Computation,
    update: Instruction,
    counting: Mapping[int, tuple[int, int]],
    rounds: int,
) -> np.ndarray[Any, Any] | None:
    """The rows that the rounds write, if each writes others: a mask that broadcasts to the array."""
    whole: Any = update.operands[0].spec
    part: Any = update.operands[1].spec
    axis = None
    for i, (size, width) in enumerate(zip(whole.shape, part.shape, strict=True)):
        if size != width:
            if axis is not None:
                return None
            axis = i
    if axis is None:
        return None
    starts = values_by_round(computation, update.operands[2 + axis], counting, rounds)
    if starts is None:
        return None
    width = part.shape[axis]
    starts = np.clip(starts, 0, whole.shape[axis] - width)
    rows = (starts[:, None] + np.arange(width)).reshape(-1)
    if len(np.unique(rows)) != len(rows):
        return None
    mask = np.zeros(whole.shape[axis], np.bool_)
    mask[rows] = True
    shape = [1] * whole.rank
    shape[axis] = -1
    return mask.reshape(shape)
