"""Arrays whose sizes are computed when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import xlapy
from fuzzing.draft import Draft, Unfit
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec

from .table import generates

S32 = as_dtype("s32")


def sizes(draft: Draft, values: Any) -> Any:
    """A vector of sizes: a constant, for rows of a batch must not have sizes of their own."""
    return draft.bind("constant", value=np.asarray(values, np.int32))


def sizes_now_and_then(draft: Draft, values: Any) -> Any:
    """A vector of sizes that is known only when the program runs, now and then."""
    if draft.chance(0.8):
        return sizes(draft, values)
    return draft.make(TensorSpec(np.shape(values), S32), np.asarray(values))


def _step(draft: Draft, x: Any) -> Any:
    """Something done to an array of varying size; it may have lost the dimension that varies."""
    spec, kind = x.spec, x.spec.dtype.kind
    fixed = [d for d in range(spec.rank) if d not in spec.dynamic]
    number = kind in ("int", "uint", "float", "complex")
    forms = ["transpose", "select", "copy", "concatenate", "case", "convert", "call", "loop"]
    forms += ["neg", "add", "reduce", "map"] if number else []
    forms += ["compare", "sort", "max"] if kind != "complex" else []
    forms += ["rev", "slice", "broadcast"] if spec.rank < 4 else []
    form = draft.choose(forms)
    if form == "transpose":
        return draft.bind("transpose", x, permutation=draft.order(spec.rank))
    if form == "select":
        return ops.select(ops.eq(x, x), x, x)
    if form == "compare":
        return ops.le(x, x)
    if form == "concatenate":
        axis = draft.integer(0, spec.rank - 1)
        return ops.concatenate([x] * draft.integer(1, 3), axis) if spec.size < 200 else x
    if form == "case":
        pred = draft.tensor(dtype=as_dtype("pred"), shape=())
        return xlapy.cond(pred, lambda y: y, lambda y: ops.copy(y), x)
    if form == "call":
        return xlapy.compile(lambda y: ops.select(ops.eq(y, y), y, ops.copy(y)))(x)
    if form == "loop":
        turned = [draft.choose(fixed)] if fixed else []
        trips = draft.integer(0, 3)
        return xlapy.fori_loop(
            0, trips, lambda i, y: draft.bind("rev", y, dimensions=tuple(turned)), x
        )
    if form == "convert":
        return ops.convert(x, draft.choose(["f32", "s32", "f64", "u8", "c64"]))
    if form == "map":
        return ops.map([x], lambda y: ops.add(y, y), list(range(spec.rank)))
    if form == "add":
        return ops.add(x, x)
    if form == "max":
        return ops.max(x, x)
    if form == "sort":
        return ops.sort(x, draft.choose(fixed or [0]))
    if form == "reduce":
        axis = draft.integer(0, spec.rank - 1)
        whole = kind == "complex" or draft.chance(0.6)
        return ops.reduce_sum(x, (axis,)) if whole else ops.reduce_max(x, (axis,))
    if form == "rev":
        return draft.bind("rev", x, dimensions=draft.some(spec.rank))
    if form == "slice" and fixed:
        d = draft.choose(fixed)
        limits = list(spec.shape)
        limits[d] = draft.integer(0, limits[d])
        ones = (1,) * spec.rank
        return ops.slice(x, (0,) * spec.rank, tuple(limits), ones)
    if form == "broadcast":
        dims = tuple(range(1, spec.rank + 1))
        return ops.broadcast(x, (draft.choose([1, 2]),)) if dims else x
    return ops.neg(x) if number and kind != "uint" else ops.copy(x)


@generates("set_dimension_size", weight=2)
def set_dimension_size(draft: Draft, name: str) -> Any:
    """Cut, changed, and filled up again with zeros; and the size."""
    x = draft.tensor(least=1, most=3)
    spec = x.spec
    d = draft.integer(0, spec.rank - 1)
    length = draft.make(TensorSpec((), S32), np.asarray(draft.integer(0, spec.shape[d])))
    cut = ops.set_dimension_size(x, length, d)
    for _ in range(draft.integer(0, 3)):
        if cut.spec.dynamic:
            cut = _step(draft, cut)
    spec = cut.spec
    inside = draft.bind("constant", value=np.ones(spec.shape, bool))
    full = cut
    for e in spec.dynamic:
        size = ops.get_dimension_size(cut, e)
        full = ops.set_dimension_size(full, spec.shape[e], e)
        there = ops.lt(ops.iota("s32", spec.shape, e), ops.broadcast_in_dim(size, spec.shape, ()))
        inside = ops.and_(inside, there)
    zero = draft.make(TensorSpec((), spec.dtype), np.zeros((), spec.dtype.numpy))
    return ops.select(inside, full, ops.broadcast_in_dim(zero, spec.shape, ()))


@generates("get_dimension_size", weight=0.8)
def get_dimension_size(draft: Draft, name: str) -> Any:
    x = draft.tensor(least=1)
    return draft.bind(name, x, dimension=draft.integer(0, x.spec.rank - 1))


@generates("dynamic_reshape", weight=0.8)
def dynamic_reshape(draft: Draft, name: str) -> Any:
    from .movement import factored

    x = draft.tensor()
    shape = factored(draft, x.spec.size)
    return draft.bind(name, x, sizes_now_and_then(draft, shape), result=x.spec.with_shape(shape))


@generates("dynamic_iota", weight=0.8)
def dynamic_iota(draft: Draft, name: str) -> Any:
    shape = draft.shape()
    if not shape:
        raise Unfit
    result = TensorSpec(shape, draft.choose(["s32", "f32", "u8", "c64", "s64"]))
    return draft.bind(
        name,
        sizes_now_and_then(draft, shape),
        iota_dimension=draft.integer(0, len(shape) - 1),
        result=result,
    )


@generates("dynamic_broadcast_in_dim", weight=0.8)
def dynamic_broadcast_in_dim(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=2)
    rank = draft.integer(x.spec.rank, 3)
    shape = list(draft.shape(rank))
    dims = draft.order(rank)[: x.spec.rank]
    for n, d in zip(x.spec.shape, dims, strict=True):
        if n != 1:
            shape[d] = n
    return draft.bind(
        name, x, sizes_now_and_then(draft, shape), broadcast_dimensions=dims, known_expanding_dimensions=(),
        known_nonexpanding_dimensions=(), result=x.spec.with_shape(tuple(shape)),
    )  # fmt: skip


@generates("dynamic_pad", weight=0.8)
def dynamic_pad(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=3)
    value = draft.tensor(dtype=x.spec.dtype, shape=())
    low, high, between, shape = [], [], [], []
    for n in x.spec.shape:
        interior = draft.choose([0, 0, 1])
        full = n + max(n - 1, 0) * interior
        a = draft.integer(-min(full, 1), 2)
        b = draft.integer(max(-1, -(full + a)), 2)
        low.append(a)
        high.append(b)
        between.append(interior)
        shape.append(full + a + b)
    amounts = [sizes_now_and_then(draft, v) for v in (low, high, between)]
    return draft.bind(name, x, value, *amounts, result=x.spec.with_shape(tuple(shape)))


@generates("real_dynamic_slice", weight=0.8)
def real_dynamic_slice(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=3)
    starts, limits, strides, shape = [], [], [], []
    for n in x.spec.shape:
        start = draft.integer(0, n)
        limit = draft.integer(start, n)
        stride = draft.choose([1, 1, 2, 3])
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        shape.append(-(-(limit - start) // stride))
    places = [sizes_now_and_then(draft, v) for v in (starts, limits, strides)]
    return draft.bind(name, x, *places, result=x.spec.with_shape(tuple(shape)))


@generates("dynamic_gather", weight=0.8)
def dynamic_gather(draft: Draft, name: str) -> Any:
    from .indexing import indices, places

    x = draft.tensor(most=3)
    p = places(draft, x.spec.shape)
    start = indices(draft, p.index_shape, S32, max(x.spec.shape, default=1))
    return draft.bind(
        name, x, start, sizes_now_and_then(draft, p.sizes), offset_dims=p.offset_dims, collapsed_slice_dims=p.collapsed,
        operand_batching_dims=p.batching, start_indices_batching_dims=p.index_batching,
        start_index_map=p.index_map, index_vector_dim=p.vector_dim, indices_are_sorted=False,
        result=x.spec.with_shape(p.result),
    )  # fmt: skip


@generates("dynamic_conv", weight=0.8)
def dynamic_conv(draft: Draft, name: str) -> Any:
    dtype = as_dtype(draft.choose(["f32", "f64"]))
    n, k = draft.choose([3, 4, 5]), draft.choose([1, 2, 3])
    low, high = draft.choose([-1, 0, 1, 2]), draft.choose([0, 1, 2])
    stride = draft.choose([1, 2])
    size = max(0, (n + low + high - k) // stride + 1)
    lhs = draft.tensor(dtype=dtype, shape=(2, 3, n))
    rhs = draft.tensor(dtype=dtype, shape=(2, 3, k))
    padding = sizes_now_and_then(draft, [[low, high]])
    return draft.bind(
        name, lhs, rhs, padding, window_strides=(stride,), lhs_dilation=(1,), rhs_dilation=(1,),
        window_reversal=(False,), input_batch_dimension=0, input_feature_dimension=1, input_spatial_dimensions=(2,),
        kernel_input_feature_dimension=1, kernel_output_feature_dimension=0, kernel_spatial_dimensions=(2,),
        output_batch_dimension=0, output_feature_dimension=1, output_spatial_dimensions=(2,), feature_group_count=1,
        batch_group_count=1, precision_config=None, preferred_element_type=dtype,
        result=TensorSpec((2, 2, size), dtype),
    )  # fmt: skip
