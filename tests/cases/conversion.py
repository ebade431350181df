"""Cases of conversions between element types."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

from cases import ErrorCase, OpCase, body, until
from cases.values import (
    FLOATS,
    INTEGERS,
    NARROW,
    POWERS,
    beside_ties,
    edges,
    floats,
    numpy_dtype,
    subnormals,
)
from xlapy import ops
from xlapy.dtypes import as_dtype

EVERY = ("pred", *INTEGERS, "f4e2m1fn", *NARROW, "f8e8m0fnu", *FLOATS, "c64", "c128")

CASES: list[OpCase] = []
# Every element type from and to f32 and s32; the edges between those that people use.
for source in EVERY:
    values = np.array(
        [0.0, 1.0, 1.0, 0.0] if source in ("pred", "u2", "s2") else [0.0, 1.0, 2.0, 4.0]
    )
    for target in EVERY:
        if source != target and ("f32" in (source, target) or "s32" in (source, target)):
            given = values.astype(np.float32).astype(numpy_dtype(source))
            CASES.append(
                OpCase(
                    "convert_element_type", [given], {"dtype": as_dtype(target)}, order=0, tol=0.0,
                    name=f"{source}_{target}",
                )
            )  # fmt: skip
# The largest numbers of narrow floats.
for source in ("f4e2m1fn", *NARROW):
    largest = np.asarray(ml_dtypes.finfo(numpy_dtype(source)).max, numpy_dtype(source))
    given = np.stack([largest, -largest]).astype(numpy_dtype(source))
    CASES += [
        OpCase(
            "convert_element_type", [given], {"dtype": as_dtype(target)}, order=0, tol=0.0,
            name=f"largest_{source}_{target}",
        )
        for target in (*INTEGERS, "f32")
    ]  # fmt: skip
USUAL = ("pred", "s4", "s8", "s32", "s64", "u8", "u32", "u64", "bf16", "f16", "f32", "f64", "c64")
CONSTANT = np.array([2.5 + 1j, 1j], np.complex64)
LARGE = np.array([1e10, -1e10, 3e19, -3e19, 255.5, -128.7, 65504.0, 3.4e38])
for source in USUAL:
    values = edges(source)
    if source in FLOATS:
        with np.errstate(over="ignore"):
            values = np.concatenate([values, LARGE.astype(values.dtype)])
    for target in USUAL:
        if source != target:
            CASES.append(
                OpCase(
                    "convert_element_type", [values], {"dtype": as_dtype(target)}, order=0, tol=0.0,
                    name=f"edges_{source}_{target}",
                )
            )  # fmt: skip
CASES += [
    OpCase("convert_element_type", ["f64[2,3]"], {"dtype": as_dtype("c128")}),
    OpCase("convert_element_type", ["c128[2,3]"], {"dtype": as_dtype("f64")}),
    OpCase("convert_element_type", ["f64[]"], {"dtype": as_dtype("f64")}),
    OpCase("convert_element_type", ["f64[3]"], {"dtype": as_dtype("s32")}, order=1),
    OpCase("convert_element_type", ["f32[0]"], {"dtype": as_dtype("f64")}, order=0),
    *[
        # Computed when the program is compiled.
        OpCase(
            "call", ["f32[]"], {"computation": body(lambda x, t=t: ops.convert(CONSTANT, t), "f32[]")}, order=0,
            tol=0.0, name=f"of_complex_constant_{t}",
        )
        for t in ("f32", "f64", "u8", "pred", "c128")
    ],
]  # fmt: skip

LITTLE = np.array(
    [2.0**e * m for e in (-160, -150, -149, -130, -128, -127, -126) for m in (1.0, 1.25, 1.75)]
)
TO_POWERS = {
    "reference": "StableHLO's interpreter has no zero in f8e8m0fnu, and takes it for the least number"
}
CASES += [
    OpCase("convert_element_type", [x], {"dtype": as_dtype("f8e8m0fnu")}, order=0, tol=0.0, name=f"little_{x.dtype}",
           xfail=TO_POWERS)
    for x in (LITTLE, LITTLE + 1j, LITTLE.astype(np.float32))
]  # fmt: skip
SCALES = {"reference": "StableHLO's interpreter has no nan in f8e8m0fnu"}
CASES += [
    OpCase("convert_element_type", [POWERS], {"dtype": as_dtype(t)}, order=0, tol=0.0, name=f"powers_{t}",
           xfail={} if t in ("pred", "s32", "u8") else until("0.11.2", SCALES))
    for t in ("pred", "f64", "f32", "bf16", "c128", "s32", "u8", "f8e5m2")
]  # fmt: skip
CASES = [
    replace(case, xfail=until("0.11.2", SCALES) if case.name.startswith("f8e8m0fnu") else SCALES)
    if case.name in ("s32_f8e8m0fnu", "f32_f8e8m0fnu", "f8e8m0fnu_f32")
    else case
    for case in CASES
]


def bits(source: str, target: str, spec: str = "[2,3]") -> OpCase:
    """A reinterpretation of random bits."""
    return OpCase(
        "bitcast_convert_type", [source + spec], {"dtype": as_dtype(target)}, order=0, tol=0.0,
        name=f"{source}{spec}_{target}",
    )  # fmt: skip


SAME = (("f32", "s32"), ("f64", "u64"), ("bf16", "f16"), ("u8", "f8e4m3fn"), ("s4", "u4"))
CASES += [bits(a, b) for a, b in SAME]
CASES += [bits(b, a) for a, b in SAME]
CASES += [
    bits(a, b)
    for a, b in (("f32", "u16"), ("f32", "u8"), ("f64", "s8"), ("s64", "f32"), ("u8", "u4"))
]
CASES += [bits("u16", "f32", "[3,2]"), bits("u8", "f32", "[3,4]"), bits("s8", "f64", "[2,2,8]"),
          bits("f32", "s64", "[2]"), bits("u4", "u8", "[3,2]"), bits("f32", "f32", "[]"), bits("f32", "u8", "[]"),
          bits("f32", "u16", "[0]"), bits("c64", "c64", "[2]")]  # fmt: skip
# Written as compositions, for XLA dies of these or takes a truth value for eight bits.
CASES += [
    bits("c128", "c64"),
    bits("c128", "c64", "[]"),
    bits("c64", "c128", "[3,2]"),
    bits("c64", "c128", "[0,2]"),
]
CASES += [bits(a, "pred") for a in ("s8", "u16", "f32", "f64", "s4", "u2", "f8e5m2", "f4e2m1fn")]
CASES += [
    bits("pred", a, f"[3,{n}]")
    for a, n in (("s8", 8), ("bf16", 16), ("s64", 64), ("u4", 4), ("s2", 2))
]
CASES += [
    bits("pred", "pred"),
    bits("s32", "pred", "[0]"),
    bits("pred", "f32", "[0,32]"),
    bits("u8", "pred", "[]"),
]
# Six bits make three times two, or six truth values.
CASES += [
    replace(bits(a, b, spec), skip={"pjrt": "XLA runs no 6-bit element types"})
    for a, b, spec in (("f6e2m3fn", "s2", "[3]"), ("u2", "f6e3m2fn", "[2,3]"), ("f6e3m2fn", "pred", "[2]"),
                       ("pred", "f6e2m3fn", "[3,6]"), ("f6e2m3fn", "f6e3m2fn", "[3]"))
]  # fmt: skip

NAN = {"reference": "StableHLO's interpreter lets nan become inf where no mantissa is left"}
for exponent, mantissa in ((8, 23), (5, 10), (8, 7), (4, 3), (2, 0), (1, 1)):
    for dtype in ("f32", "f64", "bf16"):
        values = np.concatenate([floats("f64"), np.linspace(-20, 20, 33), [1e-3, 70000.0]])
        with np.errstate(over="ignore"):
            values = values.astype(numpy_dtype(dtype))
        CASES.append(
            OpCase(
                "reduce_precision", [values], {"exponent_bits": exponent, "mantissa_bits": mantissa},
                order=0, tol=0.0, name=f"e{exponent}m{mantissa}_{dtype}",
                xfail=NAN if (exponent, mantissa) == (2, 0) else {},
            )
        )  # fmt: skip
CASES.append(
    OpCase("reduce_precision", ["f64[3]"], {"exponent_bits": 11, "mantissa_bits": 52}, name="whole")
)

for name in ("real", "imag"):
    CASES += [
        OpCase(name, ["c128[2,3]"]),
        OpCase(name, ["c64[]"], order=0),
        OpCase(name, ["c64[0]"], order=0),
        OpCase(name, ["f64[3]"]),
        OpCase(name, [floats("f16")], order=0, tol=0.0, name="real_f16"),
    ]

TO_F32 = {"dtype": as_dtype("f32")}
CASES += [
    OpCase(
        "convert_element_type", [subnormals(d)], {"dtype": as_dtype("pred")}, order=0, tol=0.0,
        name=f"subnormal_{d}_pred",
    )
    for d in FLOATS
]  # fmt: skip
CASES.append(
    OpCase(
        "convert_element_type", [np.array([0, 1e-45, -1e-45j, 1e-39 - 1e-45j], np.complex64)],
        {"dtype": as_dtype("pred")}, order=0, tol=0.0, name="subnormal_c64_pred",
    )
)  # fmt: skip

# Next to a tie, by less than f32 has: on the way by f32 they would lose what they differ by, and be rounded again.
CASES += [
    OpCase(
        "convert_element_type", [beside_ties(d, source)], {"dtype": as_dtype(d)}, order=0, tol=0.0,
        name=f"beside_ties_{source}_{d}",
    )
    for source, made in (("f64", ("bf16", "f16", "f4e2m1fn", *NARROW)), ("s32", ("bf16",)), ("s64", ("bf16",)),
                         ("u32", ("bf16",)), ("u64", ("bf16",)))
    for d in made
]  # fmt: skip

ERRORS = [
    ErrorCase("convert_element_type", ["token[]"], TO_F32, "I1", "must be an array"),
    ErrorCase("convert_element_type", ["f32[3]"], {"dtype": "f32"}, "X1", "element types"),
    ErrorCase("bitcast_convert_type", ["(f32[3])"], TO_F32, "I1", "must be an array"),
    ErrorCase("bitcast_convert_type", ["f32[3]"], {"dtype": None}, "X1", "element types"),
    ErrorCase("bitcast_convert_type", ["f6e2m3fn[4]"], {"dtype": as_dtype("u8")}, "C1", "multiple"),
    ErrorCase("bitcast_convert_type", ["u16[3]"], TO_F32, "C1", "last dimension"),
    ErrorCase("bitcast_convert_type", ["u16[]"], TO_F32, "C1", "last dimension"),
    ErrorCase("bitcast_convert_type", ["u16[<=2]"], TO_F32, "C1", "last dimension"),
    ErrorCase("bitcast_convert_type", ["c64[3]"], {"dtype": as_dtype("s64")}, "C2", "complex"),
    ErrorCase("bitcast_convert_type", ["f64[3]"], {"dtype": as_dtype("c64")}, "C2", "complex"),
    ErrorCase("reduce_precision", ["s32[3]"], {"exponent_bits": 5, "mantissa_bits": 3}, "I1", "kind float"),
    ErrorCase("reduce_precision", ["f32[3]"], {"exponent_bits": 0, "mantissa_bits": 3}, "C2", "exponent_bits"),
    ErrorCase("reduce_precision", ["f32[3]"], {"exponent_bits": 5, "mantissa_bits": -1}, "C3", "mantissa_bits"),
    ErrorCase("real", ["s32[3]"], {}, "I1", "of kind float, complex"),
    ErrorCase("imag", ["token[]"], {}, "I1", "of kind float, complex"),
    ErrorCase("real", ["f32[3]"], {"axis": 0}, "X1", "no parameters"),
]  # fmt: skip
