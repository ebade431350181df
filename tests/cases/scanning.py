"""Cases of scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, body
from cases.reduction import element_type
from xlapy import ops
from xlapy.specs import TensorSpec, parse_spec


def shape_of(operand: Any) -> tuple[int, ...]:
    """Of a spec or an array."""
    return parse_spec(operand).shape if isinstance(operand, str) else operand.shape


def scan(
    name: str,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    inits: Sequence[Any],
    dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
    **more: Any,
) -> OpCase:
    """A scan of a function of slices and carried values."""
    slices = []
    for x in inputs:
        shape = shape_of(x)
        slices.append(
            str(TensorSpec((*shape[:dimension], *shape[dimension + 1 :]), element_type(x)))
        )
    carried = [str(TensorSpec(shape_of(c), element_type(c))) for c in inits]
    params = {
        "body": body(function, *slices, *carried),
        "carries": len(inits),
        "dimension": dimension,
        "is_reverse": is_reverse,
        "is_associative": is_associative,
    }
    return OpCase("scan", [*inputs, *inits], params, **{"name": name, "tol": 1e-12, **more})


def running_sum(x: Any, total: Any) -> Any:
    """Associative."""
    total = ops.add(total, x)
    return total, total


def wave(x: Any, c: Any) -> Any:
    """Neither linear nor associative."""
    c = ops.sin(ops.add(ops.mul(x, c), x))
    return ops.mul(c, c), c


def with_constant(x: Any, c: Any, w: Any) -> Any:
    """What is carried last does not change."""
    c = ops.tanh(ops.mul(ops.add(c, x), w))
    return ops.mul(c, x), c, w


def counted(x: Any, c: Any, i: Any) -> Any:
    """With a counter."""
    return ops.mul(x, c), i, ops.sin(ops.add(c, x)), ops.add(i, 1)


def to_scalar(x: Any, c: Any) -> Any:
    """A scalar is carried through slices."""
    c = ops.add(ops.sin(c), ops.reduce_sum(ops.mul(x, x)))
    return ops.mul(x, c), c


ZERO = np.array(0, np.int32)
CASES: list[OpCase] = [
    *[
        scan(f"{f.__name__}_{d}{'_reverse' if r else ''}", f, ["f64[4,3]"], [f"f64[{3 if d == 0 else 4}]"], d, r)
        for f in (running_sum, wave)
        for d in (0, 1)
        for r in (False, True)
    ],
    scan("associative", running_sum, ["f64[5,2]"], ["f64[2]"], is_associative=True),
    scan("associative_scalars", running_sum, ["f64[6]"], ["f64[]"], is_associative=True),
    scan("associative_integers", running_sum, ["s8[5]"], ["s8[]"], is_associative=True, order=0, tol=0.0),
    scan("associative_reverse", running_sum, ["f64[3,5]"], ["f64[3]"], 1, True, is_associative=True),
    scan("not_associative", wave, ["f64[5,2]"], ["f64[2]"], is_associative=False),
    scan("scalars", wave, ["f64[6]"], ["f64[]"]),
    scan("constant", with_constant, ["f64[4,2]"], ["f64[2]", "f64[2]"]),
    scan("constant_reverse", with_constant, ["f64[2,4]"], ["f64[2]", "f64[2]"], 1, True),
    scan("counted", counted, ["f64[4,2]"], ["f64[2]", ZERO]),
    scan("scalar_carried_0", to_scalar, ["f64[4,2]"], ["f64[]"]),
    scan("scalar_carried_1", to_scalar, ["f64[2,4]"], ["f64[]"], 1),
    scan("scalar_carried_2", to_scalar, ["f64[2,1,3]"], ["f64[]"], 2, True),
    scan("two_inputs", lambda x, y, c: (ops.mul(x, y), ops.sin(ops.add(x, c))), ["f64[3,2]", "f64[3,2]"], ["f64[2]"]),
    scan("two_outputs", lambda x, c: (x, ops.mul(x, c), ops.add(ops.mul(c, c), x)), ["f64[3]"], ["f64[]"]),
    scan("no_outputs", lambda x, c: (ops.sin(ops.mul(x, c)),), ["f64[3,2]"], ["f64[2]"]),
    scan("nothing_carried", lambda x: (ops.sin(x),), ["f64[3,2]"], []),
    scan("forgets", lambda x, c: (c, x), ["f64[3]"], ["f64[]"]),
    scan("no_steps", wave, ["f64[0,2]"], ["f64[2]"], skip={"roundtrip": "it is written as constants"}),
    scan("one_step", wave, ["f64[1,2]"], ["f64[2]"]),
    scan("loop_within", lambda x, c: (x, ops.while_(lambda i, y: ops.lt(i, 2), lambda i, y: (
        ops.add(i, 1), ops.sin(ops.add(y, x))), (0, c))[1]), ["f64[3]"], ["f64[]"]),
    scan("integers", lambda x, c: (ops.max(x, c), ops.max(x, c)), ["s32[6]"], [np.array(-9, np.int32)], order=0,
         tol=0.0),
    scan("f32", running_sum, ["f32[5,2]"], ["f32[2]"], order=0, tol=1e-6),
    scan("bf16", running_sum, ["bf16[5,2]"], ["bf16[2]"], order=0, tol=5e-2),
]  # fmt: skip

SUM = body(running_sum, "f32[2]", "f32[2]")
PARAMS = {
    "body": SUM,
    "carries": 1,
    "dimension": 0,
    "is_reverse": False,
    "is_associative": None,
}


def error(
    label: str, operands: Sequence[str] = ("f32[3,2]", "f32[2]"), match: str = "", **given: Any
) -> ErrorCase:
    """A wrong scan."""
    return ErrorCase("scan", operands, {**PARAMS, **given}, label, match)


ERRORS: list[ErrorCase] = [
    error("I1", ["token[]", "f32[2]"]),
    error("I2", match="Computation", body=None),
    error("X1", match="an input", carries=2),
    error("X1", ["f32[<=3,2]", "f32[2]"], "known"),
    error("X2", dimension=2),
    error("X2", dimension=-1),
    error("X3", ["f32[3,2]", "f32[4,2]", "f32[2]"]),
    error("X4", ["f32[3,4]", "f32[4]"], "must take"),
    error("X5", match="carried", body=body(lambda x, c: (x, ops.reduce_sum(c)), "f32[2]", "f32[2]")),
    error(
        "X5", ["f32[3,2]", "f32[3]"], "at least 1", dimension=1,
        body=body(lambda x, c: (ops.reduce_sum(x), c), "f32[3]", "f32[3]"),
    ),
]  # fmt: skip
