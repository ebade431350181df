"""Sort: arrays put in the order of a comparator, together; and TopK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.dtypes import as_dtype
from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_int,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import as_computation, lift
from xlapy.trace.codecs import BOOL, I64, Optional
from xlapy.trace.computation import Computation
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register, register_reader
from xlapy.trace.stablehlo import Writer
from xlapy.trace.stablehlo_reader import Reader

from .bit_kernels import NARROW_INT_BITS, total_order_key
from .regions import as_list, listed, rearranged, require_computation
from .rules import Rules, broadcast_leading, zeros_like
from .scalar_bodies import on_arrays, scalar_operation

Array = np.ndarray[Any, Any]

# --- the record -----------------------------------------------------------------------------------


def infer_sort(
    *operands: TensorSpec, dimension: int, is_stable: bool, comparator: Computation
) -> tuple[TensorSpec, ...]:
    """C1 to C5."""
    require(bool(operands), "C1", "there must be an operand", 0)
    for x in operands:
        require_array(x, "I1", "each operand")
    first = operands[0]
    for x in operands[1:]:
        require_shape(
            x.shape == first.shape and x.dynamic == first.dynamic,
            "C3",
            "the operands must be of one shape",
            operands,
        )
    rank = first.rank
    require(
        type(dimension) is int and -rank <= dimension < rank,
        "C4",
        f"dimension must be in [{-rank}, {rank})",
        dimension,
    )
    require_computation(comparator, _scalars(operands), "I4", "C5", "comparator")
    wanted = (TensorSpec((), as_dtype("pred")),)
    require_dtype(
        comparator.result_specs == wanted,
        "C5",
        "comparator must give one pred[]",
        listed(comparator.result_specs),
    )
    return tuple(operands)


def _scalars(operands: Sequence[Any]) -> list[TensorSpec]:
    """Those of the comparator: two of each operand, side by side."""
    return [TensorSpec((), x.dtype) for x in operands for _ in range(2)]


def kernel_sort(
    *arrays: Array, dimension: int, is_stable: bool, comparator: Any, out: Any
) -> tuple[Array, ...]:
    """result[..., i, ...] = operand[..., order[i], ...]; always stable."""
    x = arrays[0]
    length = x.shape[dimension]
    if x.size == 0 or length < 2:
        return arrays
    key = _key(comparator.computation, arrays)
    if key is not None:
        order = np.argsort(key, axis=dimension, kind="stable")
    else:
        moved = [np.moveaxis(a, dimension, -1) for a in arrays]
        found = _merge_order([m.reshape((-1, length)) for m in moved], comparator)
        order = np.moveaxis(found.reshape(moved[0].shape), -1, dimension)
    return tuple(np.take_along_axis(a, order, axis=dimension) for a in arrays)


def _key(comparator: Computation, arrays: Sequence[Array]) -> Array | None:
    """Integers in the order of a comparator that is one comparison of an operand's two elements, else None."""
    if len(comparator.instructions) != 1:
        return None
    (instruction,) = comparator.instructions
    direction = instruction.params.get("comparison_direction")
    if (
        instruction.op.name != "compare"
        or instruction.results != comparator.results
        or direction not in ("LT", "GT")
    ):
        return None
    a, b = instruction.operands
    pairs = list(zip(comparator.parameters[::2], comparator.parameters[1::2], strict=True))
    if (a, b) in pairs:
        x, ascends = arrays[pairs.index((a, b))], direction == "LT"
    elif (b, a) in pairs:
        x, ascends = arrays[pairs.index((b, a))], direction == "GT"
    else:
        return None
    if x.dtype in NARROW_INT_BITS:
        key = x.astype(np.int16)
    elif x.dtype.kind in "biu":
        key = x
    elif x.dtype.kind == "c":
        return None
    elif instruction.params.get("compare_type") == "TOTALORDER":
        key = total_order_key(x)
    else:
        if np.any(x != x):  # nan is before and after nothing: no order, so no key
            return None
        key = total_order_key(np.where(x == 0, np.zeros((), x.dtype), x))
    return key if ascends else ~key


def _merge_order(rows: Sequence[Array], comparator: Any) -> Array:
    """The stable order of each row, by merging ever longer runs, all of one length at once.

    An element of a left run goes behind those elements of the right run that come before it, which a binary search
    counts; the right run fills the places between. The counts are made to ascend, so the result is a permutation for
    any comparator, also for one that is no order.
    """
    count, length = rows[0].shape
    padded = 1 << (length - 1).bit_length()
    at = np.arange(count).reshape((count, 1, 1))
    order = np.broadcast_to(np.arange(padded), (count, padded))

    def precedes(i: Array, j: Array) -> Array:
        values = [x[at, np.minimum(k, length - 1)] for x in rows for k in (i, j)]
        return np.asarray(on_arrays(comparator, values)[0], dtype=bool)

    width = 1
    while width < length:
        runs = order.reshape((count, -1, 2, width))
        left, right = runs[:, :, 0], runs[:, :, 1]
        # What pads the last runs stays behind them: the search goes over the true elements only.
        starts = np.arange(width, padded, 2 * width).reshape((-1, 1))
        low = np.zeros(left.shape, np.int64)
        high = np.broadcast_to(np.clip(length - starts, 0, width), left.shape)
        for _ in range(width.bit_length()):
            unsettled = low < high
            middle = (low + high) // 2
            probe = np.take_along_axis(right, np.minimum(middle, width - 1), axis=-1)
            before = precedes(probe, left)
            low = np.where(unsettled & before, middle + 1, low)
            high = np.where(unsettled & ~before, middle, high)
        places = np.arange(width) + np.maximum.accumulate(low, axis=-1)
        from_left = np.zeros((*left.shape[:2], 2 * width), bool)
        np.put_along_axis(from_left, places, True, axis=-1)
        merged = np.empty(from_left.shape, np.int64)
        merged[from_left] = left.reshape(-1)
        merged[~from_left] = right.reshape(-1)
        order = merged.reshape((count, padded))
        width *= 2
    return order[:, :length]


# --- derivatives and batching ---------------------------------------------------------------------


def _positions(x: Any, dimension: int) -> Any:
    """The place of each element along the dimension."""
    spec = x.spec
    require_shape(spec.is_static, "X1", "sizes must be known for a derivative of sort", spec)
    number = as_dtype("s32" if spec.shape[dimension] < 2**31 else "s64")
    return bind(lookup("iota"), shape=spec.shape, dtype=number, iota_dimension=dimension)


def _order(operands: Sequence[Any], dimension: int, is_stable: bool, comparator: Any) -> Any:
    """The place that each result element comes from: sorted along with the operands."""
    places = _positions(operands[0], dimension)
    specs = _scalars([*[x.spec for x in operands], places.spec])
    wider = rearranged(comparator, specs, range(2 * len(operands)))
    return bind(
        sort_op, *operands, places, dimension=dimension, is_stable=is_stable, comparator=wider
    )[-1]


def _taken(x: Any, order: Any, dimension: int) -> Any:
    """x[..., order[..., i, ...], ...]."""
    rank = x.spec.rank
    others = tuple(d for d in range(rank) if d != dimension)
    return bind(
        lookup("gather"),
        x,
        order,
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        start_index_map=(dimension,),
        index_vector_dim=rank,
        slice_sizes=(1,) * rank,
        indices_are_sorted=False,
    )


def jvp_sort(
    operands: Sequence[Any],
    tangents: Sequence[Any],
    outs: Sequence[Any],
    *,
    dimension: int,
    is_stable: bool,
    comparator: Computation,
) -> Sequence[Any]:
    """The tangents in the order of the operands."""
    spec = operands[0].spec
    if all(t is None for t in tangents) or 0 in spec.shape:
        return tangents
    axis = dimension % spec.rank
    order = _order(operands, axis, is_stable, comparator)
    return [None if t is None else _taken(t, order, axis) for t in tangents]


def vjp_sort(
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    outs: Sequence[Any],
    *,
    dimension: int,
    is_stable: bool,
    comparator: Computation,
) -> Sequence[Any]:
    """The cotangents in the inverse order, which is what sorts the order."""
    spec = operands[0].spec
    if all(c is None for c in cotangents) or 0 in spec.shape:
        return cotangents
    axis = dimension % spec.rank
    order = _order(operands, axis, is_stable, comparator)
    places = _positions(order, axis)
    scalars = _scalars([order.spec, places.spec])
    ascending = as_computation(_first_less, scalars, name="comparator")
    _, inverse = bind(sort_op, order, places, dimension=axis, is_stable=False, comparator=ascending)
    return [None if c is None else _taken(c, inverse, axis) for c in cotangents]


def batch_sort(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    dimension: int,
    is_stable: bool,
    comparator: Computation,
) -> Any:
    """The dimensions move by one; those counted from the back stay."""
    full = [a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    axis = dimension + 1 if dimension >= 0 else dimension
    return bind(op, *full, dimension=axis, is_stable=is_stable, comparator=comparator)


sort_op: Op = register(Op(
    name="sort",
    section="Sort",
    infer=infer_sort,
    hlo=Hlo(
        "stablehlo.sort",
        {"dimension": Optional(I64, -1), "is_stable": BOOL},
        regions=("comparator",),
    ),
    kernel=kernel_sort,
    ad=Rules(jvp_sort, vjp_sort),
    batch=batch_sort,
))  # fmt: skip


def _first_less(x: Any, y: Any, *rest: Any) -> Any:
    """The first operand ascending; floats in their total order, so that nan has a place."""
    del rest
    kind = {"float": "TOTALORDER", "complex": "FLOAT"}.get(x.dtype.kind)
    params = {} if kind is None else {"compare_type": kind}
    return bind(lookup("compare"), x, y, comparison_direction="LT", **params)


def sort(
    operands: Any,
    dimension: int = -1,
    comparator: Callable[..., Any] | Computation | None = None,
    is_stable: bool = True,
) -> Any:
    """Arrays put in the order of a comparator along a dimension, together.

    Parameters
    ----------
    operands : array or sequence of arrays
        A tuple or list holds several operands, all of one shape; anything else is one.
    dimension : int
        Negative ones count from the back.
    comparator : callable or Computation, optional
        Of two scalars of each operand, side by side: whether the first ones come before the second. By default the
        first operand ascends; floats in their total order.
    is_stable : bool
        Whether elements of which neither comes before the other stay in their order.

    Returns
    -------
    Tensor or tuple of Tensor
        As the operands were given.

    Raises
    ------
    ConstraintError
        [C1] Without an operand, [C4] for a dimension that there is not.
    ShapeError
        [C3] If the shapes differ.
    DTypeError
        [C5] Unless the comparator takes two scalars of each operand and gives one truth value.

    Notes
    -----
    Section Sort of the operation semantics. The result of a comparator that is no order, such as less-than where there
    is nan, is some permutation. Where elements tie in a sort that is not stable, derivatives may take another order
    of them than the results. XLA on the CPU takes subnormal numbers for zeros where a comparator
    is nothing but `lt` or `gt`.

    Examples
    --------
    >>> sort([3, 1, 2])
    Tensor([1, 2, 3], s32[3])
    >>> keys, values = sort(([3, 1, 2], [10, 20, 30]))
    >>> values
    Tensor([20, 30, 10], s32[3])
    """
    several = isinstance(operands, list | tuple) and not _is_one(operands)
    xs = [lift(x) for x in (as_list(operands) if several else [operands])]
    require(bool(xs), "C1", "there must be an operand", 0)
    function = _first_less if comparator is None else comparator
    found = bind(
        sort_op,
        *xs,
        dimension=as_int(dimension, "dimension", "C4"),
        is_stable=bool(is_stable),
        comparator=as_computation(function, _scalars(xs), name="comparator", what="comparator"),
    )
    return found if several else found[0]


def _is_one(operands: Sequence[Any]) -> bool:
    """Whether a sequence is of numbers, so one array."""
    numbers = bool | int | float | complex
    return bool(operands) and all(isinstance(x, numbers) for x in operands)


# --- the largest and the smallest -----------------------------------------------------------------


def infer_top_k(operand: TensorSpec, *, k: int, largest: bool) -> tuple[TensorSpec, ...]:
    """X1 to X3; CHLO states no labels."""
    require_array(operand, "I1")
    require_dtype(operand.dtype.kind != "complex", "X1", "the operand must have an order", operand)
    require(not operand.dynamic, "X1", "the sizes must be known and not vary", operand)
    require_shape(operand.rank > 0, "X2", "the operand must have a dimension", operand)
    size = operand.shape[-1]
    ok = type(k) is int and k >= 0 and (size is DYNAMIC or k <= size)
    require(ok, "X3", f"k must be in [0, {size}]", k)
    shape = (*operand.shape[:-1], k)
    return operand.with_shape(shape), TensorSpec(shape, "s32")


def kernel_top_k(x: Array, *, k: int, largest: bool, out: Any) -> tuple[Array, ...]:
    """The first k of the stable order, by the total order of floats: nan is larger than everything."""
    if x.dtype in NARROW_INT_BITS:
        key = x.astype(np.int16)
    else:
        key = x if x.dtype.kind in "biu" else total_order_key(x)
    size = key.shape[-1]
    rank = ~key if largest else key
    if 0 < k < size // 8:
        # Only what can be among the first k is sorted: all that is not behind the k-th.
        bound = np.partition(rank, k - 1, axis=-1)[..., k - 1 : k]
        ahead = np.argsort(rank > bound, axis=-1, kind="stable")
        count = int((rank <= bound).sum(axis=-1).max(initial=k))
        ahead = ahead[..., :count]
        order = np.argsort(np.take_along_axis(rank, ahead, -1), axis=-1, kind="stable")[..., :k]
        order = np.take_along_axis(ahead, order, -1)
    else:
        order = np.argsort(rank, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def decompose_top_k(operand: Any, *, k: int, largest: bool) -> tuple[Any, ...]:
    """The first k of a stable sort."""
    spec = operand.spec
    axis = spec.rank - 1
    places = bind(lookup("iota"), shape=spec.shape, dtype=as_dtype("s32"), iota_dimension=axis)
    comparator = as_computation(
        _first_greater if largest else _first_less, _scalars([spec, places.spec])
    )
    found = bind(sort_op, operand, places, dimension=axis, is_stable=True, comparator=comparator)
    limits = (*spec.shape[:-1], k)
    cut = {"start_indices": (0,) * spec.rank, "limit_indices": limits, "strides": (1,) * spec.rank}
    return tuple(bind(lookup("slice"), f, **cut) for f in found)


def _first_greater(x: Any, y: Any, *rest: Any) -> Any:
    """The first operand descending."""
    return _first_less(y, x, *rest)


def jvp_top_k(
    operands: Sequence[Any], tangents: Sequence[Any], outs: Sequence[Any], *, k: int, largest: bool
) -> Sequence[Any]:
    """The tangents at the places that were found."""
    if outs[1].spec.size == 0:
        return [None, None]
    return [_taken(tangents[0], outs[1], operands[0].spec.rank - 1), None]


def vjp_top_k(
    operands: Sequence[Any],
    cotangents: Sequence[Any],
    outs: Sequence[Any],
    *,
    k: int,
    largest: bool,
) -> Sequence[Any]:
    """The cotangents in the places that were found, which are all different."""
    (x,) = operands
    if cotangents[0] is None or outs[1].spec.size == 0:
        return [None]
    rank = x.spec.rank
    others = tuple(range(rank - 1))
    (found,) = bind(
        lookup("scatter"),
        zeros_like(x),
        outs[1],
        cotangents[0],
        update_computation=scalar_operation("add", x.spec.dtype),
        update_window_dims=(),
        inserted_window_dims=(rank - 1,),
        input_batching_dims=others,
        scatter_indices_batching_dims=others,
        scatter_dims_to_operand_dims=(rank - 1,),
        index_vector_dim=rank,
        indices_are_sorted=False,
        unique_indices=True,
    )
    return [found]


def write_top_k(writer: Writer, instruction: Any) -> None:
    """CHLO has only the largest."""
    params = instruction.params
    attributes = f"k = {I64.print(params['k'])}"
    if params["largest"]:
        writer.line("chlo.top_k", instruction, attributes)
    else:
        writer.line("mhlo.topk", instruction, f"{attributes}, largest = false")


def read_top_k(reader: Reader, operation: Any) -> Any:
    """Either dialect's."""
    largest = reader.attribute(operation, "largest")
    return bind(
        top_k_op,
        *reader.operands(operation),
        k=I64.parse(reader.attribute(operation, "k")),
        largest=True if largest is None else BOOL.parse(largest),
    )


top_k_op: Op = register(Op(
    name="top_k",
    section="TopK",
    infer=infer_top_k,
    hlo=Hlo(
        "chlo.top_k",
        decomposition=decompose_top_k,
        write=write_top_k,
        read=read_top_k,
        is_portable=lambda params: bool(params["largest"]),
    ),
    kernel=kernel_top_k,
    ad=Rules(jvp_top_k, vjp_top_k),
    batch=lambda op, args, is_batched, size, **params: bind(op, *args, **params),
))  # fmt: skip
register_reader("mhlo.topk", read_top_k)


def top_k(operand: Any, k: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The largest or smallest elements along the last dimension, in order, and their positions.

    Parameters
    ----------
    operand : array
        Of at least one dimension.
    k : int
        How many of them.
    largest : bool
        Whether to take the largest ones, or the smallest.

    Returns
    -------
    values : Tensor
    indices : Tensor
        s32, of the same shape: that of the operand with the last size k.

    Raises
    ------
    ConstraintError, ShapeError, DTypeError
        [X1] to [X3] If there are not so many elements, or they have no order.

    Notes
    -----
    Section TopK of the operation semantics. Of equal elements the one of lower index comes first. Floats are in their
    total order: nan is larger than everything, and -0 is smaller than +0.

    Examples
    --------
    >>> from xlapy import ops
    >>> ops.top_k([3.0, 1.0, 4.0, 1.0, 5.0], 2)
    (Tensor([5., 4.], f32[2]), Tensor([4, 2], s32[2]))
    """
    found: tuple[Tensor, Tensor] = bind(
        top_k_op, lift(operand), k=as_int(k, "k", "X3"), largest=bool(largest)
    )
    return found
