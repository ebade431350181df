"""Cases of tuple, get_tuple_element, optimization_barrier and copy."""

from __future__ import annotations

from cases import ErrorCase, OpCase

CASES: list[OpCase] = [
    OpCase("optimization_barrier", ["f64[2]", "s32[]"], tol=0.0),
    OpCase("optimization_barrier", ["f64[2]"], tol=0.0),
    OpCase("optimization_barrier", ["c64[0]", "pred[2]"], tol=0.0),
    OpCase("copy", ["f64[2,3]"], tol=0.0),
    OpCase("copy", ["s4[3]"], tol=0.0),
    OpCase("tuple", ["f64[2]", "s32[]"], tol=0.0),
    OpCase("tuple", ["f64[2]", "(f64[3], token[], ())"], tol=0.0, name="nested"),
    OpCase("tuple", [], tol=0.0, name="empty"),
    OpCase("get_tuple_element", ["(f64[2], s32[])"], {"index": 0}, tol=0.0),
    OpCase("get_tuple_element", ["(s32[], (f64[2], f64[], token[]))"], {"index": 1}, tol=0.0, name="nested"),
]  # fmt: skip

ERRORS: list[ErrorCase] = [
    ErrorCase("get_tuple_element", ["f32[2]"], {"index": 0}, "I1"),
    ErrorCase("get_tuple_element", ["(f32[2])"], {"index": 1}, "C1"),
    ErrorCase("get_tuple_element", ["(f32[2])"], {"index": -1}, "C1"),
]
