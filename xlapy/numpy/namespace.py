"""Names for element types and constants, and what the Array API asks of a namespace."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from xlapy.backends.registry import current_backend
from xlapy.backends.registry import devices as devices_of
from xlapy.dtypes import TABLE, DType, as_dtype
from xlapy.errors import ConstraintError, shown

from .datatypes import isdtype

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "bfloat16",
    "bool",
    "bool_",
    "complex128",
    "complex64",
    "e",
    "float16",
    "float32",
    "float4_e2m1fn",
    "float64",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "inf",
    "int16",
    "int2",
    "int32",
    "int4",
    "int64",
    "int8",
    "nan",
    "newaxis",
    "pi",
    "uint16",
    "uint2",
    "uint32",
    "uint4",
    "uint64",
    "uint8",
]

__array_api_version__: Final = "2024.12"

# --- element types ------------------------------------------------------------------------------------------------

bool_ = as_dtype("pred")
int2 = as_dtype("s2")
int4 = as_dtype("s4")
int8 = as_dtype("s8")
int16 = as_dtype("s16")
int32 = as_dtype("s32")
int64 = as_dtype("s64")
uint2 = as_dtype("u2")
uint4 = as_dtype("u4")
uint8 = as_dtype("u8")
uint16 = as_dtype("u16")
uint32 = as_dtype("u32")
uint64 = as_dtype("u64")
float4_e2m1fn = as_dtype("f4e2m1fn")
float6_e2m3fn = as_dtype("f6e2m3fn")
float6_e3m2fn = as_dtype("f6e3m2fn")
float8_e3m4 = as_dtype("f8e3m4")
float8_e4m3 = as_dtype("f8e4m3")
float8_e4m3fn = as_dtype("f8e4m3fn")
float8_e4m3b11fnuz = as_dtype("f8e4m3b11fnuz")
float8_e4m3fnuz = as_dtype("f8e4m3fnuz")
float8_e5m2 = as_dtype("f8e5m2")
float8_e5m2fnuz = as_dtype("f8e5m2fnuz")
float8_e8m0fnu = as_dtype("f8e8m0fnu")
float16 = as_dtype("f16")
bfloat16 = as_dtype("bf16")
float32 = as_dtype("f32")
float64 = as_dtype("f64")
complex64 = as_dtype("c64")
complex128 = as_dtype("c128")
bool = bool_

# --- constants ----------------------------------------------------------------------------------------------------

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None

# --- the namespace ------------------------------------------------------------------------------------------------


class NamespaceInfo:
    """What the Array API's inspection functions are on; see `__array_namespace_info__`."""

    def capabilities(self) -> dict[str, Any]:
        """What is possible: masks as index and results of sizes that depend on values, outside a trace."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 128}

    def default_device(self) -> Any:
        """The device on which new arrays are made."""
        return current_backend().devices[0]

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The element types of Python numbers, and of indices."""
        del device
        return {
            "real floating": float32,
            "complex floating": complex64,
            "integral": int32,
            "indexing": int32,
        }

    def devices(self) -> list[Any]:
        """The devices of the current backend."""
        return devices_of()

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The element types, of a kind as in `isdtype`, by name."""
        del device
        return {d.numpy.name: d for d in TABLE if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """What there is: devices, element types, defaults.

    Examples
    --------
    >>> xlapy.__array_namespace_info__().default_dtypes()["integral"]
    s32
    """
    return NamespaceInfo()


def namespace_of(api_version: str | None = None) -> Any:
    """The module that holds the Array API's functions: `xlapy` itself."""
    if api_version is not None and api_version > __array_api_version__:
        raise ConstraintError(
            f"api_version must be {__array_api_version__} or older; got {shown(api_version)} [X1]"
        )
    return sys.modules[__name__.partition(".")[0]]
