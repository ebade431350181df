"""Cases of reduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, body
from cases.values import EIGHT_BITS, INTEGERS, UNLIKE_FLOATS, edges, extremes, numpy_dtype
from xlapy import ops
from xlapy.ops.reduction import identity_of


def element_type(operand: Any) -> str:
    """Of a spec or an array."""
    if isinstance(operand, str):
        return operand.split("[")[0]
    from xlapy.dtypes import as_dtype

    return as_dtype(operand.dtype).name


def fold(function: Callable[..., Any], *dtypes: str) -> Any:
    """A body of scalars of these types."""
    scalars = [f"{d}[]" for d in dtypes]
    return body(function, *scalars, *scalars)


def scalar(value: Any, dtype: str) -> np.ndarray:
    """An init value."""
    return np.asarray(value).astype(numpy_dtype(dtype))


def plain(operation: str, operand: Any, dimensions: tuple[int, ...], **more: Any) -> OpCase:
    """A reduction by one operation."""
    from xlapy.dtypes import as_dtype

    dtype = element_type(operand)
    functions = {"and": ops.and_, "or": ops.or_, "xor": ops.xor}
    function = functions.get(operation) or getattr(ops, operation)
    init = scalar(identity_of(operation, as_dtype(dtype)), dtype)
    shown = operand if isinstance(operand, str) else f"{dtype}_{operand.size}"
    name = f"{operation}_{shown}_{dimensions}"
    params = {"body": fold(function, dtype), "dimensions": dimensions}
    return OpCase("reduce", [operand, init], params, **{"name": name, "wrt": (0,), **more})


def general(
    name: str,
    function: Callable[..., Any],
    operands: Sequence[Any],
    inits: Sequence[Any],
    dimensions: tuple[int, ...] = (1,),
    **more: Any,
) -> OpCase:
    """A reduction by any computation."""
    dtypes = [element_type(x) for x in operands]
    values = [scalar(i, d) for i, d in zip(inits, dtypes, strict=True)]
    params = {"body": fold(function, *dtypes), "dimensions": dimensions}
    more = {"name": name, "tol": 1e-12, "wrt": range(len(operands)), **more}
    return OpCase("reduce", [*operands, *values], params, **more)


def better(a: Any, i: Any, b: Any, j: Any) -> Any:
    """The larger value with its position."""
    first = ops.ge(a, b)
    return ops.select(first, a, b), ops.select(first, i, j)


def greatest(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The greatest of either kind, by their bits: nothing but moves."""
    return tuple([ops.select(ops.gt_total_order(x, y), x, y) for x, y in ((a, c), (b, d))])


def unwrapped(a: Any, b: Any) -> Any:
    """Associative, and its order matters: of (x, y) the composition of maps t -> x + y t."""
    return ops.add(ops.add(a, b), ops.mul(a, b))


def affine(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The composition of t -> a + b t after t -> c + d t: associative, but the order matters."""
    return ops.add(c, ops.mul(d, a)), ops.mul(b, d)


def halving(a: Any, b: Any) -> Any:
    """A body with a loop; it is addition."""
    return ops.while_(
        lambda i, x: ops.lt(i, 2), lambda i, x: (ops.add(i, 1), ops.add(x, ops.mul(b, 0.5))), (0, a)
    )[1]


def branching(a: Any, b: Any) -> Any:
    """A body with a conditional; it is the maximum."""
    return ops.conditional(ops.gt(a, b), a, lambda x: x, b, lambda x: x)


PLACES = np.tile(np.arange(4, dtype=np.int32), (3, 1))
TIED = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 0.0], [-0.0, 0.0, -1.0, -0.0]])
ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [1.5, 2.0, -2.0]])
LOW = {"reference": "adds in the element type"}

CASES: list[OpCase] = []
for _name in ("add", "mul", "max", "min"):
    for _dims in ((), (0,), (1,), (2, 0), (0, 1, 2)):
        CASES.append(plain(_name, "f64[3,4,2]", _dims, tol=1e-12))
    CASES += [
        plain(_name, "f64[0,3]", (0,), order=2 if _name in ("add", "mul") else 0),
        plain(_name, "f64[3,0]", (0,)),
        plain(_name, "f64[]", ()),
        plain(_name, "f64[7]", (0,), tol=1e-12),
        plain(_name, "f32[3,5]", (1,), order=0),
        plain(_name, "f16[3,5]", (1,), order=0, tol=5e-3),
        plain(_name, "bf16[3,5]", (1,), order=0, tol=4e-2),
        *[
            plain(_name, f"{t}[3,5]", (1,), order=0, domain=(0.5, 1.0), tol=0.3)
            for t in EIGHT_BITS
        ],
        plain(_name, np.tile(edges("f32"), (2, 1)), (0,), order=0, tol=0.0),
        plain(_name, edges("pred"), (0,), order=0, tol=0.0),
        *[plain(_name, np.tile(edges(t), (3, 1)), (0,), order=0, tol=0.0) for t in INTEGERS if t[1:] not in ("2", "4")],
        *[plain(_name, f"{t}[3,4]", (0,), order=0, tol=0.0) for t in ("s4", "u4")],
    ]  # fmt: skip
for _name in ("add", "mul"):
    CASES += [
        plain(_name, "c128[3,4]", (1,), order=0, tol=1e-12),
        plain(_name, "c64[3,4]", (0,), order=0, tol=1e-5),
    ]
for _name in ("and", "or", "xor"):
    CASES += [
        plain(_name, f"{t}[3,4]", d, order=0, tol=0.0)
        for t in ("pred", "s8", "u32", "s64", "u4")
        for d in ((0,), (0, 1))
    ]
CASES += [
    plain("max", TIED, (1,), name="max_ties", order=0, tol=0.0),
    plain("min", TIED, (1,), name="min_ties", order=0, tol=0.0),
    plain("mul", ZEROS, (1,), name="mul_zeros"),
    plain("mul", ZEROS, (0, 1), name="mul_several_zeros"),
    plain("add", "bf16[2,3000]", (1,), name="add_many_bf16", order=0, tol=2e-2, domain=(0.5, 1.5),
          xfail=LOW),
    plain("add", "f32[2000,70]", (0,), name="add_columns", order=0, tol=1e-3),
    general("max_by_select", lambda a, b: ops.select(ops.gt(a, b), a, b), ["f64[3,4]"], [-np.inf]),
    general("associative", unwrapped, ["f64[3,7]"], [0.0]),
    general("associative_columns", unwrapped, ["f64[5,2,2]"], [0.0], (0, 2)),
    general("long", unwrapped, ["f64[300]"], [0.0], (0,), domain=(-0.1, 0.1), order=1),
    general("first", lambda a, b: a, ["f64[3,4]"], [0.0], skip={"pjrt": "the init value may enter anywhere"}),
    general("ordered", affine, ["f64[2,5]", "f64[2,5]"], [0.0, 1.0]),
    general("argmax", better, ["f64[3,4]", PLACES], [-np.inf, 0]),
    general("two_sums", lambda a, b, c, d: (ops.add(a, c), ops.mul(b, d)), ["f64[3,4]", "f64[3,4]"], [0.0, 1.0]),
    general("mixed", lambda a, i, b, j: (ops.add(a, b), ops.max(i, j)), ["f64[3,4]", PLACES], [0.0, 0], (0, 1)),
    general("two_precisions", lambda a, b, c, d: (ops.add(a, c), ops.max(b, d)), ["f32[3,4]", "f64[3,4]"],
            [0.0, -np.inf], tol=1e-5, order=0),
    general("equal_widths", lambda a, i, b, c, j, d: (ops.max(a, c), ops.add(i, j), ops.min(b, d)),
            ["bf16[3,4]", "s32[3,4]", "f16[3,4]"], [-np.inf, 0, np.inf], tol=0.0, order=0),
    general("rounded_narrow", lambda a, b, c, d: (ops.add(a, c), ops.add(b, d)), ["bf16[3,4]", "f32[3,4]"],
            [0.0, 0.0], tol=4e-2, order=0),
    general("three_precisions", lambda a, b, c, d, e, f: (ops.add(a, d), ops.max(b, e), ops.min(c, f)),
            ["f8e5m2[3,4]", "f64[3,4]", "f4e2m1fn[3,4]"], [0.0, -np.inf, 6.0], tol=0.3, order=0, domain=(0.5, 1.0)),
    general("two_precisions_of_one", lambda a, b, c, d: (ops.add(a, c), ops.add(ops.convert(a, "f64"), d)),
            ["f32[3,1]", "f64[3,1]"], [0.0, 0.0], tol=1e-6, order=0,
            skip={"pjrt": "the init value may enter anywhere"}),
    general("two_precisions_nothing", lambda a, b, c, d: (ops.add(a, c), ops.max(b, d)), ["f32[3,0]", "f64[3,0]"],
            [0.0, -np.inf], tol=0.0, order=0),
    general("two_precisions_twice", lambda a, b, c, d, e, f: (ops.add(a, d), ops.max(b, e), ops.min(c, f)),
            ["f32[3,4]", "f64[3,4]", "f32[3,4]"], [0.0, -np.inf, np.inf], tol=1e-5, order=0),
    *[general(f"several_{t}_{u}", lambda a, b, c, d: (ops.max(a, c), ops.add(b, d)), [f"{t}[3,4]", f"{u}[3,4]"],
              [-2 if t == "s2" else 0, 0], tol=1e-6, order=0)
      for t, u in (("s2", "s64"), ("u2", "f32"), ("s2", "u2"), ("u2", "s4"), ("u2", "f4e2m1fn"))],
    general("loop", halving, ["f64[3,4]"], [0.0]),
    general("branch", branching, ["f64[3,4]"], [-np.inf]),
    general("nothing", unwrapped, ["f64[3,0]"], [0.0]),
]  # fmt: skip

# Which of the extremes is the first in total order: where there are no negative numbers, and where nan is one of them.
_FIRST = {"f8e8m0fnu": 1, "f8e4m3fnuz": 10}
for _one, _other in UNLIKE_FLOATS:
    CASES.append(
        general(f"{_one}_beside_{_other}", greatest, [extremes(_one)[:, None], extremes(_other)[:, None]],
                [extremes(d)[_FIRST.get(d, 5)] for d in (_one, _other)], tol=0.0, order=0)
    )  # fmt: skip

ADD = fold(ops.add, "f32")
BOTH = fold(lambda a, b, c, d: (ops.add(a, c), ops.add(b, d)), "f32", "f32")


def error(
    label: str, operands: Sequence[str], match: str = "", given: Any = ADD, dims: Any = (0,)
) -> ErrorCase:
    """A wrong reduction."""
    return ErrorCase("reduce", operands, {"body": given, "dimensions": dims}, label, match)


ERRORS: list[ErrorCase] = [
    error("I1", ["token[]", "f32[]"], "must be an array"),
    error("I2", ["f32[3]", "(f32[])"], "must be an array"),
    error("I2", ["f32[3]", "f32[1]"], "must be a scalar"),
    error("C1", ["f32[3]", "f32[4]", "f32[]", "f32[]"], "one shape", BOTH),
    error("C2", ["f32[3]", "f64[]"], "type of its input"),
    error("C3", [], "as many init_values"),
    error("C3", ["f32[3]", "f32[3]", "f32[]"], "as many init_values", BOTH),
    error("C4", ["f32[3]", "f32[]"], r"in \[0, 1\)", dims=(1,)),
    error("C4", ["f32[3]", "f32[]"], dims=(-1,)),
    error("C5", ["f32[3]", "f32[]"], "unique", dims=(0, 0)),
    error("I4", ["f32[3]", "f32[]"], "must be a Computation", "add"),
    error("C6", ["f64[3]", "f64[]"], "must take"),
    error("C6", ["f32[3]", "f32[]"], "must take", BOTH),
    error("C6", ["f32[3]", "f32[]"], "must give", body(ops.lt, "f32[]", "f32[]")),
]
