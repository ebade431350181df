"""Sorting, finding, sets, and the functions of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import check

import xlapy
from xlapy.errors import ConstraintError, DTypeError, ShapeError, TracingError

X = np.array([[3, 1, 2, 1], [-1, 7, 7, 0]], np.float32)
SPECIAL = np.array([1.0, np.nan, -np.inf, 0.0, -0.0, np.inf, np.nan, -2.0], np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sorting(axis: int | None) -> None:
    for x in (X, X.astype(np.int8), X > 1, X.astype(np.uint64)):
        check(lambda x: xlapy.sort(x, axis=axis), np.sort(x, axis=axis), x)
        expected = np.argsort(x, axis=axis, kind="stable").astype(np.int32)
        check(lambda x: xlapy.argsort(x, axis=axis), expected, x)
        last = -1 if axis is None else axis
        downwards = np.flip(np.sort(x, axis=axis), axis=last)
        check(lambda x: xlapy.sort(x, axis=axis, descending=True), downwards, x)


def test_order_of_special_values() -> None:
    check(xlapy.sort, np.sort(SPECIAL), SPECIAL)
    check(xlapy.argsort, np.argsort(SPECIAL, kind="stable").astype(np.int32), SPECIAL)
    order = xlapy.argsort(xlapy.asarray(SPECIAL), descending=True).tolist()
    assert order == [1, 6, 5, 0, 3, 4, 7, 2]
    z = np.array([1 + 2j, 1 - 2j, 0, 1 + 0j, -1 + 5j], np.complex64)
    check(xlapy.sort, np.sort(z), z)
    check(lambda x: x.argsort(), np.argsort(z).astype(np.int32), z)
    assert xlapy.sort(xlapy.zeros((2, 0))).shape == (2, 0)
    with pytest.raises(ShapeError):
        xlapy.sort(xlapy.asarray(1.0))
    with pytest.raises(ShapeError):
        xlapy.argsort(xlapy.asarray(X), axis=2)


def test_sorting_by_several_keys() -> None:
    a, b = np.array([1, 5, 1, 4, 3, 4, 4]), np.array([9, 4, 0, 4, 0, 2, 1])
    check(lambda a, b: xlapy.lexsort([b, a]), np.lexsort([b, a]).astype(np.int32), a, b)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 8, 13])
def test_searching(side: Any, size: int) -> None:
    x = np.sort(np.random.default_rng(size).integers(0, 9, size)).astype(np.int32)
    values = np.arange(-1, 11, dtype=np.int32).reshape(3, 4)
    expected = np.searchsorted(x, values, side).astype(np.int32)
    check(lambda x, v: xlapy.searchsorted(x, v, side=side), expected, x, values)


def test_searching_elsewhere() -> None:
    x = np.array([3.0, 1.0, np.nan, 2.0], np.float32)
    order = np.argsort(x)
    values = np.array([0.5, 2.5, np.nan], np.float32)
    expected = np.searchsorted(x, values, sorter=order).astype(np.int32)
    check(lambda x, v: xlapy.searchsorted(x, v, sorter=order), expected, x, values)
    with pytest.raises(ConstraintError):
        xlapy.searchsorted(xlapy.arange(3), 1, side="up")
    with pytest.raises(ShapeError):
        xlapy.searchsorted(xlapy.asarray(X), 1)


def test_finding() -> None:
    x = np.array([[0, 3], [5, 0]])
    check(xlapy.nonzero, [i.astype(np.int32) for i in np.nonzero(x)], x, compiled=False)
    check(xlapy.where, [i.astype(np.int32) for i in np.nonzero(x)], x, compiled=False)
    check(xlapy.argwhere, np.argwhere(x).astype(np.int32), x, compiled=False)
    check(xlapy.flatnonzero, np.flatnonzero(x).astype(np.int32), x, compiled=False)
    for function in (xlapy.nonzero, xlapy.where, xlapy.unique_values, xlapy.argwhere):
        with pytest.raises(TracingError, match="size depends"):
            xlapy.compile(function)(x)


def test_sets() -> None:
    x = np.array([[3, 1], [3, 2]], np.int16)
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    expected = [
        values,
        first.astype(np.int32),
        inverse.reshape(2, 2).astype(np.int32),
        counts.astype(np.int32),
    ]
    check(xlapy.unique_all, expected, x, compiled=False)
    check(xlapy.unique_counts, [expected[0], expected[3]], x, compiled=False)
    check(xlapy.unique_inverse, [expected[0], expected[2]], x, compiled=False)
    check(xlapy.unique_values, values, x, compiled=False)
    assert len(xlapy.unique_values(xlapy.asarray([np.nan, np.nan, 1.0])).tolist()) == 3
    assert xlapy.unique_values(xlapy.asarray([2.0, 1.0, 2.0], "bf16")).tolist() == [1, 2]
    check(lambda x: xlapy.isin(x, [1, 3]), np.isin(x, [1, 3]), x)
    check(lambda x: xlapy.isin(x, 3, invert=True), np.isin(x, 3, invert=True), x)


# --- functions of models --------------------------------------------------------------------------


def softmax(x: Any, axis: Any = -1) -> Any:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def test_softmax() -> None:
    for axis in (-1, 0, (0, 1)):
        expected = softmax(X, axis)
        check(lambda x, a=axis: xlapy.softmax(x, axis=a), expected, X, rtol=1e-6)
        check(lambda x, a=axis: xlapy.log_softmax(x, axis=a), np.log(expected), X, rtol=1e-5)
        expected = np.log(np.exp(X).sum(axis=axis))
        check(lambda x, a=axis: xlapy.logsumexp(x, axis=a), expected, X, rtol=1e-6)
    check(
        lambda x: xlapy.logsumexp(x, keepdims=True),
        np.log(np.exp(X).sum(keepdims=True)),
        X,
        rtol=1e-6,
    )
    large = np.array([1e30, 1e30, -np.inf], np.float32)
    check(xlapy.softmax, np.array([0.5, 0.5, 0], np.float32), large)
    check(xlapy.logsumexp, np.float32(1e30), large)
    check(xlapy.logsumexp, np.float32(-np.inf), np.array([-np.inf, -np.inf], np.float32))
    check(xlapy.logsumexp, np.float32(np.inf), np.array([np.inf, 1], np.float32))
    assert str(xlapy.softmax(xlapy.ones(4, dtype="bf16")).dtype) == "bf16"
    check(xlapy.softmax, np.array([0.5, 0.5], np.float32), np.array([3, 3], np.int32))


def test_derivatives_of_softmax() -> None:
    x, w = X[0], np.array([1.0, 2.0, 3.0, 4.0], np.float32)
    p = softmax(x)
    slope = np.asarray(xlapy.grad(lambda x: xlapy.vdot(xlapy.softmax(x), w))(x))
    np.testing.assert_allclose(slope, p * (w - p @ w), rtol=1e-5)
    slope = np.asarray(xlapy.grad(lambda x: xlapy.vdot(xlapy.log_softmax(x), w))(x))
    np.testing.assert_allclose(slope, w - p * w.sum(), rtol=1e-5)
    np.testing.assert_allclose(np.asarray(xlapy.grad(xlapy.logsumexp)(x)), p, rtol=1e-6)


def test_one_hot() -> None:
    x = np.array([[0, 2], [3, -1]])
    expected = (x[..., None] == np.arange(3)).astype(np.float32)
    check(lambda x: xlapy.one_hot(x, 3), expected, x)
    check(
        lambda x: xlapy.one_hot(x, 3, dtype="s8", axis=0),
        np.moveaxis(expected, -1, 0).astype(np.int8),
        x,
    )
    check(
        lambda x: xlapy.one_hot(x, 300),
        (x[..., None] == np.arange(300)).astype(np.float32),
        x.astype(np.int8),
    )
    with pytest.raises(DTypeError):
        xlapy.one_hot(xlapy.asarray([0.5]), 3)
    with pytest.raises(ConstraintError):
        xlapy.one_hot(xlapy.asarray([0]), -1)


def test_activations() -> None:
    x = np.array([-20.0, -1.0, 0.0, 0.5, 20.0], np.float32)
    assert np.isnan(float(xlapy.relu(xlapy.asarray(np.float32(np.nan)))))
    check(xlapy.relu, np.maximum(x, 0), x)
    check(xlapy.sigmoid, 1 / (1 + np.exp(-x)), x, rtol=1e-6)
    check(xlapy.silu, x / (1 + np.exp(-x)), x, rtol=1e-6)
    check(xlapy.softplus, np.logaddexp(x, np.float32(0)), x, rtol=1e-6)
    tanh = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    check(lambda x: xlapy.gelu(x, approximate=True), tanh.astype(np.float32), x, rtol=1e-5)
    check(xlapy.gelu, tanh.astype(np.float32), x, rtol=1e-3)
    assert float(xlapy.gelu(xlapy.asarray(-10.0))) == pytest.approx(-7.62e-23, rel=1e-2)
    assert float(xlapy.grad(xlapy.relu)(0.0)) == 0
    assert float(xlapy.grad(xlapy.relu)(2.0)) == 1


def test_places_in_arrays_without_dimensions() -> None:
    for x, count in ((3.0, 1), (0.0, 0)):
        assert xlapy.argwhere(x).shape == np.argwhere(x).shape == (count, 0)
        assert xlapy.flatnonzero(x).shape == (count,)
        for find in (xlapy.nonzero, xlapy.where):
            with pytest.raises(ShapeError, match="at least one dimension"):
                find(x)
