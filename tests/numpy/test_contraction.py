"""Products of matrices and tensors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import check

import xlapy
from xlapy.errors import ConstraintError, DTypeError, ShapeError

GENERATOR = np.random.default_rng(0)


def some(*shape: int, dtype: Any = np.float32) -> Any:
    """Small whole numbers, so that sums are exact in any order."""
    return GENERATOR.integers(-4, 5, shape).astype(dtype)


MATMUL = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (6, 1, 3, 4)), ((2, 0), (0, 4)), ((0, 3), (3, 4)), ((1, 2, 3), (5, 3, 4)),
]  # fmt: skip


@pytest.mark.parametrize("a, b", MATMUL)
def test_matrix_products(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    for dtype in (np.float32, np.int32, np.complex64):
        x, y = some(*a, dtype=dtype), some(*b, dtype=dtype)
        check(lambda x, y: x @ y, x @ y, x, y)


def test_types_of_products() -> None:
    x, y = some(2, 3), some(3, 2)
    check(xlapy.matmul, x.astype(np.int8) @ y.astype(np.int8), x.astype(np.int8), y.astype(np.int8))
    check(xlapy.matmul, (x > 0) @ (y > 0), x > 0, y > 0)
    check(lambda x, y: x @ y, (x @ y), x, y.astype(np.int32))
    narrow = x.astype(ml_dtypes.bfloat16)
    check(xlapy.matmul, (x @ y).astype(ml_dtypes.bfloat16), narrow, y.astype(ml_dtypes.bfloat16))
    check(
        lambda x, y: xlapy.matmul(x, y, preferred_element_type="f32"),
        x @ y, narrow, y.astype(ml_dtypes.bfloat16),
    )  # fmt: skip
    check(lambda x, y: xlapy.matmul(x, y, precision="highest"), x @ y, x, y)
    check(lambda x: x @ [[1.0], [2.0], [3.0]], x @ np.array([[1.0], [2.0], [3.0]], np.float32), x)
    check(
        lambda x: [1, 2] @ x, np.array([1, 2]) @ x.astype(np.int32), x.astype(np.int32), dtype=False
    )


DOT = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (6, 3, 4)),
    ((), (3,)),
    ((2, 3), ()),
]


@pytest.mark.parametrize("a, b", DOT)
def test_dot(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = some(*a), some(*b)
    check(xlapy.dot, np.dot(x, y), x, y)
    check(lambda x, y: x.dot(y), np.dot(x, y), x, y)


def test_other_products() -> None:
    x, y = some(2, 3, 4), some(2, 3, 4)
    check(xlapy.inner, np.inner(x, y), x, y)
    check(xlapy.outer, np.outer(x, y), x, y)
    check(xlapy.vdot, np.vdot(x, y), x, y)
    z, w = x + 1j * y, y - 2j * x
    check(xlapy.vdot, np.vdot(z, w), z, w)
    for axis in (-1, -2, 0, 2):
        expected = np.sum(np.conj(z) * w, axis=axis)
        check(lambda x, y, a=axis: xlapy.vecdot(x, y, axis=a), expected, z, w)
    check(xlapy.vecdot, np.sum(x * y[0], -1), x, y[0].copy())
    check(xlapy.tensordot, np.tensordot(x, y.transpose(1, 2, 0), 2), x, y.transpose(1, 2, 0).copy())
    check(lambda x, y: xlapy.tensordot(x, y, 0), np.tensordot(x, y[0], 0), x, y[0].copy())
    check(
        lambda x, y: xlapy.tensordot(x, y, ([0, 2], [0, -1])),
        np.tensordot(x, y, ([0, 2], [0, 2])),
        x,
        y,
    )
    check(lambda x, y: xlapy.tensordot(x, y, (1, 1)), np.tensordot(x, y, (1, 1)), x, y)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("i,i->", (3,), (3,)), ("i,j->ij", (2,), (3,)),
    ("ij,ij->ij", (2, 3), (2, 3)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...i,...i", (5, 3), (3,)), ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("ij->j", (2, 3)), ("ii", (3, 3)),
    ("ii->i", (3, 3)), ("iij->j", (3, 3, 2)), ("ij,kj,kl->il", (2, 3), (4, 3), (4, 5)), ("ab,cd", (2, 3), (4, 5)),
    ("ij,jk->kij", (2, 3), (3, 4)), ("ij,k->i", (2, 3), (4,)), ("a...->...a", (2, 3, 4)), ("...", (2, 3)),
    ("i...,i...->...", (3, 2, 1), (3, 1, 4)),
    ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("ij,ij->", (1, 3), (2, 3)),
    ("i,i->i", (1,), (3,)), ("ba,cb", (2, 3), (4, 2)), ("ij , jk -> ik", (2, 3), (3, 4)), ("i->i", (3,)),
    ("ijk,ijl,ijm->klm", (2, 3, 2), (2, 3, 3), (2, 3, 4)), (",i->i", (), (3,)), ("abc,cb->", (2, 3, 4), (4, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=lambda c: c[0])
def test_einsum(case: tuple[Any, ...]) -> None:
    subscripts, *shapes = case
    arrays = [some(*s) for s in shapes]
    check(lambda *xs: xlapy.einsum(subscripts, *xs), np.einsum(subscripts, *arrays), *arrays)


def test_einsum_of_other_types() -> None:
    x, y = some(2, 3), some(3, 4)
    check(lambda x, y: xlapy.einsum("ij,jk->ik", x, y), (x > 0) @ (y > 0), x > 0, y > 0)
    check(lambda x, y: xlapy.einsum("ij,jk", x, y), x @ y, x.astype(np.int32), y)


def test_errors() -> None:
    x = xlapy.ones((2, 3))
    for function in (
        lambda: x @ x, lambda: x @ 1, lambda: xlapy.dot(x, x), lambda: xlapy.inner(x, x.T), lambda: xlapy.vdot(x, x[0]),
        lambda: xlapy.tensordot(x, x, 1), lambda: xlapy.vecdot(x, x.T), lambda: xlapy.einsum("ij,ij", x, x.T),
        lambda: xlapy.einsum("ii", x), lambda: xlapy.einsum("ijk", x), lambda: xlapy.einsum("i...", x[0, 0]),
        lambda: xlapy.vecdot(x, x[0], axis=0), lambda: xlapy.matmul(xlapy.ones((2, 2, 3)), xlapy.ones((3, 3, 2))),
    ):  # fmt: skip
        with pytest.raises(ShapeError, match=r"\[X1\]"):
            function()
        with pytest.raises(ShapeError, match=r"\[X1\]"):
            xlapy.compile(function)()
    for function in (
        lambda: xlapy.einsum("ij->k", x), lambda: xlapy.einsum("ij,jk", x), lambda: xlapy.einsum("i1", x),
        lambda: xlapy.einsum("ij->ii", x), lambda: xlapy.tensordot(x, x, 3),
        lambda: xlapy.tensordot(x, x, ([0], [0, 1])),
        lambda: xlapy.tensordot(x, x, (0, 1, 2)), lambda: xlapy.matmul(x, x.T, precision="good"),
        lambda: xlapy.einsum("...i->i", x),
    ):  # fmt: skip
        with pytest.raises(ConstraintError, match=r"\[X1\]"):
            function()
    with pytest.raises(DTypeError):
        xlapy.einsum(x, [0, 1])


def test_derivatives() -> None:
    x, y = some(2, 3), some(3, 4)
    w = some(2, 4)
    dx, dy = xlapy.grad(lambda x, y: xlapy.vdot(x @ y, w), argnums=(0, 1))(x, y)
    np.testing.assert_array_equal(np.asarray(dx), w @ y.T)
    np.testing.assert_array_equal(np.asarray(dy), x.T @ w)
    dx = xlapy.grad(lambda x: xlapy.einsum("ii->", x))(some(3, 3))
    np.testing.assert_array_equal(np.asarray(dx), np.eye(3))
    batched = xlapy.vmap(lambda a, b: a @ b, in_axes=(0, None))(some(5, 2, 3), y)
    assert batched.shape == (5, 2, 4)
