"""Factorisations, triangular systems and Fourier transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from fuzzing.draft import INEXACT, Draft, Unfit
from xlapy.specs import TensorSpec

from .table import generates


def matrices(draft: Draft, names: tuple[str, ...]) -> tuple[Any, TensorSpec]:
    """A spec of square matrices, and random numbers of its shape."""
    dtype = draft.dtype(names=names)
    n = draft.choose([0, 1, 2, 3, 4, 6])
    batch = draft.shape(draft.choose([0, 0, 0, 1, 2]))
    if np.prod(batch, dtype=np.int64) > 40:
        batch = (2,)
    spec = TensorSpec((*batch, n, n), dtype)
    values: Any = draft.rng.normal(size=spec.shape)
    if dtype.kind == "complex":
        values = values + 1j * draft.rng.normal(size=spec.shape)
    return values, spec


FACTORED = ("f32", "f64", "c64", "c128", "f32", "f16", "bf16")


@generates("cholesky", weight=2)
def cholesky(draft: Draft, name: str) -> Any:
    values, spec = matrices(draft, FACTORED)
    n = spec.shape[-1]
    positive = values @ values.swapaxes(-1, -2).conj() + (n + 1) * np.eye(n)
    if draft.chance(0.5):
        # Only one triangle is read.
        noise = np.triu(np.ones((n, n)), 1)
        lower = draft.chance(0.5)
        positive = np.where((noise if lower else noise.T) == 1, draft.choose([0.0, 7.5]), positive)
    else:
        lower = draft.chance(0.5)
    return draft.bind(name, draft.make(spec, positive), lower=lower)


@generates("triangular_solve", weight=2)
def triangular_solve(draft: Draft, name: str) -> Any:
    values, spec = matrices(draft, FACTORED)
    n = spec.shape[-1]
    unit = draft.chance(0.3)
    dominant = 0.3 * values + (0 if unit else 1.5) * np.eye(n)
    left = draft.chance(0.5)
    m = draft.choose([1, 2, 3, 0])
    shape = (*spec.shape[:-2], *((n, m) if left else (m, n)))
    transpose = draft.choose(["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    b = draft.tensor(dtype=spec.dtype, shape=shape)
    return draft.bind(
        name, draft.make(spec, dominant), b, left_side=left, lower=draft.chance(0.5), unit_diagonal=unit,
        transpose_a=transpose,
    )  # fmt: skip


@generates("fft", weight=3)
def fft(draft: Draft, name: str) -> Any:
    kind = draft.choose(["FFT", "IFFT", "RFFT", "IRFFT"])
    x = draft.tensor(INEXACT, names=("f32", "f64") if kind == "RFFT" else ("c64", "c128"), least=1)
    count = draft.integer(1, min(3, x.spec.rank))
    length = x.spec.shape[x.spec.rank - count :]
    if kind == "IRFFT":
        half = length[-1]
        if not half:
            raise Unfit
        last = 2 * (half - 1) + draft.integer(0, 1)
        if not last:
            last = 1
        length = (*length[:-1], last)
    return draft.bind(name, x, fft_type=kind, fft_length=length)
