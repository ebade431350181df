"""Cases of dynamic_pad, real_dynamic_slice and dynamic_gather where sizes do not vary."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase
from cases.dynamic import sizes, spec

_LACKS = {"reference": "the reference interpreter lacks it, and aborts"}


def pad(name: str, operand: str, low: Any, high: Any, interior: Any, *shape: int) -> OpCase:
    """A pad by computed amounts."""
    amounts = [sizes(*low), sizes(*high), sizes(*interior)]
    params = {"result": spec(*shape)}
    return OpCase("dynamic_pad", [operand, "f64[]", *amounts], params, tol=0.0, name=name)


def slice_(name: str, operand: str, starts: Any, limits: Any, strides: Any, *shape: int) -> OpCase:
    """A box from a computed place."""
    places = [sizes(*starts), sizes(*limits), sizes(*strides)]
    params = {"result": spec(*shape)}
    return OpCase("real_dynamic_slice", [operand, *places], params, tol=0.0, name=name, skip=_LACKS)


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
    pad("edges", "f64[3]", [1], [2], [0], 6),
    pad("interior", "f64[3,3]", [1, 1], [0, 0], [2, 2], 8, 8),
    pad("negative", "f64[4]", [-1], [-1], [1], 5),
    pad("negative_low", "f64[4]", [-3], [2], [2], 9),
    pad("empty", "f64[0]", [1], [2], [1], 3),
    pad("scalar", "f64[]", [], [], []),
    slice_("box", "f64[5,4]", [1, 1], [4, 4], [2, 2], 2, 2),
    slice_("nothing", "f64[5]", [2], [2], [1], 0),
    slice_("strided", "f64[7]", [1], [7], [4], 2),
    OpCase("dynamic_gather", ["f64[4,3]", sizes(2, 0, 9), sizes(1, 1)], {**ROWS, "result": spec(3, 1)}, tol=0.0),
    OpCase(
        "dynamic_gather", ["f64[4,3]", np.array([[2, 1], [0, 2]], np.int32), sizes(2, 2)],
        {**ROWS, "offset_dims": (0, 2), "collapsed_slice_dims": (), "start_index_map": (0, 1), "result": spec(2, 2, 2)},
        tol=0.0,
    ),
]  # fmt: skip

PAD = ("f64[3]", "f64[]", "s32[1]", "s32[1]", "s32[1]")
SLICE = ("f64[3]", "s32[1]", "s32[1]", "s32[1]")
GATHER = ("f64[4,3]", "s32[2]", "s32[2]")


def bad(
    op: str, operands: tuple[str, ...], place: int, wrong: str, params: Any, label: str
) -> ErrorCase:
    """One operand replaced by a wrong one."""
    given = [*operands[:place], wrong, *operands[place + 1 :]]
    return ErrorCase(op, given, params, label)


ERRORS: list[ErrorCase] = [
    bad("dynamic_pad", PAD, 0, "token[]", {"result": spec(4)}, "I1"),
    bad("dynamic_pad", PAD, 1, "f64[1]", {"result": spec(4)}, "I2"),
    bad("dynamic_pad", PAD, 1, "f32[]", {"result": spec(4)}, "C1"),
    bad("dynamic_pad", PAD, 2, "f32[1]", {"result": spec(4)}, "I3"),
    bad("dynamic_pad", PAD, 3, "s32[]", {"result": spec(4)}, "I4"),
    bad("dynamic_pad", PAD, 4, "token[]", {"result": spec(4)}, "I5"),
    bad("dynamic_pad", PAD, 4, "s32[2]", {"result": spec(4)}, "C2"),
    bad("dynamic_pad", PAD, 4, "s32[1]", {"result": spec(4, 1)}, "C4"),
    bad("real_dynamic_slice", SLICE, 0, "token[]", {"result": spec(2)}, "I1"),
    bad("real_dynamic_slice", SLICE, 1, "f32[1]", {"result": spec(2)}, "I2"),
    bad("real_dynamic_slice", SLICE, 2, "f32[1]", {"result": spec(2)}, "I3"),
    bad("real_dynamic_slice", SLICE, 3, "f32[1]", {"result": spec(2)}, "I4"),
    bad("real_dynamic_slice", SLICE, 3, "s32[2]", {"result": spec(2)}, "X1"),
    bad("real_dynamic_slice", SLICE, 0, "f32[3]", {"result": spec(2)}, "X2"),
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
]  # fmt: skip
