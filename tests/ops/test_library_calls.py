"""Custom calls of LAPACK in the interpreter, where results are not unique or not finite."""

import numpy as np
import pytest

import xlapy
from xlapy import ops

PLAIN = {"mode": np.uint8(ord("V")), "sort": np.uint8(ord("N"))}


def schur(x: np.ndarray) -> list[np.ndarray]:
    """The form, the basis and the eigenvalues."""
    letter = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}[x.dtype.str[1:]]
    name = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}[letter]
    size = len(x)
    values = [f"{name}[{size}]"] * (1 if letter in "cz" else 2)
    with xlapy.use_backend("interpreter"):
        found = ops.custom_call(
            f"lapack_{letter}gees_ffi", [ops.constant(x)],
            [f"{name}[{size},{size}]", f"{name}[{size},{size}]", *values, "s32[]", "s32[]"], backend_config=PLAIN,
        )  # fmt: skip
    form, basis, *eigenvalues = (f.numpy() for f in found[:-2])
    whole = eigenvalues[0] if len(eigenvalues) == 1 else eigenvalues[0] + 1j * eigenvalues[1]
    return [form, basis, whole]


@pytest.mark.parametrize("kind", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 6, 11])
def test_schur_form(size: int, kind: str) -> None:
    rng = np.random.default_rng(size)
    x = rng.normal(size=(size, size))
    x = (x + 1j * rng.normal(size=x.shape) if kind[0] == "c" else x).astype(kind)
    form, basis, values = schur(x)
    tolerance = {"atol": 200 * np.finfo(x.dtype).eps * max(size, 1), "rtol": 0}
    np.testing.assert_allclose(basis @ form @ basis.conj().T, x, **tolerance)
    np.testing.assert_allclose(basis @ basis.conj().T, np.eye(size), **tolerance)
    below = np.diagonal(form, -1) != 0 if size else np.zeros(0, bool)
    assert not np.tril(form, -2).any()
    assert not (below[1:] & below[:-1]).any()
    if kind[0] == "c":
        assert not below.any()
    for i in np.flatnonzero(below):  # a pair of conjugate ones
        assert abs(form[i, i] - form[i + 1, i + 1]) < 1e-4
        assert form[i, i + 1] * form[i + 1, i] < 0
        assert values[i] == values[i + 1].conj()
        assert values[i].imag > 0
    wanted = np.linalg.eigvals(x)
    np.testing.assert_allclose(np.sort(values.real), np.sort(wanted.real), atol=1e-3)


@pytest.mark.parametrize(
    ("target", "results", "config"),
    [
        ("lapack_dsyevd_ffi", ["f64[2,3,3]", "f64[2,3]", "s32[2]"], {"mode": np.uint8(86), "uplo": np.uint8(76)}),
        ("lapack_dgesdd_ffi", ["f64[2,3,3]", "f64[2,3]", "f64[2,3,3]", "f64[2,3,3]", "s32[2]"],
         {"mode": np.uint8(65)}),
        ("lapack_dgees_ffi", ["f64[2,3,3]", "f64[2,3,3]", "f64[2,3]", "f64[2,3]", "s32[2]", "s32[2]"], PLAIN),
    ],
)  # fmt: skip
def test_matrices_that_are_not_finite(target: str, results: list[str], config: dict) -> None:
    """Those give nan, with an info that says so; the others of the batch what they give alone."""
    x = np.stack([np.full((3, 3), np.nan), np.diag([1.0, 2.0, 3.0])])
    with xlapy.use_backend("interpreter"):
        found = ops.custom_call(target, [ops.constant(x)], results, backend_config=config)
    for y in found[:-1]:
        array = y.numpy()
        if array.dtype.kind == "f":
            assert np.isnan(array[0]).all()
            assert np.isfinite(array[1]).all()
    assert found[-1].tolist() == [1, 0]
