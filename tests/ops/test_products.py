"""Matrix products: long thin ones are made of pieces, which nobody may see."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from refusals import refused

from xlapy import ops
from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError
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


NUMBERS = ops.DotDimensionNumbers([1], [0])
PRODUCTS = {
    "dot": ops.dot,
    "dot_general": lambda x, y, **p: ops.dot_general(x, y, NUMBERS, **p),
    "ragged_dot": lambda x, y, **p: ops.ragged_dot(
        x, ops.reshape(y, (1, 2, 2)), [2],
        ops.RaggedDotDimensionNumbers([1], [1], lhs_ragged_dimensions=[0], rhs_group_dimensions=[0]), **p,
    ),
}  # fmt: skip
MIXED = [
    ("f32", "s32"),
    ("f32", "f16"),
    ("f16", "bf16"),
    ("u8", "s32"),
    ("s8", "u8"),
    ("c64", "f32"),
    ("pred", "f32"),
]


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("types", MIXED, ids="x".join)
def test_products_promote_nothing_unasked(name: str, types: tuple[str, str]) -> None:
    left, right = (ops.convert(ops.constant([[0, 1], [1, 1]]), t) for t in types)
    for x, y in ((left, right), (right, left)):
        with refused(DTypeError, r"must be of one element type unless .*\[C13\]"):
            PRODUCTS[name](x, y)
        # XLA multiplies in the type of the larger range; the result is in the one that is asked for.
        for wanted in ("f32", "s32", "c64"):
            found = PRODUCTS[name](x, y, preferred_element_type=wanted)
            assert found.dtype.name == wanted
            assert np.asarray(found).tolist() == [[1, 1], [1, 2]]


def test_convolutions_are_of_one_element_type() -> None:
    x, w = ops.constant(np.ones((1, 1, 3), np.float32)), ops.constant(np.ones((1, 1, 2), np.int32))
    for more in ({}, {"preferred_element_type": "f32"}):
        with refused(DTypeError, r"\[C27\]"):
            ops.conv_general_dilated(x, w, [1], "VALID", **more)
        with refused(DTypeError, r"\[C27\]"):
            ops.dynamic_conv(x, w, [[0, 0]], (1, 1, 2), **more)
