"""Cases of get_dimension_size, set_dimension_size and dynamic_reshape where sizes do not vary.

`tests/ops/test_varying_sizes.py` has those that do.
"""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
from xlapy.specs import TensorSpec


def sizes(*values: int, dtype: type = np.int32) -> np.ndarray:
    """An array of sizes."""
    return np.array(values, dtype)


def spec(*shape: int, dtype: str = "f64") -> TensorSpec:
    """A result."""
    return TensorSpec(shape, dtype)


CASES: list[OpCase] = [
    OpCase("get_dimension_size", ["f64[2,3]"], {"dimension": 1}, order=0, tol=0.0),
    OpCase("get_dimension_size", ["s4[0]"], {"dimension": 0}, order=0, tol=0.0),
    OpCase(
        "set_dimension_size", ["f64[2,3]", np.array(3, np.int32)], {"dimension": 1, "varies": False},
        tol=0.0, skip={"roundtrip": "programs are read with the size as a constant"},
    ),
    OpCase("dynamic_reshape", ["f64[4,1]", sizes(2, 2)], {"result": spec(2, 2)}, tol=0.0),
    OpCase("dynamic_reshape", ["f64[2,3]", sizes(6, dtype=np.int64)], {"result": spec(6)}, tol=0.0, name="s64"),
    OpCase("dynamic_reshape", ["f64[1]", sizes()], {"result": spec()}, tol=0.0, name="scalar"),
    OpCase("dynamic_reshape", ["f64[0,3]", sizes(0)], {"result": spec(0)}, tol=0.0, name="empty"),
]  # fmt: skip

F32 = TensorSpec((2, 3), "f32")
ERRORS: list[ErrorCase] = [
    ErrorCase("get_dimension_size", ["token[]"], {"dimension": 0}, "I1"),
    ErrorCase("get_dimension_size", ["f32[2]"], {"dimension": 1}, "C1"),
    ErrorCase("set_dimension_size", ["token[]", "s32[]"], {"dimension": 0, "varies": True}, "I1"),
    ErrorCase("set_dimension_size", ["f32[2]", "token[]"], {"dimension": 0, "varies": True}, "I2"),
    ErrorCase("set_dimension_size", ["f32[2]", "s64[]"], {"dimension": 0, "varies": True}, "X1"),
    ErrorCase("set_dimension_size", ["f32[2]", "s32[1]"], {"dimension": 0, "varies": True}, "X2"),
    ErrorCase("set_dimension_size", ["f32[2]", "s32[]"], {"dimension": 1, "varies": True}, "X3"),
    ErrorCase("set_dimension_size", ["f32[?]", "s32[]"], {"dimension": 0, "varies": True}, "X4"),
    ErrorCase("dynamic_reshape", ["token[]", "s32[2]"], {"result": F32}, "I1"),
    ErrorCase("dynamic_reshape", ["f32[6]", "f32[2]"], {"result": F32}, "I2"),
    ErrorCase("dynamic_reshape", ["f32[6]", "s32[2,1]"], {"result": F32}, "I2"),
    ErrorCase("dynamic_reshape", ["f64[6]", "s32[2]"], {"result": F32}, "C1"),
    ErrorCase("dynamic_reshape", ["f32[5]", "s32[2]"], {"result": F32}, "C2"),
    ErrorCase("dynamic_reshape", ["f32[6]", "s32[3]"], {"result": F32}, "C4"),
]
