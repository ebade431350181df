"""Cases of dot_general."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import INTEGERS, NARROW, numpy_dtype

Ints = tuple[int, ...]


def params(
    lc: Ints = (1,),
    rc: Ints = (0,),
    lb: Ints = (),
    rb: Ints = (),
    preferred: Any = "f32",
    **more: Any,
) -> dict[str, Any]:
    """The parameters of a product; by default of two matrices."""
    from xlapy.dtypes import as_dtype

    return {
        "lhs_batching_dimensions": lb,
        "rhs_batching_dimensions": rb,
        "lhs_contracting_dimensions": lc,
        "rhs_contracting_dimensions": rc,
        "precision_config": None,
        "preferred_element_type": as_dtype(preferred),
        "algorithm": None,
    } | more


def dot(lhs: str, rhs: str, *dims: Ints, preferred: str = "f64", **more: Any) -> OpCase:
    """A product of arrays of any shape: dimensions as in `params`."""
    given = params(*dims, preferred=preferred)
    return OpCase("dot_general", [lhs, rhs], given, tol=1e-12, name=f"{lhs}_{rhs}_{dims}", **more)


def typed(lhs: str, rhs: str, preferred: str, **options: Any) -> OpCase:
    """A product of small matrices of these element types."""
    tol = {"f16": 2e-3, "bf16": 2e-2, "f64": 1e-12, "c128": 1e-12}.get(preferred, 1e-5)
    options = {"tol": tol, "order": 1, **options}
    return OpCase(
        "dot_general",
        [f"{lhs}[2,5]", f"{rhs}[5,3]"],
        params(preferred=preferred),
        name=f"{lhs}_{rhs}_{preferred}",
        **options,
    )


def exact(lhs: Any, rhs: Any, preferred: str, name: str) -> OpCase:
    """A product of given matrices."""
    return OpCase(
        "dot_general", [lhs, rhs], params(preferred=preferred), tol=0.0, order=0, name=name
    )


_ROUNDS = {"reference": "StableHLO's interpreter sums in the type of the result"}
_generator = np.random.default_rng(0)


def _full(dtype: str, *shape: int) -> Any:
    """Integers over the whole range of a type, its ends among them."""
    limits = np.iinfo(numpy_dtype(dtype))
    values = _generator.integers(limits.min, limits.max, shape, numpy_dtype(dtype), endpoint=True)
    values.flat[:2] = limits.min, limits.max
    return values


def _algorithm(name: str) -> OpCase:
    from xlapy.ops.dot_algorithm import as_algorithm

    given = params(algorithm=as_algorithm(name))
    return OpCase("dot_general", ["f32[2,3]", "f32[3,2]"], given, name=name)


CASES: list[OpCase] = [
    dot("f64[2,3]", "f64[3,4]"),
    dot("f64[3]", "f64[3]", (0,), (0,)),
    dot("f64[2,3]", "f64[3]", (1,), (0,)),
    dot("f64[3]", "f64[3,2]", (0,), (0,)),
    dot("f64[3,2]", "f64[3,4]", (0,), (0,)),
    dot("f64[2,3]", "f64[4,3]", (1,), (1,)),
    dot("f64[]", "f64[]", (), ()),
    dot("f64[]", "f64[2,3]", (), ()),
    dot("f64[2]", "f64[3]", (), ()),
    dot("f64[2,3,4]", "f64[2,4,3]", (2,), (1,), (0,), (0,)),
    dot("f64[3,2,4]", "f64[4,2,5]", (2,), (0,), (1,), (1,)),
    dot("f64[2,3,4]", "f64[3,4,2]", (1, 2), (0, 1)),
    dot("f64[2,3,4,5]", "f64[5,3,2,4]", (3, 1), (0, 1), (2,), (3,)),
    dot("f64[2,3,4,5]", "f64[4,2,6,3]", (2,), (0,), (1, 0), (3, 1)),
    dot("f64[2,3]", "f64[2,3]", (), (), (0, 1), (0, 1)),
    dot("f64[2,0]", "f64[0,3]", (1,), (0,), xfail={"reference": "aborts of an empty sum"}),
    dot("f64[0,2]", "f64[2,3]"),
    OpCase(
        "dot_general",
        ["f64[2,3]", "f64[3,4]"],
        params(preferred="f64", precision_config=("HIGH", "HIGHEST")),
        name="precision_config",
    ),
    typed("f32", "f32", "f32", order=2),
    typed("c64", "c64", "c64"),
    typed("c128", "c128", "c128", order=2),
    typed("f16", "f16", "f16"),
    typed("bf16", "bf16", "bf16"),
    typed("bf16", "bf16", "f32"),
    typed("f16", "f16", "f32"),
    typed("f32", "f32", "f64"),
    typed("f32", "f32", "bf16", xfail=_ROUNDS),
    typed("f64", "f64", "f32", order=0),
    typed("f32", "f32", "c64"),
    typed("c128", "c128", "f64", xfail={"reference": "multiplies the real parts"}),
    typed("f32", "f32", "s32", order=0, xfail={"reference": "adds integers, XLA floats"}),
    typed("s32", "s32", "f32"),
    typed("s8", "s8", "s32"),
    typed("s16", "s16", "s8"),
    typed("u8", "u8", "u32"),
    typed("s4", "s4", "s8"),
    typed("u2", "u2", "s32"),
    typed("pred", "pred", "pred"),
    typed("pred", "pred", "s32"),
    typed("f4e2m1fn", "f4e2m1fn", "f32", order=0),
    typed("f8e8m0fnu", "f8e8m0fnu", "f32", order=0, domain=(0.5, 4.0)),
    typed("bf16", "f32", "f32"),
    typed("f32", "f64", "f64"),
    typed("f32", "bf16", "bf16"),
    typed("f64", "c128", "c128", order=2),
    typed("s8", "f32", "f32"),
    typed("s8", "u8", "s32"),
    typed("f8e4m3fn", "f8e5m2", "f32", order=0),
    *[typed(t, t, t, order=0, domain=(0.0, 1.0), tol=0.25) for t in NARROW],
    *[typed(t, t, "f32", order=0) for t in NARROW],
    *[typed(t, t, t) for t in INTEGERS],
    *[
        exact(_full(t, 3, 4), _full(t, 4, 2), t, f"{t}_whole_range")
        for t in INTEGERS
        if t[1:] not in ("2", "4")
    ],
    *[
        exact(_full(t, 40, 50), _full(t, 50, 30), t, f"{t}_large")
        for t in ("s8", "u16", "s32", "u32", "s64")
    ],
    exact(_full("s16", 40, 50), _full("s16", 50, 30), "s32", "s16_s32_large"),
    *[_algorithm(name) for name in ("BF16_BF16_F32_X3", "TF32_TF32_F32", "F32_F32_F32")],
    exact(
        np.array([[np.inf, 1.0], [np.nan, 0.0], [-0.0, -0.0]], np.float32),
        np.array([[1.0, 0.0, -0.0], [2.0, -np.inf, 0.0]], np.float32),
        "f32",
        "special_values",
    ),
]


def error(
    label: str, lhs: str = "f32[2,3]", rhs: str = "f32[3,4]", match: str = "", **given: Any
) -> ErrorCase:
    """A wrong product of matrices."""
    return ErrorCase("dot_general", [lhs, rhs], params(**given), label, match)


ERRORS: list[ErrorCase] = [
    error("I1", lhs="token[]"),
    error("I2", rhs="(f32[2])"),
    error("C1", lb=(0,), match="as many batching"),
    error("C2", lc=(0, 1), match="as many contracting"),
    error("C3", lb=(1,), rb=(1,), match="named once"),
    error("C4", lc=(0, 1), rc=(0, 0), match="named once"),
    error("C5", lb=(2,), rb=(1,)),
    error("C6", lc=(-1,)),
    error("C7", lb=(0,), rb=(5,)),
    error("C8", rc=(2,)),
    error("C9", lb=(0,), rb=(1,)),
    error("C10", rhs="f32[2,4]", match="equal sizes"),
    error("C11", precision_config=("HIGH",)),
    error("C11", precision_config=("LOW", "HIGH")),
    error("X1", **{"preferred_element_type": "f32"}),
    error("X2", algorithm="BF16"),
    error(
        "C21",
        precision_config=("HIGH", "HIGH"),
        algorithm=_algorithm("F32_F32_F32").params["algorithm"],
    ),
]
