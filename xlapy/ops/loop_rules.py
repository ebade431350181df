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

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from xlapy.trace.autodiff import jvp_computation
from xlapy.trace.computation import Computation, Value
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.sizes import zeros_like
from xlapy.trace.zeros import constant_of

from .branch_rules import Fused, tangent_flags
from .loop_checkpoints import go_back_checkpointed, run_checkpointed
from .loop_steps import counter, empty_stack, holds, looped, reckoned, row_at, unchanged, with_row
from .regions import rearranged
from .residuals import Backward, Split, scatter_back, varying_results, zeros_for
from .row_updates import without_clearing
from .trip_count import counters, known_operands, static_trip_count

__all__ = ["WhileRules", "while_ad"]

Params = Mapping[str, Any]

# --- the rules ------------------------------------------------------------------------------------------------------


class _Counted(NamedTuple):
    """What `forward` leaves where the number of rounds is known."""

    rounds: int
    active: list[bool]
    back: Backward
    saved: dict[Value, Any]  # the same in each round
    counting: dict[Value, tuple[int, int]]
    stacks: dict[Value, Any]


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
            zeros_like(x) if t is None else t
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
            return run_checkpointed(operands, cond, body, active)
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
            found = go_back_checkpointed(residuals, operands, params["body"], given)
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
    same = unchanged(body)
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
        written = [with_row(s, at, x) for s, x in zip(stacks, outs[count:], strict=True)]
        return [*outs[:count], reckoned("add", at, 1), *written]

    stacks = [empty_stack(v.spec, rounds) for v in kept]
    outs = looped([*operands, counter(0), *stacks], goes_on, goes_round)
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
        return holds(state[0], "LT", left.rounds)

    def goes_round(*state: Any) -> Sequence[Any]:
        turn, cts, rest = state[0], state[1 : count + 1], state[count + 1 :]
        at = reckoned("sub", left.rounds - 1, turn)
        values = dict(zip(steady, rest[: len(steady)], strict=True))
        values |= {v: row_at(s, at) for v, s in zip(stacked, rest[len(steady) :], strict=True)}
        values |= {
            v: _counted(v.spec, at, *left.counting[v]) for v in residuals if v in left.counting
        }
        outs = inline(computation, [*[values[v] for v in residuals], *cts])
        return [reckoned("add", turn, 1), *zeros_for(scatter_back(back.found, outs), specs), *rest]

    rest = [*[left.saved[v] for v in steady], *left.stacks.values()]
    outs = list(looped([counter(0), *cotangents, *rest], goes_on, goes_round)[1 : count + 1])
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
    return bind(lookup("select"), where, zeros_like(x), x)
