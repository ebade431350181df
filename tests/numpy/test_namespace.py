"""What the Array API asks of the namespace."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import xlapy
from xlapy.errors import ConstraintError, DTypeError, XlapyError


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


#: the functions of the Array API standard 2024.12, without its extensions
STANDARD = words("""
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros
zeros_like astype broadcast_arrays broadcast_to can_cast finfo iinfo isdtype result_type abs acos acosh add asin asinh
atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip
conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan
less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply
negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract
tan tanh trunc matmul matrix_transpose tensordot vecdot concat expand_dims flip moveaxis permute_dims repeat reshape
roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted where take take_along_axis unique_all
unique_counts unique_inverse unique_values argsort sort cumulative_prod cumulative_sum max mean min prod std sum var
all any diff __array_namespace_info__
""")
CONSTANTS = words("e inf nan newaxis pi __array_api_version__")
DTYPES = words("""
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""")
METHODS = words("""
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__
__floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__
__ne__ __neg__ __or__ __pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device __radd__ __rsub__
__rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rpow__ __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__
dtype device mT ndim shape size T
""")


def test_the_namespace_is_whole() -> None:
    x = xlapy.asarray([[1.0]])
    namespace = x.__array_namespace__()
    assert namespace is xlapy
    missing = [n for n in (*STANDARD, *CONSTANTS, *DTYPES) if not hasattr(namespace, n)]
    assert not missing
    assert not [n for n in METHODS if not hasattr(x, n)]
    assert namespace.__array_api_version__ == "2024.12"
    x.__array_namespace__(api_version="2023.12")
    with pytest.raises(ConstraintError):
        x.__array_namespace__(api_version="2099.12")
    assert not [n for n in STANDARD if not hasattr(xlapy.numpy, n)]


def test_functions_have_docstrings_with_examples() -> None:
    for name, function in vars(xlapy.numpy).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            assert ">>>" in (inspect.getdoc(function) or ""), name


def test_inspection() -> None:
    info = xlapy.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] is xlapy.float32
    assert info.dtypes(kind="bool") == {"bool": xlapy.bool}
    assert info.dtypes()["bfloat16"] is xlapy.bfloat16
    assert set(info.dtypes(kind=("signed integer", "unsigned integer"))) >= {"int8", "uint64"}


def test_kinds() -> None:
    assert xlapy.isdtype(xlapy.float32, "real floating")
    assert xlapy.isdtype("c64", "numeric")
    assert not xlapy.isdtype("pred", "numeric")
    assert xlapy.isdtype(np.int8, ("bool", "signed integer"))
    assert xlapy.isdtype("u8", xlapy.uint8)
    with pytest.raises(DTypeError):
        xlapy.isdtype("f32", "strange kind")


def test_limits() -> None:
    for dtype in ("f16", "bf16", "f32", "f64", "f8e4m3fn", "c64"):
        info = xlapy.finfo(dtype)
        assert info.min == -info.max
        assert 0 < info.eps < 1
    assert xlapy.finfo("f32").max == float(np.finfo(np.float32).max)
    assert xlapy.finfo(xlapy.zeros(2)).bits == 32
    assert xlapy.iinfo("u16").max == 65535
    assert (xlapy.iinfo("s2").min, xlapy.iinfo("s2").max) == (-2, 1)
    for wrong in (
        lambda: xlapy.finfo("s32"),
        lambda: xlapy.iinfo("f32"),
        lambda: xlapy.iinfo("pred"),
    ):
        with pytest.raises(DTypeError):
            wrong()


def test_promotion_of_types() -> None:
    assert xlapy.result_type("f32", 1.0) is xlapy.float32
    assert xlapy.result_type(np.ones(1), xlapy.zeros(2)) is xlapy.float64
    assert xlapy.result_type(True, 1) is xlapy.int32
    assert xlapy.can_cast("s8", "s32")
    assert not xlapy.can_cast("s32", "s8")
    assert not xlapy.can_cast("u64", "s64")
    assert xlapy.broadcast_shapes((2, 1), 3) == (2, 3)
    with pytest.raises(XlapyError):
        xlapy.result_type()
