"""Cases of scatter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, body, until
from cases.values import UNLIKE_FLOATS, extremes
from xlapy import ops
from xlapy.specs import TensorSpec

Ints = tuple[int, ...]


def replace(old: Any, new: Any) -> Any:
    """The update."""
    return new


def numbers(
    window: Ints,
    inserted: Ints,
    index_map: Ints,
    vector: int,
    batching: Ints = (),
    indices_batching: Ints = (),
) -> dict[str, Any]:
    """The dimension numbers of a scatter."""
    return {
        "update_window_dims": window,
        "inserted_window_dims": inserted,
        "input_batching_dims": batching,
        "scatter_indices_batching_dims": indices_batching,
        "scatter_dims_to_operand_dims": index_map,
        "index_vector_dim": vector,
        "indices_are_sorted": False,
        "unique_indices": False,
    }


def element_type(operand: Any) -> str:
    """Of a spec or an array."""
    if isinstance(operand, str):
        return operand.split("[")[0]
    from xlapy.dtypes import as_dtype

    return as_dtype(operand.dtype).name


def scatter(
    name: str,
    computation: Callable[..., Any],
    inputs: list[Any],
    indices: Any,
    updates: list[Any],
    params: dict[str, Any],
    **more: Any,
) -> OpCase:
    """One scatter."""
    array = indices if isinstance(indices, np.ndarray) else np.array(indices, np.int32)
    scalars = [f"{element_type(x)}[]" for x in inputs]
    params = {**params, "update_computation": body(computation, *scalars, *scalars)}
    return OpCase("scatter", [*inputs, array, *updates], params, name=name, **more)


ROWS = numbers((1,), (0,), (0,), 1)
EACH = numbers((), (0,), (0,), 1)
UNIQUE = {"unique_indices": True}
TIES = np.array([1.0, 2.0, 3.0, 2.0, 5.0])
TIED = np.array([2.0, 2.0, 7.0, 7.0, 1.0, 2.0])
PLACES = [1, 3, 2, 2, 4, 1]
_WINDOWS = {"reference": "the reference interpreter applies the part of a window that is inside"}

CASES: list[OpCase] = []
for operation, function in (
    ("add", ops.add), ("sub", ops.sub), ("mul", ops.mul), ("max", ops.max), ("min", ops.min), ("replace", replace),
    ("first", lambda a, b: a),
):  # fmt: skip
    CASES += [
        scatter(f"{operation}_rows", function, ["f64[4,3]"], [2, 0, 2], ["f64[3,3]"], ROWS, tol=1e-12),
        scatter(f"{operation}_same", function, ["f64[3]"], [1, 1, 1, 1, 1], ["f64[5]"], EACH, tol=1e-12),
        scatter(f"{operation}_out_of_bounds", function, ["f64[4]"], [-1, 4, 3, 9], ["f64[4]"], EACH, tol=1e-12),
        scatter(
            f"{operation}_unique", function, ["f64[5,2]"], [4, 0, 7], ["f64[3,2]"], ROWS | UNIQUE, tol=1e-12
        ),
        scatter(
            f"{operation}_boxes", function, ["f64[4,3]"], [[1, 0], [0, 1], [2, 1]], ["f64[3,2,2]"],
            numbers((1, 2), (), (0, 1), 1), tol=1e-12,
        ),
        scatter(
            f"{operation}_boxes_half_outside", function, ["f64[4,3]"], [[3, 0], [-1, 1], [2, 1]], ["f64[2,3,2]"],
            numbers((0, 2), (), (0, 1), 1), tol=1e-12, xfail={} if operation == "first" else _WINDOWS,
        ),
    ]  # fmt: skip
CASES += [
    scatter("mul_zeros", ops.mul, [np.array([2.0, 0.0, 3.0])], [0, 0, 1, 1, 2],
            [np.array([0.0, 5.0, 0.0, 2.0, 7.0])], EACH, tol=1e-12),
    scatter("mul_two_zeros", ops.mul, [np.array([2.0, 4.0, 3.0])], [0, 0, 0, 1, 1],
            [np.array([0.0, 5.0, 0.0, 0.0, 7.0])], EACH, tol=1e-12),
    scatter("mul_wrong_order", lambda a, b: ops.mul(b, a), ["f64[3]"], [0, 0, 1], ["f64[3]"], EACH, tol=1e-12),
    scatter("points", ops.add, ["f64[4,3]"], [[2, 1], [0, 2]], ["f64[2]"], numbers((), (0, 1), (0, 1), 1)),
    scatter("points_swapped", ops.add, ["f64[4,3]"], [[2, 1], [0, 2]], ["f64[2]"], numbers((), (0, 1), (1, 0), 1)),
    scatter("vector_in_front", ops.add, ["f64[4,3]"], [[2, 1, 3], [0, 2, 1]], ["f64[3]"],
            numbers((), (0, 1), (0, 1), 0)),
    scatter("one_box", ops.add, ["f64[4,3]"], [2, 1], ["f64[2,2]"], numbers((0, 1), (), (0, 1), 0)),
    scatter("scalar_index", ops.add, ["f64[4,3]"], 2, ["f64[3]"], numbers((0,), (0,), (0,), 0)),
    scatter("two_precisions", lambda a, b, c, d: (ops.add(a, c), ops.max(b, d)), ["f32[4]", "f64[4]"], [0, 1, 1, 9],
            ["f32[4]", "f64[4]"], EACH, order=0, tol=1e-6),
    scatter("equal_widths", lambda a, b, c, d: (c, ops.min(b, d)), ["bf16[4]", "f16[4]"], [0, 1, 1, 9],
            ["bf16[4]", "f16[4]"], EACH, order=0, tol=0.0),
    scatter("three_precisions", lambda a, b, c, d, e, f: (ops.add(a, d), ops.max(b, e), f),
            ["f8e5m2[4]", "f64[4]", "f4e2m1fn[4]"], [0, 1, 1, 9], ["f8e5m2[4]", "f64[4]", "f4e2m1fn[4]"], EACH, order=0,
            tol=0.3),
    scatter("precisions_and_their_bits", lambda a, b, c, d, e, f: (ops.add(a, d), e, ops.or_(c, f)),
            ["f32[4]", "f64[4]", "u32[4]"], [0, 1, 1, 9], ["f32[4]", "f64[4]", "u32[4]"], EACH, order=0, tol=1e-6),
    scatter("precisions_windows", lambda a, b, c, d: (ops.mul(a, c), ops.add(ops.convert(c, "f64"), d)),
            ["f32[4,3]", "f64[4,3]"], [2, 0, 2], ["f32[3,3]", "f64[3,3]"], ROWS, order=0, tol=1e-6),
    scatter("no_index_everywhere", ops.add, ["f64[2,3]"], np.zeros((3, 0), np.int32), ["f64[3,2,3]"],
            numbers((1, 2), (), (), 1)),
    scatter("no_index_first_element", ops.add, ["f64[2,3]"], np.zeros((3, 0), np.int64), ["f64[3]"],
            numbers((), (0, 1), (), 1)),
    scatter("no_index_scalar", ops.mul, ["f64[]"], np.zeros((2, 0), np.int32), ["f64[2]"], numbers((), (), (), 1)),
    scatter("no_index_variadic", lambda a, b, c, d: (ops.add(b, c), a), ["f64[]", "f64[]"],
            np.zeros((0, 2), np.int32), ["f64[2]", "f64[2]"], numbers((), (), (), 0), order=0),
    scatter("no_index_batched", ops.add, ["f64[2,3]"], np.zeros((2, 4, 0), np.int32), ["f64[2,4,3]"],
            numbers((2,), (), (), 2, (0,), (0,))),
    scatter("no_index", ops.add, ["f64[2,3]"], np.zeros((4, 0), np.int32), ["f64[4,2,2]"],
            numbers((1, 2), (), (), 1)),
    scatter("no_updates", ops.add, ["f64[4,3]"], np.zeros(0, np.int32), ["f64[0,3]"], ROWS),
    scatter("empty_windows", ops.add, ["f64[4,3]"], [1, 2], ["f64[2,0]"], ROWS),
    scatter("of_nothing", ops.add, ["f64[0,3]"], [1, 2], ["f64[2,3]"], ROWS),
    scatter("of_scalar", ops.add, ["f64[]"], np.zeros((2, 0), np.int32), ["f64[2]"], numbers((), (), (), 1)),
    scatter("batched", ops.add, ["f64[2,4]"], [[3, 0, 1], [2, 2, 9]], ["f64[2,3]"],
            numbers((), (1,), (1,), 2, (0,), (0,))),
    scatter("batched_second", replace, ["f64[4,2]"], [[3, 0], [2, 2], [1, -1]], ["f64[3,2]"],
            numbers((), (0,), (0,), 2, (1,), (1,))),
    scatter("u8_indices", ops.add, ["f64[4,3]"], np.array([2, 200], np.uint8), ["f64[2,3]"], ROWS),
    scatter("u64_indices", ops.add, ["f64[4]"], np.array([2, 2**63], np.uint64), ["f64[2]"], EACH),
    scatter("s8_indices", ops.add, ["f64[200]"], np.array([2, 127, -128], np.int8), ["f64[3]"], EACH),
    scatter("s8_windows", ops.add, ["f64[200]"], np.array([[2], [127], [-1]], np.int8), ["f64[3,2]"],
            numbers((1,), (), (0,), 1), xfail=_WINDOWS),
    scatter("s64_indices", ops.add, ["f64[4]"], np.array([2**63 - 1, -(2**63)], np.int64), ["f64[2]"], EACH),
    scatter("sorted", ops.add, ["f64[4]"], [1, 2, 2], ["f64[3]"], EACH | {"indices_are_sorted": True}),
    scatter("variadic_apart", lambda a, b, c, d: (ops.add(a, c), ops.mul(b, d)), ["f64[4]", "f64[4]"], [1, 2, 2],
            ["f64[3]", "f64[3]"], EACH),
    scatter("variadic_mixed_types", lambda a, b, c, d: (ops.add(a, c), ops.max(b, d)), ["f64[4]", "s32[4]"],
            [1, 2, 2], ["f64[3]", "s32[3]"], EACH),
    scatter("variadic_together", lambda a, b, c, d: (ops.add(ops.mul(a, d), c), ops.sub(b, c)),
            ["f64[4]", "f64[4]"], [1, 2, 7], ["f64[3]", "f64[3]"], EACH | UNIQUE),
    scatter("larger_body", lambda a, b: ops.add(a, ops.sin(ops.mul(a, b))), ["f64[4]"], [1, 2, 9], ["f64[3]"],
            EACH | UNIQUE, tol=1e-12),
    scatter("larger_body_in_order", lambda a, b: ops.add(a, ops.mul(a, b)), ["f64[4]"], [1, 1, 2, 1], ["f64[4]"],
            EACH, order=0, tol=1e-12),
    scatter("reversed_sub", lambda a, b: ops.sub(b, a), ["s32[4]"], [1, 1, 2, 1], ["s32[4]"], EACH, tol=0.0),
    scatter("signed_zeros", ops.max, [np.array([0.0, -0.0, -0.0], np.float32)], [0, 1, 2],
            [np.array([-0.0, 0.0, -0.0], np.float32)], EACH, tol=0.0, order=0),
    scatter("nan", ops.max, [np.array([1.0, np.nan, 2.0], np.float32)], [0, 1, 2],
            [np.array([np.nan, 0.0, np.inf], np.float32)], EACH, tol=0.0, order=0),
]  # fmt: skip


def shared(name: str, function: Callable[..., Any], *operands: Any, **more: Any) -> OpCase:
    """A program in which operands of a scatter are one array, which XLA on the CPU would write over twice."""
    specs = [x if isinstance(x, str) else str(TensorSpec(x.shape, x.dtype)) for x in operands]
    if name not in ("equal_constants", "computed_twice", "inputs_without_index"):
        why = {"reference": "StableHLO's interpreter writes over its operands too"}
        more["xfail"] = until("0.11", why)
    return OpCase("call", operands, {"computation": body(function, *specs)}, name=name, **more)


def by_rows(window: Ints, inserted: Ints, index_map: Ints, vector: int = 1) -> Any:
    """Dimension numbers for the public function."""
    return ops.ScatterDimensionNumbers(window, inserted, index_map, vector)


def lagging(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The update, and what was there before in the other input."""
    return c, a


PLACES = np.array([[0], [1], [1], [5], [0]], np.int32)
BOXES = np.array([[0, 1], [1, 1], [0, 0], [1, 0]], np.int32)
CASES += [
    shared("inputs", lambda x, u: ops.scatter([x, x], PLACES, [u, u], lagging, by_rows((), (0,), (0,))),
           "f64[3]", "f64[5]", order=0),
    shared("inputs_by_columns", lambda x, u: ops.scatter([x, x], PLACES, [u, u], lagging, by_rows((1,), (1,), (1,))),
           "f64[3,3]", "f64[5,3]", order=0),
    shared("inputs_by_themselves",
           lambda x, u: ops.scatter([x, x], PLACES, [u, u], lambda a, b, c, d: (ops.add(a, c), ops.mul(b, d)),
                                    by_rows((1,), (1,), (1,))),
           "f64[3,3]", "f64[5,3]", tol=1e-12),
    shared("inputs_in_boxes", lambda x, u: ops.scatter([x, x], BOXES, [u, u], lagging, by_rows((1, 2), (), (0, 1))),
           "f64[3,3]", "f64[4,2,2]", order=0),
    shared("inputs_one_vector",
           lambda x, u: ops.scatter([x, x], PLACES[:, 0], [u, u], lagging, by_rows((1,), (), (0,))),
           "f64[6]", "f64[5,1]", order=0),
    shared("inputs_without_index",
           lambda x, u: ops.scatter([x, x], np.zeros((4, 0), np.int32), [u, u], lagging, by_rows((1,), (), ())),
           "f64[3]", "f64[4,3]", order=0),
    shared("equal_constants",
           lambda u: ops.scatter([np.zeros(3), np.zeros(3)], PLACES, [u, u], lagging, by_rows((), (0,), (0,))),
           "f64[5]", order=0),
    shared("computed_twice",
           lambda x, u: ops.scatter([ops.neg(x), ops.neg(x)], PLACES, [u, u], lagging, by_rows((), (0,), (0,))),
           "f64[3]", "f64[5]", order=0),
    shared("three_inputs",
           lambda x, u: ops.scatter(
               [x, x, x], PLACES, [u, u, u], lambda a, b, c, d, e, f: (d, ops.or_(a, e), ops.xor(b, f)),
               by_rows((1,), (0,), (0,))),
           "pred[2,3]", "pred[5,3]", order=0, tol=0.0),
    shared("indices", lambda i: ops.scatter(i, i, i, ops.add, by_rows((1,), (0,), (0,))),
           np.array([[4], [0], [1], [1], [2]], np.int32), order=0, tol=0.0),
    shared("wide_indices", lambda i: ops.scatter(i, i, i, ops.add, by_rows((1,), (0,), (0,))),
           np.array([[4], [0], [1], [1], [2]], np.int64), order=0, tol=0.0),
]  # fmt: skip
for dtype in (
    "pred",
    "s4",
    "s8",
    "s32",
    "s64",
    "u4",
    "u8",
    "u32",
    "u64",
    "f16",
    "bf16",
    "f8e5m2",
    "f32",
    "c64",
    "c128",
):
    CASES += [
        scatter(
            f"add_{dtype}",
            ops.add,
            [f"{dtype}[4]"],
            [1, 2, 1],
            [f"{dtype}[3]"],
            EACH,
            order=0,
            tol=1e-6,
        ),
        scatter(
            f"replace_{dtype}",
            replace,
            [f"{dtype}[4]"],
            [1, 2, 1],
            [f"{dtype}[3]"],
            EACH,
            order=0,
            tol=0.0,
        ),
    ]
    if not dtype.startswith("c"):
        CASES.append(
            scatter(
                f"max_{dtype}",
                ops.max,
                [f"{dtype}[4]"],
                [1, 2, 1],
                [f"{dtype}[3]"],
                EACH,
                order=0,
                tol=0.0,
            )
        )
for operation, function in (("and", ops.and_), ("or", ops.or_), ("xor", ops.xor)):
    for dtype in ("pred", "s32", "u8"):
        CASES.append(
            scatter(
                f"{operation}_{dtype}",
                function,
                [f"{dtype}[4]"],
                [1, 2, 1],
                [f"{dtype}[3]"],
                EACH,
                tol=0.0,
            )
        )
CASES.append(
    OpCase(
        "scatter",
        ["f32[4]", np.array([1, 2, 1], np.int32), "f32[3]"],
        {**EACH, "update_computation": body(ops.add, "f64[]", "f64[]")},
        name="promoted",
        order=0,
        xfail={
            "pjrt": "XLA does not promote; programs are read with conversions",
            "reference": "StableHLO's interpreter aborts of it",
        },
        skip={"roundtrip": "programs are read with conversions"},
    )
)

ADD = body(ops.add, "f32[]", "f32[]")
OPERANDS = ("f32[4,3]", "s32[2,1]", "f32[2,3]")


def bad(label: str, operands: tuple[str, ...] = OPERANDS, **changed: Any) -> ErrorCase:
    """A scatter of rows with something wrong."""
    return ErrorCase("scatter", operands, {**ROWS, "update_computation": ADD, **changed}, label)


BATCHED = numbers((), (1,), (1,), 2, (0,), (0,)) | {"update_computation": ADD}


def bad_batched(
    label: str, operands: tuple[str, ...] = ("f32[2,4]", "s32[2,3]", "f32[2,3]"), **changed: Any
) -> ErrorCase:
    """A batched scatter with something wrong."""
    return ErrorCase("scatter", operands, {**BATCHED, **changed}, label)


for _one, _other in UNLIKE_FLOATS:
    _values = [extremes(_one), extremes(_other)]
    CASES.append(
        scatter(f"{_one}_beside_{_other}", lambda a, b, c, d: (c, d), [x[::-1].copy() for x in _values],
                list(range(11)), _values, EACH, order=0, tol=0.0)
    )  # fmt: skip

ERRORS: list[ErrorCase] = [
    bad("I1", ("token[]", "s32[2,1]", "f32[2,3]")),
    bad("I2", ("f32[4,3]", "f32[2,1]", "f32[2,3]")),
    bad("I2", ("f32[4,3]", "token[]", "f32[2,3]")),
    bad("I3", ("f32[4,3]", "s32[2,1]", "(f32[2,3])")),
    bad("I12", update_computation=None),
    bad("C1", ("f32[4,3]", "f32[4,2]", "s32[2,1]", "f32[2,3]", "f32[2,3]")),
    bad("C2", inserted_window_dims=()),
    bad("C3", ("f32[4,3]", "f32[4,3]", "s32[2,1]", "f32[2,3]", "f32[2,2]")),
    bad("C4", ("f32[4,3]", "s32[2,1]", "f32[5,3]")),
    bad("C4", ("f32[4,3]", "s32[2,1]", "f32[2,4]")),
    bad("C4", ("f32[4,3]", "s32[2,1]", "f32[2,3,1]")),
    bad("C5", ("f32[4,3]", "s32[2,1]")),
    bad("C5", ()),
    bad("C6", ("f32[4,3]", "s32[2,1]", "f64[2,3]")),
    bad("C7", ("f32[4,3]", "s32[2,1]", "f32[2,1,3]"), inserted_window_dims=(), update_window_dims=(2, 1)),
    bad("C8", update_window_dims=(2,)),
    bad("C9", update_window_dims=(), inserted_window_dims=(0, 0)),
    bad("C10", update_window_dims=(), inserted_window_dims=(1, 0)),
    bad("C11", inserted_window_dims=(2,)),
    bad_batched("C12", ("f32[2,2]", "s32[2,2]", "f32[2,2]"), inserted_window_dims=(), input_batching_dims=(1, 0)),
    bad_batched("C13", input_batching_dims=(2,)),
    bad_batched("C14", ("f32[2,2,4]", "s32[2,3]", "f32[2,3]"), inserted_window_dims=(2,),
                input_batching_dims=(0, 1), scatter_indices_batching_dims=(0, 0)),
    bad_batched("C15", scatter_indices_batching_dims=(2,)),
    bad_batched("C16", ("f32[2,4]", "s32[2,1]", "f32[2]"), index_vector_dim=1, scatter_indices_batching_dims=(1,)),
    bad_batched("C17", scatter_indices_batching_dims=()),
    bad_batched("C18", ("f32[5,4]", "s32[2,3]", "f32[2,3]")),
    bad("C19", scatter_dims_to_operand_dims=(0, 1)),
    bad_batched("C20", scatter_dims_to_operand_dims=(0,)),
    bad("C21", scatter_dims_to_operand_dims=(2,)),
    bad("C22", index_vector_dim=3),
    bad("C23", update_computation=body(ops.neg, "f32[]")),
    bad("C23", update_computation=body(ops.add, "s32[]", "s32[]")),
    bad("C23", update_computation=body(ops.add, "f32[1]", "f32[1]")),
    bad("C23", update_computation=body(ops.add, "f16[]", "f16[]")),
    bad("C23", update_computation=body(ops.lt, "f32[]", "f32[]")),
]  # fmt: skip
