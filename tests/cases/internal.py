"""Cases of what appears in HLO dumps."""

from __future__ import annotations

from cases import ErrorCase, OpCase, body
from xlapy import ops

REWRITTEN = {"roundtrip": "it is written as what it is made of"}
PAIR = body(lambda x, y: (ops.mul(ops.sin(x), y), ops.neg(y)), "f64[3]", "f64[3]")


CASES: list[OpCase] = [
    OpCase("fusion", ["f64[3]", "f64[3]"], {"computation": PAIR, "fusion_kind": "kLoop"}, skip=REWRITTEN),
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
    ErrorCase("add_dependency", ["f32[3]", "f32[3]"], {}, "I2"),
    ErrorCase("rng_get_and_update_state", [], {"delta": -1}, "X1"),
]
