"""Cases of scaled_dot."""

from __future__ import annotations

from typing import Any

from cases import ErrorCase, OpCase

Ints = tuple[int, ...]


def params(
    lc: Ints = (1,),
    rc: Ints = (0,),
    lb: Ints = (),
    rb: Ints = (),
    preferred: Any = "f32",
    precision: Any = None,
) -> dict[str, Any]:
    """The parameters; by default of two matrices."""
    from xlapy.dtypes import as_dtype

    return {
        "lhs_batching_dimensions": lb,
        "rhs_batching_dimensions": rb,
        "lhs_contracting_dimensions": lc,
        "rhs_contracting_dimensions": rc,
        "precision_config": precision,
        "preferred_element_type": as_dtype(preferred),
    }


def scaled(name: str, *operands: str, order: int = 2, tol: float = 1e-11, **given: Any) -> OpCase:
    """A product with scales."""
    return OpCase(
        "scaled_dot", operands, params(**given), domain=(0.5, 2.0), tol=tol, order=order, name=name,
    )  # fmt: skip


CASES: list[OpCase] = [
    scaled("matrices", "f64[2,6]", "f64[2,3]", "f64[6,4]", "f64[2,4]", preferred="f64"),
    scaled("one_scale", "f64[2,6]", "f64[2,1]", "f64[6,4]", "f64[6,4]", preferred="f64"),
    scaled("batch", "f64[2,3,4]", "f64[2,3,2]", "f64[4,2,5]", "f64[2,2,5]",
           lc=(2,), rc=(0,), lb=(0,), rb=(1,), preferred="f64"),
    scaled("two_contracting", "f64[4,3,6]", "f64[2,3,2]", "f64[6,4]", "f64[3,4]",
           lc=(0, 2), rc=(1, 0), preferred="f64"),
    scaled("nothing_contracted", "f64[2]", "f64[2]", "f64[3]", "f64[3]", lc=(), rc=(), preferred="f64"),
    scaled("precision", "f64[2,6]", "f64[2,3]", "f64[6,4]", "f64[2,4]", preferred="f64",
           precision=("HIGH", "HIGH")),
    scaled("mxfp8", "f8e4m3fn[3,64]", "f8e8m0fnu[3,2]", "f8e4m3fn[64,2]", "f8e8m0fnu[2,2]", order=0,
           tol=1e-5),
    scaled("mxfp4", "f4e2m1fn[3,64]", "f8e8m0fnu[3,2]", "f4e2m1fn[64,2]", "f8e8m0fnu[2,2]", order=0,
           tol=1e-5),
    scaled("nvfp4", "f4e2m1fn[3,32]", "f8e4m3fn[3,2]", "f4e2m1fn[32,2]", "f8e4m3fn[2,2]", order=0,
           tol=1e-5),
    scaled("two_sorts", "f8e5m2[3,8]", "f8e8m0fnu[3,2]", "bf16[8,2]", "f8e8m0fnu[1,2]", order=0, tol=1e-5),
    scaled("bf16", "bf16[3,8]", "f32[3,2]", "bf16[8,2]", "f8e8m0fnu[1,2]", order=0, tol=2e-2,
           preferred="bf16"),
    scaled("f32", "f32[3,8]", "f32[3,2]", "f32[8,2]", "f32[4,2]", order=1, tol=1e-5),
]  # fmt: skip


def error(
    label: str, lhs: str = "f32[2,6]", lhs_scale: str = "f32[2,3]", rhs: str = "f32[6,4]",
    rhs_scale: str = "f32[2,4]", **given: Any,
) -> ErrorCase:  # fmt: skip
    """A wrong product with scales."""
    return ErrorCase("scaled_dot", [lhs, lhs_scale, rhs, rhs_scale], params(**given), label)


UNTYPED = {**params(), "preferred_element_type": None}

ERRORS: list[ErrorCase] = [
    error("I1", lhs="token[]"),
    error("I1", lhs="s32[2,6]"),
    error("I2", lhs_scale="c64[2,3]"),
    error("I2", lhs_scale="token[]"),
    error("I3", rhs="(f32[2])"),
    error("I3", rhs="pred[6,4]"),
    error("I4", rhs_scale="token[]"),
    error("I4", rhs_scale="s32[2,4]"),
    error("C1", lb=(0,)),
    error("C2", lc=()),
    error("C3", lc=(1, 1), rc=(0, 1)),
    error("C4", lc=(0, 1), rc=(0, 0)),
    error("C5", lb=(2,), rb=(1,)),
    error("C6", lc=(2,)),
    error("C7", lb=(0,), rb=(2,)),
    error("C8", rc=(-1,)),
    error("C9", lb=(0,), rb=(1,)),
    error("C10", rhs="f32[4,4]"),
    error("C11", precision=("HIGH",)),
    ErrorCase("scaled_dot", ["f32[2,6]", "f32[2,3]", "f32[6,4]", "f32[2,4]"], UNTYPED, "X1"),
    error("X2", lhs_scale="f32[2]"),
    error("X2", rhs_scale="f32[2]"),
    error("X3", lhs_scale="f32[2,4]"),
    error("X3", rhs_scale="f32[0,4]"),
    error("X4", lhs_scale="f32[1,3]"),
    error("X4", rhs_scale="f32[2,2]"),
    error("X5", preferred="s32"),
    error("X6", lhs="f32[<=2,6]"),
    error("X6", lhs_scale="f32[2,<=3]"),
    error("X6", rhs="f32[6,?]"),
    error("X6", rhs_scale="f32[<=2,4]"),
]
