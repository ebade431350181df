"""Cases of while and case."""

from __future__ import annotations

import numpy as np

from cases import ErrorCase, OpCase, body
from xlapy import ops


def s32(value: int) -> np.ndarray:
    """A counter."""
    return np.array(value, np.int32)


def counted(direction: str, limit: int, step: int) -> dict[str, object]:
    """A loop with a counter beside a state that it works on."""
    specs = ("s32[]", "f64[2]", "f64[2]")
    return {
        "cond": body(lambda i, x, w: ops.compare(i, limit, direction), *specs),
        "body": body(lambda i, x, w: (ops.add(i, step), ops.sin(ops.mul(x, w)), w), *specs),
    }


def until(limit: float) -> dict[str, object]:
    """A loop whose number of rounds depends on its operands."""
    specs = ("f64[]", "f64[]")
    return {
        "cond": body(lambda x, w: ops.lt(x, limit), *specs),
        "body": body(
            lambda x, w: (ops.add(ops.add(x, 0.6), ops.mul(0.3, ops.sin(ops.mul(x, w)))), w), *specs
        ),
    }


def rows() -> dict[str, object]:
    """A loop that reads a row and writes a row each round."""
    specs = ("s32[]", "f64[2]", "f64[4,2]", "f64[4,2]")

    def step(i, y, xs, ys):
        x = ops.reshape(ops.dynamic_slice(xs, [i, s32(0)], (1, 2)), (2,))
        y = ops.tanh(ops.add(ops.mul(y, 0.5), x))
        return (
            ops.add(i, 1),
            y,
            xs,
            ops.dynamic_update_slice(ys, ops.reshape(y, (1, 2)), [i, s32(0)]),
        )

    return {"cond": body(lambda i, y, xs, ys: ops.lt(i, 4), *specs), "body": body(step, *specs)}


def chooses(*branches):
    """A conditional as a branch."""
    return body(
        lambda i, x, y: ops.conditional(i, branches, [(x, y)] * 2), "s32[]", "f64[2]", "f64[2]"
    )


WIDE = ["f64[2]", "f64[2]"]
CASES: list[OpCase] = [
    OpCase("while", [s32(0), *WIDE], counted("LT", 3, 1), name="up"),
    OpCase("while", [s32(0), *WIDE], counted("LE", 3, 2), name="up_by_two"),
    OpCase("while", [s32(3), *WIDE], counted("GT", 0, -1), name="down"),
    OpCase("while", [s32(4), *WIDE], counted("GE", 0, -3), name="down_by_three"),
    OpCase("while", [s32(1), *WIDE], counted("NE", 4, 1), name="unequal"),
    OpCase("while", [s32(5), *WIDE], counted("LT", 3, 1), name="no_round"),
    OpCase("while", [np.array(0.5), np.array(1.3)], until(4.0), name="until"),
    OpCase("while", [np.array(0.5), np.array(1.3)], until(-4.0), name="until_at_once"),
    OpCase("while", [np.array(0.5), np.array(1.3)], until(60.0), tol=1e-4, name="until_far"),
    OpCase("while", [s32(0), "f64[2]", "f64[4,2]", "f64[4,2]"], rows(), name="rows"),
    OpCase(
        "while", [np.array(200, np.uint8)],
        {"cond": body(lambda i: ops.ne(i, 5), "u8[]"), "body": body(lambda i: ops.add(i, 1), "u8[]")},
        order=0, tol=0.0, name="wraps",
    ),
]  # fmt: skip

BRANCHES = tuple(
    body(f, "f64[2]", "f64[2]")
    for f in (
        lambda x, y: (ops.mul(x, y), x),
        lambda x, y: (ops.sin(ops.mul(x, ops.cos(y))), ops.exp(y)),
        lambda x, y: (ops.constant(np.array([1.0, 2.0])), y),
    )
)
CASES += [
    OpCase("case", [s32(i), *WIDE], {"branches": BRANCHES}, name=f"index_{i}")
    for i in (0, 1, 2, 3, -1, 2**31 - 1, -(2**31))
]
CASES += [
    OpCase("case", [np.array(p), *WIDE], {"branches": BRANCHES[:2]}, name=f"pred_{p}")
    for p in (True, False)
]
CASES += [
    OpCase("case", [s32(0), *WIDE], {"branches": BRANCHES[:1]}, name="one_branch"),
    OpCase("case", [s32(7), "s32[3]"], {"branches": (body(ops.neg, "s32[3]"),) * 2}, order=0, tol=0.0),
    OpCase(
        "case", [np.array(True), s32(1), *WIDE],
        {"branches": (chooses(*BRANCHES[:2]), chooses(*BRANCHES[1:]))},
        name="nested",
    ),
]  # fmt: skip

LOOP = counted("LT", 3, 1)
STATE = ["s32[]", "f64[2]", "f64[2]"]
ERRORS: list[ErrorCase] = [
    ErrorCase("while", STATE, LOOP | {"cond": None}, "I2", "cond must be a Computation"),
    ErrorCase("while", STATE, LOOP | {"body": ops.add}, "I3", "body must be a Computation"),
    ErrorCase("while", ["s32[]", "f32[2]", "f64[2]"], LOOP, "C1", "cond must take the operands"),
    ErrorCase("while", STATE, LOOP | {"cond": LOOP["body"]}, "C1", "must give one pred"),
    ErrorCase("while", STATE, LOOP | {"body": body(lambda i, x, w: (i, x), *STATE)}, "C2", "must give what it takes"),
    ErrorCase("while", STATE, LOOP | {"body": until(1.0)["body"]}, "C2", "body must take the operands"),
    ErrorCase("case", [], {"branches": BRANCHES}, "I1"),
    ErrorCase("case", ["s64[]", *WIDE], {"branches": BRANCHES}, "I1", r"must be s32\[\] or pred\[\]"),
    ErrorCase("case", ["s32[1]", *WIDE], {"branches": BRANCHES}, "I1"),
    ErrorCase("case", ["token[]", *WIDE], {"branches": BRANCHES}, "I1"),
    ErrorCase("case", ["s32[]", *WIDE], {"branches": list(BRANCHES)}, "I2"),
    ErrorCase("case", ["s32[]", *WIDE], {"branches": (BRANCHES[0], "x")}, "I2"),
    ErrorCase("case", ["s32[]", *WIDE], {"branches": ()}, "C1"),
    ErrorCase("case", ["pred[]", *WIDE], {"branches": BRANCHES}, "X1", "between two branches"),
    ErrorCase("case", ["s32[]", "f64[2]"], {"branches": BRANCHES}, "C2"),
    ErrorCase(
        "case", ["s32[]", *WIDE], {"branches": (BRANCHES[0], body(lambda x, y: (x,), *WIDE))}, "C3",
        "must give what branch 0 gives",
    ),
]  # fmt: skip
