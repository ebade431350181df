"""Numbers of continuous distributions, and truth values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import DType, as_dtype, python_scalar
from xlapy.errors import ConstraintError, DTypeError, ShapeError
from xlapy.numpy.creation import static_shape
from xlapy.numpy.promotion import broadcast_to_shape, call, convert, filled, inexact
from xlapy.specs import broadcast_shapes
from xlapy.staging import composite
from xlapy.tensor import Tensor

from .keys import stream_bits

__all__ = [
    "bernoulli",
    "exponential",
    "gumbel",
    "gumbel_noise",
    "less",
    "normal",
    "spread",
    "truncated_normal",
    "uniform",
    "wide_dtype",
]

_F32, _F64 = as_dtype("f32"), as_dtype("f64")


def _float(dtype: Any, name: str) -> DType:
    kind = as_dtype(dtype)
    if kind.kind != "float" or kind.bits < 16:
        raise DTypeError(f"{name}: dtype must be f16, bf16, f32 or f64; got {kind} [X1]")
    return kind


def fraction_of(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Multiples of 2**-p in [0, 1), p being the bits of the significand."""
    significant = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[dtype.name]
    words = stream_bits(k, shape, 64 if dtype is _F64 else 32)
    top = call("shift_right_logical", words, filled(words, words.dtype.bits - significant))
    fraction = convert(top, dtype)
    return call("mul", fraction, filled(fraction, 2.0**-significant))


def uniform(
    key: Any,
    /,
    shape: int | Sequence[int] = (),
    dtype: Any = "f32",
    minval: Any = 0.0,
    maxval: Any = 1.0,
) -> Tensor:
    """Numbers uniform in ``[minval, maxval)``.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    dtype : dtype
        f16, bf16, f32 or f64.
    minval, maxval : array-like
        They broadcast to the shape.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.uniform(xlapy.random.key(0), 3).shape
    (3,)
    """
    kind = _float(dtype, "uniform")
    _require_order(minval, maxval, ("minval", "maxval"))
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return _unit(key, static_shape(shape), kind)
    return _uniform(key, minval, maxval, static_shape(shape), kind)


@composite(arrays=1, name="uniform")
def _unit(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return fraction_of(k, shape, dtype)


@composite(arrays=3)
def _uniform(k: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    fraction = fraction_of(k, shape, dtype)
    low, high = (_bound(b, shape, dtype) for b in (low, high))
    # By halves, for the distance of the bounds may be too large for the type.
    start, end = (call("mul", b, filled(b, 0.5)) for b in (low, high))
    found = call("add", call("mul", fraction, call("sub", end, start)), start)
    found = call("mul", found, filled(found, 2))
    # Rounding may have reached the end, which is excluded.
    return call("select", less(found, high), found, low)


def less(x: Tensor, y: Tensor) -> Tensor:
    """Where x is less than y."""
    return call("compare", x, y, comparison_direction="LT")


def _bound(x: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    x = inexact(x)
    if x.dtype.kind == "complex":
        raise DTypeError(f"a bound must be real; got {x.spec} [X1]")
    return spread(convert(x, dtype), shape, "a bound")


def spread(x: Tensor, shape: tuple[int, ...], what: str) -> Tensor:
    """The array repeated to the shape of what is drawn."""
    if broadcast_shapes(x.shape, shape) != shape:
        raise ShapeError(f"{what} must broadcast to {list(shape)}; got {x.spec} [X1]")
    return broadcast_to_shape(x, shape)


def _require_order(low: Any, high: Any, names: tuple[str, str]) -> None:
    """Refuse numbers that are no bounds; the values of tensors are not looked at."""
    known = [python_scalar(b.item() if isinstance(b, np.generic) else b) for b in (low, high)]
    numbers = [b for b in known if isinstance(b, int | float)]
    if any(b != b or b in (math.inf, -math.inf) for b in numbers):
        raise ConstraintError(f"{names[0]} and {names[1]} must be finite; got {known} [X1]")
    if len(numbers) == 2 and not numbers[0] <= numbers[1]:
        raise ConstraintError(f"{names[0]} must not be above {names[1]}; got {known} [X1]")


def open_fraction(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Odd multiples of 2**-p in (-1, 1): symmetric, and never 0 or at an end."""
    width = 64 if dtype is _F64 else 32
    places = 52 if dtype is _F64 else 23
    words = stream_bits(k, shape, width)
    top = call("shift_right_logical", words, filled(words, width - places))
    odd = call("or", call("shift_left", top, filled(top, 1)), filled(top, 1))
    scaled = convert(odd, dtype)
    return call("sub", call("mul", scaled, filled(scaled, 2.0**-places)), filled(scaled, 1))


def wide_dtype(dtype: DType) -> DType:
    """The type to compute numbers of a type in."""
    return _F64 if dtype.bits == 64 else _F32


def normal(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the standard normal distribution.

    The inverse of the distribution function is taken of a uniform number. Complex numbers have variance 1 together.

    Parameters
    ----------
    key : Tensor
    shape : int or sequence of int
    dtype : dtype
        f16, bf16, f32, f64, c64 or c128.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.normal(xlapy.random.key(0), (2, 3)).shape
    (2, 3)
    """
    kind = as_dtype(dtype)
    if kind.kind == "complex":
        return _complex_normal(key, static_shape(shape), kind)
    return _normal(key, static_shape(shape), _float(dtype, "normal"))


@composite(arrays=1)
def _normal(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    fraction = open_fraction(k, shape, wide_dtype(dtype))
    found = call("mul", call("erf_inv", fraction), filled(fraction, math.sqrt(2)))
    return convert(found, dtype)


@composite(arrays=1, name="normal")
def _complex_normal(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    kind = dtype.real_part
    fraction = open_fraction(k, (2, *shape), kind)
    found = call("erf_inv", fraction)
    parts = [
        call(
            "slice", found, start_indices=(i, *[0] * len(shape)), limit_indices=(i + 1, *shape),
            strides=(1,) * (len(shape) + 1),
        )
        for i in (0, 1)
    ]  # fmt: skip
    return call("complex", *[call("reshape", p, shape=shape) for p in parts])


def truncated_normal(
    key: Any,
    /,
    lower: Any = -2.0,
    upper: Any = 2.0,
    shape: int | Sequence[int] = (),
    dtype: Any = "f32",
) -> Tensor:
    """Numbers of the standard normal distribution restricted to ``[lower, upper]``.

    Parameters
    ----------
    key : Tensor
        A key, as `xlapy.random.key` gives.
    lower, upper : array-like
        `lower` is at most 4 and `upper` at least -4 (7 in f64), for the tails beyond are too thin to be drawn from. The
        values of tensors are not looked at.
    shape : int or sequence of int
    dtype : dtype
        A float.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> x = xlapy.random.truncated_normal(xlapy.random.key(0), -1, 1, 100)
    >>> bool(xlapy.all(abs(x) <= 1))
    True
    """
    kind = _float(dtype, "truncated_normal")
    _require_tails(lower, upper, 7.0 if kind is _F64 else 4.0)
    return _truncated(key, lower, upper, static_shape(shape), kind)


def _require_tails(lower: Any, upper: Any, limit: float) -> None:
    """Refuse numbers as bounds between which the distribution function is all but constant in the type."""
    low, high = (
        python_scalar(b.item() if isinstance(b, np.generic) else b) for b in (lower, upper)
    )
    real = [isinstance(b, int | float) for b in (low, high)]
    fine = not (real[0] and not low <= limit) and not (real[1] and not high >= -limit)
    if not fine or (all(real) and not low < high):
        raise ConstraintError(
            f"lower must be below upper, at most {limit} and upper at least -{limit}, for beyond these the numbers"
            f" cannot be told apart; got {low} and {high} [X1]"
        )


@composite(arrays=3, name="truncated_normal")
def _truncated(k: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    kind = wide_dtype(dtype)
    low, high = (_bound(b, shape, kind) for b in (lower, upper))
    root = filled(low, math.sqrt(2))
    start, end = (call("erf", call("div", b, root)) for b in (low, high))
    half = call("mul", call("add", open_fraction(k, shape, kind), filled(low, 1)), filled(low, 0.5))
    level = call("add", start, call("mul", half, call("sub", end, start)))
    found = call("mul", call("erf_inv", level), root)
    return convert(call("clamp", low, found, high), dtype)


def exponential(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the exponential distribution of mean 1.

    Parameters
    ----------
    key : Tensor
        A key, as `xlapy.random.key` gives.
    shape : int or sequence of int
    dtype : dtype
        A float.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> bool(xlapy.all(xlapy.random.exponential(xlapy.random.key(0), 10) > 0))
    True
    """
    return _exponential(key, static_shape(shape), _float(dtype, "exponential"))


def _positive_exponential(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    u = open_fraction(k, shape, dtype)
    half = call("mul", call("add", u, filled(u, 1)), filled(u, 0.5))
    return call("neg", call("log", half))


@composite(arrays=1)
def _exponential(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return convert(_positive_exponential(k, shape, wide_dtype(dtype)), dtype)


def gumbel(key: Any, /, shape: int | Sequence[int] = (), dtype: Any = "f32") -> Tensor:
    """Numbers of the standard Gumbel distribution.

    Parameters
    ----------
    key : Tensor
        A key, as `xlapy.random.key` gives.
    shape : int or sequence of int
    dtype : dtype
        A float.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.gumbel(xlapy.random.key(0), 3).shape
    (3,)
    """
    return _gumbel(key, static_shape(shape), _float(dtype, "gumbel"))


@composite(arrays=1)
def _gumbel(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    return convert(gumbel_noise(k, shape, wide_dtype(dtype)), dtype)


def gumbel_noise(k: Any, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """Numbers of the standard Gumbel distribution, recorded."""
    return call("neg", call("log", _positive_exponential(k, shape, dtype)))


def bernoulli(key: Any, /, p: Any = 0.5, shape: int | Sequence[int] | None = None) -> Tensor:
    """Truth values that are true with a probability.

    Parameters
    ----------
    key : Tensor
    p : array-like
    shape : int or sequence of int, optional
        By default that of `p`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.random.bernoulli(xlapy.random.key(0), 0.5, 4).dtype
    pred
    """
    share = python_scalar(p.item() if isinstance(p, np.generic) else p)
    if isinstance(share, int | float) and not 0 <= share <= 1:
        raise ConstraintError(f"p must be in [0, 1]; got {share} [X1]")
    return _bernoulli(key, p, None if shape is None else static_shape(shape))


@composite(arrays=2)
def _bernoulli(k: Any, p: Any, shape: tuple[int, ...] | None) -> Tensor:
    p = inexact(p)
    if p.dtype.kind != "float":
        raise DTypeError(f"a probability must be real; got {p.spec} [X1]")
    kind = wide_dtype(p.dtype)
    sizes = p.shape if shape is None else shape
    return less(fraction_of(k, sizes, kind), spread(convert(p, kind), sizes, "p"))
