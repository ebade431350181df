"""Reductions, windows, sorts, scans and batch normalisation through their public functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy
from xlapy import grad, ops, vjp, vmap
from xlapy.errors import ConstraintError, DTypeError, NotDifferentiableError, UnsupportedOpError
from xlapy.trace.builder import as_computation
from xlapy.trace.computation import Computation, subcomputations

BACKENDS = ("interpreter", "pjrt:cpu")


@pytest.fixture(params=BACKENDS)
def backend(request: Any) -> Any:
    """Each backend in turn."""
    with xlapy.use_backend(request.param):
        yield request.param


def total(x: Any) -> Any:
    """The sum of everything."""
    return ops.reduce_sum(x)


def operations(function: Callable[..., Any], *args: Any) -> list[str]:
    """What a function records, inside of computations too."""

    def names(computation: Computation) -> list[str]:
        found = []
        for i in computation.instructions:
            found.append(i.op.name)
            for inner in subcomputations(i.params):
                found += names(inner)
        return found

    return names(xlapy.compile(function).trace(*args))


# --- reduce ---------------------------------------------------------------------------------------


def test_ties_share(backend: str) -> None:
    """The derivative of a maximum or minimum is shared equally; nans have it where they are the result."""
    x = np.array([[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 0.0], [1.0, np.nan, 2.0, np.nan]])
    found = grad(lambda x: total(ops.reduce_max(x, 1)))(x).numpy()
    third = 1 / 3
    wanted = [[0, 0.5, 0.5, 0], [third, third, third, 0], [0, 0.5, 0, 0.5]]
    np.testing.assert_allclose(found, wanted)
    found = grad(lambda x: total(ops.reduce_min(x, 1)))(-x).numpy()
    np.testing.assert_allclose(found, wanted)


def test_a_better_init_has_it_all(backend: str) -> None:
    """Where the init value is the result, no element has a part in it."""
    found = grad(lambda x: ops.reduce(x, 4.0, ops.max, [0]))(np.array([1.0, 2.0])).numpy()
    assert (found == 0).all()


def test_product_with_zeros(backend: str) -> None:
    """No quotient: zeros among the factors are right."""
    found = grad(lambda x: ops.reduce_prod(x))(np.array([2.0, 0.0, 3.0])).numpy()
    np.testing.assert_allclose(found, [0, 6, 0])
    found = grad(lambda x: ops.reduce_prod(x))(np.array([0.0, 0.0, 3.0])).numpy()
    assert (found == 0).all()


def test_init_values_have_no_derivative() -> None:
    """They are refused, not dropped."""
    x = np.array([1.0, 2.0])
    with pytest.raises(NotDifferentiableError, match="init_values must be constants"):
        grad(lambda i: ops.reduce(x, i, ops.add))(np.float64(0))
    with pytest.raises(NotDifferentiableError, match="init_values must be constants"):
        xlapy.jvp(lambda i: ops.reduce(x, i, ops.add), (np.float64(0),), (np.float64(1),))
    with pytest.raises(NotDifferentiableError, match="must be associative; got sub"):
        grad(lambda x: ops.reduce(x, 0.0, ops.sub))(x)


def test_positions(backend: str) -> None:
    """The first nan, else the lowest position of ties."""
    x = np.array([[1.0, 5, 5], [np.nan, 9, 1], [1, np.nan, np.nan], [-np.inf] * 3, [np.inf, 0, 0]])
    assert ops.argmax(x).numpy().tolist() == np.argmax(x, 1).tolist()
    assert ops.argmin(x).numpy().tolist() == np.argmin(x, 1).tolist()
    assert ops.argmax(x, "u8", 0).numpy().dtype == np.uint8
    assert ops.argmax(np.array([False, True, True])).numpy() == 1
    assert ops.argmin(np.array([-5, -128, -128], np.int8)).numpy() == 1
    with pytest.raises(DTypeError, match="must hold 299"):
        ops.argmax(np.zeros(300), "u8")
    with pytest.raises(ConstraintError, match="must not be empty"):
        ops.argmax(np.zeros((3, 0)))


def test_narrow_floats_accumulate_in_f32(backend: str) -> None:
    """A running sum in the element type would stop growing."""
    for dtype, wanted in ((ml_dtypes.bfloat16, 4096.0), (np.float16, 4096.0)):
        assert float(ops.reduce_sum(np.ones(4096, dtype)).numpy()) == wanted
        window = ops.reduce_window(np.ones(4096, dtype), 0.0, ops.add, 4096)
        assert float(window.numpy()[0]) == wanted


def test_wider_body(backend: str) -> None:
    """A computation may take wider types than the operands', as StableHLO has it."""
    scalar = ops.constant(np.float64(0)).spec
    wide = as_computation(ops.add, [scalar, scalar])
    x = np.array([1.0, 2.0], np.float32)
    found = ops.reduce(x, np.float32(0), wide)
    assert (found.dtype.name, float(found.numpy())) == ("f64", 3.0)
    assert ops.reduce_window(x, np.float32(0), wide, 2).dtype.name == "f64"
    with pytest.raises(DTypeError, match=r"or wider ones.*\[C6\]"):
        ops.reduce(np.array([1, 2]), 0, wide)


def test_several_or_one(backend: str) -> None:
    """A sequence of arrays gives a tuple, also of one; a list of numbers is an array."""
    x = np.array([1.0, 2.0])
    assert isinstance(ops.reduce([x], [0.0], ops.add), tuple)
    assert float(ops.reduce([1.0, 2.0], 0.0, ops.add).numpy()) == 3.0
    with pytest.raises(ConstraintError, match="as many init_values"):
        ops.reduce([x, x], [0.0], ops.add)


# --- windows --------------------------------------------------------------------------------------


def test_pooling_uses_select_and_scatter() -> None:
    """As long as the window has no holes; and the gradient of sums is a sum of windows."""

    def pooled(x: Any, computation: Any = ops.max, init: float = -np.inf) -> Any:
        return total(ops.reduce_window(x, init, computation, (2, 2), (2, 2)))

    x = np.ones((4, 4))
    assert "select_and_scatter" in operations(grad(pooled), x)
    found = operations(grad(lambda x: pooled(x, ops.add, 0.0)), x)
    assert found.count("reduce_window") == 2  # forward and back
    assert "pad" not in found


def test_first_of_ties_is_selected(backend: str) -> None:
    """In windows the first of equal elements has the derivative."""
    x = np.array([1.0, 1.0, 0.0, 2.0, 2.0, 2.0])
    found = grad(lambda x: total(ops.reduce_window(x, -np.inf, ops.max, 3, 3)))(x).numpy()
    assert found.tolist() == [1, 0, 0, 1, 0, 0]
    dilated = grad(
        lambda x: total(ops.reduce_window(x, -np.inf, ops.max, 2, 1, window_dilations=2))
    )(x).numpy()
    assert dilated.tolist() == [1, 0, 0, 2, 1, 0]


def test_same_padding(backend: str) -> None:
    """The document's example, and padding in words."""
    x = np.array([10000, 1000, 100, 10, 1], np.int32)
    most = np.int32(2**31 - 1)
    assert ops.reduce_window(x, most, ops.min, 3, 2, "kValid").numpy().tolist() == [100, 1]
    assert ops.reduce_window(x, most, ops.min, 3, 2, "same").numpy().tolist() == [1000, 10, 1]
    with pytest.raises(ConstraintError, match="'kSame', 'kValid' or pairs"):
        ops.reduce_window(x, most, ops.min, 3, 2, "full")


def test_padding_takes_no_part(backend: str) -> None:
    """Init enters once: 100, not the 300 of StableHLO's formula."""
    found = ops.reduce_window(np.zeros(1), 100.0, ops.add, 3, 1, [(1, 1)])
    assert found.numpy().tolist() == [100.0]


def test_init_values_of_rows(backend: str) -> None:
    """Vectorised over init values, each enters once too."""
    x, inits = np.arange(6.0).reshape(2, 3), np.array([10.0, 20.0])
    body = lambda a, b: ops.add(a, ops.mul(b, 1.0))  # noqa: E731
    found = vmap(lambda i: ops.reduce(x, i, body, [1]))(inits).numpy()
    np.testing.assert_allclose(found, x.sum(1) + inits[:, None])
    found = vmap(lambda x, i: ops.reduce_window(x, i, body, 2, 1, [(1, 0)]))(x, inits).numpy()
    np.testing.assert_allclose(found, [[10, 11, 13], [23, 27, 29]])


# --- what XLA dies of -----------------------------------------------------------------------------


def looped(a: Any, b: Any) -> Any:
    """The sum, by a loop."""
    step = lambda i, x: (ops.add(i, 1), ops.add(x, ops.mul(b, 0.5)))  # noqa: E731
    return ops.while_(lambda i, x: ops.lt(i, 2), step, (0, a))[1]


def test_loops_within_computations(backend: str) -> None:
    """XLA aborts the process on them: they are composed of what it takes."""
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(ops.reduce(x, 0.0, looped, [1]).numpy(), x.sum(1))
    np.testing.assert_allclose(ops.reduce_window(x, 0.0, looped, (1, 4)).numpy()[:, 0], x.sum(1))
    np.testing.assert_allclose(ops.map((x, x), looped).numpy(), 2 * x)
    select = lambda a, b: ops.ge(looped(a, ops.mul(a, 0.0)), b)  # noqa: E731
    source = np.ones((3, 1))
    found = ops.select_and_scatter(x, select, (1, 4), None, "kValid", source, 0.0, ops.add)
    assert found.numpy().tolist() == [[0, 0, 0, 1]] * 3


def test_what_cannot_be_composed_is_refused() -> None:
    """Before XLA sees it."""
    x = np.array([3.0, 1.0, 2.0])
    less = lambda a, b: ops.lt(looped(a, ops.mul(a, 0.0)), b)  # noqa: E731
    with xlapy.use_backend("interpreter"):
        assert ops.sort(x, 0, less).numpy().tolist() == [1, 2, 3]
    with (
        xlapy.use_backend("pjrt:cpu"),
        pytest.raises(UnsupportedOpError, match="plain arithmetic on scalars; got while"),
    ):
        ops.sort(x, 0, less)


# --- the rest -------------------------------------------------------------------------------------


def test_training_uses_batch_norm_grad() -> None:
    """In both modes."""
    x, v = np.ones((4, 3)), np.ones(3)

    def loss(x: Any, scale: Any, offset: Any) -> Any:
        return total(ops.batch_norm_training(x, scale, offset, 0.1, 1)[0])

    assert "batch_norm_grad" in operations(grad(loss, argnums=(0, 1, 2)), x, v, v)
    tangent = operations(lambda x: xlapy.jvp(lambda x: loss(x, v, v), (x,), (x,)), x)
    assert "batch_norm_grad" in tangent


def test_scan_uses_outer_values(backend: str) -> None:
    """They are carried along, have derivatives, and are not kept for each step."""
    x, w = np.array([0.1, 0.2, 0.3]), np.float64(0.7)

    def f(x: Any, w: Any) -> Any:
        def step(x: Any, c: Any) -> Any:
            c = ops.sin(ops.add(ops.mul(c, w), x))
            return c, c

        return ops.scan(x, 0.5, step)[1]

    value, slope = 0.5, 0.0
    for a in x:
        inner = value * w + a
        value, slope = np.sin(inner), np.cos(inner) * (value + w * slope)
    np.testing.assert_allclose(f(x, w).numpy(), value)
    np.testing.assert_allclose(grad(f, argnums=1)(x, w).numpy(), slope)
    traced = xlapy.compile(grad(f, argnums=1)).trace(x, w)
    forward = next(i for i in traced.instructions if i.op.name == "scan")
    assert sum(v.spec.shape == (3,) for v in forward.results) == 2  # outputs, and one carried value


def test_static_operands_of_map_are_refused() -> None:
    """XLA refuses them too."""
    with pytest.raises(UnsupportedOpError, match="static_operands must be empty"):
        ops.map([1.0], ops.sin, static_operands=[1.0])


def test_smallest(backend: str) -> None:
    """The smallest elements in ascending order, and their derivative."""
    x = np.array([[3.0, 1.0, 2.0, 1.0]])
    values, places = ops.top_k(x, 3, largest=False)
    assert (values.numpy().tolist(), places.numpy().tolist()) == ([[1, 1, 2]], [[1, 3, 2]])
    _, back = vjp(lambda x: ops.top_k(x, 3, False)[0], x)
    found = back(np.array([[10.0, 20.0, 30.0]]))
    found = found[0] if isinstance(found, tuple) else found
    assert found.numpy().tolist() == [[0, 10, 30, 20]]


@pytest.mark.parametrize("backend", ["interpreter", "pjrt:cpu"])
def test_sums_of_powers_of_two(backend: str) -> None:
    """Their type has no zero to begin with; a derivative sums what was repeated."""
    x = np.array([1, 2, 4, 1], ml_dtypes.float8_e8m0fnu)
    with xlapy.use_backend(backend):
        assert float(ops.reduce_sum(x).numpy()) == 8
        repeated = xlapy.vjp(lambda y: ops.broadcast(y, (4,)), x[0])[1](x)
        assert float(repeated[0].numpy()) == 8
