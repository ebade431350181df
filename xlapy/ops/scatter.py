"""Scatter: updates of an array in places that are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from xlapy.dtypes import DType
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
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Op, register

from .contraction import require_numbers
from .gather import combine, is_unique, require_batching, start_vectors, widened, within
from .rules import body_name, broadcast_leading
from .scalar_bodies import on_arrays
from .scatter_rules import scatter_derivatives
from .scatter_text import SCATTER_HLO, in_types_of

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# --- checks ---------------------------------------------------------------------------------------


def is_promotable(given: DType, to: DType) -> bool:
    """Of the same kind, and at least as wide."""
    return given is to or (given.kind == to.kind and given.bits <= to.bits)


def infer_scatter(
    *operands: TensorSpec,
    update_computation: Computation,
    update_window_dims: Ints,
    inserted_window_dims: Ints,
    input_batching_dims: Ints,
    scatter_indices_batching_dims: Ints,
    scatter_dims_to_operand_dims: Ints,
    index_vector_dim: int,
    indices_are_sorted: bool,
    unique_indices: bool,
) -> tuple[TensorSpec, ...]:
    """C1 to C25."""
    count = len(operands) // 2
    require(
        count > 0 and len(operands) == 2 * count + 1,
        "C5",
        "there must be as many updates as inputs, and indices between them",
        len(operands),
    )
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    for x in inputs:
        require_array(x, "I1", "each input")
    require_array(indices, "I2", "scatter_indices")
    require_dtype(
        indices.dtype.integer, "I2", "scatter_indices must be integers", indices.dtype
    )  # fmt: skip
    for u in updates:
        require_array(u, "I3", "each update")
    x, u = inputs[0], updates[0]
    require_shape(
        all(i.shape == x.shape for i in inputs),
        "C1",
        "the inputs must be of one shape",
        tuple(i.shape for i in inputs),
    )
    require_shape(
        all(i.shape == u.shape for i in updates),
        "C3",
        "the updates must be of one shape",
        tuple(i.shape for i in updates),
    )
    require_dtype(
        all(i.dtype is j.dtype for i, j in zip(inputs, updates)),
        "C6",
        "each update must have the type of its input",
        tuple(i.dtype for i in updates),
    )
    dropped = (*inserted_window_dims, *input_batching_dims)
    require(
        x.rank == len(update_window_dims) + len(dropped),
        "C2",
        f"update_window_dims, inserted_window_dims and input_batching_dims must be {x.rank} together",
        (update_window_dims, inserted_window_dims, input_batching_dims),
    )
    require(
        is_unique(update_window_dims) and list(update_window_dims) == sorted(update_window_dims),
        "C7",
        "update_window_dims must be unique and sorted",
        update_window_dims,
    )
    require(
        within(update_window_dims, u.rank),
        "C8",
        f"update_window_dims must be in [0, {u.rank})",
        update_window_dims,
    )
    require(
        is_unique(dropped),
        "C9",
        "inserted_window_dims and input_batching_dims must be unique",
        dropped,
    )
    for name, dims, order, bounds in (
        ("inserted_window_dims", inserted_window_dims, "C10", "C11"),
        ("input_batching_dims", input_batching_dims, "C12", "C13"),
    ):
        require(list(dims) == sorted(dims), order, f"{name} must be sorted", dims)
        require(within(dims, x.rank), bounds, f"{name} must be in [0, {x.rank})", dims)
    require(
        0 <= index_vector_dim <= indices.rank,
        "C22",
        f"index_vector_dim must be in [0, {indices.rank}]",
        index_vector_dim,
    )
    require_batching(
        "scatter_indices",
        x,
        indices,
        index_vector_dim,
        input_batching_dims,
        scatter_indices_batching_dims,
        ("C14", "C15", "C16", "C17", "C18"),
    )
    length = indices.shape[index_vector_dim] if index_vector_dim < indices.rank else 1
    require(
        len(scatter_dims_to_operand_dims) == length or length < 0,
        "C19",
        f"scatter_dims_to_operand_dims must have an entry for each of the {length} indices of a start",
        scatter_dims_to_operand_dims,
    )
    mapped = (*scatter_dims_to_operand_dims, *input_batching_dims)
    require(
        is_unique(mapped),
        "C20",
        "scatter_dims_to_operand_dims and input_batching_dims must be unique",
        mapped,
    )
    require(
        within(scatter_dims_to_operand_dims, x.rank),
        "C21",
        f"scatter_dims_to_operand_dims must be in [0, {x.rank})",
        scatter_dims_to_operand_dims,
    )
    batch = [n for i, n in enumerate(indices.shape) if i != index_vector_dim]
    room = [n for d, n in enumerate(x.shape) if d not in dropped]
    require_shape(
        u.rank == len(batch) + len(update_window_dims),
        "C4",
        f"the updates must have {len(batch) + len(update_window_dims)} dimensions",
        u.shape,
    )
    window = [u.shape[d] for d in update_window_dims]
    wanted = combine(batch, window, update_window_dims)
    require_shape(
        all(n == m or DYNAMIC in (n, m) for n, m in zip(u.shape, wanted)),
        "C4",
        f"the updates must have the sizes of the indices, {tuple(batch)}, outside the window",
        u.shape,
    )
    require_shape(
        all(n is DYNAMIC or m <= n for m, n in zip(window, room)),
        "C4",
        f"the window of the updates must be within {tuple(room)}",
        tuple(window),
    )
    types = _require_body(update_computation, inputs)
    return tuple(i.with_dtype(t) for i, t in zip(inputs, types))


def _require_body(body: Any, inputs: Sequence[TensorSpec]) -> list[DType]:
    """C23: of two scalars for each input to one, of the input's type or a wider one."""
    require(
        type(body) is Computation, "I12", "update_computation must be a computation", body
    )  # fmt: skip
    count = len(inputs)
    specs, results = body.parameter_specs, body.result_specs
    require(
        len(specs) == 2 * count
        and len(results) == count
        and all(type(s) is TensorSpec and s.rank == 0 for s in (*specs, *results)),
        "C23",
        f"update_computation must take {2 * count} scalars and give {count}",
        body.parameter_specs,
    )
    require_dtype(
        results == specs[:count] == specs[count:],
        "C23",
        "update_computation must give the types that it takes twice",
        (specs, results),
    )
    types = [s.dtype for s in results]
    require_dtype(
        all(is_promotable(i.dtype, t) for i, t in zip(inputs, types)),
        "C23",
        "update_computation must take the inputs' types, or wider ones of the same kind",
        tuple(types),
    )
    return types


# --- kernel ---------------------------------------------------------------------------------------

#: ufuncs that do one update after the other
_UFUNCS: Final[Mapping[str, np.ufunc]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def kernel_scatter(
    *arrays: Array,
    update_computation: Any,
    update_window_dims: Ints,
    inserted_window_dims: Ints,
    input_batching_dims: Ints,
    scatter_indices_batching_dims: Ints,
    scatter_dims_to_operand_dims: Ints,
    index_vector_dim: int,
    indices_are_sorted: bool,
    unique_indices: bool,
    out: tuple[TensorSpec, ...],
) -> tuple[Array, ...]:
    """result[start(batch) + window] = body(result[the same], update[batch, window]), if the window is inside.

    The updates come in the order of the indices.
    """
    count = len(arrays) // 2
    inputs, indices, updates = arrays[:count], arrays[count], arrays[count + 1 :]
    shape = inputs[0].shape
    dropped = (*inserted_window_dims, *input_batching_dims)
    window_dims = [d for d in range(len(shape)) if d not in dropped]
    window = [updates[0].shape[d] for d in update_window_dims]
    sizes = [1] * len(shape)
    for d, m in zip(window_dims, window):
        sizes[d] = m
    starts = start_vectors(
        indices,
        index_vector_dim,
        scatter_dims_to_operand_dims,
        scatter_indices_batching_dims,
        input_batching_dims,
    )
    batch = [n for i, n in enumerate(indices.shape) if i != index_vector_dim]
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    # A window that is not wholly inside is skipped.
    inside = np.full(batch, all(m <= n for m, n in zip(sizes, shape)))
    first = np.zeros(batch, np.int64)
    for d, start in starts.items():
        inside &= (start >= 0) & (start <= shape[d] - sizes[d])
        first += start * steps[d]
    offsets = np.zeros((), np.int64)
    for d, m in zip(window_dims, window):
        offsets = offsets[..., None] + np.arange(m) * steps[d]
    chosen = inside.reshape(-1)
    places = (first.reshape(-1)[chosen][:, None] + offsets.reshape(1, -1)).reshape(-1)
    batch_dims = [d for d in range(updates[0].ndim) if d not in update_window_dims]
    order = [*batch_dims, *update_window_dims]
    rows = (math.prod(batch), math.prod(window))
    values = [
        u.transpose(order).reshape(rows)[chosen].reshape(-1).astype(s.dtype.numpy, copy=False)
        for u, s in zip(updates, out)
    ]
    results = [np.array(x, s.dtype.numpy, order="C").reshape(-1) for x, s in zip(inputs, out)]
    if len(places):
        apply_updates(results, places, values, update_computation)
    return tuple([r.reshape(shape) for r in results])


def apply_updates(
    results: list[Array],
    places: Array,
    values: Sequence[Array],
    body: Callable[..., tuple[Any, ...]],
) -> None:
    """``results[place] = body(results[place], value)`` for one place after the other, in place.

    Parameters
    ----------
    results : list of arrays of one dimension
    places : array of integers
        Perhaps the same one several times.
    values : sequence of arrays of one dimension
        For each place.
    body : callable
    """
    computation = getattr(body, "computation", None)
    name = (body_name(computation) or "") if computation is not None else ""
    if name == "second":
        results[0][places] = values[0]  # of several the last stays
        return
    if name in _UFUNCS and _is_exact(name, results[0], values[0]):
        ufunc = _UFUNCS[name]
        ufunc.at(results[0], places, values[0])
        return
    for chosen in _rounds(places):
        at = places[chosen]
        found = on_arrays(body, [*[r[at] for r in results], *[v[chosen] for v in values]])
        for r, f in zip(results, found):
            r[at] = f


def _is_exact(name: str, result: Array, value: Array) -> bool:
    """Whether numpy's ufunc does what the operation's kernel does."""
    if result.dtype.isbuiltin != 1:  # narrow types
        return False
    kind = result.dtype.kind
    if kind == "b":
        return name in ("add", "mul", "and", "or", "xor")  # numpy's + and * are or and and
    if name in ("max", "min"):
        if kind == "f":  # of two zeros numpy takes any
            zeros = np.concatenate([np.signbit(a[a == 0]) for a in (result, value)])
            return not zeros.any() or bool(zeros.all())
        return bool(kind != "c")
    return True


def _rounds(places: Array) -> list[Array]:
    """Positions in `places` such that each round has no place twice, and places keep their order over rounds."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(is_first)
    rank = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
    if not rank.any():
        return [order]
    by_rank = np.argsort(rank, kind="stable")
    return np.split(order[by_rank], np.cumsum(np.bincount(rank))[:-1])


# --- batching -------------------------------------------------------------------------------------


def batch_scatter(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    update_window_dims: Ints,
    inserted_window_dims: Ints,
    input_batching_dims: Ints,
    scatter_indices_batching_dims: Ints,
    scatter_dims_to_operand_dims: Ints,
    index_vector_dim: int,
    **params: Any,
) -> Any:
    """One more batching dimension; or one more dimension of the window, if the indices are shared."""
    count = len(args) // 2
    full = [
        a if b or i == count else broadcast_leading(a, size)
        for i, (a, b) in enumerate(zip(args, is_batched, strict=True))
    ]
    of_indices = is_batched[count]
    along = 1 if of_indices else 0
    windows = tuple(d + 1 for d in update_window_dims)
    batching = tuple(d + 1 for d in input_batching_dims)
    indices_batching = tuple(d + along for d in scatter_indices_batching_dims)
    if of_indices:
        full[count] = widened(full[count])
        batching = (0, *batching)
        indices_batching = (0, *indices_batching)
        params["indices_are_sorted"] = False
    else:
        windows = (0, *windows)
    return bind(
        op,
        *full,
        update_window_dims=windows,
        inserted_window_dims=tuple(d + 1 for d in inserted_window_dims),
        input_batching_dims=batching,
        scatter_indices_batching_dims=indices_batching,
        scatter_dims_to_operand_dims=tuple(d + 1 for d in scatter_dims_to_operand_dims),
        index_vector_dim=index_vector_dim + along,
        **params,
    )


scatter_op: Op = register(Op(
    name="scatter",
    section="Scatter",
    infer=infer_scatter,
    hlo=SCATTER_HLO,
    kernel=kernel_scatter,
    ad=scatter_derivatives,
    batch=batch_scatter,
))  # fmt: skip


# --- the public function --------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class ScatterDimensionNumbers:
    """What each dimension of a scatter's inputs, indices and updates is for.

    Attributes
    ----------
    update_window_dims : sequence of int
        The updates' dimensions that run over a window.
    inserted_window_dims : sequence of int
        The inputs' dimensions that a window has with size 1, and the updates do not have.
    scatter_dims_to_operand_dims : sequence of int
        The inputs' dimension that each entry of a start index is for.
    index_vector_dim : int
        The dimension of `scatter_indices` along which a start index lies; if it is the number of its
        dimensions, a start index is a single number.
    input_batching_dims, scatter_indices_batching_dims : sequence of int
        Pairs of dimensions that the inputs and the indices have in common.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    index_vector_dim: int
    input_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def scatter(
    operands: Any,
    scatter_indices: Any,
    updates: Any,
    update_computation: Any,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """Arrays with windows of them updated, each in a place of its own.

    Parameters
    ----------
    operands : array or sequence of arrays of one shape
    scatter_indices : array of integers
        The place of each window, along the dimension `index_vector_dim`.
    updates : array or sequence of arrays of one shape
        For each operand one of its element type.
    update_computation : function or Computation
        From the scalars of all operands and then those of all updates to the new ones: `xlapy.ops.add`, or
        ``lambda old, new: new`` to replace.
    dimension_numbers : ScatterDimensionNumbers
    indices_are_sorted : bool
        A promise that the start indices ascend.
    unique_indices : bool
        A promise that no element is updated twice.

    Returns
    -------
    Tensor or tuple of Tensor
        One for an operand that is no sequence.

    Raises
    ------
    ConstraintError, ShapeError, DTypeError
        [C1] to [C23] If the operands or the dimension numbers do not fit together.

    Notes
    -----
    Section Scatter of the operation semantics. A window that does not lie wholly within the operand is skipped. XLA on
    CPU and the interpreter apply the updates of one element in the order of the indices; other devices in any order.

    Where several updates compete, the derivative of a maximum or minimum is shared equally, and that of a product is
    right with zeros among the factors. Other computations are differentiated in forward mode, and in reverse mode if
    `unique_indices` is set.

    Examples
    --------
    >>> import xlapy
    >>> x = xlapy.ops.constant([1, 1, 1, 1])
    >>> each = ScatterDimensionNumbers((), (0,), (0,), 1)
    >>> scatter(x, [1, 3, 1, 9], xlapy.ops.constant([10, 20, 30, 40]), xlapy.ops.add, each)
    Tensor([ 1, 41,  1, 21], s32[4])
    """
    numbers = dimension_numbers
    require_numbers(numbers, ScatterDimensionNumbers)
    several = isinstance(operands, list | tuple) and not _is_nested_list(operands)
    inputs = [lift(x) for x in operands] if several else [lift(operands)]
    given = updates if several else (updates,)
    require(
        len(given) == len(inputs), "C5", "there must be as many updates as operands", len(given)
    )
    new = [lift(u, (x,)) for u, x in zip(given, inputs, strict=True)]
    if type(update_computation) is Computation:
        body = update_computation
        _require_body(body, [x.spec for x in inputs])
        inputs, new = in_types_of(body, inputs), in_types_of(body, new)
    else:
        scalars = [TensorSpec((), x.dtype) for x in inputs]
        body = as_computation(update_computation, [*scalars, *scalars], what="update_computation")
    results = bind(
        scatter_op,
        *inputs,
        lift(scatter_indices, inputs),
        *new,
        update_computation=body,
        update_window_dims=as_ints(numbers.update_window_dims, "update_window_dims", "C8"),
        inserted_window_dims=as_ints(numbers.inserted_window_dims, "inserted_window_dims", "C11"),
        input_batching_dims=as_ints(numbers.input_batching_dims, "input_batching_dims", "C13"),
        scatter_indices_batching_dims=as_ints(
            numbers.scatter_indices_batching_dims, "scatter_indices_batching_dims", "C15"
        ),
        scatter_dims_to_operand_dims=as_ints(
            numbers.scatter_dims_to_operand_dims, "scatter_dims_to_operand_dims", "C21"
        ),
        index_vector_dim=as_int(numbers.index_vector_dim, "index_vector_dim", "C22"),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
    )
    return results if several else results[0]


def _is_nested_list(x: Sequence[Any]) -> bool:
    """Whether a sequence is an array written out, rather than several arrays."""
    return not any(isinstance(e, Tensor | np.ndarray) for e in x)
