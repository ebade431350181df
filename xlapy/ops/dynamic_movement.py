"""StableHLO's dynamic_pad, real_dynamic_slice and dynamic_gather: elements from computed places.

What XLA compiles must have known sizes or bounds. There these operations are composed of the static
ones, at the bounds, with the sizes set afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import (
    TensorSpec,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import whole
from xlapy.trace.stablehlo_reader import Reader

from .forms import part, reshaped
from .indexing import kernel_slice, sliced_size
from .joining import infer_pad, kernel_pad
from .varying import (
    SIZE,
    batch_composed,
    checked,
    composed_derivatives,
    element,
    known_amounts,
    known_values,
    lift_sizes,
    read_result,
    require_bounds,
    require_sizes,
    result_of,
    with_sizes,
    write_with_result,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- elements from computed places ----------------------------------------------------------------


def taken_along(x: Any, places: Any, dimension: int) -> Any:
    """The elements at some places along one dimension; places are clamped."""
    shape = x.spec.shape
    others = tuple(d for d in range(len(shape)) if d != dimension)
    return bind(
        lookup("gather"),
        x,
        places,
        offset_dims=others,
        collapsed_slice_dims=(dimension,),
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=(dimension,),
        index_vector_dim=1,
        slice_sizes=tuple(1 if d == dimension else n for d, n in enumerate(shape)),
        indices_are_sorted=False,
    )


def _counted(size: int) -> Any:
    return bind(lookup("iota"), shape=(size,), dtype=SIZE, iota_dimension=0)


def spread(scalar: Any, like: Any) -> Any:
    """A scalar in the shape of `like`."""
    return bind(lookup("broadcast_in_dim"), scalar, shape=like.spec.shape, broadcast_dimensions=())


def number(value: int) -> Any:
    """A size that is known."""
    return bind(lookup("constant"), value=np.array(value, np.int32))


def _compare(a: Any, b: Any, direction: str) -> Any:
    return bind(lookup("compare"), a, b, comparison_direction=direction, compare_type="SIGNED")


# --- dynamic_pad ----------------------------------------------------------------------------------


def infer_dynamic_pad(
    x: TensorSpec,
    value: TensorSpec,
    edge_padding_low: TensorSpec,
    edge_padding_high: TensorSpec,
    interior_padding: TensorSpec,
    *,
    result: TensorSpec,
) -> TensorSpec:
    """C1, C2; C3 and C4 are checked when it runs."""
    require_array(x, "I1")
    require_array(value, "I2", "the padding value")
    require_shape(value.rank == 0, "I2", "the padding value must be a scalar", value)
    amounts = (edge_padding_low, edge_padding_high, interior_padding)
    for label, amount in zip(("I3", "I4", "I5"), amounts):
        require_sizes(amount, label, "padding amounts", x.rank, "C2")
    require_dtype(
        x.dtype is value.dtype is result.dtype,
        "C1",
        "the padding value and the result must have the operand's type",
        (value.dtype, result.dtype),
    )
    require_shape(x.rank == result.rank, "C4", f"the result must have {x.rank} dimensions", result)
    return result


def kernel_dynamic_pad(
    x: Array,
    value: Array,
    edge_padding_low: Array,
    edge_padding_high: Array,
    interior_padding: Array,
    *,
    result: TensorSpec,
    out: TensorSpec,
) -> Array:
    """As pad."""
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    amounts = (edge_padding_low, edge_padding_high, interior_padding)
    params = {n: tuple(int(i) for i in a) for n, a in zip(names, amounts)}
    spec, scalar = TensorSpec(x.shape, out.dtype), TensorSpec((), out.dtype)
    static = infer_pad(spec, scalar, **params)
    checked(static.shape, out)
    return kernel_pad(x, value, **params, out=static)


def compose_dynamic_pad(
    x: Any,
    value: Any,
    edge_padding_low: Any,
    edge_padding_high: Any,
    interior_padding: Any,
    *,
    result: TensorSpec,
) -> Any:
    """A pad if the amounts are known; else each element from the place where it is, or the value."""
    require_bounds(result)
    amounts = (edge_padding_low, edge_padding_high, interior_padding)
    known = [known_values(a) for a in amounts]
    if None not in known and x.spec.is_static and result.is_static:
        low, high, interior = (tuple(k) for k in known if k is not None)
        return bind(
            lookup("pad"),
            x,
            value,
            edge_padding_low=low,
            edge_padding_high=high,
            interior_padding=interior,
        )
    and_, div, rem, sub = lookup("and"), lookup("div"), lookup("rem"), lookup("sub")
    inside = None
    actual = [bind(lookup("get_dimension_size"), x, dimension=d) for d in range(x.spec.rank)]
    full = x
    for d, size in enumerate(result.shape):
        counted = _counted(size)
        step = bind(lookup("add"), element(interior_padding, d), number(1))
        offset = bind(sub, counted, spread(element(edge_padding_low, d), counted))
        steps = spread(step, counted)
        place = bind(div, offset, steps)
        zero_ = spread(number(0), counted)
        held = bind(
            and_,
            bind(
                and_, _compare(offset, zero_, "GE"), _compare(bind(rem, offset, steps), zero_, "EQ")
            ),
            _compare(place, spread(actual[d], counted), "LT"),
        )
        held = bind(lookup("broadcast_in_dim"), held, shape=result.shape, broadcast_dimensions=(d,))
        inside = held if inside is None else bind(and_, inside, held)
        if x.spec.shape[d] and full.spec.size:
            full = taken_along(full, place, d)
    values = bind(lookup("broadcast_in_dim"), value, shape=result.shape, broadcast_dimensions=())
    if inside is None:
        return x
    if full.spec.shape != result.shape:  # nothing to take
        return with_sizes(values, result, lambda d: _padded(actual, amounts, d))
    made = bind(lookup("select"), inside, full, values)
    return with_sizes(made, result, lambda d: _padded(actual, amounts, d))


def _padded(actual: Sequence[Any], amounts: Sequence[Any], d: int) -> Any:
    """Low + n + max(n - 1, 0) * interior + high."""
    add, mul, sub = lookup("add"), lookup("mul"), lookup("sub")
    low, high, interior = (element(a, d) for a in amounts)
    gaps = bind(lookup("max"), bind(sub, actual[d], number(1)), number(0))
    return bind(add, bind(add, low, actual[d]), bind(add, bind(mul, gaps, interior), high))


def read_real_dynamic_slice(reader: Reader, operation: Any) -> Any:
    """A slice of known sizes is a dynamic_slice; it is known by limits that are the starts and these sizes together."""
    x, starts, _, strides = reader.operands(operation)
    result = read_result(reader, operation)
    if known_amounts(reader, x, (strides,), result) == [(1,) * x.spec.rank]:
        maker = operation.operands[2].owner
        if getattr(maker, "name", "") == "stablehlo.add":
            a, b = maker.operands
            start = operation.operands[1]
            sizes = reader.sizes(reader.values[b if a == start else a]) if start in (a, b) else None
            if sizes is not None and reader.sizes(starts) is None:
                places = [reshaped(part(starts, d), ()) for d in range(x.spec.rank)]
                return bind(lookup("dynamic_slice"), x, *places, slice_sizes=sizes)
    return _read_slice(reader, operation)


def _reader(name: str, static: str, names: Sequence[str]) -> Any:
    """A reader for operations whose parameter `result` stands in the result's type.

    Their last operands are the parameters `names` of the operation `static`.
    """

    def read(reader: Reader, operation: Any) -> Any:
        operands = reader.operands(operation)
        result = read_result(reader, operation)
        count = len(operands) - len(names)
        known = known_amounts(reader, operands[0], operands[count:], result)
        if known is not None:
            return bind(lookup(static), *operands[:count], **dict(zip(names, known, strict=True)))
        return bind(lookup(name), *operands, result=result)

    return read


dynamic_pad_op = register(Op(
    name="dynamic_pad",
    section="StableHLO dynamic_pad",
    infer=infer_dynamic_pad,
    hlo=Hlo(
        "stablehlo.dynamic_pad",
        write=write_with_result("stablehlo.dynamic_pad"),
        read=_reader(
            "dynamic_pad", "pad", ("edge_padding_low", "edge_padding_high", "interior_padding")
        ),
        decomposition=compose_dynamic_pad,
    ),
    kernel=kernel_dynamic_pad,
    ad=composed_derivatives("dynamic_pad", wrt=(0, 1)),
    batch=batch_composed,
))  # fmt: skip


def dynamic_pad(
    operand: Any,
    padding_value: Any,
    edge_padding_low: Any,
    edge_padding_high: Any,
    interior_padding: Any,
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
) -> Tensor:
    """`pad` with amounts that are computed.

    Parameters
    ----------
    operand : array
    padding_value : scalar of its type
    edge_padding_low, edge_padding_high, interior_padding : sequences of integer scalars, or arrays of integers
        An entry for each dimension.
    new_size_bounds, dims_are_dynamic
        As of `dynamic_reshape`.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [C1] If the value has another type.
    ShapeError
        [C2] Unless there is an amount for each dimension.

    Notes
    -----
    StableHLO's dynamic_pad.

    Examples
    --------
    >>> dynamic_pad([1, 2], 0, [1], [0], [1], (4,))
    Tensor([0, 1, 0, 2], s32[4])
    """
    x = lift(operand)
    amounts = [lift_sizes(a) for a in (edge_padding_low, edge_padding_high, interior_padding)]
    result: Tensor = bind(
        dynamic_pad_op,
        x,
        lift(padding_value, (x,)),
        *amounts,
        result=result_of(x.dtype, new_size_bounds, dims_are_dynamic),
    )
    return result


# --- real_dynamic_slice ---------------------------------------------------------------------------

_read_slice = _reader(
    "real_dynamic_slice", "slice", ("start_indices", "limit_indices", "strides")
)  # fmt: skip


def infer_real_dynamic_slice(
    x: TensorSpec,
    start_indices: TensorSpec,
    limit_indices: TensorSpec,
    strides: TensorSpec,
    *,
    result: TensorSpec,
) -> TensorSpec:
    """X1 to X3; the StableHLO specification leaves it out."""
    require_array(x, "I1")
    for label, entries in zip(("I2", "I3", "I4"), (start_indices, limit_indices, strides)):
        require_sizes(entries, label, "starts, limits and strides", x.rank, "X1")
    require_dtype(
        x.dtype is result.dtype, "X2", "the result must have the operand's type", result.dtype
    )
    require_shape(x.rank == result.rank, "X2", f"the result must have {x.rank} dimensions", result)
    return result


def kernel_real_dynamic_slice(
    x: Array,
    start_indices: Array,
    limit_indices: Array,
    strides: Array,
    *,
    result: TensorSpec,
    out: TensorSpec,
) -> Array:
    """As slice."""
    starts, limits, steps = (
        tuple(int(i) for i in a) for a in (start_indices, limit_indices, strides)
    )
    require(
        all(0 <= a <= b <= n and s > 0 for a, b, s, n in zip(starts, limits, steps, x.shape)),
        "X3",
        f"starts, limits and strides must be within {x.shape}",
        (starts, limits, steps),
    )
    checked([sliced_size(*entry) for entry in zip(starts, limits, steps)], out)
    return kernel_slice(x, start_indices=starts, limit_indices=limits, strides=steps, out=out)


def compose_real_dynamic_slice(
    x: Any, start_indices: Any, limit_indices: Any, strides: Any, *, result: TensorSpec
) -> Any:
    """A slice if its place is known; else the elements from their places."""
    require_bounds(result)
    known = [known_values(a) for a in (start_indices, limit_indices, strides)]
    if None not in known and x.spec.is_static and result.is_static:
        starts, limits, steps = (tuple(k) for k in known if k is not None)
        return bind(lookup("slice"), x, start_indices=starts, limit_indices=limits, strides=steps)
    add, mul = lookup("add"), lookup("mul")
    made = whole(x)
    for d, size in enumerate(result.shape):
        counted = _counted(size)
        place = bind(
            add,
            spread(element(start_indices, d), counted),
            bind(mul, counted, spread(element(strides, d), counted)),
        )
        if x.spec.shape[d]:
            made = taken_along(made, place, d)

    def size_of(d: int) -> Any:
        start, limit, step = (element(a, d) for a in (start_indices, limit_indices, strides))
        span = bind(add, bind(lookup("sub"), limit, start), bind(lookup("sub"), step, number(1)))
        return bind(lookup("div"), span, step)

    return with_sizes(made, result, size_of)


real_dynamic_slice_op = register(Op(
    name="real_dynamic_slice",
    section="StableHLO real_dynamic_slice",
    infer=infer_real_dynamic_slice,
    hlo=Hlo(
        "stablehlo.real_dynamic_slice",
        write=write_with_result("stablehlo.real_dynamic_slice"),
        read=read_real_dynamic_slice,
        decomposition=compose_real_dynamic_slice,
    ),
    kernel=kernel_real_dynamic_slice,
    ad=composed_derivatives("real_dynamic_slice"),
    batch=batch_composed,
))  # fmt: skip


def real_dynamic_slice(
    operand: Any,
    start_indices: Any,
    limit_indices: Any,
    strides: Any,
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
) -> Tensor:
    """`slice` with starts, limits and strides that are computed.

    Parameters
    ----------
    operand : array
    start_indices, limit_indices, strides : sequences of integer scalars, or arrays of integers
        An entry for each dimension. The box must lie within the operand.
    new_size_bounds, dims_are_dynamic
        As of `dynamic_reshape`.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        [X1] Unless there is an entry for each dimension.

    Notes
    -----
    StableHLO's real_dynamic_slice.

    Examples
    --------
    >>> real_dynamic_slice([1, 2, 3, 4], [1], [4], [2], (2,))
    Tensor([2, 4], s32[2])
    """
    x = lift(operand)
    places = [lift_sizes(a) for a in (start_indices, limit_indices, strides)]
    result: Tensor = bind(
        real_dynamic_slice_op,
        x,
        *places,
        result=result_of(x.dtype, new_size_bounds, dims_are_dynamic),
    )
    return result
