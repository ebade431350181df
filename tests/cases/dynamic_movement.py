"""Cases of dynamic_pad and real_dynamic_slice where sizes do not vary."""

from __future__ import annotations

from typing import Any

from cases import ErrorCase, OpCase
from cases.dynamic import sizes, spec


def pad(name: str, operand: str, low: Any, high: Any, interior: Any, *shape: int) -> OpCase:
    """A pad by computed amounts."""
    amounts = [sizes(*low), sizes(*high), sizes(*interior)]
    params = {"result": spec(*shape)}
    return OpCase("dynamic_pad", [operand, "f64[]", *amounts], params, tol=0.0, name=name)


def slice_(name: str, operand: str, starts: Any, limits: Any, strides: Any, *shape: int) -> OpCase:
    """A box from a computed place."""
    places = [sizes(*starts), sizes(*limits), sizes(*strides)]
    params = {"result": spec(*shape)}
    return OpCase("real_dynamic_slice", [operand, *places], params, tol=0.0, name=name)


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
]  # fmt: skip

PAD = ("f64[3]", "f64[]", "s32[1]", "s32[1]", "s32[1]")
SLICE = ("f64[3]", "s32[1]", "s32[1]", "s32[1]")


def bad(
    op: str, operands: tuple[str, ...], place: int, wrong: str, params: Any, label: str
) -> ErrorCase:
    """One operand replaced by a wrong one."""
    given = [*operands[:place], wrong, *operands[place + 1 :]]
    return ErrorCase(op, given, params, label)


ERRORS: list[ErrorCase] = [
    bad("dynamic_pad", PAD, 0, "token[]", {"result": spec(4)}, "I1"),
    bad("dynamic_pad", PAD, 1, "token[]", {"result": spec(4)}, "I2"),
    bad("dynamic_pad", PAD, 1, "f64[1]", {"result": spec(4)}, "I2"),
    bad("dynamic_pad", PAD, 1, "f32[]", {"result": spec(4)}, "C1"),
    *[
        bad("dynamic_pad", PAD, place, wrong, {"result": spec(4)}, label)
        for place, label in ((2, "I3"), (3, "I4"), (4, "I5"))
        for wrong in ("token[]", "f32[1]", "s32[]")
    ],
    bad("dynamic_pad", PAD, 4, "s32[2]", {"result": spec(4)}, "C2"),
    bad("dynamic_pad", PAD, 4, "s32[1]", {"result": spec(4, 1)}, "C4"),
    bad("real_dynamic_slice", SLICE, 0, "token[]", {"result": spec(2)}, "I1"),
    *[
        bad("real_dynamic_slice", SLICE, place, wrong, {"result": spec(2)}, label)
        for place, label in ((1, "I2"), (2, "I3"), (3, "I4"))
        for wrong in ("token[]", "f32[1]", "s32[]")
    ],
    bad("real_dynamic_slice", SLICE, 3, "s32[2]", {"result": spec(2)}, "X1"),
    bad("real_dynamic_slice", SLICE, 0, "f32[3]", {"result": spec(2)}, "X2"),
    bad("real_dynamic_slice", SLICE, 0, "f64[3]", {"result": spec(2, 2)}, "X2"),
]  # fmt: skip
