"""Cases of gather."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import EIGHT_BITS

Ints = tuple[int, ...]


def numbers(
    offset: Ints,
    collapsed: Ints,
    index_map: Ints,
    vector: int,
    sizes: Ints,
    batching: Ints = (),
    indices_batching: Ints = (),
    is_sorted: bool = False,
) -> dict[str, Any]:
    """The parameters of a gather."""
    return {
        "offset_dims": offset,
        "collapsed_slice_dims": collapsed,
        "operand_batching_dims": batching,
        "start_indices_batching_dims": indices_batching,
        "start_index_map": index_map,
        "index_vector_dim": vector,
        "slice_sizes": sizes,
        "indices_are_sorted": is_sorted,
    }


def gather(name: str, spec: str, indices: Any, params: dict[str, Any], **more: Any) -> OpCase:
    """One gather."""
    array = indices if isinstance(indices, np.ndarray) else np.array(indices, np.int32)
    return OpCase("gather", [spec, array], params, tol=0.0, name=name, **more)


ROWS = numbers((1,), (0,), (0,), 1, (1, 3))
EACH = numbers((), (0,), (0,), 1, (1,))
_UNSIGNED = {"reference": "the reference interpreter reads unsigned indices as signed"}

CASES: list[OpCase] = [
    gather("rows", "f64[4,3]", [2, 0, 2], ROWS),
    gather("rows_out_of_bounds", "f64[4,3]", [-1, 9, 3], ROWS),
    gather("rows_sorted", "f64[4,3]", [0, 2, 2], {**ROWS, "indices_are_sorted": True}),
    gather("rows_of_column", "f64[4,3]", [[2], [0]], ROWS),
    gather("rows_in_front", "f64[4,3]", [[2, 1], [0, 3]], numbers((0,), (0,), (0,), 2, (1, 3))),
    gather("parts_of_rows", "f64[4,3]", [2, 0], numbers((1,), (0,), (0,), 1, (1, 2))),
    gather("columns", "f64[4,3]", [2, 0], numbers((0,), (1,), (1,), 1, (4, 1))),
    gather("points", "f64[4,3]", [[2, 1], [0, 2]], numbers((), (0, 1), (0, 1), 1, (1, 1))),
    gather("points_swapped", "f64[4,3]", [[2, 1], [0, 2]], numbers((), (0, 1), (1, 0), 1, (1, 1))),
    gather("vector_in_front", "f64[4,3]", [[2, 1, 3], [0, 2, 1]], numbers((), (0, 1), (0, 1), 0, (1, 1))),
    gather("boxes", "f64[4,3]", [[2, 1], [0, 2]], numbers((1, 2), (), (0, 1), 1, (2, 2))),
    gather("boxes_around", "f64[4,3]", [[2, 1], [0, 2]], numbers((0, 2), (), (0, 1), 1, (2, 2))),
    gather("one_box", "f64[4,3]", [2, 1], numbers((0, 1), (), (0, 1), 0, (2, 2))),
    gather("scalar_index", "f64[4,3]", 2, numbers((0,), (0,), (0,), 0, (1, 3))),
    gather("no_index", "f64[2,3]", np.zeros((4, 0), np.int32), numbers((1, 2), (), (), 1, (2, 2))),
    gather("empty_slices", "f64[4,3]", [1, 2], numbers((1,), (0,), (0,), 1, (1, 0))),
    gather("no_slices", "f64[4,3]", np.zeros(0, np.int32), ROWS),
    gather("of_nothing", "f64[0,3]", np.zeros(0, np.int32), numbers((1, 2), (), (0,), 1, (0, 3))),
    gather("of_scalar", "f64[]", np.zeros((2, 0), np.int32), numbers((), (), (), 1, ())),
    gather("batched", "f64[2,4]", [[3, 0, 1], [2, 2, 9]], numbers((), (1,), (1,), 2, (1, 1), (0,), (0,))),
    gather(
        "batched_second", "f64[4,2]", [[3, 0], [2, 2], [1, -1]], numbers((), (0,), (0,), 2, (1, 1), (1,), (1,))
    ),
    gather(
        "batched_boxes",
        "f64[2,4,3,2]",
        np.array([[[0, 1]], [[3, 2]], [[1, 0]]], np.int32).reshape(3, 1, 2).repeat(2, 1),
        numbers((2,), (2,), (1, 2), 2, (1, 2, 1, 1), (0, 3), (1, 0))
        | {"operand_batching_dims": (0,), "start_indices_batching_dims": (1,), "offset_dims": (2, 3)}
        | {"slice_sizes": (1, 2, 1, 2)},
    ),
    gather("u8_indices", "f64[4,3]", np.array([2, 200], np.uint8), ROWS, xfail=_UNSIGNED),
    gather("u64_indices", "f64[4,3]", np.array([2, 2**63], np.uint64), ROWS, xfail=_UNSIGNED),
    gather("s8_indices", "f64[200]", np.array([2, 127, -128], np.int8), EACH),
    gather("u8_far", "f64[300]", np.array([2, 255], np.uint8), EACH, xfail=_UNSIGNED),
    gather("s64_indices", "f64[4]", np.array([2**63 - 1, -(2**63)], np.int64), EACH),
    gather("c128", "c128[4,3]", [2, 0, 2], ROWS),
    gather("pred", "pred[4,3]", [2, 0, 2], ROWS),
    gather("s4", "s4[4,3]", [2, 0, 2], ROWS),
    gather("bf16", "bf16[4,3]", [2, 0], ROWS, order=0),
    gather("f8", "f8e4m3fn[4,3]", [2, 0], ROWS, order=0),
    *[
        gather(f"boxes_{t}", f"{t}[4,3]", [[2, 1], [0, 2]], numbers((1, 2), (), (0, 1), 1, (2, 2)), order=0)
        for t in (*EIGHT_BITS, "bf16", "s4", "pred")
    ],
]  # fmt: skip


def bad(
    label: str, operands: tuple[str, str] = ("f32[4,3]", "s32[2,1]"), **changed: Any
) -> ErrorCase:
    """A gather of rows with something wrong."""
    return ErrorCase("gather", operands, {**ROWS, **changed}, label)


BATCHED = numbers((), (1,), (1,), 2, (1, 1), (0,), (0,))


def bad_batched(
    label: str, operands: tuple[str, str] = ("f32[2,4]", "s32[2,3]"), **changed: Any
) -> ErrorCase:
    """A batched gather with something wrong."""
    return ErrorCase("gather", operands, {**BATCHED, **changed}, label)


ERRORS: list[ErrorCase] = [
    bad("I1", ("token[]", "s32[2,1]")),
    bad("X3", ("f32[<=4,3]", "s32[2,1]")),
    bad("I2", ("f32[4,3]", "f32[2,1]")),
    bad("I2", ("f32[4,3]", "(s32[2,1])")),
    bad("C1", offset_dims=(0, 1)),
    bad("C2", index_vector_dim=3),
    bad("C2", index_vector_dim=-1),
    bad("C3", start_index_map=(0, 1)),
    bad("C4", collapsed_slice_dims=(), offset_dims=(1, 0), slice_sizes=(1, 3)),
    bad("C4", collapsed_slice_dims=(), offset_dims=(1, 1)),
    bad("C5", offset_dims=(2,)),
    bad("C6", offset_dims=(), collapsed_slice_dims=(0, 0)),
    bad("C7", offset_dims=(), collapsed_slice_dims=(1, 0)),
    bad("C8", collapsed_slice_dims=(2,)),
    bad("C9", slice_sizes=(2, 3)),
    bad_batched("C10", ("f32[2,2]", "s32[2,2]"), operand_batching_dims=(1, 0), collapsed_slice_dims=(),
                start_indices_batching_dims=(0, 1)),
    bad_batched("C11", operand_batching_dims=(2,)),
    bad_batched("C12", slice_sizes=(2, 1)),
    bad_batched("C13", ("f32[2,2,4]", "s32[2,3]"), operand_batching_dims=(0, 1), collapsed_slice_dims=(2,),
                slice_sizes=(1, 1, 1), start_indices_batching_dims=(0, 0)),
    bad_batched("C14", start_indices_batching_dims=(2,)),
    bad_batched("C15", ("f32[2,4]", "s32[2,1]"), index_vector_dim=1, start_indices_batching_dims=(1,)),
    bad_batched("C16", start_indices_batching_dims=()),
    bad_batched("C17", ("f32[5,4]", "s32[2,3]")),
    bad_batched("C18", start_index_map=(0,)),
    bad("C19", start_index_map=(2,)),
    bad("C20", slice_sizes=(1,)),
    bad("C21", slice_sizes=(1, 4)),
    bad("C21", slice_sizes=(1, -1)),
    bad("X1", ("f32[0,3]", "s32[2,1]"), slice_sizes=(0, 3)),
]  # fmt: skip
