"""Cases of dynamic_gather where sizes do not vary."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
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

ERRORS: list[ErrorCase] = [
    bad("dynamic_gather", GATHER, 0, "token[]", {**ROWS, "result": spec(2, 3)}, "I1"),
    bad("dynamic_gather", GATHER, 1, "f32[2]", {**ROWS, "result": spec(2, 3)}, "I2"),
    bad("dynamic_gather", GATHER, 2, "f32[2]", {**ROWS, "result": spec(2, 3)}, "I3"),
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
]  # fmt: skip
