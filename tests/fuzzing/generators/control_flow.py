"""Branches, loops and calls, with random computations in them."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlapy
from fuzzing.draft import Draft, Unfit
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec

from .table import generates

PRED = as_dtype("pred")


def _grown(inner: Draft, specs: list[TensorSpec], most: int = 4) -> list[Any]:
    """Some operations, and results of specs."""
    from fuzzing.programs import grow

    grow(inner, inner.integer(0, most))
    return [inner.exactly(s) for s in specs]


def _specs(draft: Draft) -> list[TensorSpec]:
    return [TensorSpec(draft.shape(), draft.dtype()) for _ in range(draft.integer(1, 2))]


@generates("case", weight=4)
def case(draft: Draft, name: str) -> Any:
    operands = [draft.tensor() for _ in range(draft.integer(0, 3))]
    if not operands and draft.scalars:
        raise Unfit
    arrays = [draft.array(o) for o in operands]
    results = [o.spec for o in operands[:1]] + _specs(draft)[: draft.integer(0, 1)]
    if not results:
        results = _specs(draft)
    count = draft.choose([1, 2, 2, 3])
    form = draft.integer(0, 2)
    if form == 0:
        pred = draft.tensor(dtype=PRED, shape=())

        def branch(*tensors: Any) -> Any:
            with draft.nested(tensors, arrays, outer=draft.chance(0.5)) as inner:
                return tuple(_grown(inner, results))

        return xlapy.cond(pred, branch, branch, *operands)
    index: Any
    if form == 1:
        count = 2
        index = draft.tensor(dtype=PRED, shape=())
    else:
        index = draft.make(TensorSpec((), as_dtype("s32")), np.asarray(draft.integer(-1, count)))
    specs = [o.spec for o in operands]
    branches = tuple(
        draft.body(lambda inner, *xs: _grown(inner, results), specs, arrays, scalars=False)
        for _ in range(count)
    )
    return draft.bind("case", index, *operands, branches=branches)


def _state(draft: Draft) -> list[Any]:
    return [draft.tensor(most=3) for _ in range(draft.integer(1, 3))]


@generates("while", weight=3)
def while_(draft: Draft, name: str) -> Any:
    """A loop that counts, and now and then stops early by a value."""
    state = _state(draft)
    arrays = [draft.array(s) for s in state]
    trips = draft.integer(0, 4)
    counter = draft.make(
        TensorSpec((), as_dtype(draft.choose(["s32", "s32", "s64", "u8"]))), np.asarray(0)
    )
    limit = draft.make(counter.spec, np.asarray(trips))
    early = draft.chance(0.3)
    outer = draft.chance(0.4)
    specs = [s.spec for s in state]

    def goes_on(i: Any, *tensors: Any) -> Any:
        more = ops.lt(i, trips) if fixed else ops.lt(i, limit)
        if early:
            with draft.nested(tensors, arrays) as inner:
                (flag,) = _grown(inner, [TensorSpec((), PRED)], 2)
            more = ops.and_(more, flag)
        return more

    def step(i: Any, *tensors: Any) -> Any:
        with draft.nested(tensors, arrays, outer=outer and not fixed) as inner:
            new = _grown(inner, specs)
        return (ops.add(i, 1), *new)

    fixed = draft.chance(0.5)
    if draft.chance(0.5):
        fixed = False
        return xlapy.while_loop(lambda s: goes_on(*s), lambda s: step(*s), (counter, *state))
    return ops.while_(goes_on, step, (counter, *state))


@generates("fori_loop", weight=2)
def fori_loop(draft: Draft, name: str) -> Any:
    state = _state(draft)
    arrays = [draft.array(s) for s in state]
    specs = [s.spec for s in state]
    lower = draft.integer(-1, 2)
    upper = lower + draft.integer(-1, 4)
    bounds: list[Any] = [lower, upper]
    if draft.chance(0.4):
        spec = TensorSpec((), as_dtype("s32"))
        bounds = [draft.make(spec, np.asarray(b)) for b in bounds]
    outer = draft.chance(0.4)

    def step(i: Any, tensors: Any) -> Any:
        with draft.nested(
            [*tensors, i], [*arrays, np.asarray(lower, np.int32)], outer=outer
        ) as inner:
            return tuple(_grown(inner, specs))

    return xlapy.fori_loop(bounds[0], bounds[1], step, tuple(state))


@generates("call", weight=1.5)
def call(draft: Draft, name: str) -> Any:
    operands = [draft.tensor() for _ in range(draft.integer(1, 3))]
    arrays = [draft.array(o) for o in operands]
    results = _specs(draft)
    body = draft.body(
        lambda inner, *xs: _grown(inner, results), [o.spec for o in operands], arrays, scalars=False
    )
    found = draft.bind("call", *operands, computation=body)
    if draft.chance(0.3):
        draft.bind("call", *operands, computation=body)
    return found


@generates("composite_call", weight=0.8)
def composite_call(draft: Draft, name: str) -> Any:
    operands = [draft.tensor() for _ in range(draft.integer(1, 2))]
    arrays = [draft.array(o) for o in operands]
    results = _specs(draft)
    body = draft.body(
        lambda inner, *xs: _grown(inner, results), [o.spec for o in operands], arrays, scalars=False
    )
    return draft.bind(
        name,
        *operands,
        decomposition=body,
        name="fuzz.composite",
        composite_attributes="{n = 1 : i64}",
        version=1,
    )


def _halved(*arrays: Any) -> Any:
    return tuple(np.asarray(a) for a in arrays)


@generates("python_callback", weight=0.3)
def python_callback(draft: Draft, name: str) -> Any:
    """A function of the host that gives its operands back."""
    if draft.depth:
        raise Unfit
    names = ("f32", "f64", "s32", "u8", "pred", "c64")
    operands = [draft.tensor(names=names) for _ in range(draft.integer(1, 2))]
    return draft.bind(
        name, *operands, callback=_halved, results=tuple(o.spec for o in operands), has_side_effect=False,
        vectorized=False,
    )  # fmt: skip
