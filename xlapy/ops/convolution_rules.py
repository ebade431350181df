"""Derivatives and vectorisation of convolutions, all of them convolutions again.

A convolution is bilinear. The cotangent of its input is a convolution of the result's with the weights turned round,
strides and input dilation changing places; that of the weights one of the input with the result's cotangent, where
features and batch change places, and strides and the weights' dilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from xlapy.dtypes import DType
from xlapy.specs import TensorSpec
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, lookup
from xlapy.trace.zeros import zeros_of

from .forms import converted, permuted, reshaped
from .joining import padded_size
from .products import product_dtype
from .rules import Rules

__all__ = ["batch_convolution", "convolution_ad"]

Ints = tuple[int, ...]
Params = Mapping[str, Any]


# --- moving features and groups -------------------------------------------------------------------


def _moved(x: Any, source: int, target: int) -> Any:
    """A dimension taken out and put in so that it is at `target`."""
    order = [d for d in range(x.ndim) if d != source]
    order.insert(target, source)
    return permuted(x, order)


def _split(x: Any, axis: int, count: int) -> Any:
    """A dimension as `count` consecutive parts, and what is inside each."""
    shape = x.spec.shape
    return reshaped(x, (*shape[:axis], count, shape[axis] // count, *shape[axis + 1 :]))


def _into(x: Any, source: int, axis: int) -> Any:
    """A dimension put in front of another one (`axis` counts without it), and the two made one."""
    x = _moved(x, source, axis)
    shape = x.spec.shape
    return reshaped(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


# --- derivatives ----------------------------------------------------------------------------------


def _convolved(x: Any, y: Any, target: DType, **params: Any) -> Any:
    """A convolution whose result belongs to a value of type `target`."""
    kind = product_dtype(x.dtype, y.dtype)
    real = kind.kind == "complex" != target.kind
    found = bind(
        lookup("convolution"),
        converted(x, kind),
        converted(y, kind),
        preferred_element_type=kind if real else target,
        **params,
    )
    # A complex result for a real value: of its cotangent the real part counts.
    return converted(bind(lookup("real"), found), target) if real else found


def _reversed(x: Any, dimensions: Ints) -> Any:
    return bind(lookup("rev"), x, dimensions=dimensions) if dimensions else x


def _extents(x: Any, y: Any, g: Any, p: Params) -> list[tuple[int, int, int]]:
    """For each spatial dimension what the dilated input, the dilated window and the strides reach over."""
    sizes = zip(
        [x.spec.shape[d] for d in p["input_spatial_dimensions"]],
        [y.spec.shape[d] for d in p["kernel_spatial_dimensions"]],
        [g.spec.shape[d] for d in p["output_spatial_dimensions"]],
        p["lhs_dilation"],
        p["rhs_dilation"],
        p["window_strides"],
        strict=True,
    )
    return [
        (
            padded_size(n, 0, 0, dn - 1),
            padded_size(k, 0, 0, dk - 1),
            padded_size(m, 0, 0, dm - 1),
        )
        for n, k, m, dn, dk, dm in sizes
    ]


def cotangent_of_input(g: Any, x: Any, y: Any, p: Params) -> Any:
    """The result's cotangent convolved with the weights turned round."""
    inputs, outputs = p["kernel_input_feature_dimension"], p["kernel_output_feature_dimension"]
    groups = p["feature_group_count"] * p["batch_group_count"]
    if groups > 1:
        # The weights' input features become output features, and so have to hold the groups.
        y = _split(y, outputs, groups)
        y = _into(y, outputs, inputs)
    spatial = p["kernel_spatial_dimensions"]
    y = _reversed(y, tuple([d for d, r in zip(spatial, p["window_reversal"]) if not r]))
    padding = []
    for (low, _), (n, k, m) in zip(p["padding"], _extents(x, y, g, p)):
        before = k - 1 - low
        padding.append((before, n + k - 1 - m - before))
    found = _convolved(
        g,
        y,
        x.dtype,
        window_strides=p["lhs_dilation"],
        padding=tuple(padding),
        lhs_dilation=p["window_strides"],
        rhs_dilation=p["rhs_dilation"],
        window_reversal=(False,) * len(spatial),
        input_batch_dimension=p["output_batch_dimension"],
        input_feature_dimension=p["output_feature_dimension"],
        input_spatial_dimensions=p["output_spatial_dimensions"],
        kernel_input_feature_dimension=outputs,
        kernel_output_feature_dimension=inputs,
        kernel_spatial_dimensions=spatial,
        output_batch_dimension=p["input_batch_dimension"],
        output_feature_dimension=p["input_feature_dimension"],
        output_spatial_dimensions=p["input_spatial_dimensions"],
        feature_group_count=groups,
        batch_group_count=1,
        precision_config=p["precision_config"],
    )
    if p["batch_group_count"] > 1:
        feature = p["input_feature_dimension"]
        found = _split(found, feature, groups)
        found = _into(found, feature, p["input_batch_dimension"])
    return found


def cotangent_of_kernel(g: Any, x: Any, y: Any, p: Params) -> Any:
    """The input convolved with the result's cotangent, features taking the place of the batch."""
    padding = []
    for (low, _), (n, k, m) in zip(p["padding"], _extents(x, y, g, p)):
        padding.append((low, m + k - 1 - n - low))
    precision = p["precision_config"]
    spatial = p["kernel_spatial_dimensions"]
    found = _convolved(
        x,
        g,
        y.dtype,
        window_strides=p["rhs_dilation"],
        padding=tuple(padding),
        lhs_dilation=p["lhs_dilation"],
        rhs_dilation=p["window_strides"],
        window_reversal=(False,) * len(spatial),
        input_batch_dimension=p["input_feature_dimension"],
        input_feature_dimension=p["input_batch_dimension"],
        input_spatial_dimensions=p["input_spatial_dimensions"],
        kernel_input_feature_dimension=p["output_batch_dimension"],
        kernel_output_feature_dimension=p["output_feature_dimension"],
        kernel_spatial_dimensions=p["output_spatial_dimensions"],
        output_batch_dimension=p["kernel_input_feature_dimension"],
        output_feature_dimension=p["kernel_output_feature_dimension"],
        output_spatial_dimensions=spatial,
        feature_group_count=p["batch_group_count"],
        batch_group_count=p["feature_group_count"],
        precision_config=None if precision is None else precision[::-1],
    )
    return _reversed(found, tuple([d for d, r in zip(spatial, p["window_reversal"]) if r]))


def jvp_convolution(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """The product rule."""
    (x, y), (s, t) = operands, tangents
    if not params["preferred_element_type"].inexact:
        return (None,)
    op = lookup("convolution")
    left = None if s is None else bind(op, s, y, **params)
    right = None if t is None else bind(op, x, t, **params)
    if left is None or right is None:
        return (right if left is None else left,)
    return (bind(lookup("add"), left, right),)


def vjp_convolution(
    operands: Sequence[Any], cotangents: Sequence[Any], outs: Sequence[Any], **params: Any
) -> Sequence[Any]:
    """Each side's transpose."""
    (x, y), (g,) = operands, cotangents
    if not g.spec.size:  # and a window of no elements is refused
        return [zeros_of(v.spec) if v.dtype.inexact else None for v in operands]
    return (
        cotangent_of_input(g, x, y, params) if x.dtype.inexact else None,
        cotangent_of_kernel(g, x, y, params) if y.dtype.inexact else None,
    )


convolution_ad: Final = Rules(jvp_convolution, vjp_convolution)


# --- batching -------------------------------------------------------------------------------------


def batch_convolution(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, **params: Any
) -> Any:
    """The input's new axis goes into its batch, the weights' into their output features; both together into groups."""
    x, y = args
    batch, feature = params["input_batch_dimension"], params["input_feature_dimension"]
    outputs = params["kernel_output_feature_dimension"]
    out_batch, out_feature = params["output_batch_dimension"], params["output_feature_dimension"]
    batch_groups = params["batch_group_count"]
    groups = batch_groups * params["feature_group_count"]
    if not size:
        rows = [
            a.spec.with_shape(a.spec.shape[1:]) if b else a.spec
            for a, b in zip(args, is_batched, strict=True)
        ]
        spec = op.infer(*rows, **params)
        return zeros_of(TensorSpec((0, *spec.shape), spec.dtype))
    if all(is_batched):
        # One group for each row, and the groups that there were inside it.
        key = "batch_group_count" if batch_groups > 1 else "feature_group_count"
        x = _into(x, 0, batch if batch_groups > 1 else feature)
        found = bind(op, x, _into(y, 0, outputs), **{**params, key: params[key] * size})
        return _moved(_split(found, out_feature, size), out_feature, 0)
    if is_batched[0]:
        if batch_groups == 1:
            found = bind(op, _into(x, 0, batch), y, **params)
        else:
            # Within each group: [group, row, rest of the batch].
            x = _split(x, batch + 1, groups)
            x = _into(_into(x, 0, batch + 1), batch, batch)
            found = bind(op, x, y, **params)
        return _moved(_split(found, out_batch, size), out_batch, 0)
    if groups == 1:
        found = bind(op, x, _into(y, 0, outputs), **params)
        return _moved(_split(found, out_feature, size), out_feature, 0)
    # Within each group: [group, row, output features of a group].
    y = _split(y, outputs + 1, groups)
    y = _into(_into(y, 0, outputs + 1), outputs, outputs)
    found = _split(bind(op, x, y, **params), out_feature, groups)
    found = _split(found, out_feature + 1, size)
    found = _moved(found, out_feature + 1, 0)
    return _into(found, out_feature + 1, out_feature + 1)
