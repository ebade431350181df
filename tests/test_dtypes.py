"""Names of element types, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlapy import ops
from xlapy.dtypes import TABLE, as_dtype
from xlapy.errors import DTypeError


@pytest.mark.parametrize("dtype", TABLE, ids=lambda d: d.name)
def test_every_name_of_a_type_finds_it(dtype: Any) -> None:
    for name in (dtype, dtype.name, dtype.mlir, dtype.numpy, dtype.numpy.name, dtype.numpy.type):
        assert as_dtype(name) is dtype


def test_a_byte_order_is_no_type_of_its_own() -> None:
    assert as_dtype(np.dtype(">f4")) is as_dtype("f32")


NOTHING = [None, "nonsense", object, "M8[s]", "U3", 3, [1], memoryview(bytearray(b"ab"))]


@pytest.mark.parametrize("nothing", NOTHING, ids=lambda x: type(x).__name__)
def test_what_is_no_type_is_refused(nothing: Any) -> None:
    with pytest.raises(DTypeError, match=r"element types; got .* \[X1\]"):
        as_dtype(nothing)


def test_a_conversion_to_nothing_is_refused() -> None:
    with pytest.raises(DTypeError):
        ops.convert([1.0], None)
