"""Values at the edges of the element types, for the tables of cases."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

#: the edges of the floats that every type of 16 bits and more has; see `subnormals` for those near 0
EDGES = (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 100.0, np.inf, -np.inf, np.nan)
FLOATS = ("f16", "bf16", "f32", "f64")
NARROW = (
    "f8e3m4", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz",
)  # fmt: skip
#: one float of 8 bits of each sort: with infinities, without, with nan in the place of -0
EIGHT_BITS = ("f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz")
INTEGERS = ("s2", "s4", "s8", "s16", "s32", "s64", "u2", "u4", "u8", "u16", "u32", "u64")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy type of an element type's name."""
    from xlapy.dtypes import as_dtype

    return as_dtype(name).numpy


def floats(dtype: str) -> Array:
    """The edges of a float type."""
    return np.array(EDGES).astype(numpy_dtype(dtype))


def subnormals(dtype: str) -> Array:
    """The numbers of a float type beside 0, and beside the least normal ones, of both signs; zeros and ones."""
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    least, normal = float(info.smallest_subnormal), float(info.smallest_normal)
    some = [least, 3 * least, normal / 2, normal - least, normal, normal + least, 0.0, 1.0, np.inf]
    return np.array([*some, *[-x for x in some], np.nan]).astype(numpy_dtype(dtype))


def beside_ties(dtype: str, source: str) -> Array:
    """Numbers of a wide type halfway between two neighbours of a narrow float type, and beside them."""
    bits = int(ml_dtypes.finfo(numpy_dtype(dtype)).nmant)
    if source == "f64":
        ties = np.array([1 + (2 * i + 1) * 2.0 ** -(bits + 1) for i in range(min(4, 1 << bits))])
        some = np.concatenate([ties, ties + 2.0**-40, ties - 2.0**-40])
        return np.concatenate([some, -some])
    width = np.dtype(numpy_dtype(source)).itemsize * 8 - (source[0] == "s")
    ties = [
        ((1 << (bits + 1)) + 2 * i + 1) << (width - bits - 2 - j) for i in range(3) for j in (0, 2)
    ]
    found = [tie + off for tie in ties for off in (-1, 0, 1)]
    return np.array(
        [*found, *([-x for x in found] if source[0] == "s" else [])], numpy_dtype(source)
    )


def extremes(dtype: str) -> Array:
    """What few floats have: the largest and the least numbers of a type, the last bit, signs of zero."""
    info = ml_dtypes.finfo(numpy_dtype(dtype))
    some = [float(info.max), float(info.smallest_subnormal), 1 + float(info.eps), 0.0, 1.0]
    return np.array([*some, *[-x for x in some], np.nan]).astype(numpy_dtype(dtype))


#: f8e8m0fnu about its ends, about 1, and nan; its least number is subnormal in f32, and it has no zero
POWERS = np.array(
    [2.0**-127, 2.0**-126, 2.0**-125, 2.0**-64, 2.0**-1, 1.0, 2.0, 4.0, 2.0**63, 2.0**126, 2.0**127, np.nan]
).astype(ml_dtypes.float8_e8m0fnu)  # fmt: skip
#: why StableHLO's interpreter gives something else for these
POWERLESS = {
    "reference": "StableHLO's interpreter computes in f8e8m0fnu with numbers that it has not"
}
#: floats of which neither of a pair holds all that the other has, or only as numbers that XLA takes for zeros
UNLIKE_FLOATS = (
    ("f16", "f8e8m0fnu"), ("f4e2m1fn", "f8e8m0fnu"), ("f4e2m1fn", "f8e4m3fnuz"), ("bf16", "f16"), ("bf16", "f64"),
    ("f32", "f64"), ("f8e5m2", "f8e4m3fn"), ("f8e8m0fnu", "f32"),
)  # fmt: skip


#: why XLA gives something else than the kernel for these
FLUSHED = {"pjrt": "XLA makes the CPU take subnormal numbers for zeros"}


def integers(dtype: str) -> Array:
    """The extremes of an integer type and what lies beside them and beside 0."""
    info = ml_dtypes.iinfo(numpy_dtype(dtype))
    low, high = int(info.min), int(info.max)
    wanted = sorted({low, low + 1, high, high - 1, 0, 1, max(-1, low), min(5, high)})
    wide = np.int64 if low < 0 else np.uint64
    return np.array(wanted, wide).astype(numpy_dtype(dtype))


def edges(dtype: str) -> Array:
    """The edges of any element type."""
    if dtype == "pred":
        return np.array([False, True])
    if dtype in INTEGERS:
        return integers(dtype)
    if dtype.startswith("c"):
        parts = np.array([0.0, -0.5, 1.0, 2.5])
        return (parts[:, None] + 1j * parts).reshape(-1).astype(numpy_dtype(dtype))
    return floats(dtype)


def pairs(values: Array, others: Array | None = None) -> list[Array]:
    """Every value beside every other, as two arrays of one shape."""
    others = values if others is None else others
    x, y = np.meshgrid(values, others, indexing="ij")
    return [np.ascontiguousarray(x.reshape(-1)), np.ascontiguousarray(y.reshape(-1))]
