"""Slice, DynamicSlice and DynamicUpdateSlice: boxes of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_ints,
    has_unknown,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift, scalar_array
from xlapy.trace.codecs import I64_ARRAY
from xlapy.trace.computation import Value
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import as_vector, size_of
from xlapy.trace.stablehlo import Writer
from xlapy.trace.zeros import constant_of

from .rules import broadcast_leading, linear, zeros_of
from .scalar_bodies import replacement

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- Slice --------------------------------------------------------------------------------------


def sliced_size(start: int, limit: int, stride: int) -> int:
    """ceil((limit - start) / stride)."""
    return DYNAMIC if limit is DYNAMIC else -((start - limit) // stride)


def infer_slice(
    x: TensorSpec, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> TensorSpec:
    """C2 to C5. Where the operand's size is not known the limit may be so: the slice goes to the end then."""
    require_array(x, "I1")
    for name, entries in (
        ("start_indices", start_indices),
        ("limit_indices", limit_indices),
        ("strides", strides),
    ):
        require(len(entries) == x.rank, "C2", f"{name} must have {x.rank} entries", entries)
    _require_within(start_indices, limit_indices, x.shape)
    require(all(s > 0 for s in strides), "C4", "strides must be positive", strides)
    # Where the operand's size varies, so does the result's.
    return x.with_shape(
        [sliced_size(*entry) for entry in zip(start_indices, limit_indices, strides)], x.dynamic
    )


def kernel_slice(
    x: Array, *, start_indices: Ints, limit_indices: Ints, strides: Ints, out: TensorSpec
) -> Array:
    """result[i] = operand[start + i * stride]."""
    if has_unknown(limit_indices):
        limit_indices = tuple(n if b is DYNAMIC else b for b, n in zip(limit_indices, x.shape))
        _require_within(start_indices, limit_indices, x.shape)
    return x[tuple([np.s_[a:b:s] for a, b, s in zip(start_indices, limit_indices, strides)])]


def _require_within(start_indices: Ints, limit_indices: Ints, shape: Ints) -> None:
    require(
        all(
            a >= 0 and (n is DYNAMIC if b is DYNAMIC else a <= b and (n is DYNAMIC or b <= n))
            for a, b, n in zip(start_indices, limit_indices, shape)
        ),
        "C3",
        f"start_indices must be in [0, limit_indices], and these within {shape}",
        (start_indices, limit_indices),
    )


def write_slice(writer: Writer, instruction: Any) -> None:
    """A limit that is not known must be asked for."""
    params = instruction.params
    if has_unknown(params["limit_indices"]):
        writer.composed(instruction, lambda x: _slice_any(x, **params))
    else:
        writer.declared(instruction)


def _slice_any(x: Any, *, start_indices: Ints, limit_indices: Ints, strides: Ints) -> Any:
    limits = [size_of(x, d) if n is DYNAMIC else n for d, n in enumerate(limit_indices)]
    sizes = [sliced_size(*e) for e in zip(start_indices, limit_indices, strides)]
    return bind(
        lookup("real_dynamic_slice"),
        x,
        as_vector(start_indices),
        as_vector(limits),
        as_vector(strides),
        result=x.spec.with_shape(sizes),
    )


def transpose_slice(
    g: Any, x: Any, *, start_indices: Ints, limit_indices: Ints, strides: Ints
) -> Any:
    """Pad by what was left out."""
    shape = x.spec.shape
    # The elements after the last one that was taken.
    high = tuple(
        (0 if n is DYNAMIC and b is DYNAMIC and s == 1 else n - start - (m - 1) * s - 1)
        if m
        else n - start
        for n, m, start, b, s in zip(shape, g.spec.shape, start_indices, limit_indices, strides)
    )
    return bind(
        lookup("pad"),
        g,
        zeros_of(TensorSpec((), g.spec.dtype)),
        edge_padding_low=start_indices,
        edge_padding_high=high,
        interior_padding=tuple(s - 1 for s in strides),
    )


def batch_slice(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    start_indices: Ints,
    limit_indices: Ints,
    strides: Ints,
) -> Any:
    """The whole of the new axis."""
    return bind(
        op,
        args[0],
        start_indices=(0, *start_indices),
        limit_indices=(size, *limit_indices),
        strides=(1, *strides),
    )


slice_op = register(Op(
    name="slice",
    section="Slice",
    infer=infer_slice,
    hlo=Hlo(
        "stablehlo.slice",
        dict.fromkeys(("start_indices", "limit_indices", "strides"), I64_ARRAY),
        write=write_slice,
    ),
    kernel=kernel_slice,
    ad=linear(transpose_slice),
    batch=batch_slice,
))  # fmt: skip


def slice(
    operand: Any,
    start_indices: int | Sequence[int],
    limit_indices: int | Sequence[int],
    strides: int | Sequence[int] | None = None,
) -> Tensor:
    """A box of the operand, or every so many elements of it.

    Parameters
    ----------
    operand : array
    start_indices, limit_indices : sequence of int
        For each dimension the first element, and the one after the last.
    strides : sequence of int, optional
        1 by default.

    Returns
    -------
    Tensor
        Of size ``ceil((limit - start) / stride)`` in each dimension.

    Raises
    ------
    ConstraintError
        [C2] Unless there is an entry for each dimension; [C3] unless the box is within the operand;
        [C4] unless the strides are positive.

    Notes
    -----
    Section Slice of the operation semantics.

    Examples
    --------
    >>> slice([0, 1, 2, 3, 4], [1], [5], [2])
    Tensor([1, 3], s32[2])
    """
    starts = as_ints(start_indices, "start_indices", "C2")
    limits = as_ints(limit_indices, "limit_indices", "C2")
    steps = (1,) * len(starts) if strides is None else as_ints(strides, "strides", "C2")
    result: Tensor = bind(
        slice_op, lift(operand), start_indices=starts, limit_indices=limits, strides=steps
    )
    return result


# --- DynamicSlice -------------------------------------------------------------------------------


def require_starts(x: TensorSpec, starts: Sequence[Any], labels: tuple[str, str, str]) -> None:
    """An integer scalar for each dimension, all of one type."""
    of_input, count, of_type = labels
    for start in starts:
        require_array(start, of_input, "each start index")
        require_dtype(
            start.dtype.kind in ("int", "uint"), of_input, "start indices must be integers", start
        )
        require_shape(start.rank == 0, of_input, "start indices must be scalars", start)
    require(len(starts) == x.rank, count, f"there must be {x.rank} start indices", len(starts))
    require_dtype(
        all(s.dtype is starts[0].dtype for s in starts),
        of_type,
        "start indices must be of one type",
        tuple(s.dtype for s in starts),
    )


def infer_dynamic_slice(x: TensorSpec, *starts: TensorSpec, slice_sizes: Ints) -> TensorSpec:
    """C2 to C5. Of what is not held XLA would read foreign memory (X3)."""
    require_array(x, "I1")
    require_shape(not x.dynamic, "X3", "the operand's sizes must not vary", x)
    require_starts(x, starts, ("I2", "C2", "C3"))
    require(
        len(slice_sizes) == x.rank, "C2", f"slice_sizes must have {x.rank} entries", slice_sizes
    )
    require_shape(
        all(s >= 0 and (n is DYNAMIC or s <= n) for s, n in zip(slice_sizes, x.shape)),
        "C4",
        f"slice_sizes must be within the operand's {x.shape}",
        slice_sizes,
    )
    return x.with_shape(slice_sizes)


def clamped_starts(
    starts: Sequence[Array], shape: Sequence[int], sizes: Sequence[int]
) -> list[int]:
    """clamp(0, start, size - slice size): the box stays inside the operand."""
    return [min(max(0, int(i)), n - m) for i, n, m in zip(starts, shape, sizes)]


def kernel_dynamic_slice(x: Array, *starts: Array, slice_sizes: Ints, out: TensorSpec) -> Array:
    """result[i] = operand[clamp(start) + i]."""
    first = clamped_starts(starts, x.shape, slice_sizes)
    return x[tuple([np.s_[i : i + m] for i, m in zip(first, slice_sizes)])]


def transpose_dynamic_slice(g: Any, x: Any, *starts: Any, slice_sizes: Ints) -> Any:
    """Put it where it came from, among zeros."""
    return bind(dynamic_update_slice_op, zeros_of(x.spec), g, *starts)


def stacked_starts(starts: Sequence[Any], is_batched: Sequence[bool], size: int) -> Any:
    """The start indices as one array [size, rank]."""
    columns = []
    for start, batched in zip(starts, is_batched, strict=True):
        full = start if batched else broadcast_leading(start, size)
        columns.append(bind(lookup("reshape"), full, shape=(size, 1)))
    return bind(lookup("concatenate"), *columns, dimension=1)


def batch_dynamic_slice(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, slice_sizes: Ints
) -> Any:
    """The whole of the new axis; starts that differ make it a gather, which clamps alike."""
    x, *starts = args
    if not any(is_batched[1:]):
        zero = zeros_of(starts[0].spec) if starts else constant_of(TensorSpec((), "s32"), 0)
        return bind(op, x, zero, *starts, slice_sizes=(size, *slice_sizes))
    rank = len(slice_sizes)
    offset = 1 if is_batched[0] else 0
    return bind(
        lookup("gather"),
        x,
        stacked_starts(starts, is_batched[1:], size),
        offset_dims=tuple(range(1, rank + 1)),
        collapsed_slice_dims=(),
        operand_batching_dims=(0,) * offset,
        start_indices_batching_dims=(0,) * offset,
        start_index_map=tuple(range(offset, rank + offset)),
        index_vector_dim=1,
        slice_sizes=(*(1,) * offset, *slice_sizes),
        indices_are_sorted=False,
    )


def _write_starts(writer: Writer, instruction: Any, first: int) -> list[Value]:
    """The operands, with start indices wide enough: XLA computes the clamping in their own type, where it wraps."""
    operands: list[Value] = list(instruction.operands)
    wide = TensorSpec((), "s32")
    for position, start in enumerate(operands[first:], first):
        if type(start.spec) is TensorSpec and start.spec.dtype.bits < 32:
            made = Value(wide)
            writer.names[made] = writer.raw(
                f'"stablehlo.convert"({writer.names[start]}) : ({start.spec.mlir}) -> {wide.mlir}'
            )
            operands[position] = made
    return operands


def write_dynamic_slice(writer: Writer, instruction: Any) -> None:
    """Write it with start indices of 32 bits or more."""
    writer.line(
        "stablehlo.dynamic_slice",
        instruction,
        f"slice_sizes = {I64_ARRAY.print(instruction.params['slice_sizes'])}",
        operands=_write_starts(writer, instruction, 1),
    )


def write_dynamic_update_slice(writer: Writer, instruction: Any) -> None:
    """Write it with start indices of 32 bits or more."""
    operands = _write_starts(writer, instruction, 2)
    writer.line("stablehlo.dynamic_update_slice", instruction, operands=operands)


dynamic_slice_op = register(Op(
    name="dynamic_slice",
    section="DynamicSlice",
    infer=infer_dynamic_slice,
    hlo=Hlo("stablehlo.dynamic_slice", {"slice_sizes": I64_ARRAY}, write=write_dynamic_slice),
    kernel=kernel_dynamic_slice,
    ad=linear(transpose_dynamic_slice),
    batch=batch_dynamic_slice,
))  # fmt: skip


def _starts(start_indices: Any, x: Tensor) -> list[Any]:
    """Start indices as scalar tensors: from a sequence of scalars, or from an array of one dimension."""
    if isinstance(start_indices, Tensor):
        require_shape(
            start_indices.ndim == 1,
            "X1",
            "start_indices must have one dimension",
            start_indices.shape,
        )
        pieces = [
            bind(slice_op, start_indices, start_indices=(i,), limit_indices=(i + 1,), strides=(1,))
            for i in range(start_indices.shape[0])
        ]
        return [bind(lookup("reshape"), p, shape=()) for p in pieces]
    if isinstance(start_indices, np.ndarray):
        start_indices = list(start_indices)
    given = list(start_indices) if isinstance(start_indices, Sequence) else [start_indices]
    like = next((i for i in given if isinstance(i, Tensor)), None)
    return [_start(i, like, x) for i in given]


def _start(index: Any, like: Tensor | None, x: Tensor) -> Tensor:
    if type(index) is int:
        return lift(index, (like,)) if like is not None else lift(scalar_array(index), (x,))
    return lift(index, (x,))


def dynamic_slice(operand: Any, start_indices: Any, size_indices: int | Sequence[int]) -> Tensor:
    """A box of the operand whose place is computed.

    Parameters
    ----------
    operand : array of N dimensions
    start_indices : sequence of N integer scalars, or an array of N integers
        Of one integer type; Python integers take that of the others.
    size_indices : sequence of N ints
        The size of the box.

    Returns
    -------
    Tensor
        Of shape `size_indices`.

    Raises
    ------
    DTypeError
        [I2] Unless the start indices are integers; [C3] unless they are of one type.
    ConstraintError
        [C2] Unless there is one for each dimension.
    ShapeError
        [C4] If the box is larger than the operand; [X3] if the operand's sizes vary.

    Notes
    -----
    Section DynamicSlice of the operation semantics. Start indices are clamped so that the box lies
    within the operand. StableHLO's name for `size_indices` is ``slice_sizes``.

    Examples
    --------
    >>> dynamic_slice([0, 1, 2, 3, 4], [3], [3])
    Tensor([2, 3, 4], s32[3])
    """
    x = lift(operand)
    sizes = as_ints(size_indices, "size_indices", "C2")
    result: Tensor = bind(dynamic_slice_op, x, *_starts(start_indices, x), slice_sizes=sizes)
    return result


# --- DynamicUpdateSlice -------------------------------------------------------------------------


def infer_dynamic_update_slice(
    x: TensorSpec, update: TensorSpec, *starts: TensorSpec
) -> TensorSpec:
    """C2 to C6, and X3 as of dynamic_slice."""
    require_array(x, "I1")
    require_array(update, "I2", "the update")
    for what, spec in (("the operand", x), ("the update", update)):
        require_shape(not spec.dynamic, "X3", f"the sizes of {what} must not vary", spec)
    require_dtype(
        x.dtype is update.dtype, "C2", "the update must have the operand's type", update.dtype
    )
    require_shape(
        x.rank == update.rank, "C3", f"the update must have {x.rank} dimensions", update.shape
    )
    require_starts(x, starts, ("I3", "C4", "C5"))
    require_shape(
        all(n is DYNAMIC or m <= n for n, m in zip(x.shape, update.shape)),
        "C6",
        f"the update must be within the operand's {x.shape}",
        update.shape,
    )
    return x


def kernel_dynamic_update_slice(x: Array, update: Array, *starts: Array, out: TensorSpec) -> Array:
    """result[clamp(start) + i] = update[i], and the operand elsewhere."""
    result = np.array(x)
    first = clamped_starts(starts, x.shape, update.shape)
    result[tuple([np.s_[i : i + m] for i, m in zip(first, update.shape)])] = update
    return result


def transpose_dynamic_update_slice(g: Any, x: Any, update: Any, *starts: Any) -> Any:
    """Zeros where the update went; what went there."""
    return (
        bind(dynamic_update_slice_op, g, zeros_of(update.spec), *starts),
        bind(dynamic_slice_op, g, *starts, slice_sizes=update.spec.shape),
    )


def batch_dynamic_update_slice(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int
) -> Any:
    """The whole of the new axis; starts that differ make it a scatter of clamped indices."""
    x, update, *starts = args
    x = x if is_batched[0] else broadcast_leading(x, size)
    update = update if is_batched[1] else broadcast_leading(update, size)
    if not any(is_batched[2:]):
        zero = zeros_of(starts[0].spec) if starts else constant_of(TensorSpec((), "s32"), 0)
        return bind(op, x, update, zero, *starts)
    rank = len(starts)
    indices = stacked_starts(starts, is_batched[2:], size)
    # A scatter skips the windows that do not fit, so the clamping is done here. The bounds are
    # cut to what the index type holds.
    most = np.iinfo(indices.spec.dtype.numpy).max
    room = [min(n - m, most) for n, m in zip(x.spec.shape[1:], update.spec.shape[1:])]
    high = bind(lookup("constant"), value=np.array(room, indices.spec.dtype.numpy))
    high = broadcast_leading(high, size)
    clamped = bind(lookup("max"), bind(lookup("min"), indices, high), zeros_of(indices.spec))
    (result,) = bind(
        lookup("scatter"),
        x,
        clamped,
        update,
        update_computation=replacement(x.spec.dtype),
        update_window_dims=tuple(range(1, rank + 1)),
        inserted_window_dims=(),
        input_batching_dims=(0,),
        scatter_indices_batching_dims=(0,),
        scatter_dims_to_operand_dims=tuple(range(1, rank + 1)),
        index_vector_dim=1,
        indices_are_sorted=False,
        unique_indices=True,
    )
    return result


dynamic_update_slice_op = register(Op(
    name="dynamic_update_slice",
    section="DynamicUpdateSlice",
    infer=infer_dynamic_update_slice,
    hlo=Hlo("stablehlo.dynamic_update_slice", write=write_dynamic_update_slice),
    kernel=kernel_dynamic_update_slice,
    ad=linear(transpose_dynamic_update_slice, wrt=(0, 1)),
    batch=batch_dynamic_update_slice,
))  # fmt: skip


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Tensor:
    """The operand with a box of it replaced, in a place that is computed.

    Parameters
    ----------
    operand : array of N dimensions
    update : array of N dimensions
        The box, of the operand's element type.
    start_indices : sequence of N integer scalars, or an array of N integers
        Of one integer type; Python integers take that of the others.

    Returns
    -------
    Tensor
        Of the operand's shape.

    Raises
    ------
    DTypeError
        [C2] If the element types differ; [I3], [C5] unless the start indices are integers of one type.
    ShapeError
        [C3], [C6] If the update has other dimensions, or is larger than the operand; [X3] if sizes vary.
    ConstraintError
        [C4] Unless there is a start index for each dimension.

    Notes
    -----
    Section DynamicUpdateSlice of the operation semantics. Start indices are clamped so that the box
    lies within the operand.

    Examples
    --------
    >>> dynamic_update_slice([0, 1, 2, 3, 4], [8, 9], [4])
    Tensor([0, 1, 2, 8, 9], s32[5])
    """
    x = lift(operand)
    result: Tensor = bind(
        dynamic_update_slice_op, x, lift(update, (x,)), *_starts(start_indices, x)
    )
    return result
