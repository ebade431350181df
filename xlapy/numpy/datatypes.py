"""Element types: conversion, promotion, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import ml_dtypes
import numpy as np

from xlapy.dtypes import DType, as_dtype, promote
from xlapy.errors import DTypeError
from xlapy.specs import as_shape
from xlapy.specs import broadcast_shapes as broadcast_of_shapes
from xlapy.staging import composite
from xlapy.tensor import Tensor

from . import promotion
from .promotion import as_tensor, call, convert

__all__ = [
    "astype",
    "broadcast_shapes",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements converted to another type.

    Floats become integers by cutting the fraction off; those out of range, and nan, saturate as XLA does it.
    Numbers become truth values by being different from 0.

    Parameters
    ----------
    x : array-like
    dtype : dtype
    copy : bool
        Of the Array API; a tensor's values never change, so it makes no difference.
    device : str or Backend or Device, optional

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        For a complex array and a real type: take `real` first.

    Examples
    --------
    >>> xlapy.astype(xlapy.asarray([1.7, -1.7]), "s32")
    Tensor([ 1, -1], s32[2])
    """
    from .creation import to

    found = _astype(x, as_dtype(dtype))
    return found if device is None else to(found, device)


@composite(arrays=1)
def _astype(x: Any, dtype: DType) -> Tensor:
    if dtype.kind == "bool" and type(x) is Tensor and promotion.is_weak(x):
        x = call("reshape", x, shape=())  # any number is a truth value
    elif type(x) in (bool, int, float, complex) or (type(x) is Tensor and promotion.is_weak(x)):
        x = promotion.at_dtype(x, promotion.result_dtype(x, dtype))
    else:
        x = as_tensor(x)
    if dtype.kind != "bool":
        promotion.require_complex_kept(x.dtype.kind == "complex", dtype)
    if dtype.kind == "bool" and x.dtype.kind != "bool":
        from .comparison import truth

        return truth(x)
    return convert(x, dtype)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The element type on which operands would meet.

    Parameters
    ----------
    *arrays_and_dtypes : array-like or dtype
        Python scalars adapt to the others.

    Returns
    -------
    DType

    Raises
    ------
    DTypeError
        If there is no such type.

    Examples
    --------
    >>> xlapy.result_type("bf16", "s32"), xlapy.result_type(xlapy.zeros(2), 1), xlapy.result_type(1, 0.5)
    (bf16, f32, f32)
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type: there must be at least one argument; got 0 [X1]")
    found: list[Any] = []
    for x in arrays_and_dtypes:
        if type(x) in (bool, int, float, complex):
            found.append(x)
        elif type(x) is Tensor:
            traced_scalar = not x.ndim and promotion.is_weak(x)
            found.append(promotion.weak_value(x) if traced_scalar else x.dtype)
        elif isinstance(x, np.ndarray | np.generic):
            found.append(as_dtype(x.dtype))
        else:
            found.append(as_dtype(x))
    return promotion.result_dtype(*found)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion alone takes one element type to another.

    Parameters
    ----------
    from_ : array-like or dtype
    to : dtype

    Returns
    -------
    bool

    Examples
    --------
    >>> xlapy.can_cast("s8", "s32"), xlapy.can_cast("f32", "s32")
    (True, False)
    """
    source = from_.dtype if type(from_) is Tensor else as_dtype(from_)
    target = as_dtype(to)
    try:
        return promote(source, target) is target
    except DTypeError:
        return False


_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int",),
    "unsigned integer": ("uint",),
    "integral": ("int", "uint"),
    "real floating": ("float",),
    "complex floating": ("complex",),
    "numeric": ("int", "uint", "float", "complex"),
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether an element type is of a kind.

    Parameters
    ----------
    dtype : dtype
    kind : str or dtype or tuple of these
        ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``, ``"real floating"``,
        ``"complex floating"``, ``"numeric"``, or an element type.

    Returns
    -------
    bool

    Examples
    --------
    >>> xlapy.isdtype("bf16", "real floating"), xlapy.isdtype("s8", ("bool", "f32"))
    (True, False)
    """
    found = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return found.kind in _KINDS[kind]
    return found is as_dtype(kind)


@final
@dataclass(frozen=True)
class FloatLimits:
    """What `finfo` gives: the limits of a floating-point type, as Python floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        """The smallest normal number, by numpy's name."""
        return self.smallest_normal


@final
@dataclass(frozen=True)
class IntegerLimits:
    """What `iinfo` gives: the limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating-point type, or of the parts of a complex one.

    Parameters
    ----------
    type : array-like or dtype

    Returns
    -------
    FloatLimits

    Examples
    --------
    >>> xlapy.finfo("bf16").max, xlapy.finfo("f32").eps
    (3.3895313892515355e+38, 1.1920928955078125e-07)
    """
    dtype = _dtype_of(type).real_part
    if dtype.kind != "float":
        raise DTypeError(f"finfo: the element type must be a floating-point one; got {dtype} [X1]")
    info: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    return FloatLimits(
        dtype.bits,
        float(info.eps),
        float(info.max),
        float(info.min),
        float(info.smallest_normal),
        dtype,
    )


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer type.

    Parameters
    ----------
    type : array-like or dtype

    Returns
    -------
    IntegerLimits

    Examples
    --------
    >>> xlapy.iinfo("s8").min, xlapy.iinfo("u4").max
    (-128, 15)
    """
    dtype = _dtype_of(type)
    if not dtype.integer:
        raise DTypeError(f"iinfo: the element type must be an integer one; got {dtype} [X1]")
    signed = dtype.kind == "int"
    high = (1 << (dtype.bits - signed)) - 1
    return IntegerLimits(dtype.bits, high, -high - 1 if signed else 0, dtype)


def _dtype_of(x: Any) -> DType:
    return x.dtype if isinstance(x, Tensor) else as_dtype(x)


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape on which shapes meet.

    Parameters
    ----------
    *shapes : int or sequence of int

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> xlapy.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return broadcast_of_shapes(*[as_shape(s) for s in shapes])
