"""Changing elements: assignment as numpy does it, and updated copies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import BACKENDS, check

import xlapy
from xlapy.errors import DTypeError, OutOfRangeError, ShapeError, TracingError

X = np.arange(2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
I = np.array([1, 0, -1])
MASK = X % 3 == 0

INDICES: list[Any] = [
    0, -1, ..., slice(None), (), (0, 1), (1, 2, 3), (..., 2), None, (None, 1), slice(1, None), slice(None, None, -1),
    (slice(None), slice(None, None, 2)), (slice(None), slice(2, 0, -1), 1), (slice(None), slice(None, None, -2)),
    (..., slice(None, None, 2)), (0, slice(None, None, 2), slice(3, 0, -2)), (slice(2, 1),), (1, None, slice(1, 3)),
    I[:2], (I[:2], I[:2]), (slice(None), I), (0, I), (I[:2], slice(None), I[1:]), (slice(None), I[:2], slice(1, 3)),
    (I[:2], slice(None, None, 2)), (slice(None, None, -1), [0, 2], slice(None, None, 2)), ([[0], [1]], I),
    ([[0], [1]], slice(2), None, [0, 3]), (slice(None), [], 1), (I[:2], 1), (slice(1), 1, [0, 3]),
    MASK, MASK[:, 0, 0], (0, MASK[0]), (slice(None), MASK[0, :, 0]), (MASK[:, 0, 0], 0), True, False, (True, 0),
    np.zeros_like(MASK), (slice(None), 1, MASK[0, 0]), (..., slice(1, None, 3)), (slice(-1, None), slice(0, 3, 2)),
]  # fmt: skip


def label(index: Any) -> str:
    return repr(index).replace("\n", "").replace(" ", "")[:60]


def values(index: Any) -> list[Any]:
    """What may be assigned: a number, and arrays that broadcast to what is picked."""
    shape = X[index].shape
    whole = -np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    found: list[Any] = [7, -1.5, whole, whole.astype(np.int8)]
    if shape and index is not MASK and getattr(index, "shape", ()) != MASK.shape:
        found.append(whole[None])  # numpy refuses this for whole masks only
    if shape and shape[0]:
        found.append(whole[:1])
        found.append(whole[0])
    if len(shape) > 1 and shape[-1]:
        found.append(whole[..., :1])
    return found


@pytest.mark.parametrize("index", INDICES, ids=label)
def test_assignment(index: Any) -> None:
    for value in values(index):
        expected = X.copy()
        expected[index] = value

        def assign(x: Any, index: Any = index, value: Any = value) -> Any:
            y = x.copy()
            y[index] = value
            return y

        for backend in BACKENDS:
            with xlapy.use_backend(backend):
                x = xlapy.asarray(X)
                np.testing.assert_array_equal(np.asarray(assign(x)), expected)
                np.testing.assert_array_equal(np.asarray(x), X)
                np.testing.assert_array_equal(np.asarray(xlapy.compile(assign)(x)), expected)


REPEATED: list[Any] = [
    (0, np.array([0, 0, 2, 0])), (np.array([1, 1]), slice(None), np.array([2, 2])), ([0, 0], slice(None, None, 2)),
    ([[1], [1]], [0, 2, 0]), (slice(None), 1, [3, 3]), 0, (slice(None), slice(None, None, -1)), MASK, (0, 1, 2),
]  # fmt: skip


@pytest.mark.parametrize("index", REPEATED, ids=label)
@pytest.mark.parametrize("kind", ["add", "multiply", "min", "max"])
def test_updates_that_combine(index: Any, kind: str) -> None:
    shape = X[index].shape
    value = (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 2) * 3
    expected = X.copy()
    function = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}[kind]
    function.at(expected, index, value)
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            x, v = xlapy.asarray(X), xlapy.asarray(value)
            np.testing.assert_array_equal(np.asarray(getattr(x.at[index], kind)(v)), expected)
            run = xlapy.compile(lambda x, v: getattr(x.at[index], kind)(v))
            np.testing.assert_array_equal(np.asarray(run(x, v)), expected)
            np.testing.assert_array_equal(np.asarray(x), X)


def test_getting() -> None:
    x = xlapy.asarray(X)
    np.testing.assert_array_equal(np.asarray(x.at[0, ::2].get()), X[0, ::2])
    np.testing.assert_array_equal(np.asarray(x.at[0].set(x[1])[0]), X[1])


def test_traced_places() -> None:
    def run(x: Any, i: Any, j: Any) -> Any:
        y = x.copy()
        y[i] = 1
        y[:, j, ::2] = x[:, j, 1::2]
        y[0, :, i] = [7, 8, 9]
        return y.at[i, j].add(10)

    for i, j in ((0, 1), (1, -1), (-1, 2)):
        expected = X.copy()
        expected[i] = 1
        expected[:, j, ::2] = X[:, j, 1::2]
        expected[0, :, i] = [7, 8, 9]
        expected[i, j] += 10
        for cast in (np.int32, np.int64):
            np.testing.assert_array_equal(
                np.asarray(xlapy.compile(run)(X, cast(i), cast(j))), expected
            )
    arrays = xlapy.compile(lambda x, i: x.at[:, i].set(0.0))
    expected = X.copy()
    expected[:, I] = 0
    np.testing.assert_array_equal(np.asarray(arrays(X, I)), expected)


def test_traced_masks_may_be_assigned_to() -> None:
    def run(x: Any) -> Any:
        y = x * 1
        y[y > 5] = 0
        y[x[:, 0, 0] > 2] = xlapy.asarray([1.0, 2.0, 3.0, 4.0])
        return y.at[x < 3].add(100)

    expected = X.copy()
    expected[expected > 5] = 0
    expected[X[:, 0, 0] > 2] = [1, 2, 3, 4]
    expected[X < 3] += 100
    np.testing.assert_array_equal(np.asarray(xlapy.compile(run)(X)), expected)
    np.testing.assert_array_equal(np.asarray(run(xlapy.asarray(X))), expected)
    with pytest.raises(TracingError, match="mask"):
        xlapy.compile(lambda x: x.at[x > 100].set(np.arange(3)))(X)


def test_types_of_values() -> None:
    x = xlapy.asarray(np.zeros(3, np.float32))
    x[0] = np.float64(1.5)
    x[1] = True
    x[2] = np.int64(3)
    assert x.tolist() == [1.5, 1.0, 3.0]
    y = xlapy.zeros(3, dtype="s8")
    y[:] = np.array([1, 2, 300])
    assert y.tolist() == [1, 2, 44]
    for value in (0.5, np.float32(0.5), 1j, 300, xlapy.ones(3)):
        with pytest.raises(DTypeError):
            y[:] = value
    with pytest.raises(DTypeError):
        x[0] = 1j
    assert y.dtype == xlapy.int8


def test_values_that_do_not_fit() -> None:
    x = xlapy.asarray(X)
    for index, value in (
        (0, np.ones(5)),
        (..., np.ones((3, 2, 4))),
        (MASK, np.ones(3)),
        (MASK[:, 0, 0], np.ones(3)),
    ):
        with pytest.raises((ShapeError, IndexError)):
            x[index] = value
        with pytest.raises((ShapeError, IndexError)):
            xlapy.compile(lambda x, i=index, v=value: x.at[i].set(v))(x)
    with pytest.raises(OutOfRangeError):
        x[2] = 0
    np.testing.assert_array_equal(np.asarray(x), X)


def test_handles_keep_their_values() -> None:
    x = xlapy.zeros(3)
    same, other = x, x.copy()
    x[0] = 1.0
    assert (same.tolist(), other.tolist()) == ([1, 0, 0], [0, 0, 0])
    for function in (
        lambda x: x + 0,
        xlapy.asarray,
        lambda x: +x,
        lambda x: x.reshape(3),
        lambda x: x[...],
        xlapy.ravel,
    ):

        def assign(x: Any, function: Any = function) -> Any:
            x = x * 1
            y = function(x)
            x[0] = 9.0
            return y

        assert assign(other).tolist() == [0, 0, 0]
        assert xlapy.compile(assign)(other).tolist() == [0, 0, 0]


def test_arguments_must_not_be_assigned_to() -> None:
    def assign(x: Any) -> Any:
        x[0] = 1.0
        return xlapy.vdot(x, x) if x.ndim else x

    x = xlapy.asarray(X[0, 0])
    for run in (xlapy.compile(assign), xlapy.grad(assign), xlapy.vmap(lambda r: assign(r))):
        with pytest.raises(TracingError, match=r"must not be assigned to.*\n.*x\.copy\(\)"):
            run(x if run.__name__ != "<lambda>" else xlapy.asarray(X[0]))
    outer = xlapy.zeros(4)

    @xlapy.compile
    def captured(x: Any) -> Any:
        outer[0] = x[0]
        return x

    with pytest.raises(TracingError, match="from outside"):
        captured(x)
    assert outer.tolist() == [0, 0, 0, 0]

    @xlapy.compile
    def enclosing(x: Any) -> Any:
        y = x * 1

        def inner(r: Any) -> Any:
            y[0] = r
            return r

        return xlapy.vmap(inner)(x)

    with pytest.raises(TracingError, match="from outside"):
        enclosing(x)


def test_copies_of_arguments_may_be_assigned_to() -> None:
    def run(x: Any) -> Any:
        y = x.copy()
        y[0] = y[1] * 2
        return xlapy.vdot(y, y)

    x = xlapy.asarray([1.0, 2.0, 3.0])
    assert float(xlapy.compile(run)(x)) == 16 + 4 + 9
    np.testing.assert_array_equal(np.asarray(xlapy.grad(run)(x)), [0, 20, 6])
    np.testing.assert_array_equal(np.asarray(xlapy.compile(xlapy.grad(run))(x)), [0, 20, 6])
    rows = xlapy.asarray([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(np.asarray(xlapy.vmap(run)(rows)), [16 + 4, 64 + 16])


def test_derivatives_of_updates() -> None:
    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    v = np.array([10.0, 20.0], np.float32)
    weights = np.arange(1, 7, dtype=np.float32).reshape(2, 3)

    def total(kind: str, index: Any) -> Any:
        return lambda x, v: xlapy.vdot(getattr(x.at[index], kind)(v), weights)

    index = (slice(None), 1)
    dx, dv = xlapy.grad(total("set", index), argnums=(0, 1))(x, v)
    np.testing.assert_array_equal(np.asarray(dx), weights * [1, 0, 1])
    np.testing.assert_array_equal(np.asarray(dv), weights[:, 1])
    index = ([0, 0], [1, 1])
    dx, dv = xlapy.grad(total("add", index), argnums=(0, 1))(x, v)
    np.testing.assert_array_equal(np.asarray(dx), weights)
    np.testing.assert_array_equal(np.asarray(dv), weights[0, [1, 1]])
    dx, dv = xlapy.grad(total("multiply", ([0, 1], [1, 1])), argnums=(0, 1))(x, v)
    np.testing.assert_array_equal(np.asarray(dv), weights[:, 1] * x[:, 1])
    dx, dv = xlapy.grad(total("set", (slice(None), slice(None, None, 2))), argnums=(0, 1))(x, v)
    np.testing.assert_array_equal(np.asarray(dx), weights * [0, 1, 0])
    np.testing.assert_array_equal(np.asarray(dv), weights[:, ::2].sum(0))


def test_updates_in_vmap() -> None:
    x = xlapy.asarray(X)
    found = xlapy.vmap(lambda r, i, v: r.at[i].set(v))(
        x, xlapy.asarray([2, 0]), xlapy.asarray([5.0, 6.0])
    )
    expected = X.copy()
    expected[0, 2], expected[1, 0] = 5, 6
    np.testing.assert_array_equal(np.asarray(found), expected)
    found = xlapy.vmap(lambda r, i: r.at[:, i].add(1))(x, xlapy.asarray([[0, 0], [1, 2]]))
    expected = X.copy()
    expected[0, :, 0] += 2
    expected[1, :, 1:3] += 1
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_places_in_tensors_out_of_range_are_skipped() -> None:
    x = xlapy.zeros(3)
    np.testing.assert_array_equal(np.asarray(x.at[xlapy.asarray([1, 7])].set(5.0)), [0, 5, 0])


def test_the_explicit_builder() -> None:
    b = xlapy.XlaBuilder("b")
    p = b.parameter(0, "f32[3]", "p")
    y = p * 2
    y[0] = 1.0
    z = y[1:] + xlapy.sin(y[0])
    with pytest.raises(TracingError, match="argument"):
        p[0] = 1.0
    assert len(b.build(z).results) == 1


#: what may give the elements of its operand as they are
SAME: dict[str, Callable[[Any], Any]] = {
    "positive": xlapy.positive,
    "asarray": xlapy.asarray,
    "reshape": lambda x: x.reshape(x.shape),
    "ravel": xlapy.ravel,
    "transpose": lambda x: x.T,
    "real": lambda x: x.real,
    "astype": lambda x: x.astype(x.dtype),
    "atleast_1d": xlapy.atleast_1d,
    "broadcast_to": lambda x: xlapy.broadcast_to(x, x.shape),
    "broadcast_arrays": lambda x: xlapy.broadcast_arrays(x, x)[1],
    "clip": xlapy.clip,
    "flip": lambda x: xlapy.flip(x, axis=()),
    "roll": lambda x: xlapy.roll(x, 0),
    "pad": lambda x: xlapy.pad(x, 0, mode="wrap"),
    "split": lambda x: xlapy.split(x, 1)[0],
    "concatenate": lambda x: xlapy.concatenate([x]),
    "einsum": lambda x: xlapy.einsum("i->i", x),
    "squeeze": xlapy.squeeze,
    "tile": lambda x: xlapy.tile(x, 1),
    "repeat": lambda x: xlapy.repeat(x, 1),
    "max": lambda x: xlapy.max(x, axis=()),
    "sum": lambda x: xlapy.sum(x, axis=()),
    "diff": lambda x: xlapy.diff(x, n=0),
    "where": lambda x: xlapy.where(True, x, x),
    "meshgrid": lambda x: xlapy.meshgrid(x)[0],
    "stop_gradient": xlapy.stop_gradient,
    "index": lambda x: x[...],
    "slice": lambda x: x[:],
    "get": lambda x: x.at[:].get(),
    "convert": lambda x: xlapy.ops.convert(x, x.dtype),
    "collapse": lambda x: xlapy.ops.collapse(x, (0,)),
    "vmap": xlapy.vmap(lambda x: x),
    "vmap of nothing": lambda x: xlapy.vmap(lambda a, b: b, (0, None), None)(x, x),
    "vjp": lambda x: xlapy.vjp(lambda v: v, x)[0],
    "pullback": lambda x: xlapy.vjp(lambda v: v, x)[1](x)[0],
    "jvp": lambda x: xlapy.jvp(lambda v: v, (x,), (x,))[0],
    "tangent": lambda x: xlapy.jvp(lambda v: v, (x,), (x,))[1],
    "aux of vjp": lambda x: xlapy.vjp(lambda v: (v, v), x, has_aux=True)[2],
    "aux of jvp": lambda x: xlapy.jvp(lambda v: (v, v), (x,), (x,), has_aux=True)[2],
    "aux of grad": lambda x: xlapy.grad(lambda v: (v.sum(), v), has_aux=True)(x)[1],
    "cond": lambda x: xlapy.cond(True, lambda x: x, lambda x: x, x),
    "compile": xlapy.compile(lambda x: x),
    "fori_loop": lambda x: xlapy.fori_loop(0, 0, lambda i, x: x, x),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", SAME)
def test_an_assignment_changes_one_handle(name: str) -> None:
    def operand_after(x: Any) -> Any:
        y = x * 1
        SAME[name](y)[0] = 9.0
        return y

    def result_after(x: Any) -> Any:
        y = x * 1
        same = SAME[name](y)
        y[0] = 9.0
        return same

    x = np.array([1.0, 2.0, 3.0], np.float32)
    for function in (operand_after, result_after):
        check(function, x, x)

    def of_an_argument(x: Any) -> Any:
        y = SAME[name](x)
        y[0] = 9.0
        return xlapy.stack([x, y])

    check(of_an_argument, np.stack([x, [9.0, 2.0, 3.0]]).astype(np.float32), x)
