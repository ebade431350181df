"""Element types of results: Python scalars are weak, arrays meet on a lattice."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import xlapy
from xlapy import Tensor
from xlapy.errors import DTypeError


def full(dtype: str) -> Tensor:
    return xlapy.ones(2, dtype=dtype)


PAIRS = [
    ("s32", "s32", "s32"),
    ("s8", "s32", "s32"),
    ("u8", "s8", "s16"),
    ("u32", "s32", "s64"),
    ("s64", "bf16", "bf16"),
    ("s32", "f16", "f16"),
    ("pred", "u8", "u8"),
    ("pred", "f64", "f64"),
    ("bf16", "f16", "f32"),
    ("bf16", "f32", "f32"),
    ("f32", "f64", "f64"),
    ("f64", "c64", "c128"),
    ("s64", "c64", "c64"),
    ("f8e4m3fn", "f8e4m3fn", "f8e4m3fn"),
]


@pytest.mark.parametrize("a, b, expected", PAIRS)
def test_two_arrays_meet(a: str, b: str, expected: str) -> None:
    for x, y in ((a, b), (b, a)):
        assert str(xlapy.result_type(x, y)) == expected
        assert str(xlapy.add(full(x), full(y)).dtype) == expected
        assert str(xlapy.compile(xlapy.add)(full(x), full(y)).dtype) == expected


@pytest.mark.parametrize("a, b", [("s64", "u64"), ("f8e4m3fn", "f32"), ("f8e4m3fn", "s8")])
def test_types_that_nothing_holds_are_refused(a: str, b: str) -> None:
    with pytest.raises(DTypeError, match="explicitly"):
        xlapy.add(full(a), full(b))
    with pytest.raises(DTypeError, match="explicitly"):
        xlapy.compile(xlapy.add)(full(a), full(b))


WEAK = [
    ("u8", 1, "u8"),
    ("s8", True, "s8"),
    ("bf16", 2, "bf16"),
    ("bf16", 0.5, "bf16"),
    ("s64", 0.5, "f32"),
    ("s32", 1.0, "f32"),
    ("pred", 1, "s32"),
    ("pred", 0.5, "f32"),
    ("f32", 1j, "c64"),
    ("f64", 1j, "c128"),
    ("f16", 1j, "c64"),
    ("c64", 0.5, "c64"),
    ("s4", 5, "s4"),
    ("f8e5m2", 2.0, "f8e5m2"),
    ("u64", 2**64 - 1, "u64"),
    ("f32", 2**100, "f32"),
]


@pytest.mark.parametrize("dtype, scalar, expected", WEAK)
def test_python_scalars_adapt(dtype: str, scalar: Any, expected: str) -> None:
    x = full(dtype)
    for found in (
        xlapy.add(x, scalar),
        xlapy.add(scalar, x),
        xlapy.compile(lambda x: xlapy.add(x, scalar))(x),
        xlapy.compile(lambda x: xlapy.add(scalar, x))(x),
    ):
        assert str(found.dtype) == expected
    eager = np.asarray(xlapy.multiply(x, scalar)).astype(complex)
    traced = np.asarray(xlapy.compile(lambda x: xlapy.multiply(x, scalar))(x)).astype(complex)
    np.testing.assert_array_equal(eager, traced)


@pytest.mark.parametrize(
    "dtype, scalar",
    [("u8", -1), ("u8", 256), ("s8", 128), ("s4", 8), ("s32", 2**31), ("s64", 2**63)],
)
def test_integers_that_do_not_fit_are_refused(dtype: str, scalar: int) -> None:
    x = full(dtype)
    with pytest.raises(DTypeError, match="must fit"):
        x + scalar
    with pytest.raises(DTypeError, match="must fit"):
        xlapy.compile(lambda x: x + scalar)(x)
    # The check is not lost where a scalar of the same width has been seen before.
    assert str((x + 1).dtype) == dtype


def test_scalars_alone_have_default_types() -> None:
    assert [str(xlapy.add(a, b).dtype) for a, b in ((1, 2), (1, 0.5), (True, True), (1, 1j))] == [
        "s32", "f32", "pred", "c64",
    ]  # fmt: skip
    assert str(xlapy.sin(1).dtype) == "f32"
    with pytest.raises(DTypeError, match="must fit"):
        xlapy.add(2**40, 1)


def test_numpy_operands_keep_their_types() -> None:
    x = full("f32")
    assert str((x + np.float64(1)).dtype) == "f64"
    assert str((x + np.arange(2)).dtype) == "f32"
    assert str((np.ones(2) * x).dtype) == "f64"
    assert str(xlapy.compile(lambda x: np.ones(2) * x)(x).dtype) == "f64"
    assert str(xlapy.compile(lambda x: x + np.float64(1))(x).dtype) == "f64"
    assert str((full("u8") + np.uint8(3)).dtype) == "u8"


def test_lists_are_arrays() -> None:
    x = full("f32")
    np.testing.assert_array_equal(np.asarray(x + [1, 2]), [2, 3])
    np.testing.assert_array_equal(np.asarray(xlapy.compile(lambda x: x + [1, 2])(x)), [2, 3])
    y = xlapy.compile(lambda x: xlapy.add(x, [x[0], 5.0]))(x)
    np.testing.assert_array_equal(np.asarray(y), [2, 6])


def test_traced_scalar_arguments_are_weak() -> None:
    scale = xlapy.compile(lambda x, c: x * c)
    assert str(scale(full("bf16"), 0.5).dtype) == "bf16"
    assert str(scale(full("u8"), 3).dtype) == "u8"


def test_what_operators_make_of_weak_scalars_is_weak() -> None:
    assert str(xlapy.compile(lambda x, c: x * (c * 2 + 1))(full("bf16"), 0.5).dtype) == "bf16"
    assert str(xlapy.compile(lambda x, c: x * (1 - c))(full("bf16"), 0.5).dtype) == "bf16"
    assert str(xlapy.compile(lambda x, c: x * -c)(full("bf16"), 0.5).dtype) == "bf16"
    # A function gives an array, as it does outside of a trace.
    assert str(xlapy.compile(lambda x, c: x * xlapy.exp(c))(full("bf16"), 0.5).dtype) == "f32"
    assert str((full("bf16") * xlapy.exp(0.5)).dtype) == "f32"


def test_scalars_are_weak_in_transformations() -> None:
    x = full("bf16")

    def scaled(x: Any, c: Any) -> Any:
        return x * c

    assert str(xlapy.vmap(scaled, in_axes=(0, None))(x, 0.5).dtype) == "bf16"
    assert str(xlapy.compile(xlapy.vmap(scaled, in_axes=(0, None)))(x, 0.5).dtype) == "bf16"
    kinds: list[str] = []

    def loss(x: Any, c: Any) -> Any:
        kinds.append(str(scaled(x, c).dtype))
        return xlapy.vdot(x, scaled(x, c))

    xlapy.grad(loss)(x, 0.5)
    xlapy.compile(xlapy.grad(loss))(x, 0.5)
    xlapy.jvp(loss, (x, 0.5), (x, 0.0))
    assert kinds[:2] == ["bf16"] * 2


def test_zero_keeps_its_sign() -> None:
    x = xlapy.ones(1)
    for zero in (0.0, -0.0):
        for found in (x * zero, xlapy.compile(lambda x, zero=zero: x * zero)(x)):
            assert np.signbit(np.asarray(found))[0] == np.signbit(zero)


def test_scalars_of_any_value_share_a_program() -> None:
    x = xlapy.ones(3)
    backend = x.backend
    x * 1.5, x + 3
    before = backend.compiles + backend.loads
    for i in range(20):
        x * (1.5 + i)
    x + 2
    assert backend.compiles + backend.loads == before


def test_tuples_are_no_operands() -> None:
    with pytest.raises(TypeError):
        xlapy.ones(2) + "a"
    with pytest.raises(TypeError):
        object() - xlapy.ones(2)
    with pytest.raises(DTypeError):
        xlapy.add(xlapy.ones(2), "a")
    with pytest.raises(DTypeError):
        xlapy.add(xlapy.ones(2), None)


class Length(float):
    """A number of a class derived from Python's."""


Count = enum.IntEnum("Count", {"FEW": 3})


@pytest.mark.parametrize(
    "given, plain", [(Count.FEW, 3), (Length(0.5), 0.5)], ids=["integer", "float"]
)
@pytest.mark.parametrize("dtype", ["s8", "bf16", "f64"])
def test_numbers_of_derived_classes_are_python_scalars(given: Any, plain: Any, dtype: str) -> None:
    x = full(dtype)
    functions: list[Any] = [
        lambda x, n: x + n, lambda x, n: n - x, xlapy.add, xlapy.maximum, lambda x, n: xlapy.where(x > 0, n, x),
        lambda x, n: xlapy.clip(x, n, n), lambda x, n: xlapy.full_like(x, n), lambda x, n: xlapy.asarray(n),
        lambda x, n: xlapy.asarray([n, n]), lambda x, n: xlapy.sin(n), lambda x, n: x.astype("f64").at[0].set(n),
    ]  # fmt: skip
    for f in functions:
        expected = f(x, plain)
        found = [
            f(x, given),
            xlapy.compile(lambda x, f=f: f(x, given))(x),
            xlapy.compile(f)(x, given),
        ]
        for y in found:
            assert y.spec == expected.spec
            np.testing.assert_array_equal(y.numpy(), expected.numpy())


@pytest.mark.parametrize("kind", [np.float64, np.complex128, np.float32, np.int64])
def test_numpys_scalars_are_arrays_everywhere(kind: Any) -> None:
    # Some of them are of classes derived from Python's numbers.
    number, spec = kind(0.5), xlapy.TensorSpec((), kind)
    x = xlapy.asarray(np.ones(2, np.float32))
    expected = (x * number).spec
    for found in (
        xlapy.compile(lambda n: n)(number),
        xlapy.ops.neg(number),
        xlapy.compile(lambda: number)(),
        xlapy.fori_loop(0, 2, lambda i, c: c, number),
        xlapy.vmap(lambda x: number)(x)[0],
    ):
        assert found.spec == spec
    for scaled in (
        xlapy.compile(lambda x, n: x * n)(x, number),
        xlapy.compile(lambda n: x * n)(number),
        xlapy.compile(lambda x: x * number)(x),
        xlapy.vmap(lambda x, n: x * n, in_axes=(0, None))(x, number),
    ):
        assert scaled.spec == expected
    if kind is not np.float32:
        with pytest.raises(DTypeError, match="one element type"):
            xlapy.ops.add(x, number)


def test_the_highest_kind_says_what_integers_must_fit() -> None:
    x = full("s8")
    for f in (
        lambda x: xlapy.clip(x, -300, 0.5),
        lambda x: xlapy.clip(x, 0.5, 300),
        lambda x: xlapy.where(x > 0, 0.5, x),
    ):
        for found in (f(x), xlapy.compile(f)(x)):
            assert str(found.dtype) == "f32"


@pytest.mark.parametrize("number", [2**31, 2**40, 2**100, 2**5000])
def test_integers_beside_truth_values_must_fit_the_default_type(number: int) -> None:
    x = full("pred")
    for f in (lambda x: x + number, lambda x: number * x, lambda x: xlapy.where(x, number, x)):
        for way in (f, xlapy.compile(f)):
            with pytest.raises(DTypeError, match=r"must fit.*\[X3\]"):
                way(x)


def test_zeros_of_complex_numbers_keep_their_signs() -> None:
    x = xlapy.ones(1, dtype="c64")
    for number in (0.0 + 1j, complex(-0.0, 1), complex(1, 0.0), complex(1, -0.0)):
        for f in (lambda x, n=number: xlapy.where(x == x, n, x), lambda x, n=number: xlapy.full_like(x, n),
                  lambda x, n=number: xlapy.ops.select(x == x, n, x)):  # fmt: skip
            for found in (f(x), xlapy.compile(f)(x)):
                assert np.signbit(found.numpy().real)[0] == np.signbit(number.real)
                assert np.signbit(found.numpy().imag)[0] == np.signbit(number.imag)


@pytest.mark.parametrize("data", [[2**63], [2**63, -1], [[2**64 - 1], [-5]], [2**31], [2**100]])
def test_large_integers_in_lists_are_refused(data: Any) -> None:
    # numpy makes unsigned integers, floats or objects of them.
    for f in (xlapy.asarray, lambda d: xlapy.ones(1) + d):
        with pytest.raises(DTypeError, match=r"\[X\d\]"):
            f(data)
