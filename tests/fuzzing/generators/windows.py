"""Windows that move over arrays: reduce_window, select_and_scatter, convolution."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draft import REAL, Draft, Unfit
from fuzzing.values import LARGEST
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.ops.window_geometry import Window

from .reduction import body_of, fold_of, scalar
from .table import generates

Ints = tuple[int, ...]


def window(draft: Draft, shape: Ints, *, plain: bool = False) -> Window:
    """A window over an array of a shape."""
    sizes, strides, base, dilations, padding = [], [], [], [], []
    for n in shape:
        sizes.append(draft.choose([1, 1, 2, 3, max(1, min(n, 8))]))
        strides.append(draft.choose([1, 1, 2, 3]))
        base.append(1 if plain else draft.choose([1, 1, 1, 2, 3]))
        dilations.append(1 if plain else draft.choose([1, 1, 1, 2, 3]))
        full = (n - 1) * base[-1] + 1 if n else 0
        low = draft.choose([0, 0, 1, 2, -1])
        high = draft.choose([0, 0, 1, 2, -1])
        if full + low + high < 0:
            low = high = 0
        padding.append((low, high))
    made = Window(tuple(sizes), tuple(strides), tuple(base), tuple(dilations), tuple(padding))
    if np.prod(made.counts(shape), dtype=np.int64) * np.prod(sizes, dtype=np.int64) > 8 * LARGEST:
        raise Unfit
    return made


@generates("reduce_window", weight=4)
def reduce_window(draft: Draft, name: str) -> Any:
    x = draft.tensor(most=4)
    inputs = [x]
    if draft.chance(0.15):
        inputs.append(draft.tensor(shape=x.spec.shape))
    body, inits = fold_of(draft, [i.spec.dtype for i in inputs])
    values = [scalar(draft, v, i.spec.dtype) for v, i in zip(inits, inputs, strict=True)]
    return draft.bind(name, *inputs, *values, body=body, **window(draft, x.spec.shape).params)


@generates("select_and_scatter", weight=2)
def select_and_scatter(draft: Draft, name: str) -> Any:
    x = draft.tensor(REAL, most=4)
    geometry = window(draft, x.spec.shape, plain=True)
    source = draft.tensor(dtype=x.spec.dtype, shape=geometry.counts(x.spec.shape))
    compare = draft.choose([ops.ge, ops.le, ops.gt])
    select = body_of(draft, [x.spec.dtype] * 2, lambda d, a, b: compare(a, b))
    body, inits = fold_of(draft, [x.spec.dtype])
    params = geometry.params
    return draft.bind(
        name, x, source, scalar(draft, inits[0], x.spec.dtype), select=select, scatter=body,
        window_dimensions=params["window_dimensions"], window_strides=params["window_strides"],
        padding=params["padding"],
    )  # fmt: skip


CONVOLVED = (
    "f32", "f32", "f32", "f64", "f16", "bf16", "c64", "c128", "s32", "s8", "u8", "s64", "f8e5m2", "f8e4m3fn", "f8e3m4",
    "f8e4m3b11fnuz", "f8e5m2fnuz", "f4e2m1fn", "s16", "u32", "u64", "s4", "u2", "pred",
)  # fmt: skip


@generates("convolution", weight=5)
def convolution(draft: Draft, name: str) -> Any:
    count = draft.choose([0, 1, 1, 2, 2, 3])
    dtype = as_dtype(draft.choose(CONVOLVED)) if draft.chance(0.6) else draft.dtype(names=CONVOLVED)
    groups, batch_groups = draft.choose([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)])
    batch = batch_groups * draft.choose([1, 1, 2])
    features = draft.choose([1, 2, 3])
    outputs = groups * batch_groups * draft.choose([1, 1, 2])
    spatial = [draft.choose([1, 2, 3, 4, 5, 6]) for _ in range(count)]
    kernel = [draft.choose([1, 1, 2, 3]) for _ in range(count)]
    if draft.chance(0.05):
        batch *= 0
    padding, left, right, strides, reversal = [], [], [], [], []
    for n in spatial:
        left.append(draft.choose([1, 1, 1, 2, 3]))
        right.append(draft.choose([1, 1, 1, 2]))
        strides.append(draft.choose([1, 1, 2, 3]))
        reversal.append(draft.chance(0.25))
        full = (n - 1) * left[-1] + 1
        low = draft.choose([0, 0, 1, 2, -1])
        high = draft.choose([0, 0, 1, 2, -1])
        padding.append((low, high) if full + low + high >= 0 else (0, 0))
    if draft.chance(0.3):
        # A kernel as large as the input, as in a gradient.
        kernel = list(spatial)
    rank = count + 2
    ins, kers, outs = draft.order(rank), draft.order(rank), draft.order(rank)

    def arranged(order: Ints, batch: int, feature: int, sizes: list[int]) -> Ints:
        shape = [0] * rank
        for d, n in zip(order, (batch, feature, *sizes), strict=True):
            shape[d] = n
        return tuple(shape)

    lhs = draft.tensor(dtype=dtype, shape=arranged(ins, batch, features * groups, spatial))
    rhs = draft.tensor(dtype=dtype, shape=arranged(kers, features, outputs, kernel))
    kind = dtype
    if draft.chance(0.25):
        wider = {"f16": "f32", "bf16": "f32", "f32": "f64", "s8": "s32", "u8": "s32", "f8e5m2": "f32",
                 "f8e4m3fn": "f32", "s32": "s64", "c64": "c128"}  # fmt: skip
        kind = as_dtype(wider.get(dtype.name, dtype.name))
    return draft.bind(
        name, lhs, rhs, window_strides=tuple(strides), padding=tuple(padding), lhs_dilation=tuple(left),
        rhs_dilation=tuple(right), window_reversal=tuple(reversal), input_batch_dimension=ins[0],
        input_feature_dimension=ins[1], input_spatial_dimensions=ins[2:], kernel_input_feature_dimension=kers[0],
        kernel_output_feature_dimension=kers[1], kernel_spatial_dimensions=kers[2:],
        output_batch_dimension=outs[0], output_feature_dimension=outs[1], output_spatial_dimensions=outs[2:],
        feature_group_count=groups, batch_group_count=batch_groups,
        precision_config=draft.choose([None, None, ("HIGHEST", "HIGHEST")]), preferred_element_type=kind,
    )  # fmt: skip
