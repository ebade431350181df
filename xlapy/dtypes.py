"""The element types of XLA, in one table, and the lattice on which they promote."""

from __future__ import annotations

import functools
from typing import Any, Final, final

import ml_dtypes
import numpy as np

from xlapy.errors import DTypeError, shown

__all__ = ["DType", "TABLE", "as_dtype", "promote", "python_scalar", "weak_dtype"]


@final
class DType:
    """One element type.

    Attributes
    ----------
    name : str
        The HLO name, such as ``"f32"`` or ``"pred"``.
    mlir : str
        The MLIR name, such as ``"ui8"`` or ``"i1"``.
    numpy : numpy.dtype
        What arrays of this type have on the host. Types narrower than a byte take a whole byte there.
    kind : str
        ``"bool"``, ``"int"``, ``"uint"``, ``"float"`` or ``"complex"``.
    bits : int
        The width of one element in XLA.
    """

    __slots__ = (
        "bits", "inexact", "integer", "kind", "mlir", "name", "narrow", "numpy", "real", "real_part"
    )  # fmt: skip

    def __init__(self, name: str, mlir: str, numpy: Any, kind: str, bits: int) -> None:
        self.name = name
        self.mlir = mlir
        self.numpy: np.dtype[Any] = np.dtype(numpy)
        self.kind = kind
        self.bits = bits
        self.inexact = kind in ("float", "complex")
        self.integer = kind in ("int", "uint")
        self.real = kind == "float"
        #: narrow floats never promote implicitly
        self.narrow = kind == "float" and bits <= 8
        self.real_part: DType = self

    def __repr__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


def _rows() -> list[DType]:
    m = ml_dtypes
    return [
        DType("pred", "i1", np.bool_, "bool", 1),
        DType("s2", "i2", m.int2, "int", 2),
        DType("s4", "i4", m.int4, "int", 4),
        DType("s8", "i8", np.int8, "int", 8),
        DType("s16", "i16", np.int16, "int", 16),
        DType("s32", "i32", np.int32, "int", 32),
        DType("s64", "i64", np.int64, "int", 64),
        DType("u2", "ui2", m.uint2, "uint", 2),
        DType("u4", "ui4", m.uint4, "uint", 4),
        DType("u8", "ui8", np.uint8, "uint", 8),
        DType("u16", "ui16", np.uint16, "uint", 16),
        DType("u32", "ui32", np.uint32, "uint", 32),
        DType("u64", "ui64", np.uint64, "uint", 64),
        DType("f4e2m1fn", "f4E2M1FN", m.float4_e2m1fn, "float", 4),
        DType("f6e2m3fn", "f6E2M3FN", m.float6_e2m3fn, "float", 6),
        DType("f6e3m2fn", "f6E3M2FN", m.float6_e3m2fn, "float", 6),
        DType("f8e3m4", "f8E3M4", m.float8_e3m4, "float", 8),
        DType("f8e4m3", "f8E4M3", m.float8_e4m3, "float", 8),
        DType("f8e4m3fn", "f8E4M3FN", m.float8_e4m3fn, "float", 8),
        DType("f8e4m3b11fnuz", "f8E4M3B11FNUZ", m.float8_e4m3b11fnuz, "float", 8),
        DType("f8e4m3fnuz", "f8E4M3FNUZ", m.float8_e4m3fnuz, "float", 8),
        DType("f8e5m2", "f8E5M2", m.float8_e5m2, "float", 8),
        DType("f8e5m2fnuz", "f8E5M2FNUZ", m.float8_e5m2fnuz, "float", 8),
        DType("f8e8m0fnu", "f8E8M0FNU", m.float8_e8m0fnu, "float", 8),
        DType("f16", "f16", np.float16, "float", 16),
        DType("bf16", "bf16", m.bfloat16, "float", 16),
        DType("f32", "f32", np.float32, "float", 32),
        DType("f64", "f64", np.float64, "float", 64),
        DType("c64", "complex<f32>", np.complex64, "complex", 64),
        DType("c128", "complex<f64>", np.complex128, "complex", 128),
    ]


#: every element type, in the order of the table
TABLE: Final[tuple[DType, ...]] = tuple(_rows())

_LOOKUP: Final[dict[Any, DType]] = {}
for _row in TABLE:
    _LOOKUP[_row.name] = _row
    _LOOKUP[_row.mlir] = _row
    _LOOKUP[_row.numpy.name] = _row
    _LOOKUP[_row.numpy] = _row
    _LOOKUP[_row.numpy.type] = _row
    _LOOKUP[_row] = _row
# Python's own types mean the default widths, as they do in the creation functions.
_LOOKUP.update({
    "bool": _LOOKUP["pred"], bool: _LOOKUP["pred"], int: _LOOKUP["s32"], float: _LOOKUP["f32"],
    complex: _LOOKUP["c64"], "i1": _LOOKUP["pred"],
})  # fmt: skip
_LOOKUP["c64"].real_part = _LOOKUP["f32"]
_LOOKUP["c128"].real_part = _LOOKUP["f64"]

pred, s32, s64, u32, u64 = (_LOOKUP[n] for n in ("pred", "s32", "s64", "u32", "u64"))
f16, bf16, f32, f64, c64, c128 = (_LOOKUP[n] for n in ("f16", "bf16", "f32", "f64", "c64", "c128"))


def as_dtype(dtype: Any) -> DType:
    """The `DType` that a name, a numpy dtype, a Python type or a `DType` stands for.

    Parameters
    ----------
    dtype : DType or str or numpy.dtype or type
        ``"f32"``, ``"float32"``, ``np.float32``, ``float`` and an `xlapy` dtype all work.

    Returns
    -------
    DType

    Raises
    ------
    DTypeError
        If nothing in XLA corresponds to it, such as strings, objects and dates.

    Examples
    --------
    >>> from xlapy.dtypes import as_dtype
    >>> as_dtype("bfloat16"), as_dtype(np.int8), as_dtype(float)
    (bf16, s8, f32)
    """
    try:
        return _LOOKUP[dtype]
    except (KeyError, TypeError, ValueError):  # another value, or one that has no hash
        pass
    try:
        # A byte order of its own is a matter of the array, not of the element type. To numpy None is float64.
        found = None if dtype is None else _LOOKUP.get(np.dtype(dtype).newbyteorder("="))
    except (TypeError, ValueError, RecursionError, Warning):
        found = None
    if found is None:
        raise DTypeError(f"dtype must be one of XLA's element types; got {shown(dtype)} [X1]")
    return found


_KINDS: Final = ("bool", "uint", "int", "float", "complex")
_BY_KIND_BITS: Final = {
    (d.kind, d.bits): d for d in TABLE if d.bits > 8 or d.kind in ("int", "uint")
}
_BY_KIND_BITS["float", 16] = f16


@functools.cache
def promote(a: DType, b: DType) -> DType:
    """The element type on which two arrays meet in the numpy-like functions.

    The same kind gives the wider one; an integer with a float gives that float, whatever their widths; bf16 with
    f16 gives f32; a signed with an unsigned integer gives the signed one that holds both.

    Parameters
    ----------
    a, b : DType

    Returns
    -------
    DType

    Raises
    ------
    DTypeError
        For a float of 8 bits or fewer with anything else than itself, and for a signed integer with ``u64``:
        no element type holds both, so the choice is the user's.

    Examples
    --------
    >>> promote(as_dtype("s64"), as_dtype("bf16")), promote(as_dtype("u8"), as_dtype("s8"))
    (bf16, s16)
    """
    if a is b:
        return a
    if a.narrow or b.narrow:
        raise DTypeError(
            f"floats of 8 bits and fewer must be converted explicitly; got {a} with {b} [X2]"
        )
    if _KINDS.index(a.kind) > _KINDS.index(b.kind):
        a, b = b, a
    if a.kind == b.kind:
        if a.bits == b.bits:  # the only such pair left is bf16 with f16
            return f32
        return a if a.bits > b.bits else b
    if b.kind == "float" or a.kind == "bool":
        return b
    if b.kind == "complex":
        return c128 if a is f64 else b
    if b.bits > a.bits:
        return b
    wider = _BY_KIND_BITS.get(("int", 2 * a.bits))
    if wider is None:
        raise DTypeError(
            f"two integer types must have one that holds both, so convert one explicitly; got {a} with {b} [X2]"
        )
    return wider


_SCALARS: Final = (bool, int, float, complex)
# The bits of the largest integer that Python makes a float of.
_LARGEST: Final = 1023


def python_scalar(x: Any) -> Any:
    """A Python number, as one of Python's own class where it is of a derived one; None for anything else.

    numpy's scalars are arrays, though some of them are of classes derived from Python's.
    """
    if type(x) in _SCALARS:
        return x
    if isinstance(x, np.generic):
        return None
    if isinstance(x, int):
        return int(x)
    if isinstance(x, float):
        return float(x)
    return complex(x) if isinstance(x, complex) else None


def weak_dtype(scalar: bool | int | float | complex, other: DType) -> DType:
    """The element type that a Python scalar takes beside an array of type `other` (NEP 50).

    Parameters
    ----------
    scalar : bool or int or float or complex
    other : DType

    Returns
    -------
    DType
        `other`, unless the scalar's kind is higher: then the default type of that kind.

    Raises
    ------
    DTypeError
        If `other` is an integer type that does not hold the scalar, or that is beyond every float.
    """
    if isinstance(scalar, bool):
        return other
    if isinstance(scalar, int):
        if other.kind == "bool":
            return weak_dtype(scalar, s32)
        if other.integer:
            low = -(1 << (other.bits - 1)) if other.kind == "int" else 0
            high = (1 << (other.bits - (other.kind == "int"))) - 1
            if not low <= scalar <= high:
                raise DTypeError(f"a Python integer must fit {other}; got {shown(scalar)} [X3]")
        elif scalar.bit_length() > _LARGEST:
            raise DTypeError(f"a Python integer must fit {other}; got {shown(scalar)} [X3]")
        return other
    if isinstance(scalar, float):
        return other if other.inexact else f32
    if other.kind == "complex":
        return other
    return c128 if other is f64 else c64
