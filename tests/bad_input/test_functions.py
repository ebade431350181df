"""What is given to the transformations in the place of a function, an axis, a tangent or a bound."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy.errors import (
    ConstraintError,
    DTypeError,
    NotDifferentiableError,
    ShapeError,
    TracingError,
    UnsupportedOpError,
)

X = np.ones(3, np.float32)
M = np.ones((3, 4), np.float32)


def double(x: Any, n: int = 2) -> Any:
    return x * n


def generator(x: Any) -> Any:
    yield x


async def coroutine(x: Any) -> Any:
    return x


@pytest.mark.parametrize("other", [3, "f", None, X, property(double), classmethod(double)])
def test_what_is_no_function(other: Any) -> None:
    for take in (
        xlapy.compile,
        xlapy.grad,
        xlapy.value_and_grad,
        xlapy.vmap,
        xlapy.jacfwd,
        xlapy.jacrev,
        xlapy.hessian,
        lambda f: xlapy.vjp(f, 1.0),
        lambda f: xlapy.jvp(f, (1.0,), (1.0,)),
        lambda f: xlapy.cond(True, f, lambda: 1.0),
        lambda f: xlapy.while_loop(f, lambda c: c, 1.0),
        lambda f: xlapy.fori_loop(0, 3, f, 1.0),
        lambda f: xlapy.export(f, "f32[]"),
    ):
        if other is None and take is xlapy.compile:
            continue  # a decorator with arguments
        with refused():
            take(other)


@pytest.mark.parametrize(
    "returned",
    ["a", {1, 2}, object(), len, {"a": ["b"]}, np.array(["a"]), generator(1), map(abs, [1])],
    ids=lambda r: type(r).__name__,
)
def test_what_returns_no_arrays(returned: Any) -> None:
    for attempt in (
        lambda: xlapy.compile(lambda x: returned)(X),
        lambda: xlapy.grad(lambda x: returned)(1.0),
        lambda: xlapy.vmap(lambda x: returned)(X),
        lambda: xlapy.vjp(lambda x: returned, X),
        lambda: xlapy.jvp(lambda x: returned, (X,), (X,)),
        lambda: xlapy.export(lambda x: returned, "f32[]"),
        lambda: xlapy.cond(True, lambda: returned, lambda: returned),
        lambda: xlapy.fori_loop(0, 2, lambda i, c: returned, 1.0),
    ):
        with refused():
            attempt()


def test_generators_and_coroutines() -> None:
    async def steps(x: Any) -> Any:
        yield x

    for function in (generator, coroutine, steps):
        for transform in (xlapy.compile, xlapy.grad, xlapy.vmap, xlapy.jacrev, xlapy.export):
            with refused(DTypeError, "no generator or coroutine"):
                transform(function)
    with refused(DTypeError, "got generator"):
        xlapy.compile(lambda x: generator(x))(X)


# --- what may be compiled ----------------------------------------------------------------------------------------


class Holder:
    factor = 2.0

    def method(self, x: Any) -> Any:
        return x * self.factor

    @staticmethod
    def static(x: Any) -> Any:
        return x * 3

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor

    def __call__(self, x: Any) -> Any:
        return x * 5

    @xlapy.compile
    def compiled(self, x: Any) -> Any:
        return x * self.factor

    @xlapy.compile
    @staticmethod
    def compiled_static(x: Any) -> Any:
        return x * 7

    @staticmethod
    @xlapy.compile
    def static_compiled(x: Any) -> Any:
        return x * 7

    @classmethod
    @xlapy.compile
    def class_compiled(cls, x: Any) -> Any:
        return x * cls.factor


CALLABLES: dict[str, tuple[Callable[[Any], Any], float]] = {
    "a lambda": (xlapy.compile(lambda x: x * 2), 2),
    "a partial": (xlapy.compile(functools.partial(double, n=4)), 4),
    "a bound method": (xlapy.compile(Holder().method), 2),
    "a static method": (xlapy.compile(Holder.static), 3),
    "a class method": (xlapy.compile(Holder.of_class), 2),
    "an object": (xlapy.compile(Holder()), 5),
    "a builtin": (xlapy.compile(abs), 1),
    "a builtin without a signature": (xlapy.compile(lambda x: x), 1),
    "a numpy-like function": (xlapy.compile(xlapy.square), 1),
    "an operation": (xlapy.compile(xlapy.ops.abs), 1),
    "a compiled function": (xlapy.compile(xlapy.compile(double)), 2),
    "a derivative": (xlapy.compile(xlapy.grad(lambda x: xlapy.sum(x * x))), 2),
    "a compiled method": (Holder().compiled, 2),
    "a compiled static method": (Holder().compiled_static, 7),
    "a compiled static method of the class": (Holder.compiled_static, 7),
    "a static compiled method": (Holder().static_compiled, 7),
    "a compiled class method": (Holder().class_compiled, 2),
    "a compiled class method of the class": (Holder.class_compiled, 2),
    "the decorator with arguments": (xlapy.compile(backend="interpreter")(double), 2),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_callables(name: str) -> None:
    function, factor = CALLABLES[name]
    for _ in range(2):
        np.testing.assert_array_equal(np.asarray(function(X)), X * np.float32(factor))


def test_builtins_that_need_values_say_so() -> None:
    for builtin in (float, max, sorted):
        with refused(TracingError, "no value yet"):
            xlapy.compile(builtin)(X if builtin is not float else 1.0)


def test_the_stages_of_a_compiled_method_know_its_object() -> None:
    holder = Holder()
    lowered = holder.compiled.lower(X)
    np.testing.assert_array_equal(lowered.compile()(X).numpy(), 2 * X)
    assert len(holder.compiled.trace(X).parameters) == 1


# --- options ------------------------------------------------------------------------------------------------------


def test_options_of_compile() -> None:
    for given, kind in (
        ({"static_argnames": "q"}, ConstraintError),
        ({"static_argnames": 3}, DTypeError),
        ({"static_argnames": (1,)}, ConstraintError),
        ({"donate_argnames": "q"}, ConstraintError),
        ({"donate_argnames": 7.0}, DTypeError),
        ({"static_argnames": "n", "donate_argnames": "n"}, ConstraintError),
        ({"options": 3}, DTypeError),
        ({"options": {"a": [1]}}, DTypeError),
        ({"options": {1: 1}}, DTypeError),
        ({"in_shardings": 1}, UnsupportedOpError),
    ):
        with refused(kind, "compile: "):
            xlapy.compile(double, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [[1], {}, X, {1}, bytearray(b"a")], ids=repr)
def test_static_arguments_must_be_hashable(value: Any) -> None:
    with refused(TracingError, "hashable"):
        xlapy.compile(double, static_argnames="n")(X, value)


def test_calls_that_do_not_fit_the_signature() -> None:
    f = xlapy.compile(lambda x, n: x * n, static_argnames="n")
    for args, kwargs in (((X,), {}), ((X, 2, 3), {}), ((X, 2), {"n": 3}), ((X, 2), {"q": 3})):
        with refused(TracingError, "must fit the function's signature"):
            f(*args, **kwargs)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        xlapy.compile(lambda x, y: x)(X)


# --- axes of vmap -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "axes", [5, -3, "a", 0.5, True, {0}, None, (0, 0), (), ({"a": 0},), iter([0]), [[0]]]
)
def test_in_axes(axes: Any) -> None:
    with refused():
        xlapy.vmap(lambda x: x, in_axes=axes)(M)


@pytest.mark.parametrize("axes", [5, -4, "a", 0.5, {0}, None, (0, 0), {"a": 0}], ids=repr)
def test_out_axes(axes: Any) -> None:
    with refused():
        xlapy.vmap(lambda x: x, out_axes=axes)(M)


def test_mapped_axes_must_be_there_and_of_one_length() -> None:
    with refused(ShapeError, "one length"):
        xlapy.vmap(lambda x, y: x, in_axes=(0, 1))(M, M)
    with refused(ShapeError, "in the range"):
        xlapy.vmap(lambda x: x)(1.0)
    with refused(ShapeError, "at least one"):
        xlapy.vmap(lambda: 1.0)()
    with refused(ConstraintError, "keys"):
        xlapy.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": M})


# --- derivatives --------------------------------------------------------------------------------------------------


def test_what_grad_differentiates() -> None:
    for result, kind in (
        (lambda x: X * x, ShapeError),
        (lambda x: (x, x), ShapeError),
        (lambda x: [x], ShapeError),
        (lambda x: None, ShapeError),
        (lambda x: xlapy.asarray(x).astype("s32"), NotDifferentiableError),
        (lambda x: x * 1j, NotDifferentiableError),
        (lambda x: x > 0, NotDifferentiableError),
    ):
        with refused(kind):
            xlapy.grad(result)(1.0)
    for given in (1, True, np.int64(1), xlapy.asarray(1), {"a": 1.0, "b": 2}):
        with refused(NotDifferentiableError, "must be floating-point or complex"):
            xlapy.grad(lambda x: 1.0)(given)


@pytest.mark.parametrize("argnums", [1, -2, (0, 0), 0.0, "x", None, (0, 1)], ids=repr)
def test_argnums(argnums: Any) -> None:
    for transform in (xlapy.grad, xlapy.jacfwd, xlapy.jacrev, xlapy.hessian):
        with refused(match="argnums"):
            transform(lambda x: x, argnums=argnums)(1.0)


@pytest.mark.parametrize("output", [lambda x: x, lambda x: (x, x, x), lambda x: {"a": x}])
def test_has_aux(output: Callable[[Any], Any]) -> None:
    for attempt in (
        lambda: xlapy.grad(output, has_aux=True)(1.0),
        lambda: xlapy.vjp(output, 1.0, has_aux=True),
        lambda: xlapy.jvp(output, (1.0,), (1.0,), has_aux=True),
    ):
        with refused(DTypeError, "must return a pair"):
            attempt()


def test_tangents_and_cotangents() -> None:
    def jvp(primals: Any, tangents: Any) -> Any:
        return xlapy.jvp(lambda x: x, primals, tangents)

    for primals, tangents in (
        ((X,), (X, X)),
        ((X,), (np.ones(4, np.float32),)),
        ((X,), (1.0,)),
        ((X,), (np.ones(3),)),
        ((1.0,), (1,)),
        ((1.0,), (1j,)),
        (({"a": 1.0},), ([1.0],)),
        ((1.0,), (None,)),
        (1.0, 1.0),
        (X, X),
        ((1,), (1,)),
    ):
        with refused():
            jvp(primals, tangents)
    _, pullback = xlapy.vjp(lambda x: x, X)
    for cotangent in (np.ones(4, np.float32), (X, X), None, np.ones(3, np.int32), 1.0):
        with refused():
            pullback(cotangent)


# --- control flow -------------------------------------------------------------------------------------------------


def test_branches_must_be_alike() -> None:
    for yes, no in (
        (lambda x: x, lambda x: x[:2]),
        (lambda x: x, lambda x: x.astype("s32")),
        (lambda x: (x, x), lambda x: x),
        (lambda x: None, lambda x: x),
    ):
        with refused(DTypeError, "both functions"):
            xlapy.cond(True, yes, no, xlapy.asarray(X))
    for condition in (X > 0, 1.5, 1, float("nan")):
        with refused(DTypeError, "pred must be a truth value"):
            xlapy.cond(condition, lambda: 1.0, lambda: 2.0)


def test_the_state_of_a_loop_must_stay_alike() -> None:
    for body in (
        lambda c: xlapy.concatenate([c, c]),
        lambda c: c.astype("f64"),
        lambda c: (c, c),
        lambda c: None,
    ):
        with refused(DTypeError, "must keep the state's"):
            xlapy.while_loop(lambda c: xlapy.sum(c) < 10, body, X)
    for condition in (lambda c: c < 10, lambda c: 1.0, lambda c: None, lambda c: (True, True)):
        with refused(DTypeError, "truth value"):
            xlapy.while_loop(condition, lambda c: c, X)
    for bound in (2.5, X, 2**40, True, None):
        with refused(DTypeError):
            xlapy.fori_loop(0, bound, lambda i, c: c, X)


@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
def test_loops_of_no_trips(backend: str) -> None:
    with xlapy.use_backend(backend):
        assert xlapy.fori_loop(0, 0, lambda i, c: c + 1, 1.0).item() == 1
        assert xlapy.fori_loop(5, 0, lambda i, c: c + 1, 1.0).item() == 1
        assert xlapy.while_loop(lambda c: False, lambda c: c + 1, 1.0).item() == 1
        assert xlapy.fori_loop(0, 3, lambda i, c: c, ()) == ()
        assert xlapy.grad(lambda x: xlapy.fori_loop(0, 0, lambda i, c: c * x, x))(3.0).item() == 1
        assert xlapy.grad(lambda x: xlapy.while_loop(lambda c: c < 0, lambda c: c * x, x))(3.0) == 1
        trips = xlapy.fori_loop(2**31 - 3, 2**31 - 1, lambda i, c: c + 1, 0)
        assert trips.item() == 2


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int8])
def test_a_python_integer_takes_the_type_of_the_other_bound(dtype: Any) -> None:
    for bounds in ((1, dtype(4)), (dtype(1), 4), (1, xlapy.asarray(dtype(4)))):
        for way in (
            xlapy.fori_loop,
            xlapy.compile(lambda *args: xlapy.fori_loop(*args[:2], body, args[2])),
        ):
            if way is xlapy.fori_loop:
                found = way(*bounds, body, X)
            else:
                found = way(*bounds, X)
            np.testing.assert_array_equal(found.numpy(), X + 6)
    with refused(DTypeError, "must fit s8; got 300"):
        xlapy.fori_loop(np.int8(0), 300, body, X)


def body(i: Any, c: Any) -> Any:
    return c + i
