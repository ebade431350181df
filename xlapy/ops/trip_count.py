"""How often a loop runs, where that can be told before it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import XlapyError
from xlapy.specs import TensorSpec
from xlapy.tensor import Tensor
from xlapy.trace.computation import Computation, Instruction, Value, subcomputations
from xlapy.trace.simplify import has_side_effect

__all__ = [
    "Slice",
    "counters",
    "is_repeatable",
    "known_operands",
    "static_trip_count",
    "values_by_round",
]

Array = np.ndarray[Any, Any]
Known = Mapping[int, Array]

# Larger values are data, not what a loop counts with.
_SMALL: Final = 16
# A loop that is not a plain counter is run here for so many rounds at most.
_ROUNDS: Final = 1024


def static_trip_count(known: Known, cond: Computation, body: Computation) -> int | None:
    """The number of rounds of a loop; None where it depends on data.

    Parameters
    ----------
    known : mapping
        The values of the operands that are known, by position.
    cond, body : Computation
    """
    steady = {
        i: known[i]
        for i, (r, p) in enumerate(zip(body.results, body.parameters, strict=True))
        if r is p and i in known
    }
    counted = _count(known, steady, cond, body)
    return _simulate(known, cond, body) if counted is None else counted


# Each run of these gives something else.
_ONCE: Final = frozenset(("rng", "rng_uniform", "rng_normal", "rng_get_and_update_state"))


def is_repeatable(instruction: Instruction) -> bool:
    """Whether running an instruction twice gives the same twice, and is seen nowhere else."""
    if instruction.op.name in _ONCE or has_side_effect(instruction):
        return False
    return all(
        is_repeatable(i) for c in subcomputations(instruction.params) for i in c.instructions
    )


# --- values known before the program runs ---------------------------------------------------------------------------


def known_operands(operands: Sequence[Tensor]) -> dict[int, Array]:
    """The small integers and truth values among operands that do not depend on data."""
    found = {}
    producers: dict[Any, dict[Value, Instruction]] = {}
    for i, tensor in enumerate(operands):
        if _is_small(tensor.spec):
            value = _resolve(tensor.payload, producers, 0)
            if value is not None:
                found[i] = value
    return found


def _is_small(spec: Any) -> bool:
    return (
        type(spec) is TensorSpec
        and spec.is_static
        and not spec.dtype.inexact
        and spec.size <= _SMALL
    )


def _resolve(
    value: Any, producers: dict[Any, dict[Value, Instruction]], depth: int
) -> Array | None:
    """The value in the trace that it belongs to, or in one around that."""
    if type(value) is not Value or value.scope is None or depth > 64 or not _is_small(value.spec):
        return None
    builder = value.scope.builder
    if builder is None:
        return None
    table = producers.get(builder)
    if table is None:
        table = producers[builder] = {v: i for i in builder.instructions for v in i.results}
    instruction = table.get(value)
    if instruction is None:
        outer = next((t for t, v in builder.captured.values() if v is value), None)
        return None if outer is None else _resolve(outer.payload, producers, depth + 1)
    operands = [_resolve(v, producers, depth + 1) for v in instruction.operands]
    return _evaluate(instruction, operands).get(value)


def _evaluate(instruction: Instruction, operands: Sequence[Array | None]) -> dict[Value, Array]:
    """The results of an instruction on known operands; nothing where they cannot be known."""
    if (
        any(o is None for o in operands)
        or not all(_is_small(v.spec) for v in instruction.results)
        or not is_repeatable(instruction)
        or any(True for _ in subcomputations(instruction.params))
        or instruction.op.name in _PER_DEVICE
    ):
        return {}
    specs: tuple[Any, ...] = tuple(v.spec for v in instruction.results)
    try:
        several = (
            type(
                instruction.op.infer(*[v.spec for v in instruction.operands], **instruction.params)
            )
            is tuple
        )
        with np.errstate(all="ignore"):
            found = instruction.op.kernel(
                *operands, out=specs if several else specs[0], **instruction.params
            )
    except (XlapyError, NotImplementedError, TypeError):
        return {}
    outs = found if several else (found,)
    return {
        v: np.asarray(o, s.dtype.numpy)
        for v, o, s in zip(instruction.results, outs, specs, strict=True)
    }


_PER_DEVICE: Final = frozenset(
    ("replica_id", "partition_id", "custom_call", "python_callback", "get_dimension_size")
)


class Slice:
    """What some results of a computation are made of."""

    def __init__(self, computation: Computation, results: Sequence[Value]) -> None:
        wanted = set(results)
        kept: list[Instruction] = []
        for instruction in reversed(computation.instructions):
            if not wanted.isdisjoint(instruction.results):
                kept.append(instruction)
                wanted.update(instruction.operands)
        kept.reverse()
        self.instructions = kept
        self.computation = computation
        self.parameters = [i for i, p in enumerate(computation.parameters) if p in wanted]

    def run(self, known: Known) -> dict[Value, Array]:
        """The values that can be known."""
        values = {
            self.computation.parameters[i]: a
            for i, a in known.items()
            if i < len(self.computation.parameters)
        }
        for instruction in self.instructions:
            values |= _evaluate(instruction, [values.get(v) for v in instruction.operands])
        return values


# --- plain counters -----------------------------------------------------------------------------------------------


_SWAPPED: Final = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}


def counters(known: Known, body: Computation) -> dict[int, tuple[int, int]]:
    """The entries of the state that are integers counting from a known start by a known step: (start, step)."""
    steady = {i: a for i, a in known.items() if body.results[i] is body.parameters[i]}
    found = {}
    for i, first in known.items():
        if first.dtype.kind in "iu" and not first.ndim and i not in steady:
            step = _step(i, steady, body)
            if step is not None:
                found[i] = int(first), step
    return found


def values_by_round(
    computation: Computation, value: Value, counting: Mapping[int, tuple[int, int]], rounds: int
) -> Array | None:
    """What a scalar of a computation is in each round, where it depends on nothing but counters.

    Parameters
    ----------
    computation : Computation
    value : Value
    counting : mapping
        Start and step of the parameters that count, by position.
    rounds : int
    """
    for i, (first, step) in counting.items():
        if computation.parameters[i] is value:
            # As the counter's own type wraps.
            dtype = value.spec.dtype.numpy  # type: ignore[union-attr]
            return (first + step * np.arange(rounds)).astype(dtype).astype(np.int64)
    part = Slice(computation, [value])
    if not set(part.parameters).issubset(counting) or value in computation.parameters:
        return None
    if not part.parameters:
        found = part.run({}).get(value)
        return None if found is None else np.full(rounds, int(found))
    if rounds > _ROUNDS:
        return None
    values = []
    specs: list[Any] = [v.spec for v in computation.parameters]
    for turn in range(rounds):
        state = {
            i: np.asarray(counting[i][0] + turn * counting[i][1]).astype(specs[i].dtype.numpy)
            for i in part.parameters
        }
        found = part.run(state).get(value)
        if found is None:
            return None
        values.append(int(found))
    return np.array(values)


def _count(known: Known, steady: Known, cond: Computation, body: Computation) -> int | None:
    """The rounds of ``for (i = first; i < limit; i += step)`` in any of its forms."""
    producers = {v: i for i in cond.instructions for v in i.results}
    test = producers.get(cond.results[0])
    if test is None or test.op.name != "compare":
        return None
    limits = Slice(cond, test.operands).run(steady)
    left, right = test.operands
    direction = test.params["comparison_direction"]
    if left in cond.parameters and right in limits:
        counter, limit = cond.parameters.index(left), limits[right]
    elif right in cond.parameters and left in limits:
        counter, limit = cond.parameters.index(right), limits[left]
        direction = _SWAPPED[direction]
    else:
        return None
    step = _step(counter, steady, body)
    if step is None or counter not in known or known[counter].ndim or limit.ndim:
        return None
    first, last = int(known[counter]), int(limit)
    rounds = _rounds(first, last, step, direction)
    if rounds is None:
        return None
    bounds = np.iinfo(known[counter].dtype) if known[counter].dtype.kind in "iu" else None
    # A counter that wraps is no plain one.
    return (
        rounds if bounds is not None and bounds.min <= first + rounds * step <= bounds.max else None
    )


def _step(counter: int, steady: Known, body: Computation) -> int | None:
    """What a round adds to the counter."""
    update = next((i for i in body.instructions if body.results[counter] in i.results), None)
    if update is None or update.op.name not in ("add", "sub"):
        return None
    parameter = body.parameters[counter]
    left, right = update.operands
    values = Slice(body, update.operands).run(steady)
    if left is parameter and right in values and not values[right].ndim:
        step = int(values[right])
        return step if update.op.name == "add" else -step
    if right is parameter and left in values and update.op.name == "add" and not values[left].ndim:
        return int(values[left])
    return None


def _rounds(first: int, last: int, step: int, direction: str) -> int | None:
    if direction == "LE":
        last, direction = last + 1, "LT"
    elif direction == "GE":
        last, direction = last - 1, "GT"
    if direction == "LT":
        if first >= last:
            return 0
        return -((first - last) // step) if step > 0 else None
    if direction == "GT":
        if first <= last:
            return 0
        return -((last - first) // -step) if step < 0 else None
    if direction == "NE":
        if first == last:
            return 0
        if step and (last - first) % step == 0 and (last - first) // step > 0:
            return (last - first) // step
    return None


# --- anything else that is small ------------------------------------------------------------------------------------


def _simulate(known: Known, cond: Computation, body: Computation) -> int | None:
    """Run what the condition depends on, and count."""
    test = Slice(cond, cond.results)
    controlling = set(test.parameters)
    while True:
        step = Slice(body, [body.results[i] for i in controlling])
        grown = controlling.union(step.parameters)
        if grown == controlling:
            break
        controlling = grown
    if not controlling.issubset(known):
        return None
    state = {i: known[i] for i in controlling}
    for rounds in range(_ROUNDS):
        going = test.run(state).get(cond.results[0])
        if going is None:
            return None
        if not going:
            return rounds
        values = step.run(state)
        following = {i: values.get(body.results[i]) for i in controlling}
        if any(v is None for v in following.values()):
            return None
        state = {i: v for i, v in following.items() if v is not None}
    return None
