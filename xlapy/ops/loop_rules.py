"""Derivatives of While.

Forward, a loop carries its tangents along. Backward there are two ways:

- The number of rounds is known: the loop writes what each round's way back needs into stacks of that length, and a
  second loop goes through them from the end. Time is that of the loop and its way back; memory grows with the rounds.
- It is known only at run time: the loop counts its rounds and keeps S of its states, at every 2^l-th round, where l
  grows as it runs. The way back goes through the stretches between them from the end. For each it runs forward from
  the kept state and keeps S states again, and then, for each round, runs from the nearest of those. Up to S rounds
  nothing runs twice but the body whose way back is due; up to S^2 / 2 rounds the loop runs once more; with n rounds
  beyond that each one costs up to n / S^2 more. Memory is that of 2 S states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from xlapy.errors import NotDifferentiableError
from xlapy.specs import Spec, TensorSpec
from xlapy.trace.autodiff import jvp_computation, vjp_computation
from xlapy.trace.builder import trace
from xlapy.trace.computation import Computation, Value
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.simplify import eliminate_dead
from xlapy.trace.zeros import constant_of, zeros_of

from .branch_rules import Fused, tangent_flags
from .regions import rearranged
from .residuals import Backward, Split, require_repeatable, scatter_back, varying_results, zeros_for
from .row_updates import without_clearing, work_in_place
from .trip_count import Slice, counters, known_operands, static_trip_count

__all__ = ["WhileRules", "while_ad"]

Params = Mapping[str, Any]
Step = Callable[..., Sequence[Any]]

# --- arithmetic of counters -----------------------------------------------------------------------------------------


def _number(value: int) -> Any:
    return bind(lookup("constant"), value=np.int32(value))


def _op(name: str, *operands: Any) -> Any:
    """An operation on counters; Python integers are s32."""
    return bind(lookup(name), *[_number(x) if type(x) is int else x for x in operands])


def _is(x: Any, direction: str, y: Any) -> Any:
    x, y = [_number(v) if type(v) is int else v for v in (x, y)]
    return bind(lookup("compare"), x, y, comparison_direction=direction, compare_type="SIGNED")


def _loop(state: Sequence[Any], goes_on: Callable[..., Any], step: Step) -> Sequence[Any]:
    """A loop; the functions are given the whole state and use nothing else of outside."""
    specs = [x.spec for x in state]
    cond = trace(lambda *s: goes_on(*s), specs, name="cond").computation
    body = trace(lambda *s: list(step(*s)), specs, name="body").computation
    outs: Sequence[Any] = bind(lookup("while"), *state, cond=cond, body=body)
    return outs


# --- stacks ---------------------------------------------------------------------------------------------------------


def _require_array(spec: Spec) -> TensorSpec:
    if type(spec) is not TensorSpec or not spec.is_static:
        raise NotDifferentiableError(
            f"what a loop keeps for the way back must be arrays of known shape; got {spec} [X4]"
        )
    return spec


def _stack(spec: Spec, length: int) -> Any:
    spec = _require_array(spec)
    return zeros_of(TensorSpec((length, *spec.shape), spec.dtype))


def _write(stack: Any, at: Any, x: Any) -> Any:
    shape = x.spec.shape
    row = bind(lookup("reshape"), x, shape=(1, *shape))
    return bind(lookup("dynamic_update_slice"), stack, row, at, *[_number(0) for _ in shape])


def _read(stack: Any, at: Any) -> Any:
    shape = stack.spec.shape[1:]
    row = bind(
        lookup("dynamic_slice"), stack, at, *[_number(0) for _ in shape], slice_sizes=(1, *shape)
    )
    return bind(lookup("reshape"), row, shape=shape)


# --- the rules ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counted:
    """What `forward` leaves where the number of rounds is known."""

    rounds: int
    active: list[bool]
    back: Backward
    saved: dict[Value, Any]  # the same in each round
    counting: dict[Value, tuple[int, int]]
    stacks: dict[Value, Any]


@dataclass(frozen=True)
class _Checkpointed:
    """What `forward` leaves where it is not."""

    rounds: Any
    level: Any
    active: list[bool]
    back: Computation
    held: list[int]  # the entries of the state that are kept
    checkpoints: list[Any]
    slots: int


@final
class WhileRules(Fused):
    """The rules of loops."""

    __slots__ = ()

    def fused_jvp(
        self, op: Op, operands: Sequence[Any], tangents: Sequence[Any], params: Params
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """The loop with the tangents as further state."""
        cond, body = params["cond"], params["body"]
        active = _closure(body, tangent_flags(tangents, operands))
        derived, _ = jvp_computation(body, active, active)
        given = [
            zeros_of(x.spec) if t is None else t
            for x, t, a in zip(operands, tangents, active, strict=True)
            if a
        ]
        state = [*operands, *given]
        count = len(operands)
        outs = bind(
            op,
            *state,
            cond=rearranged(cond, [x.spec for x in state], range(count)),
            body=derived,
        )
        return outs[:count], scatter_back(active, outs[count:])

    def forward(
        self, op: Op, operands: Sequence[Any], needed: Sequence[bool], params: Params
    ) -> tuple[Sequence[Any], Any]:
        """The loop, keeping what the way back needs."""
        cond, body = params["cond"], params["body"]
        active = _closure(body, needed)
        known = known_operands(operands)
        rounds = static_trip_count(known, cond, body)
        if rounds is None:
            return _run_checkpointed(operands, cond, body, active)
        return _run_counted(operands, cond, body, active, rounds, known)

    def backward(
        self,
        op: Op,
        operands: Sequence[Any],
        cotangents: Sequence[Any],
        residuals: Any,
        params: Params,
        needed: Sequence[bool],
    ) -> Sequence[Any]:
        """The loop from the end."""
        active = residuals.active
        specs = [x.spec for x, a in zip(operands, active, strict=True) if a]
        given = zeros_for([c for c, a in zip(cotangents, active, strict=True) if a], specs)
        if type(residuals) is _Counted:
            found = _go_back_counted(residuals, given)
        else:
            found = _go_back_checkpointed(residuals, operands, params["body"], given)
        return [c if n else None for c, n in zip(scatter_back(active, found), needed, strict=True)]


while_ad: Final = WhileRules()


def _closure(body: Computation, flags: Sequence[bool]) -> list[bool]:
    """Which entries of the state vary once the loop has gone round."""
    active = list(flags)
    while True:
        grown = [a or v for a, v in zip(active, varying_results(body, active), strict=True)]
        if grown == active:
            return active
        active = grown


def _unchanged(body: Computation) -> list[bool]:
    """Which entries of the state every round hands through."""
    return [r is p for r, p in zip(body.results, body.parameters, strict=True)]


# --- a known number of rounds ---------------------------------------------------------------------------------------


def _run_counted(
    operands: Sequence[Any],
    cond: Computation,
    body: Computation,
    active: list[bool],
    rounds: int,
    known: Mapping[int, np.ndarray[Any, Any]],
) -> tuple[Sequence[Any], _Counted]:
    """Stacks are further state."""
    same = _unchanged(body)
    split = Split(body, active, {i: a for i, a in known.items() if same[i]})
    saved = {v: x for v, x, s in zip(split.parameters, operands, same, strict=True) if s}
    counting = {split.parameters[i]: c for i, c in counters(known, body).items()}
    back = split.backward(active, [*saved, *counting])
    kept = [v for v in back.residuals if v not in saved and v not in counting]
    if rounds == 0:
        return operands, _Counted(0, active, back, {}, {}, {})
    step = split.forward(kept)
    count = len(operands)

    def goes_on(*state: Any) -> Any:
        return inline(cond, list(state[:count]))[0]

    def goes_round(*state: Any) -> Sequence[Any]:
        at, *stacks = state[count:]
        outs = inline(step, list(state[:count]))
        written = [_write(s, at, x) for s, x in zip(stacks, outs[count:], strict=True)]
        return [*outs[:count], _op("add", at, 1), *written]

    stacks = [_stack(v.spec, rounds) for v in kept]
    outs = _loop([*operands, _number(0), *stacks], goes_on, goes_round)
    left = _Counted(
        rounds, active, back, saved, counting, dict(zip(kept, outs[count + 1 :], strict=True))
    )
    return outs[:count], left


def _go_back_counted(left: _Counted, cotangents: Sequence[Any]) -> Sequence[Any]:
    """Through the stacks from the end."""
    if not left.rounds:
        return cotangents
    back, count = left.back, len(cotangents)
    residuals = back.residuals
    handed_on, place = {}, 0
    for i, found in enumerate(back.found):
        if found:
            handed_on[len(residuals) + i] = place
            place += 1
    counting = {i: left.counting[v] for i, v in enumerate(residuals) if v in left.counting}
    computation, cleared = without_clearing(back.computation, handed_on, counting, left.rounds)
    steady = [v for v in residuals if v in left.saved]
    stacked = list(left.stacks)
    specs = [c.spec for c in cotangents]

    def goes_on(*state: Any) -> Any:
        return _is(state[0], "LT", left.rounds)

    def goes_round(*state: Any) -> Sequence[Any]:
        turn, cts, rest = state[0], state[1 : count + 1], state[count + 1 :]
        at = _op("sub", left.rounds - 1, turn)
        values = dict(zip(steady, rest[: len(steady)], strict=True))
        values |= {v: _read(s, at) for v, s in zip(stacked, rest[len(steady) :], strict=True)}
        values |= {
            v: _counted(v.spec, at, *left.counting[v]) for v in residuals if v in left.counting
        }
        outs = inline(computation, [*[values[v] for v in residuals], *cts])
        return [_op("add", turn, 1), *zeros_for(scatter_back(back.found, outs), specs), *rest]

    rest = [*[left.saved[v] for v in steady], *left.stacks.values()]
    outs = list(_loop([_number(0), *cotangents, *rest], goes_on, goes_round)[1 : count + 1])
    for position, mask in cleared.items():
        i = position - len(residuals)
        outs[i] = _clear(outs[i], mask)
    return outs


def _counted(spec: Any, at: Any, first: int, step: int) -> Any:
    """What a counter is in round `at`: it wraps as its own type does."""
    at = bind(lookup("convert_element_type"), at, dtype=spec.dtype)
    scaled = bind(lookup("mul"), at, constant_of(spec, step))
    return bind(lookup("add"), scaled, constant_of(spec, first))


def _clear(x: Any, mask: np.ndarray[Any, Any]) -> Any:
    """Zeros where the mask holds."""
    axes = tuple(i for i, n in enumerate(mask.shape) if n != 1)
    flat = bind(lookup("constant"), value=mask.reshape([mask.shape[i] for i in axes]))
    where = bind(lookup("broadcast_in_dim"), flat, shape=x.spec.shape, broadcast_dimensions=axes)
    return bind(lookup("select"), where, zeros_of(x.spec), x)


# --- a number of rounds that depends on data ------------------------------------------------------------------------

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
    turned = _op("rem", level, bits)
    left = _op("shift_left", number, turned)
    right = _op("shift_right_logical", number, _op("sub", bits, turned))
    return _op("and", _op("or", left, right), slots - 1)


def _run_checkpointed(
    operands: Sequence[Any], cond: Computation, body: Computation, active: list[bool]
) -> tuple[Sequence[Any], _Checkpointed]:
    """Count, and keep every 2^level-th state; the slot after the last one takes what is not kept."""
    require_repeatable(body, "a loop whose number of rounds depends on data")
    back = eliminate_dead(work_in_place(vjp_computation(body, active, active)))
    same = _unchanged(body)
    changing = [i for i in _needed_again(body, back) if not same[i]]
    kept_specs: list[Any] = [operands[i].spec for i in changing]
    for spec in kept_specs:
        _require_array(spec)
    slots = _slots(kept_specs)
    checkpoints = [_stack(s, slots + 1) for s in kept_specs]
    count = len(operands)

    def goes_on(*state: Any) -> Any:
        return inline(cond, list(state[:count]))[0]

    def goes_round(*state: Any) -> Sequence[Any]:
        turn, level, *kept = state[count:]
        full = _is(turn, "EQ", _op("shift_left", slots, level))
        level = _op("add", level, bind(lookup("select"), full, _number(1), _number(0)))
        number = _op("shift_right_logical", turn, level)
        due = _is(_op("shift_left", number, level), "EQ", turn)
        at = bind(lookup("select"), due, _place(number, level, slots), _number(slots))
        written = [_write(s, at, state[i]) for s, i in zip(kept, changing, strict=True)]
        return [*inline(body, list(state[:count])), _op("add", turn, 1), level, *written]

    outs = _loop([*operands, _number(0), _number(0), *checkpoints], goes_on, goes_round)
    rounds, level, *checkpoints = outs[count:]
    return outs[:count], _Checkpointed(
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


def _go_back_checkpointed(
    left: _Checkpointed, operands: Sequence[Any], body: Computation, cotangents: Sequence[Any]
) -> Sequence[Any]:
    """From the last stretch to the first; within each, from the last round to the first."""
    same = _unchanged(body)
    changing = left.held
    steady = [x for x, s in zip(operands, same, strict=True) if s]
    specs = [x.spec for x in operands]
    kept, several, fixed = len(changing), len(cotangents), len(steady)
    slots, bits = left.slots, left.slots.bit_length() - 1
    back = left.back

    def whole(state: Sequence[Any], unchanging: Sequence[Any]) -> list[Any]:
        """A state of the loop from the part that changes and the part that does not; zeros for what is never read."""
        parts, rest = dict(zip(changing, state, strict=True)), iter(unchanging)
        return [
            next(rest) if s else parts[i] if i in parts else zeros_of(specs[i])
            for i, s in enumerate(same)
        ]

    def advance(state: Sequence[Any], unchanging: Sequence[Any]) -> list[Any]:
        outs = inline(body, whole(state, unchanging))
        return [outs[i] for i in changing]

    def stretch(number: Any, level: Any, rounds: Any, *rest: Any) -> Sequence[Any]:
        cts: Sequence[Any] = rest[:several]
        unchanging = rest[several : several + fixed]
        checkpoints = rest[several + fixed :]
        first = _op("shift_left", number, level)
        end = _op("min", _op("add", first, _op("shift_left", 1, level)), rounds)
        inner = _op("max", _op("sub", level, bits), 0)
        at = _place(number, level, slots)
        start = [_read(c, at) for c in checkpoints]
        states = forward(start, first, end, inner, unchanging)
        cts = pull_back(states, first, end, inner, unchanging, cts)
        return [_op("sub", number, 1), level, rounds, *cts, *unchanging, *checkpoints]

    def forward(
        start: Sequence[Any], first: Any, end: Any, inner: Any, unchanging: Sequence[Any]
    ) -> list[Any]:
        """Keep every 2^inner-th state of a stretch."""
        stacks = [_write(_stack(x.spec, slots + 1), _number(0), x) for x in start]

        def goes_on(*state: Any) -> Any:
            return _is(_op("add", state[0], 1), "LT", state[2])

        def goes_round(*state: Any) -> Sequence[Any]:
            turn, from_, to, level, *rest = state
            current, inside, held = rest[:kept], rest[kept : kept + fixed], rest[kept + fixed :]
            turn = _op("add", turn, 1)
            current = advance(current, inside)
            passed = _op("sub", turn, from_)
            number = _op("shift_right_logical", passed, level)
            due = _is(_op("shift_left", number, level), "EQ", passed)
            at = bind(lookup("select"), due, number, _number(slots))
            held = [_write(s, at, x) for s, x in zip(held, current, strict=True)]
            return [turn, from_, to, level, *current, *inside, *held]

        outs = _loop([first, first, end, inner, *start, *unchanging, *stacks], goes_on, goes_round)
        return list(outs[4 + kept + fixed :])

    def pull_back(
        states: Sequence[Any],
        first: Any,
        end: Any,
        inner: Any,
        unchanging: Sequence[Any],
        cts: Sequence[Any],
    ) -> Sequence[Any]:
        """Go back through a stretch round by round."""

        def goes_on(*state: Any) -> Any:
            return _is(state[0], "GE", state[1])

        def goes_round(*state: Any) -> Sequence[Any]:
            turn, from_, level, *rest = state
            given, inside, held = (
                rest[:several],
                rest[several : several + fixed],
                rest[several + fixed :],
            )
            number = _op("shift_right_logical", _op("sub", turn, from_), level)
            near = [_read(s, number) for s in held]
            reached = reach(near, _op("add", from_, _op("shift_left", number, level)), turn, inside)
            found = inline(back, [*whole(reached, inside), *given])
            return [_op("sub", turn, 1), from_, level, *found, *inside, *held]

        outs = _loop(
            [_op("sub", end, 1), first, inner, *cts, *unchanging, *states], goes_on, goes_round
        )
        return outs[3 : 3 + several]

    def reach(near: Sequence[Any], at: Any, turn: Any, unchanging: Sequence[Any]) -> Sequence[Any]:
        """Run from a kept state to the round that is due."""

        def goes_on(*state: Any) -> Any:
            return _is(state[0], "LT", state[1])

        def goes_round(*state: Any) -> Sequence[Any]:
            now, to, *rest = state
            return [_op("add", now, 1), to, *advance(rest[:kept], rest[kept:]), *rest[kept:]]

        outs = _loop([at, turn, *near, *unchanging], goes_on, goes_round)
        return outs[2 : 2 + kept]

    last = _op("shift_right_arithmetic", _op("sub", left.rounds, 1), left.level)
    outs = _loop(
        [last, left.level, left.rounds, *cotangents, *steady, *left.checkpoints],
        lambda *state: _is(state[0], "GE", 0),
        stretch,
    )
    return outs[3 : 3 + several]
