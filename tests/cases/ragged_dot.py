"""Cases of ragged_dot."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase

Ints = tuple[int, ...]


def params(
    lc: Ints = (1,), rc: Ints = (1,), lb: Ints = (), rb: Ints = (), ragged: Ints = (0,), group: Ints = (0,),
    preferred: Any = "f64", precision: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """The parameters; by default of rows in groups, each with a matrix of its own."""
    from xlapy.dtypes import as_dtype

    return {
        "lhs_batching_dimensions": lb,
        "rhs_batching_dimensions": rb,
        "lhs_contracting_dimensions": lc,
        "rhs_contracting_dimensions": rc,
        "lhs_ragged_dimensions": ragged,
        "rhs_group_dimensions": group,
        "precision_config": precision,
        "preferred_element_type": as_dtype(preferred),
    }


def ragged(
    name: str, lhs: Any, rhs: Any, sizes: Any, *, order: int = 2, tol: float = 1e-11, **given: Any
) -> OpCase:
    """A product in groups of given sizes."""
    xfail = given.pop("xfail", {})
    operands = [lhs, rhs, np.asarray(sizes, given.pop("sizes_dtype", np.int32))]
    return OpCase(
        "ragged_dot", operands, params(**given), tol=tol, order=order, name=name, xfail=xfail
    )


_PART = np.array([[1.0, np.inf], [2.0, 3.0], [np.nan, 1.0]])

CASES: list[OpCase] = [
    ragged("rows", "f64[7,3]", "f64[3,3,2]", [2, 0, 5]),
    ragged("rows_left_over", "f64[7,3]", "f64[2,3,2]", [2, 3]),
    ragged("too_many_rows", "f64[7,3]", "f64[3,3,2]", [4, 9, 2]),
    ragged("no_groups", "f64[7,3]", "f64[0,3,2]", np.zeros(0)),
    ragged("unsigned_sizes", "f64[4,3]", "f64[2,3,2]", [1, 3], sizes_dtype=np.uint8),
    ragged("wide_sizes", "f64[4,3]", "f64[2,3,2]", [1, 2], sizes_dtype=np.int64),
    ragged("group_last", "f64[4,3]", "f64[3,2,2]", [1, 2], rc=(0,), group=(2,)),
    ragged("rows_of_a_batch", "f64[2,5,3]", "f64[3,2,3,4]", [[1, 2, 2], [0, 4, 0]],
           lc=(2,), rc=(2,), lb=(0,), rb=(1,), ragged=(1,)),
    ragged("rows_of_a_batch_alike", "f64[2,5,3]", "f64[2,3,3,4]", [1, 2, 1],
           lc=(2,), rc=(2,), lb=(0,), rb=(0,), ragged=(1,), group=(1,)),
    ragged("rows_behind_rows", "f64[2,5,3]", "f64[2,3,4]", [[2, 2], [0, 5]], lc=(2,), ragged=(1,)),
    ragged("rows_behind_rows_alike", "f64[2,5,3]", "f64[2,3,4]", [2, 2], lc=(2,), ragged=(1,)),
    ragged("rows_before_rows", "f64[5,2,3]", "f64[2,3,4]", [2, 2], lc=(2,), ragged=(0,)),
    ragged("two_contracting", "f64[2,5,3]", "f64[3,2,2,4]", [2, 2], lc=(0, 2), rc=(1, 0), ragged=(1,),
           group=(2,)),
    ragged("sums", "f64[2,7]", "f64[7,3]", [2, 0, 4], rc=(0,), ragged=(1,), group=()),
    ragged("sums_in_a_batch", "f64[2,3,5]", "f64[2,5,4]", [[1, 2], [4, 1]],
           lc=(2,), rc=(1,), lb=(0,), rb=(0,), ragged=(2,), group=()),
    ragged("sums_in_a_batch_alike", "f64[3,2,5]", "f64[5,4,2]", [1, 2],
           lc=(2,), rc=(0,), lb=(1,), rb=(2,), ragged=(2,), group=()),
    ragged("sums_behind_sums", "f64[2,3,5]", "f64[3,5,4]", [[1, 2], [4, 1], [0, 3]],
           lc=(1, 2), rc=(0, 1), ragged=(2,), group=()),
    ragged("sums_out_of_order", "f64[2,5,3]", "f64[3,5,4]", [[1, 2], [4, 1], [0, 3]],
           lc=(2, 1), rc=(0, 1), ragged=(1,), group=()),
    ragged("sums_of_no_groups", "f64[2,7]", "f64[7,3]", np.zeros(0), rc=(0,), ragged=(1,), group=()),
    ragged("batches", "f64[4,2,3]", "f64[4,3,2]", [1, 2],
           lc=(2,), rc=(1,), lb=(0,), rb=(0,), ragged=(0,), group=()),
    ragged("batches_behind_batches", "f64[2,4,2,3]", "f64[2,4,3,2]", [[1, 2], [3, 1]],
           lc=(3,), rc=(2,), lb=(0, 1), rb=(0, 1), ragged=(1,), group=()),
    ragged("no_number_in_another_group", "f64[4,2]", np.stack([_PART[:2], np.ones((2, 2))]), [1, 3],
           order=0),
    ragged("no_number_in_another_sum", "f64[2,3]", _PART, [1, 1, 1], rc=(0,), ragged=(1,), group=(),
           order=0),
    ragged("precision", "f64[4,3]", "f64[2,3,2]", [1, 2], precision=("HIGHEST", "DEFAULT")),
    ragged("f32", "f32[4,3]", "f32[2,3,2]", [1, 2], preferred="f32", order=1, tol=1e-5),
    ragged("bf16_f32", "bf16[4,3]", "bf16[2,3,2]", [1, 2], preferred="f32", order=1, tol=1e-5),
    ragged("c128", "c128[4,3]", "c128[2,3,2]", [1, 2], preferred="c128"),
    ragged("s32", "s32[4,3]", "s32[2,3,2]", [1, 2], preferred="s32", order=0),
]  # fmt: skip


def error(
    label: str, lhs: str = "f32[4,3]", rhs: str = "f32[2,3,5]", sizes: str = "s32[2]", **given: Any
) -> ErrorCase:
    """A wrong product in groups."""
    return ErrorCase(
        "ragged_dot", [lhs, rhs, sizes], params(**{"preferred": "f32", **given}), label
    )


UNTYPED = {**params(), "preferred_element_type": None}


ERRORS: list[ErrorCase] = [
    error("I1", lhs="token[]"),
    error("I2", rhs="(f32[2])"),
    error("I3", sizes="f32[2]"),
    error("I3", sizes="token[]"),
    error("C1", lb=(0,)),
    error("C2", lc=(0, 1)),
    error("C3", lc=(1, 1), rc=(1, 2), ragged=(0,)),
    error("C4", lb=(0,), rb=(1,), ragged=(0,), group=(), lc=(1,), rc=(1,)),
    error("C5", lb=(7,), rb=(0,), rhs="f32[3,5]", rc=(1,), group=()),
    error("C6", lc=(7,)),
    error("C7", lb=(0,), rb=(7,), lc=(), rc=()),
    error("C8", rc=(-1,)),
    error("C9", lhs="f32[2,4,3]", lb=(0,), rb=(1,), lc=(2,), rc=(2,), ragged=(1,)),
    error("C10", rhs="f32[2,4,5]"),
    error("C11", precision=("LOW", "LOW")),
    ErrorCase("ragged_dot", ["f32[4,3]", "f32[2,3,5]", "s32[2]"], UNTYPED, "X1"),
    error("X2", ragged=()),
    error("X2", ragged=(2,)),
    error("X2", ragged=(-1,)),
    error("X3", group=(1,)),
    error("X3", group=(0, 2)),
    error("X4", group=(), rhs="f32[3,5]", rc=(0,)),
    error("X4", ragged=(1,)),
    error("X5", sizes="s32[]"),
    error("X5", sizes="s32[4,2]"),
    error("X6", sizes="s32[3]"),
    error("X8", lhs="f32[<=4,3]"),
]
