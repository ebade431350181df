"""Cases of custom_call."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase, body
from xlapy import ops
from xlapy.specs import parse_spec

PLAIN = {
    "has_side_effect": False, "backend_config": "{}", "api_version": 4, "called_computations": (),
    "operand_layouts": None, "result_layouts": None, "output_operand_aliases": (),
    "extra_attributes": "{}",
}  # fmt: skip


def custom(target: str, results: tuple[str, ...], **given: object) -> dict[str, object]:
    """Parameters of a call."""
    return {
        "call_target_name": target,
        "results": tuple(map(parse_spec, results)),
        **PLAIN,
        **given,
    }


def columns(rank: int) -> tuple[int, ...]:
    """LAPACK's layout: the columns of each matrix lie together."""
    return (rank - 2, rank - 1, *range(rank - 3, -1, -1))


def lapack(
    target: str, operands: list[np.ndarray], results: tuple[str, ...], **given: object
) -> OpCase:
    """A call of one of jaxlib's kernels."""
    ranks = {
        "operand_layouts": [x.ndim for x in operands],
        "result_layouts": [parse_spec(r).rank for r in results],
    }
    matrices = max(map(max, ranks.values()))
    for what, given_ranks in ranks.items():
        rows = [columns(r) if r == matrices else tuple(range(r))[::-1] for r in given_ranks]
        given.setdefault(what, tuple(rows))
    return OpCase(
        "custom_call", operands, custom(target, results, **given),
        order=0, tol=1e-4, name=target, skip={"jvp": "no derivative", "vjp": "no derivative", "vmap": "opaque"},
    )  # fmt: skip


generator = np.random.default_rng(7)
SQUARE = generator.normal(size=(2, 3, 3))
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2) + 2 * np.eye(3)
HERMITIAN = (SQUARE + 1j * SQUARE[::-1]) @ (SQUARE + 1j * SQUARE[::-1]).conj().swapaxes(
    -1, -2
) + 2 * np.eye(3)
SCHUR = "{mode = 86 : ui8, sort = 78 : ui8}"
LOWER, UPPER = "{uplo = 76 : ui8}", "{uplo = 85 : ui8}"

CASES: list[OpCase] = [
    lapack("lapack_dpotrf_ffi", [POSITIVE], ("f64[2,3,3]", "s32[2]"), backend_config=LOWER),
    lapack("lapack_spotrf_ffi", [POSITIVE.astype("f4")], ("f32[2,3,3]", "s32[2]"), backend_config=UPPER),
    lapack("lapack_zpotrf_ffi", [HERMITIAN], ("c128[2,3,3]", "s32[2]"), backend_config=LOWER),
    lapack("lapack_dgetrf_ffi", [SQUARE], ("f64[2,3,3]", "s32[2,3]", "s32[2]")),
    lapack("lapack_cgetrf_ffi", [HERMITIAN.astype("c8")], ("c64[2,3,3]", "s32[2,3]", "s32[2]")),
    lapack("lapack_dgeqrf_ffi", [SQUARE], ("f64[2,3,3]", "f64[2,3]")),
    lapack("lapack_zgeqrf_ffi", [HERMITIAN], ("c128[2,3,3]", "c128[2,3]")),
    lapack("lapack_dsyevd_ffi", [POSITIVE], ("f64[2,3,3]", "f64[2,3]", "s32[2]"),
           backend_config="{mode = 86 : ui8, uplo = 76 : ui8}"),
    lapack("lapack_dtrsm_ffi", [np.tril(POSITIVE), SQUARE], ("f64[2,3,3]",),
           backend_config="{diag = 78 : ui8, side = 76 : ui8, trans_x = 84 : ui8, uplo = 76 : ui8}"),
    lapack("lapack_dgeqp3_ffi", [SQUARE, np.array([[0, 0, 1], [0, 0, 0]], np.int32)],
           ("f64[2,3,3]", "s32[2,3]", "f64[2,3]")),
    lapack("lapack_zgeqp3_ffi", [HERMITIAN[:, :2], np.zeros((2, 3), np.int32)],
           ("c128[2,2,3]", "s32[2,3]", "c128[2,2]")),
    lapack("lapack_dgehrd_ffi", [SQUARE], ("f64[2,3,3]", "f64[2,2]", "s32[2]"),
           backend_config="{high = 3 : i32, low = 1 : i32}"),
    lapack("lapack_cgehrd_ffi", [HERMITIAN.astype("c8")], ("c64[2,3,3]", "c64[2,2]", "s32[2]"),
           backend_config="{high = 3 : i32, low = 1 : i32}"),
    lapack("lapack_dsytrd_ffi", [POSITIVE], ("f64[2,3,3]", "f64[2,3]", "f64[2,2]", "f64[2,2]", "s32[2]"),
           backend_config=LOWER),
    lapack("lapack_ssytrd_ffi", [POSITIVE.astype("f4")], ("f32[2,3,3]", "f32[2,3]", "f32[2,2]", "f32[2,2]", "s32[2]"),
           backend_config=UPPER),
    lapack("lapack_zhetrd_ffi", [HERMITIAN], ("c128[2,3,3]", "f64[2,3]", "f64[2,2]", "c128[2,2]", "s32[2]"),
           backend_config=LOWER),
    lapack("lapack_chetrd_ffi", [HERMITIAN.astype("c8")],
           ("c64[2,3,3]", "f32[2,3]", "f32[2,2]", "c64[2,2]", "s32[2]"), backend_config=UPPER),
    lapack("lapack_dgtsv_ffi", [SQUARE[:, 0], SQUARE[:, 1], SQUARE[:, 2], POSITIVE],
           ("f64[2,3]", "f64[2,3]", "f64[2,3]", "f64[2,3,3]", "s32[2]")),
    lapack("lapack_dormqr_ffi", [SQUARE, SQUARE[:, 0], POSITIVE], ("f64[2,3,3]",),
           backend_config="{left = true, transpose = false}"),
    lapack("lapack_zunmqr_ffi", [HERMITIAN, HERMITIAN[:, 0], HERMITIAN], ("c128[2,3,3]",),
           backend_config="{left = false, transpose = true}"),
    # A matrix in this form already, for others have several.
    lapack("lapack_dgees_ffi", [np.triu(SQUARE)],
           ("f64[2,3,3]", "f64[2,3,3]", "f64[2,3]", "f64[2,3]", "s32[2]", "s32[2]"), backend_config=SCHUR),
    lapack("lapack_cgees_ffi", [np.triu(HERMITIAN).astype("c8")],
           ("c64[2,3,3]", "c64[2,3,3]", "c64[2,3]", "s32[2]", "s32[2]"), backend_config=SCHUR),
    # What XLA makes of them itself, which other platforms have kernels of.
    lapack("Qr", [SQUARE], ("f64[2,3,3]", "f64[2,3]"), operand_layouts=None, result_layouts=None),
    lapack("Eigh", [np.diag([3.0, 1.0, 2.0])], ("f64[3,3]", "f64[3]"), operand_layouts=None, result_layouts=None,
           backend_config="1,1,100,1e-12", api_version=1),
    lapack("ProductOfElementaryHouseholderReflectors", [SQUARE, SQUARE[:, 0]], ("f64[2,3,3]",),
           operand_layouts=None, result_layouts=None),
    OpCase(
        "custom_call", ["f32[2,5]"], custom("TopK", ("f32[2,2]", "s32[2,2]"), api_version=1), order=0, tol=0.0,
        skip={"pjrt": "XLA makes it from topk itself", "vmap": "opaque"},
    ),
]  # fmt: skip

ADD = body(ops.add, "f32[]", "f32[]")
F = ["f32[2]"]
ERRORS: list[ErrorCase] = [
    ErrorCase("custom_call", F, custom("", ("f32[2]",)), "I2"),
    ErrorCase("custom_call", F, custom("ragged_all_to_all", ("f32[2]",)), "X2", "operation"),
    ErrorCase("custom_call", F, custom("xla_ffi_python_cpu_callback", ("f32[2]",)), "X5", "python_callback"),
    ErrorCase("custom_call", F, custom("Sharding", ("f32[2]", "f32[2]")), "X3"),
    ErrorCase("custom_call", ["f32[2]", "f32[2]"], custom("SPMDFullToShardShape", ("f32[2]",)), "X3", "one array"),
    ErrorCase("custom_call", F, custom("LayoutConstraint", ("f32[1,2]",)), "X3", "its like"),
    ErrorCase("custom_call", ["token[]"], custom("Sharding", ("token[]",)), "X3", "arrays"),
    ErrorCase("custom_call", F, custom("TopK", ("f32[2]",)), "X3", "positions"),
    ErrorCase("custom_call", F, custom("TopK", ("f32[3]", "s32[3]")), "X3"),
    ErrorCase("custom_call", F, custom("TopK", ("f32[1]", "s64[1]")), "X3"),
    ErrorCase("custom_call", ["f32[2,2,2]"], custom("TopK", ("f32[2,2,1]", "s32[2,2,1]")), "X3"),
    ErrorCase("custom_call", [], custom("Qr", ("f32[2,2]", "f32[2]")), "X3", "two"),
    ErrorCase("custom_call", [], custom("__onednn$matmul", ("f32[2,2]",)), "X3"),
    ErrorCase("custom_call", F, custom("SliceToDynamic", ("f32[2]",)), "X3", "vary"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), has_side_effect=1), "I3"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), backend_config="n = 1"), "I4"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), backend_config="{} {}"), "I4"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), api_version=7), "I5"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), called_computations=(ADD, 1)), "I6"),
    ErrorCase("custom_call", F, custom("f", ("f32[3]",), output_operand_aliases=(((), 0, ()),)), "X2"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), output_operand_aliases=(((), 1, ()),)), "X2"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), extra_attributes="n = 1"), "X1", "dictionary"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), output_operand_aliases=(((), 0),)), "X2", "output_tuple"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",)) | {"results": ("f32[2]",)}, "X1"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), operand_layouts=((0,),)), "X1"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), operand_layouts=(), result_layouts=((0,),)), "X1", "be 1"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), operand_layouts=((0,),), result_layouts=()), "X1", "be 1"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), operand_layouts=((1,),), result_layouts=((0,),)), "X1"),
    ErrorCase("custom_call", F, custom("f", ("f32[2]",), operand_layouts=((0,),), result_layouts=((),)), "X1", "minor"),
]  # fmt: skip
