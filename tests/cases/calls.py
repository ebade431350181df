"""Cases of call and composite_call."""

from __future__ import annotations

from cases import ErrorCase, OpCase, body
from xlapy import ops


def two(dtype: str) -> object:
    """A computation of two results, one of which does not vary with one operand."""
    spec = f"{dtype}[3]"
    return body(lambda x, y: (ops.mul(ops.sin(x), y), ops.cos(y)), spec, spec)


LABELLED = {
    "name": "sample.square",
    "composite_attributes": '{n = 2 : i64, s = "a\\22}"}',
    "version": 3,
}
PLAIN = {"name": "sample.two", "composite_attributes": "{}", "version": 0}
SQUARE = body(lambda x: ops.mul(x, x), "f64[2]")

CASES: list[OpCase] = [
    OpCase("call", ["f64[3]", "f64[3]"], {"computation": two("f64")}),
    OpCase("call", ["f32[3]", "f32[3]"], {"computation": two("f32")}, order=0),
    OpCase("call", ["s32[2]"], {"computation": body(lambda x: ops.add(x, x), "s32[2]")}, order=0, tol=0.0),
    OpCase("call", ["f64[2]"], {"computation": body(lambda x: x, "f64[2]")}, name="identity"),
    OpCase("call", ["f64[0]"], {"computation": body(ops.sin, "f64[0]")}, name="empty"),
    OpCase(
        "call", ["f64[2]"],
        {"computation": body(lambda x: ops.call(SQUARE, ops.call(SQUARE, x)), "f64[2]")}, name="nested",
    ),
    OpCase("composite_call", ["f64[2]"], {"decomposition": SQUARE, **LABELLED}),
    OpCase("composite_call", ["f64[3]", "f64[3]"], {"decomposition": two("f64"), **PLAIN}),
]  # fmt: skip

ERRORS: list[ErrorCase] = [
    ErrorCase("call", ["f64[2]"], {"computation": "add"}, "I1", "must be a Computation"),
    ErrorCase("call", ["f64[3]"], {"computation": SQUARE}, "C1", r"must take the operands, \(f64\[3\]\)"),
    ErrorCase("call", [], {"computation": SQUARE}, "C1"),
    ErrorCase("composite_call", ["f64[2]"], {"decomposition": SQUARE, **PLAIN, "name": "two"}, "C1"),
    ErrorCase("composite_call", ["f64[2]"], {"decomposition": None, **PLAIN}, "I4"),
    ErrorCase("composite_call", ["f32[2]"], {"decomposition": SQUARE, **PLAIN}, "C3"),
    ErrorCase(
        "composite_call", ["f64[2]"],
        {"decomposition": SQUARE, **PLAIN, "composite_attributes": '{n = 1 : i32}> {a = "}'}, "I3",
    ),
    ErrorCase("composite_call", ["f64[2]"], {"decomposition": SQUARE, **PLAIN, "version": 2**31}, "I5"),
]  # fmt: skip
