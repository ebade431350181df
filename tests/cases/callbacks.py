"""Cases of python_callback."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase
from xlapy.specs import parse_spec

SKIP = {
    "roundtrip": "a Python function has no form in text",
    "jvp": "no derivative", "vjp": "no derivative",
}  # fmt: skip


def ordered(x):
    """Sorts the last dimension."""
    return np.sort(x, axis=-1)


def both(x, y):
    """Two results."""
    return np.add(x, y), np.asarray(np.sum(x), np.float32)


def params(callback, *results: str, vectorized: bool = False) -> dict[str, object]:
    """Parameters of a callback."""
    return {
        "callback": callback, "results": tuple(map(parse_spec, results)), "has_side_effect": False,
        "vectorized": vectorized,
    }  # fmt: skip


CASES: list[OpCase] = [
    OpCase("python_callback", ["f32[4]"], params(ordered, "f32[4]"), order=0, tol=0.0, skip=SKIP),
    OpCase(
        "python_callback",
        ["s32[2,3]"],
        params(ordered, "s32[2,3]", vectorized=True),
        order=0,
        tol=0.0,
        skip=SKIP,
    ),
    OpCase(
        "python_callback", ["f32[3]", "f32[3]"], params(both, "f32[3]", "f32[]"), order=0, skip=SKIP
    ),
    OpCase(
        "python_callback",
        ["f32[3]", "f32[3]", "token[]"],
        params(both, "f32[3]", "f32[]", "token[]"),
        order=0,
        skip=SKIP,
    ),
    OpCase(
        "python_callback",
        ["f32[3]", "token[]"],
        params(ordered, "f32[3]", "token[]", vectorized=True),
        order=0,
        skip=SKIP,
    ),
]

ERRORS: list[ErrorCase] = [
    ErrorCase("python_callback", ["token[]", "f32[2]"], params(ordered, "f32[2]"), "I1"),
    ErrorCase("python_callback", ["(f32[2])"], params(ordered, "f32[2]"), "I1"),
    ErrorCase("python_callback", ["f32[<=2]"], params(ordered, "f32[2]"), "I1"),
    ErrorCase("python_callback", ["f32[2]"], params("sort", "f32[2]"), "I2"),
    ErrorCase("python_callback", ["f32[2]"], params(ordered, "f32[<=2]"), "I3"),
    ErrorCase("python_callback", ["f32[2]"], params(ordered, "f32[2]", "token[]"), "I3"),
    ErrorCase("python_callback", ["f32[2]", "token[]"], params(ordered, "f32[2]"), "I3"),
]
