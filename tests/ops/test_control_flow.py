"""Calls, conditionals and loops through their public functions: derivatives, captured values, what is kept."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy
from xlapy import grad, jvp, ops, vmap
from xlapy.errors import ConstraintError, DTypeError, NotDifferentiableError, TracingError
from xlapy.ops import loop_checkpoints
from xlapy.ops.trip_count import known_operands, static_trip_count
from xlapy.trace.builder import as_computation
from xlapy.trace.computation import Computation, subcomputations
from xlapy.trace.stablehlo import to_stablehlo

BACKENDS = ("interpreter", "pjrt:cpu")


@pytest.fixture(params=BACKENDS)
def backend(request):
    """Each backend in turn."""
    with xlapy.use_backend(request.param):
        yield request.param


def number(x) -> float:
    """A scalar tensor's value."""
    return float(x.numpy())


def iterate(x, w, n):
    """y <- x sin(w y), n times."""
    return ops.while_(
        lambda i, y: ops.lt(i, n),
        lambda i, y: (ops.add(i, 1), ops.mul(ops.sin(ops.mul(y, w)), x)),
        (0, x),
    )[1]


def iterate_derivatives(x: float, w: float, n: int) -> tuple[float, float]:
    """The derivatives of `iterate`, forward."""
    y, dx, dw = x, 1.0, 0.0
    for _ in range(n):
        s, c = np.sin(y * w), np.cos(y * w)
        dx, dw = c * w * dx * x + s, c * (w * dw + y) * x
        y = s * x
    return dx, dw


# --- loops ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slots", [8, 64])
def test_run_time_rounds(backend, slots, monkeypatch):
    """The way back is right around each number of rounds at which kept states move."""
    monkeypatch.setattr(loop_checkpoints, "_slots", lambda specs: slots)
    derivative = xlapy.compile(grad(iterate, argnums=(0, 1)))
    for n in (0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 257, 513):
        found = [number(d) for d in derivative(np.float64(1.1), np.float64(1.3), np.int32(n))]
        np.testing.assert_allclose(
            found, iterate_derivatives(1.1, 1.3, n), rtol=1e-9, err_msg=str(n)
        )


@pytest.mark.parametrize("n", [0, 1, 5])
def test_known_rounds(backend, n):
    """A constant limit gives the derivative of the unrolled loop."""
    found = grad(lambda x, w: iterate(x, w, n), argnums=(0, 1))(np.float64(1.1), np.float64(1.3))
    np.testing.assert_allclose(
        [number(d) for d in found], iterate_derivatives(1.1, 1.3, n), rtol=1e-12
    )


def loops(computation: Computation) -> list:
    """The loops of a computation, and of those that it holds."""
    found = []
    for instruction in computation.instructions:
        if instruction.op.name == "while":
            found.append(instruction)
        for inner in subcomputations(instruction.params):
            found += loops(inner)
    return found


def scan(xs, w, length):
    """A recurrence over rows that writes rows."""
    size = xs.shape[1]

    def step(i, y, ys):
        x = ops.reshape(ops.dynamic_slice(xs, [i, 0], (1, size)), (size,))
        y = ops.tanh(ops.add(ops.mul(y, w), x))
        return ops.add(i, 1), y, ops.dynamic_update_slice(ys, ops.reshape(y, (1, size)), [i, 0])

    init = (0, w, ops.mul(xs, 0.0))
    return ops.while_(lambda i, y, ys: ops.lt(i, length), step, init)


def total(xs, w, length):
    """One number of both results of `scan`."""
    _, y, ys = scan(xs, w, length)
    rows = ops.slice(ys, (1, 0), (2, 1), (1, 1))
    return ops.add(
        ops.reshape(rows, ()), ops.reshape(ops.slice(ops.mul(y, y), (0,), (1,), (1,)), ())
    )


def test_rows(backend):
    """A loop over rows has the same derivative whether or not its length is known."""
    generator = np.random.default_rng(0)
    xs, w = generator.normal(size=(6, 3)), generator.normal(size=3)
    known = grad(lambda xs, w: total(xs, w, 6), argnums=(0, 1))(xs, w)
    found = grad(total, argnums=(0, 1))(xs, w, np.int32(6))
    for a, b in zip(known, found, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-14)
    for place in ((0, 0), (1, 0), (5, 0), (2, 1)):
        step = np.zeros_like(xs)
        step[place] = 1e-6
        high, low = number(total(xs + step, w, 6)), number(total(xs - step, w, 6))
        np.testing.assert_allclose(
            known[0].numpy()[place], (high - low) / 2e-6, rtol=1e-6, atol=1e-8
        )


def test_rows_are_not_copied():
    """The way back through rows hands the cotangent of what was written on untouched."""
    traced = xlapy.compile(grad(lambda xs, w: total(xs, w, 50), argnums=(0, 1))).trace(
        np.ones((50, 4)), np.ones(4)
    )
    _, back = loops(traced)
    written = [
        v
        for v, r in zip(back.params["body"].parameters, back.params["body"].results, strict=True)
        if v is r
    ]
    assert any(v.spec.shape == (50, 4) for v in written)
    updates = [i for i in back.params["body"].instructions if i.op.name == "dynamic_update_slice"]
    assert len(updates) == 1  # of the cotangent of xs alone


def test_what_is_only_written_is_not_kept():
    """Checkpoints hold what the way back reads."""
    traced = xlapy.compile(grad(total, argnums=1)).trace(np.ones((50, 4)), np.ones(4), np.int32(3))
    forward = loops(traced)[0]
    assert not any(v.spec.rank == 3 for v in forward.operands)


def test_nested_loops(backend):
    """The inner loop's length is known through the outer one."""

    def f(x):
        def outer(i, y):
            inner = ops.while_(
                lambda j, z: ops.lt(j, 3),
                lambda j, z: (ops.add(j, 1), ops.sin(ops.mul(z, x))),
                (0, y),
            )
            return ops.add(i, 1), inner[1]

        return ops.while_(lambda i, y: ops.lt(i, 2), outer, (0, x))[1]

    x = np.float64(0.9)
    first = number(grad(f)(x))
    np.testing.assert_allclose(first, (number(f(x + 1e-6)) - number(f(x - 1e-6))) / 2e-6, rtol=1e-8)
    second = number(grad(grad(f))(x))
    np.testing.assert_allclose(
        second, (number(grad(f)(x + 1e-6)) - number(grad(f)(x - 1e-6))) / 2e-6, rtol=1e-7
    )
    np.testing.assert_allclose(number(jvp(grad(f), (x,), (np.float64(1),))[1]), second, rtol=1e-12)


def test_random_numbers_are_not_drawn_again():
    """A loop that would run again must not hold what differs each time."""

    def f(x):
        def step(y):
            drawn = ops.python_callback(np.sin, [y], "f64[]", has_side_effect=True)
            return ops.add(ops.mul(y, 2.0), xlapy.stop_gradient(drawn))

        return ops.while_(lambda y: ops.lt(y, 10.0), step, x)

    with pytest.raises(NotDifferentiableError, match="must be repeatable.*got python_callback"):
        grad(f)(np.float64(1.0))


@pytest.mark.parametrize(
    ("first", "limit", "step", "direction"),
    [(0, 10, 1, "LT"), (0, 10, 3, "LT"), (0, 9, 3, "LE"), (10, 0, -1, "GT"), (10, 0, -4, "GE"), (0, 12, 4, "NE"),
     (5, 5, 1, "NE"), (9, 3, 1, "LT"), (0, 5000, 1, "LT"), (1, 100, 0, "EQ"), (3, 3, 1, "EQ")],
)  # fmt: skip
def test_trip_count(first, limit, step, direction):
    """Counters in every form agree with running them."""
    spec = ops.constant(np.int32(0)).spec
    cond = as_computation(lambda i: ops.compare(i, limit, direction), [spec])
    body = as_computation(lambda i: ops.add(i, step), [spec])
    i, rounds = first, 0
    holds = {
        "LT": int.__lt__,
        "LE": int.__le__,
        "GT": int.__gt__,
        "GE": int.__ge__,
        "NE": int.__ne__,
        "EQ": int.__eq__,
    }
    while holds[direction](i, limit):
        i, rounds = i + step, rounds + 1
    assert static_trip_count({0: np.int32(first)}, cond, body) == rounds


def test_trip_count_of_other_loops():
    """What is no plain counter is run, if it is small and known; a wrapping or endless one has no count."""
    spec = ops.constant(np.int32(0)).spec
    small = ops.constant(np.uint8(0)).spec
    double = as_computation(lambda i: ops.mul(i, 2), [spec])
    assert (
        static_trip_count(
            {0: np.int32(1)}, as_computation(lambda i: ops.lt(i, 100), [spec]), double
        )
        == 7
    )
    assert static_trip_count({}, as_computation(lambda i: ops.lt(i, 100), [spec]), double) is None
    ever = as_computation(lambda i: ops.ge(i, 0), [small])
    assert (
        static_trip_count({0: np.uint8(3)}, ever, as_computation(lambda i: ops.add(i, 1), [small]))
        is None
    )
    around = as_computation(lambda i: ops.ne(i, 2), [small])
    assert (
        static_trip_count(
            {0: np.uint8(250)}, around, as_computation(lambda i: ops.add(i, 1), [small])
        )
        == 8
    )
    assert known_operands([ops.constant(3)]) == {}


def test_rows_of_different_rounds(backend):
    """Rows that are done keep their state, in the loop and in its derivative."""
    n = np.array([3, 0, 5, 1], np.int32)
    x = np.array([0.5, 0.7, 1.1, 1.3])
    w = np.float64(1.2)
    found = vmap(iterate, in_axes=(0, None, 0))(x, w, n).numpy()
    np.testing.assert_allclose(
        found, [number(iterate(a, w, b)) for a, b in zip(x, n, strict=True)], rtol=1e-12
    )
    found = vmap(grad(iterate), in_axes=(0, None, 0))(x, w, n).numpy()
    wanted = [iterate_derivatives(a, 1.2, b)[0] for a, b in zip(x, n, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


# --- conditionals and calls -----------------------------------------------------------------------------------------


def test_conditional_forms(backend):
    """Both forms of the document, by position and by name."""
    two, three = ops.constant(2.0), ops.constant(3.0)
    for p, wanted in ((True, 20.0), (False, -3.0)):
        pred = ops.constant(p)
        assert (
            number(ops.conditional(pred, two, lambda x: ops.mul(x, 10.0), three, ops.neg)) == wanted
        )
        named = ops.conditional(
            predicate=pred, true_operand=two, true_computation=lambda x: ops.mul(x, 10.0), false_operand=three,
            false_computation=ops.neg,
        )  # fmt: skip
        assert number(named) == wanted
    branches = [lambda x: x, lambda x, y: ops.add(x, y), lambda: three]
    for i, wanted in ((0, 2.0), (1, 5.0), (2, 3.0), (3, 3.0), (-1, 3.0)):
        assert number(ops.conditional(ops.constant(i), branches, [two, (two, three), ()])) == wanted


def test_only_one_branch_runs(backend):
    """A branch that is not chosen has no effect."""
    seen = []

    def noted(x):
        seen.append(float(x))
        return x

    def branch(x):
        return ops.python_callback(noted, [x], "f32[]", has_side_effect=True)

    out = ops.conditional(ops.constant(True), 1.0, branch, 2.0, lambda x: ops.add(branch(x), 0.0))
    assert number(out) == 1.0
    assert seen == [1.0]


def test_conditional_refuses():
    """Arguments that are of neither form, and indices of other types."""
    with pytest.raises(ConstraintError, match="the arguments must be predicate"):
        ops.conditional(ops.constant(True), 1.0)
    with pytest.raises(DTypeError, match=r"branch_index must be s32\[\]"):
        ops.conditional(ops.constant(1.0), [ops.neg], [1.0])
    with pytest.raises(DTypeError, match="must be a function or a Computation"):
        ops.conditional(ops.constant(1), [3], [1.0])
    with pytest.raises(TracingError, match="must return tensors"):
        ops.conditional(ops.constant(1), [lambda x: None], [1.0])


def test_called_twice_is_one_function():
    """Calls, their derivatives and their vectorised forms share functions."""
    layer = as_computation(
        lambda x: ops.sin(ops.mul(x, x)), [ops.constant(np.float64(0)).spec], name="layer"
    )

    def f(x):
        for _ in range(4):
            x = ops.call(layer, x)
        return x

    x = np.float64(0.4)
    text = to_stablehlo(xlapy.compile(grad(f)).trace(x))
    assert text.count("func.func private") == 2  # forward and back
    assert text.count("func.call") == 8
    value, slope = 0.4, 1.0
    for _ in range(4):
        slope *= 2 * value * np.cos(value * value)
        value = np.sin(value * value)
    np.testing.assert_allclose(number(grad(f)(x)), slope, rtol=1e-12)
    np.testing.assert_allclose(number(jvp(f, (x,), (np.float64(1),))[1]), slope, rtol=1e-12)
    rows = vmap(grad(f))(np.array([0.4, 0.4]))
    np.testing.assert_allclose(rows.numpy(), [slope, slope], rtol=1e-12)


def test_captured_values_become_operands(backend):
    """Functions may use outer tensors, traced or not, and their derivatives count."""
    w = ops.constant(np.float64(3.0))

    def f(x):
        y = ops.mul(x, x)
        called = ops.call(lambda a: ops.mul(ops.mul(a, y), w), x)
        chosen = ops.conditional(
            ops.constant(0), [lambda a: ops.mul(a, y), lambda a: a], [called, called]
        )
        return ops.while_(
            lambda i, a: ops.lt(i, 2), lambda i, a: (ops.add(i, 1), ops.mul(a, y)), (0, chosen)
        )[1]

    # 3 x^3 x^2 x^4
    np.testing.assert_allclose(number(f(np.float64(1.1))), 3 * 1.1**9, rtol=1e-12)
    np.testing.assert_allclose(number(grad(f)(np.float64(1.1))), 27 * 1.1**8, rtol=1e-12)
