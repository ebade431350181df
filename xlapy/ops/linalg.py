"""Cholesky and TriangularSolve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_word,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import BOOL, Enum
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, register

from .contraction import operands_of
from .matrix_rules import (
    batch_triangular_solve,
    jvp_cholesky,
    jvp_triangular_solve,
    vjp_cholesky,
    vjp_triangular_solve,
)
from .rules import Rules

__all__ = ["cholesky", "cholesky_op", "triangular_solve", "triangular_solve_op"]

Array = np.ndarray[Any, Any]

#: rows that are solved one by one before their product with the rest is taken off it
_BLOCK: Final = 32
TRANSPOSES: Final = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


def _require_inexact(x: Any, label: str, what: str) -> None:
    require_array(x, label, what)
    if not x.dtype.inexact:
        require_dtype(False, label, f"{what} must be of kind float or complex", x)
    require_shape(not x.dynamic, "X1", f"the sizes of {what} must not vary", x)


def _alike(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether sizes are or may be the same."""
    return len(one) == len(other) and all(n == m or DYNAMIC in (n, m) for n, m in zip(one, other))


def _require_bool(value: Any, label: str, name: str) -> None:
    require(type(value) is bool, label, f"{name} must be true or false", value)


def _wide(x: Array) -> Array:
    """Narrow floats as float32, in which their kernels compute."""
    return x if x.dtype.kind == "c" or x.dtype.itemsize >= 4 else x.astype(np.float32)


# --- Cholesky -------------------------------------------------------------------------------------


def infer_cholesky(a: TensorSpec, *, lower: bool) -> TensorSpec:
    """C1 to C3."""
    _require_inexact(a, "I1", "a")
    _require_bool(lower, "I2", "lower")
    require_shape(a.rank >= 2, "C2", "a must have at least two dimensions", a)
    require_shape(_alike(a.shape[-2:-1], a.shape[-1:]), "C3", "the matrices must be square", a)
    return a


def kernel_cholesky(a: Array, *, lower: bool, out: TensorSpec) -> Array:
    """A = l * adjoint(l), or adjoint(u) * u; nan all over for a matrix that is not positive definite."""
    x = _wide(a)
    if not lower:
        x = x.swapaxes(-1, -2).conj()
    factor = _factor(x)
    n = a.shape[-1]
    diagonal = factor[..., range(n), range(n)]
    failed: Array = np.asarray(np.isnan(diagonal).any(axis=-1))
    if failed.any():
        factor = np.where(failed[..., None, None], np.nan, factor)
    if not lower:
        factor = factor.swapaxes(-1, -2).conj()
    return factor.astype(a.dtype, copy=False)


def _factor(x: Array) -> Array:
    """The lower factors, from the lower triangles; nan where there is none."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        pass
    if x.ndim == 2:
        return np.full(x.shape, np.nan, x.dtype)
    return np.stack([_factor(matrix) for matrix in x])


cholesky_op: Op = register(Op(
    name="cholesky",
    section="Cholesky",
    infer=infer_cholesky,
    hlo=Hlo("stablehlo.cholesky", {"lower": BOOL}),
    kernel=kernel_cholesky,
    ad=Rules(jvp_cholesky, vjp_cholesky),
    batch=lambda op, args, is_batched, size, **params: bind(op, *args, **params),
))  # fmt: skip


def cholesky(a: Any, lower: bool = True) -> Tensor:
    """The Cholesky factors of symmetric (Hermitian) positive definite matrices.

    Parameters
    ----------
    a : array
        [..., n, n], of kind float or complex. Only the triangle that `lower` names is read; the diagonal
        must be real.
    lower : bool
        Whether the factors l are lower triangular, ``a = l @ l^H``, or upper triangular, ``a = u^H @ u``.

    Returns
    -------
    Tensor
        Of the same shape. The other triangle is zero. A matrix that is not positive definite gives nan in every place.

    Raises
    ------
    DTypeError
        [I1] If `a` is of another kind.
    ShapeError
        [C2], [C3] Unless `a` consists of square matrices.

    Notes
    -----
    Section Cholesky of the operation semantics; ``stablehlo.cholesky``. The values of the other triangle and those
    that nan stands for are left open there; these are XLA's on the CPU. The derivative is that with respect to the
    triangle that is read. (XLA on the CPU does read the imaginary part of a complex diagonal, to no purpose: it
    must be zero.)

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.cholesky(ops.constant([[4.0, 2.0], [2.0, 5.0]]))
    Tensor([[2., 0.],
            [1., 2.]], f32[2,2])
    """
    result: Tensor = bind(cholesky_op, lift(a), lower=lower)
    return result


# --- TriangularSolve ------------------------------------------------------------------------------


def infer_triangular_solve(
    a: TensorSpec,
    b: TensorSpec,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> TensorSpec:
    """C1 to C4."""
    _require_inexact(a, "I1", "a")
    _require_inexact(b, "I2", "b")
    for label, name, value in (
        ("I3", "left_side", left_side),
        ("I4", "lower", lower),
        ("I5", "unit_diagonal", unit_diagonal),
    ):
        _require_bool(value, label, name)
    require(
        transpose_a in TRANSPOSES,
        "I6",
        f"transpose_a must be one of {', '.join(TRANSPOSES)}",
        transpose_a,
    )
    require_dtype(a.dtype is b.dtype, "C1", "a and b must be of one element type", (a, b))
    require_shape(
        a.rank == b.rank and a.rank >= 2,
        "C2",
        "a and b must have two or more dimensions, both alike",
        (a, b),
    )
    same = _alike(a.shape[:-2], b.shape[:-2])
    require_shape(same, "C3", "a and b must be of one batch shape", (a, b))
    require_shape(_alike(a.shape[-2:-1], a.shape[-1:]), "C3", "the matrices a must be square", a)
    rows = b.shape[-2 if left_side else -1]
    require_shape(
        _alike((rows,), a.shape[-1:]),
        "C3",
        f"b must have as many {'rows' if left_side else 'columns'} as a",
        (a, b),
    )
    return b


def kernel_triangular_solve(
    a: Array,
    b: Array,
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
    out: TensorSpec,
) -> Array:
    """X from op(a) * x = b or x * op(a) = b: for each row what is left of b, divided by the diagonal."""
    matrix, right = _wide(a), _wide(b)
    if transpose_a == "ADJOINT":
        matrix = matrix.conj()
    if (transpose_a == "NO_TRANSPOSE") != left_side:
        # x * m = b is transpose(m) * transpose(x) = transpose(b).
        matrix, lower = matrix.swapaxes(-1, -2), not lower
    x = np.array(right if left_side else right.swapaxes(-1, -2), order="C")
    n = matrix.shape[-1]
    diagonal = matrix[..., range(n), range(n), None]
    if n > 1:
        # XLA divides each row of a by its diagonal first: 0 / 0.
        diagonal = np.where(diagonal == 0, np.nan, diagonal)
    starts = range(0, n, _BLOCK)
    for start in starts if lower else reversed(starts):
        stop = min(start + _BLOCK, n)
        rows = range(start, stop) if lower else range(stop - 1, start - 1, -1)
        for i in rows:
            done = slice(start, i) if lower else slice(i + 1, stop)
            if done.stop > done.start:
                x[..., i, :] -= np.matmul(matrix[..., i : i + 1, done], x[..., done, :])[..., 0, :]
            if not unit_diagonal:
                x[..., i, :] /= diagonal[..., i, :]
        rest = slice(stop, n) if lower else slice(0, start)
        if rest.stop > rest.start:
            x[..., rest, :] -= np.matmul(matrix[..., rest, start:stop], x[..., start:stop, :])
    if not left_side:
        x = x.swapaxes(-1, -2)
    return x.astype(b.dtype, copy=False)


triangular_solve_op: Op = register(Op(
    name="triangular_solve",
    section="TriangularSolve",
    infer=infer_triangular_solve,
    hlo=Hlo(
        "stablehlo.triangular_solve",
        {
            "left_side": BOOL,
            "lower": BOOL,
            "unit_diagonal": BOOL,
            "transpose_a": Enum("transpose"),
        },
    ),
    kernel=kernel_triangular_solve,
    ad=Rules(jvp_triangular_solve, vjp_triangular_solve),
    batch=batch_triangular_solve,
))  # fmt: skip


def triangular_solve(
    a: Any,
    b: Any,
    left_side: bool = True,
    lower: bool = True,
    unit_diagonal: bool = False,
    transpose_a: str | bool = "NO_TRANSPOSE",
) -> Tensor:
    """The solutions of equations with triangular matrices.

    Parameters
    ----------
    a : array
        [..., m, m], of kind float or complex. Only the triangle that `lower` names is read.
    b : array
        [..., m, k], or [..., k, m] unless `left_side`; of the same element type and batch dimensions.
    left_side : bool
        Whether to solve ``op(a) @ x = b``, or else ``x @ op(a) = b``.
    lower : bool
        Which triangle of `a` to use.
    unit_diagonal : bool
        Whether the diagonal is taken to be 1, and not read.
    transpose_a : str or bool
        What op is: ``"NO_TRANSPOSE"`` (False), ``"TRANSPOSE"`` (True), or ``"ADJOINT"``, the conjugate transpose.

    Returns
    -------
    Tensor
        x, of the shape of `b`.

    Raises
    ------
    DTypeError
        [I1], [I2] If an operand is of another kind; [C1] if the element types differ.
    ShapeError
        [C2], [C3] If the shapes do not fit.
    ConstraintError
        [X3] For another `transpose_a`.

    Notes
    -----
    Section TriangularSolve of the operation semantics; ``stablehlo.triangular_solve``. From a zero on the diagonal on
    the solution is nan, as on XLA's CPU; a single equation is a plain division.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.triangular_solve(ops.constant([[2.0, 0.0], [1.0, 4.0]]), ops.constant([[2.0], [9.0]]))
    Tensor([[1.],
            [2.]], f32[2,1])
    """
    x, y = operands_of(a, b)
    if isinstance(transpose_a, bool):
        transpose_a = TRANSPOSES[transpose_a]
    result: Tensor = bind(
        triangular_solve_op,
        x,
        y,
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit_diagonal,
        transpose_a=as_word(transpose_a),
    )
    return result
