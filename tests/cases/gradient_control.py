"""Cases of what derivatives pass over."""

from __future__ import annotations

from cases import ErrorCase, OpCase

CASES: list[OpCase] = [
    OpCase(
        "stop_gradient",
        ["f32[2,3]"],
        order=0,
        tol=0.0,
        skip={"roundtrip": "it is written as nothing"},
    ),
    OpCase(
        "stop_gradient", ["s32[]"], order=0, tol=0.0, skip={"roundtrip": "it is written as nothing"}
    ),
]

ERRORS: list[ErrorCase] = [ErrorCase("stop_gradient", ["token[]"], {}, "I1", "array")]
