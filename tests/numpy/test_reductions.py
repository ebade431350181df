"""Sums, extremes, moments and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import check

import xlapy
from xlapy.errors import DTypeError, ShapeError

X = np.array(
    [[[3, -1, 4, 1], [5, 9, -2, 6], [5, 3, 5, 8]], [[9, 7, 9, 3], [2, 3, 8, 4], [6, 2, 6, 4]]],
    np.float32,
)
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (1,), (), [0, 1], (0, 1, 2)]


def numpys(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all"])
def test_over_axes(name: str, axis: Any, keepdims: bool) -> None:
    expected = getattr(np, name)(X, axis=numpys(axis), keepdims=keepdims)
    expected = np.asarray(expected, bool if name in ("any", "all") else np.float32)
    check(lambda x: getattr(xlapy, name)(x, axis=axis, keepdims=keepdims), expected, X, rtol=1e-6)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name: str) -> None:
    for axis in (None, 0, 1, -1):
        for keepdims in (False, True):
            expected = getattr(np, name)(X, axis=axis, keepdims=keepdims)
            check(
                lambda x, a=axis, k=keepdims: getattr(xlapy, name)(x, axis=a, keepdims=k),
                np.asarray(expected, np.int32), X,
            )  # fmt: skip
    x = np.array([1.0, np.nan, 3.0, np.nan, -np.inf], np.float32)
    check(getattr(xlapy, name), np.int32(1), x)
    infinite = np.array([-np.inf, -np.inf], np.float32) * (1 if name == "argmax" else -1)
    check(getattr(xlapy, name), np.int32(0), infinite)
    check(getattr(xlapy, name), np.int32(getattr(np, name)([True, False])), np.array([True, False]))
    check(
        getattr(xlapy, name),
        np.int32(getattr(np, name)([2, 1, 1, 2])),
        np.array([2, 1, 1, 2], np.uint8),
    )


def test_extremes_of_special_values() -> None:
    x = np.array([[1.0, np.nan], [-np.inf, 2.0], [-0.0, 0.0]], np.float32)
    check(lambda x: xlapy.max(x, axis=1), np.max(x, axis=1), x)
    check(lambda x: xlapy.min(x, axis=1), np.min(x, axis=1), x)
    for dtype in (np.int8, np.uint64, bool):
        y = np.array([[0, 1], [1, 1]], dtype)
        check(lambda x: xlapy.max(x, axis=0), y.max(0), y)
        check(lambda x: xlapy.min(x, axis=0), y.min(0), y)
    check(xlapy.ptp, np.ptp(X), X)
    check(lambda x: xlapy.ptp(x, axis=1), np.ptp(X, axis=1), X)


SUMS = [
    ("pred", "s32"), ("s8", "s32"), ("s16", "s32"), ("s32", "s32"), ("s64", "s64"), ("u8", "u32"), ("u32", "u32"),
    ("u64", "u64"), ("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"), ("f64", "f64"), ("c64", "c64"), ("s4", "s32"),
]  # fmt: skip


@pytest.mark.parametrize("dtype, expected", SUMS)
def test_types_of_sums(dtype: str, expected: str) -> None:
    x = xlapy.ones((200,), dtype=dtype)
    for found in (xlapy.sum(x), xlapy.compile(xlapy.sum)(x), xlapy.cumulative_sum(x)):
        assert str(found.dtype) == expected
    assert np.asarray(xlapy.sum(x)).astype(complex) == 200
    assert np.asarray(xlapy.cumulative_sum(x)).astype(complex)[-1] == 200
    assert str(xlapy.prod(x).dtype) == expected


def test_types_of_means() -> None:
    for dtype, expected in (
        ("pred", "f32"),
        ("s8", "f32"),
        ("s64", "f64"),
        ("bf16", "bf16"),
        ("c64", "c64"),
    ):
        x = xlapy.ones(3, dtype=dtype)
        assert str(xlapy.mean(x).dtype) == expected
        assert str(xlapy.var(x).dtype) == expected.replace("c64", "f32")
    x = np.array([1, 2, 4], np.int32)
    check(xlapy.mean, np.float32(7 / 3), x, rtol=1e-6)
    check(lambda x: xlapy.mean(x, dtype="f64"), np.float64(7 / 3), x, rtol=1e-15)
    check(lambda x: xlapy.sum(x, dtype="s8"), np.int8(7), x)
    check(lambda x: xlapy.sum(x, dtype="f32"), np.float32(7), x)
    check(lambda x: x.sum(dtype=np.int64), np.int64(7), x)


def test_narrow_floats_are_summed_wide() -> None:
    x = np.full(4096, 0.1, ml_dtypes.bfloat16)
    total = 4096 * float(x[0])
    assert float(xlapy.sum(xlapy.asarray(x))) == pytest.approx(total, rel=0.004)
    assert float(xlapy.mean(xlapy.asarray(x.astype(np.float16)))) == pytest.approx(0.1, rel=0.002)


def test_variance() -> None:
    for correction in (0, 1, 1.5):
        expected = np.var(X, axis=1, ddof=correction)
        check(lambda x, c=correction: xlapy.var(x, axis=1, correction=c), expected, X, rtol=1e-6)
        check(lambda x, c=correction: x.std(axis=1, ddof=c), np.sqrt(expected), X, rtol=1e-6)
    z = (X + 1j * X[::-1]).astype(np.complex64)
    check(xlapy.var, np.var(z), z, rtol=1e-6)
    check(xlapy.std, np.std(z), z, rtol=1e-6)
    large = np.array([1e4, 1e4 + 1, 1e4 + 2], np.float32)
    check(xlapy.var, np.float32(2 / 3), large, rtol=1e-6)
    with np.errstate(all="ignore"):
        assert np.isinf(float(xlapy.var(xlapy.asarray([1.0, 2.0]), correction=2)))


def test_empty_arrays() -> None:
    x = np.zeros((0, 3), np.float32)
    check(lambda x: xlapy.sum(x, axis=0), np.zeros(3, np.float32), x)
    check(lambda x: xlapy.prod(x), np.float32(1), x)
    check(lambda x: xlapy.all(x), np.bool_(True), x)
    check(lambda x: xlapy.mean(x, axis=0), np.full(3, np.nan, np.float32), x)
    check(lambda x: xlapy.max(x, axis=1), np.zeros(0, np.float32), x)
    for function in (xlapy.max, xlapy.min, xlapy.argmax, lambda x: xlapy.argmin(x, axis=0)):
        with pytest.raises(ShapeError, match="at least one element"):
            function(xlapy.asarray(x))


def test_counts_and_averages() -> None:
    check(xlapy.count_nonzero, np.int32(np.count_nonzero(X > 3)), X > 3)
    check(lambda x: xlapy.count_nonzero(x, axis=1), np.count_nonzero(X, axis=1).astype(np.int32), X)
    w = np.arange(3, dtype=np.float32)
    check(lambda x, w: xlapy.average(x, 1, w), np.average(X, 1, w), X, w, rtol=1e-6)
    check(lambda x, w: xlapy.average(x, None, w), np.average(X, weights=X), X, X, rtol=1e-6)
    check(xlapy.average, np.average(X), X, rtol=1e-6)
    with pytest.raises(ShapeError):
        xlapy.average(xlapy.asarray(X), 0, [1, 2, 3])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 16, 33])
def test_running_sums(size: int) -> None:
    x = np.random.default_rng(size).integers(-3, 4, (2, size, 3)).astype(np.float32)
    check(lambda x: xlapy.cumulative_sum(x, axis=1), np.cumsum(x, axis=1), x)
    check(lambda x: xlapy.cumulative_prod(x, axis=-2), np.cumprod(x, axis=1), x)
    initial = np.concatenate(
        [np.zeros_like(x[:, :1]) if size else np.zeros((2, 1, 3), np.float32), np.cumsum(x, 1)], 1
    )
    check(lambda x: xlapy.cumulative_sum(x, axis=1, include_initial=True), initial, x)


def test_running_sums_by_numpys_names() -> None:
    check(xlapy.cumsum, np.cumsum(X), X)
    check(lambda x: x.cumsum(axis=0), np.cumsum(X, axis=0), X)
    check(lambda x: xlapy.cumprod(x, axis=2), np.cumprod(X, axis=2), X)
    small = np.full(100, 100, np.int8)
    check(xlapy.cumsum, np.cumsum(small).astype(np.int32), small)
    check(lambda x: xlapy.cumsum(x, dtype="f32"), np.cumsum(small).astype(np.float32), small)
    with pytest.raises(ShapeError):
        xlapy.cumulative_sum(xlapy.asarray(X))


ERRORS: list[tuple[type, Callable[[Any], Any]]] = [
    (ShapeError, lambda x: xlapy.sum(x, axis=3)),
    (ShapeError, lambda x: xlapy.sum(x, axis=(0, 0))),
    (ShapeError, lambda x: xlapy.argmax(x, axis=-4)),
    (DTypeError, lambda x: xlapy.sum(x, axis=0.5)),
    (DTypeError, lambda x: xlapy.sum(x, dtype="pred")),
    (DTypeError, lambda x: xlapy.sum(x, dtype="strange")),
    (DTypeError, lambda x: xlapy.mean(x, dtype="s32")),
    (DTypeError, lambda x: xlapy.max(x * 1j)),
    (DTypeError, lambda x: xlapy.argmax(x * 1j)),
    (DTypeError, lambda x: xlapy.sum(x * 1j, dtype="f32")),
]


@pytest.mark.parametrize("error, function", ERRORS, ids=range(len(ERRORS)))
def test_errors(error: type, function: Callable[[Any], Any]) -> None:
    with pytest.raises(error, match=r"\[\w+\]"):
        function(xlapy.asarray(X))
    with pytest.raises(error, match=r"\[\w+\]"):
        xlapy.compile(function)(X)


def test_derivatives() -> None:
    x = X.copy()
    np.testing.assert_array_equal(np.asarray(xlapy.grad(xlapy.sum)(x)), np.ones_like(x))
    np.testing.assert_allclose(np.asarray(xlapy.grad(xlapy.mean)(x)), np.full_like(x, 1 / x.size))
    slope = np.asarray(xlapy.grad(lambda x: xlapy.sum(xlapy.var(x, axis=2)))(x))
    np.testing.assert_allclose(slope, 2 * (x - x.mean(2, keepdims=True)) / 4, rtol=1e-5, atol=1e-6)
    slope = np.asarray(
        xlapy.grad(lambda x: xlapy.vdot(xlapy.cumsum(x), np.arange(24.0, dtype=np.float32)))(x)
    )
    expected = np.cumsum(np.arange(24.0)[::-1])[::-1].reshape(x.shape)
    np.testing.assert_allclose(slope, expected)
    per_row = xlapy.vmap(lambda r: xlapy.sum(r, axis=0))(x)
    np.testing.assert_array_equal(np.asarray(per_row), x.sum(1))
