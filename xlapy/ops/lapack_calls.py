"""LAPACK's solvers and factorisations as custom calls of jaxlib, in numpy.

Leading axes are batches, and the info that comes with a result is 0 for success.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Attributes = Mapping[str, Any]
_Call = Callable[..., tuple[Any, ...]]


def letter(attributes: Attributes, name: str) -> str:
    """An option that is the code of a character."""
    value = attributes.get(name, 0)
    return chr(value) if isinstance(value, int) else str(value)


def info(out: Sequence[Any], position: int, failed: Array | None = None) -> Array:
    """The result that says what failed; by default nothing."""
    spec = out[position]
    if failed is None:
        return np.zeros(spec.shape, spec.dtype.numpy)
    return np.broadcast_to(failed, spec.shape).astype(spec.dtype.numpy)


def rows(x: Array) -> Array:
    """The matrices of a batch in one list."""
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])  # there may be none of nothing


def potrf(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """The Cholesky factor; the other triangle stays as it is, and info is the order of the minor that failed."""
    lower = letter(attributes, "uplo") == "L"
    result, failed = np.array(x), np.zeros(len(rows(x)), np.int32)
    for n, row in enumerate(rows(result)):
        full = np.tril(row) if lower else np.triu(row).conj().T
        factor, failed[n] = _cholesky(full)
        part = np.tril(factor) if lower else np.triu(factor.conj().T)
        keep = (
            np.triu(np.ones(row.shape, bool), 1) if lower else np.tril(np.ones(row.shape, bool), -1)
        )
        row[...] = np.where(keep, row, part)
    return result, info(out, 1, failed.reshape(out[1].shape))


def _cholesky(x: Array) -> tuple[Array, int]:
    """Column by column; x holds the lower triangle."""
    factor = np.array(x)
    size = len(x)
    for j in range(size):
        square = (x[j, j] - np.sum(np.abs(factor[j, :j]) ** 2)).real
        if square <= 0:  # which nan is not
            factor[j, j] = square
            return factor, j + 1
        factor[j, j] = np.sqrt(square)
        below = x[j + 1 :, j] - factor[j + 1 :, :j] @ factor[j, :j].conj()
        factor[j + 1 :, j] = below / factor[j, j]
    return factor, 0


def getrf(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """LU with partial pivoting: the packed factors, the rows swapped (from 1), and the first zero pivot."""
    result = np.array(x)
    pivots = np.zeros((len(rows(x)), min(x.shape[-2:])), np.int32)
    failed = np.zeros(len(pivots), np.int32)
    for n, a in enumerate(rows(result)):
        for k in range(min(a.shape)):
            size = (
                np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)
                if np.iscomplexobj(a)
                else np.abs(a[k:, k])
            )
            p = k + int(np.argmax(size))
            pivots[n, k] = p + 1
            if a[p, k] == 0:
                failed[n] = failed[n] or k + 1
                continue
            a[[k, p]] = a[[p, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return result, pivots.reshape(out[1].shape), info(out, 2, failed.reshape(out[2].shape))


def geqrf(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """QR by Householder reflections: R above, the reflections below, and their factors."""
    result = np.array(x)
    factors = np.zeros((len(rows(x)), min(x.shape[-2:])), x.dtype)
    for n, a in enumerate(rows(result)):
        for k in range(min(a.shape)):
            alpha, rest = a[k, k], a[k + 1 :, k]
            norm = np.linalg.norm(rest)
            if norm == 0 and alpha.imag == 0:
                continue
            beta = -np.copysign(np.hypot(np.abs(alpha), norm), alpha.real)
            tau = (beta - alpha) / beta
            v = np.concatenate([np.ones(1, x.dtype), rest / (alpha - beta)])
            # H^H of the complex case, as LAPACK applies it
            a[k:, k + 1 :] -= np.conj(tau) * np.outer(v, v.conj() @ a[k:, k + 1 :])
            a[k, k], a[k + 1 :, k] = beta, v[1:]
            factors[n, k] = tau
    rest_of = [info(out, i) for i in range(2, len(out))]
    return result, factors.reshape(out[1].shape), *rest_of


def orgqr(x: Array, tau: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """The first columns of Q from reflections."""
    result = np.array(x)
    taus = tau.reshape(len(rows(x)), -1)
    for n, a in enumerate(rows(result)):
        height, columns = a.shape
        q = np.eye(height, columns, dtype=x.dtype)
        for k in range(taus.shape[1] - 1, -1, -1):
            v = np.concatenate([np.zeros(k, x.dtype), np.ones(1, x.dtype), a[k + 1 :, k]])
            q -= taus[n, k] * np.outer(v, v.conj() @ q)
        a[...] = q
    return result, *[info(out, i) for i in range(1, len(out))]


def of_finite(function: _Call) -> _Call:
    """A function of matrices that numpy refuses where they are not finite: of these it gives nan, and an info of 1."""

    @functools.wraps(function)
    def run(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
        wrong: Array = np.asarray(~np.isfinite(x).all(axis=(-2, -1)))
        if not wrong.any():
            return function(x, out=out, attributes=attributes)
        found = function(
            np.where(wrong[..., None, None], x.dtype.type(0), x), out=out, attributes=attributes
        )
        spoiled = [np.array(y) for y in found]
        for y in spoiled:
            y[wrong] = 1 if y.dtype.kind == "i" else np.nan
        return tuple(spoiled)

    return run


@of_finite
def gesdd(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Singular values and vectors: (workspace or x, s, u, vt, info)."""
    mode = letter(attributes, "mode")
    specs = out[-5:]
    s_spec, u_spec, vt_spec = specs[1:4]
    overwritten = np.array(x)
    if mode == "N":
        s = np.linalg.svd(x, compute_uv=False)
        return (
            overwritten,
            s,
            np.zeros(u_spec.shape, x.dtype),
            np.zeros(vt_spec.shape, x.dtype),
            info(out, 4),
        )
    u, s, vt = np.linalg.svd(x, full_matrices=mode == "A")
    return overwritten, s.astype(s_spec.dtype.numpy), u, vt, info(out, 4)


@of_finite
def syevd(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Eigenvectors and eigenvalues of a Hermitian matrix of which one triangle counts."""
    values, vectors = np.linalg.eigh(x, UPLO="L" if letter(attributes, "uplo") == "L" else "U")
    return vectors, values, info(out, 2)


@of_finite
def geev(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Eigenvalues (real matrices: real and imaginary parts), left and right eigenvectors, info."""
    complex_type = np.result_type(x.dtype, np.complex64)
    values, right = np.linalg.eig(x)
    left = _left_eigenvectors(x, values, right)
    if left.size and np.iscomplexobj(
        left
    ):  # LAPACK turns each so that its largest component is real
        largest = np.take_along_axis(left, np.abs(left).argmax(-2, keepdims=True), -2)
        left = left * (largest.conj() / np.abs(largest))
    vectors = (left.astype(complex_type), right.astype(complex_type))
    if np.iscomplexobj(x):
        return values, *vectors, info(out, len(out) - 1)
    return (
        values.real.astype(x.dtype),
        values.imag.astype(x.dtype),
        *vectors,
        info(out, len(out) - 1),
    )


def _left_eigenvectors(x: Array, values: Array, right: Array) -> Array:
    """Those of the transpose, in the order of the eigenvalues."""
    try:
        left = np.linalg.inv(right).conj().swapaxes(-1, -2)
    except np.linalg.LinAlgError:  # a matrix without a basis of them
        found, vectors = np.linalg.eig(x.conj().swapaxes(-1, -2))
        distance = np.abs(values[..., :, None] - found.conj()[..., None, :])
        left = np.empty(vectors.shape, np.result_type(vectors, values))
        for row in np.ndindex(x.shape[:-2]):
            free = list(range(x.shape[-1]))
            for n, each in enumerate(distance[row]):
                nearest = min(free, key=lambda i, each=each: each[i])  # type: ignore[misc]
                free.remove(nearest)
                left[row][:, n] = vectors[row][:, nearest]
    unit: Array = left / np.linalg.norm(left, axis=-2, keepdims=True)
    return unit


def trsm(
    a: Array, b: Array, *rest: Array, out: Sequence[Any], attributes: Attributes
) -> tuple[Any, ...]:
    """The solution of op(a) x = alpha b, or of x op(a) = alpha b."""
    alpha = rest[0] if rest else np.ones((), b.dtype)
    lower = letter(attributes, "uplo") == "L"
    a = np.tril(a) if lower else np.triu(a)
    if letter(attributes, "diag") == "U":
        unit = np.arange(a.shape[-1])
        a[..., unit, unit] = 1
    transposed = letter(attributes, "trans_x")
    if transposed in ("T", "C"):
        a = a.swapaxes(-1, -2)
        a = a.conj() if transposed == "C" else a
    right = letter(attributes, "side") == "R"
    if right:
        found = np.linalg.solve(a.swapaxes(-1, -2), alpha * b.swapaxes(-1, -2)).swapaxes(-1, -2)
    else:
        found = np.linalg.solve(a, alpha * b)
    return (found.astype(b.dtype),)
