"""Derivatives and vectorisation of Cholesky and TriangularSolve.

Both are those of functions of the triangle that is read. Cotangents pair with tangents without conjugation (see
`rules`), so an adjoint turns up conjugated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.dtypes import as_dtype
from xlapy.specs import TensorSpec
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup

from .rules import broadcast_leading, constant_like, zeros_like

__all__ = [
    "adjoint",
    "batch_triangular_solve",
    "jvp_cholesky",
    "jvp_triangular_solve",
    "matrix_product",
    "triangle",
    "vjp_cholesky",
    "vjp_triangular_solve",
]


# --- matrices -------------------------------------------------------------------------------------


def transposed(x: Any) -> Any:
    """The transposes of matrices."""
    n = x.ndim
    return bind(lookup("transpose"), x, permutation=(*range(n - 2), n - 1, n - 2))


def conjugated(x: Any) -> Any:
    """The complex conjugate; of real values themselves."""
    return bind(lookup("conj"), x) if x.dtype.kind == "complex" else x


def adjoint(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return conjugated(transposed(x))


def matrix_product(x: Any, y: Any) -> Any:
    """The products of matrices, in the highest precision."""
    n = x.ndim
    batch = tuple(range(n - 2))
    return bind(
        lookup("dot_general"),
        x,
        y,
        lhs_batching_dimensions=batch,
        rhs_batching_dimensions=batch,
        lhs_contracting_dimensions=(n - 1,),
        rhs_contracting_dimensions=(n - 2,),
        precision_config=("HIGHEST", "HIGHEST"),
        preferred_element_type=x.dtype,
        algorithm=None,
    )


def triangle(x: Any, lower: bool, strict: bool = False) -> Any:
    """One triangle of matrices, with the diagonal unless `strict`; the rest zero."""
    shape = x.spec.shape
    rows, columns = (
        bind(lookup("iota"), shape=shape, dtype=as_dtype("s32"), iota_dimension=len(shape) - d)
        for d in (2, 1)
    )
    if not lower:
        rows, columns = columns, rows
    kept = bind(
        lookup("compare"),
        rows,
        columns,
        comparison_direction="GT" if strict else "GE",
        compare_type="SIGNED",
    )
    return bind(lookup("select"), kept, x, zeros_like(x))


def _add(x: Any, y: Any) -> Any:
    return bind(lookup("add"), x, y)


def _negated(x: Any) -> Any:
    return bind(lookup("neg"), x)


def _diagonal(x: Any) -> Any:
    """The diagonal alone, without its imaginary part."""
    d = triangle(triangle(x, True), False)
    if x.dtype.kind != "complex":
        return d
    real = bind(lookup("real"), d)
    return bind(lookup("complex"), real, zeros_like(real))


def _halved(x: Any) -> Any:
    return bind(lookup("mul"), x, constant_like(x, 0.5))


def _solve(
    a: Any, b: Any, left_side: bool, transpose_a: str, lower: bool = True, unit: bool = False
) -> Any:
    return bind(
        lookup("triangular_solve"),
        a,
        b,
        left_side=left_side,
        lower=lower,
        unit_diagonal=unit,
        transpose_a=transpose_a,
    )


# --- Cholesky -------------------------------------------------------------------------------------


def _half_triangle(x: Any) -> Any:
    """The lower triangle with half the diagonal: what plus its adjoint gives a Hermitian matrix."""
    return _add(triangle(x, True, strict=True), _halved(_diagonal(x)))


def jvp_cholesky(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], *, lower: bool
) -> Sequence[Any]:
    """Dl = l * half_triangle(l^-1 * da * l^-H), where da is Hermitian as a is."""
    factor, tangent = outs[0], tangents[0]
    if tangent is None:
        return (None,)
    if not lower:
        factor, tangent = adjoint(factor), adjoint(tangent)
    below = triangle(tangent, True, strict=True)
    whole = _add(_add(below, adjoint(below)), _diagonal(tangent))
    inside = _solve(factor, whole, True, "NO_TRANSPOSE")
    inside = _solve(factor, inside, False, "ADJOINT")
    found = matrix_product(factor, _half_triangle(inside))
    return (found if lower else adjoint(found),)


def vjp_cholesky(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], *, lower: bool
) -> Sequence[Any]:
    """The transpose of `jvp_cholesky`, in the inner product that conjugates, between two conjugations."""
    factor, g = outs[0], conjugated(cotangents[0])
    if not lower:
        factor, g = adjoint(factor), adjoint(g)
    half = _half_triangle(matrix_product(adjoint(factor), g))
    inside = _halved(_add(half, adjoint(half)))
    inside = _solve(factor, inside, True, "ADJOINT")
    inside = _solve(factor, inside, False, "NO_TRANSPOSE")
    below = triangle(inside, True, strict=True)
    # An element below the diagonal counts for its mirror image as well.
    found = _add(_add(below, below), _diagonal(inside))
    return (conjugated(found if lower else adjoint(found)),)


# --- TriangularSolve ------------------------------------------------------------------------------


def jvp_triangular_solve(
    operands: Sequence[Any],
    tangents: Sequence[Any],
    outs: Sequence[Any],
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> Sequence[Any]:
    """op(a) dx = db - op(da) x, and likewise on the right."""
    (a, _), (da, db), (x,) = operands, tangents, outs
    if da is not None:
        da = triangle(da, lower, unit_diagonal)
        if transpose_a != "NO_TRANSPOSE":
            da = transposed(da) if transpose_a == "TRANSPOSE" else adjoint(da)
        changed = _negated(matrix_product(da, x) if left_side else matrix_product(x, da))
        db = changed if db is None else _add(db, changed)
    if db is None:
        return (None,)
    return (_solve(a, db, left_side, transpose_a, lower, unit_diagonal),)


def vjp_triangular_solve(
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    outs: Sequence[Any],
    *,
    left_side: bool,
    lower: bool,
    unit_diagonal: bool,
    transpose_a: str,
) -> Sequence[Any]:
    """The cotangent of b solves the transposed equations; that of op(a) is minus its product with x."""
    (a, _), (g,), (x,) = operands, cotangents, outs
    if transpose_a == "ADJOINT":
        # The transpose of op(a) is a's conjugate.
        cb = conjugated(_solve(a, conjugated(g), left_side, "NO_TRANSPOSE", lower, unit_diagonal))
    else:
        other = "TRANSPOSE" if transpose_a == "NO_TRANSPOSE" else "NO_TRANSPOSE"
        cb = _solve(a, g, left_side, other, lower, unit_diagonal)
    ca = matrix_product(cb, transposed(x)) if left_side else matrix_product(transposed(x), cb)
    if transpose_a != "NO_TRANSPOSE":
        ca = transposed(ca) if transpose_a == "TRANSPOSE" else adjoint(ca)
    return _negated(triangle(ca, lower, unit_diagonal)), cb


def batch_triangular_solve(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """More right sides for the same matrices, or one more batch dimension."""
    a, b = args
    if is_batched[0]:
        return bind(op, a, b if is_batched[1] else broadcast_leading(b, size), **params)
    spec: TensorSpec = b.spec
    n = spec.rank
    *batch, rows, columns = spec.shape[1:]
    # The new axis goes in front of the dimension of b that counts right sides.
    at = n - 2 if params["left_side"] else n - 3
    order = [*range(1, at + 1), 0, *range(at + 1, n)]
    wide = bind(lookup("transpose"), b, permutation=tuple(order))
    merged = (rows, size * columns) if params["left_side"] else (size * rows, columns)
    found = bind(op, a, bind(lookup("reshape"), wide, shape=(*batch, *merged)), **params)
    found = bind(lookup("reshape"), found, shape=wide.spec.shape)
    inverse = tuple([order.index(d) for d in range(n)])
    return bind(lookup("transpose"), found, permutation=inverse)
