"""Cases of constant and iota."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import FLOATS, INTEGERS, NARROW, edges, numpy_dtype
from xlapy.dtypes import as_dtype

CASES: list[OpCase] = [
    OpCase("constant", [], {"value": np.zeros((2, 0), np.float32)}, order=0, name="empty"),
    OpCase("constant", [], {"value": np.array(1.5)}, order=0, name="scalar"),
    OpCase("constant", [], {"value": np.broadcast_to(np.int8(7), (2, 3))}, order=0, name="splat"),
    *[
        OpCase("constant", [], {"value": np.full((2, 3), 2).astype(numpy_dtype(t))}, order=0, name=f"repeated_{t}")
        for t in ("pred", "s4", "u8", "s32", "f8e5m2", "bf16", "f64", "c64")
    ],
]  # fmt: skip
for dtype in ("pred", *INTEGERS, *FLOATS, *NARROW, "f4e2m1fn", "f8e8m0fnu", "c64", "c128"):
    CASES.append(OpCase("constant", [], {"value": edges(dtype)}, order=0, tol=0.0, name=dtype))


def iota(shape: tuple[int, ...], dtype: str, dimension: int) -> OpCase:
    """Counts along one dimension."""
    params = {"shape": shape, "dtype": as_dtype(dtype), "iota_dimension": dimension}
    return OpCase("iota", [], params, order=0, tol=0.0, name=f"{dtype}_{shape}_{dimension}")


CASES += [
    iota((2, 3), "s32", 0),
    iota((2, 3), "s32", 1),
    iota((300,), "u8", 0),
    iota((300,), "s8", 0),
    iota((300,), "bf16", 0),
    iota((20,), "s4", 0),
    iota((0, 2), "f32", 1),
    iota((4,), "c64", 0),
    iota((4,), "u64", 0),
    iota((4,), "f64", 0),
    iota((4,), "f16", 0),
]

ERRORS: list[ErrorCase] = [
    ErrorCase(
        "iota", [], {"shape": (2,), "dtype": as_dtype("s32"), "iota_dimension": 1}, "C1", "iota_dimension"
    ),
    ErrorCase("iota", [], {"shape": (), "dtype": as_dtype("s32"), "iota_dimension": 0}, "C1"),
    ErrorCase(
        "iota", [], {"shape": (2,), "dtype": as_dtype("pred"), "iota_dimension": 0}, "X1", "number"
    ),
    ErrorCase("iota", [], {"shape": (-1,), "dtype": as_dtype("s32"), "iota_dimension": 0}, "X2"),
]  # fmt: skip
