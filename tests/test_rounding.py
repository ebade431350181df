"""What lies next to a tie becomes the nearest narrow float, whatever it is made of."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases.values import NARROW, beside_ties, numpy_dtype

import xlapy
from xlapy import rounding

TYPES = ("bf16", "f16", "f4e2m1fn", "f6e2m3fn", "f6e3m2fn", *NARROW)


def numbers(name: str) -> np.ndarray[Any, Any]:
    """All numbers of a narrow float type, in order."""
    dtype = numpy_dtype(name)
    bits = np.arange(1 << min(16, 8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    with np.errstate(all="ignore"):
        found = bits[: 1 << int(ml_dtypes.finfo(dtype).bits)].view(dtype).astype(np.float64)
    return np.unique(found[np.isfinite(found)])


@pytest.mark.parametrize("name", TYPES)
def test_of_two_neighbours_the_nearer_one_or_the_even_one(name: str) -> None:
    found = numbers(name)
    low, high = found[:-1], found[1:]
    ties = (low + high) / 2  # exact in float64
    dtype = numpy_dtype(name)
    even = low.astype(dtype).view(f"u{dtype.itemsize}") % 2 == 0
    for given, nearest in (
        (ties, np.where(even, low, high)),
        (np.nextafter(ties, high), high),
        (np.nextafter(ties, low), low),
        (found, found),
    ):
        assert (rounding.astype(given, dtype).astype(np.float64) == nearest).all()


@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
def test_wide_integers(source: str) -> None:
    given = beside_ties("bf16", source)
    candidates = numbers("bf16")
    for x, made in zip(given, rounding.astype(given, numpy_dtype("bf16")), strict=True):
        off = [abs(int(c) - int(x)) for c in candidates if abs(c) >= 2**20]
        assert abs(int(float(made)) - int(x)) == min(off)


def test_other_types_are_numpys() -> None:
    x = np.array([1.5, -300.0, np.inf, np.nan])
    assert rounding.astype(x, np.float32).dtype == np.float32
    narrow = rounding.astype(x, numpy_dtype("f8e5m2")).astype(np.float64)
    np.testing.assert_array_equal(narrow, [1.5, -320.0, np.inf, np.nan])
    four = rounding.astype(np.array([7, -8]), numpy_dtype("s4"))
    assert four.astype(np.int8).tolist() == [7, -8]


BESIDE = 1 + 2**-4 + 2**-40  # between 1 and 1.125 of f8e4m3fn, and nearer to the latter


@pytest.mark.parametrize("backend", ["pjrt:cpu", "interpreter"])
def test_python_numbers_and_constants(backend: str) -> None:
    with xlapy.use_backend(backend):
        one = xlapy.asarray(1.0, "f8e4m3fn")
        made = (
            xlapy.asarray(BESIDE, "f8e4m3fn"), xlapy.asarray([BESIDE], "f8e4m3fn"),
            xlapy.full((2,), BESIDE, dtype="f8e4m3fn"), one * BESIDE, xlapy.compile(lambda x: x * BESIDE)(one),
            xlapy.compile(lambda x, y: x * y)(one, BESIDE), xlapy.asarray(np.array(BESIDE)).astype("f8e4m3fn"),
        )  # fmt: skip
        for x in made:
            assert np.asarray(x).astype(np.float64).ravel()[0] == 1.125
