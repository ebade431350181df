"""Rearranging, joining, splitting, repeating and padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import check

import xlapy
from xlapy.errors import ConstraintError, DTypeError, ShapeError, TracingError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
M = np.arange(12, dtype=np.int32).reshape(3, 4)

#: the same text for numpy and for xlapy
SHAPES: list[Callable[[Any, Any], Any]] = [
    lambda np, x: np.reshape(x, (4, 6)),
    lambda np, x: np.reshape(x, (-1, 3)),
    lambda np, x: np.reshape(x, 24),
    lambda np, x: np.reshape(x, [2, -1]),
    lambda np, x: x.reshape(3, -1),
    lambda np, x: x.reshape((3, 8)),
    lambda np, x: np.ravel(x),
    lambda np, x: x.flatten(),
    lambda np, x: np.transpose(x),
    lambda np, x: np.transpose(x, (1, 2, 0)),
    lambda np, x: x.transpose(1, 0, 2),
    lambda np, x: x.transpose((2, 0, -2)),
    lambda np, x: x.T,
    lambda np, x: x.mT,
    lambda np, x: np.matrix_transpose(x),
    lambda np, x: np.swapaxes(x, 0, -1),
    lambda np, x: np.moveaxis(x, 0, -1),
    lambda np, x: np.moveaxis(x, (0, 2), (1, 0)),
    lambda np, x: np.squeeze(x[None, :, :1]),
    lambda np, x: np.squeeze(x[None, :, :1], axis=0),
    lambda np, x: np.squeeze(x[None, :, :1], axis=(0, -2)),
    lambda np, x: np.expand_dims(x, 1),
    lambda np, x: np.expand_dims(x, (0, -1)),
    lambda np, x: np.broadcast_to(x[:, :1], (5, 2, 3, 4)),
    lambda np, x: np.broadcast_arrays(x[0], x[:, :1]),
    lambda np, x: np.flip(x),
    lambda np, x: np.flip(x, axis=1),
    lambda np, x: np.flip(x, axis=(0, -1)),
    lambda np, x: np.flipud(x),
    lambda np, x: np.fliplr(x),
    lambda np, x: np.rot90(x),
    lambda np, x: np.rot90(x, 2),
    lambda np, x: np.rot90(x, -1, (1, 2)),
    lambda np, x: np.rot90(x, 4),
    lambda np, x: np.roll(x, 1),
    lambda np, x: np.roll(x, -5),
    lambda np, x: np.roll(x, 2, axis=1),
    lambda np, x: np.roll(x, (1, -7), axis=(0, 2)),
    lambda np, x: np.roll(x, 1, axis=(0, 2)),
    lambda np, x: np.diagonal(x),
    lambda np, x: np.diagonal(x, 1, 1, 2),
    lambda np, x: np.diagonal(x, -1, 2, 1),
    lambda np, x: np.diagonal(x, -5),
    lambda np, x: np.diagonal(x, 9),
    # joining
    lambda np, x: np.concatenate([x, x]),
    lambda np, x: np.concatenate((x, x[:, :, :1]), axis=-1),
    lambda np, x: np.concatenate([x, x], axis=None),
    lambda np, x: np.concatenate(x),
    lambda np, x: np.concat([x, x[:0]]),
    lambda np, x: np.stack([x, x * 2], axis=1),
    lambda np, x: np.stack([x[0], x[1]], axis=-1),
    lambda np, x: np.stack(x),
    lambda np, x: np.vstack([x[0, 0], x[1, 1]]),
    lambda np, x: np.vstack([x, x]),
    lambda np, x: np.hstack([x[0, 0], x[1, 1]]),
    lambda np, x: np.hstack([x, x]),
    lambda np, x: np.append(x, x[0]),
    lambda np, x: np.append(x, x, axis=1),
    lambda np, x: np.atleast_1d(x[0, 0, 0]),
    lambda np, x: np.atleast_2d(x[0, 0]),
    lambda np, x: np.atleast_2d(x),
    lambda np, x: list(np.unstack(x)) if hasattr(np, "unstack") else list(x),
    lambda np, x: (
        list(np.unstack(x, axis=2)) if hasattr(np, "unstack") else list(np.moveaxis(x, 2, 0))
    ),
    lambda np, x: np.split(x, 2),
    lambda np, x: np.split(x, [1, 3], axis=2),
    lambda np, x: np.split(x, [3, 1, 9], axis=2),
    lambda np, x: np.split(x, [-1], axis=1),
    lambda np, x: np.array_split(x, 3, axis=2),
    lambda np, x: np.vsplit(x, 2),
    lambda np, x: np.hsplit(x, 3),
    lambda np, x: np.dsplit(x, [1]),
    # repeating
    lambda np, x: np.tile(x, 2),
    lambda np, x: np.tile(x, (2, 1, 3)),
    lambda np, x: np.tile(x[0, 0], (2, 2)),
    lambda np, x: np.tile(x, (2, 1, 1, 2)),
    lambda np, x: np.tile(x, 0),
    lambda np, x: np.repeat(x, 2),
    lambda np, x: np.repeat(x, 3, axis=1),
    lambda np, x: np.repeat(x, [1, 0, 2], axis=1),
    lambda np, x: np.repeat(x, [2], axis=0),
    lambda np, x: x.repeat(0, axis=0),
    # padding
    lambda np, x: np.pad(x, 1),
    lambda np, x: np.pad(x, (1, 2)),
    lambda np, x: np.pad(x, ((0, 1), (2, 0), (1, 1))),
    lambda np, x: np.pad(x, 1, constant_values=7),
    lambda np, x: np.pad(x, ((1, 3),), mode="edge"),
    lambda np, x: np.pad(x, ((0, 1), (5, 4), (3, 7)), mode="reflect"),
    lambda np, x: np.pad(x, ((0, 3), (5, 4), (3, 9)), mode="symmetric"),
    lambda np, x: np.pad(x, ((0, 3), (5, 4), (3, 9)), mode="wrap"),
    lambda np, x: np.pad(x[:1], ((2, 1), (0, 0), (0, 0)), mode="reflect"),
    lambda np, x: np.diff(x),
    lambda np, x: np.diff(x, n=2, axis=1),
    lambda np, x: np.diff(x[:, :, :1]),
]


@pytest.mark.parametrize("function", SHAPES, ids=range(len(SHAPES)))
def test_as_numpy(function: Callable[[Any, Any], Any]) -> None:
    expected = function(np, X)
    check(
        lambda x: function(xlapy, x), list(expected) if isinstance(expected, tuple) else expected, X
    )


def test_traced_rolls() -> None:
    run = xlapy.compile(lambda x, s: (xlapy.roll(x, s), xlapy.roll(x, (s, 1), axis=(1, 2))))
    for s in (-4, -1, 0, 2, 50):
        found = run(X, s)
        np.testing.assert_array_equal(np.asarray(found[0]), np.roll(X, s))
        np.testing.assert_array_equal(np.asarray(found[1]), np.roll(X, (s, 1), axis=(1, 2)))


def test_types_meet_when_joined() -> None:
    x = xlapy.asarray(M)
    assert xlapy.concatenate([x, x * 0.5]).dtype == xlapy.float32
    assert xlapy.concatenate([x, x], dtype="f64").dtype == xlapy.float64
    assert xlapy.stack([1, 2.5, True]).tolist() == [1, 2.5, 1]
    assert xlapy.stack([x[0, 0], 7]).dtype == xlapy.int32
    assert xlapy.concatenate([[1, 2], [3]]).tolist() == [1, 2, 3]


ERRORS: list[tuple[type, Callable[[Any], Any]]] = [
    (ShapeError, lambda x: xlapy.reshape(x, (5, 5))),
    (ShapeError, lambda x: xlapy.reshape(x, (-1, -1))),
    (ShapeError, lambda x: xlapy.reshape(x, (-1, 7))),
    (ShapeError, lambda x: xlapy.reshape(x, (-2, 12))),
    (DTypeError, lambda x: xlapy.reshape(x, (2.0, 12))),
    (ConstraintError, lambda x: xlapy.reshape(x, 24, order="F")),
    (ShapeError, lambda x: xlapy.permute_dims(x, (0, 1))),
    (ShapeError, lambda x: xlapy.permute_dims(x, (0, 1, 1))),
    (ShapeError, lambda x: xlapy.matrix_transpose(x[0, 0])),
    (ShapeError, lambda x: xlapy.swapaxes(x, 0, 3)),
    (ShapeError, lambda x: xlapy.squeeze(x, 0)),
    (ShapeError, lambda x: xlapy.expand_dims(x, 5)),
    (ShapeError, lambda x: xlapy.broadcast_to(x, (3, 4))),
    (ShapeError, lambda x: xlapy.broadcast_to(x, (2, 3, 5))),
    (ShapeError, lambda x: xlapy.flip(x, axis=3)),
    (ConstraintError, lambda x: xlapy.roll(x, (1, 2))),
    (DTypeError, lambda x: xlapy.roll(x, 1.5)),
    (ConstraintError, lambda x: xlapy.moveaxis(x, (0, 1), 2)),
    (ShapeError, lambda x: xlapy.concatenate([x, x[0]])),
    (ShapeError, lambda x: xlapy.concatenate([x, x[:, :2]])),
    (ShapeError, lambda x: xlapy.concatenate([x, x], axis=3)),
    (ConstraintError, lambda x: xlapy.concatenate([])),
    (ShapeError, lambda x: xlapy.concatenate([x[0, 0, 0]])),
    (DTypeError, lambda x: xlapy.concatenate(3)),
    (ShapeError, lambda x: xlapy.stack([x, x[0]])),
    (ShapeError, lambda x: xlapy.split(x, 2, axis=1)),
    (ConstraintError, lambda x: xlapy.split(x, 0)),
    (ShapeError, lambda x: xlapy.unstack(x[0, 0, 0])),
    (ConstraintError, lambda x: xlapy.tile(x, -1)),
    (ConstraintError, lambda x: xlapy.repeat(x, -1)),
    (ShapeError, lambda x: xlapy.repeat(x, [1, 2], axis=1)),
    (DTypeError, lambda x: xlapy.repeat(x, 1.5)),
    (ConstraintError, lambda x: xlapy.pad(x, -1)),
    (ConstraintError, lambda x: xlapy.pad(x, 1, mode="strange")),
    (ShapeError, lambda x: xlapy.pad(x, ((1, 1), (1, 1)))),
    (DTypeError, lambda x: xlapy.pad(x, 0.5)),
    (DTypeError, lambda x: xlapy.pad(x.astype("s32"), 1, constant_values=0.5)),
    (ShapeError, lambda x: xlapy.pad(x[:0], 1, mode="edge")),
    (TracingError, lambda x: xlapy.compile(lambda x, n: xlapy.repeat(x, n))(x, 2)),
    (TracingError, lambda x: xlapy.compile(lambda x, n: xlapy.reshape(x, n))(x, 24)),
]


@pytest.mark.parametrize("error, function", ERRORS, ids=range(len(ERRORS)))
def test_errors(error: type, function: Callable[[Any], Any]) -> None:
    with pytest.raises(error, match=r"\[\w+\]"):
        function(xlapy.asarray(X))
    if error is not TracingError:
        with pytest.raises(error, match=r"\[\w+\]"):
            xlapy.compile(function)(X)


def test_derivatives() -> None:
    functions: list[Callable[[Any], Any]] = [
        lambda x: xlapy.concatenate([x, x[:, :1]], axis=1), lambda x: xlapy.pad(x, 2, "reflect"),
        lambda x: xlapy.tile(x, 2), lambda x: xlapy.repeat(x, 2, axis=0), lambda x: xlapy.roll(x, 1),
        lambda x: xlapy.stack([x, x]), lambda x: xlapy.tril(x), lambda x: xlapy.diagonal(x), lambda x: x.T,
    ]  # fmt: skip
    m = M.astype(np.float32)
    for function in functions:
        shape = function(xlapy.asarray(m)).shape
        weights = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        slope = np.asarray(xlapy.grad(lambda x, f=function, w=weights: xlapy.vdot(f(x), w))(m))
        expected = np.zeros_like(m)
        for i in np.ndindex(m.shape):
            unit = np.zeros_like(m)
            unit[i] = 1
            expected[i] = np.vdot(np.asarray(function(xlapy.asarray(unit))), weights)
        np.testing.assert_allclose(slope, expected, rtol=1e-6)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_padding_by_any_number_of_periods(mode: str, size: int) -> None:
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    for before, after in ((0, 1), (1, 0), (2, 3), (7, 5), (30, 31), (100, 0)):
        pairs = ((before, after), (after, before))
        check(lambda x, p=pairs: xlapy.pad(x, p, mode), np.pad(x, pairs, mode), x)  # type: ignore[call-overload]
    slope = xlapy.grad(lambda x: xlapy.sum(xlapy.pad(x, ((40, 1), (0, 0)), mode)))(x)
    counts = np.bincount(np.pad(np.arange(size), (40, 1), mode), minlength=size)  # type: ignore[call-overload]
    np.testing.assert_array_equal(slope.numpy(), np.repeat(counts[:, None], 2, 1))


@pytest.mark.parametrize("shift", [2**31, -(2**31) - 1, 2**63, 10**30])
def test_rolls_of_any_distance(shift: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check(lambda x: xlapy.roll(x, shift), np.roll(x, shift), x)
    check(lambda x: xlapy.roll(x, (shift, 2), axis=(0, 1)), np.roll(x, (shift, 2), (0, 1)), x)
    check(lambda x: xlapy.roll(x, shift, axis=1), np.zeros((2, 0)), np.zeros((2, 0)))


def test_splits_know_how_many_dimensions_there_must_be() -> None:
    x = np.arange(3, dtype=np.float32)
    check(lambda x: xlapy.hsplit(x, 3), np.hsplit(x, 3), x)
    for split in (xlapy.vsplit, xlapy.dsplit, lambda x, n: xlapy.hsplit(x[0], n)):
        with pytest.raises(ShapeError, match="dimensions; got"):
            split(xlapy.asarray(x), 1)
    with pytest.raises(ConstraintError, match="number of parts"):
        xlapy.array_split(x, 2**31)
    for wrong in (([], None), ((), (0,)), (1, ()), ([1, 2], ())):
        with pytest.raises(ConstraintError, match=r"shift.*\[X1\]"):
            xlapy.roll(x, wrong[0], axis=wrong[1])
