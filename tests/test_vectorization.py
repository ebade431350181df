"""`vmap`: the same as a loop over the examples, whatever the axes and containers."""

from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.errors import ShapeError

M = np.arange(12, dtype=np.float32).reshape(3, 4)
BACKENDS = ["pjrt:cpu", "interpreter"]
AXES = [(0, 0), (1, 0), (-1, None), (None, 0), (0, None)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("in_axes", AXES, ids=repr)
@pytest.mark.parametrize("out", [0, 1, -1])
def test_axes(in_axes: tuple[int | None, int | None], out: int, backend: str) -> None:
    first, second = in_axes
    size = 4 if first in (1, -1) else 3
    x = M[0] if first is None else M
    y = (
        np.ones(2, np.float32)
        if second is None
        else np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    )

    def f(x: Any, y: Any) -> Any:
        return xlapy.sum(xlapy.sin(x)) * y + y

    rows = [
        f(x if first is None else np.take(x, i, first), y if second is None else y[i]).numpy()
        for i in range(size)
    ]
    with xlapy.use_backend(backend):
        for vectorized in (xlapy.vmap(f, in_axes, out), xlapy.compile(xlapy.vmap(f, in_axes, out))):
            np.testing.assert_allclose(vectorized(x, y).numpy(), np.stack(rows, out), rtol=2e-6)


def test_containers() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": p["w"][0] * x + p["b"], "w": p["w"][1]}

    p = {"w": [M, M + 1], "b": np.float32(2.0)}
    found = xlapy.vmap(f, in_axes=({"w": [0, None], "b": None}, 0), out_axes={"y": 1, "w": None})(
        p, M
    )
    np.testing.assert_array_equal(found["y"].numpy(), (M * M + 2).T)
    np.testing.assert_array_equal(found["w"].numpy(), M + 1)
    prefix = xlapy.vmap(lambda p, x: p["a"] + p["b"] * x, in_axes=(0, None))({"a": M, "b": M}, 2.0)
    np.testing.assert_array_equal(prefix.numpy(), 3 * M)
    assert xlapy.vmap(lambda x, n: x, in_axes=(0, None))(M, None).tolist() == M.tolist()


def test_nested() -> None:
    def dot(x: Any, y: Any) -> Any:
        return xlapy.sum(x * y)

    outer = xlapy.vmap(xlapy.vmap(dot, (None, 0)), (0, None))
    np.testing.assert_allclose(outer(M, M).numpy(), M @ M.T, rtol=1e-6)
    columns = xlapy.vmap(xlapy.vmap(dot, (1, None)), (None, 1), out_axes=1)
    np.testing.assert_allclose(columns(M, M).numpy(), M.T @ M, rtol=1e-6)
    thrice = xlapy.vmap(xlapy.vmap(xlapy.vmap(xlapy.square)))(M.reshape(3, 2, 2))
    np.testing.assert_array_equal(thrice.numpy(), (M * M).reshape(3, 2, 2))


def test_results_that_do_not_vary() -> None:
    found = xlapy.vmap(lambda x: (x, 1.0, xlapy.ones(2)), out_axes=(0, 0, 1))(M)
    assert [r.shape for r in found] == [(3, 4), (3,), (2, 3)]
    assert xlapy.vmap(lambda x: 5.0, out_axes=None)(M).shape == ()
    assert xlapy.vmap(lambda x: None)(M) is None


def test_python_numbers_that_are_the_same_for_all_stay_numbers() -> None:
    halves = np.ones((3, 2), np.float16)
    assert str(xlapy.vmap(lambda x, k: x * k, in_axes=(0, None))(halves, 2.0).dtype) == "f16"
    found = xlapy.vmap(lambda x, n: x.reshape(n, 2), in_axes=(0, None))(M, 2)
    assert found.shape == (3, 2, 2)


def test_no_examples() -> None:
    assert xlapy.vmap(lambda x: xlapy.sum(x))(np.ones((0, 3), np.float32)).shape == (0,)
    assert xlapy.vmap(lambda x: xlapy.sort(x))(np.ones((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_and_loops_by_example(backend: str) -> None:
    def f(x: Any) -> Any:
        return xlapy.cond(x > 5, lambda: x * 2, lambda: -x)

    def collatz(n: Any) -> Any:
        def step(s: Any) -> Any:
            return xlapy.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1

        return xlapy.while_loop(lambda s: s[0] != 1, step, (n, 0))[1]

    with xlapy.use_backend(backend):
        row = np.arange(4, 8, dtype=np.float32)
        assert xlapy.vmap(f)(row).tolist() == [-4, -5, 12, 14]
        assert xlapy.vmap(collatz)(np.array([1, 2, 3, 6, 7])).tolist() == [0, 1, 7, 8, 16]


def test_with_derivatives_in_both_orders() -> None:
    def loss(w: Any, x: Any) -> Any:
        return xlapy.sum(xlapy.tanh(w * x))

    w = np.linspace(-1, 1, 4, dtype=np.float32)
    per_example = xlapy.vmap(xlapy.grad(loss), (None, 0))(w, M)
    expected = np.stack([xlapy.grad(loss)(w, row).numpy() for row in M])
    np.testing.assert_allclose(per_example.numpy(), expected, rtol=1e-5, atol=1e-6)
    total = xlapy.grad(lambda w: xlapy.sum(xlapy.vmap(loss, (None, 0))(w, M)))(w)
    np.testing.assert_allclose(total.numpy(), expected.sum(0), rtol=1e-5, atol=1e-6)


def test_what_is_closed_over_is_the_same_for_all() -> None:
    w = xlapy.asarray(M[0])
    np.testing.assert_array_equal(xlapy.vmap(lambda x: x * w)(M).numpy(), M * M[0])
    compiled = xlapy.compile(lambda w: xlapy.vmap(lambda x: x * w)(M))
    np.testing.assert_array_equal(compiled(w).numpy(), M * M[0])


def test_axes_out_of_range_are_refused_by_name() -> None:
    with pytest.raises(
        ShapeError, match="twice: in_axes must be in the range of the 1 dim.*; got 3"
    ):
        xlapy.vmap(twice, in_axes=3)(np.ones(2))
    with pytest.raises(
        ShapeError, match="twice: out_axes must be in the range of the 1 dim.*; got 5"
    ):
        xlapy.vmap(twice, out_axes=5)(np.ones(2))


def twice(x: Any) -> Any:
    return x + x
