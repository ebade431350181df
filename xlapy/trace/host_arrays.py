"""What is no tensor as a numpy array: Python numbers, lists, and other arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from xlapy import rounding
from xlapy.dtypes import DType, as_dtype, weak_dtype
from xlapy.errors import DTypeError, shown
from xlapy.memory import require_memory
from xlapy.specs import MAX_RANK, TensorSpec

__all__ = ["as_array", "host_array", "scalar_array"]

_S32: Final = as_dtype("s32")


def scalar_array(x: Any, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """A Python scalar as a rank-0 array; it must fit the element type exactly (floats may round)."""
    if dtype is None:
        dtype = as_dtype(type(x))
        if dtype.name == "s32":
            weak_dtype(x, dtype)  # must fit
        return _rounded(x, dtype)
    found = weak_dtype(x, dtype)
    if found is not dtype:
        raise DTypeError(
            f"a Python scalar must fit the operands' type {dtype}; got {shown(x)} [X3]"
        )
    return _rounded(x, dtype)


def _rounded(x: Any, dtype: DType) -> np.ndarray[Any, Any]:
    with np.errstate(over="ignore"):  # too large for the type: infinite, as for XLA
        return rounding.astype(as_array(x), dtype.numpy)


def as_array(x: bool | int | float | complex) -> np.ndarray[Any, Any]:
    """A Python scalar as an array; an integer beyond numpy's, of which it would make an object, as a float."""
    return np.asarray(float(x) if type(x) is int and not -(1 << 63) <= x < 1 << 64 else x)


def host_array(x: Any) -> np.ndarray[Any, Any]:
    """A numpy array of one of XLA's element types, in the machine's byte order and C order, from any array-like."""
    if isinstance(x, np.ndarray | np.generic):
        if type(x) is not np.ndarray and hasattr(x, "filled") and np.any(x.mask):  # type: ignore[union-attr]
            raise DTypeError(
                f"a masked array must have no masked elements; got {int(np.sum(x.mask))} of them [X1]\n"  # type: ignore[union-attr]
                "  x.filled(value) gives them a value"
            )
        array = np.asarray(x)
        dtype = as_dtype(array.dtype).numpy
    elif isinstance(x, list | tuple):
        try:
            array = np.asarray(x)
        except (OverflowError, ValueError) as error:
            what = f"nested lists must be of equal lengths, and at most {MAX_RANK} deep"
            raise DTypeError(f"{what}; got {error} [X1]") from None
        kind = array.dtype.kind
        if kind == "u" or (kind == "f" and array.size):
            _require_default_integers(x)
        # Lists hold Python scalars, which have the default widths, or numpy ones, which keep theirs.
        if array.dtype in (np.int64, np.float64, np.complex128) and not any(
            isinstance(v, np.generic | np.ndarray) for v in _leaves(x)
        ):
            narrow = {"i": np.int32, "f": np.float32, "c": np.complex64}[kind]
            if kind == "i" and array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31)):
                raise DTypeError(
                    f"Python integers must fit the default type s32; got {array.flat[abs(array).argmax()]} [X3]"
                )
            array = array.astype(narrow)
        dtype = as_dtype(array.dtype).numpy
    elif hasattr(x, "__array__"):
        array = np.asarray(x)
        dtype = as_dtype(array.dtype).numpy
    elif hasattr(x, "__dlpack__"):
        array = np.from_dlpack(x)
        dtype = as_dtype(array.dtype).numpy
    else:
        raise DTypeError(
            f"an operand must be a tensor, an array or a number; got {type(x).__name__} [X1]"
        )
    try:
        return np.ascontiguousarray(array, dtype).reshape(array.shape)
    except MemoryError:  # a view may have far more elements than it has memory
        require_memory("an array", [TensorSpec(array.shape, dtype)])
        raise


def _require_default_integers(x: Any) -> None:
    """Refuse large Python integers, of which numpy makes unsigned ones, or floats if there are negative ones too."""
    numbers = list(_leaves(x))
    if all(type(v) in (bool, int) for v in numbers):
        for v in numbers:
            weak_dtype(v, _S32)


def _leaves(x: Any) -> Iterator[Any]:
    for v in x:
        if isinstance(v, list | tuple):
            yield from _leaves(v)
        else:
            yield v
