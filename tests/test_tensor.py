"""The tensor itself: attributes, protocols, printing."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.errors import BackendError, ConstraintError, DTypeError, ShapeError, TracingError


def test_attributes() -> None:
    x = xlapy.asarray(np.zeros((2, 3), np.float32))
    assert (x.shape, x.ndim, x.size, x.nbytes, x.itemsize, len(x)) == ((2, 3), 2, 6, 24, 4, 2)
    assert x.dtype is xlapy.float32
    assert x.T.shape == x.mT.shape == (3, 2)
    assert x.real.shape == x.imag.shape == (2, 3)
    assert xlapy.asarray([1, 2], "s4").nbytes == 1
    assert x.device in xlapy.devices()
    assert hash(x.spec) is not None
    with pytest.raises(TypeError):
        hash(x)


def test_python_numbers() -> None:
    x = xlapy.asarray(3)
    assert (int(x), float(x), complex(x), bool(x), operator.index(x), x.item()) == (
        3,
        3.0,
        3 + 0j,
        True,
        3,
        3,
    )
    assert [10, 20, 30, 40][x] == 40
    assert list(range(5))[: xlapy.asarray(2)] == [0, 1]
    assert f"{xlapy.asarray(0.5):.2f}" == "0.50"
    assert round(xlapy.asarray(2.567), 1).item() == pytest.approx(2.6)
    with pytest.raises(ShapeError):
        bool(xlapy.zeros(2))
    with pytest.raises(ShapeError):
        xlapy.zeros(2).item()
    with pytest.raises(DTypeError):
        operator.index(xlapy.asarray(1.0))
    with pytest.raises(DTypeError):
        float(xlapy.asarray(1j))
    with pytest.raises(DTypeError):
        len(x)


def test_operators_and_reflected_ones() -> None:
    x = xlapy.asarray([5, 3])
    n = np.array([5, 3], np.int32)
    for f in (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
        operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift, operator.lt, operator.le,
        operator.gt, operator.ge, operator.eq, operator.ne,
    ):  # fmt: skip
        for other in (2, n[::-1].copy(), [2, 1], np.int32(2)):
            theirs = np.asarray(other) if isinstance(other, list) else other
            np.testing.assert_allclose(np.asarray(f(x, other)), f(n, theirs))
            np.testing.assert_allclose(np.asarray(f(other, x)), f(theirs, n))
        assert isinstance(f(n, x), xlapy.Tensor)
    assert [t.tolist() for t in divmod(x, 2)] == [[2, 1], [1, 1]]
    assert [t.tolist() for t in divmod(7, x)] == [[1, 2], [2, 1]]
    assert ([1, 2] @ x).item() == 11
    assert (+x).tolist() == [5, 3]
    assert (~x).tolist() == [-6, -4]


def test_in_place_forms() -> None:
    x = xlapy.asarray([1.0, 2.0])
    same = x
    x += 1
    x *= 2
    x -= [1, 1]
    x /= 2
    x **= 2
    x @= xlapy.asarray([1.0, 1.0])
    assert same.tolist() == [1, 2]
    assert x.item() == pytest.approx(1.5**2 + 2.5**2)


def test_other_classes_may_answer() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "radd"

        def __rmatmul__(self, left: Any) -> str:
            return "rmatmul"

        def __eq__(self, right: object) -> Any:
            return "eq"

        __hash__ = None  # type: ignore[assignment]

    x = xlapy.ones(2)
    assert x + Other() == "radd"
    assert x @ Other() == "rmatmul"
    assert (x == Other()) == "eq"
    assert (x == "a") is False
    assert (x == None) is False  # noqa: E711
    for f in (operator.add, operator.lt, operator.matmul):
        with pytest.raises(TypeError, match="unsupported|not supported"):
            f(x, {})


def test_printing() -> None:
    assert repr(xlapy.asarray([1.5, 2.0])) == "Tensor([1.5, 2. ], f32[2])"
    assert repr(xlapy.zeros((0, 2))) == "Tensor([], f32[0,2])"
    assert "..." in repr(xlapy.zeros(5000))
    assert repr(xlapy.asarray([1, 2], "bf16")) == "Tensor([1., 2.], bf16[2])"
    assert str(xlapy.asarray([1, 2])) == "[1 2]"
    shown: list[str] = []
    xlapy.compile(lambda x: (shown.append(repr(x)), x)[1])(xlapy.ones(2))
    assert shown == ["Tensor(traced f32[2])"]
    x = xlapy.zeros(2) + 1
    x.delete()
    assert "deleted" in repr(x)
    with pytest.raises(BackendError):
        x.numpy()


def test_values_on_the_host() -> None:
    x = xlapy.asarray([[1.0, 2.0]])
    array = x.numpy()
    assert not array.flags.writeable
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.array(x, copy=True).flags.writeable
    assert np.sum(np.asarray(x)) == 3
    assert x.block_until_ready() is x


def test_traced_tensors_have_no_values() -> None:
    def branch(x: Any) -> Any:
        return x if x > 0 else -x

    for function in (
        branch,
        lambda x: float(x),
        lambda x: np.asarray(x),
        lambda x: x.item(),
        lambda x: x.tolist(),
    ):
        with pytest.raises(TracingError) as found:
            xlapy.compile(function)(1.0)
        text = str(found.value)
        assert "no value yet" in text
        assert "xlapy.where" in text
        assert text.count("test_tensor.py") == 1
    kept: list[Any] = []
    xlapy.compile(lambda x: (kept.append(x), x)[1])(1.0)
    for use in (
        lambda x: x + 1,
        xlapy.sin,
        lambda x: x[None],
        lambda x: xlapy.stack([x, x]),
        float,
    ):
        with pytest.raises(TracingError, match="has ended"):
            use(kept[0])


def test_operators_on_values_of_a_builder() -> None:
    b = xlapy.XlaBuilder("b")
    p = b.parameter(0, "f32[2,2]", "p")
    y = xlapy.where(p > 0, p @ p, 1 - p) * 2.0 + p[0] + xlapy.concatenate([p, p])[1:3]
    assert b.build(y).result_specs[0] is xlapy.TensorSpec((2, 2), "f32")


@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "std", "var", "any", "all"])
def test_functions_of_numpy_call_the_method(name: str) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = getattr(np, name)(xlapy.asarray(array), axis=1, keepdims=True)
    assert type(found) is xlapy.Tensor
    np.testing.assert_allclose(found.numpy(), getattr(np, name)(array, axis=1, keepdims=True))


def test_a_method_writes_to_nothing() -> None:
    with pytest.raises(ConstraintError, match="out must be None"):
        xlapy.ones(3).sum(out=np.zeros(()))
