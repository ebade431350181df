"""Derivatives of Python functions: the modes agree with each other, with mathematics and with differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy.errors import NotDifferentiableError, TracingError

X = np.array([0.5, -1.25, 2.0])
BACKENDS = ["pjrt:cpu", "interpreter"]


def polynomial(x: Any) -> Any:
    return xlapy.sum(x**3 + 2 * x * x)


# --- first derivatives ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_modes_agree(backend: str) -> None:
    with xlapy.use_backend(backend):
        expected = 3 * X**2 + 4 * X
        value, gradient = xlapy.value_and_grad(polynomial)(X)
        np.testing.assert_allclose(value.item(), (X**3 + 2 * X * X).sum(), rtol=1e-14)
        np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-14)
        out, pullback = xlapy.vjp(polynomial, X)
        for scale in (1.0, 2.0):
            (cotangent,) = pullback(np.float64(scale))
            np.testing.assert_allclose(cotangent.numpy(), scale * expected, rtol=1e-14)
        direction = np.array([1.0, 2.0, -1.0])
        again, tangent = xlapy.jvp(polynomial, (X,), (direction,))
        assert out.item() == again.item()
        np.testing.assert_allclose(tangent.item(), expected @ direction, rtol=1e-14)
        for jacobian in (xlapy.jacfwd, xlapy.jacrev):
            np.testing.assert_allclose(jacobian(polynomial)(X).numpy(), expected, rtol=1e-14)
        step = 1e-6 * direction
        difference = (polynomial(X + step) - polynomial(X - step)).item() / 2e-6
        np.testing.assert_allclose(tangent.item(), difference, rtol=1e-7)


def test_argnums_and_containers() -> None:
    def f(p: Any, x: Any, k: float = 1.0) -> Any:
        return xlapy.sum(p["w"] * x + p["b"][0]) * k

    p = {"w": X, "b": [np.float64(1.0)]}
    gradient = xlapy.grad(f)(p, X)
    np.testing.assert_array_equal(gradient["w"].numpy(), X)
    assert gradient["b"][0].item() == 3
    both = xlapy.grad(f, argnums=(1, 0))(p, X)
    np.testing.assert_array_equal(both[0].numpy(), X)
    assert set(both[1]) == {"w", "b"}
    assert xlapy.grad(f, argnums=(1,))(p, X, 2.0)[0].tolist() == (2 * X).tolist()
    assert xlapy.grad(f, argnums=-1)(p, X).tolist() == X.tolist()
    assert xlapy.grad(f)(p, X, k=3.0)["b"][0].item() == 9
    assert xlapy.grad(f, argnums=())(p, X) == ()


def test_something_beside_the_value() -> None:
    def f(x: Any) -> Any:
        return xlapy.sum(x * x), {"twice": x * 2, "none": None, "n": 3}

    (value, aux), gradient = xlapy.value_and_grad(f, has_aux=True)(X)
    assert value.item() == (X * X).sum()
    assert aux["twice"].tolist() == (2 * X).tolist()
    assert (aux["none"], aux["n"].item()) == (None, 3)
    gradient_again, _ = xlapy.grad(f, has_aux=True)(X)
    assert gradient.tolist() == gradient_again.tolist() == (2 * X).tolist()
    _, pullback, aux = xlapy.vjp(f, X, has_aux=True)
    assert pullback(np.float64(1.0))[0].tolist() == (2 * X).tolist()
    assert aux["twice"].tolist() == (2 * X).tolist()
    _, tangent, aux = xlapy.jvp(f, (X,), (X,), has_aux=True)
    np.testing.assert_allclose(tangent.item(), 2 * (X * X).sum(), rtol=1e-15)
    assert aux["n"].item() == 3


def test_jacobians_of_containers() -> None:
    def f(x: Any, y: Any) -> Any:
        return {"a": x[:2] * y, "b": xlapy.sum(y)}

    y = np.array([2.0, 5.0])
    for jacobian in (xlapy.jacfwd, xlapy.jacrev):
        found = jacobian(f, argnums=(0, 1))(X, y)
        np.testing.assert_array_equal(found["a"][0].numpy(), np.eye(2, 3) * y[:, None])
        np.testing.assert_array_equal(found["a"][1].numpy(), np.diag(X[:2]))
        np.testing.assert_array_equal(found["b"][0].numpy(), np.zeros(3))
        np.testing.assert_array_equal(found["b"][1].numpy(), np.ones(2))


# --- higher orders --------------------------------------------------------------------------------------------------


def test_third_order_in_every_order_of_modes() -> None:
    def f(x: Any) -> Any:
        return xlapy.exp(x) * x**4

    def forward(g: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: xlapy.jvp(g, (x,), (1.0,))[1]

    x = np.float64(0.7)
    expected = np.exp(x) * (x**4 + 12 * x**3 + 36 * x**2 + 24 * x)
    for first in (xlapy.grad, forward):
        for second in (xlapy.grad, forward):
            for third in (xlapy.grad, forward):
                found = third(second(first(f)))(x)
                np.testing.assert_allclose(found.item(), expected, rtol=1e-12)
                compiled = xlapy.compile(third(second(first(f))))(x)
                np.testing.assert_allclose(compiled.item(), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_jacobians_between_real_and_complex_numbers(dtype: type) -> None:
    def waves(p: Any) -> Any:
        turned = xlapy.astype(p["x"], xlapy.asarray(p["z"]).dtype) * 1j
        return xlapy.exp(turned), xlapy.real(p["z"]) * xlapy.imag(p["z"]), p["z"] * p["z"]

    x, z = np.array([0.5, 2.0], np.empty(0, dtype).real.dtype), np.array([1 + 2j, 3 - 1j], dtype)
    eye, nothing = np.eye(2), np.zeros((2, 2))
    expected = [
        {"x": eye * 1j * np.exp(1j * x), "z": nothing},
        # Of the real part less i times that of the imaginary part, as in `grad`.
        {"x": nothing, "z": eye * (z.imag - 1j * z.real)},
        {"x": nothing, "z": eye * 2 * z},
    ]
    for jacobian in (xlapy.jacfwd, xlapy.jacrev):
        found = jacobian(waves)({"x": x, "z": z})
        for f, e in zip(found, expected, strict=True):
            for name in "xz":
                np.testing.assert_allclose(f[name].numpy(), e[name], rtol=1e-6, atol=1e-6)
        assert found[0]["x"].dtype == found[1]["z"].dtype == xlapy.asarray(z).dtype
        assert found[1]["x"].dtype == xlapy.asarray(x).dtype


def test_hessians_of_complex_numbers_are_refused() -> None:
    with pytest.raises(
        NotDifferentiableError, match=r"^hessian: .* must be real; got c64\[2\] \[X4\]"
    ):
        xlapy.hessian(lambda z: xlapy.sum(xlapy.abs(z)))(np.ones(2, np.complex64))


def test_hessians() -> None:
    found = xlapy.hessian(lambda x: xlapy.prod(x))(X).numpy()
    expected = np.array([[0, 2, -1.25], [2, 0, 0.5], [-1.25, 0.5, 0]])
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    nested = xlapy.hessian(lambda p: p["a"] * p["b"] ** 2)({"a": 2.0, "b": 3.0})
    assert [nested[i][j].item() for i in "ab" for j in "ab"] == [0, 6, 6, 4]
    product = xlapy.grad(lambda x: xlapy.sum(xlapy.grad(polynomial)(x) * X))(X)
    np.testing.assert_allclose(product.numpy(), (6 * X + 4) * X, rtol=1e-14)


def test_inner_derivatives_do_not_see_the_outer_ones() -> None:
    found = xlapy.grad(lambda x: x * xlapy.grad(lambda y: x + y)(2.0))(3.0)
    assert found.item() == 1
    found = xlapy.grad(lambda x: xlapy.grad(lambda y: x * x * y)(x) * 1.0)(3.0)
    assert found.item() == 6


# --- what has no derivative -----------------------------------------------------------------------------------------


def test_stop_gradient() -> None:
    assert xlapy.grad(lambda x: x * xlapy.stop_gradient(x * x))(3.0).item() == 9
    stopped = xlapy.stop_gradient({"a": X, "n": 1, "none": None})
    assert stopped["a"].tolist() == X.tolist()
    _, tangent = xlapy.jvp(lambda x: xlapy.stop_gradient(x) + x, (2.0,), (1.0,))
    assert tangent.item() == 1


def test_constants_have_no_slope() -> None:
    for f in (lambda x: 5.0, lambda x: xlapy.floor(x), lambda x: (x > 0).astype("f32")):
        assert xlapy.grad(f)(2.5).item() == 0
        assert xlapy.jvp(f, (2.5,), (1.0,))[1].item() == 0
    assert xlapy.grad(lambda x, y: y, argnums=0)(X, 1.0).tolist() == [0, 0, 0]


def test_integers_pass_beside_what_is_differentiated() -> None:
    def f(x: Any, i: Any) -> Any:
        return x[i] * x[0]

    assert xlapy.grad(f)(X, 2).tolist() == [2.0, 0, 0.5]
    with refused(NotDifferentiableError, "leave it out of argnums"):
        xlapy.grad(f, argnums=1)(X, 2)
    value, pullback = xlapy.vjp(lambda x: (x * 2, xlapy.argmax(x)), X)
    assert value[1].item() == 2
    assert pullback((X, 0))[0].tolist() == (2 * X).tolist()


def test_a_pullback_of_a_trace_ends_with_it() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        y, pullback = xlapy.vjp(xlapy.sin, x)
        kept.append(pullback)
        return pullback(y)[0]

    found = xlapy.compile(f)(X)
    np.testing.assert_allclose(found.numpy(), np.sin(X) * np.cos(X), rtol=1e-14)
    with refused(TracingError, "within the trace"):
        kept[0](X)


def test_complex_numbers() -> None:
    z = np.complex128(1.5 - 2j)
    # Cotangents pair without conjugation: the gradient of |z|^2 is 2 conj(z).
    gradient = xlapy.grad(lambda z: xlapy.real(z * xlapy.conj(z)))(z)
    np.testing.assert_allclose(gradient.item(), 2 * np.conj(z), rtol=1e-14)
    _, tangent = xlapy.jvp(lambda z: z * z, (z,), (np.complex128(1j),))
    np.testing.assert_allclose(tangent.item(), 2j * z, rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_whose_trips_are_counted_when_they_run(backend: str) -> None:
    with xlapy.use_backend(backend):

        def f(x: Any) -> Any:
            return xlapy.while_loop(lambda s: s < 100.0, lambda s: s * x, x)

        for compiled in (xlapy.grad(f), xlapy.compile(xlapy.grad(f))):
            assert compiled(2.0).item() == 7 * 2**6
            assert compiled(5.0).item() == 3 * 5**2
            assert compiled(200.0).item() == 1
        assert xlapy.grad(xlapy.grad(f))(2.0).item() == 42 * 2**5
        per_row = xlapy.vmap(xlapy.grad(f))(np.array([2.0, 5.0], np.float32))
        assert per_row.tolist() == [448, 75]


def test_a_changing_number_compiles_nothing_anew() -> None:
    from xlapy import staging

    def step(x: Any, rate: float) -> Any:
        return xlapy.grad(lambda x: xlapy.sum(x * x) * rate)(x)

    step(X, 0.5)
    count = len(staging._by_text)
    for rate in (0.25, 0.125):
        np.testing.assert_allclose(step(X, rate).numpy(), 2 * rate * X)
    assert len(staging._by_text) == count
