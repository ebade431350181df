"""Random numbers: the published bits, distributions, and independence of where and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from agreement import BACKENDS

import xlapy
from xlapy import random
from xlapy.errors import ConstraintError, DTypeError, ShapeError
from xlapy.random.keys import threefry as threefry_of
from xlapy.staging import composite

KEY = random.key(7)


def test_the_published_vectors() -> None:
    """Of the reference implementation of Random123."""

    @composite(arrays=3)
    def threefry(k: Any, a: Any, b: Any) -> Any:
        return threefry_of(k, a, b)

    for key, counter, expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        words = [np.array([w], np.uint32) for w in counter]
        found = threefry(np.array(key, np.uint32), *words)
        assert tuple(int(f.item()) for f in found) == expected


DRAWS: list[Callable[[Any], Any]] = [
    lambda k: random.bits(k, (3, 5)), lambda k: random.bits(k, 3, "u8"), lambda k: random.bits(k, 3, "u64"),
    lambda k: random.uniform(k, 7), lambda k: random.uniform(k, 7, "f64"), lambda k: random.uniform(k, 3, "bf16"),
    lambda k: random.uniform(k, (), "f16", -2, 3), lambda k: random.randint(k, (2, 3), -5, 5),
    lambda k: random.randint(k, 9, 0, 2**40, "s64"), lambda k: random.randint(k, 9, 0, 256, "u8"),
    lambda k: random.bernoulli(k, 0.3, 9), lambda k: random.split(k, 3), lambda k: random.split(k, (2, 2)),
    lambda k: random.fold_in(k, 12), lambda k: random.permutation(k, 9), lambda k: random.choice(k, 9, (2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS, ids=range(len(DRAWS)))
def test_a_key_gives_the_same_everywhere(draw: Callable[[Any], Any]) -> None:
    found = []
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            k = random.key(7)
            found += [np.asarray(draw(k)), np.asarray(xlapy.compile(draw)(k))]
            found.append(np.asarray(xlapy.vmap(draw)(xlapy.stack([k, random.key(8)])))[0])
    for f in found[1:]:
        np.testing.assert_array_equal(f, found[0])


def test_the_documented_stream() -> None:
    long = random.bits(KEY, 11).numpy()
    np.testing.assert_array_equal(random.bits(KEY, 4).numpy(), long[:4])
    np.testing.assert_array_equal(random.bits(KEY, (2, 5)).numpy().ravel(), long[:10])
    wide = random.bits(KEY, 3, "u64").numpy()
    np.testing.assert_array_equal(wide & 0xFFFFFFFF, long[0:6:2])
    np.testing.assert_array_equal(wide >> 32, long[1:6:2])
    np.testing.assert_array_equal(random.bits(KEY, 4, "u8").numpy(), long[:4] >> 24)
    assert random.key(42).tolist() == [0, 42]
    assert random.key(-1).tolist() == [2**32 - 1] * 2
    assert random.key(2**32 + 5).tolist() == [1, 5]
    assert random.key(xlapy.asarray(-1)).tolist() == [2**32 - 1] * 2
    assert random.key(xlapy.asarray(2**33 + 1, "u64")).tolist() == [2, 1]
    assert xlapy.compile(random.key)(xlapy.asarray(5)).tolist() == [0, 5]
    keys = random.split(KEY, 5).numpy()
    np.testing.assert_array_equal(random.split(KEY).numpy(), keys[:2])
    np.testing.assert_array_equal(
        random.fold_in(KEY, 3).numpy(), random.fold_in(KEY, xlapy.asarray(3)).numpy()
    )
    everything = np.concatenate([long, keys.ravel(), random.fold_in(KEY, 0).numpy()])
    assert len(set(everything.tolist())) == everything.size


def test_floats_lie_in_their_interval() -> None:
    for dtype in ("f16", "bf16", "f32", "f64"):
        x = random.uniform(KEY, 20000, dtype).numpy().astype(np.float64)
        assert x.min() >= 0
        assert x.max() < 1
        assert abs(x.mean() - 0.5) < 0.01
        y = random.uniform(KEY, 20000, dtype, -3, 5).numpy().astype(np.float64)
        assert y.min() >= -3
        assert y.max() < 5
        assert abs(y.mean() - 1) < 0.1
    bounds = xlapy.asarray([[0.0], [10.0]])
    z = random.uniform(KEY, (2, 1000), minval=bounds, maxval=bounds + 1).numpy()
    assert abs(z.mean(1) - [0.5, 10.5]).max() < 0.05


def moments(x: Any) -> list[float]:
    x = np.asarray(x).astype(np.float64)
    return [x.mean(), x.std(), np.mean(((x - x.mean()) / x.std()) ** 3)]


def test_normal_numbers() -> None:
    for dtype in ("f16", "bf16", "f32", "f64"):
        x = random.normal(KEY, 50000, dtype)
        assert str(x.dtype) == dtype
        np.testing.assert_allclose(moments(x), [0, 1, 0], atol=0.03)
        assert np.isfinite(x.numpy().astype(np.float64)).all()
    z = random.normal(KEY, 50000, "c64").numpy()
    np.testing.assert_allclose(moments(z.real)[:2], [0, 0.5**0.5], atol=0.02)
    np.testing.assert_allclose(np.mean(abs(z) ** 2), 1, atol=0.02)
    assert abs(np.mean(z.real * z.imag)) < 0.02
    t = random.truncated_normal(KEY, -1, 0.5, 20000).numpy()
    assert t.min() >= -1
    assert t.max() <= 0.5


def test_other_distributions() -> None:
    np.testing.assert_allclose(moments(random.exponential(KEY, 100000)), [1, 1, 2], atol=0.1)
    gumbel = moments(random.gumbel(KEY, 100000))
    np.testing.assert_allclose(gumbel, [0.5772, np.pi / 6**0.5, 1.14], atol=0.1)
    p = np.array([0.0, 0.2, 0.9, 1.0], np.float32)
    shares = random.bernoulli(KEY, p, (20000, 4)).numpy().mean(0)
    np.testing.assert_allclose(shares, p, atol=0.02)
    assert random.bernoulli(KEY, xlapy.asarray(p)).shape == (4,)


@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "s32", "u32", "s64", "u64"])
def test_integers(dtype: str) -> None:
    info = xlapy.iinfo(dtype)
    x = random.randint(KEY, 30000, 1, 7, dtype)
    assert str(x.dtype) == dtype
    counts = np.bincount(x.numpy().astype(np.int64), minlength=7)[1:]
    assert counts.sum() == 30000
    assert abs(counts - 5000).max() < 300
    full = random.randint(KEY, 30000, info.min, info.max + 1, dtype).numpy().astype(np.float64)
    scaled = (full - info.min) / (float(info.max) - info.min)
    assert abs(scaled.mean() - 0.5) < 0.01
    assert abs(scaled.std() - 12**-0.5) < 0.01


def test_integers_between_traced_bounds() -> None:
    draw = xlapy.compile(lambda k, low, high: random.randint(k, 1000, low, high))
    x = draw(KEY, xlapy.asarray(-3), xlapy.asarray(4)).numpy()
    assert (x.min(), x.max()) == (-3, 3)
    assert set(draw(KEY, xlapy.asarray(5), xlapy.asarray(5)).tolist()) == {5}
    rows = random.randint(
        KEY, (2, 50), xlapy.asarray([[0], [100]]), xlapy.asarray([[10], [110]])
    ).numpy()
    assert (rows // 100).tolist() == [[0] * 50, [1] * 50]
    span = 3 * 2**61
    wide = random.randint(KEY, 30000, 0, span, "u64").numpy()
    thirds = np.bincount((wide // np.uint64(2**61)).astype(int), minlength=3)
    assert abs(thirds - 10000).max() < 400


def test_orders() -> None:
    x = random.permutation(KEY, 50).numpy()
    assert sorted(x) == list(range(50))
    rows = np.arange(20).reshape(5, 4)
    y = random.permutation(KEY, rows).numpy()
    assert sorted(y.tolist()) == rows.tolist()
    z = random.permutation(KEY, rows, axis=1).numpy()
    assert sorted(z.T.tolist()) == rows.T.tolist()
    firsts = [random.permutation(k, 4).tolist()[0] for k in random.split(KEY, 400)]
    assert abs(np.bincount(firsts, minlength=4) - 100).max() < 40


def test_choices() -> None:
    assert set(random.choice(KEY, 3, 1000).tolist()) == {0, 1, 2}
    assert sorted(random.choice(KEY, 9, 9, replace=False).tolist()) == list(range(9))
    picked = random.choice(KEY, np.arange(12).reshape(3, 4), 2, axis=1)
    assert picked.shape == (3, 2)
    p = np.array([0.1, 0.0, 0.6, 0.3], np.float32)
    shares = np.bincount(random.choice(KEY, 4, 20000, p=p).numpy(), minlength=4) / 20000
    np.testing.assert_allclose(shares, p, atol=0.02)
    assert 1 not in random.choice(KEY, 4, 3, replace=False, p=p).tolist()
    logits = np.log(np.array([[0.2, 0.8], [0.5, 0.5]], np.float32))
    drawn = random.categorical(KEY, logits, shape=(10000, 2)).numpy()
    np.testing.assert_allclose(drawn.mean(0), [0.8, 0.5], atol=0.02)
    assert random.categorical(KEY, logits, axis=0).shape == (2,)


def test_derivatives_pass_through_draws() -> None:
    def loss(mean: Any, scale: Any) -> Any:
        return xlapy.mean(mean + scale * random.normal(KEY, 100))

    slope = xlapy.grad(loss, argnums=(0, 1))(1.0, 2.0)
    np.testing.assert_allclose(float(slope[0]), 1, rtol=1e-5)
    np.testing.assert_allclose(
        float(slope[1]), float(xlapy.mean(random.normal(KEY, 100))), rtol=1e-4
    )


def test_errors() -> None:
    for key in (3, xlapy.asarray([1, 2]), xlapy.asarray([1, 2, 3], "u32"), random.split(KEY)):
        with pytest.raises(DTypeError, match=r"u32\[2\]"):
            random.uniform(key, 3)
    with pytest.raises(ConstraintError):
        random.randint(KEY, 3, 5, 5)
    with pytest.raises(ConstraintError):
        random.randint(KEY, 3, 0, 300, "s8")
    with pytest.raises(DTypeError):
        random.randint(KEY, 3, 0.5, 1)
    with pytest.raises(DTypeError):
        random.uniform(KEY, 3, "s32")
    with pytest.raises(DTypeError):
        random.bits(KEY, 3, "s32")
    with pytest.raises(DTypeError):
        random.key(1.5)
    with pytest.raises(ShapeError):
        random.choice(KEY, 3, 4, replace=False)
    with pytest.raises(ShapeError):
        random.choice(KEY, 3, 4, p=[0.5, 0.5])
    with pytest.raises(ShapeError):
        random.uniform(KEY, -1)


WRONG: list[Callable[[], Any]] = [
    lambda: random.choice(KEY, 3, 2, p=[-1.0, 1.0, 1.0]),
    lambda: random.choice(KEY, 3, 2, p=[0.0, 0.0, 0.0]),
    lambda: random.choice(KEY, 3, 2, p=[0.0, 0.0, 1.0], replace=False),
    lambda: random.choice(KEY, 3, 2, p=np.array([np.nan, 1, 1])),
    lambda: random.choice(KEY, 3, 2, replace="no"),
    lambda: random.bernoulli(KEY, 2.0),
    lambda: random.bernoulli(KEY, np.float32(-0.5)),
    lambda: random.bernoulli(KEY, float("nan")),
    lambda: random.uniform(KEY, 3, minval=5.0, maxval=1.0),
    lambda: random.uniform(KEY, 3, minval=0.0, maxval=float("inf")),
    lambda: random.uniform(KEY, 3, maxval=np.float64("nan")),
    lambda: random.uniform(KEY, 2, minval=np.zeros(3)),
    lambda: random.uniform(KEY, 2, minval=np.zeros((2, 2))),
    lambda: random.truncated_normal(KEY, 3.0, 1.0, 3),
    lambda: random.truncated_normal(KEY, 10.0, 11.0, 3),
    lambda: random.truncated_normal(KEY, -11.0, -10.0, 3),
    lambda: random.bernoulli(KEY, np.ones(3) / 2, 2),
    lambda: random.categorical(KEY, np.zeros((3, 0))),
    lambda: random.categorical(KEY, np.zeros((3, 2)), shape=(2,)),
    lambda: random.randint(KEY, 2, np.zeros(3, np.int32), 9),
]


@pytest.mark.parametrize("draw", WRONG, ids=range(len(WRONG)))
def test_what_nothing_can_be_drawn_from(draw: Callable[[], Any]) -> None:
    for way in (draw, xlapy.compile(draw)):
        with pytest.raises((ConstraintError, DTypeError), match=r"^\w+: .*; got .*\[X1\]"):
            way()


@pytest.mark.parametrize("backend", BACKENDS)
def test_bounds_at_the_limits_of_the_type(backend: str) -> None:
    with xlapy.use_backend(backend):
        largest = float(np.finfo(np.float32).max)
        x = random.uniform(random.key(1), 1000, minval=-largest, maxval=largest).numpy()
        assert np.isfinite(x).all()
        assert (x < 0).mean() == pytest.approx(0.5, abs=0.1)
        for dtype, low, high in (
            ("s8", -300, 300),
            ("u8", -5, 1000),
            ("u8", 250, 256),
            ("s64", 0, 9),
        ):
            limits = xlapy.iinfo(dtype)
            x = random.randint(
                random.key(7), 1000, xlapy.asarray(low), xlapy.asarray(high), dtype
            ).numpy()
            assert x.min() == max(low, limits.min)
            assert x.max() == min(high - 1, limits.max)
        # Between tensors that leave nothing, the lower one as far as it fits.
        assert random.randint(
            random.key(7), 2, xlapy.asarray(500), xlapy.asarray(900), "s8"
        ).tolist() == [
            127,
            127,
        ]


def test_bounds_may_be_arrays() -> None:
    x = random.randint(KEY, (1000, 2), np.array([0, 10]), [[5, 20]])
    assert x.numpy().min(0).tolist() == [0, 10]
    assert x.numpy().max(0).tolist() == [4, 19]
    wide = random.randint(KEY, 100, xlapy.asarray(np.int64(0)), 2**40, "s64")
    assert int(xlapy.max(wide)) > 2**35


def test_numpys_integers_are_numbers() -> None:
    assert random.permutation(KEY, np.int64(5)).tolist() == random.permutation(KEY, 5).tolist()
    assert random.choice(KEY, np.uint8(5), 3).tolist() == random.choice(KEY, 5, 3).tolist()
