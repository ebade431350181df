"""Cases of the operations of StableHLO on one operand."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase, until
from cases.values import (
    EIGHT_BITS,
    FLOATS,
    FLUSHED,
    INTEGERS,
    NARROW,
    POWERLESS,
    POWERS,
    edges,
    floats,
    integers,
    subnormals,
)
from xlapy.ops import ResultAccuracy

LOOSE = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-5, "f64": 1e-12}
#: operation: the real domain for derivatives
ELEMENTARY = {
    "exp": (-2.0, 2.0), "expm1": (-2.0, 2.0), "log": (0.5, 3.0), "log1p": (-0.4, 3.0),
    "logistic": (-3.0, 3.0), "rsqrt": (0.5, 3.0), "sqrt": (0.5, 3.0), "cbrt": (0.5, 3.0),
    "sin": (-3.0, 3.0), "cos": (-3.0, 3.0), "tan": (-1.2, 1.2), "tanh": (-2.0, 2.0),
}  # fmt: skip
ROUNDING = ("ceil", "floor", "round_nearest_afz", "round_nearest_even")

CASES: list[OpCase] = []
for name, domain in ELEMENTARY.items():
    for dtype in (*EIGHT_BITS, *FLOATS):
        tol = LOOSE.get(dtype, 0.15)
        # The tangent of 100 hangs on every bit of pi; infinite angles are nan alike.
        CASES.append(OpCase(name, [floats(dtype)], order=0, tol=tol, name=f"edges_{dtype}"))
    CASES.append(OpCase(name, ["f64[2,3]"], domain=domain))
    CASES.append(OpCase(name, ["f32[]"], domain=domain))
    CASES.append(OpCase(name, ["f32[0]"], order=0))
    CASES.append(OpCase(name, ["c128[4]"], domain=(0.3, 1.2)))
    CASES.append(OpCase(name, ["c64[4]"], domain=(-1.2, 1.2), order=0))
    for accuracy in (ResultAccuracy(mode="HIGHEST"), ResultAccuracy(1e-6, 1e-5, 2)):
        CASES.append(
            OpCase(name, ["f32[3]"], {"result_accuracy": accuracy}, domain=domain, order=1, name=accuracy.mode)
        )  # fmt: skip
CASES += [
    OpCase("expm1", [np.array([1e-10, -1e-10, 1e-3])], tol=1e-14, name="near_0"),
    OpCase("log1p", [np.array([1e-10, -1e-10, 1e-3])], tol=1e-14, name="near_0"),
    OpCase("cbrt", [np.array([-8.0, -0.5, 27.0])], name="negative"),
]

TIES = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999997, -0.49999997, 8388609.0])
for name in ROUNDING:
    for dtype in (*EIGHT_BITS, *FLOATS):
        CASES.append(OpCase(name, [floats(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(OpCase(name, [TIES.astype(np.float32)], order=0, tol=0.0, name="ties"))
    CASES.append(OpCase(name, ["f64[2,3]"], order=1))

for dtype in (*NARROW, *FLOATS, "f4e2m1fn", "f8e8m0fnu"):
    CASES.append(OpCase("is_finite", [floats(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(OpCase("abs", [floats(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(OpCase("sign", [floats(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
for dtype in INTEGERS:
    for name in ("not", "population_count", "clz"):
        CASES.append(OpCase(name, [integers(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
    if dtype[0] == "s":
        for name in ("abs", "sign"):
            CASES.append(OpCase(name, [integers(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
every = np.arange(256, dtype=np.uint8)
CASES += [
    OpCase("not", [edges("pred")], order=0, tol=0.0, name="pred"),
    OpCase("population_count", [every], order=0, tol=0.0, name="every_byte"),
    OpCase("clz", [every], order=0, tol=0.0, name="every_byte"),
    OpCase("clz", ["s32[]"], order=0, tol=0.0),
    OpCase("population_count", ["s32[0]"], order=0, tol=0.0),
    OpCase("is_finite", ["f32[2,3]"], order=1),
    OpCase("abs", ["f64[2,3]"], domain=(0.2, 2.0)),
    OpCase("abs", [np.array([-1.5, 2.0, -0.25])], name="both_signs"),
    OpCase("abs", ["c128[4]"], domain=(0.3, 2.0)),
    OpCase("abs", ["c64[4]"], order=0),
    OpCase("abs", [np.array([0j, 3 - 4j, -1 + 0j])], order=0, name="complex_zero"),
    OpCase("sign", ["f64[2,3]"], order=1),
    OpCase("sign", ["c128[4]"], domain=(0.3, 2.0)),
    OpCase("sign", [np.array([0j, 3 - 4j, -1 + 0j])], order=0, name="complex_zero"),
]

for dtype in FLOATS:
    near = subnormals(dtype)
    CASES += [
        OpCase(n, [near], order=0, tol=0.0, name=f"{dtype}_subnormal")
        for n in (*ROUNDING, "is_finite", "sign")
    ]
    if dtype != "f16":  # those are normal numbers of f32
        CASES += [
            OpCase(n, [near], order=0, name=f"{dtype}_subnormal", xfail=FLUSHED)
            for n in ("log", "rsqrt", "sqrt")
        ]

for name in (*ROUNDING, "abs", "exp", "log", "log1p", "logistic", "rsqrt", "sqrt", "cbrt", "tanh"):
    xfail = {} if name in ("ceil", "abs", "exp", "log1p", "sqrt", "cbrt") else POWERLESS
    if name in ("rsqrt", "tanh"):
        xfail = until("0.12", POWERLESS)
    CASES.append(OpCase(name, [POWERS], order=0, tol=0.0, name="f8e8m0fnu", xfail=xfail))

FLOATING = (*ROUNDING, "is_finite")
ERRORS = [
    *[ErrorCase(n, ["s32[3]"], {}, "I1", "of kind float") for n in (*ELEMENTARY, *FLOATING)],
    *[ErrorCase(n, ["token[]"], {}, "I1", "of kind") for n in (*ELEMENTARY, *FLOATING, "abs", "sign", "not")],
    *[ErrorCase(n, ["c64[3]"], {}, "I1", "of kind float") for n in FLOATING],
    *[ErrorCase(n, ["f32[3]"], {}, "I1", "of kind") for n in ("not", "clz", "population_count")],
    *[ErrorCase(n, ["pred[3]"], {}, "I1", "of kind") for n in ("clz", "population_count")],
    *[ErrorCase(n, ["u32[3]"], {}, "I1", "of kind int, float") for n in ("abs", "sign")],
    *[ErrorCase(n, ["f32[3]"], {"result_accuracy": "best"}, "X1", "ResultAccuracy") for n in ELEMENTARY],
    ErrorCase("exp", ["f32[3]"], {"result_accuracy": ResultAccuracy(-1.0)}, "X1", "not be negative"),
    ErrorCase("exp", ["f32[3]"], {"result_accuracy": ResultAccuracy(mode="BEST")}, "X1", "mode must"),
    ErrorCase("exp", ["f32[3]"], {"result_accuracy": ResultAccuracy(1.0, mode="HIGHEST")}, "X1", "only the mode"),
    ErrorCase("abs", ["f32[3]"], {"axis": 0}, "X1", "no parameters"),
]  # fmt: skip
