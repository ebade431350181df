"""Reading elements: ``x[...]``, `take` and `take_along_axis`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from xlapy.backends.eager import put
from xlapy.dtypes import as_dtype
from xlapy.errors import DTypeError, OutOfRangeError, ShapeError, XlapyError
from xlapy.source import hide_library_frames
from xlapy.specs import DYNAMIC, TensorSpec, as_axis, as_int, broadcast_shapes
from xlapy.staging import composite
from xlapy.tensor import Placed, Placement, Tensor
from xlapy.trace.builder import host_array
from xlapy.trace.mode import annotate, current_builder
from xlapy.trace.zeros import zeros_of

from .any_size import cut, require_known_size
from .index_forms import Index, parse
from .promotion import as_tensor, broadcast_to_shape, call, convert, filled, is_weak

__all__ = ["getitem", "index_scalar", "take", "take_along_axis"]

_S32, _S64 = as_dtype("s32"), as_dtype("s64")


# --- reading ------------------------------------------------------------------------------------------------------

#: integers as tensors, for those that come again: by place and value
_places: Final[dict[tuple[Placement, int], Tensor]] = {}


def place_tensor(i: int, placement: Placement) -> Tensor:
    """An integer as a tensor that lies somewhere; those seen lately are kept."""
    found = _places.get((placement, i))
    if found is None:
        if len(_places) >= 4096:
            _places.pop(next(iter(_places)))
        kind = np.int32 if i <= 2**31 - 1 else np.int64
        found = _places[placement, i] = put(np.asarray(i, kind), placement)
    return found


@composite(arrays=2, name="getitem")
def _row(x: Any, i: Any, /) -> Any:
    return read(x, Index((("at",), *[("all", n) for n in x.shape[1:]]), [i]))


@composite(arrays=2, name="getitem")
def _rows(x: Any, start: Any, count: int) -> Any:
    form = (("run", count, 1), *[("all", n) for n in x.shape[1:]])
    return read(x, Index(form, [start]))


@composite(arrays=2, nested=True, name="getitem")
def _indexed(x: Any, operands: list[Any], form: tuple[Any, ...]) -> Any:
    return read(x, Index(form, operands))


def getitem(x: Tensor, index: Any, /) -> Tensor:
    """The elements that an index picks, as numpy's ``x[index]``; always a copy.

    Parameters
    ----------
    x : Tensor
    index : int, slice, None, Ellipsis, array-like of integers or truth values, or a tuple of these

    Returns
    -------
    Tensor

    Raises
    ------
    OutOfRangeError
        If an integer, or one of an array that is no tensor, is out of range. Those of tensors are not looked at: a
        place beyond the end is taken to be the last one.
    TracingError
        For a mask in a trace.

    Examples
    --------
    >>> x = xlapy.asarray([[1, 2, 3], [4, 5, 6]])
    >>> x[1], x[:, ::-1], x[[1, 0], [0, 2]]
    (Tensor([4, 5, 6], s32[3]), Tensor([[3, 2, 1],
            [6, 5, 4]], s32[2,3]), Tensor([4, 3], s32[2]))
    """
    placed = x.placed
    if current_builder() is None and type(placed) is Placed:
        kind = type(index)
        try:
            if kind is int:
                size = x.shape[0]
                if -size <= index < size:
                    if index < 0:
                        index += size
                    found: Tensor = _row(x, place_tensor(index, placed.placement))
                    return found
            elif kind is slice and index.step is None:
                size = x.shape[0]
                start, stop, _ = index.indices(size)
                if 0 < stop - start < size:
                    found = _rows(x, place_tensor(start, placed.placement), stop - start)
                    return found
        except (AttributeError, IndexError, TypeError):
            pass
    try:
        return _getitem(x, index)
    except XlapyError as error:
        error = annotate(error, "getitem", [placed.spec])
        hide_library_frames(error)
        raise error from None


def _getitem(x: Tensor, index: Any) -> Tensor:
    spec = x.placed.spec
    if type(spec) is not TensorSpec:
        raise DTypeError(f"what is indexed must be an array; got {spec} [X1]")
    if not spec.is_static and type(x.placed) is not Placed:
        x, index = cut(x, index)
    parsed = parse(index, x.shape)
    if current_builder() is None and type(x.placed) is Placed:
        placement = x.placed.placement
        operands = [settled(v, placement) for v in parsed.operands]
        found: Tensor = _indexed(x, operands, parsed.form)
        return found
    if not parsed.operands and None not in parsed.form:
        return Tensor(x.placed, x.payload)
    return read(x, parsed)


def settled(v: Any, placement: Placement) -> Tensor:
    """An operand of an index as a concrete tensor."""
    if type(v) is Tensor:
        return v
    return place_tensor(v, placement) if type(v) is int else put(v, placement)


def read(x: Tensor, index: Index) -> Tensor:
    """The elements that an index picks, recorded."""
    x, (form, operands) = unflagged(x, index)
    if any(e is not None and e[0] == "array" for e in form):
        return _gathered(x, form, operands)
    starts: list[Any] = []
    counts: list[int] = []
    steps: list[int] = []
    result: list[int] = []
    given = iter(operands)
    for entry in form:
        if entry is None:
            result.append(1)
        elif entry[0] == "all":
            _add(starts, counts, steps, (0, entry[1], 1))
            result.append(entry[1])
        elif entry[0] == "at":
            _add(starts, counts, steps, (next(given), 1, 1))
        elif entry[0] == "run":
            _add(starts, counts, steps, (next(given), entry[1], entry[2]))
            result.append(entry[1])
    return _reshaped(sliced_at(x, starts, counts, steps), tuple(result))


def _add(
    starts: list[Any], counts: list[int], steps: list[int], entry: tuple[Any, int, int]
) -> None:
    for values, value in zip((starts, counts, steps), entry, strict=True):
        values.append(value)


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return x if x.shape == shape else call("reshape", x, shape=shape)


def unflagged(x: Tensor, index: Index) -> tuple[Tensor, Index]:
    """Truth values as index turned into arrays along new axes of size 1."""
    if ("flag",) not in index.form:
        return x, index
    form = tuple([("array",) if e == ("flag",) else e for e in index.form])
    x = call("reshape", x, shape=_flagged_shape(x.shape, index.form))
    return x, Index(form, index.operands)


def _flagged_shape(shape: tuple[int, ...], form: Sequence[Any]) -> tuple[int, ...]:
    sizes = iter(shape)
    found: list[int] = []
    for e in form:
        if e == ("flag",):
            found.append(1)
        elif e is not None and e[0] != "dots":
            found.append(next(sizes))
    return tuple(found)


def sliced_at(
    x: Tensor, starts: Sequence[Any], counts: Sequence[int], steps: Sequence[int]
) -> Tensor:
    """A slice for each axis: from its lowest element, so many, at a distance; backwards for a negative step."""
    extents = [
        (c - 1) * abs(s) + 1 if c and c is not DYNAMIC else c
        for c, s in zip(counts, steps, strict=True)
    ]
    strides = tuple([abs(s) for s in steps])
    if all(type(s) is int for s in starts):
        if any(s != 1 for s in strides) or extents != list(x.shape):
            limits = tuple(
                [a + e if e is not DYNAMIC else e for a, e in zip(starts, extents, strict=True)]
            )
            x = call("slice", x, start_indices=tuple(starts), limit_indices=limits, strides=strides)
    else:
        places = uniform(
            [s if type(s) is int else whole(s, n) for s, n in zip(starts, x.shape, strict=True)]
        )
        if tuple(extents) != x.shape:
            x = call("dynamic_slice", x, *places, slice_sizes=tuple(extents))
        if any(s != 1 for s in strides):
            zeros = (0,) * x.ndim
            x = call("slice", x, start_indices=zeros, limit_indices=x.shape, strides=strides)
    backwards = tuple([i for i, s in enumerate(steps) if s < 0])
    return call("rev", x, dimensions=backwards) if backwards else x


def index_scalar(i: Any) -> Tensor:
    """An integer scalar of s32 or s64, from a Python integer or an integer tensor."""
    i = as_tensor(i)
    if not i.dtype.integer or i.ndim:
        raise DTypeError(f"an index or shift must be an integer scalar; got {i.spec} [X1]")
    return _signed(i, 2**31)


def _signed(i: Tensor, size: int) -> Tensor:
    """Integers of a signed type that can count from the end of a size."""
    dtype = i.dtype
    if dtype is _S32 or dtype is _S64:
        return i
    if dtype.kind == "uint" and dtype.bits >= 32:
        limit = filled(i, min(size, (1 << dtype.bits) - 1, 2**31 - 1))
        return convert(call("min", i, limit), _S32)
    return convert(i, _S32)


def whole(i: Tensor, size: int) -> Tensor:
    """Places counted from the front, of s32 or s64, from ones that may be negative."""
    if is_weak(i):
        i = as_tensor(i)
    unsigned = i.dtype.kind == "uint"
    i = _signed(i, size)
    if unsigned:
        return i
    below = call("compare", i, filled(i, 0), comparison_direction="LT")
    return call("select", below, call("add", i, filled(i, size)), i)


def uniform(places: Sequence[Any]) -> list[Tensor]:
    """Scalars and ints as scalars of one element type."""
    wide = any(type(p) is Tensor and p.dtype is _S64 for p in places)
    dtype = _S64 if wide else _S32
    like = next(p for p in places if type(p) is Tensor)
    zero = convert(filled(like, 0), dtype) if like.dtype is not dtype else filled(like, 0)
    return [convert(p, dtype) if type(p) is Tensor else filled(zero, p) for p in places]


# --- arrays as index ----------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """Where what an index with arrays picks lies in the result.

    Attributes
    ----------
    arrays : list of (axis, operand)
        The axes that are picked from, and by what.
    starts, counts, steps : list
        The slices of all axes, those picked from being whole.
    block : tuple of int
        The shape of the picks.
    place : int
        How many axes of the rest come before the block.
    shape : tuple of int
        Of the result, new axes included.
    """

    arrays: list[tuple[int, Any]]
    starts: list[Any]
    counts: list[int]
    steps: list[int]
    block: tuple[int, ...]
    place: int
    shape: tuple[int, ...]


def lay_out(x: Tensor, form: Sequence[Any], operands: Sequence[Any]) -> Layout:
    """Numpy's rule: the picks stand where the arrays do, or in front where something lies between the arrays."""
    arrays: list[tuple[int, Any]] = []
    starts: list[Any] = []
    counts: list[int] = []
    steps: list[int] = []
    before: list[int] = []
    after: list[int] = []
    gaps = 0
    closed = False
    rest = 0
    place = 0
    given = iter(operands)
    axis = 0
    for entry in form:
        picks = entry is not None and entry[0] in ("at", "array")
        if picks:
            if closed:
                gaps += 1
            arrays.append((axis, next(given)))
            _add(starts, counts, steps, (0, x.shape[axis], 1))
            axis += 1
            continue
        if arrays:
            closed = True
        if entry is None:
            (after if arrays else before).append(1)
        elif entry[0] != "dots":
            slice_of = (0, entry[1], 1) if entry[0] == "all" else (next(given), entry[1], entry[2])
            _add(starts, counts, steps, slice_of)
            (after if arrays else before).append(entry[1])
            rest += 1
            if not arrays:
                place += 1
            axis += 1
    block = broadcast_shapes(*[_shape(a) for _, a in arrays])
    if gaps:
        return Layout(arrays, starts, counts, steps, block, 0, (*block, *before, *after))
    return Layout(arrays, starts, counts, steps, block, place, (*before, *block, *after))


def _shape(x: Any) -> tuple[int, ...]:
    return () if type(x) is int else x.shape


def index_array(x: Tensor, arrays: Sequence[tuple[int, Any]], block: tuple[int, ...]) -> Tensor:
    """The picks as vectors of places: of the block's shape and one dimension more."""
    columns = []
    for axis, a in arrays:
        i = as_tensor(np.asarray(a, np.int32) if type(a) is int else a)
        columns.append(whole(i, x.shape[axis]) if type(a) is Tensor else i)
    dtype = _S64 if any(c.dtype is _S64 for c in columns) else _S32
    columns = [broadcast_to_shape(convert(c, dtype), block) for c in columns]
    parts = [call("reshape", c, shape=(*block, 1)) for c in columns]
    return parts[0] if len(parts) == 1 else call("concatenate", *parts, dimension=len(block))


def _gathered(x: Tensor, form: Sequence[Any], operands: Sequence[Any]) -> Tensor:
    layout = lay_out(x, form, operands)
    x = sliced_at(x, layout.starts, layout.counts, layout.steps)
    picked = tuple(axis for axis, _ in layout.arrays)
    rank = len(layout.block) + x.ndim - len(picked)
    block = range(layout.place, layout.place + len(layout.block))
    if not all(x.shape[a] for a in picked) and 0 not in layout.block:
        raise OutOfRangeError(f"the axis to pick from must not be empty; got {x.spec} [X1]")
    if 0 in layout.block or not x.size:
        return _nothing(x, layout.shape)
    found = call(
        "gather", x, index_array(x, layout.arrays, layout.block),
        offset_dims=tuple(i for i in range(rank) if i not in block),
        collapsed_slice_dims=picked,
        operand_batching_dims=(),
        start_indices_batching_dims=(),
        start_index_map=picked,
        index_vector_dim=len(layout.block),
        slice_sizes=tuple(1 if i in picked else n for i, n in enumerate(x.shape)),
        indices_are_sorted=False,
    )  # fmt: skip
    return _reshaped(found, layout.shape)


def _nothing(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """An empty array: nothing is read, whatever the places."""
    result: Tensor = zeros_of(TensorSpec(shape, x.dtype))
    return result


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Tensor:
    """Slices along an axis, at the places that an array of integers says.

    Parameters
    ----------
    x : array-like
    indices : array-like of int
        Negative ones count from the back. As for ``x[indices]``, those of tensors are not checked.
    axis : int, optional
        By default the elements are counted as if they stood in one dimension.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> xlapy.take(xlapy.asarray([[1, 2, 3], [4, 5, 6]]), xlapy.asarray([2, 0]), axis=1)
    Tensor([[3, 1],
            [6, 4]], s32[2,2])
    """
    from .creation import asarray
    from .shaping import ravel

    x = x if type(x) is Tensor else asarray(x)
    if axis is None:
        x, axis = ravel(x), 0
    place = as_axis(as_int(axis, "axis"), x.ndim)
    if type(indices) is not Tensor and not isinstance(indices, int):
        indices = host_array(indices)
        if indices.dtype.kind == "b":
            raise DTypeError("take: indices must be integers; got truth values [X1]")
    return getitem(x, (*[slice(None)] * place, indices))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Tensor:
    """From each line along an axis the elements at the places that stand in the same line of `indices`.

    Parameters
    ----------
    x : array-like
    indices : array-like of int
        Of the rank of `x`; the other dimensions are broadcast. Places out of range are taken to be the last one.
    axis : int

    Returns
    -------
    Tensor

    Examples
    --------
    >>> x = xlapy.asarray([[3, 1, 2], [6, 5, 4]])
    >>> xlapy.take_along_axis(x, xlapy.argsort(x, axis=1), axis=1)
    Tensor([[1, 2, 3],
            [4, 5, 6]], s32[2,3])
    """
    return _take_along_axis(x, indices, as_int(axis, "axis"))


@composite(arrays=2)
def _take_along_axis(x: Any, indices: Any, axis: int) -> Tensor:
    x, indices = as_tensor(x), as_tensor(indices)
    if not indices.dtype.integer:
        raise DTypeError(f"indices must be integers; got {indices.spec} [X1]")
    if indices.ndim != x.ndim:
        raise ShapeError(f"indices must have {x.ndim} dimensions; got {indices.spec} [X1]")
    place = as_axis(axis, x.ndim)
    require_known_size(x, place, "places")
    lines = broadcast_shapes(*[(*t.shape[:place], 1, *t.shape[place + 1 :]) for t in (x, indices)])
    count, size = indices.shape[place], x.shape[place]
    x = broadcast_to_shape(x, (*lines[:place], size, *lines[place + 1 :]))
    indices = broadcast_to_shape(indices, (*lines[:place], count, *lines[place + 1 :]))
    if not indices.size:
        return _nothing(x, indices.shape)
    if not size:
        raise OutOfRangeError(f"the axis to pick from must not be empty; got {x.spec} [X1]")
    batch = tuple(i for i in range(x.ndim) if i != place)
    vectors = call("reshape", whole(indices, size), shape=(*indices.shape, 1))
    return call(
        "gather", x, vectors,
        offset_dims=(),
        collapsed_slice_dims=(place,),
        operand_batching_dims=batch,
        start_indices_batching_dims=batch,
        start_index_map=(place,),
        index_vector_dim=x.ndim,
        slice_sizes=(1,) * x.ndim,
        indices_are_sorted=False,
    )  # fmt: skip
