"""Cases of map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cases import ErrorCase, OpCase, body
from cases.reduction import element_type, halving
from cases.values import UNLIKE_FLOATS, extremes
from xlapy import ops


def mapped(
    name: str, function: Callable[..., Any], operands: Sequence[Any], rank: int, **more: Any
) -> OpCase:
    """A map of a function of scalars."""
    given = body(function, *[f"{element_type(x)}[]" for x in operands])
    params = {"computation": given, "dimensions": tuple(range(rank))}
    return OpCase("map", operands, params, **{"name": name, "tol": 1e-12, **more})


def branching(a: Any) -> Any:
    """One of two functions."""
    return ops.conditional(ops.gt(a, 0.0), a, ops.sin, a, ops.cos)


CASES: list[OpCase] = [
    mapped("sin", ops.sin, ["f64[3,4]"], 2),
    mapped("mul", ops.mul, ["f64[3,4]", "f64[3,4]"], 2),
    mapped("composed", lambda a, b: ops.add(ops.mul(ops.sin(a), b), a), ["f64[5]", "f64[5]"], 1),
    mapped("three", lambda a, b, c: ops.select(ops.gt(a, b), c, ops.mul(a, c)), ["f64[4]"] * 3, 1),
    mapped("scalar", ops.exp, ["f64[]"], 0),
    mapped("empty", ops.exp, ["f64[0,3]"], 2),
    mapped("first", lambda a, b: a, ["f64[3]", "f64[3]"], 1),
    mapped("constant", lambda a: ops.constant(2.5), ["f64[3]"], 1, order=0),
    mapped("to_pred", ops.lt, ["f64[3]", "f64[3]"], 1, order=0, tol=0.0),
    mapped("converts", lambda a: ops.convert(a, "s32"), ["f64[2,3]"], 2, order=0, tol=0.0),
    mapped("integers", lambda a, b: ops.add(ops.mul(a, b), 3), ["s32[4]", "s32[4]"], 1, order=0, tol=0.0),
    mapped("f32", ops.tanh, ["f32[3]"], 1, order=0, tol=1e-6),
    mapped("bf16", ops.tanh, ["bf16[3]"], 1, order=0, tol=1e-2),
    mapped("complex", lambda a: ops.mul(a, a), ["c128[3]"], 1, order=0),
    mapped("of_two_precisions", lambda a, b: ops.mul(ops.convert(a, "f64"), b), ["f32[3]", "f64[3]"], 1, order=0,
           tol=1e-6),
    mapped("of_equal_widths", lambda a, b: ops.add(ops.convert(a, "f32"), ops.convert(b, "f32")),
           ["bf16[3]", "f16[3]"], 1, order=0, tol=1e-6),
    mapped("of_narrow_and_integer", lambda a, b, c: ops.select(c, ops.convert(a, "bf16"), b),
           ["f8e5m2[3]", "bf16[3]", "pred[3]"], 1, order=0, tol=0.0),
    mapped("of_three_precisions", lambda a, b, c: ops.add(ops.add(ops.convert(a, "f32"), ops.convert(b, "f32")), c),
           ["f8e4m3fn[3]", "bf16[3]", "f32[3]"], 1, order=0, tol=1e-6),
    mapped("of_precisions_to_pred", lambda a, b: ops.lt(ops.convert(a, "f64"), b), ["f16[3]", "f64[3]"], 1, order=0,
           tol=0.0),
    mapped("of_precisions_to_another", lambda a, b: ops.convert(ops.add(ops.convert(a, "f64"), b), "bf16"),
           ["f32[3]", "f64[3]"], 1, order=0, tol=1e-2),
    mapped("of_precisions_and_complex", lambda a, b, c: ops.mul(ops.complex(ops.convert(a, "f64"), b), c),
           ["f32[3]", "f64[3]", "c128[3]"], 1, order=0, tol=1e-6),
    mapped("of_precisions_scalar", lambda a, b: ops.mul(ops.convert(a, "f64"), b), ["f32[]", "f64[]"], 0, order=0,
           tol=1e-6),
    mapped("of_precisions_empty", lambda a, b: a, ["f32[0]", "f64[0]"], 1, order=0, tol=0.0),
    mapped("branch_of_precisions", lambda a, b: ops.conditional(
        ops.gt(b, 0.0), a, lambda x: x, b, lambda y: ops.convert(y, "f32")), ["f32[5]", "f64[5]"], 1, order=0, tol=0.0),
    mapped("branch", branching, ["f64[3,2]"], 2),
    mapped("loop", lambda a: halving(a, ops.sin(a)), ["f64[3]"], 1),
    mapped("sorts", lambda a, b: ops.reshape(ops.slice(ops.sort(ops.concatenate(
        [ops.reshape(a, (1,)), ops.reshape(b, (1,))], 0)), (0,), (1,), (1,)), ()), ["f64[3]", "f64[3]"], 1),
]  # fmt: skip

for _one, _other in UNLIKE_FLOATS:
    _pair = [extremes(_one), extremes(_other)]
    CASES += [
        mapped(f"{_one}_beside_{_other}", lambda a, b: a, _pair, 1, order=0, tol=0.0),
        mapped(f"{_other}_beside_{_one}", lambda a, b: b, _pair, 1, order=0, tol=0.0),
    ]

SINE = body(ops.sin, "f32[]")


def error(label: str, operands: Sequence[str], match: str = "", **given: Any) -> ErrorCase:
    """A wrong map."""
    return ErrorCase(
        "map", operands, {"computation": SINE, "dimensions": (0,), **given}, label, match
    )


ERRORS: list[ErrorCase] = [
    error("I1", ["token[]"]),
    error("C1", ["f32[3]", "f32[4]"], "one shape"),
    error("C2", []),
    error("C3", ["f32[3,2]"], r"all of them, \(0, 1\)"),
    error("C3", ["f32[3,2]"], dimensions=(1, 0)),
    error("C4", ["f64[3]"], "must take"),
    error("I3", ["f32[3]"], "Computation", computation=ops.sin),
    error("C4", ["f32[3]"], "one scalar", computation=body(lambda a: (a, a), "f32[]")),
    error(
        "C4", ["f32[3]"], "one scalar", computation=body(lambda a: ops.broadcast(a, [2]), "f32[]")
    ),
]
