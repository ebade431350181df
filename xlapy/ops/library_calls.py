"""What well-known custom calls compute, in numpy: those that XLA itself, jaxlib and its users put into programs.

Each function takes arrays, the specs of the results and the call's attributes, and gives the tuple of results. Where a
library leaves the choice of a basis or the order of values open, results may differ from the library's in those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import UnsupportedOpError

__all__ = ["LIBRARY"]

Array = np.ndarray[Any, Any]
Attributes = Mapping[str, Any]


# --- LAPACK ---------------------------------------------------------------------------------------------------------
# The kernels of jaxlib: leading axes are batches, and the info that comes with a result is 0 for success.


def _letter(attributes: Attributes, name: str) -> str:
    """An option that is the code of a character."""
    value = attributes.get(name, 0)
    return chr(value) if isinstance(value, int) else str(value)


def _info(out: Sequence[Any], position: int, failed: Array | None = None) -> Array:
    spec = out[position]
    if failed is None:
        return np.zeros(spec.shape, spec.dtype.numpy)
    return np.broadcast_to(failed, spec.shape).astype(spec.dtype.numpy)


def _rows(x: Array) -> Array:
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])  # there may be none of nothing


def potrf(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """The Cholesky factor; the other triangle stays as it is, and info is the order of the minor that failed."""
    lower = _letter(attributes, "uplo") == "L"
    result, info = np.array(x), np.zeros(len(_rows(x)), np.int32)
    for n, row in enumerate(_rows(result)):
        full = np.tril(row) if lower else np.triu(row).conj().T
        factor, info[n] = _cholesky(full)
        part = np.tril(factor) if lower else np.triu(factor.conj().T)
        keep = (
            np.triu(np.ones(row.shape, bool), 1) if lower else np.tril(np.ones(row.shape, bool), -1)
        )
        row[...] = np.where(keep, row, part)
    return result, _info(out, 1, info.reshape(out[1].shape))


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
    pivots = np.zeros((len(_rows(x)), min(x.shape[-2:])), np.int32)
    info = np.zeros(len(pivots), np.int32)
    for n, a in enumerate(_rows(result)):
        for k in range(min(a.shape)):
            size = (
                np.abs(a[k:, k].real) + np.abs(a[k:, k].imag)
                if np.iscomplexobj(a)
                else np.abs(a[k:, k])
            )
            p = k + int(np.argmax(size))
            pivots[n, k] = p + 1
            if a[p, k] == 0:
                info[n] = info[n] or k + 1
                continue
            a[[k, p]] = a[[p, k]]
            a[k + 1 :, k] /= a[k, k]
            a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return result, pivots.reshape(out[1].shape), _info(out, 2, info.reshape(out[2].shape))


def geqrf(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """QR by Householder reflections: R above, the reflections below, and their factors."""
    result = np.array(x)
    factors = np.zeros((len(_rows(x)), min(x.shape[-2:])), x.dtype)
    for n, a in enumerate(_rows(result)):
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
    rest_of = [_info(out, i) for i in range(2, len(out))]
    return result, factors.reshape(out[1].shape), *rest_of


def orgqr(x: Array, tau: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """The first columns of Q from reflections."""
    result = np.array(x)
    taus = tau.reshape(len(_rows(x)), -1)
    for n, a in enumerate(_rows(result)):
        rows, columns = a.shape
        q = np.eye(rows, columns, dtype=x.dtype)
        for k in range(taus.shape[1] - 1, -1, -1):
            v = np.concatenate([np.zeros(k, x.dtype), np.ones(1, x.dtype), a[k + 1 :, k]])
            q -= taus[n, k] * np.outer(v, v.conj() @ q)
        a[...] = q
    return result, *[_info(out, i) for i in range(1, len(out))]


def gesdd(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Singular values and vectors: (workspace or x, s, u, vt, info)."""
    mode = _letter(attributes, "mode")
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
            _info(out, 4),
        )
    u, s, vt = np.linalg.svd(x, full_matrices=mode == "A")
    return overwritten, s.astype(s_spec.dtype.numpy), u, vt, _info(out, 4)


def syevd(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Eigenvectors and eigenvalues of a Hermitian matrix of which one triangle counts."""
    values, vectors = np.linalg.eigh(x, UPLO="L" if _letter(attributes, "uplo") == "L" else "U")
    return vectors, values, _info(out, 2)


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
        return values, *vectors, _info(out, len(out) - 1)
    return (
        values.real.astype(x.dtype),
        values.imag.astype(x.dtype),
        *vectors,
        _info(out, len(out) - 1),
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
    lower = _letter(attributes, "uplo") == "L"
    a = np.tril(a) if lower else np.triu(a)
    if _letter(attributes, "diag") == "U":
        unit = np.arange(a.shape[-1])
        a[..., unit, unit] = 1
    transposed = _letter(attributes, "trans_x")
    if transposed in ("T", "C"):
        a = a.swapaxes(-1, -2)
        a = a.conj() if transposed == "C" else a
    right = _letter(attributes, "side") == "R"
    if right:
        found = np.linalg.solve(a.swapaxes(-1, -2), alpha * b.swapaxes(-1, -2)).swapaxes(-1, -2)
    else:
        found = np.linalg.solve(a, alpha * b)
    return (found.astype(b.dtype),)


# --- XLA ------------------------------------------------------------------------------------------------------------


def top_k(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """The largest elements of the last dimension, in order; of equal ones the first."""
    count = out[0].shape[-1]
    if x.dtype.kind == "f" or x.dtype.kind == "V":
        key = x.astype(np.float64)
        # nan is largest; XLA orders by total order, in which -0 is below 0
        order = np.lexsort(
            (-np.copysign(1.0, key), np.where(np.isnan(key), -np.inf, -key)), axis=-1
        )
    else:
        order = np.argsort(
            -x.astype(np.int64) if x.dtype.kind == "i" else x.max(initial=0) - x,
            axis=-1,
            kind="stable",
        )
    order = order[..., :count]
    return np.take_along_axis(x, order, -1), order.astype(out[1].dtype.numpy)


def identity(*arrays: Array, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Marks for XLA's passes, which change no value."""
    return arrays


def matmul(
    x: Array, y: Array, *rest: Array, out: Sequence[Any], attributes: Attributes
) -> tuple[Any, ...]:
    """The product of two stacks of matrices, of which each may be transposed; in f32 for narrower floats."""
    given = _configuration(attributes, "onednn_matmul_config")
    fused = given.get("fused_ops") or given.get("fusions", {}).get("ops")
    if rest or fused or len(out) > 1 or x.dtype.kind in "iu":
        raise UnsupportedOpError(
            "custom_call: a matrix product must be without fused operations for the interpreter; got"
            f" {fused or len(rest)} [X5]\n  compile without them, with xla_cpu_use_onednn=False"
        )
    wide = np.float32 if x.dtype.itemsize < 4 else x.dtype
    x, y = (
        a.swapaxes(-1, -2) if given.get(f"transpose_{n}") else a for a, n in ((x, "a"), (y, "b"))
    )
    found = np.matmul(x.astype(wide), y.astype(wide))
    return (found.reshape(out[0].shape).astype(out[0].dtype.numpy),)


def softmax(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """exp(x) / sum(exp(x)) over a dimension; the last one if none is given."""
    given = _configuration(attributes, "onednn_softmax_config")
    axis = int(given.get("softmax_axis", 0)) if given else -1
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    weights = np.exp(wide - wide.max(axis, keepdims=True))
    return ((weights / weights.sum(axis, keepdims=True)).astype(out[0].dtype.numpy),)


def _configuration(attributes: Attributes, name: str) -> dict[str, Any]:
    """A part of the configuration that XLA writes as JSON."""
    import json

    try:
        found = json.loads(attributes.get("opaque") or "{}")
    except ValueError:
        found = None
    part = found.get(name, {}) if isinstance(found, dict) else None
    if not isinstance(part, dict):
        raise UnsupportedOpError(
            f"custom_call: the configuration must be XLA's, with {name}; got {attributes} [X5]"
        )
    return part


def eigh(x: Array, *, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Eigenvectors and eigenvalues of a Hermitian matrix; the first option says whether its lower part counts."""
    lower, *_ = str(attributes.get("opaque", "")).split(",")
    values, vectors = np.linalg.eigh(x, UPLO="U" if lower == "0" else "L")
    return vectors, values


def rng_seed(*, out: Sequence[Any], attributes: Attributes) -> tuple[Any, ...]:
    """Where XLA's random numbers start: a run that was given no seed has one of its own."""
    return (np.random.default_rng().integers(2**64, dtype=np.uint64, size=()),)


def _lapack() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}
    functions: dict[str, Callable[..., Any]] = {
        "potrf": potrf,
        "getrf": getrf,
        "geqrf": geqrf,
        "gesdd": gesdd,
        "geev": geev,
        "trsm": trsm,
    }
    for name, function in functions.items():
        for letter in "sdcz":
            table[f"lapack_{letter}{name}_ffi"] = function
    for letter, unitary, hermitian in (
        ("s", "or", "sy"),
        ("d", "or", "sy"),
        ("c", "un", "he"),
        ("z", "un", "he"),
    ):
        table[f"lapack_{letter}{unitary}gqr_ffi"] = orgqr
        table[f"lapack_{letter}{hermitian}evd_ffi"] = syevd
    return table


#: by the name of the target
LIBRARY: Final[dict[str, Callable[..., Any]]] = {
    **_lapack(),
    "Eigh": eigh,
    "GetRngSeed": rng_seed,
    "ProductOfElementaryHouseholderReflectors": orgqr,
    "Qr": geqrf,
    "TopK": top_k,
    "__onednn$matmul": matmul,
    "__onednn$softmax": softmax,
    **dict.fromkeys(
        ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "MoveToHost", "MoveToDevice",
         "annotate_device_placement", "LayoutConstraint", "X64Combine_marker"),
        identity,
    ),
}  # fmt: skip
