"""Reductions, scans, sorts and maps, and their computations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xlapy
from fuzzing.draft import REAL, Draft, Unfit
from fuzzing.values import draw
from xlapy import ops
from xlapy.dtypes import DType
from xlapy.ops.reduction import identity_of
from xlapy.specs import TensorSpec
from xlapy.trace.computation import Computation

from .arithmetic import dtypes_of
from .table import generates


def body_of(draft: Draft, dtypes: Sequence[DType], write: Callable[..., Any]) -> Computation:
    """A computation of scalars."""
    return draft.body(write, [TensorSpec((), d) for d in dtypes])


#: folds that do not mind the order: the functions' names and their identities
_FOLDS = ("add", "mul", "max", "min", "and", "or", "xor")


def _one_fold(draft: Draft, dtype: DType) -> str:
    names = [f for f in _FOLDS if dtype.name in dtypes_of(f, 2)]
    if dtype.name == "f8e8m0fnu":  # it has no zero, so sums have no identity
        names.remove("add")
    if not names:
        raise Unfit
    return draft.choose(["add"] * 3 + names) if "add" in names else draft.choose(names)


def _identity(name: str, dtype: DType) -> Any:
    return np.asarray(identity_of(name, dtype)).astype(dtype.numpy)


def fold_of(draft: Draft, dtypes: Sequence[DType]) -> tuple[Computation, list[Any]]:
    """An associative and commutative computation, and the init values that it leaves alone."""
    count = len(dtypes)
    names = [_one_fold(draft, d) for d in dtypes]
    inits = [_identity(n, d) for n, d in zip(names, dtypes, strict=True)]
    swapped = draft.chance(0.2)
    integers = all(d.kind in ("int", "uint") for d in dtypes)
    ordered = count == 2 and integers and draft.chance(0.5)
    through_select = count == 1 and integers and draft.chance(0.15)
    branching = through_select and draft.chance(0.4)
    if through_select:
        inits = [_identity("max", dtypes[0])]

    def write(inner: Draft, *xs: Any) -> Any:
        a, b = xs[:count], xs[count:]
        if ordered:
            # The larger one with what goes with it; at ties the smaller companion, so that no order matters.
            tie = ops.and_(ops.eq(a[0], b[0]), ops.lt(a[1], b[1]))
            first = ops.or_(ops.gt(a[0], b[0]), tie)
            return [ops.select(first, a[0], b[0]), ops.select(first, a[1], b[1])]
        if branching:
            return xlapy.cond(ops.ge(a[0], b[0]), lambda x, y: x, lambda x, y: y, a[0], b[0])
        if through_select:
            return ops.select(ops.ge(a[0], b[0]), a[0], b[0])
        if swapped:
            a, b = b, a
        return [inner.bind(n, x, y) for n, x, y in zip(names, a, b, strict=True)]

    if ordered:
        inits = [_identity("max", dtypes[0]), _identity("min", dtypes[1])]
    return body_of(draft, list(dtypes) * 2, write), inits


def scalar(draft: Draft, value: Any, dtype: DType) -> Any:
    """A scalar operand: a constant, which has derivatives, or now and then a parameter."""
    if draft.chance(0.15):
        return draft.make(TensorSpec((), dtype), value)
    return draft.bind("constant", value=np.asarray(value).astype(dtype.numpy))


@generates("reduce", weight=6)
def reduce(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    inputs = [x]
    if draft.chance(0.2):
        inputs.append(draft.tensor(shape=x.spec.shape))
    body, inits = fold_of(draft, [i.spec.dtype for i in inputs])
    dims = draft.some(x.spec.rank)
    if draft.chance(0.3):
        dims = dims[::-1]
    values = [scalar(draft, v, i.spec.dtype) for v, i in zip(inits, inputs, strict=True)]
    return draft.bind(name, *inputs, *values, body=body, dimensions=dims)


@generates("argmax", "argmin", weight=1)
def position(draft: Draft, name: str) -> Any:
    x = draft.tensor(REAL | {"bool"}, least=1)
    axis = draft.integer(-x.spec.rank, x.spec.rank - 1)
    if not x.spec.shape[axis]:
        raise Unfit
    kind = draft.choose(["s32", "s64", "u8", "s16"])
    return getattr(ops, name)(x, kind, axis)


@generates("sort", weight=4)
def sort(draft: Draft, name: str) -> Any:
    x = draft.tensor(REAL | {"bool"} if draft.chance(0.95) else frozenset({"complex"}), least=1)
    others = [draft.tensor(shape=x.spec.shape) for _ in range(draft.choose([0, 0, 1, 2]))]
    operands = [x, *others]
    form = draft.integer(0, 3)
    kind = x.spec.dtype.kind
    # What is equal is the same then.
    alike = not others and (kind in ("int", "uint", "bool") or (kind == "float" and form in (1, 2)))

    def less(inner: Draft, *xs: Any) -> Any:
        a, b = xs[0], xs[1]
        if kind == "complex":
            return ops.lt_total_order(ops.imag(a), ops.imag(b))
        if form == 0 or x.spec.dtype.kind != "float":
            first = ops.gt(a, b) if form == 1 else ops.lt(a, b)
        elif form == 1:
            first = ops.lt_total_order(a, b)
        elif form == 2:
            first = ops.gt_total_order(a, b)
        else:
            first = ops.lt_total_order(ops.neg(a), ops.neg(b))
        if others and form == 3 and others[0].spec.dtype.kind in ("int", "uint"):
            first = ops.or_(first, ops.and_(ops.eq(a, b), ops.lt(xs[2], xs[3])))
        return first

    scalars = [o.spec.dtype for o in operands for _ in range(2)]
    # Only then is the result determined: what is unordered, such as nan by lt, must not occur.
    if (
        x.spec.dtype.kind == "float"
        and form in (0,)
        and not np.isfinite(draft.array(x).astype(np.float64)).all()
    ):
        raise Unfit
    dimension = draft.integer(0, x.spec.rank - 1)
    return draft.bind(
        name,
        *operands,
        dimension=dimension,
        is_stable=not (alike and draft.chance(0.3)),
        comparator=body_of(draft, scalars, less),
    )


@generates("top_k", weight=2)
def top_k(draft: Draft, name: str) -> Any:
    x = draft.tensor(REAL | {"bool"}, least=1)
    k = draft.integer(0, x.spec.shape[-1])
    return draft.bind(name, x, k=k, largest=draft.chance(0.5))


@generates("map", weight=2)
def map_(draft: Draft, name: str) -> Any:
    from fuzzing.programs import grow

    x = draft.tensor()
    operands = [x, *[draft.tensor(shape=x.spec.shape) for _ in range(draft.integer(0, 2))]]

    def write(inner: Draft, *xs: Any) -> Any:
        grow(inner, inner.integer(1, 4))
        return inner.choose(inner.pool[-3:])

    body = body_of(draft, [o.spec.dtype for o in operands], write)
    return draft.bind(name, *operands, computation=body, dimensions=tuple(range(x.spec.rank)))


@generates("scan", weight=3)
def scan(draft: Draft, name: str) -> Any:
    from fuzzing.programs import grow

    x = draft.tensor(least=1, most=3)
    dimension = draft.integer(0, x.spec.rank - 1)
    length = x.spec.shape[dimension]
    inputs = [x]
    if draft.chance(0.3):
        inputs.append(draft.tensor(shape=x.spec.shape))
    carried = [draft.tensor(most=2) for _ in range(draft.choose([0, 1, 1, 2]))]

    def slice_spec(spec: TensorSpec) -> TensorSpec:
        return spec.with_shape((*spec.shape[:dimension], *spec.shape[dimension + 1 :]))

    def write(inner: Draft, *xs: Any) -> Any:
        grow(inner, inner.integer(1, 4))
        fit = [t for t in inner.pool if t.spec.rank >= dimension]
        outputs = [inner.choose(fit) for _ in range(draft.choose([0, 1, 1, 2]))] if fit else []
        carries = [inner.exactly(c.spec) for c in carried]
        return [*outputs, *carries] or [xs[0]]

    specs = [*[slice_spec(i.spec) for i in inputs], *[c.spec for c in carried]]
    arrays = [
        np.take(draft.array(i), 0, dimension) if length else np.zeros(s.shape, s.dtype.numpy)
        for i, s in zip(inputs, specs)
    ] + [draft.array(c) for c in carried]
    body = draft.body(write, specs, arrays, scalars=False)
    if not carried and dimension:
        fit = all(s.rank >= dimension for s in body.result_specs)  # type: ignore[union-attr]
        if not fit:
            raise Unfit
    return draft.bind(
        name, *inputs, *carried, body=body, carries=len(carried), dimension=dimension,
        is_reverse=draft.chance(0.4), is_associative=draft.choose([None, None, False]),
    )  # fmt: skip


@generates("cumulative", weight=1.5)
def cumulative(draft: Draft, name: str) -> Any:
    """A scan that says of itself that it may be done in any order: sums, products, extremes so far."""
    x = draft.tensor(least=1, most=3)
    fold = _one_fold(draft, x.spec.dtype)
    dimension = draft.integer(0, x.spec.rank - 1)
    spec = x.spec.with_shape((*x.spec.shape[:dimension], *x.spec.shape[dimension + 1 :]))
    first = np.broadcast_to(_identity(fold, spec.dtype), spec.shape)
    arrays = [np.zeros(spec.shape, spec.dtype.numpy)] * 2

    def write(inner: Draft, a: Any, total: Any) -> Any:
        made = inner.bind(fold, total, a)
        return [made, made]

    body = draft.body(write, [spec, spec], arrays, scalars=False)
    start = draft.bind("constant", value=np.array(first))
    return draft.bind(
        "scan", x, start, body=body, carries=1, dimension=dimension, is_reverse=draft.chance(0.4),
        is_associative=draft.choose([True, True, None]),
    )  # fmt: skip


@generates("batch_norm_training", "batch_norm_inference", "batch_norm_grad", weight=0.8)
def batch_norm(draft: Draft, name: str) -> Any:
    x = draft.tensor(frozenset({"float"}), names=("f32", "f64", "f16", "bf16"), least=1)
    feature = draft.integer(0, x.spec.rank - 1)
    vector = TensorSpec((x.spec.shape[feature],), x.spec.dtype)
    count = {"batch_norm_training": 2, "batch_norm_inference": 3, "batch_norm_grad": 2}[name]
    vectors = [draft.exactly(vector) for _ in range(count)]
    if name != "batch_norm_training":
        positive = draft.make(
            vector, np.abs(draw(draft.rng, vector, "tame").astype(np.float64)) + 0.1
        )
        vectors.append(positive)
    more = [draft.exactly(x.spec)] if name == "batch_norm_grad" else []
    epsilon = float(np.float32(draft.choose([1e-5, 1e-3, 0.1])))
    return draft.bind(name, x, *vectors, *more, epsilon=epsilon, feature_index=feature)
