"""Operations on each element: arithmetic, comparison, selection, conversion, bits."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fuzzing.draft import ANY, INEXACT, REAL, Draft, Unfit
from fuzzing.values import DTYPES
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.errors import XlapyError
from xlapy.specs import TensorSpec
from xlapy.trace.op import registry

from .table import generates

UNARY = (
    "neg", "ceil", "floor", "round_nearest_afz", "round_nearest_even", "not", "population_count", "clz",
    "is_finite", "exp", "expm1", "log", "log1p", "logistic", "rsqrt", "sqrt", "cbrt", "sin", "cos", "tan", "tanh",
    "abs", "sign", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "erf", "erfc", "erf_inv",
    "lgamma", "digamma", "bessel_i1e", "square", "conj", "is_inf", "is_pos_inf", "is_neg_inf", "real", "imag",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "rem", "pow", "max", "min", "atan2", "complex", "mulhi", "next_after", "and", "or",
    "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical", "polygamma", "zeta",
)  # fmt: skip


@functools.cache
def dtypes_of(name: str, count: int) -> tuple[str, ...]:
    """The element types that an elementwise operation takes, by what its record accepts."""
    found = []
    for dtype in DTYPES:
        spec = TensorSpec((), dtype)
        try:
            registry[name].infer(*[spec] * count)
        except XlapyError:
            continue
        found.append(dtype)
    return tuple(found)


@generates(*UNARY, scalar=True)
def unary(draft: Draft, name: str) -> Any:
    return draft.bind(name, draft.tensor(names=dtypes_of(name, 1)))


@generates("result_accuracy", weight=0.8, scalar=True)
def accurate(draft: Draft, name: str) -> Any:
    function = draft.choose(
        [ops.exp, ops.log, ops.sin, ops.tanh, ops.logistic, ops.sqrt, ops.cbrt, ops.expm1]
    )
    accuracy = draft.choose(["default", "highest", ops.ResultAccuracy(1e-6, 1e-5, 2)])
    return function(draft.tensor(INEXACT), result_accuracy=accuracy)


@generates(*BINARY, scalar=True)
def binary(draft: Draft, name: str) -> Any:
    x = draft.tensor(names=dtypes_of(name, 2))
    y = x if draft.chance(0.03) else draft.exactly(x.spec)
    return draft.bind(name, *((x, y) if draft.chance(0.5) else (y, x)))


@generates("broadcast_operands", scalar=True)
def broadcast_operands(draft: Draft, name: str) -> Any:
    """A binary operation's public function, which brings its operands to one shape."""
    chosen = draft.choose(["add", "sub", "mul", "div", "max", "min"])
    x = draft.tensor(names=dtypes_of(chosen, 2))
    shape = x.spec.shape
    form = draft.integer(0, 3)
    function = getattr(ops, chosen)
    if form == 0 or not shape:
        small = draft.tensor(dtype=x.spec.dtype, shape=())
        return function(x, small) if draft.chance(0.5) else function(small, x)
    if form == 1:
        degenerate = tuple(1 if draft.chance(0.5) else n for n in shape)
        return function(x, draft.tensor(dtype=x.spec.dtype, shape=degenerate))
    dims = draft.some(len(shape))
    y = draft.tensor(dtype=x.spec.dtype, shape=tuple(shape[d] for d in dims))
    return function(x, y, broadcast_dimensions=dims)


@generates("compare", weight=3, scalar=True)
def compare(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    dtype = x.spec.dtype
    y = x if draft.chance(0.05) else draft.exactly(x.spec)
    direction = draft.choose(
        ["EQ", "NE"] if dtype.kind == "complex" else ["EQ", "NE", "LT", "LE", "GT", "GE"]
    )
    kind = {"int": "SIGNED", "float": "FLOAT", "complex": "FLOAT"}.get(dtype.kind, "UNSIGNED")
    if dtype.kind == "float" and draft.chance(0.3):
        kind = "TOTALORDER"
    return draft.bind("compare", x, y, comparison_direction=direction, compare_type=kind)


@generates("select", weight=3, scalar=True)
def select(draft: Draft, name: str) -> Any:
    a = draft.tensor()
    b = draft.exactly(a.spec)
    shape = () if draft.chance(0.2) else a.spec.shape
    return draft.bind("select", draft.tensor(dtype=as_dtype("pred"), shape=shape), a, b)


@generates("clamp", weight=2, scalar=True)
def clamp(draft: Draft, name: str) -> Any:
    x = draft.tensor(REAL)
    low, high = (
        draft.exactly(x.spec.with_shape(() if draft.chance(0.5) else x.spec.shape))
        for _ in range(2)
    )
    return draft.bind("clamp", low, x, high)


@generates("convert_element_type", weight=5, scalar=True)
def convert(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    return draft.bind("convert_element_type", x, dtype=draft.dtype())


@generates("bitcast_convert_type", weight=2, scalar=True)
def bitcast(draft: Draft, name: str) -> Any:
    x = draft.tensor()
    own = x.spec.dtype
    shape = x.spec.shape

    def fits(other: Any) -> bool:
        try:
            made = registry[name].infer(x.spec, dtype=other)
        except XlapyError:
            return False
        return made.rank == 0 or not draft.scalars

    names = [n for n in DTYPES if fits(as_dtype(n))]
    if shape and own.bits < 64 and draft.chance(0.2) and not draft.scalars:
        # Together with the last dimension.
        wider = [
            n for n in DTYPES if as_dtype(n).bits == own.bits * shape[-1] and fits(as_dtype(n))
        ]
        names = wider or names
    if not names:
        raise Unfit
    return draft.bind(name, x, dtype=as_dtype(draft.choose(names)))


@generates("reduce_precision", scalar=True)
def reduce_precision(draft: Draft, name: str) -> Any:
    x = draft.tensor(frozenset({"float"}))
    exponent, mantissa = draft.choose(
        [(8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (11, 52), (2, 1), (1, 0), (3, 30)]
    )
    return draft.bind(name, x, exponent_bits=exponent, mantissa_bits=mantissa)


@generates("copy", "stop_gradient", weight=0.8, scalar=True)
def unchanged(draft: Draft, name: str) -> Any:
    return draft.bind(name, draft.tensor())


@generates("optimization_barrier", weight=0.8)
def barrier(draft: Draft, name: str) -> Any:
    return draft.bind(name, *[draft.tensor() for _ in range(draft.integer(1, 3))])


@generates("tuple", weight=0.8)
def through_tuple(draft: Draft, name: str) -> Any:
    parts = [draft.tensor() for _ in range(draft.integer(1, 3))]
    made = draft.bind("tuple", *parts)
    if draft.chance(0.3):
        made = draft.bind("get_tuple_element", draft.bind("tuple", made, parts[0]), index=0)
    return draft.bind("get_tuple_element", made, index=draft.integer(0, len(parts) - 1))


@generates("get_tuple_element", weight=0.8)
def select_tuple(draft: Draft, name: str) -> Any:
    """A selection between tuples."""
    parts = [draft.tensor() for _ in range(draft.integer(1, 2))]
    others = [draft.exactly(p.spec) for p in parts]
    pred = draft.tensor(dtype=as_dtype("pred"), shape=())
    made = ops.select(pred, draft.bind("tuple", *parts), draft.bind("tuple", *others))
    return draft.bind(name, made, index=draft.integer(0, len(parts) - 1))


@generates("constant", scalar=True)
def constant(draft: Draft, name: str) -> Any:
    spec = TensorSpec(draft.shape(), draft.dtype())
    from fuzzing.values import draw

    value: Any = draw(draft.rng, spec, draft.mood)
    if draft.chance(0.3):
        value = np.broadcast_to(value.reshape(-1)[0], spec.shape) if value.size else value
    return draft.bind(name, value=np.ascontiguousarray(value).reshape(spec.shape))


@generates("iota")
def iota(draft: Draft, name: str) -> Any:
    shape = draft.shape()
    if not shape:
        raise Unfit
    dtype = draft.dtype(ANY - {"bool"})
    return draft.bind(
        name, shape=shape, dtype=dtype, iota_dimension=draft.integer(0, len(shape) - 1)
    )
