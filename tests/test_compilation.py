"""`compile`: what is recorded and compiled when, what calls give back, and how the state survives mishaps."""

import copy
import operator
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import ops
from xlapy.errors import DTypeError, TracingError
from xlapy.trace.mode import current_builder

X = np.arange(4, dtype=np.float32)
BACKENDS = ["pjrt:cpu", "interpreter"]


def operations(computation: Any) -> list[str]:
    return [i.op.name for i in computation.instructions]


# --- what is counted ----------------------------------------------------------------------------------------------


def test_one_program_for_one_signature() -> None:
    f = xlapy.compile(lambda x, y: x + y)
    assert (f.traces, f.compiles) == (0, 0)
    for scale in range(3):
        np.testing.assert_array_equal(f(X * scale, xlapy.asarray(X)).numpy(), X * (scale + 1))
    assert (f.traces, f.compiles) == (1, 1)
    f(X, X)
    assert f.traces == 1  # an array is what a tensor of its spec is
    f(X[:2], X[:2])
    f(X.astype(np.float64), X.astype(np.float64))
    assert (f.traces, f.compiles) == (3, 3)
    f(X, 1.0)
    f(X, 2.0)
    f(x=X, y=3.0)
    assert f.traces == 5  # a number, and by name


def test_each_backend_has_its_program() -> None:
    f = xlapy.compile(lambda x: x * 2)
    for backend in (*BACKENDS, *BACKENDS):
        with xlapy.use_backend(backend):
            assert f(X).backend.name == backend
            assert f(xlapy.asarray(X)).backend.name == backend
    assert f.compiles == 2


def test_clear_cache_forgets_programs_but_not_counts() -> None:
    f = xlapy.compile(lambda x: x + 1)
    f(X)
    f.clear_cache()
    f(X)
    assert (f.traces, f.compiles) == (2, 2)
    xlapy.clear_caches()
    f(X)
    assert f.traces == 3


def test_explain_names_what_changed() -> None:
    f = xlapy.compile(lambda x, n: x * n, static_argnames="n")
    assert "has not been recorded" in f.explain()
    f(X, 1)
    f(X, 2)
    f(X[:2], 2)
    first, second, third = f.explain().split("\n")
    assert "first call, with x: f32[4]" in first
    assert "n changed from static 1 to static 2" in second
    assert "x changed from f32[4] to f32[2]" in third


def test_explain_names_the_place_that_changed() -> None:
    f = xlapy.compile(lambda x: x * 2)
    for device in ("pjrt:cpu", "interpreter"):
        f(xlapy.asarray(X, device=device))
    xlapy.compile(lambda y: f(y))(X)
    f.lower(X)
    f.lower(X)
    assert f.explain().splitlines() == [
        "trace 1 of <lambda>: first call, with x: f32[4]",
        "trace 2 of <lambda>: where it runs changed from pjrt:cpu to interpreter",
        "trace 3 of <lambda>: where it runs changed from pjrt:cpu to a call in '<lambda>'",
        "trace 4 of <lambda>: where it runs changed from pjrt:cpu to lower",
        "trace 5 of <lambda>: recorded again for the same signature",
    ]


# --- arguments ----------------------------------------------------------------------------------------------------


def test_static_arguments() -> None:
    @xlapy.compile(static_argnames=("n", "mode"))
    def f(x: Any, n: int, mode: str = "sum") -> Any:
        assert type(n) is int
        return getattr(xlapy, mode)(x) * n

    assert f(X, 2).item() == 12
    assert f(X, n=2).item() == 12
    assert f(X, 2, "max").item() == 6
    assert f(X, 2, mode="max").item() == 6
    assert f.traces == 2  # by position or by name
    g = xlapy.compile(lambda x, n: x * (2.0 if n is True else 3.0), static_argnames="n")
    assert g(1.0, True).item() == 2
    assert g(1.0, 1).item() == 3  # equal, and yet not the same
    named = xlapy.compile(lambda x, **k: x * k["n"], static_argnames="n")
    assert named(X, n=3).tolist() == [0, 3, 6, 9]
    apply = xlapy.compile(lambda f, x: f(x), static_argnames="f")
    assert apply(xlapy.sum, X).item() == 6
    assert apply(xlapy.max, X).item() == 3


def test_containers_and_defaults() -> None:
    f = xlapy.compile(lambda p, *rest, scale=1.0: {"out": [p["w"] + rest[0], None], "n": scale})
    found = f({"w": X}, X, X)
    assert found["out"][0].tolist() == [0, 2, 4, 6]
    assert found["out"][1] is None
    assert found["n"].item() == 1
    assert f({"w": X}, X, scale=2.0)["n"].item() == 2


def test_donation_takes_the_named_arguments_only() -> None:
    f = xlapy.compile(
        lambda state, x: {"a": state["a"] + x, "b": state["b"] * x}, donate_argnames="state"
    )
    state, x = {"a": xlapy.ones(4), "b": xlapy.ones(4)}, xlapy.asarray(X)
    first = f(state, x)
    assert repr(state["a"]) == repr(state["b"]) == "Tensor(deleted, f32[4])"
    second = f(first, x)
    np.testing.assert_array_equal(second["a"].numpy(), 1 + 2 * X)
    np.testing.assert_array_equal(x.numpy(), X)
    assert f.traces == 1


# --- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_that_are_no_computation(backend: str) -> None:
    with xlapy.use_backend(backend):
        same = xlapy.compile(lambda x, y: (y, x, x))
        for _ in range(2):
            found = same(X, 2.0)
            assert [f.tolist() for f in found] == [2.0, X.tolist(), X.tolist()]
        constants = xlapy.compile(lambda: (1, 2.5, True, [X], None, ()))
        for _ in range(2):
            one, real, true, array, nothing, empty = constants()
            assert (one.item(), real.item(), true.item()) == (1, 2.5, True)
            assert array[0].tolist() == X.tolist()
            assert nothing is None
            assert empty == ()
        assert xlapy.compile(lambda x: None)(X) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_closed_over_are_parameters(backend: str) -> None:
    with xlapy.use_backend(backend):
        w = xlapy.asarray(X)
        f = xlapy.compile(lambda x: x * w + w)
        assert f(2.0).tolist() == [0, 3, 6, 9]
        computation = f.trace(2.0)
        assert "constant" not in operations(computation)
        assert [str(s) for s in computation.parameter_specs] == ["f32[]", "f32[4]"]


def test_what_was_closed_over_is_kept() -> None:
    weights = [xlapy.full(1000, float(i)) for i in range(3)]
    g = xlapy.compile(lambda x: x + weights[2][0])
    weights_before = g(1.0).item()
    del weights[:]
    assert g(1.0).item() == weights_before == 3


# --- stages -------------------------------------------------------------------------------------------------------


def test_stages() -> None:
    f = xlapy.compile(lambda x, y: xlapy.dot(x, y) + 1)
    spec = xlapy.TensorSpec((4,), "f32")
    lowered = f.lower(spec, X)
    assert f.compiles == 0
    assert "dot_general" in operations(lowered.computation)
    assert "stablehlo.dot_general" in lowered.stablehlo_text
    assert "ENTRY" in lowered.hlo_text
    program = lowered.compile()
    assert program(X, X).item() == 15
    assert "ENTRY" in program.optimized_hlo_text
    assert program.cost_analysis()["flops"] > 0
    assert program.memory_analysis()["argument"] >= 32
    with refused(DTypeError, "lowered signature"):
        program(X[:2], X[:2])
    with refused(DTypeError, "lowered signature"):
        program(X)
    with refused(DTypeError, "must have values"):
        f(spec, X)


@pytest.mark.parametrize("operation", [ops.div, ops.rem])
@pytest.mark.parametrize("size", [2, 5000])
def test_hlo_of_constants_divided_by_zero(operation: Any, size: int) -> None:
    numbers = np.arange(size, dtype=np.int32)
    f = xlapy.compile(lambda: operation(ops.constant(numbers), ops.constant(numbers)))
    assert xlapy.from_hlo(f.lower().hlo_text)().tolist() == f().tolist()


# --- calls of compiled functions in others ----------------------------------------------------------------------------


def test_inner_functions_are_kept_as_calls() -> None:
    inner = xlapy.compile(lambda x: xlapy.sin(x) * 2)
    outer = xlapy.compile(lambda x: inner(x) + inner(x * 2) + inner(x[:2])[0])
    computation = outer.trace(X)
    calls = [i for i in computation.instructions if i.op.name == "call"]
    assert len(calls) == 3
    assert calls[0].params["computation"] is calls[1].params["computation"]
    assert inner.traces == 2
    expected = 2 * np.sin(X) + 2 * np.sin(2 * X) + 2 * np.sin(X[0])
    np.testing.assert_allclose(outer(X).numpy(), expected, rtol=1e-6)
    gradient = xlapy.grad(lambda x: xlapy.sum(inner(x)))(X)
    np.testing.assert_allclose(gradient.numpy(), 2 * np.cos(X), rtol=1e-6)


def test_an_inner_function_may_close_over_the_outer_trace() -> None:
    def outer(x: Any) -> Any:
        inner = xlapy.compile(lambda y: y * x)
        return inner(x) + inner(x + 1)

    np.testing.assert_array_equal(xlapy.compile(outer)(X).numpy(), X * X + (X + 1) * X)


def test_recursion_that_ends() -> None:
    power: Any = xlapy.compile(
        lambda x, n: x if n == 0 else 2 * power(x, n - 1), static_argnames="n"
    )
    assert power(1.0, 10).item() == 1024
    halving: Any = xlapy.compile(lambda x: x[0] if len(x) == 1 else halving(x[: len(x) // 2]) + 1)
    assert halving(X).item() == 2


def test_recursion_that_does_not_end() -> None:
    forever: Any = xlapy.compile(lambda x: forever(x) + 1)
    ping: Any = xlapy.compile(lambda x: pong(x) * 2)
    pong: Any = xlapy.compile(lambda x: ping(x) + 1)
    factorial: Any = xlapy.compile(
        lambda n: xlapy.cond(n > 1, lambda: factorial(n - 1) * n, lambda: n)
    )
    for f in (forever, ping, pong, factorial):
        for _ in range(2):  # the first attempt leaves nothing behind
            with refused(TracingError, "must not call itself"):
                f(3)
        with refused(TracingError, "must not call itself"):
            xlapy.grad(f)(1.0)
    assert current_builder() is None


# --- mishaps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, StopIteration]
)
def test_an_exception_half_way_leaves_no_trace(kind: type[BaseException]) -> None:
    def in_branch(f: Any, x: Any) -> Any:
        return xlapy.cond(True, f, lambda x: x, x)

    transforms: list[Callable[[Any], Callable[[Any], Any]]] = [
        xlapy.compile,
        lambda f: xlapy.compile(lambda x: xlapy.compile(f)(x) * 1),
        lambda f: xlapy.compile(lambda x: in_branch(f, x)),
        xlapy.vmap,
        xlapy.jacrev,
        xlapy.jacfwd,
        lambda f: lambda x: xlapy.fori_loop(0, 1, lambda i, c: f(c), x),
    ]
    for transform in transforms:
        fail = [True]

        def half(x: Any, fail: list[bool] = fail) -> Any:
            y = x + 1
            if fail[0]:
                raise kind("half way")
            return y

        f = transform(half)
        for _ in range(2):
            with pytest.raises(kind, match="half way"):
                f(X)
            assert current_builder() is None
            assert (xlapy.asarray(X) + 1).tolist() == [1, 2, 3, 4]
        fail[0] = False
        assert f(X).shape[0] == 4


def test_the_users_exception_is_not_wrapped() -> None:
    class Own(Exception):
        pass

    def f(x: Any) -> Any:
        raise Own("mine")

    with pytest.raises(Own) as caught:
        xlapy.compile(f)(X)
    assert caught.value.__cause__ is None
    assert caught.traceback[-1].name == "f"


def test_containers_that_contain_themselves() -> None:
    cycle: list[Any] = [X]
    cycle.append(cycle)
    for attempt in (
        lambda: xlapy.compile(lambda t: t[0])(cycle),
        lambda: xlapy.compile(lambda x: cycle)(X),
        lambda: xlapy.grad(lambda t: 1.0)(cycle),
        lambda: xlapy.tree.flatten(cycle),
    ):
        with refused(match="must not contain itself"):
            attempt()


# --- threads ------------------------------------------------------------------------------------------------------


def together(work: Callable[[int], Any], count: int = 8) -> list[Any]:
    found: list[Any] = [None] * count
    barrier = threading.Barrier(count)

    def run(i: int) -> None:
        barrier.wait()
        try:
            found[i] = work(i)
        except BaseException as error:  # what a thread raises is lost otherwise
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


def test_one_function_in_many_threads_is_recorded_once() -> None:
    f = xlapy.compile(lambda x: xlapy.sum(xlapy.sin(x) * 2))
    expected = float(2 * np.sin(X).sum())
    np.testing.assert_allclose([r.item() for r in together(lambda i: f(X))], expected, rtol=1e-6)
    assert (f.traces, f.compiles) == (1, 1)
    sizes = together(lambda i: f(np.ones(i + 1, np.float32)))
    np.testing.assert_allclose(
        [r.item() for r in sizes], 2 * np.sin(1.0) * np.arange(1, 9), rtol=1e-6
    )


def test_each_thread_has_its_backend_and_its_trace() -> None:
    f = xlapy.compile(lambda x: xlapy.sum(x) * 3)

    def work(i: int) -> Any:
        with xlapy.use_backend(BACKENDS[i % 2]):
            total = f(X)
            slope = xlapy.grad(lambda x: xlapy.sum(x * x) * i)(X)
            return total.backend.name, slope.backend.name, total.item(), slope.tolist()

    for i, found in enumerate(together(work)):
        assert found == (BACKENDS[i % 2], BACKENDS[i % 2], 18, (2 * i * X).tolist())


def test_other_threads_run_while_one_records() -> None:
    other = xlapy.compile(lambda x: x + 10)

    def f(x: Any) -> Any:
        found: list[float] = []
        thread = threading.Thread(target=lambda: found.append(other(1.0).item()))
        thread.start()
        thread.join(60)
        return x + found[0]

    assert xlapy.compile(f)(1.0).item() == 12


def test_an_explicit_builder_records_the_same() -> None:
    b = xlapy.XlaBuilder("axpy")
    a, c = b.parameter(0, "f32[4]", "a"), b.parameter(1, "f32[4]", "c")
    built = b.build(ops.add(ops.mul(a, a), c))
    recorded = xlapy.compile(lambda a, c: ops.add(ops.mul(a, a), c)).trace(X, X)
    assert operations(built) == operations(recorded) == ["mul", "add"]


class Scaled:
    def __init__(self, factor: float) -> None:
        self.factor = xlapy.asarray(factor)
        self.twice = xlapy.compile(operator.neg)

    @xlapy.compile
    def scale(self, x: Any) -> Any:
        return x * self.factor


@xlapy.compile
def doubled(x: Any) -> Any:
    return x * 2


def tripled(x: Any, n: int) -> Any:
    return x * n


def test_compiled_functions_are_copied_and_pickled_as_functions_are() -> None:
    x = xlapy.ones(2)
    assert (
        copy.deepcopy(doubled)
        is copy.copy(doubled)
        is pickle.loads(pickle.dumps(doubled))
        is doubled
    )
    made = pickle.loads(
        pickle.dumps(xlapy.compile(tripled, static_argnames="n", backend="interpreter"))
    )
    assert made(x, 3).tolist() == [3, 3]
    assert made(x, 3).backend.name == "interpreter"
    for make in (copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
        twin = make(Scaled(3.0))
        assert twin.scale(x).tolist() == [3, 3]
        assert twin.twice(x).tolist() == [-1, -1]
        assert make(twin.scale)(x).tolist() == [3, 3]
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(xlapy.compile(lambda x: x))
