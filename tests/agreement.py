"""Checking functions on tensors against numpy: eagerly, compiled, and on the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xlapy
from xlapy import Tensor

BACKENDS = ("pjrt:cpu", "interpreter")


def host(tree: Any) -> Any:
    """The tensors of a container as numpy arrays."""
    return xlapy.tree.map(lambda x: np.asarray(x) if isinstance(x, Tensor) else x, tree)


def assert_equal(actual: Any, expected: Any, rtol: float = 0.0, dtype: bool = True) -> None:
    """Equal in structure, shape, type and values; nan equals nan."""
    if isinstance(expected, list | tuple):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            assert_equal(a, e, rtol, dtype)
        return
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    if dtype:
        assert actual.dtype == expected.dtype
    if rtol or actual.dtype != expected.dtype:
        kind = np.complex128 if expected.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(
            actual.astype(kind), expected.astype(kind), rtol=rtol, atol=rtol, equal_nan=True
        )
    else:
        np.testing.assert_array_equal(actual, expected)


def check(
    function: Callable[..., Any],
    expected: Any,
    *arrays: Any,
    rtol: float = 0.0,
    dtype: bool = True,
    compiled: bool = True,
) -> None:
    """The function of the arrays gives what is expected, in every way to run it."""
    for backend in BACKENDS:
        with xlapy.use_backend(backend):
            tensors = [xlapy.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]
            assert_equal(host(function(*tensors)), expected, rtol, dtype)
            if compiled:
                assert_equal(host(xlapy.compile(function)(*tensors)), expected, rtol, dtype)
