"""LAPACK's reductions of matrices to simple forms, and what goes with them, as custom calls of jaxlib, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .lapack_calls import Array, Attributes, info, letter, of_finite, rows


def _reflection(x: Array) -> tuple[Any, Array, Any]:
    """beta, v and tau of the reflection 1 - tau v v^H, whose adjoint takes x to (beta, 0, ...); v starts with 1."""
    v = np.zeros_like(x)
    v[0] = 1
    alpha, rest = x[0], x[1:]
    norm = np.linalg.norm(rest)
    if norm == 0 and alpha.imag == 0:
        return alpha, v, x.dtype.type(0)
    beta = -np.copysign(np.hypot(np.abs(alpha), norm), alpha.real)
    v[1:] = rest / (alpha - beta)
    return x.dtype.type(beta), v, (beta - alpha) / beta


def gehrd(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """A Hessenberg matrix with the reflections that lead to it below, and their factors."""
    low, high = int(attributes.get("low", 1)), int(attributes.get("high", x.shape[-1]))
    result = np.array(x)
    factors = np.zeros((len(rows(x)), max(x.shape[-1] - 1, 0)), x.dtype)
    for n, a in enumerate(rows(result)):
        for k in range(low - 1, high - 1):
            beta, v, tau = _reflection(a[k + 1 : high, k].copy())
            a[:high, k + 1 : high] -= tau * np.outer(a[:high, k + 1 : high] @ v, v.conj())
            a[k + 1 : high, k + 1 :] -= np.conj(tau) * np.outer(
                v, v.conj() @ a[k + 1 : high, k + 1 :]
            )
            a[k + 1 : high, k] = v
            a[k + 1, k] = beta
            factors[n, k] = tau
    return result, factors.reshape(out[1].shape), info(out, 2)


def sytrd(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """A tridiagonal matrix (in x, and its diagonals) from a Hermitian one of which one triangle counts."""
    size = x.shape[-1]
    lower = letter(attributes, "uplo") == "L"
    result, count = np.array(x), len(rows(x))
    diagonal = np.zeros((count, size), out[1].dtype.numpy)
    beside = np.zeros((count, max(size - 1, 0)), out[2].dtype.numpy)
    factors = np.zeros(beside.shape, x.dtype)
    for n, given in enumerate(rows(result)):
        # The upper triangle is the lower one of the matrix with rows and columns in the opposite order.
        order = slice(None) if lower else slice(None, None, -1)
        a = np.tril(given[order, order])
        a = a + np.tril(a, -1).conj().T
        a[range(size), range(size)] = a.diagonal().real
        for k in range(size - 1):
            beta, v, tau = _reflection(a[k + 1 :, k].copy())
            rest = a[k + 1 :, k + 1 :]
            rest -= tau * np.outer(rest @ v, v.conj())
            rest -= np.conj(tau) * np.outer(v, v.conj() @ rest)
            a[k + 1 :, k] = v
            a[k + 1, k] = beta
            beside[n, k], factors[n, k] = beta.real, tau
        diagonal[n] = a.diagonal().real
        keep = np.triu(np.ones(a.shape, bool), 1)
        given[order, order] = np.where(keep, given[order, order], a)
        if not lower:
            diagonal[n], beside[n], factors[n] = (
                y[n, ::-1].copy() for y in (diagonal, beside, factors)
            )
    return (
        result,
        *[y.reshape(s.shape) for y, s in zip((diagonal, beside, factors), out[1:4], strict=True)],
        info(out, 4),
    )  # fmt: skip


def geqp3(
    x: Array, chosen: Array, *, out: Sequence[Any], attributes: Attributes
) -> tuple[Any, ...]:
    """QR of the columns in another order: those that are chosen first, then the longest of what is left each time."""
    result = np.array(x)
    places = np.zeros((len(rows(x)), x.shape[-1]), chosen.dtype)
    factors = np.zeros((len(places), min(x.shape[-2:])), x.dtype)
    for n, (a, first) in enumerate(zip(rows(result), chosen.reshape(places.shape), strict=True)):
        order, fixed = np.arange(a.shape[1]), 0
        for j in map(int, np.flatnonzero(first)):
            order[[fixed, j]] = order[[j, fixed]]
            fixed += 1
        a[...] = a[:, order]
        for k in range(min(a.shape)):
            if k >= fixed:
                p = k + int(np.argmax(np.linalg.norm(a[k:, k:], axis=0)))
                a[:, [k, p]] = a[:, [p, k]]
                order[[k, p]] = order[[p, k]]
            beta, v, tau = _reflection(a[k:, k].copy())
            a[k:, k + 1 :] -= np.conj(tau) * np.outer(v, v.conj() @ a[k:, k + 1 :])
            a[k:, k] = v
            a[k, k] = beta
            factors[n, k] = tau
        places[n] = order + 1
    return result, places.reshape(out[1].shape), factors.reshape(out[2].shape)


def ormqr(
    x: Array, tau: Array, y: Array, *, out: Sequence[Any], attributes: Attributes
) -> tuple[Any, ...]:
    """Q y, y Q, or with the adjoint of Q, which is the product of the reflections in x."""
    left, adjoint = bool(attributes.get("left", True)), bool(attributes.get("transpose", False))
    result = np.array(y)
    for a, factors, c in zip(rows(x), tau.reshape(len(rows(x)), -1), rows(result), strict=True):
        steps = range(len(factors))
        # From the left Q starts with its last reflection; each of them is applied to all of y.
        for k in reversed(steps) if left != adjoint else steps:
            factor = np.conj(factors[k]) if adjoint else factors[k]
            v = np.concatenate([np.zeros(k, x.dtype), np.ones(1, x.dtype), a[k + 1 :, k]])
            if left:
                c -= factor * np.outer(v, v.conj() @ c)
            else:
                c -= factor * np.outer(c @ v, v.conj())
    return (result,)


def gtsv(
    lower: Array, diagonal: Array, upper: Array, b: Array, *, out: Sequence[Any], attributes: Attributes
) -> tuple[Any, ...]:  # fmt: skip
    """The solution for a tridiagonal matrix, of which the first three results are the factors."""
    dl, d, du, x = (np.array(y) for y in (lower, diagonal, upper, b))
    count = len(rows(b))
    failed = np.zeros(count, np.int32)
    flat = [y.reshape(count, -1) for y in (dl, d, du)]
    for n, (row_l, row_d, row_u, y) in enumerate(zip(*flat, rows(x), strict=True)):
        # The lower diagonal has its elements in the rows that they belong to, of which the first has none.
        failed[n] = _solve_tridiagonal(row_l[1:], row_d, row_u, y)
    return dl, d, du, x, info(out, 4, failed.reshape(out[4].shape))


def _solve_tridiagonal(dl: Array, d: Array, du: Array, x: Array) -> int:
    """In place; the place of the first pivot that is zero, from 1."""
    size = len(d)
    for i in range(size - 1):
        last = i == size - 2
        if abs(d[i].real) + abs(d[i].imag) >= abs(dl[i].real) + abs(dl[i].imag):
            if d[i] == 0:
                return i + 1
            factor = dl[i] / d[i]
            d[i + 1] -= factor * du[i]
            x[i + 1] -= factor * x[i]
            if not last:
                dl[i] = 0
        else:
            factor = d[i] / dl[i]
            d[i], d[i + 1], du[i] = dl[i], du[i] - factor * d[i + 1], d[i + 1]
            if not last:
                dl[i], du[i + 1] = du[i + 1], -factor * du[i + 1]
            x[[i, i + 1]] = x[[i + 1, i]]
            x[i + 1] -= factor * x[i]
    if size and d[-1] == 0:
        return size
    for i in reversed(range(size)):
        if i < size - 1:
            x[i] -= du[i] * x[i + 1]
        if i < size - 2:
            x[i] -= dl[i] * x[i + 2]
        x[i] /= d[i]
    return 0


# --- Schur's form ---------------------------------------------------------------------------------------------------


@of_finite
def gees(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Schur's form, its basis, and the eigenvalues: of real matrices with blocks of two rows for conjugate pairs."""
    result, basis = np.array(x), np.zeros(out[1].shape, x.dtype)
    values = np.zeros((len(rows(x)), x.shape[-1]), np.result_type(x.dtype, np.complex64))
    for n, (a, z) in enumerate(zip(rows(result), rows(basis), strict=True)):
        a[...], found = _schur(a)
        values[n] = _eigenvalues(a)
        if letter(attributes, "mode") == "V":
            z[...] = found
    if np.iscomplexobj(x):
        parts = [values]
    else:
        parts = [values.real, values.imag]
    given = [v.astype(s.dtype.numpy).reshape(s.shape) for v, s in zip(parts, out[2:], strict=False)]
    return result, basis, *given, *[info(out, i) for i in range(2 + len(given), len(out))]


def _schur(a: Array) -> tuple[Array, Array]:
    """One eigenvalue, or conjugate pair of them, after the other: its vectors lead the basis of what is left."""
    size, start = len(a), 0
    basis = np.eye(size, dtype=a.dtype)
    a = np.array(a)
    while start < size - 1:
        part = a[start:, start:]
        values, vectors = np.linalg.eig(part)
        first = vectors[:, 0]
        if np.iscomplexobj(a):
            space = first[:, None].astype(a.dtype)
        elif values[0].imag == 0:
            space = first.real[:, None].astype(a.dtype)
        else:
            space = np.stack([first.real, first.imag], 1).astype(a.dtype)
        width = space.shape[1]
        turn, _ = np.linalg.qr(space, mode="complete")
        a[start:, start:] = turn.conj().T @ part @ turn
        a[:start, start:] = a[:start, start:] @ turn
        basis[:, start:] = basis[:, start:] @ turn
        a[start + width :, start : start + width] = 0
        if width == 2:
            _level(a, basis, start)
        start += width
    return a, basis


def _level(a: Array, basis: Array, at: int) -> None:
    """Turn a block of two rows so that its diagonal is one number, as LAPACK has it."""
    (p, q), (r, s) = a[at : at + 2, at : at + 2]
    angle = 0.5 * np.arctan2(s - p, q + r)
    c, d = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -d], [d, c]], a.dtype)
    a[at : at + 2] = turn.T @ a[at : at + 2]
    a[:, at : at + 2] = a[:, at : at + 2] @ turn
    basis[:, at : at + 2] = basis[:, at : at + 2] @ turn


def _eigenvalues(a: Array) -> Array:
    """Those of a matrix in Schur's form."""
    values = a.diagonal().astype(np.result_type(a.dtype, np.complex64))
    for i in range(len(a) - 1):
        if a[i + 1, i] != 0:
            values[i : i + 2] = np.linalg.eigvals(a[i : i + 2, i : i + 2])
            values[i : i + 2] = values[i : i + 2][np.argsort(-values[i : i + 2].imag)]
    return values
