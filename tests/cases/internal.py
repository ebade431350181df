"""Cases of what appears in HLO dumps."""

from __future__ import annotations

from cases import ErrorCase, OpCase, body
from xlapy import ops
from xlapy.dtypes import as_dtype

REWRITTEN = {"roundtrip": "it is written as what it is made of"}
PAIR = body(lambda x, y: (ops.mul(ops.sin(x), y), ops.neg(y)), "f64[3]", "f64[3]")


def bitcast(
    shape: tuple[int, ...], dtype: str, source: tuple[int, ...], result: tuple[int, ...]
) -> dict[str, object]:
    """Parameters of a bitcast."""
    return {
        "shape": shape,
        "dtype": as_dtype(dtype),
        "source_layout": source,
        "result_layout": result,
    }


CASES: list[OpCase] = [
    OpCase("fusion", ["f64[3]", "f64[3]"], {"computation": PAIR, "fusion_kind": "kLoop"}, skip=REWRITTEN),
    OpCase("bitcast", ["f64[4,3]"], bitcast((3, 4), "f64", (0, 1), (1, 0)), skip=REWRITTEN, name="transpose"),
    OpCase("bitcast", ["f64[2,3,4]"], bitcast((6, 4), "f64", (1, 2, 0), (0, 1)), skip=REWRITTEN, name="reshape"),
    OpCase("bitcast", ["f32[4,3]"], bitcast((12,), "s32", (0, 1), (0,)), order=0, tol=0.0, skip=REWRITTEN, name="bits"),
    OpCase(
        "bitcast", ["s16[4,3]"], bitcast((3, 2), "s32", (0, 1), (1, 0)), order=0, tol=0.0, skip=REWRITTEN,
        name="wider",
    ),
    OpCase(
        "bitcast", ["s32[2,3]"], bitcast((3, 4), "s16", (1, 0), (0, 1)), order=0, tol=0.0, skip=REWRITTEN,
        name="narrower",
    ),
    OpCase("bitcast", ["f64[]"], bitcast((1, 1), "f64", (), (1, 0)), skip=REWRITTEN, name="scalar"),
    OpCase("async_start", ["f64[3]", "f64[3]"], {"computation": PAIR}, skip=REWRITTEN),
    OpCase("async_update", ["(f64[3], s32[])"], skip=REWRITTEN),
    OpCase("async_done", ["(f64[3], s32[])"], skip=REWRITTEN),
    OpCase("add_dependency", ["f64[3]", "token[]"], skip=REWRITTEN),
    OpCase("domain", ["f64[3]"], {"kind": "", "entry_metadata": "", "exit_metadata": ""}, skip=REWRITTEN),
]  # fmt: skip

ERRORS: list[ErrorCase] = [
    ErrorCase("fusion", ["f64[3]"], {"computation": PAIR, "fusion_kind": "kLoop"}, "C1"),
    ErrorCase("fusion", ["f64[3]", "f64[3]"], {"computation": 1, "fusion_kind": "kLoop"}, "I1"),
    ErrorCase("fusion", ["f64[3]", "f64[3]"], {"computation": PAIR, "fusion_kind": "loop"}, "X1"),
    ErrorCase("async_start", ["f64[3]"], {"computation": PAIR}, "C1"),
    ErrorCase("async_start", ["f64[3]"], {"computation": None}, "I1"),
    ErrorCase("async_update", ["f64[3]"], {}, "I1"),
    ErrorCase("async_done", ["f64[3]"], {}, "I1"),
    ErrorCase("bitcast", ["token[]"], bitcast((), "f32", (), ()), "I1"),
    ErrorCase("bitcast", ["f32[<=3]"], bitcast((3,), "f32", (0,), (0,)), "X2"),
    ErrorCase("bitcast", ["f32[3]"], bitcast((3,), "f32", (1,), (0,)), "X1"),
    ErrorCase("bitcast", ["f32[3]"], bitcast((3,), "f32", (0,), (0, 1)), "X1", "result_layout"),
    ErrorCase("bitcast", ["f32[3]"], bitcast((4,), "f32", (0,), (0,)), "C1"),
    ErrorCase("add_dependency", ["f32[3]", "f32[3]"], {}, "I2"),
    ErrorCase("rng_get_and_update_state", [], {"delta": -1}, "X1"),
]
