"""Cases of cholesky and triangular_solve."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from cases import ErrorCase, OpCase
from cases.values import numpy_dtype

_generator = np.random.default_rng(0)


def _random(dtype: str, *shape: int) -> Any:
    x = _generator.normal(size=shape)
    if dtype.startswith("c"):
        x = x + 1j * _generator.normal(size=shape)
    return x.astype(numpy_dtype(dtype))


def _definite(dtype: str, *shape: int) -> Any:
    """Positive definite matrices."""
    wide = {"c64": "c128", "c128": "c128"}.get(dtype, "f64")
    x = _random(wide, *shape)
    product = x @ x.swapaxes(-1, -2).conj()
    return (product + 2 * np.eye(shape[-1])).astype(numpy_dtype(dtype))


def cholesky(name: str, a: Any, lower: bool = True, **own: Any) -> OpCase:
    """The factors of given matrices."""
    own = {"tol": 1e-9, "order": 2, **own}
    return OpCase(
        "cholesky", [a], {"lower": lower}, name=f"{name}_{'lower' if lower else 'upper'}", **own
    )


def _one_triangle(dtype: str, lower: bool) -> Any:
    """Only the triangle that is read belongs to a definite matrix."""
    a = _definite(dtype, 3, 3)
    return np.where(np.tri(3, dtype=bool) if lower else np.tri(3, dtype=bool).T, a, 9).astype(
        a.dtype
    )


_MIXED = np.stack(
    [np.eye(2), [[1.0, 2.0], [2.0, 1.0]], [[4.0, 2.0], [2.0, 5.0]], [[np.nan, 0], [0, 1]]]
)


def params(
    left_side: bool = True,
    lower: bool = True,
    unit_diagonal: bool = False,
    transpose_a: str = "NO_TRANSPOSE",
) -> dict[str, Any]:
    """The parameters of triangular_solve."""
    return {
        "left_side": left_side,
        "lower": lower,
        "unit_diagonal": unit_diagonal,
        "transpose_a": transpose_a,
    }


def solve(name: str, a: Any, b: Any, **given: Any) -> OpCase:
    """Equations with well conditioned matrices."""
    own = {k: given.pop(k) for k in ("tol", "order", "skip", "xfail") if k in given}
    own = {"tol": 1e-9, "order": 2, **own}
    if a.ndim > 2 and not given.get("unit_diagonal"):
        own["xfail"] = {"reference": "StableHLO's interpreter aborts of the diagonals of a batch"}
    elif a.dtype.kind == "f" and given.get("transpose_a") == "ADJOINT":
        own["xfail"] = {"reference": "StableHLO's interpreter dies of the adjoint of real numbers"}
    label = "_".join(str(v) for v in given.values())
    return OpCase("triangular_solve", [a, b], params(**given), name=f"{name}_{label}", **own)


def _triangular(dtype: str, *shape: int) -> Any:
    wide = {"c64": "c128", "c128": "c128"}.get(dtype, "f64")
    a = _random(wide, *shape) / 2 + 3 * np.eye(shape[-1])
    return a.astype(numpy_dtype(dtype))


_LEFT = ((2, 3, 3), (2, 3, 2))
_RIGHT = ((2, 3, 3), (2, 2, 3))

CASES: list[OpCase] = [
    *[cholesky("f64", _one_triangle("f64", lower), lower) for lower in (True, False)],
    *[cholesky("c128", _one_triangle("c128", lower), lower) for lower in (True, False)],
    cholesky("batch", _definite("f64", 2, 2, 3, 3)),
    cholesky("one", _definite("f64", 1, 1)),
    cholesky("empty", np.zeros((2, 0, 0)), order=1),
    cholesky("empty_batch", np.zeros((0, 2, 2)), order=1),
    cholesky("large", _definite("f64", 70, 70), order=1),
    *[cholesky("some_not_definite", _MIXED, lower, order=0) for lower in (True, False)],
    cholesky("not_definite", -np.eye(2), order=0),
    cholesky("nan_in_the_triangle", np.array([[1.0, 0, 0], [np.nan, 1, 0], [0.1, 0.2, 1]]), order=0),
    cholesky("f32", _definite("f32", 3, 3), order=1, tol=1e-4),
    cholesky("c64", _definite("c64", 3, 3), order=1, tol=1e-4),
    cholesky("f16", _definite("f16", 3, 3), order=0, tol=1e-2),
    cholesky("bf16", _definite("bf16", 3, 3), order=0, tol=5e-2),
    *[
        solve(dtype, _triangular(dtype, *a), _random(dtype, *b), left_side=left, lower=lower,
              unit_diagonal=unit, transpose_a=transpose)
        for dtype in ("f64", "c128")
        for (left, (a, b)), lower, unit, transpose in itertools.product(
            ((True, _LEFT), (False, _RIGHT)),
            (True, False),
            (False, True),
            ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
        )
        if dtype == "f64" or (lower and not unit)
    ],
    solve("one", np.array([[2.0]]), np.array([[3.0, 4.0]])),
    solve("no_equations", np.zeros((0, 0)), np.zeros((0, 3)), order=1),
    solve("no_right_sides", _triangular("f64", 2, 2), np.zeros((2, 0)), order=1),
    solve("large", _triangular("f64", 80, 80) + 10 * np.eye(80), _random("f64", 80, 3), order=1),
    solve("large_upper_right", _triangular("f64", 80, 80) + 10 * np.eye(80), _random("f64", 3, 80),
          left_side=False, lower=False, order=1),
    solve("zero_on_the_diagonal", np.array([[1.0, 9, 9], [2, 0, 9], [1, 1, 1]]), np.array([[1.0], [3], [4]]),
          order=0, xfail={"reference": "gives inf where XLA, which multiplies by an inverse, gives nan"}),
    solve("one_by_zero", np.array([[0.0]]), np.array([[1.0, -1.0, 0.0]]), order=0),
    solve("nan_in_the_other_triangle", np.array([[1.0, np.nan], [2, 1]]), np.array([[1.0], [3]]), order=0),
    solve("f32", _triangular("f32", 3, 3), _random("f32", 3, 2), order=1, tol=1e-5),
    solve("c64", _triangular("c64", 3, 3), _random("c64", 3, 2), order=1, tol=1e-5),
    solve("f16", _triangular("f16", 3, 3), _random("f16", 3, 2), order=0, tol=1e-2),
    solve("bf16", _triangular("bf16", 3, 3), _random("bf16", 3, 2), order=0, tol=5e-2),
]  # fmt: skip


def _solve_error(
    label: str, a: str = "f32[2,3,3]", b: str = "f32[2,3,4]", match: str = "", **given: Any
) -> ErrorCase:
    return ErrorCase("triangular_solve", [a, b], {**params(), **given}, label, match)


ERRORS: list[ErrorCase] = [
    ErrorCase("cholesky", ["token[]"], {"lower": True}, "I1"),
    ErrorCase("cholesky", ["s32[2,2]"], {"lower": True}, "I1", "float or complex"),
    ErrorCase("cholesky", ["f32[2]"], {"lower": True}, "C2"),
    ErrorCase("cholesky", ["f32[2,3]"], {"lower": True}, "C3"),
    ErrorCase("cholesky", ["f32[<=2,2,2]"], {"lower": True}, "X1"),
    ErrorCase("cholesky", ["f32[2,2]"], {"lower": 1}, "I2"),
    _solve_error("I1", a="token[]"),
    _solve_error("I2", b="token[]", match="an array"),
    _solve_error("I2", b="s32[2,3,4]"),
    _solve_error("C1", a="f64[2,3,3]"),
    _solve_error("C2", b="f32[3,4]"),
    _solve_error("C2", a="f32[3]", b="f32[3]"),
    _solve_error("C3", b="f32[1,3,4]", match="batch"),
    _solve_error("C3", a="f32[2,3,4]", match="square"),
    _solve_error("C3", left_side=False, match="columns"),
    _solve_error("C3", b="f32[2,4,3]", match="rows"),
    _solve_error("X1", a="f32[<=2,3,3]", b="f32[2,3,4]"),
    _solve_error("I3", left_side=1),
    _solve_error("I4", lower="yes"),
    _solve_error("I5", unit_diagonal=None),
    _solve_error("I6", transpose_a="TRANSPOSE_INVALID"),
]
