"""StableHLO's dynamic_gather: slices whose sizes are computed.

What XLA compiles must have known sizes or bounds: there it gathers slices at their bounds, which are cut afterwards.
"""

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
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import BOOL
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.stablehlo_reader import Reader

from .contraction import require_numbers
from .dynamic_movement import number, spread
from .gather import DIMENSION_NUMBERS, GatherDimensionNumbers, infer_gather, kernel_gather
from .varying import (
    SIZE,
    batch_composed,
    checked,
    composed_derivatives,
    element,
    known_amounts,
    lift_sizes,
    read_result,
    require_bounds,
    require_sizes,
    result_of,
    with_sizes,
)

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


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
        m if m is not DYNAMIC else n for m, n in zip(_sizes_of(result, params, x.rank), x.shape)
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
            bind(sub, number(x.shape[d]), element(slice_sizes, d)),
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
    low = spread(number(0), starts)
    return bind(lookup("max"), bind(lookup("min"), starts, high), low)


def read_dynamic_gather(reader: Reader, operation: Any) -> Any:
    """The shape stands in the result's type."""
    x, start_indices, slice_sizes = reader.operands(operation)
    result = read_result(reader, operation)
    params = DIMENSION_NUMBERS.parse(reader.attribute(operation, "dimension_numbers"))
    params["indices_are_sorted"] = BOOL.parse(reader.attribute(operation, "indices_are_sorted"))
    known = known_amounts(reader, x, (slice_sizes,), result)
    if known is not None and start_indices.spec.is_static:
        return bind(lookup("gather"), x, start_indices, slice_sizes=known[0], **params)
    return bind(dynamic_gather_op, x, start_indices, slice_sizes, result=result, **params)


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
    require_numbers(dimension_numbers, GatherDimensionNumbers)
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
