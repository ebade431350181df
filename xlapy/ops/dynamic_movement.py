"""StableHLO's dynamic_pad, real_dynamic_slice and dynamic_gather: elements from computed places.

What XLA compiles must have known sizes or bounds. There these operations are composed of the static
ones, at the bounds, with the sizes set afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_int,
    as_ints,
    require,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import BOOL
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo_reader import Reader

from .gather import DIMENSION_NUMBERS, GatherDimensionNumbers, infer_gather, kernel_gather
from .indexing import kernel_slice, sliced_size
from .joining import infer_pad, kernel_pad, require_array
from .varying import (
    SIZE,
    batch_composed,
    checked,
    composed_derivatives,
    element,
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


def _spread(scalar: Any, like: Any) -> Any:
    return bind(lookup("broadcast_in_dim"), scalar, shape=like.spec.shape, broadcast_dimensions=())


def _number(value: int) -> Any:
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
        step = bind(lookup("add"), element(interior_padding, d), _number(1))
        offset = bind(sub, counted, _spread(element(edge_padding_low, d), counted))
        steps = _spread(step, counted)
        place = bind(div, offset, steps)
        zero_ = _spread(_number(0), counted)
        held = bind(
            and_,
            bind(
                and_, _compare(offset, zero_, "GE"), _compare(bind(rem, offset, steps), zero_, "EQ")
            ),
            _compare(place, _spread(actual[d], counted), "LT"),
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
    gaps = bind(lookup("max"), bind(sub, actual[d], _number(1)), _number(0))
    return bind(add, bind(add, low, actual[d]), bind(add, bind(mul, gaps, interior), high))


def _reader(name: str) -> Any:
    """A reader for operations whose parameter `result` stands in the result's type, and that have no other."""

    def read(reader: Reader, operation: Any) -> Any:
        return bind(
            lookup(name), *reader.operands(operation), result=read_result(reader, operation)
        )

    return read


dynamic_pad_op = register(Op(
    name="dynamic_pad",
    section="StableHLO dynamic_pad",
    infer=infer_dynamic_pad,
    hlo=Hlo(
        "stablehlo.dynamic_pad",
        write=write_with_result("stablehlo.dynamic_pad"),
        read=_reader("dynamic_pad"),
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
    made = x
    for d, size in enumerate(result.shape):
        counted = _counted(size)
        place = bind(
            add,
            _spread(element(start_indices, d), counted),
            bind(mul, counted, _spread(element(strides, d), counted)),
        )
        if x.spec.shape[d]:
            made = taken_along(made, place, d)

    def size_of(d: int) -> Any:
        start, limit, step = (element(a, d) for a in (start_indices, limit_indices, strides))
        span = bind(add, bind(lookup("sub"), limit, start), bind(lookup("sub"), step, _number(1)))
        return bind(lookup("div"), span, step)

    return with_sizes(made, result, size_of)


real_dynamic_slice_op = register(Op(
    name="real_dynamic_slice",
    section="StableHLO real_dynamic_slice",
    infer=infer_real_dynamic_slice,
    hlo=Hlo(
        "stablehlo.real_dynamic_slice",
        write=write_with_result("stablehlo.real_dynamic_slice"),
        read=_reader("real_dynamic_slice"),
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


# --- dynamic_gather -------------------------------------------------------------------------------


def _sizes_of(result: TensorSpec, params: dict[str, Any], rank: int) -> Ints:
    """The slice's sizes, or their bounds, that the result has."""
    dropped = (*params["collapsed_slice_dims"], *params["operand_batching_dims"])
    offset = iter(params["offset_dims"])
    return tuple(1 if d in dropped else result.shape[next(offset)] for d in range(rank))


def infer_dynamic_gather(
    x: TensorSpec,
    start_indices: TensorSpec,
    slice_sizes: TensorSpec,
    *,
    result: TensorSpec,
    **params: Any,
) -> TensorSpec:
    """As gather."""
    require_array(x, "I1")
    require_sizes(slice_sizes, "I3", "slice_sizes", x.rank, "C20")
    require_dtype(
        x.dtype is result.dtype, "C23", "the result must have the operand's type", result.dtype
    )
    dropped = (*params["collapsed_slice_dims"], *params["operand_batching_dims"])
    offset = params["offset_dims"]
    require(
        x.rank == len(offset) + len(dropped),
        "C1",
        f"offset_dims, collapsed_slice_dims and operand_batching_dims must be {x.rank} together",
        (offset, dropped),
    )
    require(
        all(0 <= d < result.rank for d in offset),
        "C5",
        f"offset_dims must be in [0, {result.rank})",
        offset,
    )
    for label, dims in (
        ("C8", params["collapsed_slice_dims"]),
        ("C11", params["operand_batching_dims"]),
    ):
        require(
            all(0 <= d < x.rank for d in dims),
            label,
            f"dropped dimensions must be in [0, {x.rank})",
            dims,
        )
    require(len(set(dropped)) == len(dropped), "C6", "dropped dimensions must be unique", dropped)
    sizes = [
        m if m != DYNAMIC else max(n, 0) for m, n in zip(_sizes_of(result, params, x.rank), x.shape)
    ]
    found = infer_gather(x, start_indices, slice_sizes=tuple(sizes), **params)
    require_shape(
        found.rank == result.rank
        and all(DYNAMIC in (n, m) or n == m for n, m in zip(found.shape, result.shape)),
        "C22",
        f"the result must be of shape {found.shape}",
        result,
    )
    return result


def kernel_dynamic_gather(
    x: Array,
    start_indices: Array,
    slice_sizes: Array,
    *,
    result: TensorSpec,
    out: TensorSpec,
    **params: Any,
) -> Array:
    """As gather."""
    sizes = tuple(int(n) for n in slice_sizes)
    from xlapy.dtypes import as_dtype

    static = infer_gather(
        TensorSpec(x.shape, out.dtype),
        TensorSpec(start_indices.shape, as_dtype(start_indices.dtype)),
        slice_sizes=sizes,
        **params,
    )
    checked(static.shape, out)
    return kernel_gather(x, start_indices, slice_sizes=sizes, out=static, **params)


def compose_dynamic_gather(
    x: Any, start_indices: Any, slice_sizes: Any, *, result: TensorSpec, **params: Any
) -> Any:
    """At the bounds of the slice, with the sizes set; its start is clamped by the sizes that it has."""
    require_bounds(result)
    sizes = _sizes_of(result, params, x.spec.rank)
    offset = [d for d in params["offset_dims"] if d in result.dynamic]
    kept = [
        d
        for d in range(x.spec.rank)
        if d not in params["collapsed_slice_dims"] and d not in params["operand_batching_dims"]
    ]
    if not offset:
        return bind(lookup("gather"), x, start_indices, slice_sizes=sizes, **params)
    # At its bound the slice would be clamped more: so the operand gets room for it behind.
    room = [0] * x.spec.rank
    for d, o in zip(kept, params["offset_dims"]):
        room[d] = sizes[d] if o in offset else 0
    value = bind(lookup("constant"), value=np.zeros((), x.spec.dtype.numpy))
    padded = bind(
        lookup("pad"),
        x,
        value,
        edge_padding_low=(0,) * x.spec.rank,
        edge_padding_high=tuple(room),
        interior_padding=(0,) * x.spec.rank,
    )
    starts = _clamped(x.spec, start_indices, slice_sizes, params)
    made = bind(lookup("gather"), padded, starts, slice_sizes=sizes, **params)
    which = dict(zip(params["offset_dims"], kept))
    return with_sizes(made, result, lambda o: element(slice_sizes, which[o]))


def _clamped(x: TensorSpec, start_indices: Any, slice_sizes: Any, params: dict[str, Any]) -> Any:
    """clamp(0, start, size - slice size), for computed slice sizes."""
    starts = bind(lookup("convert_element_type"), start_indices, dtype=SIZE)
    sub = lookup("sub")
    rows = [
        bind(
            lookup("reshape"),
            bind(sub, _number(x.shape[d]), element(slice_sizes, d)),
            shape=(1,),
        )
        for d in params["start_index_map"]
    ]
    vector = params["index_vector_dim"]
    if vector < starts.spec.rank:
        room = bind(lookup("concatenate"), *rows, dimension=0)
        dims: Ints = (vector,)
    else:
        room, dims = bind(lookup("reshape"), rows[0], shape=()), ()
    high = bind(
        lookup("broadcast_in_dim"), room, shape=starts.spec.shape, broadcast_dimensions=dims
    )
    low = _spread(_number(0), starts)
    return bind(lookup("max"), bind(lookup("min"), starts, high), low)


def read_dynamic_gather(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    return bind(
        dynamic_gather_op,
        *reader.operands(operation),
        result=read_result(reader, operation),
        indices_are_sorted=BOOL.parse(reader.attribute(operation, "indices_are_sorted")),
        **DIMENSION_NUMBERS.parse(reader.attribute(operation, "dimension_numbers")),
    )


def write_dynamic_gather(writer: Any, instruction: Any) -> None:
    """The shape stands in the result's type."""
    params = instruction.params
    writer.line(
        "stablehlo.dynamic_gather",
        instruction,
        f"dimension_numbers = {DIMENSION_NUMBERS.print(params)},"
        f" indices_are_sorted = {BOOL.print(params['indices_are_sorted'])}",
    )


dynamic_gather_op: Op = register(Op(
    name="dynamic_gather",
    section="StableHLO dynamic_gather",
    infer=infer_dynamic_gather,
    hlo=Hlo(
        "stablehlo.dynamic_gather",
        write=write_dynamic_gather,
        read=read_dynamic_gather,
        decomposition=compose_dynamic_gather,
    ),
    kernel=kernel_dynamic_gather,
    ad=composed_derivatives("dynamic_gather"),
    batch=batch_composed,
))  # fmt: skip


def dynamic_gather(
    operand: Any,
    start_indices: Any,
    slice_sizes: Any,
    dimension_numbers: GatherDimensionNumbers,
    new_size_bounds: int | Sequence[int],
    dims_are_dynamic: Sequence[bool] | None = None,
    indices_are_sorted: bool = False,
) -> Tensor:
    """`gather` of slices whose sizes are computed.

    Parameters
    ----------
    operand : array
    start_indices : array of integers
    slice_sizes : sequence of integer scalars, or an array of integers
        An entry for each dimension of the operand.
    dimension_numbers : GatherDimensionNumbers
    new_size_bounds, dims_are_dynamic
        Of the result; as of `dynamic_reshape`.
    indices_are_sorted : bool

    Returns
    -------
    Tensor

    Raises
    ------
    ConstraintError, ShapeError
        As of `gather`; [C22] if the bounds do not fit the dimension numbers.

    Notes
    -----
    StableHLO's dynamic_gather.

    Examples
    --------
    >>> rows = GatherDimensionNumbers((1,), (0,), (0,), 1)
    >>> dynamic_gather([[1, 2], [3, 4]], [1], [1, 2], rows, (1, 2))
    Tensor([[3, 4]], s32[1,2])
    """
    x = lift(operand)
    numbers = {
        name: as_ints(getattr(dimension_numbers, name), name)
        for name in DIMENSION_NUMBERS.params
        if name != "index_vector_dim"
    }
    result: Tensor = bind(
        dynamic_gather_op,
        x,
        lift(start_indices, (x,)),
        lift_sizes(slice_sizes),
        index_vector_dim=as_int(dimension_numbers.index_vector_dim, "index_vector_dim", "C2"),
        indices_are_sorted=bool(indices_are_sorted),
        result=result_of(x.dtype, new_size_bounds, dims_are_dynamic),
        **numbers,
    )
    return result
