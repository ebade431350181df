"""Cases of slice, dynamic_slice and dynamic_update_slice."""

from __future__ import annotations

from typing import Any

import numpy as np

from cases import ErrorCase, OpCase

Ints = tuple[int, ...]


def slice_(spec: str, starts: Ints, limits: Ints, strides: Ints) -> OpCase:
    """A box of an operand."""
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return OpCase("slice", [spec], params, tol=0.0, name=f"{spec}_{starts}_{limits}_{strides}")


def index(value: int, dtype: Any = np.int32) -> np.ndarray:
    """A start index."""
    return np.array(value, dtype)


_UNSIGNED = {"reference": "the reference interpreter reads unsigned indices as signed"}
_NO_STARTS = {"reference": "StableHLO prints no start indices in a form that it does not read"}


def reasons(starts: tuple[np.ndarray, ...]) -> dict[str, str]:
    """Why the reference interpreter must fail."""
    if not starts:
        return _NO_STARTS
    return _UNSIGNED if any(s.dtype == np.uint64 for s in starts) else {}


def dynamic_slice(spec: str, sizes: Ints, *starts: np.ndarray) -> OpCase:
    """A box from a computed place."""
    name = f"{spec}_{sizes}_{'_'.join(f'{s.dtype}{s}' for s in starts)}"
    params = {"slice_sizes": sizes}
    xfail = reasons(starts)
    return OpCase("dynamic_slice", [spec, *starts], params, tol=0.0, name=name, xfail=xfail)


def update(spec: str, box: str, *starts: np.ndarray) -> OpCase:
    """A box put in a computed place."""
    name = f"{spec}_{box}_{'_'.join(f'{s.dtype}{s}' for s in starts)}"
    xfail = _UNSIGNED if any(s.dtype == np.uint64 for s in starts) else {}
    return OpCase("dynamic_update_slice", [spec, box, *starts], tol=0.0, name=name, xfail=xfail)


CASES: list[OpCase] = [
    slice_("f64[5]", (1,), (4,), (1,)),
    slice_("f64[5]", (0,), (5,), (2,)),
    slice_("f64[6]", (1,), (6,), (3,)),
    slice_("f64[5]", (2,), (2,), (1,)),
    slice_("f64[5]", (5,), (5,), (7,)),
    slice_("f64[3,4]", (1, 0), (3, 4), (1, 3)),
    slice_("f64[]", (), (), ()),
    slice_("f64[0]", (0,), (0,), (1,)),
    slice_("c128[4]", (1,), (4,), (2,)),
    slice_("pred[4]", (1,), (4,), (2,)),
    slice_("s4[4]", (1,), (4,), (2,)),
    slice_("f8e5m2[4]", (1,), (4,), (2,)),
    dynamic_slice("f64[5]", (3,), index(1)),
    dynamic_slice("f64[5]", (3,), index(4)),
    dynamic_slice("f64[5]", (3,), index(-2)),
    dynamic_slice("f64[3,4]", (2, 2), index(1), index(3)),
    dynamic_slice("f64[3]", (0,), index(2)),
    dynamic_slice("f64[]", ()),
    dynamic_slice("f64[5]", (2,), index(200, np.uint8)),
    dynamic_slice("f64[5]", (2,), index(-100, np.int8)),
    dynamic_slice("f64[5]", (2,), index(2**63 - 1, np.int64)),
    dynamic_slice("f64[5]", (2,), index(-(2**63), np.int64)),
    dynamic_slice("f64[5]", (2,), index(2**63, np.uint64)),
    dynamic_slice("f64[200]", (2,), index(127, np.int8)),
    dynamic_slice("c64[5]", (2,), index(2)),
    dynamic_slice("pred[5]", (2,), index(2)),
    dynamic_slice("u4[5]", (2,), index(2)),
    update("f64[5]", "f64[3]", index(1)),
    update("f64[5]", "f64[3]", index(4)),
    update("f64[5]", "f64[3]", index(-2)),
    update("f64[3,4]", "f64[2,2]", index(1), index(3)),
    update("f64[3]", "f64[0]", index(2)),
    update("f64[]", "f64[]"),
    update("f64[5]", "f64[2]", index(200, np.uint8)),
    update("f64[5]", "f64[2]", index(2**63, np.uint64)),
    update("f64[200]", "f64[2]", index(127, np.int8)),
    update("c64[5]", "c64[2]", index(2)),
    update("pred[5]", "pred[2]", index(2)),
    update("u4[5]", "u4[2]", index(2)),
]

STARTS = {"start_indices": (0,), "limit_indices": (1,), "strides": (1,)}
ERRORS: list[ErrorCase] = [
    ErrorCase("slice", ["token[]"], STARTS, "I1"),
    ErrorCase("slice", ["f32[2,2]"], STARTS, "C2", "start_indices"),
    ErrorCase("slice", ["f32[2]"], {**STARTS, "limit_indices": ()}, "C2", "limit_indices"),
    ErrorCase("slice", ["f32[2]"], {**STARTS, "strides": (1, 1)}, "C2", "strides"),
    ErrorCase("slice", ["f32[2]"], {**STARTS, "limit_indices": (3,)}, "C3"),
    ErrorCase("slice", ["f32[2]"], {**STARTS, "start_indices": (-1,)}, "C3"),
    ErrorCase("slice", ["f32[2]"], {**STARTS, "start_indices": (2,)}, "C3"),
    ErrorCase("slice", ["f32[2]"], {**STARTS, "strides": (0,)}, "C4"),
    ErrorCase("dynamic_slice", ["(f32[2])", "s32[]"], {"slice_sizes": (1,)}, "I1"),
    ErrorCase("dynamic_slice", ["f32[<=2]", "s32[]"], {"slice_sizes": (1,)}, "X3", "vary"),
    ErrorCase("dynamic_slice", ["f32[2]", "f32[]"], {"slice_sizes": (1,)}, "I2", "integers"),
    ErrorCase("dynamic_slice", ["f32[2]", "s32[1]"], {"slice_sizes": (1,)}, "I2", "scalars"),
    ErrorCase("dynamic_slice", ["f32[2]", "token[]"], {"slice_sizes": (1,)}, "I2"),
    ErrorCase("dynamic_slice", ["f32[2]"], {"slice_sizes": (1,)}, "C2"),
    ErrorCase("dynamic_slice", ["f32[2]", "s32[]"], {"slice_sizes": ()}, "C2"),
    ErrorCase("dynamic_slice", ["f32[2,2]", "s32[]", "s64[]"], {"slice_sizes": (1, 1)}, "C3"),
    ErrorCase("dynamic_slice", ["f32[2]", "s32[]"], {"slice_sizes": (3,)}, "C4"),
    ErrorCase("dynamic_slice", ["f32[2]", "s32[]"], {"slice_sizes": (-1,)}, "C4"),
    ErrorCase("dynamic_update_slice", ["token[]", "f32[2]"], {}, "I1"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "token[]", "s32[]"], {}, "I2"),
    ErrorCase("dynamic_update_slice", ["f32[<=2]", "f32[1]", "s32[]"], {}, "X3", "the operand"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[<=1]", "s32[]"], {}, "X3", "the update"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f64[2]", "s32[]"], {}, "C2"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[]", "s32[]"], {}, "C3"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[1]", "token[]"], {}, "I3", "an array"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[1]", "f32[]"], {}, "I3", "integers"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[1]", "s32[1]"], {}, "I3", "scalars"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[1]"], {}, "C4"),
    ErrorCase("dynamic_update_slice", ["f32[2,2]", "f32[1,1]", "s32[]", "u32[]"], {}, "C5"),
    ErrorCase("dynamic_update_slice", ["f32[2]", "f32[3]", "s32[]"], {}, "C6"),
]
