"""Arrays with a size that is known only when the program runs: what is exported for any size computes as for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import BACKENDS

import xlapy
from xlapy import ops
from xlapy.errors import ConstraintError, DTypeError, ShapeError

ANY = "f32[?,4]"
W = np.arange(12, dtype=np.float32).reshape(4, 3) / 7
B = np.arange(3, dtype=np.float32)


def normalized(x: Any, axis: int) -> Any:
    mean = x.mean(axis=axis, keepdims=True)
    return (x - mean) / xlapy.sqrt(x.var(axis=axis, keepdims=True) + 1e-5)


def attention(x: Any) -> Any:
    q = x.reshape((-1, 2, 2))
    return xlapy.softmax(xlapy.einsum("nqd,nkd->nqk", q, q) / 2.0) @ q


def loss(x: Any, w: Any) -> Any:
    return (xlapy.tanh(x @ w + B) ** 2).mean()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda x: 1.5 + x * 2,
    "compare": lambda x: x > 0,
    "where": lambda x: xlapy.where(x > 0, x, -x),
    "power": lambda x: abs(x) ** 0.5,
    "remainder": lambda x: x % 0.7,
    "floor_divide": lambda x: x // 0.7,
    "clip": lambda x: xlapy.clip(x, -1, 1),
    "maximum": lambda x: xlapy.maximum(x, 0),
    "hypot": lambda x: xlapy.hypot(x, 1.0),
    "complex": lambda x: (x + 1j).real,
    "row": lambda x: x + np.arange(4, dtype=np.float32),
    "column": lambda x: x[:, :1] + x,
    "first row": lambda x: x - x[0],
    "outer": lambda x: xlapy.einsum("ni,nj->nij", x, x),
    "relu": xlapy.relu,
    "gelu": xlapy.gelu,
    "silu": xlapy.silu,
    "softplus": xlapy.softplus,
    "softmax": xlapy.softmax,
    "softmax along it": lambda x: xlapy.softmax(x, axis=0),
    "log_softmax": xlapy.log_softmax,
    "logsumexp": lambda x: xlapy.logsumexp(x, axis=1),
    "one_hot": lambda x: xlapy.one_hot(xlapy.argmax(x, axis=1), 4),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "mean along it": lambda x: x.mean(axis=0),
    "mean of rows": lambda x: x.mean(axis=1),
    "var": lambda x: x.var(axis=1),
    "var along it": lambda x: x.var(axis=0),
    "std": lambda x: x.std(axis=-1),
    "max": lambda x: x.max(axis=1),
    "min": lambda x: x.min(),
    "prod": lambda x: x.prod(axis=1),
    "argmax": lambda x: xlapy.argmax(x, axis=1),
    "argmin": lambda x: xlapy.argmin(x, axis=0),
    "any": lambda x: (x > 1).any(axis=1),
    "all": lambda x: (x > -1).all(),
    "count": lambda x: xlapy.count_nonzero(x > 0, axis=1),
    "cumsum": lambda x: xlapy.cumsum(x, axis=1),
    "layer norm": lambda x: normalized(x, -1),
    "batch norm": lambda x: normalized(x, 0),
    "transpose": lambda x: x.T,
    "expand": lambda x: xlapy.expand_dims(x, axis=1),
    "new axis": lambda x: x[:, None, :],
    "squeeze": lambda x: xlapy.squeeze(x[:, :1], axis=1),
    "reshape": lambda x: x.reshape((-1, 2, 2)),
    "reshape by its size": lambda x: x.reshape((x.shape[0], 2, -1)),
    "flat": lambda x: x.reshape(-1),
    "ravel": xlapy.ravel,
    "there and back": lambda x: x.reshape((-1, 2, 2)).reshape((-1, 4)),
    "by its shape": lambda x: (x * 2).reshape(x.shape),
    "element": lambda x: x[:, 0],
    "columns": lambda x: x[:, 1:3],
    "first": lambda x: x[0],
    "last": lambda x: x[-1],
    "steps": lambda x: x[:, ::2],
    "backwards": lambda x: x[:, ::-1],
    "picked": lambda x: x[:, [0, 2]],
    "ellipsis": lambda x: x[..., 1],
    "rows from": lambda x: x[1:],
    "rows to": lambda x: x[:2],
    "rows between": lambda x: x[1:-1],
    "every other row": lambda x: x[::2],
    "last rows": lambda x: x[-2:],
    "row and columns": lambda x: x[0, 1:],
    "flip": lambda x: xlapy.flip(x),
    "take": lambda x: xlapy.take(x, np.array([0, 1]), axis=1),
    "concatenate": lambda x: xlapy.concatenate([x, x], axis=0),
    "stack": lambda x: xlapy.stack([x, x], axis=1),
    "split": lambda x: xlapy.split(x, 2, axis=1)[1],
    "pad": lambda x: xlapy.pad(x, ((1, 2), (1, 0))),
    "roll": lambda x: xlapy.roll(x, 1, axis=1),
    "tile": lambda x: xlapy.tile(x, (1, 2)),
    "repeat": lambda x: xlapy.repeat(x, 2, axis=1),
    "diff": lambda x: xlapy.diff(x, axis=1),
    "sort": lambda x: xlapy.sort(x, axis=0),
    "argsort": lambda x: xlapy.argsort(x, axis=1),
    "take_along_axis": lambda x: xlapy.take_along_axis(x, xlapy.argmax(x, axis=1)[:, None], axis=1),
    "matmul": lambda x: x @ W,
    "gram": lambda x: x @ x.T,
    "einsum": lambda x: xlapy.einsum("ni,io->no", x, W),
    "vdot": lambda x: xlapy.vdot(x, x),
    "tensordot": lambda x: xlapy.tensordot(x, W, axes=1),
    "layer": lambda x: xlapy.tanh(x @ W + B),
    "attention": attention,
    "zeros_like": xlapy.zeros_like,
    "full_like": lambda x: xlapy.full_like(x, 3.0),
    "astype": lambda x: x.astype("f64"),
    "loop": lambda x: xlapy.fori_loop(0, 3, lambda i, v: v * 0.5 + 1.0, x),
    "cond": lambda x: xlapy.cond(x.sum() > 0, lambda v: v * 2, lambda v: v - 1, x),
    "compile": lambda x: xlapy.compile(lambda v: v * 2 + 1)(x),
    "vmap": xlapy.vmap(lambda r: (r * r).sum()),
    "vmap of a layer": xlapy.vmap(lambda r: xlapy.tanh(r @ W + B) * 2 + 1),
    "vmap of what is the same": xlapy.vmap(lambda r: xlapy.asarray(W)),
    "vmap of grad": xlapy.vmap(xlapy.grad(lambda r: loss(r, W))),
    "grad of vmap": xlapy.grad(lambda x: xlapy.vmap(lambda r: loss(r, W))(x).mean()),
    "grad by the array": lambda x: xlapy.grad(loss)(x, W),
    "grad by weights": lambda x: xlapy.grad(loss, argnums=1)(x, xlapy.asarray(W)),
    "jvp": lambda x: xlapy.jvp(lambda v: loss(v, W), (x,), (x,))[1],
    "convolution": lambda x: ops.conv(
        x.reshape((-1, 1, 2, 2)), np.ones((3, 1, 2, 2), np.float32), (1, 1), "SAME"
    ),
    "pooling": lambda x: ops.reduce_window(
        x.reshape((-1, 1, 2, 2)),
        np.float32(-np.inf),
        xlapy.maximum,
        (1, 1, 2, 2),
        (1, 1, 1, 1),
        "VALID",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_artifact_for_any_size(name: str) -> None:
    function = PROGRAMS[name]
    artifact = xlapy.export(function, ANY)
    loaded = xlapy.from_stablehlo(artifact.serialize())
    rng = np.random.default_rng(0)
    for count in (1, 2, 5):
        x = rng.standard_normal((count, 4)).astype(np.float32)
        expected = np.asarray(xlapy.compile(function)(xlapy.asarray(x)))
        for backend in BACKENDS:
            found = np.asarray(loaded(x, backend=backend))
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5, strict=True)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda x: x.sum(axis=0) / x.shape[0], "a size must be known"),
        (lambda x: x * (x.shape[0] - 1), "a size must be known"),
        (lambda x: sum(x[i] for i in range(x.shape[0])), "a size must be known"),
        (lambda x: next(iter(x)), "a size must be known"),
        (lambda x: x * len(x), "a size must be known"),
        (lambda x: xlapy.unstack(x)[0], "a size must be known"),
        (lambda x: x + np.zeros(x.shape, np.float32), "a size must be known"),
        (lambda x: x[: x.shape[0]], "must be of integers, and go forward"),
        (lambda x: x.reshape((x.shape[0], 2)), "must have the elements of"),
        (lambda x: x.reshape((x.shape[0], 3, -1)), "must have the elements of"),
        (lambda x: x.reshape((-1, -1)), "must have the elements of"),
        (lambda x: xlapy.zeros(x.shape), "sizes must be known"),
        (lambda x: xlapy.cumsum(x, axis=0), "a size must be known"),
        (lambda x: xlapy.split(x, 2), "a size must be known"),
        (lambda x: xlapy.roll(x, 1, axis=0), "a size must be known"),
        (lambda x: x[::-1], "must be of integers, and go forward"),
        (lambda x: x[[0, 1]], "a size must be known"),
        (lambda x: x if x.shape[0] > 1 else -x, "a size must be known"),
        (lambda x: x + np.ones((3, 4), np.float32), "must broadcast together"),
    ],
)
def test_what_needs_the_size_is_refused(program: Callable[[Any], Any], message: str) -> None:
    """Nothing takes it for a number."""
    with pytest.raises(ShapeError, match=message):
        xlapy.export(program, ANY)


def test_unknown_sizes_look_like_what_they_are() -> None:
    shapes: list[str] = []
    xlapy.export(lambda x: shapes.append(f"{x.shape} {x.shape[0]} {x.size}") or x, ANY)
    assert shapes == ["(?, 4) ? ?"]


def test_what_is_outside_when_it_runs_is_an_error() -> None:
    loaded = xlapy.from_stablehlo(xlapy.export(lambda x: x[3], ANY).serialize())
    for backend in BACKENDS:
        with pytest.raises(ConstraintError, match=r"within \(2, 4\); got \(\(3, 0\), \(4, 4\)"):
            loaded(np.ones((2, 4), np.float32), backend=backend)


#: which need the size along the axis that varies, or differ where the bound is not reached
NOT_BOUNDED = {
    "reshape by its size": "the size is a bound",
    "by its shape": "the shape is of bounds",
    "there and back": "what varies is split",
    "reshape": "what varies is split",
    "attention": "what varies is split",
    "convolution": "what varies is split",
    "pooling": "what varies is split",
    "picked": "XLA gathers other elements of arrays that vary",
    "take": "XLA gathers other elements of arrays that vary",
    "take_along_axis": "XLA gathers other elements of arrays that vary",
}


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in NOT_BOUNDED])
def test_arrays_with_a_bound(name: str) -> None:
    function = PROGRAMS[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 4)).astype(np.float32)

    def whole(x: Any, count: Any) -> Any:
        return function(ops.set_dimension_size(x, count, 0))

    def total(x: Any, count: Any) -> Any:
        return whole(x, count).astype("f64").sum()

    for count in (2, 5, 6):
        expected = np.asarray(xlapy.compile(function)(xlapy.asarray(x[:count])))
        size = xlapy.asarray(count)
        with xlapy.use_backend("interpreter"):
            found = np.asarray(xlapy.compile(whole)(np.copy(x), np.int32(count)))
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5, strict=True)
        # XLA's programs give no arrays of varying size.
        found = np.asarray(xlapy.compile(total)(xlapy.asarray(x), size))
        np.testing.assert_allclose(found, expected.astype(np.float64).sum(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: xlapy.cumsum(x, axis=0),
        lambda x: xlapy.roll(x, 1, axis=0),
        lambda x: xlapy.roll(x, xlapy.asarray(1), axis=0),
        lambda x: xlapy.split(x, 2)[0],
        lambda x: xlapy.unstack(x)[0],
        lambda x: xlapy.diff(x, axis=0),
        lambda x: x[[0, -1]],
        lambda x: x[xlapy.asarray([0, -1])],
        lambda x: xlapy.take_along_axis(x, xlapy.argsort(x, axis=0), axis=0),
        lambda x: x[:, [0, 2]],
        lambda x: xlapy.take_along_axis(x, xlapy.argmax(x, axis=1)[:, None], axis=1),
        lambda x: xlapy.pad(x, 1, mode="edge"),
        lambda x: x.at[-1].set(0.0),
        lambda x: x.at[1:].add(1.0),
    ],
)
def test_nothing_is_counted_from_a_bound(program: Callable[[Any], Any]) -> None:
    def run(x: Any, count: Any) -> Any:
        return program(ops.set_dimension_size(x, count, 0)).sum()

    for backend in BACKENDS:
        with (
            xlapy.use_backend(backend),
            pytest.raises(ShapeError, match="along an axis of known size|sizes must not vary"),
        ):
            xlapy.compile(run)(xlapy.ones((6, 4)), 3)


def test_a_program_for_sizes_up_to_a_bound() -> None:
    """Outside a trace it takes arrays that are not larger; within one they are brought to the bound."""
    exported = xlapy.export(lambda x: normalized(x, 0).sum(axis=1), "f32[<=8,4]")
    loaded = xlapy.from_stablehlo(exported.serialize())
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    for count in (1, 5, 8):
        given = xlapy.asarray(x[:count])
        expected = np.asarray(normalized(given, 0).sum(axis=1))
        found = np.asarray(loaded(x[:count], backend="interpreter"))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        for backend in BACKENDS:
            with xlapy.use_backend(backend):
                given = xlapy.asarray(x[:count])
                ours = xlapy.grad(lambda v: (loaded(v) ** 2).sum())(given)
                plain = xlapy.grad(lambda v: (normalized(v, 0).sum(axis=1) ** 2).sum())(given)
                np.testing.assert_allclose(
                    np.asarray(ours), np.asarray(plain), rtol=2e-3, atol=2e-4
                )
    for call in (loaded, xlapy.compile(lambda v: loaded(v).sum())):
        with pytest.raises(DTypeError, match=r"argument 0 must be f32\[<=8,4\]; got f32\[9,4\]"):
            call(np.ones((9, 4), np.float32))
