"""Cases of the operations of CHLO."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import EIGHT_BITS, FLOATS, NARROW, edges, floats, pairs
from xlapy.ops import ResultAccuracy

LOOSE = {"f16": 4e-3, "bf16": 2e-2, "f32": 2e-5, "f64": 1e-11}
#: operation: (real domain for derivatives, complex domain or None)
FUNCTIONS: dict[str, tuple[tuple[float, float], tuple[float, float] | None]] = {
    "sinh": ((-2.0, 2.0), (-1.0, 1.0)),
    "cosh": ((-2.0, 2.0), (-1.0, 1.0)),
    "asin": ((-0.8, 0.8), (0.2, 0.7)),
    "acos": ((-0.8, 0.8), (0.2, 0.7)),
    "atan": ((-2.0, 2.0), (0.2, 0.7)),
    "asinh": ((-2.0, 2.0), (0.2, 0.7)),
    "acosh": ((1.3, 3.0), (0.2, 0.7)),
    "atanh": ((-0.8, 0.8), (0.2, 0.7)),
    "erf": ((-2.0, 2.0), None),
    "erfc": ((-2.0, 2.0), None),
    "erf_inv": ((-0.8, 0.8), None),
    "lgamma": ((0.5, 4.0), None),
    "digamma": ((0.5, 4.0), None),
    "bessel_i1e": ((0.3, 3.0), None),
    "square": ((-2.0, 2.0), (-1.0, 1.0)),
    "conj": ((-2.0, 2.0), (-1.0, 1.0)),
}
WIDE_ONLY = ("erfc", "bessel_i1e")
# XLA's compositions lose digits in the 8-bit types, where they are computed step by step.
COARSE = 0.3

CASES: list[OpCase] = []
for name, (domain, complex_domain) in FUNCTIONS.items():
    for dtype in FLOATS:
        # digamma(0) is nan to XLA before jaxlib 0.11, and infinite afterwards.
        given = floats(dtype)[2:] if name == "digamma" else floats(dtype)
        CASES.append(OpCase(name, [given], order=0, tol=LOOSE[dtype], name=f"edges_{dtype}"))
    inside = np.linspace(*domain, 9)
    if name not in WIDE_ONLY:
        for dtype in EIGHT_BITS[:2]:
            CASES.append(
                OpCase(
                    name,
                    [f"{dtype}[9]"],
                    domain=domain,
                    order=0,
                    tol=COARSE,
                    name=f"inside_{dtype}",
                )
            )
    CASES.append(OpCase(name, [inside], name="inside"))
    CASES.append(OpCase(name, ["f64[2,3]"], domain=domain))
    CASES.append(OpCase(name, ["f32[]"], domain=domain))
    CASES.append(OpCase(name, ["f32[0]"], order=0))
    if complex_domain is not None:
        CASES.append(OpCase(name, ["c128[4]"], domain=complex_domain))
        CASES.append(OpCase(name, ["c64[4]"], domain=complex_domain, order=0))
        CASES.append(OpCase(name, [edges("c128")[5:]], order=0, tol=1e-11, name="edges_c128"))
CASES += [
    OpCase("lgamma", [np.array([-0.5, -1.5, -2.25, 30.0, 1e5])], order=1, tol=1e-10, name="reflected"),
    OpCase("digamma", [np.array([-0.5, -1.5, -2.25, 30.0, 1e5])], order=1, tol=1e-10, name="reflected"),
    OpCase("bessel_i1e", [np.array([-12.0, -3.0, 0.1, 7.9, 8.5, 40.0])], tol=1e-11, name="near_and_far"),
    OpCase("bessel_i1e", [np.array([0.0])], order=0, name="at_0"),
    OpCase("erfc", [np.array([5.0, 10.0, -5.0])], tol=1e-12, name="tails"),
    OpCase("erf_inv", [np.array([0.99999, -0.99999])], order=0, tol=1e-10, name="tails"),
]  # fmt: skip
for name in ("is_inf", "is_pos_inf", "is_neg_inf"):
    for dtype in (*NARROW, *FLOATS):
        CASES.append(OpCase(name, [floats(dtype)], order=0, tol=0.0, name=f"edges_{dtype}"))
    CASES.append(OpCase(name, ["f64[2,3]"], order=1))

ORDERS = np.array([0.0, 1.0, 2.0, 5.0])
POINTS = np.array([0.5, 1.0, 2.5, 30.0])
for dtype in FLOATS:
    given = [a.astype(floats(dtype).dtype) for a in pairs(ORDERS[:3], POINTS)]
    CASES.append(OpCase("polygamma", given, order=0, tol=10 * LOOSE[dtype], name=f"values_{dtype}"))
    given = [a.astype(floats(dtype).dtype) for a in pairs(np.array([1.0, 1.5, 2.0, 7.0]), POINTS)]
    CASES.append(OpCase("zeta", given, order=0, tol=10 * LOOSE[dtype], name=f"values_{dtype}"))
LEFT = np.array([-0.25, -1.5, -8.5, -9.75, -12.25, -20.5, -100.75])
for dtype in FLOATS[2:]:
    for name, orders in (
        ("polygamma", np.array([1.0, 2.0, 3.0])),
        ("zeta", np.array([2.0, 3.0, 4.0])),
    ):
        given = [a.astype(floats(dtype).dtype) for a in pairs(orders, LEFT)]
        CASES.append(OpCase(name, given, order=0, tol=100 * LOOSE[dtype], name=f"left_{dtype}"))
CASES += [
    OpCase(
        "zeta",
        pairs(
            np.array([1.0, 0.5, 1.5, 2.0, 3.0, np.inf, np.nan]),
            np.array([-2.0, -2.5, -0.0, 0.0, np.nan]),
        ),
        order=0,
        tol=1e-12,
        name="poles_and_roots",
    ),
    OpCase(
        "polygamma",
        pairs(np.array([-1.0, 0.5, 1.0, 2.0, np.nan]), np.array([-2.0, -2.5, np.nan])),
        order=0,
        tol=1e-12,
        name="poles_and_orders",
    ),
    OpCase(
        "zeta",
        [np.full(3, 3.0), np.array([-0.25, -9.5, -20.75])],
        wrt=(1,),
        order=1,
        tol=1e-10,
        name="slope_left",
    ),
    OpCase(
        "polygamma",
        [np.full(3, 1.0), np.array([-0.25, -9.25, -20.75])],
        wrt=(1,),
        order=1,
        tol=1e-9,
        name="slope_left",
    ),
    OpCase("polygamma", ["f32[0]", "f32[0]"], order=0),
    OpCase("zeta", ["f32[0]", "f32[0]"], order=0),
]

UNARY = (*FUNCTIONS, "is_inf", "is_pos_inf", "is_neg_inf")
INACCURATE = (
    (ResultAccuracy(-1.0), "not be negative"),
    (ResultAccuracy(mode="BEST"), "mode must"),
    (ResultAccuracy(1.0, mode="HIGHEST"), "only the mode"),
)
CHECKED = tuple(n for n in UNARY if n not in ("square", "conj"))
ERRORS = [
    *[ErrorCase(n, ["s32[3]"], {}, "I1", "of kind") for n in UNARY],
    *[ErrorCase(n, ["token[]"], {}, "I1", "of kind") for n in UNARY],
    *[ErrorCase(n, ["c64[3]"], {}, "I1", "of kind float") for n, (_, c) in FUNCTIONS.items() if c is None],
    *[ErrorCase(n, ["f4e2m1fn[3]"], {}, "X1", "convert it first") for n in CHECKED],
    *[ErrorCase(n, ["f8e8m0fnu[3]"], {}, "X1", "convert it first") for n in CHECKED],
    *[ErrorCase(n, ["f8e5m2[3]"], {}, "X1", "16 bits") for n in WIDE_ONLY],
    *[ErrorCase(n, ["f32[3]"], {"axis": 0}, "X1", "no parameters") for n in ("sinh", "is_inf", "conj")],
    *[ErrorCase(n, ["f32[3]"], {"result_accuracy": "best"}, "X1", "ResultAccuracy") for n in ("cosh", "erf")],
    *[ErrorCase(n, ["f32[3]"], {"result_accuracy": a}, "X1", w) for n in ("cosh", "erf") for a, w in INACCURATE],
    *[ErrorCase(n, ["f32[3]", "f32[4]"], {}, "C1", "one shape") for n in ("polygamma", "zeta")],
    *[ErrorCase(n, ["f32[3]", "f32[<=3]"], {}, "C1", "dynamic dimensions") for n in ("polygamma", "zeta")],
    *[ErrorCase(n, ["f32[3]", "f64[3]"], {}, "C1", "one element type") for n in ("polygamma", "zeta")],
    *[ErrorCase(n, ["s32[3]", "s32[3]"], {}, "I1", "of kind float") for n in ("polygamma", "zeta")],
    *[ErrorCase(n, ["token[]", "f32[3]"], {}, "I1", "arrays") for n in ("polygamma", "zeta")],
    *[ErrorCase(n, ["f32[3]", "token[]"], {}, "I2", "arrays") for n in ("polygamma", "zeta")],
    *[ErrorCase(n, ["f4e2m1fn[3]", "f4e2m1fn[3]"], {}, "X1", "convert") for n in ("polygamma", "zeta")],
]  # fmt: skip
