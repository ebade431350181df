"""StableHLO's dynamic_conv: a convolution whose padding is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_int,
    as_ints,
    as_items,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .contraction import require_numbers
from .convolution import (
    ConvolutionDimensionNumbers,
    infer_convolution,
    kernel_convolution,
    read_window,
    window_attributes,
)
from .dot_algorithm import as_precision_config
from .dynamic_movement import number
from .varying import (
    batch_composed,
    checked,
    derivatives_of_composition,
    element,
    known_amounts,
    known_values,
    read_result,
    require_bounds,
    result_of,
    with_sizes,
)

__all__ = ["dynamic_conv", "dynamic_conv_op"]

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def covered(rhs: TensorSpec, params: dict[str, Any]) -> list[int]:
    """How far the window reaches in each spatial dimension."""
    sizes = [rhs.shape[d] for d in params["kernel_spatial_dimensions"]]
    return [max((n - 1) * s + 1, 0) if n else 0 for n, s in zip(sizes, params["rhs_dilation"])]


def infer_dynamic_conv(
    lhs: TensorSpec, rhs: TensorSpec, padding: TensorSpec, *, result: TensorSpec, **params: Any
) -> TensorSpec:
    """As convolution; that the spatial sizes are those of the padding is checked when it runs."""
    require_array(lhs, "I1", "lhs")
    require_array(rhs, "I2", "rhs")
    require_array(padding, "I3", "the padding")
    require_dtype(padding.dtype.integer, "I3", "the padding must be integers", padding)
    count = max(lhs.rank - 2, 0)
    require_shape(
        padding.rank == 2 and all(n in (m, DYNAMIC) for n, m in zip(padding.shape, (count, 2))),
        "C4",
        f"the padding must be {count} pairs",
        padding,
    )
    found = infer_convolution(lhs, rhs, padding=((0, 0),) * count, **params)
    require_dtype(
        found.dtype is result.dtype, "C27", f"the result must be of type {found.dtype}", result
    )
    require_shape(
        found.rank == result.rank, "C26", f"the result must have {found.rank} dimensions", result
    )
    spatial = params["output_spatial_dimensions"]
    require_shape(
        all(
            n == m or d in spatial or DYNAMIC in (n, m)
            for d, (n, m) in enumerate(zip(found.shape, result.shape))
        ),
        "C25",
        f"the result must be of shape {found.shape} outside the dimensions {spatial}",
        result,
    )
    return result


def kernel_dynamic_conv(
    lhs: Array, rhs: Array, padding: Array, *, result: TensorSpec, out: TensorSpec, **params: Any
) -> Array:
    """As convolution."""
    pairs = tuple((int(low), int(high)) for low, high in padding)
    specs = [TensorSpec(x.shape, as_dtype(x.dtype)) for x in (lhs, rhs)]
    static = infer_convolution(*specs, padding=pairs, **params)
    checked(static.shape, out)
    found: Array = kernel_convolution(lhs, rhs, padding=pairs, out=static, **params)
    return found


def compose_dynamic_conv(
    lhs: Any, rhs: Any, padding: Any, *, result: TensorSpec, **params: Any
) -> Any:
    """The input padded and dilated by itself, as far as the result needs it, and then convolved without padding."""
    require_bounds(result)
    count = len(params["input_spatial_dimensions"])
    known = known_values(padding)
    convolution = lookup("convolution")
    if known is not None and result.is_static:
        pairs = tuple(zip(known[::2], known[1::2]))
        return bind(convolution, lhs, rhs, padding=pairs, **params)
    reach = covered(rhs.spec, params)
    shape = list(lhs.spec.shape)
    lows = [number(0)] * lhs.spec.rank
    highs, interiors, whole = list(lows), list(lows), {}
    add, sub, mul = lookup("add"), lookup("sub"), lookup("mul")
    amounts = bind(lookup("reshape"), padding, shape=(2 * count,))
    for i, d in enumerate(params["input_spatial_dimensions"]):
        out = params["output_spatial_dimensions"][i]
        size = max((result.shape[out] - 1) * params["window_strides"][i] + reach[i], 0)
        shape[d] = size
        low, high = element(amounts, 2 * i), element(amounts, 2 * i + 1)
        interior = params["lhs_dilation"][i] - 1
        length = bind(lookup("get_dimension_size"), lhs, dimension=d)
        gaps = bind(lookup("max"), bind(sub, length, number(1)), number(0))
        dilated = bind(add, length, bind(mul, gaps, number(interior)))
        lows[d], interiors[d] = low, number(interior)
        highs[d] = bind(sub, bind(sub, number(size), dilated), low)
        whole[out] = (bind(add, bind(add, low, dilated), high), i)
    padded = bind(
        lookup("dynamic_pad"),
        lhs,
        bind(lookup("constant"), value=np.zeros((), lhs.spec.dtype.numpy)),
        _row(lows),
        _row(highs),
        _row(interiors),
        result=TensorSpec(shape, lhs.spec.dtype),
    )
    plain = {**params, "lhs_dilation": (1,) * count, "padding": ((0, 0),) * count}
    made = bind(convolution, padded, rhs, **plain)

    def size_of(out: int) -> Any:
        # floor((padded - reach) / stride) + 1, or none
        length, i = whole[out]
        stride = params["window_strides"][i]
        room = bind(sub, length, number(reach[i] - stride))
        return bind(lookup("div"), bind(lookup("max"), room, number(0)), number(stride))

    return with_sizes(made, result, size_of)


def _row(scalars: Sequence[Any]) -> Any:
    return bind(
        lookup("concatenate"),
        *[bind(lookup("reshape"), s, shape=(1,)) for s in scalars],
        dimension=0,
    )


def write_dynamic_conv(writer: Writer, instruction: Any) -> None:
    """The sizes stand in the result's type."""
    attributes = window_attributes(instruction.params)
    writer.line("stablehlo.dynamic_conv", instruction, ", ".join(attributes))


def read_dynamic_conv(reader: Reader, operation: Any) -> Any:
    """The sizes stand in the result's type."""
    params = read_window(reader, operation)
    del params["padding"]
    lhs, rhs, padding = reader.operands(operation)
    result = read_result(reader, operation)
    known = known_amounts(reader, lhs, (padding,), result)
    if known is not None and rhs.spec.is_static:
        pairs = tuple(zip(known[0][::2], known[0][1::2], strict=True))
        return bind(lookup("convolution"), lhs, rhs, padding=pairs, **params)
    return bind(dynamic_conv_op, lhs, rhs, padding, result=result, **params)


dynamic_conv_op: Op = register(Op(
    name="dynamic_conv",
    section="StableHLO dynamic_conv",
    infer=infer_dynamic_conv,
    hlo=Hlo(
        "stablehlo.dynamic_conv",
        write=write_dynamic_conv,
        read=read_dynamic_conv,
        decomposition=compose_dynamic_conv,
    ),
    kernel=kernel_dynamic_conv,
    ad=derivatives_of_composition("dynamic_conv"),
    batch=batch_composed,
))  # fmt: skip


def dynamic_conv(
    lhs: Any,
    rhs: Any,
    padding: Any,
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
    *,
    window_strides: int | Sequence[int] | None = None,
    lhs_dilation: int | Sequence[int] | None = None,
    rhs_dilation: int | Sequence[int] | None = None,
    window_reversal: Sequence[bool] | None = None,
    dimension_numbers: ConvolutionDimensionNumbers | str | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision_config: Sequence[str] | None = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """A convolution whose padding is computed.

    Parameters
    ----------
    lhs, rhs : arrays
        The input and the kernel.
    padding : array of integers
        A pair of low and high for each spatial dimension.
    new_size_bounds, dims_are_dynamic
        Of the result; as of `dynamic_reshape`.
    window_strides, lhs_dilation, rhs_dilation, window_reversal : sequences, optional
        An entry for each spatial dimension; by default 1, 1, 1 and False.
    dimension_numbers : ConvolutionDimensionNumbers or str, optional
        By default batch, features, then the spatial dimensions.
    feature_group_count, batch_group_count : int
    precision_config : sequence of str, optional
        A precision for each operand.
    preferred_element_type : dtype, optional
        Of the result; by default that of `lhs`.

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError, DTypeError
        As of a convolution; [C4] unless there is a pair for each spatial dimension; [C25] if the bounds do not fit.

    Notes
    -----
    StableHLO's dynamic_conv.

    Examples
    --------
    >>> import numpy as np
    >>> x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.float32)
    >>> dynamic_conv(x, w, [[1, 0]], (1, 1, 3))
    Tensor([[[1., 2., 2.]]], f32[1,1,3])
    """
    x, w = lift(lhs), lift(rhs)
    numbers: Any = dimension_numbers
    if numbers is None:
        numbers = ConvolutionDimensionNumbers.default(x.ndim)
    elif isinstance(numbers, str):
        numbers = ConvolutionDimensionNumbers.parse(numbers)
    require_numbers(numbers, ConvolutionDimensionNumbers)
    count = len(as_ints(numbers.input_spatial_dimensions, "input_spatial_dimensions"))

    def each(values: Any, name: str) -> Ints:
        return (1,) * count if values is None else as_ints(values, name)

    dtype = x.dtype if preferred_element_type is None else as_dtype(preferred_element_type)
    fields = {
        name: as_ints(value, name) if name.endswith("s") else as_int(value, name)
        for name, value in vars(numbers).items()
    }
    flags = (
        (False,) * count
        if window_reversal is None
        else as_items(window_reversal, "window_reversal")
    )
    result: Tensor = bind(
        dynamic_conv_op,
        x,
        w,
        lift(padding, (x,)),
        window_strides=each(window_strides, "window_strides"),
        lhs_dilation=each(lhs_dilation, "lhs_dilation"),
        rhs_dilation=each(rhs_dilation, "rhs_dilation"),
        window_reversal=tuple(bool(f) for f in flags),
        feature_group_count=as_int(feature_group_count, "feature_group_count"),
        batch_group_count=as_int(batch_group_count, "batch_group_count"),
        precision_config=as_precision_config(precision_config),
        preferred_element_type=dtype,
        result=result_of(dtype, new_size_bounds, dims_are_dynamic),
        **fields,
    )
    return result
