"""The kernels against Python's own integers and math, and against values measured on XLA's CPU."""

import cmath
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from xlapy.ops import elementwise_kernels as kernels

INF, NAN = math.inf, math.nan


def _named(names):
    return [np.dtype(getattr(ml_dtypes, name, name)) for name in names.split()]


INTEGERS = _named("int2 uint2 int4 uint4 int8 uint8 int16 uint16 int32 uint32 int64 uint64")
FLOATS = _named(
    "float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz "
    "float8_e5m2 float8_e5m2fnuz float8_e8m0fnu bfloat16 float16 float32 float64"
)
COMPLEXES = [np.dtype(np.complex64), np.dtype(np.complex128)]


@pytest.fixture(autouse=True)
def _warnings_off():
    with np.errstate(all="ignore"):
        yield


def _range(dtype):
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max), int(info.bits)


def _wrap(value, dtype):
    low, _, bits = _range(dtype)
    return (value - low) % (1 << bits) + low


def _integers(dtype):
    low, high, bits = _range(dtype)
    candidates = {low, low + 1, low // 2, -7, -3, -2, -1, 0, 1, 2, 3, 5, bits - 1, bits, bits + 1}
    candidates |= {63, 64, 65, 100, high // 2, high - 1, high, high // 3}
    return [v for v in sorted(candidates) if low <= v <= high]


def _pairs(dtype):
    values = _integers(dtype)
    xs = [x for x in values for _ in values]
    ys = [y for _ in values for y in values]
    return xs, ys, np.array(xs, object).astype(dtype), np.array(ys, object).astype(dtype)


def _as_ints(array):
    return [int(v) for v in array]


def _truncated_quotient(x, y):
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _divide(x, y, dtype):
    if y == 0:  # all ones
        return _wrap(-1, dtype)
    return _wrap(_truncated_quotient(x, y), dtype)


def _remainder(x, y, dtype):
    return x if y == 0 else x - y * _truncated_quotient(x, y)


def _power(x, y, dtype):
    low, _, bits = _range(dtype)
    if y < 0 or (low == 0 and bits >= 8 and y >> (bits - 1)):
        return {1: 1, _wrap(-1, dtype): _wrap(-1 if y % 2 else 1, dtype)}.get(x, 0)
    return _wrap(x ** (y % 64), dtype)


def _unsigned(x, dtype):
    return x % (1 << _range(dtype)[2])


def _shift_left(x, y, dtype):
    y, bits = _unsigned(y, dtype), _range(dtype)[2]
    return _wrap(x << y, dtype) if y < bits else 0


def _shift_right_logical(x, y, dtype):
    return _wrap(_unsigned(x, dtype) >> _unsigned(y, dtype), dtype)


def _shift_right_arithmetic(x, y, dtype):
    bits = _range(dtype)[2]
    signed = x - (1 << bits) if x >= 1 << (bits - 1) else x
    return _wrap(signed >> min(_unsigned(y, dtype), bits - 1), dtype)


BINARY_INTEGER = {
    "add": lambda x, y, t: _wrap(x + y, t),
    "subtract": lambda x, y, t: _wrap(x - y, t),
    "multiply": lambda x, y, t: _wrap(x * y, t),
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "and_": lambda x, y, t: x & y,
    "or_": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
    "shift_left": _shift_left,
    "shift_right_logical": _shift_right_logical,
    "shift_right_arithmetic": _shift_right_arithmetic,
    "mulhi": lambda x, y, t: _wrap(x * y >> _range(t)[2], t),
}
UNARY_INTEGER = {
    "negate": lambda x, t: _wrap(-x, t),
    "abs_": lambda x, t: _wrap(abs(x), t),
    "sign": lambda x, t: (x > 0) - (x < 0),
    "not_": lambda x, t: _wrap(~x, t),
    "square": lambda x, t: _wrap(x * x, t),
    "popcnt": lambda x, t: _wrap(_unsigned(x, t).bit_count(), t),
    "count_leading_zeros": lambda x, t: _wrap(_range(t)[2] - _unsigned(x, t).bit_length(), t),
}


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_binary_integers(name, dtype):
    xs, ys, x, y = _pairs(dtype)
    result = getattr(kernels, name)(x, y)
    assert result.dtype == dtype
    assert _as_ints(result) == [BINARY_INTEGER[name](a, b, dtype) for a, b in zip(xs, ys)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", UNARY_INTEGER)
def test_unary_integers(name, dtype):
    values = _integers(dtype)
    result = getattr(kernels, name)(np.array(values, object).astype(dtype))
    assert result.dtype == dtype
    assert _as_ints(result) == [UNARY_INTEGER[name](v, dtype) for v in values]


def test_bools_are_logical():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert kernels.add(x, y).tolist() == kernels.maximum(x, y).tolist() == (x | y).tolist()
    assert kernels.multiply(x, y).tolist() == kernels.minimum(x, y).tolist() == (x & y).tolist()
    assert kernels.not_(x).tolist() == [True, True, False, False]


def _same(actual, expected):
    """Equal with the signs of zeros, nan equal to nan."""
    actual = np.asarray(actual).astype(np.float64)
    expected = np.asarray(expected, np.float64)
    np.testing.assert_array_equal(actual, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(actual[number]), np.signbit(expected[number]))


SIGNED_ZERO = [d for d in FLOATS if "uz" not in d.name and "8m0" not in d.name]


@pytest.mark.parametrize("dtype", SIGNED_ZERO, ids=str)
@pytest.mark.parametrize("count", [1, 17])  # numpy's vector loops and their tails differ
def test_zeros_are_ordered_by_maximum_and_minimum(dtype, count):
    x = np.array([0.0, -0.0, 0.0, -0.0] * count).astype(dtype)
    y = np.array([-0.0, 0.0, 0.0, -0.0] * count).astype(dtype)
    _same(kernels.maximum(x, y), [0.0, 0.0, 0.0, -0.0] * count)
    _same(kernels.minimum(x, y), [-0.0, -0.0, 0.0, -0.0] * count)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_float_edges(dtype):
    def a(*values):
        return np.array(values, np.float64).astype(dtype)

    _same(kernels.maximum(a(NAN, 1, -INF), a(1, NAN, -1)), [NAN, NAN, -1])
    _same(kernels.minimum(a(NAN, 1, -INF), a(1, NAN, -1)), [NAN, NAN, -INF])
    _same(kernels.clamp(a(0), a(-1, NAN, 3, -0.0), a(2)), [0, NAN, 2, 0])
    _same(kernels.clamp(a(2), a(-1, 5), a(1)), [1, 1])
    _same(kernels.remainder(a(5, -5, 5, 1, INF, -0.0), a(3, 3, -3, 0, 2, 3)),
          [2, -2, 2, NAN, NAN, -0.0])  # fmt: skip
    _same(kernels.power(a(0, -0.0, 0, 1, -8, -2, NAN, INF), a(0, -1, -2, NAN, 0.5, 3, 0, -1)),
          [1, -INF, INF, 1, NAN, -8, 1, 0])  # fmt: skip
    _same(kernels.sign(a(-0.0, 0, -3, 3, NAN, -INF)), [-0.0, 0, -1, 1, NAN, -1])
    _same(kernels.rsqrt(a(0, -0.0, 4, INF, -1)), [INF, -INF, 0.5, 0, NAN])
    _same(kernels.round_nearest_afz(a(0.5, -0.5, 2.5, -2.5, 0.25, -0.25, INF, NAN)),
          [1, -1, 3, -3, 0, -0.0, INF, NAN])  # fmt: skip
    _same(kernels.round_nearest_even(a(0.5, -0.5, 2.5, 1.5, -INF)), [0, -0.0, 2, 2, -INF])
    _same(kernels.floor(a(-0.5, -0.0, 1.5)), [-1, -0.0, 1])
    _same(kernels.ceil(a(-0.5, 0, 1.5)), [-0.0, 0, 2])
    _same(kernels.logistic(a(0, INF, -INF)), [0.5, 1, 0])
    _same(kernels.log_plus_one(a(-0.0, -1, -2)), [-0.0, -INF, NAN])
    _same(kernels.cbrt(a(-8, 1, -0.0)), [-2, 1, -0.0])
    x = a(0, 1, INF, -INF, NAN)
    assert kernels.is_finite(x).tolist() == [True, True, False, False, False]
    assert kernels.is_inf(x).tolist() == [False, False, True, True, False]
    assert kernels.is_pos_inf(x).tolist() == [False, False, True, False, False]
    assert kernels.is_neg_inf(x).tolist() == [False, False, False, True, False]


def test_round_afz_of_the_number_below_a_half():
    # x + 0.5 would round up to 1 here
    for dtype in (np.float32, np.float64):
        below = np.nextafter(dtype(0.5), dtype(0))
        assert kernels.round_nearest_afz(np.array([below]))[0] == 0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_total_order(dtype):
    bits = 4 if "float4" in dtype.name else 8 * dtype.itemsize
    patterns = np.arange(min(1 << bits, 1 << 16), dtype=np.uint64)
    if bits > 16:
        patterns = patterns << np.uint64(bits - 16)
    x = patterns.astype(f"u{dtype.itemsize}").view(dtype)
    less = kernels.compare(x[:, None], x[None, :64], direction="LT", compare_type="TOTALORDER")
    equal = kernels.compare(x[:, None], x[None, :64], direction="EQ", compare_type="TOTALORDER")
    assert equal.sum() == min(64, x.size)  # different bits are different
    wide = x.astype(np.float64)
    ordinary = np.less(wide[:, None], wide[None, :64])
    assert (less | ~ordinary).all()  # it extends the order of numbers


def test_total_order_of_nans_and_zeros():
    nan = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    x = np.array([nan[1], -INF, -1, -0.0, 0.0, 1, INF, nan[0]], np.float32)
    grid = {
        d: kernels.compare(x[:, None], x[None], direction=d, compare_type="TOTALORDER")
        for d in ("EQ", "NE", "LT", "LE", "GT", "GE")
    }
    index = np.arange(8)
    assert (grid["LT"] == (index[:, None] < index)).all()
    assert (grid["GE"] == (index[:, None] >= index)).all()
    assert (grid["EQ"] == np.eye(8, dtype=bool)).all()
    assert (grid["NE"] == ~grid["EQ"]).all()
    assert (grid["GT"] == ~grid["LE"]).all()


@pytest.mark.parametrize("dtype", [d for d in FLOATS if "fnuz" in d.name], ids=str)
def test_total_order_of_the_unsigned_nan(dtype):
    nan = np.array([NAN]).astype(dtype)
    rest = np.array([-float(ml_dtypes.finfo(dtype).max), -1, 0, 1]).astype(dtype)
    assert kernels.compare(nan, rest, direction="LT", compare_type="TOTALORDER").all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_next_after(dtype):
    tiny = ml_dtypes.finfo(dtype).smallest_subnormal
    x = np.array([0.0, 0.0, 1.0, -0.0, 0.0, NAN, INF]).astype(dtype)
    y = np.array([1.0, -1.0, 2.0, 0.0, -0.0, 1.0, 0.0]).astype(dtype)
    one = np.array(1.0, dtype)
    up = (one.view(f"u{one.itemsize}") + 1).view(dtype)
    expected = np.array([tiny, -tiny, up, 0.0, -0.0, NAN, ml_dtypes.finfo(dtype).max], np.float64)
    _same(kernels.next_after(x, y), expected)


def _reduced(value, exponent_bits, mantissa_bits):
    """``reduce_precision`` in exact arithmetic."""
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    _, exponent = math.frexp(value)
    unit = Fraction(2) ** (exponent - 1 - mantissa_bits)
    rounded = round(Fraction(value) / unit) * unit  # ties to even
    bias = (1 << (exponent_bits - 1)) - 1
    if abs(rounded) >= Fraction(2) ** (bias + 1):
        return math.copysign(INF, value)
    if abs(rounded) < Fraction(2) ** (1 - bias):  # no subnormals
        return math.copysign(0.0, value)
    return float(rounded)


@pytest.mark.parametrize("exponent_bits, mantissa_bits", [(5, 10), (8, 7), (4, 3), (5, 2), (2, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reduce_precision(dtype, exponent_bits, mantissa_bits):
    rng = np.random.default_rng(0)
    x = np.exp2(rng.uniform(-30, 30, 500)) * rng.choice([-1, 1], 500)
    x = np.concatenate([x, [0.0, -0.0, INF, -INF, NAN, 65520.0, 65519.99, 1.0625, 1.1875]])
    x = x.astype(dtype)
    got = kernels.reduce_precision(x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    assert got.dtype == dtype
    _same(got, [_reduced(float(v), exponent_bits, mantissa_bits) for v in x])


def test_reduce_precision_keeps_nan_without_mantissa():
    x = np.array([NAN, INF], np.float32)
    _same(kernels.reduce_precision(x, exponent_bits=5, mantissa_bits=0), [NAN, INF])


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_convert_float_to_integer_saturates(source, target):
    low, high, _ = _range(target)
    x = np.array([NAN, INF, -INF, 0.9, -0.9, 1.5, -1.5, 1e4, -1e4, 3e38, 2.0**31, 2.0**63, 2.0**64])
    x = x.astype(source)
    expected = [
        0 if math.isnan(v) else low if v < low else high if v > high else int(v)
        for v in map(float, x)
    ]
    # All; those in range of most types; the first value out of range by itself.
    for part in (slice(None), slice(3, 6), slice(10, 11), slice(11, 12), slice(12, 13)):
        assert _as_ints(kernels.convert(x[part], target)) == expected[part]


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_convert_integers_wraps(source, target):
    values = _integers(source)
    result = kernels.convert(np.array(values, object).astype(source), target)
    assert result.dtype == target
    assert _as_ints(result) == [_wrap(v, target) for v in values]


@pytest.mark.parametrize("target", [np.dtype(bool), *INTEGERS, *FLOATS, *COMPLEXES], ids=str)
@pytest.mark.parametrize("source", [np.dtype(bool), *INTEGERS, *FLOATS, *COMPLEXES], ids=str)
def test_convert_every_pair(source, target):
    x = np.array([0, 1, 1, 0]).astype(bool).astype(source)
    if "8m0" in source.name:  # which has no 0
        x = np.array([1, 1, 2, 2]).astype(source)
    if "8m0" in target.name:
        x = np.array([1, 1, 1, 1]).astype(source)
    result = kernels.convert(x, target)
    assert result.dtype == target
    expected = x.astype(np.complex128).real
    if target.kind == "b":
        expected = expected != 0
    elif target in INTEGERS:
        expected = np.minimum(expected, _range(target)[1])
    np.testing.assert_array_equal(result.astype(np.complex128).real, expected)


def test_convert_edges():
    x = np.array([NAN, 500.0, -0.0, INF], np.float32)
    assert kernels.convert(x, bool).tolist() == [True, True, False, True]
    _same(kernels.convert(x, ml_dtypes.float8_e4m3fn), [NAN, NAN, -0.0, NAN])
    _same(kernels.convert(x, ml_dtypes.float8_e5m2), [NAN, 512, -0.0, INF])
    _same(kernels.convert(x, ml_dtypes.float4_e2m1fn), [-0.0, 6, -0.0, 6])
    z = np.array([1.5 + 2j], np.complex64)
    assert kernels.convert(z, np.int32).tolist() == [1]
    assert kernels.convert(np.array([NAN]).astype(ml_dtypes.float8_e4m3fn), np.int8).tolist() == [0]


def test_bitcast_convert():
    x = np.array([1.0, -2.0], np.float32)
    assert kernels.bitcast_convert(x, np.uint32).tolist() == [0x3F800000, 0xC0000000]
    halves = kernels.bitcast_convert(x, np.uint16)
    assert halves.tolist() == [[0, 0x3F80], [0, 0xC000]]
    assert kernels.bitcast_convert(halves, np.float32).tolist() == [1.0, -2.0]
    assert kernels.bitcast_convert(np.float64(1.0), np.uint32).tolist() == [0, 0x3FF00000]
    nibbles = kernels.bitcast_convert(np.array([0xA3], np.uint8), ml_dtypes.uint4)
    assert _as_ints(nibbles[0]) == [3, 0xA]
    signed = kernels.bitcast_convert(nibbles, ml_dtypes.int4)
    assert _as_ints(signed[0]) == [3, -6]
    assert kernels.bitcast_convert(signed, np.uint8).tolist() == [0xA3]
    pairs = kernels.bitcast_convert(signed, ml_dtypes.uint2)
    assert pairs.shape == (1, 2, 2)
    assert _as_ints(pairs.ravel()) == [3, 0, 2, 2]
    assert _as_ints(kernels.bitcast_convert(pairs, ml_dtypes.int4).ravel()) == [3, -6]
    wide = kernels.bitcast_convert(np.arange(8).astype(ml_dtypes.uint4), np.int32)
    assert wide.tolist() == 0x76543210
    f4 = kernels.bitcast_convert(np.array([0x9F], np.uint8), ml_dtypes.float4_e2m1fn)
    _same(f4[0], [-6.0, -0.5])
    strided = np.arange(8, dtype=np.uint16)[::2]
    assert kernels.bitcast_convert(strided, np.uint8)[:, 0].tolist() == [0, 2, 4, 6]


ELEMENTARY = {
    "exponential": (math.exp, cmath.exp),
    "log": (math.log, cmath.log),
    "sqrt": (math.sqrt, cmath.sqrt),
    "sine": (math.sin, cmath.sin),
    "cosine": (math.cos, cmath.cos),
    "tan": (math.tan, cmath.tan),
    "tanh": (math.tanh, cmath.tanh),
    "sinh": (math.sinh, cmath.sinh),
    "cosh": (math.cosh, cmath.cosh),
    "asin": (math.asin, cmath.asin),
    "acos": (math.acos, cmath.acos),
    "atan": (math.atan, cmath.atan),
    "asinh": (math.asinh, cmath.asinh),
    "acosh": (math.acosh, cmath.acosh),
    "atanh": (math.atanh, cmath.atanh),
    "exponential_minus_one": (math.expm1, lambda z: cmath.exp(z) - 1),
    "log_plus_one": (math.log1p, lambda z: cmath.log(1 + z)),
    "rsqrt": (lambda x: 1 / math.sqrt(x), lambda z: 1 / cmath.sqrt(z)),
    "cbrt": (math.cbrt if hasattr(math, "cbrt") else None, lambda z: z ** (1 / 3)),
    "logistic": (lambda x: 1 / (1 + math.exp(-x)), lambda z: 1 / (1 + cmath.exp(-z))),
    "sign": (lambda x: math.copysign(1.0, x), lambda z: z / abs(z)),
}


@pytest.mark.parametrize("dtype", [*FLOATS[-4:], *COMPLEXES], ids=str)
@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(name, dtype):
    rng = np.random.default_rng(0)
    real, of_complex = ELEMENTARY[name]
    if dtype.kind == "c":
        x = (rng.normal(size=200) + 1j * rng.normal(size=200)).astype(dtype)
        expected, eps = [of_complex(complex(v)) for v in x], np.finfo(dtype).eps
    else:
        x = rng.uniform(1.01, 3, 50) if name == "acosh" else rng.uniform(0.01, 0.99, 50)
        x = x.astype(dtype)
        x = x[x > 1] if name == "acosh" else x[x < 1]
        expected, eps = [real(float(v)) for v in x], float(ml_dtypes.finfo(dtype).eps)
    result = getattr(kernels, name)(x)
    assert result.dtype == dtype
    wide = np.complex128 if dtype.kind == "c" else np.float64
    np.testing.assert_allclose(result.astype(wide), expected, rtol=8 * eps)


def test_complex_near_cancellation():
    z = np.array([1e-9 + 2e-9j, -2e-10 + 2e-5j, -1.3e-12 + 1e-30j], np.complex128)
    for got, v in zip(kernels.log_plus_one(z), z):  # log|1 + z| = log1p(2x + x^2 + y^2) / 2
        x, y = Fraction(v.real), Fraction(v.imag)
        assert got.real == pytest.approx(
            math.log1p(float(2 * x + x * x + y * y)) / 2, rel=1e-15, abs=0
        )
    for got, v in zip(kernels.exponential_minus_one(z), z):
        assert got.real == pytest.approx(v.real + (v.real**2 - v.imag**2) / 2, rel=1e-8, abs=0)


def test_complex_edges():
    big = np.finfo(np.float32).max
    assert kernels.abs_(np.array([3e38 + 3e38j], np.complex64))[0] == np.float32(INF)
    assert kernels.abs_(np.array([3e200 + 4e200j]))[0] == pytest.approx(5e200)
    large = kernels.sign(np.array([0j, complex(big, big)], np.complex64))
    assert large.tolist() == [0, pytest.approx((0.5 + 0.5j) * math.sqrt(2), rel=1e-7)]
    cut = np.array([complex(-4.0, 0.0), complex(-4.0, -0.0)])
    assert kernels.sqrt(cut).tolist() == [2j, -2j]
    _same(kernels.log(cut).imag, [math.pi, -math.pi])
    _same(kernels.asin(np.array([complex(2, 0.0), complex(2, -0.0)])).imag,
          [math.acosh(2), -math.acosh(2)])  # fmt: skip
    # divided as in C's Annex G
    one, infinite = np.array([1 + 1j]), np.array([complex(INF, INF)])
    assert kernels.divide(one, infinite)[0] == 0
    got = kernels.divide(one, np.array([complex(-0.0, 0.0)]))[0]
    assert (got.real, got.imag) == (-INF, -INF)
    assert kernels.rsqrt(infinite)[0] == 0
    assert kernels.rsqrt(np.array([0j]))[0].real == INF
    assert kernels.logistic(np.array([complex(-1e4, 1.0)]))[0] == 0
    z = kernels.complex_(np.array([1.0], np.float32), np.array([-0.0], np.float32))
    assert z.dtype == np.complex64
    assert np.signbit(kernels.imag(z))[0]
    assert not np.signbit(kernels.imag(kernels.conj(z)))[0]
    y, x = np.array([1.0 + 0j]), np.array([2.0 + 0j])
    assert kernels.atan2(y, x)[0] == pytest.approx(math.atan2(1, 2))
    assert kernels.power(x, np.array([3 + 0j]))[0] == pytest.approx(8)


def _digamma(x):
    """By the recurrence and the asymptotic series; accurate away from the root."""
    shift = 0.0
    while x < 40:
        shift -= 1 / x
        x += 1
    return (
        shift
        + math.log(x)
        - 0.5 / x
        - 1 / (12 * x**2)
        + 1 / (120 * x**4)
        - 1 / (252 * x**6)
        + 1 / (240 * x**8)
    )


SPECIAL = {  # the reference, the interval, and the tolerance in ulp
    "erf": (math.erf, -6, 6, 4),
    "erfc": (math.erfc, -6, 26, 8),
    "lgamma": (math.lgamma, 2.5, 40, 16),
    "digamma": (_digamma, 2, 30, 40),
}


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions(name, dtype):
    reference, low, high, ulps = SPECIAL[name]
    x = np.linspace(low, high, 20_001).astype(dtype)  # more than one block
    result = getattr(kernels, name)(x)
    assert result.dtype == dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
    expected = [reference(float(v)) for v in x]
    np.testing.assert_allclose(
        result.astype(np.float64), expected, rtol=ulps * eps, atol=max(tiny, 1e-300)
    )


def test_special_values():
    # Computed with 40 digits.
    def check(kernel, cases):
        *arguments, expected = (np.array(column) for column in zip(*cases))
        np.testing.assert_allclose(kernel(*arguments), expected, rtol=2e-15, atol=0)

    check(kernels.erf_inv, [(1e-300, 8.862269254527580e-301), (0.5, 0.4769362762044698734),
                            (-0.9, -1.1630871536766740867), (1 - 2.0**-53, 5.8635847487551676325),
                            (1.0, INF), (-1.0, -INF)])  # fmt: skip
    check(kernels.lgamma, [(1 + 2.0**-52, -1.2816762426960007e-16), (0.5, 0.57236494292470008707),
                           (-0.5, 1.2655121234846454), (1e-300, 690.77552789821370521),
                           (0.0, INF), (-3.0, INF), (-INF, INF), (INF, INF)])  # fmt: skip
    check(kernels.digamma, [(1.0, -0.57721566490153286061), (0.5, -1.9635100260214234794),
                            (-0.5, 0.036489973978576520559), (0.25, -4.2274535333762654081)])  # fmt: skip
    check(kernels.zeta, [(2.0, 1.0, math.pi**2 / 6), (4.0, 1.0, math.pi**4 / 90),
                         (3.0, 2.0, 0.20205690315959428540), (1.0, 2.0, INF)])  # fmt: skip
    check(kernels.polygamma, [(1.0, 1.0, math.pi**2 / 6), (2.0, 1.0, -2.4041138063191885708),
                              (0.0, 1.0, -0.57721566490153286061)])  # fmt: skip
    check(kernels.bessel_i1e, [(1.0, 0.20791041534970844887), (-1.0, -0.20791041534970844887),
                               (20.0, 0.087506222183288665), (1e-10, 4.9999999995e-11)])  # fmt: skip
    nan = np.array([NAN])
    for name in ("erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i1e"):
        assert np.isnan(getattr(kernels, name)(nan)).all()
    assert np.isnan(kernels.erf_inv(np.array([1.5]))).all()
    assert np.isnan(kernels.digamma(np.array([0.0, -1.0, -2.0]))).all()
    assert np.isnan(kernels.zeta(np.array([0.5]), np.array([2.0]))).all()
    assert np.isnan(kernels.polygamma(np.array([1.5, -1.0]), np.array([2.0, 2.0]))).all()
    assert kernels.lgamma(np.array([1.0, 2.0])).tolist() == [0, 0]


@pytest.mark.parametrize("name", sorted(kernels.__all__))
def test_rank_0_stays_rank_0(name):
    parameters = {
        "compare": {"direction": "LT"},
        "convert": {"dtype": np.int32},
        "bitcast_convert": {"dtype": np.int32},
        "reduce_precision": {"exponent_bits": 5, "mantissa_bits": 10},
    }.get(name, {})
    integral = name in {
        "and_", "or_", "xor", "not_", "mulhi", "popcnt", "count_leading_zeros",
        "shift_left", "shift_right_arithmetic", "shift_right_logical",
    }  # fmt: skip
    kernel = getattr(kernels, name)
    for x in (np.array(1, np.float32), np.float32(1)):
        value = x.astype(np.int32) if integral else x
        for arguments in ((value,), (value, value), (np.bool_(True), value, value)):
            if name == "clamp":
                arguments = (value, value, value)
            try:
                result = kernel(*arguments, **parameters)
            except (TypeError, ValueError, AttributeError):
                continue
            assert result.shape == ()
            assert isinstance(result, (np.ndarray, np.generic))
            break
        else:
            pytest.fail("no number of operands works")


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS, *COMPLEXES, np.dtype(np.bool_)], ids=str)
def test_large_arrays_are_selected_from_bit_by_bit(dtype):
    rng = np.random.default_rng(0)
    # Any bytes: nan of all kinds are among them, and must stay what they are.
    top = 2 if dtype == np.bool_ else 1 << min(_bits_of(dtype), 8)
    raw = rng.integers(0, top, (2, 100, 90 * dtype.itemsize), np.uint8)
    a, b = raw[0].view(dtype), raw[1].view(dtype)
    pred = rng.integers(0, 2, (100, 90)).astype(np.bool_)
    where = np.where(pred[..., None], *raw.reshape(2, 100, 90, -1)).reshape(100, -1)
    assert kernels.select(pred, a, b).tobytes() == where.tobytes()
    turned = kernels.select(pred.T, a.T, np.asfortranarray(b).T)
    assert np.ascontiguousarray(turned.T).tobytes() == where.tobytes()
    one = np.broadcast_to(b[:1, :1], a.shape)
    spread = kernels.select(pred, a, one)
    assert spread.dtype == dtype
    assert spread[pred].tobytes() == a[pred].tobytes()
    assert spread[~pred].tobytes() == one[~pred].tobytes()
    assert kernels.select(np.array(True), a, b).tobytes() == a.tobytes()


def _bits_of(dtype):
    narrow = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
    return narrow.get(dtype.name, 8 * dtype.itemsize)
