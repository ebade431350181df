"""Vectorising calls, conditionals and loops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.specs import TensorSpec, TokenSpec, TupleSpec
from xlapy.trace.batching import batch_computation
from xlapy.trace.builder import as_computation, trace
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind, using
from xlapy.trace.op import Op, lookup
from xlapy.trace.replay import inline
from xlapy.trace.sizes import sized_like

from .rules import broadcast_leading

__all__ = ["batch_call", "batch_case", "batch_while", "choose"]


def batch_call(param: str) -> Callable[..., Any]:
    """A call of the vectorised computation, which is held in the parameter `param`."""

    def batch(
        op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
    ) -> Any:
        computation: Computation = params[param]
        # Kept with the computation, so that what is called twice stays one function.
        key = ("vmap", tuple(is_batched), size)
        vectorised = computation.cache.get(key)
        if vectorised is None:
            every = [True] * len(computation.results)
            vectorised = computation.cache[key] = batch_computation(
                computation, is_batched, size, every
            )[0]
        return bind(lookup("call"), *args, computation=vectorised)

    return batch


def choose(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Row by row one of two values with a leading axis; `pred` has that axis alone, or none."""
    spec = on_true.spec
    if type(spec) is TupleSpec:
        get = lookup("get_tuple_element")
        parts = [
            choose(pred, bind(get, on_true, index=i), bind(get, on_false, index=i))
            for i in range(len(spec.elements))
        ]
        return bind(lookup("tuple"), *parts)
    if type(spec) is not TensorSpec:
        return bind(lookup("after_all"), on_true, on_false)
    if pred.spec.rank and spec.rank > 1:
        pred = bind(lookup("broadcast_in_dim"), pred, shape=spec.shape, broadcast_dimensions=(0,))
        pred = sized_like(pred, on_true)
    return bind(lookup("select"), pred, on_true, on_false)


def batch_case(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    branches: tuple[Computation, ...],
) -> Any:
    """One index for all rows: a conditional of the vectorised branches. One for each: all of them, and a selection."""
    index, *rest = args
    every = [True] * len(branches[0].results)
    vectorised = tuple(batch_computation(b, is_batched[1:], size, every)[0] for b in branches)
    if not is_batched[0]:
        return bind(op, index, *rest, branches=vectorised)
    found = [inline(b, rest) for b in vectorised]
    if index.dtype.kind == "bool":
        return tuple(choose(index, t, f) for t, f in zip(*found, strict=True))
    outs = found[-1]
    for i in range(len(branches) - 2, -1, -1):
        number = bind(lookup("constant"), value=np.broadcast_to(np.int32(i), (size,)))
        chosen = bind(
            lookup("compare"), index, number, comparison_direction="EQ", compare_type="SIGNED"
        )
        outs = [choose(chosen, new, old) for new, old in zip(found[i], outs, strict=True)]
    return tuple(outs)


@functools.cache
def _disjunction() -> Computation:
    with using(None):
        pred = TensorSpec((), "pred")
        return as_computation(
            lambda x, y: bind(lookup("or"), x, y), [pred, pred], name="any", shared=True
        )


def _any(preds: Any) -> Any:
    """Whether one of a vector of truth values holds."""
    false = bind(lookup("constant"), value=np.False_)
    return bind(lookup("reduce"), preds, false, body=_disjunction(), dimensions=(0,))[0]


def batch_while(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    cond: Computation,
    body: Computation,
) -> Any:
    """All rows in one loop. Where each row has a condition of its own, rows that are done keep their state."""
    flags = _closure(body, list(is_batched))
    (each_its_own,) = _depends(cond, flags)
    if each_its_own:
        # Whatever changes has to stop changing row by row.
        changing = [r is not p for r, p in zip(body.results, body.parameters, strict=True)]
        flags = _closure(body, [f or c for f, c in zip(flags, changing, strict=True)])
    cond_batched, _ = batch_computation(cond, flags, size, [each_its_own])
    body_batched, _ = batch_computation(body, flags, size, flags)
    state = [
        broadcast_leading(x, size) if f and not b else x
        for x, f, b in zip(args, flags, is_batched, strict=True)
    ]
    if each_its_own:
        outs = _stop_by_row(op, state, flags, cond_batched, body_batched)
    else:
        outs = bind(op, *state, cond=cond_batched, body=body_batched)
    return tuple(o if f else broadcast_leading(o, size) for o, f in zip(outs, flags, strict=True))


def _depends(computation: Computation, flags: Sequence[bool]) -> list[bool]:
    """Which results are batched: those of operations with a batched operand, as in `batch_computation`."""
    batched = {v for v, f in zip(computation.parameters, flags, strict=True) if f}
    for instruction in computation.instructions:
        if not batched.isdisjoint(instruction.operands):
            batched.update(instruction.results)
    return [v in batched for v in computation.results]


def _closure(body: Computation, flags: list[bool]) -> list[bool]:
    """Which entries of the state are batched once the loop has gone round."""
    while True:
        grown = [f or g for f, g in zip(flags, _depends(body, flags), strict=True)]
        if grown == flags:
            return flags
        flags = grown


def _stop_by_row(
    op: Op, state: Sequence[Any], flags: Sequence[bool], cond: Computation, body: Computation
) -> Sequence[Any]:
    """The loop that goes on while the condition holds in some row; the rows' conditions are part of its state."""
    (going,) = inline(cond, list(state))

    def step(*arguments: Any) -> Sequence[Any]:
        *old, preds = arguments
        new = inline(body, old)
        kept = [
            choose(preds, n, o) if f and type(n.spec) is not TokenSpec else n
            for n, o, f in zip(new, old, flags, strict=True)
        ]
        return [*kept, *inline(cond, kept)]

    def goes_on(*arguments: Any) -> Any:
        return _any(arguments[-1])

    specs = [*[x.spec for x in state], going.spec]
    outs: Sequence[Any] = bind(
        op,
        *state,
        going,
        cond=trace(goes_on, specs, name=cond.name).computation,
        body=trace(step, specs, name=body.name).computation,
    )
    return outs[:-1]
