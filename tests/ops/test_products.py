"""Matrix products: long thin ones are made of pieces, which nobody may see."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xlapy.dtypes import as_dtype
from xlapy.ops.products import product

THIN = [
    (7001, 32, 40),
    (32, 7001, 40),
    (32, 40, 7001),
    (4096, 32, 32),
    (1, 2000000, 1),
    (500001, 3, 2),
]


@pytest.mark.parametrize("sizes", THIN, ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "c64", "bf16", "s32", "s8", "pred"])
def test_thin_products(sizes: tuple[int, int, int], dtype: str) -> None:
    m, k, n = sizes
    kind = as_dtype(dtype)
    rng = np.random.default_rng(0)
    # Small integers: every order of summation gives the same, and all is exact but the last rounding.
    x, y = (rng.integers(0, 3, shape) for shape in ((m, k), (k, n)))
    exact = np.matmul(x.astype(np.float64), y.astype(np.float64))
    if dtype == "pred":
        wanted = exact > 0
    elif kind.integer:
        wanted = exact.astype(np.int64).astype(kind.numpy)
    else:
        wanted = exact.astype(kind.numpy)
    given = x.astype(kind.numpy), y.astype(kind.numpy)
    turned = [np.asfortranarray(g) for g in given]
    for a, b in itertools.product((given[0], turned[0]), (given[1], turned[1])):
        found = product(a, b, kind)
        assert found.dtype == kind.numpy
        np.testing.assert_array_equal(found, wanted)


def test_stacks_of_thin_products() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(-3, 3, (2, 1, 5000, 17)), rng.integers(-3, 3, (3, 17, 20))
    found = product(x.astype(np.float32), y.astype(np.float32), as_dtype("f32"))
    np.testing.assert_array_equal(found, np.matmul(x, y))
    turned = product(
        y.swapaxes(-1, -2).astype(np.float32),
        x.swapaxes(-1, -2).astype(np.float32),
        as_dtype("f32"),
    )
    np.testing.assert_array_equal(turned, np.matmul(x, y).swapaxes(-1, -2))
    empty = product(np.zeros((0, 5000, 40)), np.zeros((0, 40, 30)), as_dtype("f64"))
    assert empty.shape == (0, 5000, 30)


def test_infinite_sums() -> None:
    x = np.ones((30, 5000), np.float32)
    x[0, 4999] = np.inf
    x[1, 0], x[1, 4999] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        found = product(x, np.ones((5000, 20), np.float32), as_dtype("f32"))
    assert (found[0] == np.inf).all()
    assert np.isnan(found[1]).all()
    assert (found[2:] == 5000).all()
