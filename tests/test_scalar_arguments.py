"""Python scalars as arguments of compiled functions count as they do outside: they adapt, exactly, or are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy.errors import DTypeError

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
