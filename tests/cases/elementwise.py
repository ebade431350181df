"""Cases of the operations on two operands, and of neg."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from cases import ErrorCase, OpCase
from cases.values import (
    EIGHT_BITS,
    FLOATS,
    FLUSHED,
    INTEGERS,
    POWERLESS,
    POWERS,
    edges,
    floats,
    integers,
    numpy_dtype,
    pairs,
    subnormals,
)

# tolerance of results that XLA computes by other steps than numpy, by the width of the type
LOOSE = {"f16": 2e-3, "bf16": 2e-2, "f32": 1e-5, "f64": 1e-12, "c64": 1e-5, "c128": 1e-12}

ANY = ("pred", *INTEGERS, *EIGHT_BITS, *FLOATS, "c64", "c128")
NUMBER = ANY[1:]

#: operation: (element types, domain in which it is differentiated, tolerance)
ARITHMETIC = {
    "add": (ANY, (-2.0, 2.0), 0.0),
    "sub": (NUMBER, (-2.0, 2.0), 0.0),
    "mul": (ANY, (-2.0, 2.0), 0.0),
    "div": (NUMBER, (0.5, 2.0), 0.0),
    "max": (ANY[:-2], (-2.0, 2.0), 0.0),
    "min": (ANY[:-2], (-2.0, 2.0), 0.0),
}

CASES: list[OpCase] = []
for name, (dtypes, domain, tol) in ARITHMETIC.items():
    for dtype in dtypes:
        CASES.append(
            OpCase(
                name, pairs(edges(dtype)), tol=LOOSE.get(dtype, tol) if dtype[0] == "c" else tol,
                order=0, name=f"edges_{dtype}",
            )
        )  # fmt: skip
    CASES.append(OpCase(name, ["f64[2,3]", "f64[2,3]"], domain=domain))
    CASES.append(OpCase(name, ["f32[]", "f32[]"], domain=domain))
    CASES.append(OpCase(name, ["f32[0,3]", "f32[0,3]"]))
for name in ("add", "sub", "mul", "div", "pow", "atan2"):
    domain = (0.5, 1.5) if name in ("div", "pow", "atan2") else (-2.0, 2.0)
    CASES.append(OpCase(name, ["c128[4]", "c128[4]"], domain=domain))
for name in ("max", "min"):
    z = np.array([1 + 2j, 1 - 2j, -3 + 0.5j, 2 + 0j, 1 + 2j, complex(0.0, np.nan)])
    for dtype in ("c64", "c128"):
        given = pairs(z.astype(numpy_dtype(dtype)))
        CASES.append(OpCase(name, given, order=0, tol=0.0, name=f"order_{dtype}"))
    CASES.append(OpCase(name, ["c128[4]", "c128[4]"]))
    tie = np.array([1.0, 2.0, 3.0])
    CASES.append(OpCase(name, [tie, tie + np.array([-1.0, 1.0, -1.0])], name="apart"))

for dtype in INTEGERS:
    values = integers(dtype)
    # Of larger exponents XLA reads the low 6 bits, or more in later versions.
    exponents = values[values.astype(np.float64) < 6]
    CASES.append(OpCase("pow", pairs(values, exponents), order=0, tol=0.0, name=f"edges_{dtype}"))
    for name in ("rem", "and", "or", "xor"):
        CASES.append(OpCase(name, pairs(values), order=0, tol=0.0, name=f"edges_{dtype}"))
    width = int(dtype[1:])
    counts = [0, 1, width - 1, width, width + 1, -1]
    info = np.array([c for c in counts if dtype[0] == "s" or c >= 0])
    info = info.astype(np.int64).astype(numpy_dtype(dtype))
    for name in ("shift_left", "shift_right_arithmetic", "shift_right_logical"):
        CASES.append(OpCase(name, pairs(values, info), order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(OpCase("mulhi", pairs(values), order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(
        OpCase("mulhi", [f"{dtype}[1,1]", f"{dtype}[1,1]"], order=0, tol=0.0, name=f"one_{dtype}")
    )
    CASES.append(OpCase("neg", [values], order=0, tol=0.0, name=f"edges_{dtype}"))
for name in ("and", "or", "xor"):
    CASES.append(OpCase(name, pairs(edges("pred")), order=0, tol=0.0, name="edges_pred"))
CASES.append(OpCase("pow", pairs(np.array([-3, -1, 0, 1, 2], np.int32), np.arange(-3, 40, dtype=np.int32)),
                    order=0, tol=0.0, name="exponents"))  # fmt: skip

for dtype in (*EIGHT_BITS, *FLOATS):
    given = pairs(edges(dtype))
    loose = LOOSE.get(dtype, 0.07)
    for name in ("rem", "pow", "atan2"):
        CASES.append(OpCase(name, given, order=0, tol=loose, name=f"edges_{dtype}"))
    CASES.append(OpCase("next_after", given, order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(OpCase("neg", given[:1], order=0, tol=0.0, name=f"edges_{dtype}"))
ROOTS = np.array([-np.inf, -0.0, 0.0, np.inf, -4.0, 4.0, np.nan])
CASES += [
    OpCase("rem", ["f64[5]", "f64[5]"], domain=(0.6, 2.0)),
    OpCase("pow", ["f64[5]", "f64[5]"], domain=(0.5, 2.0)),
    OpCase("pow", [np.array([0.0, 0.0, -2.0, 3.0]), np.array([2.0, 3.0, 2.0, 0.0])], order=0, name="at_zero"),
    *[OpCase("pow", [ROOTS.astype(t), np.broadcast_to(np.array(y, t), 7)], order=0, name=f"roots_{y}_{np.dtype(t)}")
      for t in (np.float64, np.float32, np.float16) for y in (0.5, -0.5)],
    OpCase("pow", [np.array(-np.inf), np.array(0.5)], order=0, name="root_of_a_scalar"),
    OpCase("atan2", ["f64[5]", "f64[5]"], domain=(0.5, 2.0)),
    OpCase("atan2", [np.array([1.0, -1.0, 0.5]), np.array([-2.0, -1.0, 0.0])], name="left_half"),
    OpCase("next_after", ["f64[5]", "f64[5]"], order=0),
    OpCase("neg", ["f64[2,3]"]),
    OpCase("neg", ["c128[3]"]),
    OpCase("neg", ["f32[]"]),
]  # fmt: skip
for dtype in ("f32", "f64"):
    CASES.append(OpCase("complex", pairs(floats(dtype)), order=0, tol=0.0, name=f"edges_{dtype}"))
CASES.append(OpCase("complex", ["f64[2,3]", "f64[2,3]"]))


for name in ("add", "sub", "mul", "div", "rem", "pow", "max", "min", "atan2"):
    xfail = {} if name in ("add", "max", "min") else POWERLESS
    CASES.append(OpCase(name, pairs(POWERS), order=0, tol=0.0, name="f8e8m0fnu", xfail=xfail))


WHOLE = tuple(f"edges_{d}" for d in INTEGERS)


def defined(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where a division of integers has a result: not by 0, and not of the least integer by -1."""
    low = ml_dtypes.iinfo(x.dtype).min
    least = low < 0 and [a == low and b == -1 for a, b in zip(x, y, strict=True)]
    return (y != 0) & ~np.asarray(least)


TRAPS = {"reference": "StableHLO's interpreter divides as the processor does, and dies of SIGFPE"}
for dtype in INTEGERS:
    x, y = pairs(edges(dtype))
    has_result = defined(x, y)
    CASES += [
        OpCase(op, [x[has_result], y[has_result]], order=0, tol=0.0, name=f"defined_{dtype}")
        for op in ("div", "rem")
    ]
CASES = [
    replace(case, xfail=TRAPS) if case.op in ("div", "rem") and case.name in WHOLE else case
    for case in CASES
]

BINARY = (
    "add", "sub", "mul", "div", "rem", "pow", "max", "min", "atan2", "complex", "next_after",
)  # fmt: skip
BITWISE = (
    "and", "or", "xor", "shift_left", "shift_right_arithmetic", "shift_right_logical", "mulhi",
)  # fmt: skip

CASES += [
    OpCase(n, pairs(subnormals("f32")), order=0, name="subnormal", xfail=FLUSHED)
    for n in ("div", "rem", "atan2", "pow")
]

ERRORS = [
    *[ErrorCase(n, ["f32[3]", "f32[4]"], {}, "C1", "of one shape") for n in BINARY],
    *[ErrorCase(n, ["f32[3]", "f64[3]"], {}, "C1", "of one element type") for n in BINARY],
    *[ErrorCase(n, ["s32[3]", "s32[4]"], {}, "C1", "of one shape") for n in BITWISE],
    *[ErrorCase(n, ["s32[3]", "u32[3]"], {}, "C1", "of one element type") for n in BITWISE],
    *[ErrorCase(n, ["token[]", "token[]"], {}, "I1", "must be arrays") for n in BINARY + BITWISE],
    *[ErrorCase(n, ["f32[3]", "(f32[3])"], {}, "I2", "must be arrays") for n in BINARY],
    *[ErrorCase(n, ["f32[3]", "f32[3]"], {}, "I1", "of kind") for n in BITWISE],
    *[ErrorCase(n, ["pred[3]", "pred[3]"], {}, "I1", "of kind") for n in ("sub", "div", "rem", "pow")],
    ErrorCase("rem", ["c64[3]", "c64[3]"], {}, "I1", "of kind int, uint, float"),
    ErrorCase("atan2", ["s32[3]", "s32[3]"], {}, "I1", "of kind float, complex"),
    ErrorCase("complex", ["s32[3]", "s32[3]"], {}, "I1", "of kind float"),
    ErrorCase("complex", ["f16[3]", "f16[3]"], {}, "I1", "f32 or f64"),
    ErrorCase("add", ["f32[<=3]", "f32[3]"], {}, "C1", "dynamic dimensions"),
    ErrorCase("next_after", ["f8e8m0fnu[3]", "f8e8m0fnu[3]"], {}, "X1", "with a sign"),
    ErrorCase("neg", ["pred[3]"], {}, "I1", "of kind"),
    ErrorCase("neg", ["token[]"], {}, "I1", "of kind"),
    ErrorCase("neg", ["f32[3]"], {"axis": 0}, "X1", "no parameters"),
]  # fmt: skip
