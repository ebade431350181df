"""Gather: slices of an array from places that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_int,
    as_ints,
    has_unknown,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import BOOL, I64_ARRAY, Group, Struct
from xlapy.trace.computation import Instruction
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import as_vector, size_of
from xlapy.trace.stablehlo import Writer

from .contraction import require_numbers
from .rules import linear, zeros_of
from .scalar_bodies import scalar_operation

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- checks ---------------------------------------------------------------------------------------


def is_unique(entries: Sequence[int]) -> bool:
    """No entry twice."""
    return len(set(entries)) == len(entries)


def within(entries: Sequence[int], rank: int) -> bool:
    """Each entry names one of `rank` dimensions."""
    return all(0 <= e < rank for e in entries)


def combine(batch: Sequence[int], offset: Sequence[int], offset_dims: Ints) -> Ints:
    """The sizes `offset` at the positions `offset_dims`, and those of `batch` at the others, in order."""
    rest, window = iter(batch), dict(zip(offset_dims, offset))
    return tuple(window[i] if i in window else next(rest) for i in range(len(batch) + len(offset)))


def infer_gather(
    x: TensorSpec,
    start_indices: TensorSpec,
    *,
    offset_dims: Ints,
    collapsed_slice_dims: Ints,
    operand_batching_dims: Ints,
    start_indices_batching_dims: Ints,
    start_index_map: Ints,
    index_vector_dim: int,
    slice_sizes: Ints,
    indices_are_sorted: bool,
) -> TensorSpec:
    """C1 to C23. Places are held to the bounds of what varies on XLA, and to the sizes by the kernel (X3)."""
    require_array(x, "I1")
    require_shape(not x.dynamic, "X3", "the operand's sizes must not vary", x)
    require_array(start_indices, "I2", "start_indices")
    indices = start_indices
    require_dtype(
        indices.dtype.integer, "I2", "start_indices must be integers", indices.dtype
    )  # fmt: skip
    dropped = (*collapsed_slice_dims, *operand_batching_dims)
    require(
        x.rank == len(offset_dims) + len(dropped),
        "C1",
        f"offset_dims, collapsed_slice_dims and operand_batching_dims must be {x.rank} together",
        (offset_dims, collapsed_slice_dims, operand_batching_dims),
    )
    require(
        0 <= index_vector_dim <= indices.rank,
        "C2",
        f"index_vector_dim must be in [0, {indices.rank}]",
        index_vector_dim,
    )
    count = indices.shape[index_vector_dim] if index_vector_dim < indices.rank else 1
    require(
        count in (len(start_index_map), DYNAMIC),
        "C3",
        f"start_index_map must have an entry for each of the {count} indices of a start",
        start_index_map,
    )
    require(
        is_unique(offset_dims) and list(offset_dims) == sorted(offset_dims),
        "C4",
        "offset_dims must be unique and sorted",
        offset_dims,
    )
    batch = [n for i, n in enumerate(indices.shape) if i != index_vector_dim]
    rank = len(batch) + len(offset_dims)
    require(within(offset_dims, rank), "C5", f"offset_dims must be in [0, {rank})", offset_dims)
    require(
        is_unique(dropped),
        "C6",
        "collapsed_slice_dims and operand_batching_dims must be unique",
        dropped,
    )
    for name, dims, order, bounds in (
        ("collapsed_slice_dims", collapsed_slice_dims, "C7", "C8"),
        ("operand_batching_dims", operand_batching_dims, "C10", "C11"),
    ):
        require(list(dims) == sorted(dims), order, f"{name} must be sorted", dims)
        require(within(dims, x.rank), bounds, f"{name} must be in [0, {x.rank})", dims)
    require(
        len(slice_sizes) == x.rank, "C20", f"slice_sizes must have {x.rank} entries", slice_sizes
    )
    require_shape(
        all(
            n is DYNAMIC if s is DYNAMIC else s >= 0 and (n is DYNAMIC or s <= n)
            for s, n in zip(slice_sizes, x.shape)
        ),
        "C21",
        f"slice_sizes must be within the operand's {x.shape}",
        slice_sizes,
    )
    for label, dims in (("C9", collapsed_slice_dims), ("C12", operand_batching_dims)):
        require(
            all(slice_sizes[d] <= 1 for d in dims),
            label,
            f"slice_sizes must be at most 1 in the dimensions {dims}",
            slice_sizes,
        )
    require_batching(
        "start_indices",
        x,
        indices,
        index_vector_dim,
        operand_batching_dims,
        start_indices_batching_dims,
        ("C13", "C14", "C15", "C16", "C17"),
    )
    mapped = (*start_index_map, *operand_batching_dims)
    require(
        is_unique(mapped), "C18", "start_index_map and operand_batching_dims must be unique", mapped
    )
    require(
        within(start_index_map, x.rank),
        "C19",
        f"start_index_map must be in [0, {x.rank})",
        start_index_map,
    )
    offset = [n for i, n in enumerate(slice_sizes) if i not in dropped]
    result = TensorSpec(
        combine(batch, offset, offset_dims),
        x.dtype,
        _dynamic(indices, index_vector_dim, offset_dims),
    )
    require_shape(
        result.size == 0 or all(slice_sizes[d] == 1 for d in dropped),
        "X1",
        "an element of the result must come from one of the operand",
        (x, slice_sizes),
    )
    return result


def require_batching(
    name: str,
    x: TensorSpec,
    indices: TensorSpec,
    index_vector_dim: int,
    operand_dims: Ints,
    indices_dims: Ints,
    labels: tuple[str, str, str, str, str],
) -> None:
    """Dimensions that the operand and the indices have in common."""
    unique, bounds, no_vector, count, sizes = labels
    what = f"{name}_batching_dims"
    require(is_unique(indices_dims), unique, f"{what} must be unique", indices_dims)
    require(
        within(indices_dims, indices.rank),
        bounds,
        f"{what} must be in [0, {indices.rank})",
        indices_dims,
    )
    require(
        index_vector_dim not in indices_dims,
        no_vector,
        f"{what} must not have the index_vector_dim {index_vector_dim}",
        indices_dims,
    )
    require(
        len(operand_dims) == len(indices_dims),
        count,
        "there must be as many batching dimensions of the operand as of the indices",
        (operand_dims, indices_dims),
    )
    require_shape(
        all(
            x.shape[a] == indices.shape[b] or DYNAMIC in (x.shape[a], indices.shape[b])
            for a, b in zip(operand_dims, indices_dims)
        ),
        sizes,
        "batching dimensions must have the same size",
        (x.shape, indices.shape),
    )


def _dynamic(indices: TensorSpec, index_vector_dim: int, offset_dims: Ints) -> Ints:
    """The result's dynamic dimensions: those that it has of the indices."""
    if not indices.dynamic:
        return ()
    batch = [i for i in range(indices.rank) if i != index_vector_dim]
    of_result = [i for i in range(len(batch) + len(offset_dims)) if i not in offset_dims]
    return tuple(r for r, i in zip(of_result, batch) if i in indices.dynamic)


# --- kernel ---------------------------------------------------------------------------------------


def start_vectors(
    indices: Array,
    index_vector_dim: int,
    index_map: Ints,
    indices_batching_dims: Ints,
    operand_batching_dims: Ints,
) -> dict[int, Array]:
    """For the operand's dimensions that have one the start index, over the batch dimensions of the indices."""
    if index_vector_dim == indices.ndim:
        indices = indices[..., None]
    vectors = np.moveaxis(indices, index_vector_dim, 0)
    if vectors.dtype == np.uint64:
        # Beyond every size they are out of bounds alike.
        vectors = np.minimum(vectors, np.uint64(2**63 - 1))
    starts = {d: vectors[k].astype(np.int64) for k, d in enumerate(index_map)}
    shape = vectors.shape[1:]
    for a, b in zip(operand_batching_dims, indices_batching_dims):
        axis = b - (index_vector_dim < b)
        sizes = [1] * len(shape)
        sizes[axis] = -1
        starts[a] = np.broadcast_to(np.arange(shape[axis]).reshape(sizes), shape)
    return starts


def kernel_gather(
    x: Array,
    indices: Array,
    *,
    offset_dims: Ints,
    collapsed_slice_dims: Ints,
    operand_batching_dims: Ints,
    start_indices_batching_dims: Ints,
    start_index_map: Ints,
    index_vector_dim: int,
    slice_sizes: Ints,
    indices_are_sorted: bool,
    out: TensorSpec,
) -> Array:
    """result[batch, offset] = operand[clamp(start(batch)) + offset]."""
    if has_unknown(slice_sizes):  # the whole of that dimension
        slice_sizes = tuple(n if s is DYNAMIC else s for s, n in zip(slice_sizes, x.shape))
    starts = start_vectors(
        indices,
        index_vector_dim,
        start_index_map,
        start_indices_batching_dims,
        operand_batching_dims,
    )
    batch = tuple(n for i, n in enumerate(indices.shape) if i != index_vector_dim)
    dropped = (*collapsed_slice_dims, *operand_batching_dims)
    offset = tuple(m for d, m in enumerate(slice_sizes) if d not in dropped)
    shape = combine(batch, offset, offset_dims)
    if 0 in shape:
        return np.zeros(shape, x.dtype)
    for d, start in starts.items():
        starts[d] = np.clip(start, 0, x.shape[d] - slice_sizes[d])
    moved = [d for d in starts if slice_sizes[d] < x.shape[d]]
    if len(moved) == 1 and moved[0] in collapsed_slice_dims and len(dropped) == 1:
        # Rows of a table. The batch dimensions stand where the table's dimension was.
        (d,) = moved
        rest = tuple([np.s_[:m] for m in slice_sizes])
        found = np.take(x[rest[:d] + (np.s_[:],) + rest[d + 1 :]], starts[d], d)
        order = [*range(d, d + len(batch)), *range(d), *range(d + len(batch), found.ndim)]
        found = found.transpose(order)
    else:
        # Every slice that there is, as a view: dimensions of starts, then those of the slice.
        # Views of that kind know no element types but numpy's; f8e5m2 takes itself for one.
        plain = x.view(np.uint8) if x.dtype.itemsize == 1 else x
        slices = np.lib.stride_tricks.sliding_window_view(plain, slice_sizes) if x.ndim else plain
        none = np.zeros((1,) * len(batch), np.int64)
        at = tuple([starts.get(d, none) for d in range(x.ndim)])
        found = np.asarray(slices[at]).view(x.dtype)
        found = np.broadcast_to(
            found.reshape((*found.shape[: len(batch)], *offset)), batch + offset
        )
    of_batch = [i for i in range(len(shape)) if i not in offset_dims]
    place = {dim: source for source, dim in enumerate([*of_batch, *offset_dims])}
    return found.transpose([place[i] for i in range(len(shape))])


# --- derivative and batching ----------------------------------------------------------------------


def clamped_indices(
    indices: Any, index_vector_dim: int, index_map: Ints, room: Sequence[int]
) -> Any:
    """clamp(0, index, room): what gather does to its indices, before a scatter, which would skip them.

    Parameters
    ----------
    indices : Tensor
    index_vector_dim : int
    index_map : tuple of int
        The operand's dimension of each index.
    room : sequence of int
        For each of the operand's dimensions its size less that of the slice.
    """
    spec = indices.spec
    low, high = index_bounds(spec, index_vector_dim, index_map, room)
    return bind(lookup("max"), bind(lookup("min"), indices, high), low)


def index_bounds(
    spec: TensorSpec, index_vector_dim: int, index_map: Ints, room: Sequence[int]
) -> tuple[Any, Any]:
    """The least and the greatest index that is in bounds, in the spec of the indices."""
    most = (
        int(np.iinfo(spec.dtype.numpy).max)
        if spec.dtype.bits >= 8
        else 2 ** (spec.dtype.bits - (spec.dtype.kind == "int")) - 1
    )
    bounds = np.array([min(room[d], most) for d in index_map]).astype(spec.dtype.numpy)
    if index_vector_dim == spec.rank:
        bounds = bounds.reshape(())
    high = bind(
        lookup("broadcast_in_dim"),
        bind(lookup("constant"), value=bounds),
        shape=spec.shape,
        broadcast_dimensions=(index_vector_dim,) if bounds.ndim else (),
    )
    return zeros_of(spec), high


def transpose_gather(
    g: Any,
    x: Any,
    indices: Any,
    *,
    offset_dims: Ints,
    collapsed_slice_dims: Ints,
    operand_batching_dims: Ints,
    start_indices_batching_dims: Ints,
    start_index_map: Ints,
    index_vector_dim: int,
    slice_sizes: Ints,
    indices_are_sorted: bool,
) -> Any:
    """Add each slice where it came from."""
    room = [n - m for n, m in zip(x.spec.shape, slice_sizes)]
    clamped = clamped_indices(indices, index_vector_dim, start_index_map, room)
    (result,) = bind(
        lookup("scatter"),
        zeros_of(x.spec),
        clamped,
        g,
        update_computation=scalar_operation("add", x.spec.dtype),
        update_window_dims=offset_dims,
        inserted_window_dims=collapsed_slice_dims,
        input_batching_dims=operand_batching_dims,
        scatter_indices_batching_dims=start_indices_batching_dims,
        scatter_dims_to_operand_dims=start_index_map,
        index_vector_dim=index_vector_dim,
        indices_are_sorted=indices_are_sorted,
        unique_indices=False,
    )
    return result


def widened(indices: Any) -> Any:
    """Indices of a type that holds every size of a batch: XLA numbers the rows in the type of the indices."""
    spec = indices.spec
    if spec.dtype.bits >= 32:
        return indices
    return bind(lookup("convert_element_type"), indices, dtype=TensorSpec((), "s32").dtype)


def batch_gather(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    offset_dims: Ints,
    collapsed_slice_dims: Ints,
    operand_batching_dims: Ints,
    start_indices_batching_dims: Ints,
    start_index_map: Ints,
    index_vector_dim: int,
    slice_sizes: Ints,
    indices_are_sorted: bool,
) -> Any:
    """One more batching dimension; or one more dimension of the slice, if the starts are shared."""
    x, indices = args
    of_x, of_indices = is_batched
    shift = 1 if of_x else 0
    along = 1 if of_indices else 0
    collapsed = tuple(d + shift for d in collapsed_slice_dims)
    operand_batching = tuple(d + shift for d in operand_batching_dims)
    indices_batching = tuple(d + along for d in start_indices_batching_dims)
    offsets = tuple(d + 1 for d in offset_dims)
    sizes = slice_sizes
    if of_x and of_indices:
        indices = widened(indices)
        operand_batching = (0, *operand_batching)
        indices_batching = (0, *indices_batching)
        # Of no rows, the slices have none either.
        sizes = (min(size, 1), *sizes)
    elif of_x:
        offsets = (0, *offsets)
        sizes = (size, *sizes)
    return bind(
        op,
        x,
        indices,
        offset_dims=offsets,
        collapsed_slice_dims=collapsed,
        operand_batching_dims=operand_batching,
        start_indices_batching_dims=indices_batching,
        start_index_map=tuple(d + shift for d in start_index_map),
        index_vector_dim=index_vector_dim + along,
        slice_sizes=sizes,
        indices_are_sorted=indices_are_sorted and not (of_x and of_indices),
    )


_NUMBERS: Final = {
    "offset_dims": (), "collapsed_slice_dims": (), "operand_batching_dims": (),
    "start_indices_batching_dims": (), "start_index_map": (), "index_vector_dim": 0,
}  # fmt: skip
DIMENSION_NUMBERS: Final = Group(tuple(_NUMBERS), Struct("stablehlo.gather", _NUMBERS))


def write_gather(writer: Writer, instruction: Instruction) -> None:
    """A size that is not known must be asked for."""
    if has_unknown(instruction.params["slice_sizes"]):
        params = dict(instruction.params)
        sizes = params.pop("slice_sizes")
        result = instruction.results[0].spec

        def composed(x: Any, indices: Any) -> Any:
            whole = as_vector([size_of(x, d) if n is DYNAMIC else n for d, n in enumerate(sizes)])
            return bind(lookup("dynamic_gather"), x, indices, whole, result=result, **params)

        writer.composed(instruction, composed)
    else:
        writer.declared(instruction)


gather_op = register(Op(
    name="gather",
    section="Gather",
    infer=infer_gather,
    hlo=Hlo("stablehlo.gather", {
        "dimension_numbers": DIMENSION_NUMBERS,
        "slice_sizes": I64_ARRAY,
        "indices_are_sorted": BOOL,
    }, write=write_gather),
    kernel=kernel_gather,
    ad=linear(transpose_gather),
    batch=batch_gather,
))  # fmt: skip


# --- the public function --------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class GatherDimensionNumbers:
    """What each dimension of a gather's operand, indices and result is for.

    Attributes
    ----------
    offset_dims : sequence of int
        The result's dimensions that run over a slice.
    collapsed_slice_dims : sequence of int
        The operand's dimensions that a slice has with size 1, and the result does not have.
    start_index_map : sequence of int
        The operand's dimension that each entry of a start index is for.
    index_vector_dim : int
        The dimension of `start_indices` along which a start index lies; if it is the number of its dimensions, a start
        index is a single number.
    operand_batching_dims, start_indices_batching_dims : sequence of int
        Pairs of dimensions that the operand and the indices have in common.
    """

    offset_dims: Sequence[int]
    collapsed_slice_dims: Sequence[int]
    start_index_map: Sequence[int]
    index_vector_dim: int
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: int | Sequence[int],
    indices_are_sorted: bool = False,
) -> Tensor:
    """Slices of an array, each from a place of its own.

    Parameters
    ----------
    operand : array
    start_indices : array of integers
        The place of each slice, along the dimension `index_vector_dim`.
    dimension_numbers : GatherDimensionNumbers
    slice_sizes : sequence of int
        The shape of a slice: one entry for each dimension of the operand.
    indices_are_sorted : bool
        A promise that the start indices ascend.

    Returns
    -------
    Tensor
        Its dimensions `offset_dims` run over a slice, the others over the slices.

    Raises
    ------
    ConstraintError, ShapeError
        [C1] to [C21] If the dimension numbers do not fit together, or a slice is larger than the operand; [X3] if the
        operand's sizes vary.

    Notes
    -----
    Section Gather of the operation semantics. Start indices are clamped so that each slice lies within the operand.

    Examples
    --------
    The rows 2 and 0:

    >>> import xlapy
    >>> x = xlapy.ops.constant([[1, 2], [3, 4], [5, 6]])
    >>> rows = GatherDimensionNumbers((1,), (0,), (0,), 1)
    >>> gather(x, [2, 0], rows, [1, 2])
    Tensor([[5, 6],
            [1, 2]], s32[2,2])
    """
    x = lift(operand)
    numbers = dimension_numbers
    require_numbers(numbers, GatherDimensionNumbers)
    result: Tensor = bind(
        gather_op,
        x,
        lift(start_indices, (x,)),
        offset_dims=as_ints(numbers.offset_dims, "offset_dims", "C5"),
        collapsed_slice_dims=as_ints(numbers.collapsed_slice_dims, "collapsed_slice_dims", "C8"),
        operand_batching_dims=as_ints(
            numbers.operand_batching_dims, "operand_batching_dims", "C11"
        ),
        start_indices_batching_dims=as_ints(
            numbers.start_indices_batching_dims, "start_indices_batching_dims", "C14"
        ),
        start_index_map=as_ints(numbers.start_index_map, "start_index_map", "C19"),
        index_vector_dim=as_int(numbers.index_vector_dim, "index_vector_dim", "C2"),
        slice_sizes=as_ints(slice_sizes, "slice_sizes", "C20"),
        indices_are_sorted=bool(indices_are_sorted),
    )
    return result
