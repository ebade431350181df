"""Cases of compare."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import FLOATS, NARROW, edges, floats, numpy_dtype, pairs, subnormals
from xlapy.specs import TokenSpec

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
TOTAL = {"reference": "StableHLO's interpreter takes TOTALORDER for FLOAT"}
KINDS = {"s": "SIGNED", "u": "UNSIGNED", "p": "UNSIGNED", "f": "FLOAT", "b": "FLOAT"}


def compare(direction: str, dtype: str, kind: str | None, values: np.ndarray) -> OpCase:
    """Every pair of values compared."""
    params = {"comparison_direction": direction, "compare_type": kind}
    name = f"{direction}_{kind}_{dtype}"
    xfail = TOTAL if kind == "TOTALORDER" else {}
    return OpCase("compare", pairs(values), params, order=0, tol=0.0, name=name, xfail=xfail)


CASES: list[OpCase] = []
for direction in DIRECTIONS:
    for dtype in ("pred", "s4", "s32", "s64", "u4", "u32", "u64", "bf16", "f32", "f64", "f8e5m2"):
        CASES.append(compare(direction, dtype, KINDS[dtype[0]], edges(dtype)))
    both = np.concatenate([floats("f64"), [-np.nan]])
    for dtype in (*(NARROW if direction == "LT" else ()), *FLOATS):
        CASES.append(compare(direction, dtype, "TOTALORDER", both.astype(numpy_dtype(dtype))))
for dtype in ("c64", "c128"):
    for direction in ("EQ", "NE"):
        CASES.append(compare(direction, dtype, "FLOAT", edges(dtype)))
CASES += [
    compare("LT", "f32", None, floats("f32")),
    OpCase("compare", ["f32[]", "f32[]"], {"comparison_direction": "LT", "compare_type": "FLOAT"}),
    OpCase("compare", ["f32[0,2]", "f32[0,2]"], {"comparison_direction": "LT", "compare_type": "FLOAT"}),
]  # fmt: skip

for dtype in ("bf16", "f32", "f64"):
    near = subnormals(dtype)
    CASES += [
        OpCase(
            "compare", pairs(near), {"comparison_direction": d, "compare_type": "FLOAT"}, order=0,
            name=f"{d}_{dtype}_subnormal",
        )
        for d in DIRECTIONS
    ]  # fmt: skip
for dtype in ("c64", "c128"):
    near = subnormals("f32" if dtype == "c64" else "f64")[[0, 2, 6, 9, 15]]
    points = (near[:, None] + 1j * near).reshape(-1)
    CASES += [
        OpCase(
            "compare", pairs(points), {"comparison_direction": d, "compare_type": "FLOAT"}, order=0,
            name=f"{d}_{dtype}_subnormal",
        )
        for d in ("EQ", "NE")
    ]  # fmt: skip

LESS = {"comparison_direction": "LT", "compare_type": None}
# The same operand twice, which is compared with nothing.
TOKEN = TokenSpec()
ERRORS = [
    ErrorCase("compare", ["f32[3]", "f64[3]"], LESS, "C1", "one element type"),
    ErrorCase("compare", ["f32[3]", "f32[4]"], LESS, "C2", "one shape"),
    ErrorCase("compare", ["f32[<=3]", "f32[3]"], LESS, "C2", "dynamic"),
    ErrorCase("compare", ["token[]", "token[]"], LESS, "I1", "arrays"),
    ErrorCase("compare", [TOKEN, TOKEN], LESS, "I1", "arrays"),
    ErrorCase("compare", ["f32[3]", "(f32[3])"], LESS, "I2", "arrays"),
    ErrorCase("compare", ["f32[3]", "f32[3]"], {"comparison_direction": "XX"}, "I3", "one of EQ"),
    ErrorCase("compare", ["c64[3]", "c64[3]"], LESS, "X1", "no order"),
    *[
        ErrorCase("compare", [f"{d}[3]", f"{d}[3]"], LESS | {"compare_type": t}, "C3", "compare_type")
        for d, t in (
            ("s32", "UNSIGNED"), ("u32", "SIGNED"), ("pred", "FLOAT"), ("f32", "SIGNED"), ("s32", "TOTALORDER"),
            ("f32", "nonsense"),
        )
    ],
    ErrorCase("compare", ["c64[3]", "c64[3]"], {"comparison_direction": "EQ", "compare_type": "TOTALORDER"}, "C3"),
]  # fmt: skip
