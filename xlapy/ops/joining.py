"""Pad and ConcatInDim: larger arrays from smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.specs import (
    DYNAMIC,
    TensorSpec,
    as_axis,
    as_int,
    as_ints,
    as_items,
    require,
    require_array,
    require_dtype,
    require_shape,
)
from xlapy.tensor import Tensor
from xlapy.trace.builder import lift
from xlapy.trace.codecs import I64, I64_ARRAY
from xlapy.trace.mode import bind
from xlapy.trace.op import Hlo, Op, lookup, register
from xlapy.trace.sizes import sized_like, whole
from xlapy.trace.zeros import constant_of

from .forms import part
from .reduction import reduce_sum
from .rules import broadcast_leading, linear, zeros_of

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


# --- Pad ----------------------------------------------------------------------------------------


def padded_size(size: int, low: int, high: int, interior: int) -> int:
    """Low + size + (size - 1) * interior + high, of at least one element; negative if cut below 0."""
    return low + size + max(size - 1, 0) * interior + high


def infer_pad(
    x: TensorSpec,
    value: TensorSpec,
    *,
    edge_padding_low: Ints,
    edge_padding_high: Ints,
    interior_padding: Ints,
) -> TensorSpec:
    """C1 to C4."""
    require_array(x, "I1")
    require_array(value, "I2", "the padding value")
    require_shape(value.rank == 0, "I2", "the padding value must be a scalar", value)
    require_dtype(
        x.dtype is value.dtype, "C1", "the padding value must have the operand's type", value.dtype
    )
    for name, entries in (
        ("edge_padding_low", edge_padding_low),
        ("edge_padding_high", edge_padding_high),
        ("interior_padding", interior_padding),
    ):
        require(len(entries) == x.rank, "C2", f"{name} must have {x.rank} entries", entries)
    require(
        all(i >= 0 for i in interior_padding),
        "C3",
        "interior_padding must not be negative",
        interior_padding,
    )
    sizes = [
        n if n is DYNAMIC else padded_size(n, *padding)
        for n, *padding in zip(x.shape, edge_padding_low, edge_padding_high, interior_padding)
    ]
    require_shape(
        all(m is DYNAMIC or n >= 0 for n, m in zip(sizes, x.shape)),
        "C4",
        "negative padding must not remove more than there is",
        (edge_padding_low, edge_padding_high),
    )
    return x.with_shape(sizes, x.dynamic)


def kernel_pad(
    x: Array,
    value: Array,
    *,
    edge_padding_low: Ints,
    edge_padding_high: Ints,
    interior_padding: Ints,
    out: TensorSpec,
) -> Array:
    """result[low + i * (interior + 1)] = operand[i], and the padding value elsewhere."""
    shape = [
        padded_size(n, *padding)
        for n, *padding in zip(x.shape, edge_padding_low, edge_padding_high, interior_padding)
    ]
    require_shape(
        min(shape, default=0) >= 0,
        "C4",
        "negative padding must not remove more than there is",
        x.shape,
    )
    result = np.full(shape, value, x.dtype)
    source, target = [], []
    for n, m, low, interior in zip(x.shape, shape, edge_padding_low, interior_padding):
        step = interior + 1
        first = max(0, -(low // step))  # the first element that lands inside: ceil(-low / step)
        stop = max(first, min(n, -((low - m) // step)))  # ceil((m - low) / step)
        source.append(np.s_[first:stop])
        start = low + first * step
        target.append(
            np.s_[start : start + (stop - first) * step : step] if stop > first else np.s_[:0]
        )
    result[tuple(target)] = x[tuple(source)]
    return result


def transpose_pad(
    g: Any,
    x: Any,
    value: Any,
    *,
    edge_padding_low: Ints,
    edge_padding_high: Ints,
    interior_padding: Ints,
) -> Any:
    """Pad by the negative, and take every (interior + 1)-th; the rest is the padding value's."""
    pad = lookup("pad")
    spec = x.spec
    zero = zeros_of(value.spec)
    inside = bind(
        pad,
        g,
        zero,
        edge_padding_low=tuple(-n for n in edge_padding_low),
        edge_padding_high=tuple(-n for n in edge_padding_high),
        interior_padding=(0,) * spec.rank,
    )
    if any(interior_padding):
        inside = bind(
            lookup("slice"),
            inside,
            start_indices=(0,) * spec.rank,
            limit_indices=inside.spec.shape,
            strides=tuple(i + 1 for i in interior_padding),
        )
    element = constant_of(spec.with_shape(spec.shape).with_dtype("pred"), False)
    zeros = zeros_of(g.spec.with_shape(g.spec.shape))
    if not spec.is_static:
        element, zeros = sized_like(element, x), sized_like(zeros, g)
    is_padding = bind(
        pad,
        element,
        constant_of(TensorSpec((), "pred"), True),
        edge_padding_low=edge_padding_low,
        edge_padding_high=edge_padding_high,
        interior_padding=interior_padding,
    )
    outside = bind(lookup("select"), is_padding, g, zeros)
    return inside, reduce_sum(outside, range(spec.rank)) if spec.rank else outside


def batch_pad(
    op: Op,
    args: Sequence[Any],
    is_batched: Sequence[bool],
    size: int,
    *,
    edge_padding_low: Ints,
    edge_padding_high: Ints,
    interior_padding: Ints,
) -> Any:
    """No padding along the new axis; a batched value is selected where the padding is."""
    x, value = args
    if not is_batched[0]:
        x = broadcast_leading(x, size)
    params = {
        "edge_padding_low": (0, *edge_padding_low),
        "edge_padding_high": (0, *edge_padding_high),
        "interior_padding": (0, *interior_padding),
    }
    if not is_batched[1]:
        return bind(op, x, value, **params)
    spec = x.spec
    padded = bind(op, x, zeros_of(TensorSpec((), spec.dtype)), **params)
    is_padding = bind(
        op,
        constant_of(spec.with_dtype("pred"), False),
        constant_of(TensorSpec((), "pred"), True),
        **params,
    )
    values = bind(
        lookup("broadcast_in_dim"), value, shape=padded.spec.shape, broadcast_dimensions=(0,)
    )
    return bind(lookup("select"), is_padding, values, padded)


pad_op = register(Op(
    name="pad",
    section="Pad",
    infer=infer_pad,
    hlo=Hlo("stablehlo.pad", {
        "edge_padding_low": I64_ARRAY,
        "edge_padding_high": I64_ARRAY,
        "interior_padding": I64_ARRAY,
    }),
    kernel=kernel_pad,
    ad=linear(transpose_pad, wrt=(0, 1)),
    batch=batch_pad,
))  # fmt: skip


def pad(
    operand: Any,
    padding_value: Any,
    padding_config: Sequence[Sequence[int]] | None = None,
    *,
    edge_padding_low: int | Sequence[int] | None = None,
    edge_padding_high: int | Sequence[int] | None = None,
    interior_padding: int | Sequence[int] | None = None,
) -> Tensor:
    """Put a value around the elements, and between them.

    Parameters
    ----------
    operand : array of any type
    padding_value : scalar of that type
    padding_config : sequence of (low, high) or (low, high, interior)
        For each dimension, how many to add before and after, negative ones removing that many; and how many to put
        between two neighbours, before the edges are padded.
    edge_padding_low, edge_padding_high, interior_padding : sequence of int, optional
        StableHLO's form of the same, instead; what is left out is 0.

    Returns
    -------
    Tensor
        Of size ``low + n + (n - 1) * interior + high`` in each dimension.

    Raises
    ------
    DTypeError
        [C1] If the value has another type.
    ConstraintError
        [C2] Unless there is an entry for each dimension; [C3] for a negative interior padding.
    ShapeError
        [C4] If more is removed than there is.

    Notes
    -----
    Section Pad of the operation semantics.

    Examples
    --------
    >>> pad([1, 2, 3], 0, [(1, 2, 1)])
    Tensor([0, 1, 0, 2, 0, 3, 0, 0], s32[8])
    >>> pad([1, 2, 3], 0, [(-1, 0)])
    Tensor([2, 3], s32[2])
    """
    x = lift(operand)
    value = lift(padding_value, (x,))
    named = [edge_padding_low, edge_padding_high, interior_padding]
    if padding_config is not None:
        require(
            named == [None] * 3,
            "X1",
            "the padding must be given in one form",
            "padding_config and another",
        )
        rows = [
            as_ints(row, "padding_config", "C2")
            for row in as_items(padding_config, "padding_config", "C2")
        ]
        require(
            all(len(row) in (2, 3) for row in rows),
            "C2",
            "padding_config must have pairs (low, high) or triples (low, high, interior)",
            padding_config,
        )
        full = [(*row, 0)[:3] for row in rows]
        low, high, interior = (tuple(row[i] for row in full) for i in range(3))
    else:
        zeros = (0,) * x.ndim
        names = ("edge_padding_low", "edge_padding_high", "interior_padding")
        low, high, interior = (
            zeros if given is None else as_ints(given, name, "C2")
            for name, given in zip(names, named)
        )
    result: Tensor = bind(
        pad_op,
        x,
        value,
        edge_padding_low=low,
        edge_padding_high=high,
        interior_padding=interior,
    )
    return result


# --- ConcatInDim --------------------------------------------------------------------------------


def infer_concatenate(*xs: TensorSpec, dimension: int) -> TensorSpec:
    """C1 to C6."""
    require(len(xs) > 0, "C3", "there must be an operand", 0)
    for x in xs:
        require_array(x, "I1")
    first = xs[0]
    require_dtype(
        all(x.dtype is first.dtype for x in xs),
        "C1",
        "the operands must be of one element type",
        tuple(x.dtype for x in xs),
    )
    require_shape(
        all(x.rank == first.rank for x in xs),
        "C2",
        "the operands must have the same number of dimensions",
        tuple(x.rank for x in xs),
    )
    require(0 <= dimension < first.rank, "C4", f"dimension must be in [0, {first.rank})", dimension)
    shape = list(first.shape)
    dynamic: set[int] = set()
    for axis in range(first.rank):
        sizes = [x.shape[axis] for x in xs]
        if any(axis in x.dynamic for x in xs):
            dynamic.add(axis)
        if axis == dimension:
            # A size that is not known makes the whole not known.
            shape[axis] = -1 if -1 in sizes else sum(sizes)
            continue
        known = [n for n in sizes if n != -1]
        require_shape(
            all(n == known[0] for n in known),
            "C2",
            f"the operands must have the same shape, dimension {dimension} apart",
            tuple(x.shape for x in xs),
        )
        shape[axis] = known[0] if known else -1
    return first.with_shape(shape, sorted(d for d in dynamic if shape[d] != -1))


def kernel_concatenate(*xs: Array, dimension: int, out: TensorSpec) -> Array:
    """One after the other."""
    return np.concatenate(xs, dimension)


def transpose_concatenate(g: Any, *xs: Any, dimension: int) -> Any:
    """The piece of each operand."""
    if dimension in g.spec.dynamic:
        return _varying_pieces(g, xs, dimension)
    pieces, start = [], 0
    for x in xs:
        size = x.spec.shape[dimension]
        pieces.append(part(g, start, dimension, size))
        start += size
    return tuple(pieces)


def _varying_pieces(g: Any, xs: Sequence[Any], dimension: int) -> tuple[Any, ...]:
    """Where one operand ends, the next begins: that is known when the program runs."""
    full = whole(g)
    zero = constant_of(TensorSpec((), "s32"), 0)
    pieces, start = [], zero
    for x in xs:
        starts = [start if d == dimension else zero for d in range(x.spec.rank)]
        piece = bind(lookup("dynamic_slice"), full, *starts, slice_sizes=x.spec.shape)
        pieces.append(sized_like(piece, x))
        size = bind(lookup("get_dimension_size"), x, dimension=dimension)
        start = bind(lookup("add"), start, size)
    return tuple(pieces)


def batch_concatenate(
    op: Op, args: Sequence[Any], is_batched: Sequence[bool], size: int, *, dimension: int
) -> Any:
    """All operands get the new axis."""
    full = [a if b else broadcast_leading(a, size) for a, b in zip(args, is_batched, strict=True)]
    return bind(op, *full, dimension=dimension + 1)


concatenate_op = register(Op(
    name="concatenate",
    section="ConcatInDim",
    infer=infer_concatenate,
    hlo=Hlo("stablehlo.concatenate", {"dimension": I64}),
    kernel=kernel_concatenate,
    ad=linear(transpose_concatenate, wrt=None),
    batch=batch_concatenate,
))  # fmt: skip


def concat_in_dim(operands: Sequence[Any], dimension: int) -> Tensor:
    """Arrays one after the other along a dimension.

    Parameters
    ----------
    operands : sequence of arrays
        At least one; of one element type, and of one shape apart from `dimension`.
    dimension : int
        Negative ones count from the back.

    Returns
    -------
    Tensor

    Raises
    ------
    DTypeError
        [C1] If the element types differ.
    ShapeError
        [C2] If the shapes differ elsewhere.
    ConstraintError
        [C3] Without an operand; [C4] if there is no such dimension.

    Notes
    -----
    Section ConcatInDim of the operation semantics.

    Examples
    --------
    >>> concat_in_dim([[1, 2], [3]], 0)
    Tensor([1, 2, 3], s32[3])
    """
    tensors = [lift(x) for x in as_items(operands, "operands")]
    rank = next((t.spec.rank for t in tensors if type(t.spec) is TensorSpec), 0)
    axis = as_axis(dimension, rank, "C4") if rank else as_int(dimension, "dimension", "C4")
    result: Tensor = bind(concatenate_op, *tensors, dimension=axis)
    return result


#: StableHLO's name
concatenate = concat_in_dim
