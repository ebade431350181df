"""Python scalars as arguments of compiled functions count as they do outside: they adapt, exactly, or are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refused

import xlapy
from xlapy import staging
from xlapy.errors import ConstraintError, DTypeError

Function = Callable[..., Any]


def ways(f: Function) -> list[Function]:
    """A function, compiled in each way that it can be."""
    return [
        xlapy.compile(f),
        lambda *args: xlapy.compile(f).lower(*args).compile()(*args),
        xlapy.compile(lambda *args: xlapy.compile(f)(*args)),
        xlapy.compile(lambda *args: xlapy.compile(lambda *more: xlapy.compile(f)(*more))(*args)),
    ]


def array(dtype: str) -> xlapy.Tensor:
    return xlapy.asarray(np.ones(2)).astype(dtype)


SCALARS = [0.1, 1 / 3, 3, -1, True, 0.1j, 2**31, 2**40, -(2**40), 2**63 - 1]
DTYPES = ["f32", "f64", "bf16", "c64", "c128", "s32", "s64", "u8", "u32", "pred"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
def test_a_scalar_counts_as_outside(dtype: str, scalar: Any) -> None:
    def add(x: Any, n: Any) -> Any:
        return x + n

    try:
        expected = add(array(dtype), scalar)
    except DTypeError:
        for compiled in ways(add):
            with pytest.raises(DTypeError, match="must fit"):
                compiled(array(dtype), scalar)
        return
    for compiled in ways(add):
        found = compiled(array(dtype), scalar)
        assert found.spec == expected.spec
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


FUNCTIONS: dict[str, Function] = {
    "product": lambda x, n: x * n,
    "where": lambda x, n: xlapy.where(x > 0, n, x),
    "clip": lambda x, n: xlapy.clip(x, n, n),
    "branch": lambda x, n: xlapy.cond(x[0] > 0, lambda: x * n, lambda: x),
    "gradient": lambda x, n: xlapy.grad(lambda y: xlapy.sum(y * n))(x),
    "gradient of a compiled one": lambda x, n: xlapy.grad(xlapy.compile(lambda y: (y * n).sum()))(x),
    "rows": lambda x, n: xlapy.vmap(lambda y: y + n)(x),
    "two": lambda x, n: (x * n) + xlapy.asarray(np.ones(2, np.float32)) * n,
    "power": lambda x, n: x**n,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_meets_doubles_is_a_double(name: str) -> None:
    function = FUNCTIONS[name]
    expected = function(array("f64"), 0.1)
    assert expected.spec.dtype.name == "f64"
    for compiled in ways(function):
        np.testing.assert_array_equal(compiled(array("f64"), 0.1).numpy(), expected.numpy())


DERIVED: dict[str, Function] = {
    "sum": lambda n: n + 1,
    "reflected": lambda n: 3 - n,
    "product": lambda n: n * n,
    "third": lambda n: n / 3,
    "rounded down": lambda n: n // 3,
    "remainder": lambda n: n % 5,
    "both": lambda n: divmod(n, 7)[0] + divmod(n, 7)[1],
    "power": lambda n: n**2,
    "base": lambda n: 2 ** (n % 9),
    "negative": lambda n: -n,
    "positive": lambda n: +n,
    "several": lambda n: (n + 1) * (n - 1) + abs(n),
    "mixed": lambda n: n * 0.1 + 1,
    "complex": lambda n: n * 1j,
    "compared": lambda n: n > 2,
    "equal": lambda n: n == 3,
    "rounded": lambda n: round(n * 0.7),
    "digits": lambda n: round(n * 0.3337, 2),
    "counted": lambda n: (n > 1) + (n > 2),
    "by a number of the program": lambda n: n / (n - 3),
}
SOME = ["u8", "s8", "s64", "f32", "bf16", "f64", "c128"]


@pytest.mark.parametrize("dtype", SOME)
@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("scalar", [3, 100, -7, 300, 2**20, 2**31 - 1, 0.1, 1 / 3, True], ids=repr)
def test_what_python_makes_of_it_counts_as_outside(scalar: Any, name: str, dtype: str) -> None:
    def f(x: Any, n: Any) -> Any:
        return x + DERIVED[name](n)

    try:
        expected = f(array(dtype), scalar)
    except (DTypeError, ArithmeticError) as error:
        for compiled in ways(f):
            with pytest.raises(type(error)):
                compiled(array(dtype), scalar)
        return
    for compiled in ways(f):
        found = compiled(array(dtype), scalar)
        assert found.spec == expected.spec
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


PLACES: dict[str, Function] = {
    "rows": lambda x, n: xlapy.vmap(lambda y: y + (n * n))(x),
    "branch": lambda x, n: xlapy.cond(n > 2, lambda: x + n * n, lambda: x),
    "rounds": lambda x, n: xlapy.fori_loop(0, n - 1, lambda i, y: y + n * 2, x),
    "where": lambda x, n: xlapy.where(x > 0, n * n, x),
    "place": lambda x, n: x[n - n] + (n * n),
    "assigned": lambda x, n: x.at[0].set(n * n),
    "compiled": lambda x, n: xlapy.compile(lambda y, m: y + (m * n + 1))(x, n + 1),
    "compiled, with a number": lambda x, n: xlapy.compile(lambda y, m: y + m * n)(x, 9),
    "operation": lambda x, n: xlapy.ops.add(x, n * n),
    "clipped": lambda x, n: xlapy.clip(x, -n, n * n),
    "in place": lambda x, n: _added_in_place(x, n),
}


def _added_in_place(x: Any, n: Any) -> Any:
    n += 1
    n *= n
    return x + n


@pytest.mark.parametrize("name", PLACES)
def test_what_python_makes_of_it_fits_or_is_refused_anywhere(name: str) -> None:
    f = PLACES[name]
    expected = f(array("s8"), 4)
    for compiled in ways(f):
        assert compiled(array("s8"), 4).tolist() == expected.tolist()
        assert compiled(array("s8"), 4).spec == expected.spec
        for bad in (100, 2000):
            with pytest.raises(DTypeError, match="must fit s8"):
                f(array("s8"), bad)
            with pytest.raises(DTypeError, match="must fit s8"):
                compiled(array("s8"), bad)


GRADIENTS: dict[str, Function] = {
    "product": lambda x, n: xlapy.grad(lambda y, m: xlapy.sum(y * m))(x, n),
    "derived": lambda x, n: xlapy.grad(lambda y, m: xlapy.sum(y * (m / 3)))(x, n),
    "rows": lambda x, n: xlapy.vmap(lambda y, m: y * (m / 3), in_axes=(0, None))(x, n),
    "jacobian": lambda x, n: xlapy.jacfwd(lambda y, m: y * (m / 3))(x, n),
    "branch": lambda x, n: xlapy.grad(lambda y, m: xlapy.sum(y * 2 if m < 1 else y))(x, n),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_transformations_outside_a_trace_leave_numbers_what_they_are(name: str) -> None:
    numbers = {
        "product": 0.1,
        "derived": 0.1 / 3,
        "rows": 0.1 / 3,
        "jacobian": 0.1 / 3,
        "branch": 2,
    }
    found = np.asarray(GRADIENTS[name](array("f64"), 0.1))
    assert np.unique(found[found != 0]).tolist() == [numbers[name]]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "c64"])
def test_transformations_outside_a_trace_compile_once_for_all_numbers(dtype: str) -> None:
    f = xlapy.grad(lambda x, n: xlapy.sum(xlapy.real(x * n / 3)))
    f(array(dtype), 0.1)
    before = len(staging._by_text)
    for rate in (0.2, 0.3):
        f(array(dtype), rate)
    assert len(staging._by_text) == before


def test_it_is_named_as_it_is_written() -> None:
    f = xlapy.compile(lambda x, n: x + ((n + 1) * 2 - abs(-n)))
    assert f(array("u8"), 3).tolist() == [6, 6]
    for bad, value in ((300, 302), (-9, -25)):
        message = rf"must fit u8.*got {value} for \(\(n \+ 1\) \* 2\) - abs\(-n\) \[X3\]"
        with refused(DTypeError, message):
            f(array("u8"), bad)
    assert f.traces == f.compiles == 1


def test_a_number_of_another_kind_is_refused() -> None:
    f = xlapy.compile(lambda x, n: x * 2**n)
    assert f(array("f32"), 3).tolist() == [8, 8]
    with refused(DTypeError, r"must be of type int.*; got 0.5 for 2 \*\* n"):
        f(array("f32"), -1)


def test_an_exponent_of_integers_is_not_negative() -> None:
    for f in ways(lambda x, n: x**n):
        assert f(array("s32"), 3).tolist() == [1, 1]
        with refused(ConstraintError, "must not be negative"):
            f(array("s32"), -1)


def test_a_number_that_does_not_fit_alone_is_refused() -> None:
    for f in ways(lambda n: n * n):
        assert f(1000).item() == 10**6
        with refused(DTypeError, "must fit s32.*got 4294967296"):
            f(2**16)


def test_a_float_is_rounded_once() -> None:
    number = 1 + 2**-4 + 2**-40  # f32 takes it for the middle between two of f8e4m3fn
    for f in ways(lambda x, n: x * n):
        assert f(array("f8e4m3fn"), number).tolist() == [1.125, 1.125]


EXPORTED: dict[str, tuple[Function, str, Any]] = {
    "exact": (lambda x, n: x * n, "f64", 0.5),
    "derived": (lambda x, n: x + (n * n + 1), "u8", 3),
    "of truth values": (lambda x, n: x + (n + n), "f32", True),
    "compared": (lambda x, n: xlapy.where(n > 3, x, x * (n / 2)), "f64", 2),
    "power": (lambda x, n: x * 2**n, "f32", 3),
    "several": (lambda x, n: x * round(n / 4) + abs(-n) + divmod(n, 3)[1], "s64", 31),
}


@pytest.mark.parametrize("name", EXPORTED)
def test_a_program_for_others_computes_it(name: str) -> None:
    f, dtype, number = EXPORTED[name]
    x = array(dtype)
    artifact = xlapy.export(f, x, number)
    assert len(artifact.computation.parameters) == 2
    assert artifact.load()(x, number).tolist() == f(x, number).tolist()
    weights = xlapy.ones(2, dtype=dtype)
    closed = xlapy.export(lambda x, n: f(x * weights, n), x, number)
    assert closed.load()(x, number).tolist() == f(x, number).tolist()


def test_each_call_is_checked() -> None:
    add = xlapy.compile(lambda x, n: x + n)
    assert add(array("u8"), 3).tolist() == [4, 4]
    for bad in (300, -1):
        with pytest.raises(DTypeError, match=rf"must fit u8.*got {bad} for n"):
            add(array("u8"), bad)
    assert add(array("u8"), 255 - 1).tolist() == [255, 255]
    assert add.traces == 1


def test_a_number_costs_no_new_program() -> None:
    scale = xlapy.compile(lambda x, rate: x * rate)
    for rate in (0.1, 0.2, 1e300):
        assert scale(array("f64"), rate).tolist() == [rate, rate]
    assert scale.traces == 1
    assert scale.compiles == 1


def test_several_scalars_keep_their_places() -> None:
    def mix(x: Any, a: Any, b: Any, c: Any) -> Any:
        return x * c + a / b

    for compiled in ways(lambda x, a, b, c: mix(x, x[0] * a, x[0] * b, c)):
        found = compiled(array("f64"), 0.3, 0.7, 0.1).numpy()
        np.testing.assert_array_equal(found, np.ones(2) * 0.1 + 0.3 / 0.7)


def test_alone_it_is_of_the_default_type() -> None:
    assert str(xlapy.compile(lambda n: n * 2)(0.5).spec) == "f32[]"
    assert str(xlapy.compile(lambda n: n * 2)(5).spec) == "s32[]"


def test_an_error_names_the_number_that_was_given() -> None:
    x = xlapy.ones(3, dtype="s8")
    with pytest.raises(DTypeError, match="must fit s8; got 300"):
        x + 300
    with pytest.raises(DTypeError, match="must fit s8; got -200"):
        x[0] = -200


def test_static_arguments_that_are_equal_are_told_apart() -> None:
    def chosen(x: Any, n: Any) -> Any:
        return xlapy.where(x == x, n[0] if isinstance(n, tuple) else n, x)

    f = xlapy.compile(chosen, static_argnames="n")
    x = np.ones(1, np.float32)
    for n in (0.0, -0.0, 0, False, (0.0,), (-0.0,), (0,), complex(0, 0.0), complex(0, -0.0)):
        expected = chosen(xlapy.asarray(x), n)
        for _ in range(2):
            found = f(x, n)
            assert found.spec == expected.spec
            assert found.numpy().tobytes() == expected.numpy().tobytes(), n
    assert f.traces == 9


@pytest.mark.parametrize("n", ["nan", "-inf"])
def test_numbers_that_equal_nothing_are_one_static_argument(n: str) -> None:
    f = xlapy.compile(lambda x, n: x, static_argnames="n")
    for make in (float, lambda n: (float(n),), np.float32, lambda n: complex(float(n), 1)):
        before = f.traces
        f(1.0, make(n))
        f(1.0, make(n))
        assert f.traces == before + 1


HANDED_ON: dict[str, Function] = {
    "positive": lambda x, n: x * xlapy.positive(n),
    "asarray": lambda x, n: x * xlapy.asarray(n),
    "asarray with its type": lambda x, n: x * xlapy.asarray(n, type(n) if type(n) is not xlapy.Tensor else n.dtype),
    "astype": lambda x, n: x * xlapy.astype(n, "f32"),
    "real": lambda x, n: x * xlapy.real(n),
    "conj": lambda x, n: x * xlapy.conj(n),
    "reshape": lambda x, n: x * xlapy.reshape(n, ()),
    "transpose": lambda x, n: x * xlapy.transpose(n),
    "sum": lambda x, n: x * xlapy.sum(n),
    "clip": lambda x, n: x * xlapy.clip(n),
    "full": lambda x, n: x * xlapy.full((), n),
    "floor": lambda x, n: x * xlapy.floor(n),
}  # fmt: skip


@pytest.mark.parametrize("name", HANDED_ON)
@pytest.mark.parametrize("dtype", ["bf16", "f64"])
def test_what_a_function_hands_on_is_an_array(name: str, dtype: str) -> None:
    function = HANDED_ON[name]
    for n in (0.1, 3):
        expected = function(array(dtype), n)
        for compiled in ways(function):
            found = compiled(array(dtype), n)
            assert found.spec == expected.spec
            np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("dtype", ["s8", "u8", "u32", "s32", "s64", "u64"])
@pytest.mark.parametrize("n", [-1, 0, 1, 128, 300, -129, 2**31, 2**40, 2**63, 2**64 - 1, 2**64])
def test_comparisons_with_integers_beyond_the_type(dtype: str, n: int) -> None:
    limits = xlapy.iinfo(dtype)
    numbers = np.array([limits.min, 0, 1, limits.max], xlapy.zeros(0, dtype=dtype).dtype.numpy)
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        function, reference = getattr(xlapy, name), getattr(np, name)
        expected = reference(numbers.astype(object), n).astype(bool)
        np.testing.assert_array_equal(xlapy.compile(function)(numbers, n).numpy(), expected)
        swapped = reference(n, numbers.astype(object)).astype(bool)
        found = xlapy.compile(lambda x, n, f=function: f(n, x))(numbers, n)
        np.testing.assert_array_equal(found.numpy(), swapped)


@pytest.mark.parametrize("function", [xlapy.divide, xlapy.logaddexp, xlapy.arctan2])
def test_an_integer_must_fit_what_becomes_a_float(function: Function) -> None:
    for compiled in (function, *ways(function)):
        with pytest.raises(DTypeError, match="must fit s8"):
            compiled(array("s8"), 300)
        assert str(compiled(array("s8"), 100).dtype) == "f32"


def test_any_number_is_a_truth_value() -> None:
    for n in (0, 2**31, 2**40, 0.5, 1j):
        for f in (lambda x, n: xlapy.full_like(x, n), lambda x, n: xlapy.asarray(n, "pred")):
            expected = f(array("pred"), n).tolist()
            assert xlapy.compile(f)(array("pred"), n).tolist() == expected
    assert xlapy.compile(xlapy.full_like)(array("s64"), 2**40).tolist() == [2**40] * 2


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f8e5m2", "f32", "c64"])
@pytest.mark.parametrize("n", [2**64, -(2**70)])
def test_integers_beyond_numpys_beside_floats(dtype: str, n: int) -> None:
    for f in (lambda x: x + n, lambda x: xlapy.full_like(x, n), lambda x: xlapy.maximum(x.real, n)):
        expected = f(array(dtype)).numpy()
        np.testing.assert_array_equal(xlapy.compile(f)(array(dtype)).numpy(), expected)
