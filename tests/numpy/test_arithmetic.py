"""Elementwise functions: values as numpy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from agreement import check

import xlapy
from xlapy.errors import ConstraintError, DTypeError, ShapeError

FLOATS = np.array([-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.7, np.inf, -np.inf, np.nan], np.float32)
INTEGERS = np.array([-7, -3, -1, 0, 1, 2, 5, 100], np.int32)
COMPLEX = np.array([1 + 2j, -0.5j, 3, -1 + 0.25j], np.complex64)
TOLERANCE = 2e-6

BINARY: list[tuple[str, Callable[..., Any]]] = [
    ("add", np.add),
    ("subtract", np.subtract),
    ("multiply", np.multiply),
    ("maximum", np.maximum),
    ("minimum", np.minimum),
    ("copysign", np.copysign),
    ("fmod", np.fmod),
]


@pytest.mark.parametrize("name, reference", BINARY)
def test_two_floats(name: str, reference: Callable[..., Any]) -> None:
    x, y = np.meshgrid(FLOATS, FLOATS)
    with np.errstate(all="ignore"):
        expected = reference(x, y)
    check(getattr(xlapy, name), expected, x, y)


def test_division_of_floats() -> None:
    x, y = np.meshgrid(FLOATS, FLOATS)
    with np.errstate(all="ignore"):
        check(xlapy.divide, x / y, x, y, rtol=TOLERANCE)
        check(xlapy.floor_divide, x // y, x, y)
        check(xlapy.remainder, np.remainder(x, y), x, y, rtol=TOLERANCE)
        quotient, rest = np.divmod(x, y)
    check(lambda x, y: xlapy.divmod(x, y)[0], quotient, x, y)
    check(lambda x, y: divmod(x, y)[1], rest, x, y, rtol=TOLERANCE)


def test_division_of_integers() -> None:
    x, y = np.meshgrid(INTEGERS, INTEGERS[INTEGERS != 0])
    check(xlapy.floor_divide, x // y, x, y)
    check(xlapy.remainder, x % y, x, y)
    check(xlapy.fmod, np.fmod(x, y), x, y)
    check(xlapy.divide, (x / y).astype(np.float32), x, y, rtol=TOLERANCE)
    unsigned = np.arange(1, 9, dtype=np.uint8)
    check(lambda x: x // 3, unsigned // 3, unsigned)
    check(lambda x: x % 3, unsigned % 3, unsigned)
    check(lambda x: x / 2, unsigned.astype(np.float32) / 2, unsigned)
    wide = np.arange(1, 9)
    check(lambda x: x / 2, wide / 2, wide)


def test_floor_division_rounds_down_next_to_whole_quotients() -> None:
    x = np.array([1.0, 0.3, 6.0, -1.0], np.float32)
    y = np.array([0.1, 0.1, 0.1, 0.1], np.float32)
    check(xlapy.floor_divide, np.floor_divide(x, y), x, y)


def test_booleans() -> None:
    x, y = np.array([True, True, False]), np.array([True, False, False])
    check(xlapy.add, x | y, x, y)
    check(xlapy.multiply, x & y, x, y)
    check(lambda x: x * 3, x * np.int32(3), x)
    check(
        xlapy.divide, np.array([1, 0], np.float32), np.array([True, False]), np.array([True, True])
    )
    check(lambda x, y: x // y, np.array([1], np.int32), np.array([True]), np.array([True]))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 16, -1, -2, 0.5, 2.0, -0.5, 1.5, 20])
def test_powers_of_floats(exponent: float) -> None:
    x = np.array([0.0, 0.5, 1.0, 1.5, 3.0], np.float32)
    with np.errstate(all="ignore"):
        check(lambda x: x**exponent, x ** np.float32(exponent), x, rtol=1e-5)


def test_powers() -> None:
    x = np.array([-2.0, 2.0, 3.0], np.float32)
    check(lambda x: x**3, x**3, x)
    check(lambda x: 2**x, 2**x, x, rtol=TOLERANCE)
    check(
        xlapy.pow,
        x ** np.array([2, 3, 2], np.float32),
        x,
        np.array([2.0, 3.0, 2.0], np.float32),
        rtol=1e-6,
    )
    integers = np.array([-3, 0, 2, 5], np.int32)
    for n in (0, 1, 2, 3, 5):
        check(lambda x, n=n: x**n, integers**n, integers)
    check(
        xlapy.pow,
        np.array([9, 1, 8], np.int32),
        np.array([3, 7, 2], np.int32),
        np.array([2, 0, 3], np.int32),
    )
    check(lambda x: x**2.0, np.array([9.0, 4.0], np.float32), np.array([-3, 2], np.int32))
    assert [str((xlapy.asarray([3]) ** n).dtype) for n in (2, 2.0, 2, 2.0)] == ["s32", "f32"] * 2
    check(lambda x: x**0.5, np.array([3.0, 2.0], np.float32), np.array([9, 4], np.int32))
    for run in (lambda x: x**-1, xlapy.compile(lambda x: x**-1), lambda x: x**-20):
        with pytest.raises(ConstraintError, match="negative power"):
            run(xlapy.asarray(integers))
    assert str(xlapy.pow(2, 3)) == "8"


def test_squares_have_a_derivative_at_0() -> None:
    assert float(xlapy.grad(lambda x: x**2)(0.0)) == 0.0
    assert float(xlapy.grad(lambda x: x**3)(-2.0)) == 12.0
    assert float(xlapy.grad(lambda x: x**1)(5.0)) == 1.0


UNARY: list[tuple[str, Callable[..., Any], np.ndarray[Any, Any]]] = [
    ("negative", np.negative, FLOATS),
    ("positive", np.positive, FLOATS),
    ("abs", np.abs, FLOATS),
    ("sign", np.sign, FLOATS),
    ("square", np.square, FLOATS),
    ("floor", np.floor, FLOATS),
    ("ceil", np.ceil, FLOATS),
    ("trunc", np.trunc, FLOATS),
    ("round", np.round, FLOATS),
    ("signbit", np.signbit, FLOATS),
    ("isnan", np.isnan, FLOATS),
    ("isinf", np.isinf, FLOATS),
    ("isfinite", np.isfinite, FLOATS),
    ("real", np.real, FLOATS),
    ("imag", np.imag, FLOATS),
    ("conj", np.conj, FLOATS),
    ("negative", np.negative, INTEGERS),
    ("abs", np.abs, INTEGERS),
    ("sign", np.sign, INTEGERS),
    ("square", np.square, INTEGERS),
    ("floor", np.floor, INTEGERS),
    ("trunc", np.trunc, INTEGERS),
    ("round", np.round, INTEGERS),
    ("signbit", lambda x: x < 0, INTEGERS),
    ("isnan", np.isnan, INTEGERS),
    ("isfinite", np.isfinite, INTEGERS),
    ("invert", np.invert, INTEGERS),
    ("real", np.real, COMPLEX),
    ("imag", np.imag, COMPLEX),
    ("conj", np.conj, COMPLEX),
    ("isnan", np.isnan, COMPLEX),
    ("round", np.round, COMPLEX),
    ("logical_not", np.logical_not, FLOATS),
    ("invert", np.invert, np.array([True, False])),
    ("abs", np.abs, np.arange(4, dtype=np.uint8)),
    ("sign", np.sign, np.arange(4, dtype=np.uint8)),
]  # fmt: skip


@pytest.mark.parametrize("name, reference, x", UNARY)
def test_one_operand_exactly(
    name: str, reference: Callable[..., Any], x: np.ndarray[Any, Any]
) -> None:
    expected = reference(x)
    if x.dtype.kind in "iu" and expected.dtype.kind == "f":
        expected = expected.astype(x.dtype)
    check(getattr(xlapy, name), expected, x)


def test_complex_magnitudes() -> None:
    check(xlapy.abs, np.abs(COMPLEX), COMPLEX, rtol=TOLERANCE)
    check(xlapy.sign, COMPLEX / np.abs(COMPLEX), COMPLEX, rtol=TOLERANCE)
    check(xlapy.divide, COMPLEX / COMPLEX[::-1], COMPLEX, COMPLEX[::-1].copy(), rtol=TOLERANCE)


TRANSCENDENTAL = [
    "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "sin", "cos", "tan", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arctanh",
]  # fmt: skip


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_functions_to_floats(name: str) -> None:
    reference = getattr(np, name)
    for dtype, rtol in ((np.float32, 5e-6), (np.float64, 1e-13), (np.float16, 2e-3)):
        x = np.array([0.03, 0.25, 0.5, 0.875], dtype)
        check(getattr(xlapy, name), reference(x), x, rtol=rtol)
    integers = np.array([0, 1], np.int32)
    with np.errstate(all="ignore"):
        expected = reference(integers.astype(np.float32))
        check(getattr(xlapy, name), expected, integers, rtol=5e-6)
        wide = reference(integers.astype(np.float64))
    check(getattr(xlapy, name), wide, integers.astype(np.int64), rtol=1e-13)
    assert xlapy.isdtype(getattr(xlapy, name)(1).dtype, "real floating")


def test_names_of_the_array_api() -> None:
    for ours, numpys in (
        ("asin", "arcsin"),
        ("acosh", "arccosh"),
        ("atan2", "arctan2"),
        ("mod", "remainder"),
    ):
        assert getattr(xlapy, ours) is getattr(xlapy, numpys)
    x = np.array([1.5, 2.0], np.float32)
    check(xlapy.acosh, np.arccosh(x), x, rtol=TOLERANCE)


def test_two_operands_to_floats() -> None:
    x, y = np.meshgrid(FLOATS, FLOATS)
    with np.errstate(all="ignore"):
        check(xlapy.hypot, np.hypot(x, y), x, y, rtol=TOLERANCE)
        check(xlapy.atan2, np.arctan2(x, y), x, y, rtol=TOLERANCE)
        check(xlapy.logaddexp, np.logaddexp(x, y), x, y, rtol=TOLERANCE)
    large = np.array([3e30, 1e-30], np.float32)
    check(xlapy.hypot, np.hypot(large, large), large, large, rtol=TOLERANCE)
    assert str(xlapy.hypot(xlapy.asarray([3]), 4)) == "[5.]"


def test_neighbours() -> None:
    x, y = np.meshgrid(FLOATS, FLOATS)
    check(xlapy.nextafter, np.nextafter(x, y), x, y)


def test_derivatives_at_the_edges() -> None:
    for x, y in ((0.0, 0.0), (3.0, 4.0)):
        slope = float(xlapy.grad(xlapy.hypot)(x, y))
        assert np.isfinite(slope)
    assert float(xlapy.grad(xlapy.logaddexp)(0.0, 0.0)) == 0.5
    assert float(xlapy.grad(xlapy.log10)(100.0)) == pytest.approx(1 / (100 * np.log(10)), rel=1e-5)
    assert float(xlapy.grad(lambda x: xlapy.clip(x, 0.0, 1.0))(0.5)) == 1.0


@pytest.mark.parametrize(
    "f, at, expected",
    [
        (xlapy.hypot, (0.0, 2.0), [[0.5, 0.0], [0.0, 0.0]]),
        (xlapy.hypot, (-2.0, 0.0), [[0.0, 0.0], [0.0, 0.5]]),
        (xlapy.hypot, (1.0, -1.0), np.array([[1, 1], [1, 1]]) / 8**0.5),
        (xlapy.logaddexp, (0.0, 0.0), [[0.25, -0.25], [-0.25, 0.25]]),
        (xlapy.logaddexp, (3.0, 3.0), [[0.25, -0.25], [-0.25, 0.25]]),
        (xlapy.logaddexp, (0.0, np.inf), [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
def test_second_derivatives_where_operands_meet(
    f: Any, at: tuple[float, float], expected: Any
) -> None:
    found = xlapy.hessian(f, (0, 1))(*np.array(at))
    np.testing.assert_allclose([[float(t) for t in row] for row in found], expected, atol=1e-12)


def test_second_derivative_of_softplus_at_0() -> None:
    assert float(xlapy.grad(xlapy.grad(xlapy.softplus))(0.0)) == 0.25


def test_derivatives_of_negative_powers() -> None:
    small = np.float32(1e-10)
    for n in (1, 2, 3, 4, 7, 16):
        slope = xlapy.grad(lambda x, n=n: x**-n)
        assert float(slope(np.float32(2.0))) == -n * 2.0 ** (-n - 1)
        assert float(slope(np.float32(0.0))) == -np.inf
        assert float(slope(np.float32(np.inf))) == 0.0
    assert float(xlapy.grad(lambda x: x**-2)(small)) == pytest.approx(-2e30, rel=1e-5)
    assert float(xlapy.grad(xlapy.grad(lambda x: x**-2))(np.float32(1e10))) == 0.0
    assert float(xlapy.asarray(np.float64(10.0)) ** -2) == 0.01


def test_logarithms_of_powers_are_exact() -> None:
    check(
        xlapy.log2,
        np.arange(-20, 21, dtype=np.float32),
        2.0 ** np.arange(-20, 21, dtype=np.float32),
    )
    check(xlapy.log10, np.arange(0, 6, dtype=np.float32), 10.0 ** np.arange(0, 6, dtype=np.float32))


def test_rounding_to_decimals() -> None:
    x = np.array([1.234, -5.678, 25.0, 35.0], np.float32)
    check(lambda x: xlapy.round(x, 1), np.round(x, 1), x, rtol=TOLERANCE)
    check(lambda x: xlapy.round(x, -1), np.round(x, -1), x)
    check(lambda x: round(x), np.round(x), x)
    integers = np.array([-25, -15, -14, 5, 15, 24, 26, 150], np.int32)
    check(lambda x: xlapy.round(x, -1), np.round(integers, -1), integers)
    check(lambda x: xlapy.round(x, 2), integers, integers)
    check(lambda x: xlapy.round(x, -30), np.zeros_like(integers), integers)


def test_clipping() -> None:
    check(lambda x: xlapy.clip(x, -1, 1), np.clip(FLOATS, -1, 1), FLOATS)
    check(lambda x: xlapy.clip(x, min=0), np.maximum(FLOATS, 0), FLOATS)
    check(lambda x: xlapy.clip(x, max=0.5), np.minimum(FLOATS, np.float32(0.5)), FLOATS)
    check(lambda x: xlapy.clip(x), FLOATS, FLOATS)
    check(lambda x: x.clip(0, 3), np.clip(INTEGERS, 0, 3), INTEGERS)
    check(lambda x: xlapy.clip(x, 0.5, 2), np.clip(INTEGERS, 0.5, 2).astype(np.float32), INTEGERS)
    check(lambda x: xlapy.clip(x, 2, 1), np.clip(INTEGERS, 2, 1), INTEGERS)
    check(lambda x, y: xlapy.clip(x, y, y + 1), np.clip(FLOATS, 0, 1), FLOATS, np.float32(0))


def test_comparisons() -> None:
    x, y = np.meshgrid(FLOATS, FLOATS)
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        check(getattr(xlapy, name), getattr(np, name)(x, y), x, y)
    check(lambda x: x > 2, INTEGERS > 2, INTEGERS)
    check(lambda x: x == 1, INTEGERS == 1, INTEGERS)
    check(lambda x: x != x[::-1], INTEGERS[::-1] != INTEGERS, INTEGERS)
    check(xlapy.equal, COMPLEX[::-1] == COMPLEX, COMPLEX, COMPLEX[::-1].copy())
    with pytest.raises(DTypeError, match="no order"):
        xlapy.less(xlapy.asarray(COMPLEX), 1)


@pytest.mark.parametrize("dtype", ["u8", "s8", "s32", "u64"])
@pytest.mark.parametrize("scalar", [-(2**40), -1, 300, 2**40, 2**63])
def test_comparisons_with_integers_beyond_the_type(dtype: str, scalar: int) -> None:
    x = np.array([0, 1, 100], xlapy.asarray(0, dtype).dtype.numpy)
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        function = getattr(xlapy, name)
        expected = getattr(np, name)(x.astype(object), scalar).astype(bool)
        check(lambda x, f=function: f(x, scalar), expected, x)
        expected = getattr(np, name)(scalar, x.astype(object)).astype(bool)
        check(lambda x, f=function: f(scalar, x), expected, x)


def test_logic_and_bits() -> None:
    x, y = np.array([0, 1, 6, -4], np.int32), np.array([3, 0, 5, 2], np.int32)
    for name in (
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
    ):
        check(getattr(xlapy, name), getattr(np, name)(x, y), x, y)
    check(lambda x, y: x & y | x ^ y, x & y | x ^ y, x, y)
    check(lambda x: ~x, ~x, x)
    check(lambda x, y: x << y, x << y, x, y)
    check(lambda x, y: x >> y, x >> y, x, y)
    check(lambda x: 1 << x, 1 << y, y)
    unsigned = np.array([255, 128], np.uint8)
    check(lambda x: x >> 3, unsigned >> 3, unsigned)
    check(lambda x: x & True, np.array([True, False]), np.array([True, False]))
    with pytest.raises(DTypeError, match="bitwise"):
        xlapy.ones(2) & 1


def test_where() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    check(lambda x: xlapy.where(x > 2, x, 0), np.where(x > 2, x, 0).astype(np.float32), x)
    check(
        lambda x: xlapy.where(x[:, :1] > 2, x, 1j),
        np.where(x[:, :1] > 2, x, 1j).astype(np.complex64),
        x,
    )
    check(lambda x: xlapy.where(True, x, 2), x, x)
    check(lambda c: xlapy.where(c, 1, 2), np.array([1, 2], np.int32), np.array([5, 0], np.int32))
    slope = xlapy.grad(lambda x: xlapy.sum(xlapy.where(x > 2, x * x, 0.0)))(xlapy.asarray(x))
    np.testing.assert_array_equal(np.asarray(slope), np.where(x > 2, 2 * x, 0))


def test_closeness() -> None:
    x, y = FLOATS, FLOATS + np.float32(1e-6)
    with np.errstate(all="ignore"):
        check(xlapy.isclose, np.isclose(x, y), x, y)
        check(
            lambda x, y: xlapy.isclose(x, y, equal_nan=True), np.isclose(x, y, equal_nan=True), x, y
        )
        check(lambda x, y: xlapy.isclose(x, y, rtol=0, atol=0), np.isclose(x, y, 0, 0), x, y)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn])
def test_narrow_floats(dtype: Any) -> None:
    x = np.array([-2.0, -0.5, 0.25, 1.0, 3.0], dtype)
    check(lambda x: x + x, x + x, x)
    check(lambda x: x * 2, (x.astype(np.float32) * 2).astype(dtype), x)
    check(xlapy.signbit, np.signbit(x.astype(np.float32)), x)
    check(lambda x: x > 0, x.astype(np.float32) > 0, x)


def test_broadcasting() -> None:
    x, y = np.arange(3, dtype=np.int32)[:, None], np.arange(4, dtype=np.int32)
    check(xlapy.add, x + y, x, y)
    check(xlapy.less, x < y, x, y)
    with pytest.raises(ShapeError, match="broadcast"):
        xlapy.ones(3) + xlapy.ones(4)
    with pytest.raises(ShapeError, match="broadcast"):
        xlapy.compile(xlapy.add)(xlapy.ones(3), xlapy.ones(4))
    check(
        xlapy.add,
        np.zeros((0, 3), np.float32),
        np.zeros((0, 1), np.float32),
        np.zeros(3, np.float32),
    )


def test_an_error_names_where_it_was_made() -> None:
    x, y = xlapy.ones(3), xlapy.ones(4)
    with pytest.raises(ShapeError) as found:
        x + y
    for part in ("add: ", "f32[3], f32[4]", "test_arithmetic.py", "x + y"):
        assert part in str(found.value)
    assert str(found.value).count("operands:") == 1

    def traced(x: Any, y: Any) -> Any:
        return xlapy.exp(x) - y  # here

    with pytest.raises(ShapeError) as found:
        xlapy.compile(traced)(x, y)
    assert "subtract: " in str(found.value)
    assert "# here" in str(found.value)


@pytest.mark.parametrize("dtype", ["s4", "s8", "u8", "s16", "s32", "u32", "s64", "u64"])
def test_powers_of_integers_wrap(dtype: str) -> None:
    limits = xlapy.iinfo(dtype)
    kind = xlapy.asarray(0, dtype).dtype.numpy
    bases = [
        b for b in (-7, -3, -2, -1, 0, 1, 2, 3, 5, 7, limits.max, limits.min) if b >= limits.min
    ]
    exponents = [
        n for n in (0, 1, 5, 7, 17, 63, 64, 65, 100, 2**31 - 1, limits.max) if n <= limits.max
    ]
    modulus = 1 << limits.bits
    wrapped = [[pow(b, n, modulus) for b in bases] for n in exponents]
    signed = [[w - modulus if w > limits.max else w for w in row] for row in wrapped]
    x, y = np.array(bases, object).astype(kind), np.array(exponents, object).astype(kind)
    check(lambda x, y: x ** y[:, None], np.array(signed, object).astype(kind), x, y)
    if limits.max >= 100:
        expected = np.array(signed[exponents.index(100)], object).astype(kind)
        check(lambda x: x**100, expected, x)
    if dtype[0] == "s":
        inverses = np.array([b**-1 if abs(b) == 1 else 0 for b in bases]).astype(kind)
        check(lambda x, y: x**-y, inverses, x, np.array(1, kind))


def test_zeros_have_the_sign_of_the_quotient() -> None:
    x, y = np.meshgrid(np.array([-0.0, 0.0, 1.0, -1.0, 3.0], np.float32), FLOATS)
    for name in ("floor_divide", "remainder"):
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x, y)
        for backend in ("pjrt:cpu", "interpreter"):
            with xlapy.use_backend(backend):
                found = getattr(xlapy, name)(xlapy.asarray(x), y).numpy()
                np.testing.assert_array_equal(found, expected)
                known = ~np.isnan(expected)
                np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


def test_sides_and_exponents_are_real() -> None:
    for function in (xlapy.hypot, xlapy.logaddexp):
        with pytest.raises(DTypeError, match=r"must be real.*\[X1\]"):
            function(xlapy.asarray(COMPLEX), 1.0)


def test_logarithms_of_complex_numbers_are_taken_part_by_part() -> None:
    x = np.array([0, 8, -100, 1j, complex(np.inf, 1)], np.complex64)
    with np.errstate(all="ignore"):
        check(xlapy.log2, np.log2(x), x, rtol=TOLERANCE)
        check(xlapy.log10, np.log10(x), x, rtol=TOLERANCE)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_narrow_floats_do_not_cancel(dtype: Any) -> None:
    x = np.array([-3.7, -2.0, -0.75, 0.5, 3.0], dtype)
    wide = x.astype(np.float64)
    # Half a unit in the last place, and a bit for the functions themselves.
    rtol = 0.51 * float(ml_dtypes.finfo(dtype).eps)
    check(
        xlapy.logaddexp, np.logaddexp(wide, wide[::-1]).astype(dtype), x, x[::-1].copy(), rtol=rtol
    )
    share = np.array([math.erfc(-v / math.sqrt(2)) / 2 for v in wide.tolist()])
    check(xlapy.gelu, (wide * share).astype(dtype), x, rtol=rtol)


@pytest.mark.parametrize("decimals", [5, 39, 400, 10**30, -5, -39, -400, -(10**30)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint8])
def test_rounding_to_decimals_that_the_type_lacks(decimals: int, dtype: Any) -> None:
    values: list[Any] = [0, 1, 25, 127]
    if np.dtype(dtype).kind == "f":
        values = [*values, 1.5, -2.345, 30000.7, np.inf, -np.inf, np.nan]
    x = np.array(values, dtype)
    with np.errstate(all="ignore"):
        rounded = np.round(x.astype(np.float64), decimals) if abs(decimals) == 5 else x * 0
        expected = np.where(np.isinf(x) | (decimals > 5), x, rounded).astype(dtype)
        check(lambda x: xlapy.round(x, decimals), expected, x)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64])
def test_closeness_of_integers_does_not_wrap(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    numbers = [
        limits.min,
        limits.min + 1,
        0,
        1,
        2,
        100,
        limits.max // 2,
        limits.max - 1,
        limits.max,
    ]
    x, y = np.meshgrid(np.array(numbers, dtype), np.array(numbers, dtype))
    expected = [[abs(a - b) <= 1e-8 + 1e-5 * abs(b) for a in numbers] for b in numbers]
    check(xlapy.isclose, np.array(expected), x, y)
    check(lambda x, y: xlapy.isclose(x, y, rtol=0, atol=0), x == y, x, y)


@pytest.mark.parametrize("divisor", [1.0, -1.0, 0.5])
@pytest.mark.parametrize("x", [0.0, 1.0, -3.0, 2.25])
def test_remainders_have_a_derivative_at_multiples(x: float, divisor: float) -> None:
    for f in (xlapy.remainder, xlapy.fmod, lambda a, b: xlapy.divmod(a, b)[1]):
        assert float(xlapy.grad(f)(x, divisor)) == 1.0
        whole = np.floor(x / divisor) if f is not xlapy.fmod else np.trunc(x / divisor)
        assert float(xlapy.grad(f, 1)(x, divisor)) == -whole
