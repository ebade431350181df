"""Operations that take places from arrays: dynamic slices, gather, scatter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fuzzing.draft import Draft, Unfit
from fuzzing.values import LARGEST
from xlapy.dtypes import DType, as_dtype
from xlapy.specs import TensorSpec

from .reduction import body_of, fold_of
from .table import generates

Ints = tuple[int, ...]


def index_dtype(draft: Draft) -> DType:
    """Of indices: mostly s32."""
    return as_dtype(draft.choose(["s32"] * 5 + ["s64", "u32", "s8", "u8", "s16", "u64"]))


def indices(draft: Draft, shape: Ints, dtype: DType, bound: int) -> Any:
    """Integers that are mostly below a bound, now and then beyond it."""
    if draft.chance(0.2):
        fitting = [t for t in draft.pool if t.spec == TensorSpec(shape, dtype)]
        if fitting:
            return draft.choose(fitting)
    far = draft.chance(0.3)
    low = -3 if far and dtype.kind == "int" else 0
    high = bound + 2 if far else max(bound - 1, 0)
    values = draft.rng.integers(low, high, shape, endpoint=True)
    return draft.make(TensorSpec(shape, dtype), values)


@generates("dynamic_slice", weight=3)
def dynamic_slice(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    dtype = index_dtype(draft)
    starts = [indices(draft, (), dtype, n) for n in x.spec.shape]
    sizes = tuple(draft.integer(0 if draft.chance(0.1) else min(1, n), n) for n in x.spec.shape)
    return draft.bind(name, x, *starts, slice_sizes=sizes)


@generates("dynamic_update_slice", weight=3)
def dynamic_update_slice(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    dtype = index_dtype(draft)
    starts = [indices(draft, (), dtype, n) for n in x.spec.shape]
    sizes = tuple(draft.integer(0 if draft.chance(0.1) else min(1, n), n) for n in x.spec.shape)
    update = draft.tensor(dtype=x.spec.dtype, shape=sizes)
    return draft.bind(name, x, update, *starts)


@dataclass
class Places:
    """How the dimensions of an operand, of indices and of a gathered result go together."""

    batching: Ints
    collapsed: Ints
    offset: Ints
    index_map: Ints
    index_batching: Ints
    vector_dim: int
    index_shape: Ints
    batch: Ints
    sizes: Ints
    offset_dims: Ints
    result: Ints


def places(draft: Draft, shape: Ints, *, whole: bool = False) -> Places:
    """A random arrangement for an operand of a shape."""
    rank = len(shape)
    roles = [
        draft.choose(["batching", "collapsed", "collapsed", "offset", "offset"]) for _ in shape
    ]
    roles = ["offset" if n == 0 else r for n, r in zip(shape, roles, strict=True)]
    batching = [d for d in range(rank) if roles[d] == "batching"]
    collapsed = tuple(d for d in range(rank) if roles[d] == "collapsed")
    offset = tuple(d for d in range(rank) if roles[d] == "offset")
    # Which dimensions of the operand the numbers of an index vector are for.
    free = [d for d in range(rank) if d not in batching]
    index_map = tuple(free[i] for i in draft.order(len(free))[: draft.integer(0, len(free))])
    # The dimensions of the indices but that of the vectors: the batching ones among others.
    kinds: list[int | None] = [*batching, *[None] * draft.integer(0, 2)]
    kinds = [kinds[i] for i in draft.order(len(kinds))]
    batch = tuple(draft.choose([1, 2, 3, 4]) if k is None else shape[k] for k in kinds)
    if np.prod(batch, dtype=np.int64) > 64:
        raise Unfit
    vector_dim = draft.integer(0, len(batch))
    if len(index_map) == 1 and draft.chance(0.3):
        vector_dim = len(batch)
        index_shape = batch
    else:
        index_shape = (*batch[:vector_dim], len(index_map), *batch[vector_dim:])
    at = [i if i < vector_dim else i + 1 for i in range(len(batch))]
    index_batching = tuple(at[kinds.index(d)] for d in batching)
    order = sorted(range(len(batching)), key=batching.__getitem__)
    sizes = []
    for d, n in enumerate(shape):
        if d not in offset:
            sizes.append(1)
        elif whole or draft.chance(0.4):
            sizes.append(n)
        else:
            sizes.append(draft.integer(min(1, n), n))
    window = [sizes[d] for d in offset]
    total = len(batch) + len(offset)
    offset_dims = tuple(sorted(draft.order(total)[: len(offset)]))
    left, right = iter(batch), iter(window)
    result = tuple(next(right) if i in offset_dims else next(left) for i in range(total))
    if np.prod(result, dtype=np.int64) > LARGEST:
        raise Unfit
    return Places(
        tuple(batching[i] for i in order), collapsed, offset, index_map,
        tuple(index_batching[i] for i in order), vector_dim, index_shape, batch, tuple(sizes), offset_dims, result,
    )  # fmt: skip


def promised(draft: Draft, p: Places, shape: Ints, dtype: DType) -> tuple[Any, dict[str, bool]]:
    """Indices, and what a program may promise of them: that they are in order, and that no window overlaps another."""
    bound = max(shape, default=1)
    promises = {"indices_are_sorted": False, "unique_indices": False}
    if not draft.chance(0.3) or len(p.index_map) != 1 or p.batching:
        return indices(draft, p.index_shape, dtype, bound), promises
    (axis,) = p.index_map
    count, places_there = int(np.prod(p.index_shape)), shape[axis] - p.sizes[axis] + 1
    unique = p.sizes[axis] == 1 and count <= places_there and draft.chance(0.7)
    values = draft.rng.permutation(places_there)[:count] if unique else None
    if values is None:
        values = draft.rng.integers(0, max(places_there, 1), count)
    ordered = draft.chance(0.7)
    # One number to each vector, so that their order is that of the numbers.
    given = np.sort(values) if ordered else values
    if len(given) != count:
        return indices(draft, p.index_shape, dtype, bound), promises
    spec = TensorSpec(p.index_shape, dtype)
    promises = {"indices_are_sorted": ordered, "unique_indices": unique}
    return draft.bind("constant", value=given.reshape(spec.shape).astype(dtype.numpy)), promises


@generates("gather", weight=6)
def gather(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=4)
    p = places(draft, x.spec.shape)
    start, promises = promised(draft, p, x.spec.shape, index_dtype(draft))
    return draft.bind(
        name, x, start, offset_dims=p.offset_dims, collapsed_slice_dims=p.collapsed,
        operand_batching_dims=p.batching, start_indices_batching_dims=p.index_batching,
        start_index_map=p.index_map, index_vector_dim=p.vector_dim, slice_sizes=p.sizes,
        indices_are_sorted=promises["indices_are_sorted"],
    )  # fmt: skip


@generates("scatter", weight=6)
def scatter(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=4)
    p = places(draft, x.spec.shape)
    start, promises = promised(draft, p, x.spec.shape, index_dtype(draft))
    inputs = [x]
    if draft.chance(0.15):
        inputs.append(draft.tensor(shape=x.spec.shape))
    updates = [draft.tensor(dtype=i.spec.dtype, shape=p.result) for i in inputs]
    dtypes = [i.spec.dtype for i in inputs]
    form = draft.integer(0, 5)
    if form == 0:
        count = len(dtypes)
        body = body_of(draft, dtypes * 2, lambda d, *xs: xs[count:])  # replace
    elif form == 1:
        body = any_body(draft, dtypes)
    else:
        body = fold_of(draft, dtypes)[0]
    return draft.bind(
        name, *inputs, start, *updates, update_computation=body, update_window_dims=p.offset_dims,
        inserted_window_dims=p.collapsed, input_batching_dims=p.batching,
        scatter_indices_batching_dims=p.index_batching, scatter_dims_to_operand_dims=p.index_map,
        index_vector_dim=p.vector_dim, **promises,
    )  # fmt: skip


def any_body(draft: Draft, dtypes: list[DType]) -> Any:
    """A computation of two scalars of each type to one, whose order of application matters."""
    from fuzzing.programs import grow

    def write(inner: Draft, *xs: Any) -> Any:
        grow(inner, inner.integer(1, 3))
        return [inner.exactly(TensorSpec((), d)) for d in dtypes]

    return body_of(draft, dtypes * 2, write)
