"""The derivative of a loop whose number of rounds depends on data: some of its states are kept; see `loop_rules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, final

from xlapy.trace.autodiff import vjp_computation
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.zeros import zeros_of

from .loop_steps import (
    counter,
    empty_stack,
    holds,
    looped,
    reckoned,
    require_known_array,
    row_at,
    unchanged,
    with_row,
)  # fmt: skip
from .residuals import require_repeatable
from .row_updates import work_in_place
from .trip_count import Slice

__all__ = ["Checkpointed", "go_back_checkpointed", "run_checkpointed"]


class Checkpointed(NamedTuple):
    """What the loop leaves for the way back."""

    rounds: Any
    level: Any
    active: list[bool]
    back: Computation
    held: list[int]  # the entries of the state that are kept
    checkpoints: list[Any]
    slots: int


# Bytes that the kept states may take together; at least 8 and at most 64 are kept.
_MEMORY: Final = 1 << 26


def _slots(specs: Sequence[Any]) -> int:
    """How many states to keep: a power of two."""
    size = sum(s.size * max(8, s.dtype.bits) // 8 for s in specs)
    slots = 64
    while slots > 8 and slots * size > _MEMORY:
        slots //= 2
    return slots


def _place(number: Any, level: Any, slots: int) -> Any:
    """The slot of the state at round `number` << `level`: the number's bits, rotated left by the level.

    So what is kept at level l + 1 lies where it lay at level l, and the slots of the rest are free again.
    """
    bits = slots.bit_length() - 1
    turned = reckoned("rem", level, bits)
    left = reckoned("shift_left", number, turned)
    right = reckoned("shift_right_logical", number, reckoned("sub", bits, turned))
    return reckoned("and", reckoned("or", left, right), slots - 1)


def run_checkpointed(
    operands: Sequence[Any], cond: Computation, body: Computation, active: list[bool]
) -> tuple[Sequence[Any], Checkpointed]:
    """Count, and keep every 2^level-th state; the slot after the last one takes what is not kept."""
    require_repeatable(body, "a loop whose number of rounds depends on data")
    back = eliminate_dead(work_in_place(vjp_computation(body, active, active)))
    same = unchanged(body)
    changing = [i for i in _needed_again(body, back) if not same[i]]
    kept_specs: list[Any] = [operands[i].spec for i in changing]
    for spec in kept_specs:
        require_known_array(spec)
    slots = _slots(kept_specs)
    checkpoints = [empty_stack(s, slots + 1) for s in kept_specs]
    count = len(operands)

    def goes_on(*state: Any) -> Any:
        return inline(cond, list(state[:count]))[0]

    def goes_round(*state: Any) -> Sequence[Any]:
        turn, level, *kept = state[count:]
        full = holds(turn, "EQ", reckoned("shift_left", slots, level))
        level = reckoned("add", level, bind(lookup("select"), full, counter(1), counter(0)))
        number = reckoned("shift_right_logical", turn, level)
        due = holds(reckoned("shift_left", number, level), "EQ", turn)
        at = bind(lookup("select"), due, _place(number, level, slots), counter(slots))
        written = [with_row(s, at, state[i]) for s, i in zip(kept, changing, strict=True)]
        return [*inline(body, list(state[:count])), reckoned("add", turn, 1), level, *written]

    outs = looped([*operands, counter(0), counter(0), *checkpoints], goes_on, goes_round)
    rounds, level, *checkpoints = outs[count:]
    return outs[:count], Checkpointed(
        rounds, level, active, back, changing, list(checkpoints), slots
    )


def _needed_again(body: Computation, back: Computation) -> list[int]:
    """The entries of the state that the way back reads, or that those come from; what is only written is not."""
    read = {v for i in back.instructions for v in i.operands}.union(back.results)
    needed = {i for i in range(len(body.parameters)) if back.parameters[i] in read}
    while True:
        grown = needed.union(Slice(body, [body.results[i] for i in needed]).parameters)
        if grown == needed:
            return sorted(needed)
        needed = grown


def go_back_checkpointed(
    left: Checkpointed, operands: Sequence[Any], body: Computation, cotangents: Sequence[Any]
) -> Sequence[Any]:
    """The cotangents of the entries of the state that vary."""
    return _WayBack(left, operands, body).run(cotangents)


@final
class _WayBack:
    """The way back through a loop of which some states are kept.

    Each loop is given all that it reads as its state: the cotangents, the entries of the loop's state that do
    not change (`steady`), and what is kept.
    """

    def __init__(self, left: Checkpointed, operands: Sequence[Any], body: Computation) -> None:
        self._body, self._back = body, left.back
        self._same = unchanged(body)
        self._changing = left.held
        self._steady = [x for x, s in zip(operands, self._same, strict=True) if s]
        self._specs = [x.spec for x in operands]
        self._kept, self._fixed = len(self._changing), len(self._steady)
        self._several = sum(left.active)
        self._slots, self._bits = left.slots, left.slots.bit_length() - 1
        self._left = left

    def run(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        """From the last stretch to the first."""
        left = self._left
        last = reckoned("shift_right_arithmetic", reckoned("sub", left.rounds, 1), left.level)
        outs = looped(
            [last, left.level, left.rounds, *cotangents, *self._steady, *left.checkpoints],
            lambda *state: holds(state[0], "GE", 0),
            self._stretch,
        )
        return outs[3 : 3 + self._several]

    def _parted(self, rest: Sequence[Any], count: int) -> tuple[Any, Any, Any]:
        """The first ones of a loop's state, those that do not change, and what is kept."""
        end = count + self._fixed
        return rest[:count], rest[count:end], rest[end:]

    def _whole(self, state: Sequence[Any], unchanging: Sequence[Any]) -> list[Any]:
        """A state of the loop from the part that changes and the part that does not; zeros for what is never read."""
        parts, rest = dict(zip(self._changing, state, strict=True)), iter(unchanging)
        return [
            next(rest) if s else parts[i] if i in parts else zeros_of(self._specs[i])
            for i, s in enumerate(self._same)
        ]

    def _advance(self, state: Sequence[Any], unchanging: Sequence[Any]) -> list[Any]:
        """The part of the state that changes, a round later."""
        outs = inline(self._body, self._whole(state, unchanging))
        return [outs[i] for i in self._changing]

    def _stretch(self, number: Any, level: Any, rounds: Any, *rest: Any) -> Sequence[Any]:
        """Go back through the stretch of 2^level rounds of this number."""
        cts, unchanging, checkpoints = self._parted(rest, self._several)
        first = reckoned("shift_left", number, level)
        end = reckoned("min", reckoned("add", first, reckoned("shift_left", 1, level)), rounds)
        inner = reckoned("max", reckoned("sub", level, self._bits), 0)
        at = _place(number, level, self._slots)
        start = [row_at(c, at) for c in checkpoints]
        states = self._forward(start, first, end, inner, unchanging)
        cts = self._pull_back(states, first, end, inner, unchanging, cts)
        return [reckoned("sub", number, 1), level, rounds, *cts, *unchanging, *checkpoints]

    def _forward(
        self, start: Sequence[Any], first: Any, end: Any, inner: Any, unchanging: Sequence[Any]
    ) -> list[Any]:
        """Keep every 2^inner-th state of a stretch."""
        stacks = [with_row(empty_stack(x.spec, self._slots + 1), counter(0), x) for x in start]

        def goes_on(*state: Any) -> Any:
            return holds(reckoned("add", state[0], 1), "LT", state[2])

        def goes_round(*state: Any) -> Sequence[Any]:
            turn, from_, to, level, *rest = state
            current, inside, held = self._parted(rest, self._kept)
            turn = reckoned("add", turn, 1)
            current = self._advance(current, inside)
            passed = reckoned("sub", turn, from_)
            number = reckoned("shift_right_logical", passed, level)
            due = holds(reckoned("shift_left", number, level), "EQ", passed)
            at = bind(lookup("select"), due, number, counter(self._slots))
            held = [with_row(s, at, x) for s, x in zip(held, current, strict=True)]
            return [turn, from_, to, level, *current, *inside, *held]

        outs = looped([first, first, end, inner, *start, *unchanging, *stacks], goes_on, goes_round)
        return list(outs[4 + self._kept + self._fixed :])

    def _pull_back(
        self,
        states: Sequence[Any],
        first: Any,
        end: Any,
        inner: Any,
        unchanging: Sequence[Any],
        cts: Sequence[Any],
    ) -> Sequence[Any]:
        """Go back through a stretch round by round."""

        def goes_on(*state: Any) -> Any:
            return holds(state[0], "GE", state[1])

        def goes_round(*state: Any) -> Sequence[Any]:
            turn, from_, level, *rest = state
            given, inside, held = self._parted(rest, self._several)
            number = reckoned("shift_right_logical", reckoned("sub", turn, from_), level)
            near = [row_at(s, number) for s in held]
            reached = self._reach(
                near, reckoned("add", from_, reckoned("shift_left", number, level)), turn, inside
            )
            found = inline(self._back, [*self._whole(reached, inside), *given])
            return [reckoned("sub", turn, 1), from_, level, *found, *inside, *held]

        outs = looped(
            [reckoned("sub", end, 1), first, inner, *cts, *unchanging, *states], goes_on, goes_round
        )
        return outs[3 : 3 + self._several]

    def _reach(
        self, near: Sequence[Any], at: Any, turn: Any, unchanging: Sequence[Any]
    ) -> Sequence[Any]:
        """Run from a kept state to the round that is due."""

        def goes_on(*state: Any) -> Any:
            return holds(state[0], "LT", state[1])

        def goes_round(*state: Any) -> Sequence[Any]:
            now, to, *rest = state
            current, inside, _ = self._parted(rest, self._kept)
            return [reckoned("add", now, 1), to, *self._advance(current, inside), *inside]

        outs = looped([at, turn, *near, *unchanging], goes_on, goes_round)
        return outs[2 : 2 + self._kept]
