"""Random element types, shapes and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.dtypes import DType
from xlapy.specs import TensorSpec

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

#: element types and how often they are drawn; f6 is what XLA does not run
DTYPES = {
    "f32": 30, "f64": 14, "bf16": 7, "f16": 7, "c64": 6, "c128": 5,
    "s32": 16, "s64": 4, "s16": 3, "s8": 4, "u32": 4, "u64": 3, "u16": 2, "u8": 4, "pred": 8,
    "s4": 2, "u4": 2, "s2": 1, "u2": 1, "f4e2m1fn": 1, "f8e3m4": 1, "f8e4m3": 1, "f8e4m3fn": 2,
    "f8e4m3b11fnuz": 1, "f8e4m3fnuz": 1, "f8e5m2": 2, "f8e5m2fnuz": 1, "f8e8m0fnu": 1,
}  # fmt: skip
SIZES = {
    0: 3,
    1: 12,
    2: 18,
    3: 20,
    4: 14,
    5: 10,
    6: 6,
    7: 5,
    8: 5,
    16: 2,
    33: 1,
    65: 1,
    130: 0.5,
    300: 0.3,
}
RANKS = {0: 18, 1: 28, 2: 28, 3: 16, 4: 8, 5: 2}
#: how many programs have all element types alike, whoever uses them
ANY_TYPES = 0.2
#: how the values of a program are drawn: of ordinary size; small integers, so that there are ties and no rounding;
#: anything, with what is not finite and with extremes
MOODS = {"tame": 5, "integral": 2, "wild": 3}
#: arrays are kept small, for a program is to take no time
LARGEST = 600


def weighted(rng: Rng, table: dict[Any, float]) -> Any:
    """A key of a table, as often as its value says."""
    keys = list(table)
    weights = np.array([table[k] for k in keys], float)
    return keys[int(rng.choice(len(keys), p=weights / weights.sum()))]


def draw_shape(rng: Rng, sizes: Sequence[int], rank: int | None = None) -> tuple[int, ...]:
    """A shape of a program's sizes, not too large."""
    rank = weighted(rng, RANKS) if rank is None else rank
    shape = [int(rng.choice(list(sizes))) for _ in range(rank)]
    while np.prod(shape, dtype=np.int64) > LARGEST:
        shape[int(np.argmax(shape))] = 2 if max(shape) > 2 else 1
    return tuple(shape)


def is_low(dtype: DType) -> bool:
    """Floats of which XLA may keep more bits than they have."""
    return dtype.real and dtype.bits < 32


def draw(rng: Rng, spec: TensorSpec, mood: str) -> Array:
    """Values of a spec."""
    dtype = spec.dtype
    if dtype.kind == "bool":
        return rng.integers(0, 2, spec.shape).astype(np.bool_)
    if dtype.integer:
        return _integers(rng, spec, mood)
    values: Any = _floats(rng, dtype, spec.shape, mood)
    with np.errstate(all="ignore"):
        if dtype.kind == "complex":
            values = values + 1j * _floats(rng, dtype, spec.shape, mood)
        return np.asarray(values).astype(dtype.numpy)


def _integers(rng: Rng, spec: TensorSpec, mood: str) -> Array:
    dtype = spec.dtype
    info = ml_dtypes.iinfo(dtype.numpy)
    low, high = int(info.min), int(info.max)
    small: Any = rng.integers(max(low, -5), min(high, 5), spec.shape, endpoint=True)
    if mood == "wild":
        wide = np.int64 if low < 0 else np.uint64
        anything = rng.integers(low, high, spec.shape, dtype=wide, endpoint=True)
        edges = np.array([low, low + 1, high, high - 1, 0, 1, max(low, -1)], wide)
        extreme = rng.choice(edges, spec.shape)
        which = rng.integers(0, 3, spec.shape)
        return np.where(
            which == 0, small.astype(wide), np.where(which == 1, anything, extreme)
        ).astype(dtype.numpy)
    return np.asarray(small).astype(dtype.numpy)


def _floats(rng: Rng, dtype: DType, shape: tuple[int, ...], mood: str) -> Array:
    if mood == "integral":
        return np.asarray(rng.integers(-3, 4, shape), np.float64)
    values = np.asarray(rng.uniform(-2, 2, shape))
    if dtype.name == "f8e8m0fnu":
        values = np.abs(values)
    if rng.random() < 0.2:  # ties
        values = np.round(values * 2) / 2
    if mood != "wild":
        return values
    info = ml_dtypes.finfo(dtype.numpy if dtype.real else dtype.real_part.numpy)
    tiny, largest = float(info.smallest_normal), float(info.max)
    edges = np.array([
        0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, -np.nan, largest, -largest, tiny, -tiny,
        np.sqrt(largest), -np.sqrt(tiny), 1 + float(info.eps), 1 - float(info.eps), 3e4, -170.5, 88.5,
        float(info.smallest_subnormal), tiny / 2, 1e-3, -np.pi, 2.0**31, -(2.0**31), 2.0**63, 255.5,
    ])  # fmt: skip
    magnitude = abs(min(np.log(largest), -np.log(tiny))) * 0.9
    spread = np.exp(rng.uniform(-magnitude, magnitude, shape)) * rng.choice([-1, 1], shape)
    which = rng.integers(0, 5, shape)
    return np.where(
        which == 0, rng.choice(edges, shape), np.where(which == 1, spread, values)
    ).astype(np.float64)
