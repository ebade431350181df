"""Operations that move elements: shapes, order, parts, padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draft import Draft, Unfit
from fuzzing.values import LARGEST
from xlapy import ops
from xlapy.dtypes import as_dtype

from .table import generates


def factored(draft: Draft, size: int) -> tuple[int, ...]:
    """A shape of a number of elements."""
    if size == 0:
        shape = [draft.integer(0, 3) for _ in range(draft.integer(1, 3))]
        shape[draft.integer(0, len(shape) - 1)] = 0
        return tuple(shape)
    factors: list[int] = []
    while size > 1:
        prime = next(p for p in range(2, size + 1) if size % p == 0)
        factors.append(prime)
        size //= prime
    shape = [1] * draft.integer(0 if not factors else 1, 4)
    for f in factors:
        shape[draft.integer(0, len(shape) - 1)] *= f
    return tuple(shape)


@generates("reshape", weight=3)
def reshape(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    return draft.bind(name, x, shape=factored(draft, x.spec.size))


@generates("collapse", weight=0.8)
def collapse(draft: Draft, name: str) -> Any:
    x = draft.tensor(least=2)
    first = draft.integer(0, x.spec.rank - 2)
    return ops.collapse(x, list(range(first, draft.integer(first + 1, x.spec.rank - 1) + 1)))


@generates("broadcast_in_dim", weight=3)
def broadcast_in_dim(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=3)
    rank = draft.integer(x.spec.rank, 4)
    shape = list(draft.shape(rank))
    dims = draft.order(rank)[: x.spec.rank]
    for n, d in zip(x.spec.shape, dims, strict=True):
        if n != 1:
            shape[d] = n
    if np.prod(shape, dtype=np.int64) > LARGEST:
        raise Unfit
    return draft.bind(name, x, shape=tuple(shape), broadcast_dimensions=dims)


@generates("transpose", weight=3)
def transpose(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    return draft.bind(name, x, permutation=draft.order(x.spec.rank))


@generates("rev", weight=2)
def rev(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    dims = draft.some(x.spec.rank)
    return draft.bind(name, x, dimensions=tuple(draft.choose([dims, dims[::-1]])))


@generates("slice", weight=3)
def slice_(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    starts, limits, strides = [], [], []
    for n in x.spec.shape:
        start = draft.integer(0, n)
        if draft.chance(0.6):
            start = min(start, n // 2)
        starts.append(start)
        limits.append(n if draft.chance(0.5) else draft.integer(start, n))
        strides.append(draft.choose([1, 1, 2, 3, 7]))
    return draft.bind(
        name, x, start_indices=tuple(starts), limit_indices=tuple(limits), strides=tuple(strides)
    )


@generates("pad", weight=3)
def pad(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=4)
    value = draft.tensor(dtype=x.spec.dtype, shape=())
    low, high, interior = [], [], []
    size = 1
    for n in x.spec.shape:
        between = draft.choose([0, 0, 0, 1, 2])
        full = n + max(n - 1, 0) * between
        a = draft.integer(-min(full, 2), 2)
        b = draft.integer(max(-2, -(full + a)), 2)
        low.append(a)
        high.append(b)
        interior.append(between)
        size *= max(full + a + b, 1)
    if size > 4 * LARGEST:
        raise Unfit
    return draft.bind(
        name, x, value, edge_padding_low=tuple(low), edge_padding_high=tuple(high),
        interior_padding=tuple(interior),
    )  # fmt: skip


@generates("concatenate", weight=3)
def concatenate(draft: Draft, name: str) -> Any:
    x = draft.tensor(least=1)
    axis = draft.integer(0, x.spec.rank - 1)
    parts = [x]
    for _ in range(draft.integer(0, 3)):
        if draft.chance(0.3):
            parts.append(x)
            continue
        shape = list(x.spec.shape)
        if draft.chance(0.5):
            shape[axis] = draft.integer(0, 4)
        parts.append(draft.tensor(dtype=x.spec.dtype, shape=tuple(shape)))
    draft.rng.shuffle(parts)  # type: ignore[arg-type]
    return draft.bind(name, *parts, dimension=axis)


@generates("fusion", weight=0.8)
def fusion(draft: Draft, name: str) -> Any:
    """What HLO dumps have: a computation that is one kernel."""
    xs = [draft.tensor() for _ in range(draft.integer(1, 2))]

    def write(inner: Draft, *tensors: Any) -> Any:
        from fuzzing.programs import grow

        grow(inner, inner.integer(1, 3))
        return inner.choose(inner.pool)

    arrays = [draft.array(x) for x in xs]
    body = draft.body(write, [x.spec for x in xs], arrays, scalars=False)
    return draft.bind(name, *xs, computation=body, fusion_kind="kLoop")


@generates("bitcast", weight=0.8)
def bitcast(draft: Draft, name: str) -> Any:
    """What HLO dumps have: the same memory in another layout."""
    x = draft.tensor(names=("f32", "s32", "f64", "s8", "bf16"))
    shape = factored(draft, x.spec.size)
    return draft.bind(
        name, x, shape=shape, dtype=x.spec.dtype, source_layout=draft.order(x.spec.rank),
        result_layout=draft.order(len(shape)),
    )  # fmt: skip


@generates("domain", weight=0.1)
def domain(draft: Draft, name: str) -> Any:
    return draft.bind(name, draft.tensor(), kind="", entry_metadata="", exit_metadata="")


def small_integer(draft: Draft, value: int) -> Any:
    """An s32 scalar of a value."""
    from xlapy.specs import TensorSpec

    return draft.make(TensorSpec((), as_dtype("s32")), np.asarray(value))
