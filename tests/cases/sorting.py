"""Cases of sort and top_k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase, body
from cases.reduction import element_type
from cases.values import EIGHT_BITS, INTEGERS, edges, numpy_dtype
from xlapy import ops


def sort(
    name: str,
    operands: Sequence[Any],
    comparator: Callable[..., Any],
    dimension: int = 0,
    is_stable: bool = True,
    **more: Any,
) -> OpCase:
    """A sort by any comparator."""
    scalars = [f"{element_type(x)}[]" for x in operands for _ in range(2)]
    params = {
        "dimension": dimension,
        "is_stable": is_stable,
        "comparator": body(comparator, *scalars),
    }
    return OpCase("sort", operands, params, **{"name": name, "tol": 0.0, **more})


def up(a: Any, b: Any, *rest: Any) -> Any:
    """The first operand ascends."""
    return ops.lt(a, b)


def down(a: Any, b: Any, *rest: Any) -> Any:
    """The first operand descends."""
    return ops.gt(a, b)


def total(a: Any, b: Any, *rest: Any) -> Any:
    """The first operand ascends in the total order."""
    return ops.lt_total_order(a, b)


def second_then_first(a: Any, b: Any, c: Any, d: Any) -> Any:
    """The second operand ascends, and at ties the first one descends."""
    return ops.or_(ops.lt(c, d), ops.and_(ops.eq(c, d), ops.gt(a, b)))


def numbers_first(a: Any, b: Any, *rest: Any) -> Any:
    """Ascending with nan last, as numpy."""
    return ops.or_(ops.lt(a, b), ops.and_(ops.eq(a, a), ops.ne(b, b)))


def by_distance(a: Any, b: Any) -> Any:
    """The nearest to a half first."""
    return ops.lt(ops.abs(ops.sub(a, 0.5)), ops.abs(ops.sub(b, 0.5)))


def by_parts(a: Any, b: Any) -> Any:
    """Complex numbers by their real parts, then by their imaginary ones."""
    return ops.or_(
        ops.lt(ops.real(a), ops.real(b)),
        ops.and_(ops.eq(ops.real(a), ops.real(b)), ops.lt(ops.imag(a), ops.imag(b))),
    )


_generator = np.random.default_rng(3)
TIED = _generator.integers(0, 4, (4, 23)).astype(np.int32)
PLACES = np.tile(np.arange(23, dtype=np.int32), (4, 1))
FLOATS = np.array([0.0, -0.0, np.nan, -np.inf, np.inf, -np.nan, 3.0, 3.0, -1.0, 0.0, -0.0, np.nan])

TOTAL = {"reference": "StableHLO's interpreter takes TOTALORDER for FLOAT"}

CASES: list[OpCase] = [
    *[sort(f"up_{d}", ["f64[4,5,3]"], up, d) for d in (0, 1, 2, -1)],
    sort("down", ["f64[4,5]"], down, 1),
    sort("flipped", ["f64[7]"], lambda a, b: ops.gt(b, a)),
    sort("not_stable", ["f64[4,5]"], up, 1, False),
    sort("stable_ties", [TIED, PLACES], up, 1),
    sort("stable_ties_down", [TIED, PLACES], down, 1),
    sort("stable_ties_columns", [TIED, PLACES], up, 0),
    sort("stable_ties_by_merging", [TIED, PLACES], lambda a, b, c, d: ops.lt(ops.mul(a, 2), ops.mul(b, 2)), 1),
    sort("everything_ties", [TIED, PLACES], lambda a, b, c, d: ops.ne(a, a), 1),
    sort("two_keys", [TIED, "f64[4,23]"], lambda a, b, c, d: second_then_first(c, d, a, b), 1),
    sort("by_second", ["f64[4,5]", "f64[4,5]"], lambda a, b, c, d: ops.gt(c, d), 1),
    sort("three", ["f64[3,4]", "f32[3,4]", "s32[3,4]"], up, 0, order=0),
    sort("by_sum", ["f64[3,6]", "f64[3,6]"], lambda a, b, c, d: ops.lt(ops.add(a, c), ops.add(b, d)), 1),
    sort("by_distance", ["f64[19]"], by_distance),
    sort("complex", ["c128[9]"], by_parts, order=0),
    sort("total_order", [FLOATS], total, order=0, xfail=TOTAL),
    sort("total_order_f32", [FLOATS.astype(np.float32)], total, order=0, xfail=TOTAL),
    sort("numbers_first", [np.delete(FLOATS, 5)], numbers_first, order=0),
    sort("empty", ["f64[0]"], up),
    sort("empty_rows", ["f64[0,3]"], up, 1),
    sort("one", ["f64[1]"], up),
    *[sort(f"edges_{t}", [np.tile(edges(t), (2, 2))], up, 1, order=0) for t in INTEGERS],
    *[sort(f"{t}_down", [f"{t}[4,6]"], down, 1, order=0)
      for t in ("pred", "s4", "u4", "bf16", "f16", "f32", *EIGHT_BITS)],
    *[sort(f"carried_{t}", ["f32[3,5]", f"{t}[3,5]", f"{t}[3,5]"], down, 1, order=0)
      for t in ("pred", "s2", "u2", "s4", "f4e2m1fn")],
    sort("two_bits_by_second", ["u2[4,23]", TIED], lambda a, b, c, d: second_then_first(a, b, c, d), 1, order=0),
    sort("long", ["f32[1000]"], up, order=0),
    sort("long_by_merging", ["f32[1000]"], lambda a, b: ops.lt(ops.mul(a, 2.0), ops.mul(b, 2.0)), order=0),
]  # fmt: skip


def top_k(operand: Any, k: int, largest: bool = True, **more: Any) -> OpCase:
    """The largest or the smallest."""
    shown = operand if isinstance(operand, str) else f"{element_type(operand)}_{operand.shape}"
    name = f"{shown}_{k}_{'largest' if largest else 'smallest'}"
    more = {"name": name, "tol": 0.0, **more}
    if not largest:
        more["skip"] = {"roundtrip": "mhlo is written otherwise", **more.get("skip", {})}
    return OpCase("top_k", [operand], {"k": k, "largest": largest}, **more)


for _largest in (True, False):
    CASES += [
        top_k("f64[7]", 3, _largest),
        top_k("f64[3,7]", 7, _largest),
        top_k("f64[2,3,6]", 1, _largest),
        top_k("f64[3,5]", 0, _largest),
        top_k("f64[0,5]", 2, _largest),
        top_k("f64[0]", 0, _largest),
        top_k(TIED, 5, _largest, order=0),
        top_k(TIED, 1, _largest, order=0),
        top_k(np.tile(TIED, (1, 9)), 3, _largest, order=0),
        *[top_k(FLOATS.astype(numpy_dtype(t)), 9, _largest, order=0, xfail=TOTAL)
          for t in ("f16", "bf16", "f32", "f64")],
        *[top_k(edges(t), 2, _largest, order=0) for t in ("pred", "f4e2m1fn", *INTEGERS)],
    ]  # fmt: skip

LESS = body(up, "f32[]", "f32[]")
PARAMS = {"dimension": 0, "is_stable": True, "comparator": LESS}


def error(label: str, operands: Sequence[str], match: str = "", **given: Any) -> ErrorCase:
    """A wrong sort."""
    return ErrorCase("sort", operands, {**PARAMS, **given}, label, match)


ERRORS: list[ErrorCase] = [
    error("I1", ["token[]"]),
    error("C1", []),
    error("C3", ["f32[3]", "f32[4]"], "one shape"),
    error("C4", ["f32[3]"], r"in \[-1, 1\)", dimension=1),
    error("C4", ["f32[]"]),
    error("C5", ["f64[3]"], "must take"),
    error("C5", ["f32[3]", "f32[3]"], "must take"),
    error("I4", ["f32[3]"], "must be a Computation", comparator="LT"),
    error("C5", ["f32[3]"], r"must give one pred\[\]", comparator=body(ops.add, "f32[]", "f32[]")),
    ErrorCase("top_k", ["token[]"], {"k": 1, "largest": True}, "I1"),
    ErrorCase("top_k", ["c64[3]"], {"k": 1, "largest": True}, "X1", "order"),
    ErrorCase("top_k", ["f32[<=3]"], {"k": 1, "largest": True}, "X1", "known"),
    ErrorCase("top_k", ["f32[]"], {"k": 0, "largest": True}, "X2"),
    ErrorCase("top_k", ["f32[3]"], {"k": 4, "largest": True}, "X3", r"in \[0, 3\]"),
    ErrorCase("top_k", ["f32[3]"], {"k": -1, "largest": False}, "X3"),
]
