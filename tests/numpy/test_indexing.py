"""Reading elements: every form of index as numpy does it, and no program for each integer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import check

import xlapy
from xlapy.errors import DTypeError, OutOfRangeError, ShapeError, TracingError

X = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
I = np.array([1, 0, -1])
J = np.array([[0], [1]])
MASK = X > 60

INDICES: list[Any] = [
    0, -1, np.int64(1), np.uint8(1), (), ..., None, slice(None), slice(1, None), slice(None, None, -1),
    (1, 2), (1, 2, 3, 4), (-1, -2, -3, -4), (slice(None), 1), (..., 1), (..., None, 1), (None, ..., None),
    (slice(None), slice(2, 0, -1)), (slice(None), slice(None), slice(None, None, 2), slice(None, None, -2)),
    (slice(5, 2),), (0, slice(10, None)), (slice(-1, None), ..., slice(0, -1)), (1, None, slice(1, 3), None, 2),
    (slice(None), slice(None), slice(3, None, -3)), (slice(None), slice(1, 1, -1)),
    # arrays
    I, J, [1, 0], [[1, 0], [0, 1]], (I, I), (J, I), (slice(None), I), (slice(None), I, I), (I, slice(None), I),
    (slice(None), I, slice(None), I), (..., I), (I, ...), (I, ..., I), (0, I), (I, 0), (0, slice(None), I),
    (slice(None), 0, I), (slice(None), 0, slice(None), I), (None, I, I), (I, None, I), (I, None), (slice(1), J, I),
    (slice(None, None, -1), I[:, None], slice(1, 3), I), (1, J, slice(None, None, 2), None), (J, I, 1, slice(1, 4)),
    np.zeros(0, np.int32), (slice(None), []), (I, I, I, I), (J, ..., 2, slice(None, None, -1)),
    # masks
    MASK, MASK[:, 0, 0, 0], (0, MASK[0]), (slice(None), MASK[0, :, :, 0]), (MASK[:, 0, 0, 0], 1), (..., MASK[0, 0, 0]),
    (MASK[:, :, 0, 0], slice(None), 1), ([True, False],), np.array([False, False]),
    (slice(None), [True, False, True], I[:2]),
    True, False, (True, 0), (0, False), np.bool_(True), (None, True), (True, I), np.ones((2, 3, 4, 5), bool),
]  # fmt: skip


def label(index: Any) -> str:
    return repr(index).replace("\n", "").replace(" ", "")[:60]


@pytest.mark.parametrize("index", INDICES, ids=label)
def test_reading(index: Any) -> None:
    check(lambda x: x[index], X[index], X)


@pytest.mark.parametrize("index", INDICES, ids=label)
def test_tensors_as_index(index: Any) -> None:
    """The same with arrays that are tensors, and integers that are traced."""
    expected = X[index]

    def to_tensors(part: Any) -> Any:
        if isinstance(part, list | np.ndarray) and np.asarray(part).size:
            return xlapy.asarray(np.asarray(part))
        return part

    made = tuple(map(to_tensors, index)) if isinstance(index, tuple) else to_tensors(index)
    for backend in ("pjrt:cpu", "interpreter"):
        with xlapy.use_backend(backend):
            made = tuple(map(to_tensors, index)) if isinstance(index, tuple) else to_tensors(index)
            np.testing.assert_array_equal(np.asarray(xlapy.asarray(X)[made]), expected)


def test_traced_integers() -> None:
    rows = xlapy.compile(lambda x, i, j: (x[i], x[:, j], x[i, ..., j], x[i, 1:, j, None], x[j, i]))
    for i, j in ((0, 1), (1, -1), (-2, 0)):
        for cast in (np.int32, np.int8, np.int64):
            found = rows(X, cast(i), cast(j))
            expected = (X[i], X[:, j], X[i, ..., j], X[i, 1:, j, None], X[j, i])
            for a, e in zip(found, expected, strict=True):
                np.testing.assert_array_equal(np.asarray(a), e)
    # Python integers as arguments are traced, too.
    np.testing.assert_array_equal(np.asarray(xlapy.compile(lambda x, i: x[i])(X, 1)), X[1])
    unsigned = xlapy.compile(lambda x, i: x[:, i])
    for cast in (np.uint8, np.uint32, np.uint64):
        np.testing.assert_array_equal(np.asarray(unsigned(X, cast(2))), X[:, 2])


def test_a_concrete_scalar_tensor() -> None:
    x, i = xlapy.asarray(X), xlapy.asarray(-1)
    np.testing.assert_array_equal(np.asarray(x[i]), X[-1])
    np.testing.assert_array_equal(np.asarray(x[0, i, I]), X[0, -1, I])
    np.testing.assert_array_equal(np.asarray(x[: xlapy.asarray(1)]), X[:1])


def test_traced_arrays() -> None:
    pick = xlapy.compile(lambda x, i, j: (x[i], x[:, i, j], x[i, :, j], x[i, ..., None, j]))
    for dtype in (np.int32, np.int64, np.int8):
        i, j = I.astype(dtype), np.array([2, -2, 1], dtype)
        found = pick(X, i, j)
        for a, e in zip(found, (X[i], X[:, i, j], X[i, :, j], X[i, ..., None, j]), strict=True):
            np.testing.assert_array_equal(np.asarray(a), e)
    large = np.array([2**32 - 1, 0, 1], np.uint32)
    np.testing.assert_array_equal(np.asarray(xlapy.asarray(X)[xlapy.asarray(large)]), X[[-1, 0, 1]])


def test_integers_out_of_range() -> None:
    x = xlapy.asarray(X)
    wrong: list[Any] = [
        2,
        -3,
        (0, 3),
        (..., 5),
        [0, 2],
        (0, [-4]),
        (0, 0, 0, 0, 0),
        np.array([[2]]),
    ]
    for index in wrong:
        with pytest.raises(OutOfRangeError):
            x[index]
        with pytest.raises(IndexError, match=r"\[X1\]"):
            xlapy.compile(lambda x, i=index: x[i])(x)
    with pytest.raises(ShapeError, match="test_indexing.py"):
        x[7]
    with pytest.raises(OutOfRangeError):
        xlapy.asarray(1.0)[0]
    with pytest.raises(OutOfRangeError):
        x[..., ...]
    with pytest.raises(OutOfRangeError):
        xlapy.zeros((0, 3))[0]


def test_places_in_tensors_are_clamped() -> None:
    x = xlapy.arange(4)
    for i, expected in ((7, 3), (-9, 0), (3, 3), (-1, 3)):
        assert int(x[xlapy.asarray(i)]) == expected
        assert int(x[xlapy.asarray([i])][0]) == expected


def test_what_is_no_index() -> None:
    x = xlapy.asarray(X)
    for index in (1.0, "a", [0.5], xlapy.asarray(1.0), (0, {}), slice(0.5, 1)):
        with pytest.raises(TypeError):
            x[index]
    with pytest.raises(DTypeError, match="integers"):
        x[np.ones(2, np.float32)]
    with pytest.raises(OutOfRangeError, match="mask"):
        x[np.ones(3, bool)]


def test_a_traced_mask() -> None:
    with pytest.raises(TracingError, match=r"xlapy\.where"):
        xlapy.compile(lambda x: x[x > 3])(X)
    with pytest.raises(TracingError):
        xlapy.compile(lambda x, n: x[:n])(X, 1)
    mask = X > 60
    np.testing.assert_array_equal(np.asarray(xlapy.compile(lambda x: x[mask])(X)), X[mask])


def test_no_program_for_each_integer() -> None:
    x = xlapy.asarray(np.arange(200, dtype=np.float32).reshape(50, 4))
    backend = x.backend

    def programs() -> int:
        return backend.compiles + backend.loads

    def use(i: int) -> None:
        x[i], x[-i - 1], x[i : i + 3], x[:, i % 4], x[i, i % 3 : i % 3 + 2], x[i : i + 6 : 2]
        x[[i, 2, 3]], x[np.array([i]), 1], x[i, ..., None]
        x.at[i].set(1.0), x.at[i : i + 2].add(2.0)
        xlapy.roll(x, i)

    use(0)
    before = programs()
    for i in range(1, 40):
        use(i)
    assert programs() == before


def test_slices_are_copies() -> None:
    x = xlapy.zeros(4)
    y = x[1:3]
    z = x[:]
    y[0] = 5.0
    x[3] = 1.0
    np.testing.assert_array_equal(np.asarray(x), [0, 0, 0, 1])
    np.testing.assert_array_equal(np.asarray(y), [5, 0])
    np.testing.assert_array_equal(np.asarray(z), [0, 0, 0, 0])


def test_iteration() -> None:
    x = xlapy.asarray(X)
    for a, b in zip(x, X, strict=True):
        np.testing.assert_array_equal(np.asarray(a), b)
    _, second = xlapy.compile(lambda x: list(x))(x)
    np.testing.assert_array_equal(np.asarray(second), X[1])
    a, (b, c) = xlapy.asarray([1, 2]), xlapy.asarray([3, 4])
    assert int(c) == 4
    with pytest.raises(TypeError):
        iter(xlapy.asarray(1.0))
    assert 5.0 in xlapy.arange(8.0)


def test_taking() -> None:
    flat = np.array([5, 0, -1])
    check(lambda x: xlapy.take(x, flat), np.take(X, flat), X)
    check(lambda x: xlapy.take(x, I, axis=1), np.take(X, I, axis=1), X)
    check(lambda x: xlapy.take(x, J, axis=-1), np.take(X, J, axis=-1), X)
    check(lambda x: x.take(1, axis=2), np.take(X, 1, axis=2), X)
    check(lambda x, i: xlapy.take(x, i, axis=2), np.take(X, I, axis=2), X, I)
    with pytest.raises(OutOfRangeError):
        xlapy.take(xlapy.asarray(X), [3], axis=1)


def test_taking_along_an_axis() -> None:
    for axis in range(-4, 4):
        order = np.argsort(-X, axis=axis).astype(np.int32)
        check(
            lambda x, i, a=axis: xlapy.take_along_axis(x, i, axis=a),
            np.take_along_axis(X, order, axis),
            X,
            order,
        )
    x, i = X[0, 0], np.array([[-1], [0], [1], [-2]], np.int32)
    check(lambda x, i: xlapy.take_along_axis(x, i, axis=1), np.take_along_axis(x, i, 1), x, i)
    i = np.array([[0, 1]], np.int32)
    check(lambda x, i: xlapy.take_along_axis(x, i, axis=1), np.take_along_axis(x, i, 1), x, i)
    with pytest.raises(ShapeError):
        xlapy.take_along_axis(xlapy.asarray(x), xlapy.asarray([0]), axis=0)
    with pytest.raises(DTypeError):
        xlapy.take_along_axis(xlapy.asarray(x), xlapy.asarray(x), axis=0)


def test_derivatives_of_reading() -> None:
    x = xlapy.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))
    weights = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    indices: list[Any] = [
        0,
        (slice(None), 1),
        slice(None, None, -2),
        ([0, 0, 2], [1, 1, 3]),
        (slice(1), I),
    ]
    for index in indices:
        picked = weights[index]
        expected = np.zeros((3, 4), np.float32)
        np.add.at(expected, index, picked)

        def total(x: Any, index: Any = index, picked: Any = picked) -> Any:
            return xlapy.vdot(x[index], picked)

        np.testing.assert_allclose(np.asarray(xlapy.grad(total)(x)), expected)


def test_reading_in_vmap() -> None:
    x = xlapy.asarray(X)
    i = xlapy.asarray([2, 0])
    found = xlapy.vmap(lambda row, i: (row[i], row[0], row[..., ::-1], row[:, I]))(x, i)
    expected = (
        np.stack([X[0, 2], X[1, 0]]),
        X[:, 0],
        X[..., ::-1],
        X[:, :, I],
    )
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), e)
    shared = xlapy.vmap(lambda i: x[i], in_axes=0)(i[1:])
    np.testing.assert_array_equal(np.asarray(shared), X[[0]])


SLICES: list[tuple[type, slice]] = [
    (DTypeError, slice(1.5)), (DTypeError, slice("a")), (DTypeError, slice(0, 2, 1.0)), (DTypeError, slice([1])),
    (OutOfRangeError, slice(None, None, 0)), (DTypeError, slice(np.float32(1), None)),
]  # fmt: skip


@pytest.mark.parametrize("error, wrong", SLICES, ids=repr)
def test_slices_that_are_none(error: type, wrong: slice) -> None:
    x = xlapy.asarray(X)
    for use in (
        lambda x: x[wrong],
        lambda x: x[0, wrong],
        lambda x: x.at[wrong].set(1),
        lambda x: x[..., wrong, None],
    ):
        for way in (use, xlapy.compile(use)):
            with pytest.raises(error, match=r"slice.*; got slice.*\[X1\]"):
                way(x)
