"""Numbers rounded once to narrow floats: ml_dtypes goes by float32, so that what lies next to a tie may round twice.

Such a number first keeps few enough bits for float32, with the last of them set if any was lost. That is rounding to
odd: whatever is rounded to fewer bits after it rounds as the number itself would.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from xlapy.dtypes import TABLE

__all__ = ["astype"]

Array = np.ndarray[Any, Any]

_NARROW: Final = frozenset(
    d.numpy for d in TABLE if d.kind == "float" and d.bits <= 16 and d.name != "f16"
)
#: float64 keeps 15 bits: two more than the longest of the narrow floats, and few enough for float32's subnormal
#: numbers where those of bfloat16 begin
_LOST: Final = np.uint64((1 << 38) - 1)
#: int64 and uint64 keep the 53 bits that float64 has
_LOST_OF_INTEGERS: Final = (1 << 11) - 1
_EXACT: Final = 1 << 53


def astype(x: Array, dtype: Any) -> Array:
    """`x.astype(dtype)`, where floats of ml_dtypes are the nearest ones, and of two nearest ones the even one.

    Examples
    --------
    >>> import ml_dtypes, numpy
    >>> x = numpy.array(1 + 2**-4 + 2**-40)  # between 1 and 1.125, and nearer to the latter
    >>> float(x.astype(ml_dtypes.float8_e4m3fn)), float(astype(x, ml_dtypes.float8_e4m3fn))
    (1.0, 1.125)
    """
    kind = x.dtype.kind
    if x.dtype.itemsize >= 4 and kind in "iuf" and np.dtype(dtype) in _NARROW:
        if kind != "f":
            x = _as_float64(x)
        if x.dtype.itemsize == 8:
            x = _to_odd(x)
    return x.astype(dtype)


def _to_odd(x: Array) -> Array:
    bits = x.astype(np.float64, copy=False).view(np.uint64)
    return np.asarray((bits | ((bits & _LOST) + _LOST)) & ~_LOST).view(np.float64)


def _as_float64(x: Array) -> Array:
    """Integers, those beyond 53 bits rounded to odd."""
    if x.dtype.itemsize == 8 and x.size and (x.max() > _EXACT or x.min() < -_EXACT):
        lost = x.dtype.type(_LOST_OF_INTEGERS)
        odd = (x | ((x & lost) + lost)) & ~lost
        x = np.where((x > _EXACT) | (x < -_EXACT), odd, x)
    return x.astype(np.float64)
