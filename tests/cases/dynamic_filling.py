"""Cases of dynamic_broadcast_in_dim and dynamic_iota where sizes do not vary."""

from __future__ import annotations

from typing import Any

from cases import ErrorCase, OpCase
from cases.dynamic import sizes, spec


def broadcast(
    dims: tuple[int, ...],
    result: Any,
    expanding: tuple[int, ...] = (),
    other: tuple[int, ...] = (),
) -> dict[str, Any]:
    """The parameters of a broadcast."""
    return {
        "broadcast_dimensions": dims,
        "known_expanding_dimensions": expanding,
        "known_nonexpanding_dimensions": other,
        "result": result,
    }


# The sizes are all the same, so that a batch may have them in any order.
CASES: list[OpCase] = [
    OpCase("dynamic_broadcast_in_dim", ["f64[2]", sizes(2, 2)], broadcast((0,), spec(2, 2)), tol=0.0),
    OpCase("dynamic_broadcast_in_dim", ["f64[1,3]", sizes(3, 3)], broadcast((1, 0), spec(3, 3), (0,), (1,)), tol=0.0),
    OpCase("dynamic_broadcast_in_dim", ["f64[]", sizes(2)], broadcast((), spec(2)), tol=0.0),
    OpCase("dynamic_iota", [sizes(2, 2)], {"iota_dimension": 1, "result": spec(2, 2, dtype="s32")}, tol=0.0, order=0),
    OpCase("dynamic_iota", [sizes(3)], {"iota_dimension": 0, "result": spec(3, dtype="f32")}, tol=0.0, order=0),
]  # fmt: skip

ERRORS: list[ErrorCase] = [
    ErrorCase("dynamic_broadcast_in_dim", ["token[]", "s32[2]"], broadcast((), spec(2, 3)), "I1"),
    *[
        ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", wrong], broadcast((0,), spec(2, 3)), "I2", match)
        for wrong, match in (("token[]", "an array"), ("f32[2]", "integers"), ("s32[]", "one dimension"))
    ],
    ErrorCase("dynamic_broadcast_in_dim", ["f32[2]", "s32[2]"], broadcast((0,), spec(2, 3)), "C1"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", "s32[2]"], broadcast((), spec(2, 3)), "C2"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", "s32[2]"], broadcast((2,), spec(2, 3)), "C3"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2,2]", "s32[2]"], broadcast((0, 0), spec(2, 3)), "C4"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[4]", "s32[2]"], broadcast((0,), spec(2, 3)), "C5"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", "s32[3]"], broadcast((0,), spec(2, 3)), "C7"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", "s32[2]"], broadcast((0,), spec(2, 3), (0,), (0,)), "C8"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", "s32[2]"], broadcast((0,), spec(2, 3), (1,)), "C9"),
    ErrorCase("dynamic_broadcast_in_dim", ["f64[2]", "s32[2]"], broadcast((0,), spec(2, 3), (), (1,)), "C10"),
    *[
        ErrorCase("dynamic_iota", [wrong], {"iota_dimension": 0, "result": spec(3)}, "I1", match)
        for wrong, match in (("token[]", "an array"), ("f32[1]", "integers"), ("s32[]", "one dimension"))
    ],
    ErrorCase("dynamic_iota", ["s32[1]"], {"iota_dimension": 1, "result": spec(3)}, "C1"),
    ErrorCase("dynamic_iota", ["s32[2]"], {"iota_dimension": 0, "result": spec(3)}, "C2"),
    ErrorCase("dynamic_iota", ["s32[1]"], {"iota_dimension": 0, "result": spec(3, dtype="pred")}, "X1"),
]  # fmt: skip
