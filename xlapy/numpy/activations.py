"""Functions of models that are as common as numpy's: softmax, one-hot and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlapy.dtypes import DType, as_dtype
from xlapy.errors import ConstraintError, DTypeError
from xlapy.ops import reduction
from xlapy.specs import as_axes, as_axis, as_flag, as_int, as_ints
from xlapy.staging import composite
from xlapy.tensor import Tensor
from xlapy.trace.sizes import iota_like

from .docstrings import ARRAY, ARRAY_AS_FLOAT, document
from .promotion import as_tensor, call, convert, filled, inexact, spread

__all__ = ["gelu", "log_softmax", "logsumexp", "one_hot", "relu", "silu", "softmax", "softplus"]


def _axes(axis: Any) -> int | tuple[int, ...] | None:
    return axis if axis is None or type(axis) is int else as_ints(axis, "axis")


def _repeated(reduced: Tensor, axes: tuple[int, ...], x: Tensor) -> Tensor:
    """A reduction's result along the axes that were reduced."""
    dims = tuple(i for i in range(x.ndim) if i not in axes)
    return spread(reduced, x.shape, dims, (x,))


def _shifted(x: Any, axis: Any) -> tuple[Tensor, tuple[int, ...], Tensor, DType]:
    """The array less its largest elements, these, and the type of the result."""
    x = inexact(x)
    kind = x.dtype
    if kind.kind != "float":
        raise DTypeError(
            f"the operands must be real, for complex numbers have no order; got {x.spec} [X1]"
        )
    if kind.bits <= 16:
        x = convert(x, as_dtype("f32"))
    axes = as_axes(axis, x.ndim)
    largest = call("stop_gradient", reduction.reduce_max(x, axes)) if axes else x
    # Where all are -inf, or one is inf, nothing is subtracted: the difference would be nan.
    largest = call("select", call("is_finite", largest), largest, filled(largest, 0))
    return call("sub", x, _repeated(largest, axes, x)), axes, largest, kind


def softmax(x: Any, /, axis: int | Sequence[int] = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along axes, without overflow on the way.

    Parameters
    ----------
    x : array-like
        Integers and truth values become floats first.
    axis : int or sequence of int
        By default the last one.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> xlapy.softmax(xlapy.asarray([1000.0, 1000.0]))
    Tensor([0.5, 0.5], f32[2])
    """
    return _softmax(x, _axes(axis))


@composite(arrays=1)
def _softmax(x: Any, axis: Any) -> Tensor:
    shifted, axes, _, kind = _shifted(x, axis)
    powers = call("exp", shifted)
    total = _repeated(reduction.reduce_sum(powers, axes), axes, powers)
    return convert(call("div", powers, total), kind)


def log_softmax(x: Any, /, axis: int | Sequence[int] = -1) -> Tensor:
    """The logarithm of `softmax`, exact where that is small.

    Parameters
    ----------
    x : array-like
        Integers and truth values become floats first.
    axis : int or sequence of int
        By default the last one.

    Returns
    -------
    Tensor
        Of the shape of `x`.

    Examples
    --------
    >>> xlapy.log_softmax(xlapy.asarray([0.0, 1000.0]))
    Tensor([-1000.,     0.], f32[2])
    """
    return _log_softmax(x, _axes(axis))


@composite(arrays=1)
def _log_softmax(x: Any, axis: Any) -> Tensor:
    shifted, axes, _, kind = _shifted(x, axis)
    total = call("log", reduction.reduce_sum(call("exp", shifted), axes))
    return convert(call("sub", shifted, _repeated(total, axes, shifted)), kind)


def logsumexp(
    x: Any, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> Tensor:
    """``log(sum(exp(x)))`` over axes, without overflow on the way.

    Parameters
    ----------
    x : array-like
        Integers and truth values become floats first.
    axis : int or sequence of int, optional
        By default all.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.logsumexp(xlapy.asarray([1000.0, 1000.0]))
    Tensor(1000.6932, f32[])
    """
    return _logsumexp(x, _axes(axis), as_flag(keepdims, "keepdims"))


@composite(arrays=1)
def _logsumexp(x: Any, axis: Any, keepdims: bool) -> Tensor:
    shifted, axes, largest, kind = _shifted(x, axis)
    total = call("log", reduction.reduce_sum(call("exp", shifted), axes))
    found = convert(call("add", total, largest), kind)
    if not keepdims:
        return found
    shape = tuple(1 if i in axes else n for i, n in enumerate(shifted.shape))
    return call("reshape", found, shape=shape)


def one_hot(x: Any, /, num_classes: int, *, dtype: Any = "f32", axis: int = -1) -> Tensor:
    """For each integer a vector that is 1 at its place and 0 elsewhere.

    Parameters
    ----------
    x : array-like of int
        Those that are no place get a vector of zeros.
    num_classes : int
        The length of the vectors.
    dtype : dtype
    axis : int
        Along which axis of the result the vectors lie.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.one_hot(xlapy.asarray([0, 2]), 3)
    Tensor([[1., 0., 0.],
            [0., 0., 1.]], f32[2,3])
    """
    count = as_int(num_classes, "num_classes")
    if count < 0:
        raise ConstraintError(f"one_hot: num_classes must not be negative; got {count} [X1]")
    return _one_hot(x, count, as_dtype(dtype), as_int(axis, "axis"))


@composite(arrays=1)
def _one_hot(x: Any, count: int, dtype: DType, axis: int) -> Tensor:
    x = as_tensor(x)
    if not x.dtype.integer:
        raise DTypeError(f"places must be integers; got {x.spec} [X1]")
    if x.dtype.bits < 32:
        x = convert(x, as_dtype("s32"))
    place = as_axis(axis, x.ndim + 1)
    shape = (*x.shape[:place], count, *x.shape[place:])
    dims = tuple(i for i in range(len(shape)) if i != place)
    wide = spread(x, shape, dims)
    places = iota_like(wide, place, x.dtype)
    return convert(call("compare", wide, places, comparison_direction="EQ"), dtype)


@composite(arrays=1)
def relu(x: Any, /) -> Tensor:
    """``max(x, 0)``, with derivative 0 at 0.

    Examples
    --------
    >>> xlapy.relu(xlapy.asarray([-1.0, 2.0]))
    Tensor([0., 2.], f32[2])
    """
    x = as_tensor(x)
    zero = filled(x, 0)
    # A nan stays one: it is not below 0.
    below = call("compare", x, zero, comparison_direction="LE")
    return call("select", below, zero, x)


@composite(arrays=1)
def silu(x: Any, /) -> Tensor:
    """``x * sigmoid(x)``.

    Examples
    --------
    >>> xlapy.silu(xlapy.asarray([0.0, 100.0]))
    Tensor([  0., 100.], f32[2])
    """
    x = inexact(x)
    return call("mul", x, call("logistic", x))


@composite(arrays=1)
def softplus(x: Any, /) -> Tensor:
    """``log(1 + exp(x))``, without overflow on the way.

    Examples
    --------
    >>> xlapy.softplus(xlapy.asarray([-1000.0, 1000.0]))
    Tensor([   0., 1000.], f32[2])
    """
    from .transcendental import logaddexp

    x = inexact(x)
    return logaddexp(x, filled(x, 0))


def gelu(x: Any, /, *, approximate: bool = False) -> Tensor:
    """``x`` times the normal distribution's share below it.

    Parameters
    ----------
    x : array-like
    approximate : bool
        By a hyperbolic tangent instead of the error function.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.gelu(xlapy.asarray([0.0, 1.0]))
    Tensor([0.       , 0.8413447], f32[2])
    """
    return _gelu(x, as_flag(approximate, "approximate"))


@composite(arrays=1)
def _gelu(x: Any, approximate: bool) -> Tensor:
    x = inexact(x)
    kind = x.dtype
    if kind.kind == "float" and kind.bits <= 16:
        x = convert(x, as_dtype("f32"))
    return convert(_share(x, approximate), kind)


def _share(x: Tensor, approximate: bool) -> Tensor:
    half, one = filled(x, 0.5), filled(x, 1)
    if approximate:
        cube = call("mul", call("mul", x, x), x)
        inner = call("add", x, call("mul", cube, filled(x, 0.044715)))
        level = call("tanh", call("mul", inner, filled(x, math.sqrt(2 / math.pi))))
        return call("mul", call("mul", half, x), call("add", one, level))
    # erfc keeps the small shares of the far negative side exact.
    share = call("erfc", call("mul", call("neg", x), filled(x, math.sqrt(0.5))))
    return call("mul", call("mul", half, x), share)


document(ARRAY, relu)
document(ARRAY_AS_FLOAT, silu, softplus)
