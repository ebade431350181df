"""Cases of select and clamp."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import FLOATS, INTEGERS, NARROW, POWERS, edges, integers
from xlapy.specs import TokenSpec

CASES: list[OpCase] = []
CASES += [
    OpCase("select", ["pred[2,3]", "f64[2,3]", "f64[2,3]"]),
    OpCase("select", ["pred[]", "f64[2,3]", "f64[2,3]"], name="scalar_pred"),
    OpCase("select", ["pred[]", "f64[3]", "f64[3]"], name="scalar_pred_of_vectors"),
    OpCase("select", ["pred[]", "f64[]", "f64[]"], name="scalars"),
    OpCase("select", ["pred[3]", "c128[3]", "c128[3]"]),
    OpCase("select", ["pred[0]", "f32[0]", "f32[0]"], order=0),
]
for dtype in ("pred", *INTEGERS, *NARROW, *FLOATS, "f4e2m1fn", "f8e8m0fnu", "c64"):
    values = edges(dtype)
    pred = np.arange(values.size) % 2 == 0
    CASES.append(
        OpCase("select", [pred, values, values[::-1].copy()], order=0, tol=0.0, name=dtype)
    )


def clamp_edges(dtype: str) -> list[np.ndarray]:
    """Every value between every pair of bounds."""
    values = edges(dtype)
    grid = np.meshgrid(values, values, values, indexing="ij")
    return [np.ascontiguousarray(g.reshape(-1)) for g in grid]


CASES += [
    OpCase("clamp", clamp_edges(d), order=0, tol=0.0, name=d)
    for d in ("pred", "s4", "s32", "u8", "u64", "bf16", "f16", "f32", "f64", "f8e4m3fn")
]
CASES.append(OpCase("clamp", [np.ascontiguousarray(g.reshape(-1)) for g in np.meshgrid(POWERS, POWERS, POWERS)],
                    order=0, tol=0.0, name="f8e8m0fnu"))  # fmt: skip
LOW, HIGH = np.array(-0.5), np.array(1.25)
CASES += [
    OpCase("clamp", ["f64[2,3]", "f64[2,3]", "f64[2,3]"]),
    OpCase("clamp", [LOW, "f64[2,3]", HIGH], name="scalar_bounds"),
    OpCase("clamp", [LOW, "f64[4]", "f64[4]"], name="scalar_min"),
    OpCase("clamp", ["f64[4]", "f64[4]", HIGH], name="scalar_max"),
    OpCase("clamp", [LOW, "f64[]", HIGH], name="scalars"),
    OpCase("clamp", [LOW, "f64[0]", HIGH], order=0, name="empty"),
    OpCase("clamp", [np.array(-1j, np.complex64), "c64[4,5]", np.array(1 + 1j, np.complex64)], order=0, name="complex"),
    OpCase("clamp", ["c128[7]", "c128[7]", "c128[7]"], name="complex_bounds"),
    OpCase("clamp", [np.full(4, -1j), np.array([1 + 2j, 1 - 2j, -3 + 1j, 2]), np.full(4, 1 + 1j)], order=0,
           tol=0.0, name="complex_ties"),
    OpCase("clamp", [integers("s32")[:1].reshape(()), "s32[5]", integers("s32")[-1:].reshape(())], order=0,
           name="whole_range"),
]  # fmt: skip

# The same operand twice, which is compared with nothing.
TOKEN = TokenSpec()
ERRORS = [
    ErrorCase("select", ["s32[3]", "f32[3]", "f32[3]"], {}, "I1", "truth values"),
    ErrorCase("select", ["token[]", "f32[3]", "f32[3]"], {}, "I1", "truth values"),
    ErrorCase("select", ["pred[]", "token[]", "f32[3]"], {}, "I2", "arrays"),
    ErrorCase("select", ["pred[]", "f32[3]", "token[]"], {}, "I3", "arrays"),
    ErrorCase("select", ["pred[]", TOKEN, TOKEN], {}, "I2", "arrays"),
    ErrorCase("select", ["pred[2]", "f32[3]", "f32[3]"], {}, "C1", "scalar or"),
    ErrorCase("select", ["pred[3]", "f32[<=3]", "f32[<=3]"], {}, "C1", "scalar or"),
    ErrorCase("select", ["pred[3]", "f32[3]", "f64[3]"], {}, "C2", "one element type"),
    ErrorCase("select", ["pred[3]", "f32[3]", "f32[4]"], {}, "C2", "one shape"),
    ErrorCase("select", ["pred[3]", "f32[3]", "f32[<=3]"], {}, "C2", "dynamic dimensions"),
    ErrorCase("clamp", ["f32[2]", "f32[3]", "f32[]"], {}, "C1", "min must"),
    ErrorCase("clamp", ["f32[]", "f32[3]", "f32[2]"], {}, "C2", "max must"),
    ErrorCase("clamp", ["f64[]", "f32[3]", "f32[]"], {}, "C3", "min must"),
    ErrorCase("clamp", ["f32[]", "f32[3]", "s32[]"], {}, "C3", "max must"),
    ErrorCase("clamp", ["token[]", "f32[3]", "f32[]"], {}, "I1", "min must"),
    ErrorCase("clamp", ["f32[]", "token[]", "f32[]"], {}, "I2", "operand must"),
    ErrorCase("clamp", ["f32[]", "f32[3]", "(f32[])"], {}, "I3", "max must"),
]  # fmt: skip
