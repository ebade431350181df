"""Cases of reduce_window and select_and_scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, body
from cases.reduction import affine, better, element_type, fold, halving, scalar, unwrapped
from cases.values import EIGHT_BITS, INTEGERS
from xlapy import ops
from xlapy.ops.reduction import identity_of

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def window(
    sizes: Ints,
    strides: Ints | None = None,
    padding: Pairs | None = None,
    base: Ints | None = None,
    dilations: Ints | None = None,
) -> dict[str, Any]:
    """The parameters of a window."""
    ones = (1,) * len(sizes)
    return {
        "window_dimensions": sizes,
        "window_strides": strides or ones,
        "base_dilations": base or ones,
        "window_dilations": dilations or ones,
        "padding": padding or ((0, 0),) * len(sizes),
    }


#: geometries over an array of 5 by 6, the first ones without holes
GEOMETRIES: dict[str, dict[str, Any]] = {
    "valid": window((2, 3)),
    "strides": window((2, 2), (2, 3)),
    "apart": window((1, 2), (2, 4)),
    "padded": window((3, 2), (2, 1), ((1, 2), (0, 1))),
    "far_padding": window((2, 2), (1, 2), ((3, 0), (0, 4))),
    "cut": window((2, 2), None, ((-1, 0), (-2, -1))),
    "cut_and_padded": window((2, 2), (2, 1), ((-1, 2), (1, -2))),
    "all": window((5, 6)),
    "too_large": window((6, 1)),
    "one": window((1, 1), (2, 3)),
    "one_cut": window((1, 1), None, ((-1, 0), (0, 1))),
    "one_cut_strides": window((1, 1), (2, 1), ((-1, -2), (0, 0))),
    "long": window((1, 13), None, ((0, 0), (6, 6))),
    "window_dilation": window((2, 3), None, None, None, (3, 2)),
    "base_dilation": window((2, 3), (1, 2), None, (2, 3)),
    "both": window((3, 2), (2, 3), ((1, 2), (-1, 1)), (2, 3), (2, 2)),
}  # fmt: skip
PLAIN = (
    "valid",
    "strides",
    "apart",
    "padded",
    "far_padding",
    "cut",
    "all",
    "too_large",
    "one",
    "one_cut_strides",
    "one_cut",
)
#: windows without an element: their result does not vary, but differs from itself by infinities
HOLLOW = ("far_padding", "cut_and_padded", "both", "one_cut")


def pool(operation: str, geometry: str, operand: Any = "f64[5,6]", **more: Any) -> OpCase:
    """A reduce_window by one operation."""
    from xlapy.dtypes import as_dtype

    dtype = element_type(operand)
    functions = {"and": ops.and_, "or": ops.or_}
    function = functions.get(operation) or getattr(ops, operation)
    init = scalar(identity_of(operation, as_dtype(dtype)), dtype)
    params = {**GEOMETRIES[geometry], "body": fold(function, dtype)}
    name = f"{operation}_{geometry}_{dtype}"
    return OpCase("reduce_window", [operand, init], params, **{"name": name, "wrt": (0,), **more})


def general(
    name: str,
    function: Callable[..., Any],
    operands: Sequence[Any],
    inits: Sequence[Any],
    geometry: dict[str, Any],
    **more: Any,
) -> OpCase:
    """A reduce_window by any computation."""
    dtypes = [element_type(x) for x in operands]
    values = [scalar(i, d) for i, d in zip(inits, dtypes, strict=True)]
    params = {**geometry, "body": fold(function, *dtypes)}
    more = {"name": name, "tol": 1e-12, "wrt": range(len(operands)), **more}
    return OpCase("reduce_window", [*operands, *values], params, **more)


def scattered(
    name: str,
    geometry: dict[str, Any],
    select: Callable[..., Any] = ops.ge,
    scatter: Callable[..., Any] = ops.add,
    operand: Any = "f64[5,6]",
    init: float = 0.0,
    **more: Any,
) -> OpCase:
    """A select_and_scatter."""
    from xlapy.ops.window_geometry import Window
    from xlapy.specs import parse_spec

    dtype = element_type(operand)
    shape = parse_spec(operand).shape if isinstance(operand, str) else operand.shape
    counts = Window.of(geometry).counts(shape)
    kept = {k: geometry[k] for k in ("window_dimensions", "window_strides", "padding")}
    source = f"{dtype}[{','.join(map(str, counts))}]"
    params = {
        **kept,
        "select": body(select, f"{dtype}[]", f"{dtype}[]"),
        "scatter": fold(scatter, dtype),
    }
    operands = [operand, source, scalar(init, dtype)]
    more = {"name": name, "tol": 1e-12, "wrt": (1,), **more}
    return OpCase("select_and_scatter", operands, params, **more)


def closer(a: Any, b: Any) -> Any:
    """A selection by no comparison of the elements themselves."""
    return ops.le(ops.abs(ops.sub(a, 0.5)), ops.abs(ops.sub(b, 0.5)))


PLACES = np.arange(30, dtype=np.int32).reshape(5, 6)
TIED = np.array([[1.0, 1, 1, 0, 2, 2], [1, 1, 0, 0, 2, 2], [0, -0.0, 3, 3, 3, 3]] * 2)[:5]
NANS = np.where(np.arange(30).reshape(5, 6) % 7 == 3, np.nan, np.arange(30.0).reshape(5, 6))
TWO = window((2, 2), (2, 2))
ORDER = {"reference": "scatters in another order than XLA on CPU"}

CASES: list[OpCase] = []
for _geometry in GEOMETRIES:
    CASES += [
        pool("add", _geometry, tol=1e-12),
        pool("mul", _geometry, tol=1e-12),
        pool("max", _geometry, order=0 if _geometry in HOLLOW else 2),
        pool("min", _geometry, order=0 if _geometry in HOLLOW else 2),
        general(f"associative_{_geometry}", unwrapped, ["f64[5,6]"], [0.0], GEOMETRIES[_geometry],
                domain=(-0.5, 0.5), tol=1e-11),
    ]  # fmt: skip
for _geometry in PLAIN:
    CASES += [
        scattered(f"ge_{_geometry}", GEOMETRIES[_geometry]),
        scattered(f"le_{_geometry}", GEOMETRIES[_geometry], ops.le),
    ]  # fmt: skip
for _operation in ("add", "mul", "max", "min"):
    CASES += [
        pool(_operation, "padded", "f32[5,6]", order=0),
        pool(_operation, "padded", "f16[5,6]", order=0, tol=1e-2),
        pool(_operation, "padded", "bf16[5,6]", order=0, tol=8e-2),
        *[pool(_operation, "padded", f"{t}[5,6]", order=0, tol=0.0) for t in ("pred", *INTEGERS) if t[1:] != "2"],
        *[
            pool(_operation, "valid", f"{t}[5,6]", order=0, domain=(0.5, 1.0), tol=0.3)
            for t in EIGHT_BITS
        ],
    ]  # fmt: skip
CASES += [
    pool("add", "padded", "c128[5,6]", order=0, tol=1e-12),
    pool("and", "padded", "s32[5,6]", order=0, tol=0.0),
    pool("or", "padded", "pred[5,6]", order=0, tol=0.0),
    pool("max", "valid", NANS, name="max_nan", order=0, tol=0.0),
    pool("min", "padded", NANS, name="min_nan", order=0, tol=0.0),
    general("empty", ops.add, ["f64[0,3]"], [0.0], window((1, 2))),
    general("empty_padded", ops.add, ["f64[0,3]"], [0.0], window((1, 2), None, ((1, 1), (0, 0)))),
    general("scalar", ops.max, ["f64[]"], [-np.inf], window(())),
    general("rank_4", ops.max, ["f64[2,5,5,3]"], [-np.inf],
            window((1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (0, 1), (1, 1), (0, 0)))),
    general("cumulative", unwrapped, ["f64[9]"], [0.0], window((9,), None, ((8, 0),)), domain=(-0.3, 0.3), order=1),
    general("ordered", affine, ["f64[4,5]", "f64[4,5]"], [0.0, 1.0], window((2, 3))),
    general("argmax", better, ["f64[5,6]", PLACES], [-np.inf, 0], window((2, 3), (2, 1))),
    general("loop", halving, ["f64[4,5]"], [0.0], window((2, 3))),
    scattered("overlapping", window((3, 3), (2, 1))),
    scattered("shared", window((2, 2))),
    scattered("mul", window((2, 2)), ops.ge, ops.mul, init=1.0),
    scattered("max", window((2, 2)), ops.ge, ops.max, init=-9.0),
    scattered("replace", window((2, 2)), ops.ge, lambda old, new: new, xfail=ORDER),
    scattered("weighted", window((2, 2)), ops.ge, lambda old, new: ops.add(ops.mul(old, 0.5), new), order=0,
              xfail=ORDER),
    scattered("closer", window((2, 2)), closer),
    scattered("ties", TWO, operand=TIED),
    scattered("ties_gt", TWO, ops.gt, operand=TIED),
    scattered("nan", TWO, operand=NANS),
    scattered("no_source", window((2, 2), None, ((-4, 0), (0, 0))), init=7.0, order=0),
    scattered("rank_1", window((3,), (2,), ((1, 1),)), operand="f64[7]"),
    scattered("scalar", window(()), operand="f64[]"),
    scattered("f32", TWO, operand="f32[5,6]", tol=1e-6, order=0),
    scattered("bf16", TWO, operand="bf16[5,6]", tol=1e-2, order=0),
    *[scattered(t, TWO, operand=f"{t}[5,6]", order=0, tol=0.0) for t in ("s8", "s32", "u16", "s64", "u64")],
    scattered("empty", window((1, 2)), operand="f64[0,3]"),
]  # fmt: skip

ADD = fold(ops.add, "f32")
BOTH = fold(lambda a, b, c, d: (ops.add(a, c), ops.add(b, d)), "f32", "f32")
GIVEN = {**window((2, 2)), "body": ADD}


def error(
    label: str, match: str = "", operands: Sequence[str] = ("f32[4,4]", "f32[]"), **given: Any
) -> ErrorCase:
    """A wrong reduce_window."""
    return ErrorCase("reduce_window", operands, {**GIVEN, **given}, label, match)


SCATTER = {
    "window_dimensions": (2, 2), "window_strides": (2, 2), "padding": ((0, 0), (0, 0)),
    "select": body(ops.ge, "f32[]", "f32[]"), "scatter": ADD,
}  # fmt: skip
OPERANDS = ("f32[4,4]", "f32[2,2]", "f32[]")


def wrong(
    label: str, match: str = "", operands: Sequence[str] = OPERANDS, **given: Any
) -> ErrorCase:
    """A wrong select_and_scatter."""
    return ErrorCase("select_and_scatter", operands, {**SCATTER, **given}, label, match)


ERRORS: list[ErrorCase] = [
    error("I1", operands=("token[]", "f32[]")),
    error("I2", operands=("f32[4,4]", "(f32[])")),
    error("I2", "scalar", operands=("f32[4,4]", "f32[1]")),
    error("C1", operands=()),
    error("C2", operands=("f32[4,4]", "f32[4,3]", "f32[]", "f32[]"), body=BOTH),
    error("C3", operands=("f32[4,4]", "f64[]")),
    error("C4", "2 entries", window_dimensions=(2,)),
    error("C5", "positive", window_dimensions=(0, 1)),
    error("C6", window_strides=(1, 1, 1)),
    error("C7", window_strides=(1, -1)),
    error("C8", base_dilations=()),
    error("C9", base_dilations=(0, 1)),
    error("C10", window_dilations=(1,)),
    error("C11", window_dilations=(0, 0)),
    error("C12", "2 entries", padding=((0, 0),)),
    error("C12", "pairs", padding=((0, 0), (0,))),
    error("I8", "Computation", body=None),
    error("C13", "must take", body=BOTH),
    error("C13", "must give", body=body(ops.ge, "f32[]", "f32[]")),
    error("X1", "2\\*\\*31", window_dimensions=(1 << 20, 1 << 20)),
    error("X1", "known", operands=("f32[<=4,4]", "f32[]")),
    wrong("I1", operands=("token[]", *OPERANDS[1:])),
    wrong("I2", operands=("f32[4,4]", "(f32[2,2])", "f32[]")),
    wrong("I3", operands=("f32[4,4]", "f32[2,2]", "token[]")),
    wrong("I3", "scalar", operands=("f32[4,4]", "f32[2,2]", "f32[1]")),
    wrong("C1", operands=("f32[4,4]", "f64[2,2]", "f32[]")),
    wrong("C2", operands=("f32[4,4]", "f32[2,3]", "f32[]")),
    wrong("C3", operands=("f32[4,4]", "f32[2,2]", "f64[]")),
    wrong("C4", window_dimensions=(2,)),
    wrong("C5", window_dimensions=(0, 2)),
    wrong("C6", window_strides=(2,)),
    wrong("C7", window_strides=(2, 0)),
    wrong("C8", "2 entries", padding=((0, 0),)),
    wrong("C8", "pairs", padding=((0, 0), 0)),
    wrong("C9", "must take", select=body(ops.ge, "f64[]", "f64[]")),
    wrong("C9", "must give", select=ADD),
    wrong("I7", "Computation", select="ge"),
    wrong("I8", "Computation", scatter=ops.add),
    wrong("C10", "must take", scatter=fold(ops.add, "f64")),
    wrong("C10", "must give", scatter=body(ops.ge, "f32[]", "f32[]")),
    wrong("X1", "2\\*\\*31", window_dimensions=(1 << 20, 1 << 20)),
    wrong("X1", "known", operands=("f32[<=4,4]", "f32[2,2]", "f32[]")),
]
