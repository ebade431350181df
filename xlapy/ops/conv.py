"""Conv and its forms with more to say: each gives the rest its default."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from xlapy.specs import as_int, as_ints, as_word, require
from xlapy.tensor import Tensor
from xlapy.trace.mode import bind

from .contraction import operands_of, preferred
from .convolution import ConvolutionDimensionNumbers, convolution_op
from .dot_algorithm import as_precision_config

__all__ = [
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
]


def _numbers(dimension_numbers: Any, rank: int) -> ConvolutionDimensionNumbers:
    if dimension_numbers is None:
        return ConvolutionDimensionNumbers.default(rank)
    if isinstance(dimension_numbers, str):
        return ConvolutionDimensionNumbers.parse(dimension_numbers)
    require(
        isinstance(dimension_numbers, ConvolutionDimensionNumbers),
        "X1",
        "dimension_numbers must be ConvolutionDimensionNumbers or text such as 'b01f_01io->b01f'",
        dimension_numbers,
    )
    found: ConvolutionDimensionNumbers = dimension_numbers
    return found


def _shorthand(
    padding: Any,
    x: Tensor,
    y: Tensor,
    strides: tuple[int, ...],
    numbers: ConvolutionDimensionNumbers,
) -> tuple[tuple[int, int], ...]:
    """The pairs that SAME and VALID stand for."""
    word = as_word(padding)
    require(word in ("SAME", "VALID"), "X4", "padding must be 'SAME' or 'VALID'", padding)
    pairs = []
    spatial = zip(numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, strides)
    for left, right, stride in spatial:
        total = 0
        if word == "SAME" and left < x.ndim and right < y.ndim and stride > 0:
            n, k = x.shape[left], y.shape[right]
            total = max(0, (math.ceil(n / stride) - 1) * stride + k - n)
        pairs.append((total // 2, total - total // 2))
    return tuple(pairs)


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: int | Sequence[int],
    padding: Any,
    lhs_dilation: int | Sequence[int] | None = None,
    rhs_dilation: int | Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
    window_reversal: Sequence[bool] | None = None,
) -> Tensor:
    """A window of weights moved over an array; at each place the sum of products.

    Parameters
    ----------
    lhs : array
        The input: a batch dimension, one of features, and the spatial ones.
    rhs : array
        The weights: input features (those of one group), output features, and the sizes of the window.
    window_strides : sequence of int
        How far the window moves, along each spatial dimension.
    padding : sequence of pairs of int, or str
        How many zeros are put before and after each spatial dimension, negative numbers taking elements away; or
        ``"SAME"`` (as many places as elements, divided by the stride) or ``"VALID"`` (none).
    lhs_dilation, rhs_dilation : sequence of int, optional
        Between elements of the input, and of the window, are this many less one zeros.
    dimension_numbers : ConvolutionDimensionNumbers or str, optional
        Which dimension is which; such as ``"b01f_01io->b01f"``. By default ``"bf01_oi01->bf01"``, for as many spatial
        dimensions as there are.
    feature_group_count : int
        Into how many groups the features are divided, each with weights of its own.
    batch_group_count : int
        Into how many groups the batch is divided, each giving its own part of the output features.
    precision_config, preferred_element_type
        As of `dot_general`.
    window_reversal : sequence of bool, optional
        Along which spatial dimensions the weights are turned round.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError
        [C2] to [C24] If parameters do not fit each other or the operands; [X1], [X4] for other dimension numbers or
        words for the padding.
    ShapeError
        [C1] to [C16] If the operands do not fit each other; [X3] if the window has no elements.
    DTypeError
        [C27] If the operands' element types differ.

    Notes
    -----
    Section ConvGeneralDilated of the operation semantics; ``stablehlo.convolution``. The weights are not turned round
    unless `window_reversal` says so. Where the window does not fit in anywhere, the result is empty.

    Examples
    --------
    >>> from xlapy import ops
    >>> x = ops.constant([[[1.0, 2.0, 3.0, 4.0]]])
    >>> ops.conv_general_dilated(x, [[[1.0, 10.0]]], [1], [(0, 0)], rhs_dilation=[2])
    Tensor([[[31., 42.]]], f32[1,1,2])
    """
    x, y = operands_of(lhs, rhs)
    kind = preferred(x, y, preferred_element_type, "C27")
    numbers = _numbers(dimension_numbers, x.ndim)
    count = max(0, x.ndim - 2)
    strides = as_ints(window_strides, "window_strides", "C2")
    if isinstance(padding, str):
        pairs = _shorthand(padding, x, y, strides, numbers)
    else:
        require(isinstance(padding, Iterable), "C4", "padding must be pairs or a word", padding)
        pairs = tuple([_pair(p) for p in padding])
    reversal = (False,) * count if window_reversal is None else window_reversal
    require(
        isinstance(reversal, Iterable), "C9", "window_reversal must be a sequence of bool", reversal
    )
    result: Tensor = bind(
        convolution_op,
        x,
        y,
        window_strides=strides,
        padding=pairs,
        lhs_dilation=_or_ones(lhs_dilation, count, "lhs_dilation", "C5"),
        rhs_dilation=_or_ones(rhs_dilation, count, "rhs_dilation", "C7"),
        window_reversal=tuple([bool(r) for r in reversal]),
        **{
            name: as_int(value, name, "X1") if name.endswith("n") else as_ints(value, name, "X1")
            for name, value in vars(numbers).items()
        },
        feature_group_count=as_int(feature_group_count, "feature_group_count", "C21"),
        batch_group_count=as_int(batch_group_count, "batch_group_count", "C22"),
        precision_config=as_precision_config(precision_config),
        preferred_element_type=kind,
    )
    return result


def _pair(entries: Any) -> tuple[int, int]:
    numbers = as_ints(entries, "padding", "C4")
    require(len(numbers) == 2, "C4", "padding must be a pair for each spatial dimension", entries)
    return numbers[0], numbers[1]


def _or_ones(given: Any, count: int, name: str, label: str) -> tuple[int, ...]:
    return (1,) * count if given is None else as_ints(given, name, label)


def conv_general(
    lhs: Any,
    rhs: Any,
    window_strides: int | Sequence[int],
    padding: Any,
    dimension_numbers: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """A convolution without dilation; padding and dimension numbers are given.

    Parameters
    ----------
    lhs, rhs, window_strides, padding, dimension_numbers, feature_group_count, batch_group_count, precision_config, \
preferred_element_type
        As of `conv_general_dilated`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        As `conv_general_dilated`.

    Notes
    -----
    Section ConvGeneral of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.conv_general(ops.constant([[[1.0], [2.0], [3.0]]]), [[[1.0]], [[1.0]]], 1, [(1, 0)], "b0f_0io->b0f")
    Tensor([[[1.],
             [3.],
             [5.]]], f32[1,3,1])
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        None,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision_config,
        preferred_element_type,
    )


def conv_with_general_dimensions(
    lhs: Any,
    rhs: Any,
    window_strides: int | Sequence[int],
    padding: str,
    dimension_numbers: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """A convolution without dilation, with ``"SAME"`` or ``"VALID"`` padding; dimension numbers are given.

    Parameters
    ----------
    lhs, rhs, window_strides, padding, dimension_numbers, feature_group_count, batch_group_count, precision_config, \
preferred_element_type
        As of `conv_general_dilated`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        As `conv_general_dilated`; [X4] for another padding.

    Notes
    -----
    Section ConvWithGeneralDimensions of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> x = ops.constant([[[1.0], [2.0], [3.0]]])
    >>> ops.conv_with_general_dimensions(x, [[[1.0]], [[1.0]]], 1, "VALID", "b0f_0io->b0f")
    Tensor([[[3.],
             [5.]]], f32[1,2,1])
    """
    require(isinstance(padding, str), "X4", "padding must be 'SAME' or 'VALID'", padding)
    return conv_general(
        lhs,
        rhs,
        window_strides,
        padding,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision_config,
        preferred_element_type,
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: int | Sequence[int],
    padding: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """A convolution without dilation on ``[batch, features, spatial...]`` with ``[output, input, window...]``.

    Parameters
    ----------
    lhs, rhs, window_strides, padding, feature_group_count, batch_group_count, precision_config, preferred_element_type
        As of `conv_general_dilated`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        As `conv_general_dilated`.

    Notes
    -----
    Section ConvWithGeneralPadding of the operation semantics.

    Examples
    --------
    >>> from xlapy import ops
    >>> x = ops.constant([[[1.0, 2.0, 3.0]]])
    >>> ops.conv_with_general_padding(x, [[[1.0, 1.0]]], [1], [(1, -1)])
    Tensor([[[1., 3.]]], f32[1,1,2])
    """
    return conv_general(
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        feature_group_count,
        batch_group_count,
        precision_config,
        preferred_element_type,
    )


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: int | Sequence[int],
    padding: str,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """A convolution of ``[batch, features, spatial...]`` with ``[output, input, window...]``.

    Parameters
    ----------
    lhs, rhs, window_strides, feature_group_count, batch_group_count, precision_config, preferred_element_type
        As of `conv_general_dilated`.
    padding : str
        ``"SAME"`` or ``"VALID"``.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        As `conv_general_dilated`; [X4] for another padding.

    Notes
    -----
    Section Conv of the operation semantics. With SAME the padding is as even as it can be, the odd zero at the end.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.conv(ops.constant([[[1.0, 2.0, 3.0]]]), [[[1.0, 10.0]]], [1], "SAME")
    Tensor([[[21., 32.,  3.]]], f32[1,1,3])
    """
    return conv_with_general_dimensions(
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        feature_group_count,
        batch_group_count,
        precision_config,
        preferred_element_type,
    )
