"""Products: dot_general and its relatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draft import ANY, Draft, Unfit
from fuzzing.values import LARGEST
from xlapy import ops
from xlapy.dtypes import DType, as_dtype
from xlapy.ops.dot_algorithm import as_algorithm
from xlapy.specs import TensorSpec

from .table import generates

WIDER = {
    "f16": "f32", "bf16": "f32", "f32": "f64", "s8": "s32", "u8": "u32", "s16": "s32", "s4": "s32", "u4": "s32",
    "f8e5m2": "f32", "f8e4m3fn": "bf16", "f8e4m3b11fnuz": "f32", "s32": "s64", "c64": "c128", "pred": "s32",
}  # fmt: skip


def _arranged(
    draft: Draft, groups: list[list[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Dimensions of several kinds in a random order: the shape, and where those of each kind are."""
    tagged = [(g, i, n) for g, sizes in enumerate(groups) for i, n in enumerate(sizes)]
    order = draft.order(len(tagged))
    shape = tuple(tagged[i][2] for i in order)
    at = {tagged[i][:2]: place for place, i in enumerate(order)}
    return shape, [tuple(at[g, i] for i in range(len(sizes))) for g, sizes in enumerate(groups)]


def _preferred(draft: Draft, dtype: DType) -> DType:
    return as_dtype(WIDER.get(dtype.name, dtype.name)) if draft.chance(0.25) else dtype


def _algorithm(draft: Draft, dtype: DType) -> Any:
    """One that is at least as exact as the operands' type."""
    names = {
        "f64": ["F64_F64_F64"], "f32": ["F32_F32_F32", "BF16_BF16_F32_X9"], "f16": ["F16_F16_F32", "F32_F32_F32"],
        "bf16": ["BF16_BF16_F32", "BF16_BF16_F32_X3", "F32_F32_F32"],
    }.get(dtype.name, [])  # fmt: skip
    return as_algorithm(draft.choose(names)) if names and draft.chance(0.1) else None


@generates("dot_general", weight=6)
def dot_general(draft: Draft, name: str) -> Any:
    sizes = [min(n, 8) for n in draft.sizes] + [2, 3]

    def some(most: int) -> list[int]:
        return [draft.choose(sizes) for _ in range(draft.integer(0, most))]

    batch, contracted, left, right = some(2), some(2), some(2), some(2)
    if np.prod([*batch, *left, *right, *contracted], dtype=np.int64) > 4 * LARGEST:
        raise Unfit
    lhs_shape, (lb, lc, _) = _arranged(draft, [batch, contracted, left])
    rhs_shape, (rb, rc, _) = _arranged(draft, [batch, contracted, right])
    dtype = draft.dtype(ANY)
    lhs = draft.tensor(dtype=dtype, shape=lhs_shape)
    rhs = draft.tensor(dtype=dtype, shape=rhs_shape)
    algorithm = _algorithm(draft, dtype)
    precision = None if algorithm else draft.choose([None, None, ("HIGHEST", "HIGH")])
    return draft.bind(
        name, lhs, rhs, lhs_batching_dimensions=lb, rhs_batching_dimensions=rb, lhs_contracting_dimensions=lc,
        rhs_contracting_dimensions=rc, precision_config=precision,
        preferred_element_type=_preferred(draft, dtype), algorithm=algorithm,
    )  # fmt: skip


@generates("dot", weight=1.5)
def dot(draft: Draft, name: str) -> Any:
    x = draft.tensor(ANY - {"bool"}, least=1, most=2)
    free = () if draft.chance(0.3) else (draft.choose(draft.sizes),)
    return ops.dot(x, draft.tensor(dtype=x.spec.dtype, shape=(x.spec.shape[-1], *free)))


@generates("ragged_dot", weight=1)
def ragged_dot(draft: Draft, name: str) -> Any:
    """The three modes: the ragged dimension is free, contracted, or one of the batch."""
    dtype = as_dtype(draft.choose(["f32", "f64", "s32", "bf16", "c64", "f16", "u8", "f8e5m2"]))
    m, k, n, g = (draft.choose([1, 2, 3, 5]) for _ in range(4))
    batch = [draft.choose([1, 2])] if draft.chance(0.4) else []
    mode = draft.choose(["free", "contracting", "batching"])
    if mode == "batching" and not batch:
        mode = "free"
    rhs_groups = [g] if mode == "free" else []
    lhs_shape, (lb, lc, lf) = _arranged(draft, [batch, [k], [m]])
    rhs_shape, (rb, rc, _, group) = _arranged(draft, [batch, [k], [n], rhs_groups])
    ragged = {"free": lf, "contracting": lc, "batching": lb}[mode]
    length = lhs_shape[ragged[0]]
    cuts = np.sort(draft.rng.integers(0, length, g - 1, endpoint=True))
    group_sizes = np.diff(np.concatenate([[0], cuts, [length]]))
    if draft.chance(0.3):
        group_sizes[-1] = 0
    lhs = draft.tensor(dtype=dtype, shape=lhs_shape)
    rhs = draft.tensor(dtype=dtype, shape=rhs_shape)
    spec = TensorSpec((g,), draft.choose(["s32", "s64"]))
    return draft.bind(
        name, lhs, rhs, draft.make(spec, group_sizes), lhs_batching_dimensions=lb, rhs_batching_dimensions=rb,
        lhs_contracting_dimensions=lc, rhs_contracting_dimensions=rc, lhs_ragged_dimensions=ragged,
        rhs_group_dimensions=group, precision_config=None, preferred_element_type=_preferred(draft, dtype),
    )  # fmt: skip


@generates("scaled_dot", weight=0.8)
def scaled_dot(draft: Draft, name: str) -> Any:
    kind, scale = draft.choose([
        ("f32", "f32"), ("f64", "f64"), ("bf16", "f8e8m0fnu"), ("f8e4m3fn", "f8e8m0fnu"), ("f8e5m2", "f8e8m0fnu"),
        ("f4e2m1fn", "f8e8m0fnu"), ("f4e2m1fn", "f8e4m3fn"),
    ])  # fmt: skip
    blocks, length = draft.choose([(1, 2), (2, 2), (3, 1), (1, 4), (2, 3)])
    m, n, k = draft.choose([1, 2, 3]), draft.choose([1, 2, 4]), blocks * length
    batch = [draft.choose([1, 2, 3])] if draft.chance(0.3) else []
    lhs_shape, (lb, lc, _) = _arranged(draft, [batch, [k], [m]])
    rhs_shape, (rb, rc, _) = _arranged(draft, [batch, [k], [n]])

    def scales(shape: tuple[int, ...], contracted: int) -> Any:
        cut = tuple(blocks if d == contracted else s for d, s in enumerate(shape))
        spec = TensorSpec(cut, scale)
        return draft.make(spec, 2.0 ** draft.rng.integers(-2, 3, cut))

    lhs = draft.tensor(dtype=as_dtype(kind), shape=lhs_shape)
    rhs = draft.tensor(dtype=as_dtype(kind), shape=rhs_shape)
    wide = as_dtype("f64" if kind == "f64" else draft.choose(["f32", "f32", "bf16"]))
    return draft.bind(
        name, lhs, scales(lhs_shape, lc[0]), rhs, scales(rhs_shape, rc[0]), lhs_batching_dimensions=lb,
        rhs_batching_dimensions=rb, lhs_contracting_dimensions=lc, rhs_contracting_dimensions=rc,
        precision_config=None, preferred_element_type=wide,
    )  # fmt: skip
