"""Random numbers of the operations: the published bits, states, distributions, and programs read from text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import BACKENDS

import xlapy
from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.errors import ShapeError
from xlapy.interchange.hlo import from_hlo
from xlapy.ops.bit_generators import philox4x32, threefry2x32

STATES = {
    "THREE_FRY": np.array([0x123456789ABCDEF0, 2**64 - 3], np.uint64),
    "PHILOX": np.array([0x123456789ABCDEF0, 2**64 - 3, 7], np.uint64),
}


def number(*words: int) -> np.ndarray[Any, Any]:
    """Two words, the low one first."""
    return np.array([words[0] | words[1] << 32], np.uint64)


def test_the_published_vectors() -> None:
    """Of the reference implementation of Random123."""
    top = 0xFFFFFFFF
    for key, counter, expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((top, top), (top, top), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        found = threefry2x32(number(*key), number(*counter))
        assert tuple(int(w[0]) for w in found) == expected
    for key, counter, words in (
        ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((top, top), (top,) * 4, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0xA4093822, 0x299F31D0),
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ):
        found = philox4x32(number(*key), number(*counter[:2]), number(*counter[2:]))
        assert tuple(int(w[0]) for w in found) == words


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("algorithm", STATES)
def test_states_go_on_where_the_last_bits_ended(algorithm: str, backend: str) -> None:
    with xlapy.use_backend(backend):
        start = xlapy.asarray(STATES[algorithm])
        end, whole = ops.rng_bit_generator(algorithm, start, 16, "u64")
        middle, first = ops.rng_bit_generator(f"rng_{algorithm.lower()}", start, 10, "u64")
        last, second = ops.rng_bit_generator(algorithm, middle, 6, "u64")
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    np.testing.assert_array_equal(last, end)
    assert len(set(whole.tolist())) == 16


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("algorithm", STATES)
def test_rows_have_bits_of_their_own(algorithm: str, backend: str) -> None:
    keys = STATES[algorithm] + np.arange(5, dtype=np.uint64)[:, None]
    draw: Callable[[Any], Any] = lambda s: ops.rng_bit_generator(algorithm, s, (3, 5), "s16")  # noqa: E731
    with xlapy.use_backend(backend):
        states, bits = xlapy.vmap(draw)(xlapy.asarray(keys))
        for i, key in enumerate(keys):
            state, row = draw(xlapy.asarray(key))
            np.testing.assert_array_equal(states.numpy()[i], state)
            np.testing.assert_array_equal(bits.numpy()[i], row)


def moments(x: Any) -> list[float]:
    values = np.asarray(x).astype(np.float64)
    return [values.mean(), values.std()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f8e5m2", "f16", "bf16", "f32", "f64"])
def test_floats_are_distributed_right(dtype: str, backend: str) -> None:
    kind = as_dtype(dtype).numpy
    a, b = np.array(-2).astype(kind), np.array(4).astype(kind)
    with xlapy.use_backend(backend):
        evenly = ops.rng_uniform(a, b, (500, 400))
        normal = ops.rng_normal(a, b, (500, 400))
    assert evenly.spec == normal.spec == xlapy.TensorSpec((500, 400), dtype)
    x = evenly.numpy().astype(np.float64)
    assert x.min() >= -2
    # XLA rounds to the end of the interval where it draws in a wider type.
    assert x.max() <= 4
    if backend == "interpreter" or as_dtype(dtype).bits >= 32:
        assert x.max() < 4
    tolerance = 0.1 if dtype == "f8e5m2" else 0.05
    np.testing.assert_allclose(moments(x), [1, 6 / 12**0.5], atol=tolerance)
    np.testing.assert_allclose(np.quantile(x, [0.25, 0.75]), [-0.5, 2.5], atol=tolerance)
    z = normal.numpy().astype(np.float64)
    np.testing.assert_allclose(moments(z), [-2, 4], atol=2 * tolerance)
    np.testing.assert_allclose(np.mean(z < 2), 0.8413, atol=tolerance)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "dtype", ["s2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
)
def test_integers_are_distributed_right(dtype: str, backend: str) -> None:
    kind = as_dtype(dtype)
    low = -2 if kind.kind == "int" else 0
    high = 1 if kind.bits == 2 else 4
    bounds = [np.array(n).astype(kind.numpy) for n in (low, high)]
    with xlapy.use_backend(backend):
        x = ops.rng_uniform(*bounds, 12000)
    assert x.spec == xlapy.TensorSpec((12000,), dtype)
    counts = np.bincount(x.numpy().astype(np.int64) - low, minlength=high - low)
    share = 12000 // (high - low)
    assert len(counts) == high - low
    assert abs(counts - share).max() < 6 * share**0.5


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_widest_intervals(backend: str) -> None:
    with xlapy.use_backend(backend):
        for dtype in (np.int8, np.int32, np.int64, np.uint64):
            info = np.iinfo(dtype)
            x = ops.rng_uniform(dtype(info.min), dtype(info.max), 5000).numpy().astype(np.float64)
            scaled = (x - float(info.min)) / (float(info.max) - float(info.min))
            np.testing.assert_allclose(moments(scaled), [0.5, 12**-0.5], atol=0.03)
    with xlapy.use_backend("interpreter"):
        x = ops.rng_uniform(np.float32(-3e38), np.float32(3e38), 1000).numpy()
        assert np.isfinite(x).all()
        assert set(ops.rng_uniform(5, 5, 10).tolist()) == {5}
        assert set(ops.rng_uniform(5, 1, 10).tolist()) == {5}


@pytest.mark.parametrize("backend", BACKENDS)
def test_draws_differ(backend: str) -> None:
    pair = xlapy.compile(
        lambda: (ops.rng_uniform(0.0, 1.0, 5), ops.rng_uniform(0.0, 1.0, 5)), backend=backend
    )
    with xlapy.use_backend(backend):
        eager = [ops.rng_normal(0.0, 1.0, 5).tolist() for _ in range(2)]
    draws = [*eager, *[x.tolist() for _ in range(2) for x in pair()]]
    assert len({tuple(d) for d in draws}) == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_with_bounds_of_their_own(backend: str) -> None:
    low = np.arange(4, dtype=np.float32) * 10
    with xlapy.use_backend(backend):
        x = xlapy.vmap(lambda a: ops.rng_uniform(a, ops.add(a, 1.0), 50))(xlapy.asarray(low))
        whole = xlapy.vmap(lambda a: ops.rng_uniform(0, a, (2, 9)))(
            xlapy.asarray(np.array([1, 9, 99], np.int32))
        ).numpy()
    rows = x.numpy() - low[:, None]
    assert rows.min() >= 0
    assert rows.max() <= 1
    assert len({tuple(r) for r in rows.tolist()}) == 4
    assert whole.shape == (3, 2, 9)
    assert (whole.max((1, 2)) < [1, 9, 99]).all()


def test_derivatives_are_zero() -> None:
    def loss(a: Any) -> Any:
        drawn = ops.rng_uniform(a, 2.0, 3)
        return xlapy.sum(drawn * a)

    value, slope = xlapy.value_and_grad(loss)(1.0)
    np.testing.assert_allclose(float(slope), float(value), rtol=1e-6)


SIGNED = """module @m {
func.func public @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<5xi32>, tensor<5xf64>) {
  %0:2 = "stablehlo.rng_bit_generator"(%s) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}>
    : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xi32>)
  %1:2 = "stablehlo.rng_bit_generator"(%0#0) <{rng_algorithm = #stablehlo<rng_algorithm PHILOX>}>
    : (tensor<2xui64>) -> (tensor<2xui64>, tensor<5xf64>)
  return %1#0, %0#1, %1#1 : tensor<2xui64>, tensor<5xi32>, tensor<5xf64>
}
}"""


def test_bits_of_other_types_in_text() -> None:
    """XLA itself would make unsigned integers of these."""
    f = xlapy.from_stablehlo(SIGNED)
    found = [f(STATES["THREE_FRY"], backend=b) for b in BACKENDS]
    middle, bits = ops.rng_bit_generator("THREE_FRY", STATES["THREE_FRY"], 5)
    end, words = ops.rng_bit_generator("PHILOX", middle, 5, "u64")
    for state, ints, floats in found:
        np.testing.assert_array_equal(state, end)
        np.testing.assert_array_equal(ints.numpy().view(np.uint32), bits)
        np.testing.assert_array_equal(floats.numpy().view(np.uint64), words)


COMPUTED = """module @m {
func.func public @main(%a: tensor<f32>, %n: tensor<1xi64>) -> (tensor<2x3xf32>, tensor<4xf32>) {
  %two = "stablehlo.constant"() <{value = dense<2> : tensor<1xi64>}> : () -> tensor<1xi64>
  %one = "stablehlo.constant"() <{value = dense<1> : tensor<1xi64>}> : () -> tensor<1xi64>
  %three = "stablehlo.add"(%one, %two) : (tensor<1xi64>, tensor<1xi64>) -> tensor<1xi64>
  %s = "stablehlo.concatenate"(%two, %three) <{dimension = 0 : i64}>
    : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %0 = "stablehlo.rng"(%a, %a, %s) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}>
    : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>
  %1 = "stablehlo.rng"(%a, %a, %n) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}>
    : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<4xf32>
}
}"""


def test_shapes_in_text() -> None:
    """A shape is computed of constants, or stands in the result's type."""
    f = xlapy.from_stablehlo(COMPUTED)
    for backend in BACKENDS:
        x, y = f(np.float32(1.5), np.array([4]), backend=backend)
        assert x.tolist() == [[1.5] * 3] * 2
        assert y.tolist() == [1.5] * 4
    with pytest.raises(ShapeError, match="sizes must be known"):
        xlapy.from_stablehlo(COMPUTED.replace("tensor<4x", "tensor<?x"))


def test_seeds_of_runs() -> None:
    """Newer versions of XLA start their random numbers from the seed of a run."""
    text = """HloModule m
    ENTRY e { ROOT c = u64[] custom-call(), custom_call_target="GetRngSeed" }"""
    f = from_hlo(text)
    for backend in BACKENDS:
        assert f(backend=backend).item() != f(backend=backend).item()


def program(state: Any, mean: Any) -> Any:
    """All three operations."""
    state, bits = ops.rng_bit_generator("PHILOX", state, (3, 5), "u16")
    state, more = ops.rng_bit_generator("DEFAULT", state, 4, "f32")
    draws = ops.rng_normal(mean, 0.5, 4000), ops.rng_uniform(mean, 3.0, 4000)
    return state, bits, ops.bitcast_convert_type(more, "u32"), *draws


@pytest.mark.parametrize("optimized", [False, True])
def test_programs_in_hlo(optimized: bool) -> None:
    """XLA's own text, which holds the operations before and what they are made of after it is optimised."""
    state = STATES["PHILOX"]
    with xlapy.use_backend("pjrt:cpu"):
        lowered = xlapy.compile(program).lower(xlapy.asarray(state), xlapy.asarray(np.float32(1)))
        text = lowered.compile().optimized_hlo_text if optimized else lowered.hlo_text
        wanted = program(xlapy.asarray(state), xlapy.asarray(np.float32(1)))
    assert ("rng-bit-generator" in text) is not optimized
    assert ("rng-get-and-update-state" in text) is optimized
    f = from_hlo(text)
    for backend in BACKENDS:
        found = f(state, np.float32(1), backend=backend)
        for a, b in zip(found[:3], wanted[:3], strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(moments(found[3]), [1, 0.5], atol=0.06)
        np.testing.assert_allclose(moments(found[4]), [2, 2 / 12**0.5], atol=0.06)
