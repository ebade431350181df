"""Cases of memory that is read in another way."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase
from xlapy.dtypes import as_dtype


def read(
    shape: tuple[int, ...], dtype: str, source: tuple[int, ...], result: tuple[int, ...]
) -> Any:
    """Parameters of a bitcast."""
    return {
        "shape": shape,
        "dtype": as_dtype(dtype),
        "source_layout": source,
        "result_layout": result,
    }


def case(name: str, operand: Any, params: Any, exact: bool = True) -> OpCase:
    """Of another type there is no derivative."""
    return OpCase(
        "bitcast", [operand], params, name=name, tol=0.0, order=0 if exact else 2,
        skip={"roundtrip": "it is written as what it is made of"},
    )  # fmt: skip


NARROW = np.arange(-8, 8).astype(as_dtype("s4").numpy).reshape(2, 8)

CASES: list[OpCase] = [
    case("transpose", "f64[4,3]", read((3, 4), "f64", (0, 1), (1, 0)), exact=False),
    case("reshape", "f64[2,3,4]", read((6, 4), "f64", (1, 2, 0), (0, 1)), exact=False),
    case("scalar", "f64[]", read((1, 1), "f64", (), (1, 0)), exact=False),
    case("complex", "c64[2,3]", read((3, 2), "c64", (0, 1), (1, 0))),
    case("empty", "f32[0,3]", read((3, 0), "f32", (1, 0), (0, 1))),
    case("bits", "f32[4,3]", read((12,), "s32", (0, 1), (0,))),
    case("wider", "s16[4,3]", read((3, 2), "s32", (0, 1), (1, 0))),
    case("narrower", "s32[2,3]", read((3, 4), "s16", (1, 0), (0, 1))),
    case("bytes", "f32[2,3]", read((4, 6), "u8", (1, 0), (0, 1))),
    case("truth", "pred[2,3]", read((3, 2), "u8", (0, 1), (1, 0))),
    case("truth_wider", "pred[4]", read((1,), "s32", (0,), (0,))),
    case("bytes_as_truth", np.array([0, 1, 1, 0], np.uint8), read((2, 2), "pred", (0,), (0, 1))),
    case("words_as_truth", np.array([0x010001, 0x01000100], np.uint32), read((8,), "pred", (0,), (0,))),
    case("nibbles", NARROW, read((2, 4), "u8", (1, 0), (1, 0))),
    case("nibbles_of_words", np.array([0x76543210, -0x76543210], np.int32), read((8, 2), "s4", (0,), (0, 1))),
    case("nibbles_unsigned", NARROW, read((8, 2), "u4", (1, 0), (0, 1))),
]  # fmt: skip

ERRORS: list[ErrorCase] = [
    ErrorCase("bitcast", ["token[]"], read((), "f32", (), ()), "I1"),
    ErrorCase("bitcast", ["f32[<=3]"], read((3,), "f32", (0,), (0,)), "X2"),
    ErrorCase("bitcast", ["f32[3]"], read((3,), "f32", (1,), (0,)), "X1"),
    ErrorCase("bitcast", ["f32[3]"], read((3,), "f32", (0,), (0, 0)), "X1"),
    ErrorCase("bitcast", ["f32[3]"], read((4,), "f32", (0,), (0,)), "C1"),
    ErrorCase("bitcast", ["c64[3]"], read((3, 2), "f32", (0,), (1, 0)), "X3"),
    ErrorCase("bitcast", ["c64[4]"], read((2,), "c128", (0,), (0,)), "X3"),
    ErrorCase("bitcast", ["f6e2m3fn[4]"], read((3,), "u8", (0,), (0,)), "X3"),
]
