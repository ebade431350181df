"""Cases of dynamic_gather where sizes do not vary."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase, gather
from cases.dynamic import sizes, spec
from cases.dynamic_movement import bad

ROWS = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "operand_batching_dims": (),
    "start_indices_batching_dims": (),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "indices_are_sorted": False,
}

# The sizes are all the same, so that a batch may have them in any order.
CASES: list[OpCase] = [
    OpCase("dynamic_gather", ["f64[4,3]", sizes(2, 0, 9), sizes(1, 1)], {**ROWS, "result": spec(3, 1)}, tol=0.0),
    OpCase(
        "dynamic_gather", ["f64[4,3]", np.array([[2, 1], [0, 2]], np.int32), sizes(2, 2)],
        {**ROWS, "offset_dims": (0, 2), "collapsed_slice_dims": (), "start_index_map": (0, 1), "result": spec(2, 2, 2)},
        tol=0.0,
    ),
    OpCase("dynamic_gather", ["f64[4,3]", np.int32(1).reshape(1), sizes(1, 1)],
        {**ROWS, "result": spec(1, 1)}, tol=0.0, name="one"),
]  # fmt: skip

GATHER = ("f64[4,3]", "s32[2]", "s32[2]")

# What is wrong with a gather is so if the slice's size is computed; that itself is known when it runs only.
OF_SIZES = ("C9", "C12", "C20", "X1")


def _as_dynamic(case: ErrorCase) -> ErrorCase:
    """A wrong gather with the slice's size as an operand."""
    params = dict(case.params)
    offset = params["offset_dims"]
    dropped = (*params["collapsed_slice_dims"], *params["operand_batching_dims"])
    slice_sizes = iter(n for d, n in enumerate(params.pop("slice_sizes")) if d not in dropped)
    shape = [next(slice_sizes, 1) if d in offset else 1 for d in range(max(offset, default=0) + 1)]
    rank = case.operands[0].count(",") + 1
    result = spec(*shape, dtype=case.operands[0].split("[")[0].replace("token", "f32"))
    return ErrorCase(
        "dynamic_gather", [*case.operands, f"s32[{rank}]"], {**params, "result": result}, case.label
    )


ERRORS: list[ErrorCase] = [
    bad("dynamic_gather", GATHER, 0, "token[]", {**ROWS, "result": spec(2, 3)}, "I1"),
    *[bad("dynamic_gather", GATHER, 1, w, {**ROWS, "result": spec(2, 3)}, "I2") for w in ("token[]", "f32[2]")],
    *[
        bad("dynamic_gather", GATHER, 2, w, {**ROWS, "result": spec(2, 3)}, "I3")
        for w in ("token[]", "f32[2]", "s32[1,2]")
    ],
    bad("dynamic_gather", GATHER, 2, "s32[3]", {**ROWS, "result": spec(2, 3)}, "C20"),
    bad("dynamic_gather", GATHER, 0, "f32[4,3]", {**ROWS, "result": spec(2, 3)}, "C23"),
    bad("dynamic_gather", GATHER, 0, "f64[4]", {**ROWS, "result": spec(2, 3)}, "C20"),
    bad("dynamic_gather", GATHER, 2, "s32[2]", {**ROWS, "offset_dims": (), "result": spec(2, 3)}, "C1"),
    bad("dynamic_gather", GATHER, 2, "s32[2]", {**ROWS, "offset_dims": (2,), "result": spec(2, 3)}, "C5"),
    bad("dynamic_gather", GATHER, 2, "s32[2]",
        {**ROWS, "offset_dims": (), "collapsed_slice_dims": (0, 0), "result": spec(2, 3)}, "C6"),
    bad("dynamic_gather", GATHER, 2, "s32[2]", {**ROWS, "result": spec(5, 3)}, "C22"),
    bad("dynamic_gather", GATHER, 2, "s32[2]", {**ROWS, "collapsed_slice_dims": (2,), "result": spec(2, 3)}, "C8"),
    bad("dynamic_gather", GATHER, 2, "s32[2]",
        {**ROWS, "collapsed_slice_dims": (), "operand_batching_dims": (2,), "result": spec(2, 3)}, "C11"),
    *[
        _as_dynamic(case)
        for case in gather.ERRORS
        if case.label not in OF_SIZES and min(case.params["slice_sizes"]) >= 0
    ],
]  # fmt: skip
