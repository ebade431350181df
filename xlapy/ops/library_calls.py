"""What well-known custom calls compute, in numpy: those that XLA itself, jaxlib and its users put into programs.

Each function takes arrays, the specs of the results and the call's attributes, and gives the tuple of results. Where a
library leaves the choice of a basis or the order of values open, results may differ from the library's in those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from xlapy.errors import UnsupportedOpError

from . import lapack_calls, lapack_reductions

__all__ = ["LIBRARY"]

Array = np.ndarray[Any, Any]
Attributes = Mapping[str, Any]


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
        "potrf": lapack_calls.potrf,
        "getrf": lapack_calls.getrf,
        "geqrf": lapack_calls.geqrf,
        "gesdd": lapack_calls.gesdd,
        "gesvd": lapack_calls.gesdd,
        "geev": lapack_calls.geev,
        "trsm": lapack_calls.trsm,
        "gees": lapack_reductions.gees,
        "gehrd": lapack_reductions.gehrd,
        "geqp3": lapack_reductions.geqp3,
        "gtsv": lapack_reductions.gtsv,
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
        table[f"lapack_{letter}{unitary}gqr_ffi"] = lapack_calls.orgqr
        table[f"lapack_{letter}{unitary}mqr_ffi"] = lapack_reductions.ormqr
        table[f"lapack_{letter}{hermitian}evd_ffi"] = lapack_calls.syevd
        table[f"lapack_{letter}{hermitian}trd_ffi"] = lapack_reductions.sytrd
    return table


#: by the name of the target
LIBRARY: Final[dict[str, Callable[..., Any]]] = {
    **_lapack(),
    "Eigh": eigh,
    "GetRngSeed": rng_seed,
    "ProductOfElementaryHouseholderReflectors": lapack_calls.orgqr,
    "Qr": lapack_calls.geqrf,
    "TopK": top_k,
    "__onednn$matmul": matmul,
    "__onednn$softmax": softmax,
    **dict.fromkeys(
        ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "MoveToHost", "MoveToDevice",
         "annotate_device_placement", "LayoutConstraint", "X64Combine_marker"),
        identity,
    ),
}  # fmt: skip
