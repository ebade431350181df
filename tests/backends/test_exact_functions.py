"""Functions that are composed for XLA: they are as exact as the kernels, complex ones in each part, however small."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import BACKENDS

import xlapy
from xlapy import ops
from xlapy.dtypes import as_dtype

TINY = (1e-30, 1e-10, 1e-4)
POINTS = np.array(
    [complex(s * x, t * y) for s in (1, -1) for t in (1, -1) for x in (*TINY, 1.0, 20.0) for y in (*TINY, 1.0, 20.0)]
)  # fmt: skip
EDGES = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
FUNCTIONS = (ops.sin, ops.cos, ops.sinh, ops.cosh, ops.expm1)


def results(function: Callable[[Any], Any], points: Any) -> list[np.ndarray[Any, Any]]:
    """What each backend gives."""
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            found.append(function(xlapy.asarray(points)).numpy())
    return found


@pytest.mark.parametrize(("dtype", "tolerance"), [("c64", 5e-6), ("c128", 1e-13)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_part(function: Callable[[Any], Any], dtype: str, tolerance: float) -> None:
    first, *others = results(
        function, POINTS.astype({"c64": np.complex64, "c128": np.complex128}[dtype])
    )
    for other in others:
        for part in ("real", "imag"):
            a, b = getattr(other, part), getattr(first, part)
            if function is ops.expm1 and part == "real":
                # A difference where the two terms are alike, exact to the larger one.
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
            else:
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-37)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_real_and_imaginary_numbers(function: Callable[[Any], Any]) -> None:
    """On the axes each part is a real function's, or a zero with its sign."""
    for points in (
        [complex(x, y) for x in EDGES for y in (0.0, -0.0)],
        [complex(0.0, y) for y in EDGES[:4]],
    ):
        first, *others = results(function, np.array(points))
        for other in others:
            for part in ("real", "imag"):
                a, b = getattr(other, part), getattr(first, part)
                # Beside a real part that is no number C leaves the imaginary zero open too.
                told = ~np.isnan(b) if part == "imag" else np.ones(b.shape, bool)
                np.testing.assert_allclose(a[told], b[told], rtol=1e-13)
                zero = b == 0
                np.testing.assert_array_equal(np.signbit(a)[zero], np.signbit(b)[zero])


def test_derivative_by_an_imaginary_step() -> None:
    """The imaginary part of f(x + ih) is h f'(x), to the last bit for a tiny h."""
    with xlapy.use_backend("pjrt:cpu"):
        found = ops.sin(xlapy.asarray(np.array([1.0 + 1e-20j]))).numpy()
    np.testing.assert_allclose(found.imag / 1e-20, np.cos(1.0), rtol=1e-15)


@pytest.mark.parametrize("function", [ops.zeta, ops.polygamma])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_left_of_zero(function: Callable[..., Any], dtype: Any) -> None:
    """Near poles and far from zero, where XLA adds up too few terms."""
    x = np.array([-0.25, -0.75, -1.5, -7.875, -8.5, -9.125, -20.75, -100.25, -1000.5, -1e-3])
    order = np.repeat([2.0, 3.0, 4.0, 7.0], x.size)
    given = [order.astype(dtype), np.tile(x, 4).astype(dtype)]
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            found.append(function(*map(xlapy.asarray, given)).numpy())
    # What cancels is as large as the nearest poles make it.
    pole = np.abs(given[1] - np.rint(given[1])).astype(np.float64)
    size = pole ** -(order + 1) * (720 * 7 * 8 if function is ops.polygamma else 1)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    assert (np.abs(found[0].astype(np.float64) - found[1]) <= tolerance * size).all()


def test_zeta_is_a_sum() -> None:
    """By its definition: the terms up to zero, and the function right of it."""
    with xlapy.use_backend("interpreter"):
        for exponent in (2.0, 3.0, 6.0):
            for q in (-0.3, -11.7, -12.2, -25.5, -60.125):
                terms = sum((q + k) ** -exponent for k in range(int(np.ceil(-q))))
                rest = float(ops.zeta(np.float64(exponent), np.float64(q + np.ceil(-q))).numpy())
                found = float(ops.zeta(np.float64(exponent), np.float64(q)).numpy())
                np.testing.assert_allclose(found, terms + rest, rtol=1e-12, atol=1e-12)


LOGARITHMS: dict[str, Callable[[Any, Any], Any]] = {
    "power": lambda x, y: ops.log(ops.pow(x, y)),
    "root": lambda x, y: xlapy.log(x**0.5),
    "within": lambda x, y: ops.map([x, y], lambda a, b: ops.log(ops.pow(a, b)), [0]),
    "branch": lambda x, y: xlapy.cond(x[0] < 0, lambda z: xlapy.log(z**1.5), lambda z: z, x),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGARITHMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_logarithm_of_a_power(name: str, dtype: Any) -> None:
    """nan where there is no power, and no finite number for one that is infinite or zero."""
    x = [-2.0, -2.0, -3.0, 0.0, -0.0, 4.0, 1e4, 1e4, -np.inf, np.nan, 0.5, 0.0]
    y = [0.5, 2.0, 3.0, 2.0, -3.0, 1.5, 300.0, -300.0, 0.5, 2.0, 2.0, 0.0]
    given = [np.array(v, dtype) for v in (x, y)]
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            for run in (LOGARITHMS[name], xlapy.compile(LOGARITHMS[name])):
                found.append(run(*map(xlapy.asarray, given)).numpy())
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-3 if dtype is np.float16 else 1e-6)


@pytest.mark.parametrize(
    "types",
    [("u64", "u32", "u8"), ("u8", "u16", "u64"), ("u32", "u64", "u16"), ("u64", "f32", "u16"), ("u16", "u8", "u4"),
     ("f64", "u8", "u2"), ("u32", "f32", "u16"), ("u16", "u32", "f32")],
)  # fmt: skip
def test_bits_of_bits(types: tuple[str, ...]) -> None:
    """Step by step, also where a step has as many elements as the one before."""
    first, second, third = (as_dtype(t) for t in types)
    wider = [max(1, b.bits // a.bits) for a, b in ((second, third), (first, second))]
    narrower = max(1, first.bits // second.bits)
    shape = [3, *[n for n in (max(1, wider[0] // narrower), wider[1]) if n > 1]]
    bits = np.arange(int(np.prod(shape)), dtype=np.uint64).reshape(shape) * 0x0123456789ABCDEF
    given = bits.astype(f"u{first.bits // 8}").view(first.numpy)

    def twice(x: Any) -> Any:
        return ops.bitcast_convert_type(ops.bitcast_convert_type(x, second), third)

    found = results(xlapy.compile(twice), given)
    np.testing.assert_array_equal(*[np.ascontiguousarray(f).view(np.uint8) for f in found])


@pytest.mark.parametrize("source", ["u8", "s8", "bf16", "s32", "f64", "u4"])
@pytest.mark.parametrize("target", ["u2", "s2", "u4", "s4", "f4e2m1fn"])
def test_bits_of_constants(source: str, target: str) -> None:
    """Of so many that they are not computed beforehand, and of arguments."""
    first, second = as_dtype(source), as_dtype(target)
    if first.bits <= second.bits:
        pytest.skip("no step to fewer bits")
    values = np.arange(3000).astype(np.float32).astype(first.numpy).reshape(60, 50)

    def constant(x: Any) -> Any:
        return ops.bitcast_convert_type(ops.rev(ops.constant(values), (0,)), second)

    def argument(x: Any) -> Any:
        return ops.bitcast_convert_type(ops.rev(x, (0,)), second)

    for function in (constant, argument):
        found = results(xlapy.compile(function), values)
        np.testing.assert_array_equal(*[np.ascontiguousarray(f).view(np.uint8) for f in found])


# --- quotients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f16", "f8e5m2", "f8e5m2fnuz", "f8e4m3fn"])
def test_quotients_by_what_is_the_same_for_many(dtype: str) -> None:
    """Also where the inverse is no number of the type, or has fewer bits."""
    least = float(xlapy.finfo(dtype).smallest_normal)
    most = float(xlapy.finfo(dtype).max)
    numbers = [0.0, least / 4, least, 1e-5, 3e-3, 0.3, 1.0, 3.0, most / 3, most]
    x = xlapy.asarray(numbers, dtype=dtype).numpy()
    ways: list[Callable[[Any], Any]] = [
        lambda x: x[:, None] / x,
        lambda x: xlapy.stack([x / x[i] for i in range(len(numbers))]),
        lambda x: xlapy.stack([x / float(v) for v in numbers if v]),
        lambda x: xlapy.stack([x[7] / float(v) for v in numbers if v]),
    ]
    for way in ways:
        first, *others = results(xlapy.compile(way), x)
        for other in others:
            np.testing.assert_array_equal(other.astype(np.float32), first.astype(np.float32))


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f64"])
def test_quotients_by_large_constants(dtype: str) -> None:
    large = float(xlapy.finfo(dtype).max) * 0.9
    x = xlapy.full(3, large, dtype=dtype)
    divisor = np.full(3, x.numpy()[0])
    assert xlapy.compile(lambda x: x / divisor)(x).tolist() == [1.0] * 3
    assert xlapy.compile(lambda x: x / float(divisor[0]))(x).tolist() == [1.0] * 3
